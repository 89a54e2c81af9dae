//! `approximate-math` against the interpreter's functions of doubles, over all kinds of numbers: one in a step of the
//! bits of `f32`, from the least to the largest, of both signs, and all that is special.
//!
//! `TIR_APPROXIMATION_STEP=257` looks at sixteen million of each function.

use tir::data::Array;
use tir::{Data, Interpreter, Ir, Name, PassManager, Pipeline};
use tir_native::ApproximateMath;
use tir_support::read;

const FUNCTIONS: [&str; 6] = ["exp", "exp2", "log", "log1p", "tanh", "erf"];

fn inputs() -> Vec<f32> {
    let step = std::env::var("TIR_APPROXIMATION_STEP").ok();
    let step: usize = step.map_or(40_961, |text| text.parse().unwrap());
    let mut all: Vec<f32> = (0..=u32::MAX).step_by(step).map(f32::from_bits).collect();
    let special = [
        0.0,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
        1.0,
        0.6,
        0.92,
        4.0,
        9.0,
        10.0,
        88.722_84,
        88.722_85,
        103.97,
        104.0,
        126.0,
        127.0,
        128.0,
        149.0,
        150.0,
        151.0,
    ];
    for x in special {
        let near = [x.next_down(), x, x.next_up()];
        all.extend(near.into_iter().flat_map(|x| [x, -x]));
    }
    all
}

fn program(function: &str, count: usize, elem: &str) -> Ir {
    let ty = format!("tensor<{count}x{elem}>");
    read(&format!(
        "func.func @main(%x: {ty}) -> {ty} {{
  %y = math.{function} %x : {ty}
  func.return %y : {ty}
}}"
    ))
}

fn approximated(mut ir: Ir) -> Ir {
    let mut pipeline = Pipeline::new();
    pipeline.nest("func.func", |p| {
        p.add(ApproximateMath::default());
    });
    PassManager::new(pipeline)
        .run(&mut ir)
        .into_result()
        .unwrap();
    ir
}

fn run(ir: &Ir, input: Array) -> Array {
    let done = Interpreter::new(ir).run(Name::new("main"), vec![Data::from(input)]);
    done.unwrap()[0].as_tensor().unwrap().clone()
}

/// The distance of a number to the exact one, in units of the last place of `f32` there.
fn ulps(found: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if nearest.is_nan() || nearest.is_infinite() || found.is_nan() || found.is_infinite() {
        let same = nearest.is_nan() && found.is_nan() || nearest == found;
        // The largest number stands for infinity where the exact result is between both.
        let edge = nearest.is_infinite() && found.abs() == f32::MAX && exact.is_finite();
        return if same || edge { 0.0 } else { f64::INFINITY };
    }
    let size = nearest.abs();
    let unit = f64::from(size.next_up()) - f64::from(size);
    let unit = if size == f32::MAX {
        f64::from(size) - f64::from(size.next_down())
    } else {
        unit
    };
    (f64::from(found) - exact).abs() / unit
}

#[test]
fn two_units_in_the_last_place() {
    tir_support::load();
    let inputs = inputs();
    for function in FUNCTIONS {
        let plain = program(function, inputs.len(), "f32");
        let ir = approximated(plain);
        let text = tir_support::show(&ir);
        assert!(!text.contains(&format!("math.{function} ")), "{text}");
        let single = Array::from_vec(&[inputs.len()], inputs.clone()).unwrap();
        let found = run(&ir, single);
        let double: Vec<f64> = inputs.iter().map(|x| f64::from(*x)).collect();
        let double = Array::from_vec(&[inputs.len()], double).unwrap();
        let exact = run(&program(function, inputs.len(), "f64"), double);
        let found = found.as_f32().unwrap();
        let worst = (0..inputs.len()).map(|i| (ulps(found[i], exact.get_f64(i).unwrap()), i));
        let (worst, at) = worst.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        let (x, y) = (inputs[at], found[at]);
        let exact_at = exact.get_f64(at).unwrap();
        println!("{function}: {worst:.3} ulp at {x:e}");
        assert!(
            worst < 2.0,
            "{function}({x:e}) is {y:e}, not {exact_at:e}: {worst} ulp"
        );
        for i in (0..inputs.len()).filter(|i| found[*i] == 0.0) {
            let exact = exact.get_f64(i).unwrap();
            let sign = found[i].is_sign_negative() == exact.is_sign_negative();
            assert!(
                sign,
                "{function}({:e}) is {}, not {exact:e}",
                inputs[i], found[i]
            );
        }
    }
}

#[test]
fn narrow_numbers_are_rounded_once_more() {
    tir_support::load();
    let ir = approximated(program("exp", 3, "f16"));
    let text = tir_support::show(&ir);
    assert!(
        text.contains("arith.extf") && text.contains("arith.truncf"),
        "{text}"
    );
    let wide = approximated(program("exp", 3, "f64"));
    assert!(
        tir_support::show(&wide).contains("math.exp"),
        "doubles have no form here"
    );
}
