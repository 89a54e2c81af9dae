//! What programs are run on, and whether two give the same: arguments, results, and how near these have to be.
//!
//! *Invariants.* A seed gives one list of arguments for the types of a program, whatever is in it.

use tir::data::{Array, Random};
use tir::{Data, Interpreter, Ir, Name, Type};

use super::Kind;

/// The largest number that a smooth program may compute: beyond, roundings say nothing.
const LARGEST: f64 = 1e4;

/// Values for the arguments of `@main`.
pub fn arguments(ir: &Ir, seed: u64, kind: Kind) -> Vec<Data> {
    let interpreter = Interpreter::new(ir);
    let (types, _) = interpreter.signature(Name::new("main")).unwrap();
    let mut random = Random::new(seed);
    types
        .iter()
        .map(|ty| argument(*ty, kind, &mut random))
        .collect()
}

fn argument(ty: Type, kind: Kind, random: &mut Random) -> Data {
    let Some(shape) = ty.shape() else {
        let n = random.below(2) as i64;
        return tir::interp::constant(tir::Attr::int(n, ty), ty).unwrap();
    };
    let shape: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
    let n: usize = shape.iter().product();
    let bits = ty.elem().bits().unwrap_or(32);
    let mut int = || {
        let (least, most) = (i64::MIN >> (64 - bits), !(i64::MIN >> (64 - bits)));
        match random.below(3) {
            0 => random
                .pick(&[least, most, least + 1, most - 1, 0, -1])
                .unwrap_or(0),
            1 => random.below(9) as i64 - 4,
            _ => (random.next_u64() as i64) >> (64 - bits),
        }
    };
    let text = ty.elem().to_string();
    let array = match text.as_str() {
        "i1" => {
            let all: Vec<bool> = (0..n).map(|_| int() & 1 != 0).collect();
            Array::from_bools(&shape, &all)
        }
        "i8" => Array::from_vec(&shape, (0..n).map(|_| int() as i8).collect()),
        "i32" => Array::from_vec(&shape, (0..n).map(|_| int() as i32).collect()),
        "i64" => Array::from_vec(&shape, (0..n).map(|_| int()).collect()),
        _ => {
            let double = text == "f64";
            let all: Vec<f64> = (0..n).map(|_| float(kind, double, random)).collect();
            match double {
                true => Array::from_vec(&shape, all),
                false => Array::from_vec(&shape, all.iter().map(|x| *x as f32).collect()),
            }
        }
    };
    Data::from(array.unwrap())
}

fn float(kind: Kind, double: bool, random: &mut Random) -> f64 {
    let most = if double {
        f64::MAX
    } else {
        f64::from(f32::MAX)
    };
    let plain = (random.below(97) as f64 - 48.0) / random.pick(&[8.0, 24.0, 27.0]).unwrap_or(8.0);
    match kind {
        Kind::Exact if random.percent(25) => {
            let all = [
                f64::NAN,
                f64::INFINITY,
                -f64::INFINITY,
                most,
                -most,
                -0.0,
                0.0,
                0.5,
                -1.5,
                1e-40,
                1e30,
            ];
            random.pick(&all).unwrap_or(0.0)
        }
        _ => plain,
    }
}

/// What `@main` gives.
pub fn results(ir: &Ir, args: &[Data]) -> Result<Vec<Data>, String> {
    let said = |errors: Vec<tir::Diagnostic>| {
        let messages = errors.iter().map(|e| e.message.as_str());
        messages.collect::<Vec<_>>().join("; ")
    };
    Interpreter::new(ir)
        .run(Name::new("main"), args.to_vec())
        .map_err(said)
}

/// What of two lists of results differs, as the kind of the program asks; how many elements agree.
pub fn compare(kind: Kind, left: &[Data], right: &[Data]) -> Result<usize, String> {
    let arrays =
        |all: &[Data]| -> Vec<Array> { all.iter().map(|d| d.to_array().unwrap()).collect() };
    let (left, right) = (arrays(left), arrays(right));
    let floats = left.iter().filter(|a| a.dtype().is_float());
    let largest = floats.flat_map(|a| a.iter_f64()).filter(|x| x.is_finite());
    let largest = largest.fold(1.0, |m: f64, x| m.max(x.abs()));
    let mut agree = 0;
    for (k, (a, b)) in left.iter().zip(&right).enumerate() {
        if (a.dtype(), a.shape()) != (b.dtype(), b.shape()) {
            return Err(format!("result {k} is {a:?}, then {b:?}"));
        }
        for i in 0..a.len() {
            let same = match (a.get_f64(i), b.get_f64(i)) {
                (Some(x), Some(y)) if a.dtype().is_float() => match kind {
                    Kind::Exact => x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(),
                    // Of what is not a number these classes say nothing, nor of what comes of it.
                    _ if !x.is_finite() || largest > LARGEST => continue,
                    Kind::Finite => x == y,
                    Kind::Smooth if a.dtype() == tir::data::DType::F64 => {
                        (x - y).abs() <= 1e-9 * largest
                    }
                    Kind::Smooth => (x - y).abs() <= 2e-3 * largest,
                },
                _ => a.get_int(i) == b.get_int(i),
            };
            if !same {
                let (x, y) = (a.get_f64(i), b.get_f64(i));
                return Err(format!(
                    "result {k} at {:?}: {x:?}, then {y:?}",
                    a.unravel(i)
                ));
            }
            agree += 1;
        }
    }
    Ok(agree)
}
