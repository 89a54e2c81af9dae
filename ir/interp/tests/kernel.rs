//! Kernels against the definition: every point in iterator order, one scalar at a time.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;
use common::*;
use tir::data::{Array, DType};
use tir::interp::{
    Combine, FloatOp, Input, Kernel, KernelSpec, Kind, Output, Scalar, ScalarOp, View,
};
use tir::*;

type Body = fn(&mut Builder<'_>, &[Value]) -> Value;

fn mul(b: &mut Builder<'_>, a: &[Value]) -> Value {
    b.add(Mul { x: a[0], y: a[1] })
}
fn distance(b: &mut Builder<'_>, a: &[Value]) -> Value {
    let d = b.add(Sub { x: a[0], y: a[1] });
    b.add(Mul { x: d, y: d })
}

fn compile(elem: Type, maps: &[AffineMap], combine: Option<Combine>, body: Body) -> Kernel {
    let inputs = maps.len() - 1;
    let ir = func("k", &vec![elem; inputs], &[], |b, args| {
        let value = body(b, args);
        b.add(Yield {
            values: vec![value],
        });
    });
    let body = ir.entry(ir.regions(ir.root()).next().unwrap()).unwrap();
    Kernel::compile(
        &ir,
        &KernelSpec {
            body,
            maps,
            inputs,
            combine,
        },
    )
    .unwrap()
}

fn points(sizes: &[i64]) -> Vec<Vec<i64>> {
    sizes.iter().fold(vec![vec![]], |all, n| {
        let extend = |p: Vec<i64>| (0..*n).map(move |i| [&p[..], &[i]].concat());
        all.into_iter().flat_map(extend).collect()
    })
}
fn place(array: &Array, map: &AffineMap, point: &[i64]) -> usize {
    let index = map.eval(point).unwrap();
    index
        .iter()
        .zip(array.shape())
        .fold(0, |at, (i, n)| at * n + *i as usize)
}

/// Runs a kernel of two f32 inputs both ways.
fn check(
    sizes: &[i64],
    maps: &[AffineMap],
    shapes: [&[usize]; 3],
    combine: Option<Combine>,
    body: Body,
    by: fn(f32, f32) -> f32,
) {
    let kernel = compile(Type::f32(), maps, combine, body);
    let [x, y, out] =
        [1, 2, 3].map(|k| Array::random(DType::F32, shapes[k as usize - 1], k).unwrap());
    let mut want = out.as_f32().unwrap().to_vec();
    let (xs, ys) = (x.as_f32().unwrap(), y.as_f32().unwrap());
    for point in points(sizes) {
        let value = by(
            xs[place(&x, &maps[0], &point)],
            ys[place(&y, &maps[1], &point)],
        );
        let slot = &mut want[place(&out, &maps[2], &point)];
        *slot = match combine {
            None => value,
            Some(Combine::Add) => *slot + value,
            Some(Combine::Mul) => *slot * value,
            Some(Combine::Max) => slot.max(value),
            Some(Combine::Min) => slot.min(value),
            Some(other) => panic!("{other:?} is of integers"),
        };
    }
    let got = kernel
        .run_arrays(sizes, &[x.clone(), y.clone()], vec![out], &[])
        .unwrap();
    let got = got[0].as_f32().unwrap();
    let same = got
        .iter()
        .zip(&want)
        .all(|(a, b)| a.to_bits() == b.to_bits());
    assert!(same, "{sizes:?} {combine:?}\n{got:?}\n{want:?}");
}

use AffineExpr::{Const as C, Dim as D};

#[test]
fn contractions_and_convolutions_are_bit_exact() {
    let gemm = [
        AffineMap::project(3, &[0, 2]),
        AffineMap::project(3, &[2, 1]),
        AffineMap::project(3, &[0, 1]),
    ];
    for sizes in [[3, 5, 7], [1, 1, 200], [2, 130, 3], [70, 2, 9], [1, 1, 1]] {
        let [m, n, k] = sizes.map(|n| n as usize);
        for combine in [Combine::Add, Combine::Max, Combine::Min, Combine::Mul] {
            let shapes: [&[usize]; 3] = [&[m, k], &[k, n], &[m, n]];
            check(&sizes, &gemm, shapes, Some(combine), mul, |a, b| a * b);
            check(&sizes, &gemm, shapes, Some(combine), distance, |a, b| {
                (a - b) * (a - b)
            });
        }
    }
    for stride in [1, 2] {
        // Iterators in an unusual order: reductions between the others.
        let at = |o, k| D(o) * C(stride) + D(k);
        let maps = [
            AffineMap::new(6, vec![D(1), at(2, 3), at(5, 4)]),
            AffineMap::project(6, &[0, 1, 3, 4]),
            AffineMap::project(6, &[0, 2, 5]),
        ];
        let side = |n: usize| (n - 1) * stride as usize + 3;
        let shapes: [&[usize]; 3] = [&[3, side(5), side(9)], &[2, 3, 3, 3], &[2, 5, 9]];
        check(
            &[2, 3, 5, 3, 3, 9],
            &maps,
            shapes,
            Some(Combine::Add),
            mul,
            |a, b| a * b,
        );
    }
}

#[test]
fn maps_of_other_forms() {
    // Transposed, broadcast.
    let maps = [
        AffineMap::project(2, &[1, 0]),
        AffineMap::project(2, &[1]),
        AffineMap::identity(2),
    ];
    check(
        &[4, 70],
        &maps,
        [&[70, 4], &[70], &[4, 70]],
        None,
        mul,
        |a, b| a * b,
    );
    // Not linear: unpacking.
    let odd = AffineMap::new(2, vec![D(1).floor_div(3), D(1).modulo(3), D(0)]);
    let maps = [odd, AffineMap::identity(2), AffineMap::identity(2)];
    check(
        &[4, 8],
        &maps,
        [&[3, 3, 4], &[4, 8], &[4, 8]],
        None,
        mul,
        |a, b| a * b,
    );
    // Backwards.
    let back = AffineMap::new(1, vec![D(0) * C(-1) + C(6)]);
    let maps = [back, AffineMap::identity(1), AffineMap::identity(1)];
    check(&[7], &maps, [&[7], &[7], &[7]], None, mul, |a, b| a * b);
    // One sum of all; several points for one element.
    let maps = [
        AffineMap::identity(2),
        AffineMap::identity(2),
        AffineMap::new(2, vec![]),
    ];
    check(
        &[5, 90],
        &maps,
        [&[5, 90], &[5, 90], &[]],
        Some(Combine::Add),
        mul,
        |a, b| a * b,
    );
    let diagonal = AffineMap::new(2, vec![D(0) + D(1)]);
    let maps = [AffineMap::identity(2), AffineMap::identity(2), diagonal];
    check(
        &[5, 6],
        &maps,
        [&[5, 6], &[5, 6], &[10]],
        Some(Combine::Add),
        mul,
        |a, b| a * b,
    );
}

#[test]
fn other_kinds_and_iterators() {
    // f16: rounded after the product and after each sum.
    let half = Type::new(FloatType::F16);
    let maps = [
        AffineMap::identity(1),
        AffineMap::identity(1),
        AffineMap::new(1, vec![]),
    ];
    let kernel = compile(half, &maps, Some(Combine::Add), mul);
    let x = Array::random(DType::F16, &[100], 4).unwrap();
    let out = Array::random(DType::F16, &[], 5).unwrap();
    let op = |op, a: Scalar, b: Scalar| {
        let bits = ScalarOp::Float(op, Kind::F16)
            .apply([a.bits, b.bits, 0])
            .unwrap();
        Scalar {
            kind: Kind::F16,
            bits,
        }
    };
    let number = |v| Scalar::float(v, Kind::F16);
    let want = x
        .iter_f64()
        .fold(number(out.get_f64(0).unwrap()), |sum, v| {
            op(FloatOp::Add, sum, op(FloatOp::Mul, number(v), number(v)))
        });
    let got = kernel
        .run_arrays(&[100], &[x.clone(), x], vec![out], &[])
        .unwrap();
    assert_eq!(got[0].get_f64(0).unwrap(), want.as_f64());
    // i32 with the index of an iterator, truncated to i8 on the way out? No: index arithmetic.
    let id = vec![AffineMap::identity(2); 2];
    let kernel = compile(Type::index(), &id, None, |b, a| {
        let at = |b: &mut Builder<'_>, dim| {
            b.add(Iterator_ {
                dim,
                ty: Ret(Type::index()),
            })
        };
        let (i, j) = (at(b, 0), at(b, 1));
        let ten = index(b, 10);
        let row = b.add(Mul { x: i, y: ten });
        let sum = b.add(Add { x: row, y: j });
        b.add(Add { x: sum, y: a[0] })
    });
    let x = Array::from_vec(&[2, 3], vec![100i64; 6]).unwrap();
    let got = kernel
        .run_arrays(&[2, 3], std::slice::from_ref(&x), vec![x.clone()], &[])
        .unwrap();
    assert_eq!(got[0].to_i64s().unwrap(), [100, 101, 102, 110, 111, 112]);
}

#[test]
fn captured_scalars_are_given_at_each_run() {
    let f32 = Type::f32();
    let ir = func("k", &[f32], &[], |b, args| {
        let two = common::f32(b, 2.0);
        let outside = args[0];
        let body = b.body(&[f32], |b, x| {
            let s = b.add(Mul { x: x[0], y: two });
            let s = b.add(Add { x: s, y: outside });
            b.add(Yield { values: vec![s] });
        });
        let n = index(b, 0);
        b.add(For {
            lower: n,
            upper: n,
            step: n,
            init: vec![],
            body,
            results: Rets(vec![]),
        });
    });
    let holder = ir
        .walk_ids()
        .into_iter()
        .find(|op| ir.is::<For>(*op))
        .unwrap();
    let body = ir.body_block(holder, 0).unwrap();
    let maps = vec![AffineMap::identity(1); 2];
    let kernel = Kernel::compile(
        &ir,
        &KernelSpec {
            body,
            maps: &maps,
            inputs: 1,
            combine: None,
        },
    )
    .unwrap();
    assert_eq!(kernel.captures().len(), 1);
    let x = Array::from_vec(&[2], vec![1f32, 2.0]).unwrap();
    let got = kernel
        .run_arrays(
            &[2],
            std::slice::from_ref(&x),
            vec![x.clone()],
            &[Scalar::f32(0.5)],
        )
        .unwrap();
    assert_eq!(got[0].as_f32().unwrap()[..], [2.5, 4.5]);
}

#[test]
fn views_of_memory_one_buffer_or_several() {
    let id = vec![AffineMap::identity(2); 3];
    let kernel = compile(Type::f32(), &id, Some(Combine::Add), mul);
    let ir = module(vec![]);
    let mut env = Env::new(&ir);
    let whole = env.alloc(Kind::F32, &[4, 6], 64, None).unwrap();
    let data: Vec<u8> = (0..24).flat_map(|i| (i as f32).to_le_bytes()).collect();
    env.write_view(&whole, &data).unwrap();
    let left = whole.part(&[0, 0], &[4, 3], &[1, 1]).unwrap();
    let right = whole
        .part(&[0, 5], &[4, 3], &[1, -1])
        .unwrap_or_else(|_| whole.part(&[0, 3], &[4, 3], &[1, 1]).unwrap());
    env.run_kernel(&kernel, &[4, 3], &[&left, &left], &[&right], &[])
        .unwrap();
    let out = env.read_view(&right).unwrap();
    let first: Vec<f32> = out
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    // right[0] = 5, 4, 3 (backwards) + left² = 0, 1, 4
    assert_eq!(first[..3], [5.0, 5.0, 7.0]);
    let other = env.alloc(Kind::F32, &[4, 3], 64, None).unwrap();
    env.run_kernel(&kernel, &[4, 3], &[&left, &left], &[&other], &[])
        .unwrap();
    let out = env.read_view(&other).unwrap();
    assert_eq!(out[8..12], 4f32.to_le_bytes());
    env.dealloc(whole.buffer).unwrap();
    let error = env
        .run_kernel(&kernel, &[4, 3], &[&left, &left], &[&other], &[])
        .unwrap_err();
    assert_eq!(error.message, "the buffer has been freed");
}

#[test]
fn what_leaves_its_operand_is_refused_before_anything_is_written() {
    let id = vec![AffineMap::identity(1); 3];
    let kernel = compile(Type::f32(), &id, None, mul);
    let x = Array::random(DType::F32, &[4], 1).unwrap();
    let error = kernel
        .run_arrays(&[5], &[x.clone(), x.clone()], vec![x.clone()], &[])
        .unwrap_err();
    assert_eq!(
        error.message,
        "reaches 0 to 4 in dimension 0 of an operand of 4"
    );
    let mut bytes = vec![0u8; 16];
    let all = View::of_array(&x);
    let view = all.elsewhere(4, all.shape.clone(), all.strides.clone());
    let mut out = [Output {
        bytes: &mut bytes,
        view,
    }];
    let inputs = [Input::array(&x), Input::array(&x)];
    let error = kernel.run(&[4], &inputs, &mut out, &[]).unwrap_err();
    assert_eq!(error.message, "bytes 4 to 20 of a buffer of 16");
    let ints = Array::random(DType::I32, &[4], 1).unwrap();
    let error = kernel
        .run_arrays(&[4], &[ints, x.clone()], vec![x], &[])
        .unwrap_err();
    assert_eq!(error.message, "an operand of Int(32), expected F32");
}
