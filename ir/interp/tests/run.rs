//! Compiled functions: arithmetic, loops, branches, memory, calls, errors.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;
use common::*;
use tir::data::{Array, DType};
use tir::interp::{Kind, Options, Scalar};
use tir::*;

fn run(funcs: Vec<Ir>, name: &str, args: Vec<Data>) -> Result<Vec<Data>, Vec<Diagnostic>> {
    let module = module(funcs);
    let mut interpreter = Interpreter::new(&module);
    interpreter.env.options = Options {
        steps: 1_000_000,
        depth: 50,
    };
    interpreter.run(Name::new(name), args)
}
fn message(result: Result<Vec<Data>, Vec<Diagnostic>>) -> String {
    match result {
        Ok(values) => format!("{values:?}"),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn arithmetic_is_of_its_width() {
    let ty = Type::int(8);
    let f = func("f", &[ty, ty], &[ty], |b, a| {
        let s = b.add(Add { x: a[0], y: a[1] });
        b.add(Return { values: vec![s] });
    });
    let arg = |v| Data::Scalar(Scalar::int(v, Kind::Int(8)));
    assert_eq!(
        message(run(vec![f], "f", vec![arg(100), arg(100)])),
        "[-56 : Int(8)]"
    );
}

#[test]
fn half_floats_round_after_each_operation() {
    for (kind, ty, want) in [
        (Kind::F16, FloatType::F16, 2048.0),
        (Kind::BF16, FloatType::BF16, 2048.0),
        (Kind::F32, FloatType::F32, 2049.0),
    ] {
        let ty = Type::new(ty);
        let f = func("f", &[ty, ty], &[ty], |b, a| {
            let s = b.add(Add { x: a[0], y: a[1] });
            b.add(Return { values: vec![s] });
        });
        let arg = |v| Data::Scalar(Scalar::float(v, kind));
        let out = run(vec![f], "f", vec![arg(2048.0), arg(1.0)]).unwrap();
        assert_eq!(out[0].as_f64().unwrap(), want);
    }
}

#[test]
fn loops_carry_values_and_swap_them() {
    // Fibonacci: (a, b) becomes (b, a + b).
    let ty = Type::index();
    let f = func("f", &[], &[ty, ty], |b, _| {
        let (zero, one) = (index(b, 0), index(b, 1));
        let out = repeat(b, 10, &[zero, one], |b, _, s| {
            let sum = b.add(Add { x: s[0], y: s[1] });
            vec![s[1], sum]
        });
        b.add(Return { values: out });
    });
    assert_eq!(
        message(run(vec![f], "f", vec![])),
        "[55 : Index, 89 : Index]"
    );
    let swap = func("f", &[], &[ty, ty], |b, _| {
        let (zero, one) = (index(b, 0), index(b, 1));
        let out = repeat(b, 3, &[zero, one], |_, _, s| vec![s[1], s[0]]);
        b.add(Return { values: out });
    });
    assert_eq!(
        message(run(vec![swap], "f", vec![])),
        "[1 : Index, 0 : Index]"
    );
    let none = func("f", &[], &[ty], |b, _| {
        let five = index(b, 5);
        let out = repeat(b, 0, &[five], |b, i, _| vec![b.add(Add { x: i, y: i })]);
        b.add(Return { values: out });
    });
    assert_eq!(message(run(vec![none], "f", vec![])), "[5 : Index]");
    // What the loop yields does not change in it.
    let fixed = func("f", &[ty], &[ty], |b, a| {
        let five = index(b, 5);
        let out = repeat(b, 2, &[five], |b, _, s| {
            let product = b.add(Mul { x: a[0], y: a[0] });
            let _ = s;
            vec![product]
        });
        b.add(Return { values: out });
    });
    assert_eq!(
        message(run(vec![fixed], "f", vec![Data::index(3)])),
        "[9 : Index]"
    );
}

#[test]
fn branches_between_blocks() {
    // while (i < n) i = i + i
    let ty = Type::index();
    let f = func("f", &[ty, ty], &[ty], |b, a| {
        let At::End(entry) = b.at else { return };
        let region = b.ir.region_of(entry).unwrap();
        let (head, body, end) = (
            b.ir.new_block(region),
            b.ir.new_block(region),
            b.ir.new_block(region),
        );
        let i = b.ir.add_arg(head, ty);
        b.add(Br {
            dest: Successor {
                block: head,
                args: vec![a[0]],
            },
        });
        b.at = At::End(head);
        let cond = b.add(Less {
            x: i,
            y: a[1],
            ty: Ret(Type::int(1)),
        });
        let to = |block| Successor {
            block,
            args: vec![],
        };
        b.add(Cond {
            cond,
            yes: to(body),
            no: to(end),
        });
        b.at = At::End(body);
        let next = b.add(Add { x: i, y: i });
        b.add(Br {
            dest: Successor {
                block: head,
                args: vec![next],
            },
        });
        b.at = At::End(end);
        b.add(Return { values: vec![i] });
    });
    let args = vec![Data::index(3), Data::index(50)];
    assert_eq!(message(run(vec![f.clone()], "f", args)), "[96 : Index]");
    let args = vec![Data::index(0), Data::index(50)];
    let text = message(run(vec![f], "f", args));
    assert_eq!(
        text,
        "t.tir:7:3: error: 't.br': the program ran for 1000000 steps, the limit of this run"
    );
}

#[test]
fn calls_recurse_up_to_a_depth() {
    let ty = Type::index();
    let f = func("f", &[ty], &[ty], |b, a| {
        let r = b.add(Call {
            callee: Sym(Name::new("f")),
            args: vec![a[0]],
            results: Rets(vec![ty]),
        });
        b.add(Return { values: r });
    });
    let text = message(run(vec![f], "f", vec![Data::index(1)]));
    assert_eq!(
        text,
        "t.tir:7:3: error: 't.call': calls nest deeper than 50, the limit of this run"
    );
    let g = func("g", &[ty], &[ty], |b, a| {
        let s = b.add(Mul { x: a[0], y: a[0] });
        b.add(Return { values: vec![s] });
    });
    let f = func("f", &[ty], &[ty], |b, a| {
        let call = |x| Call {
            callee: Sym(Name::new("g")),
            args: vec![x],
            results: Rets(vec![ty]),
        };
        let r = b.add(call(a[0]));
        let r = b.add(call(r[0]));
        b.add(Return { values: r });
    });
    assert_eq!(
        message(run(vec![f, g], "f", vec![Data::index(3)])),
        "[81 : Index]"
    );
}

#[test]
fn tensors_are_changed_in_place_when_nobody_shares_them() {
    let ty = Type::tensor([4], Type::f32());
    let f = func("f", &[ty], &[ty], |b, a| {
        let out = repeat(b, 4, &[a[0]], |b, i, s| {
            let one = f32(b, 1.5);
            vec![b.add(Set {
                tensor: s[0],
                at: i,
                value: one,
                ty: Ret(ty),
            })]
        });
        b.add(Return { values: out });
    });
    let module = module(vec![f]);
    let mut interpreter = Interpreter::new(&module);
    let x = Array::random(DType::F32, &[4], 1).unwrap();
    let out = interpreter
        .run(Name::new("f"), vec![x.clone().into()])
        .unwrap();
    assert_eq!(out[0].as_tensor().unwrap().as_f32().unwrap()[..], [1.5; 4]);
    assert_eq!(
        interpreter.env.ext::<Copies>().unwrap().0,
        1,
        "only the caller's tensor is copied"
    );
    assert_ne!(x.as_f32().unwrap()[..], [1.5; 4]);
}

#[test]
fn ops_with_evaluate_run_and_fold() {
    let ty = Type::tensor([3], Type::int(32));
    let bytes = |v: [i32; 3]| {
        v.iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Box<[u8]>>()
    };
    let value = Attr::new(DenseElements {
        ty,
        data: bytes([1, -2, 3]),
    });
    let f = func("f", &[], &[ty], |b, _| {
        let c = b.add(Const { value, ty: Ret(ty) });
        let d = b.add(Double { x: c });
        let d = b.add(Add { x: d, y: c });
        b.add(Return { values: vec![d] });
    });
    let double = f
        .walk_ids()
        .into_iter()
        .find(|op| f.is::<Double>(*op))
        .unwrap();
    let folded = interp::fold_by_evaluation(f.op(double), &[value]).unwrap();
    assert_eq!(
        folded[0].get::<DenseElements>().unwrap().data,
        bytes([2, -4, 6])
    );
    let out = run(vec![f], "f", vec![]).unwrap();
    assert_eq!(out[0].as_tensor().unwrap().to_i64s().unwrap(), [3, -6, 9]);
}

#[test]
fn errors_name_the_op_and_its_place() {
    let ty = Type::index();
    let f = func("f", &[ty, ty], &[ty], |b, a| {
        let q = b.add(Div { x: a[0], y: a[1] });
        b.add(Return { values: vec![q] });
    });
    let text = message(run(vec![f], "f", vec![Data::index(1), Data::index(0)]));
    assert_eq!(
        text,
        "t.tir:7:3: error: 't.div': division by zero, or a quotient that overflows"
    );
    let f = func("f", &[ty], &[], |b, _| {
        b.create(OpState::new("t.unheard"));
    });
    let text = message(run(vec![f.clone()], "f", vec![Data::index(1)]));
    assert_eq!(
        text,
        "t.tir:7:3: error: 't.unheard': the op is not known, so it cannot run"
    );
    let text = message(run(vec![f.clone()], "g", vec![]));
    assert_eq!(text, "error: there is no symbol @g");
    let text = message(run(vec![f], "f", vec![Data::Scalar(Scalar::bool(true))]));
    assert!(text.contains("'t.unheard'"), "{text}");
}

#[test]
fn accesses_stay_in_bounds() {
    let mem = Type::memref([4, 3], Type::f32(), None);
    let f = |n: i64| {
        func("f", &[], &[Type::f32()], |b, _| {
            let m = b.add(Alloc { ty: Ret(mem) });
            let two = index(b, 2);
            let zero = f32(b, 0.0);
            let out = repeat(b, n, &[zero], |b, i, s| {
                let v = b.add(Load {
                    from: m,
                    at: vec![i, two],
                    ty: Ret(Type::f32()),
                });
                vec![b.add(Add { x: s[0], y: v })]
            });
            b.add(Return { values: out });
        })
    };
    assert_eq!(message(run(vec![f(4)], "f", vec![])), "[0.0 : F32]");
    let text = message(run(vec![f(9)], "f", vec![]));
    assert_eq!(
        text,
        "t.tir:7:3: error: 't.load': index 4 of dimension 0 is out of bounds, expected 0 to 3"
    );
    let f = func("f", &[], &[Type::f32()], |b, _| {
        let m = b.add(Alloc { ty: Ret(mem) });
        b.add(Free { what: m });
        let zero = index(b, 0);
        let v = b.add(Load {
            from: m,
            at: vec![zero, zero],
            ty: Ret(Type::f32()),
        });
        b.add(Return { values: vec![v] });
    });
    let errors = run(vec![f], "f", vec![]).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "t.tir:7:3: error: 't.load': the buffer has been freed"
    );
    assert_eq!(errors[0].notes[0].message, "freed by 't.free'");
}

#[test]
fn a_convolution_is_the_sum_in_order() {
    let (x, k) = ([3, 7, 6], [4, 3, 3, 2]);
    let module = module(vec![conv(x, k)]);
    let mut interpreter = Interpreter::new(&module);
    let us = |s: &[i64]| s.iter().map(|d| *d as usize).collect::<Vec<_>>();
    let input = Array::random(DType::F32, &us(&x), 1).unwrap();
    let weights = Array::random(DType::F32, &us(&k), 2).unwrap();
    let (oh, ow) = (x[1] - k[2] + 1, x[2] - k[3] + 1);
    let env = &mut interpreter.env;
    let a = env.array_to_view(&input, None).unwrap();
    let w = env.array_to_view(&weights, None).unwrap();
    let y = env.alloc(Kind::F32, &[k[0], oh, ow], 64, None).unwrap();
    interpreter
        .run(
            Name::new("conv"),
            vec![a.into(), w.into(), y.clone().into()],
        )
        .unwrap();
    let out = interpreter.env.view_to_array(&y, Type::f32()).unwrap();
    let (xs, ws) = (input.as_f32().unwrap(), weights.as_f32().unwrap());
    let mut want = Vec::new();
    for o in 0..k[0] {
        for i in 0..oh {
            for j in 0..ow {
                let mut sum = 0f32;
                for c in 0..k[1] {
                    for p in 0..k[2] {
                        for q in 0..k[3] {
                            let a = xs[((c * x[1] + i + p) * x[2] + j + q) as usize];
                            sum += a * ws[(((o * k[1] + c) * k[2] + p) * k[3] + q) as usize];
                        }
                    }
                }
                want.push(sum);
            }
        }
    }
    assert_eq!(out.as_f32().unwrap()[..], want[..]);
}

#[test]
fn the_default_limits_fit_the_stack() {
    let ty = Type::index();
    let f = func("f", &[ty], &[ty], |b, a| {
        let callee = Sym(Name::new("f"));
        let r = b.add(Call {
            callee,
            args: vec![a[0]],
            results: Rets(vec![ty]),
        });
        b.add(Return { values: r });
    });
    let module = module(vec![f]);
    let error = Interpreter::new(&module)
        .run(Name::new("f"), vec![Data::index(1)])
        .unwrap_err();
    assert!(error[0].message.contains("deeper than 400"), "{}", error[0]);
    fn nest(b: &mut Builder<'_>, depth: u32) {
        if depth > 0 {
            repeat(b, 2, &[], |b, _, _| {
                nest(b, depth - 1);
                vec![]
            });
        }
    }
    let f = func("f", &[], &[], |b, _| {
        nest(b, 250);
        b.add(Return { values: vec![] });
    });
    let text = message(run(vec![f], "f", vec![]));
    assert!(text.contains("regions nest deeper than"), "{text}");
}
