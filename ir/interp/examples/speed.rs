//! How fast functions and kernels run: `cargo run --release -p tir-interp --example speed`.
#![allow(missing_docs)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::*;
use tir::data::{Array, DType};
use tir::interp::{Combine, Kernel, KernelSpec, Kind};
use tir::*;

/// Seconds this thread has run: of processor time where Linux says it, else by the clock.
fn seconds(start: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = text.and_then(|t| t.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(|| start.elapsed().as_secs_f64(), |n| n / 1e9)
}

fn report(
    what: &str,
    work: f64,
    unit: &str,
    mut run: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    run()?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        // The kernel counts processor time in ticks: run for many of them.
        let clock = Instant::now();
        let (start, mut runs) = (seconds(clock), 0.0);
        while seconds(clock) - start < 0.2 {
            run()?;
            runs += 1.0;
        }
        best = best.min((seconds(clock) - start) / runs);
    }
    println!("{what:40} {:9.1} M {unit}/s", work / best / 1e6);
    Ok(())
}

/// A kernel of two inputs: a body on `(a, b)`.
fn kernel(
    maps: &[AffineMap],
    combine: Option<Combine>,
    fill: impl Fn(&mut Builder<'_>, &[Value]) -> Value,
) -> Result<Kernel, Failure> {
    let ir = func("k", &[Type::f32(), Type::f32()], &[], |b, args| {
        let value = fill(b, args);
        b.add(Yield {
            values: vec![value],
        });
    });
    let body = ir
        .regions(ir.root())
        .next()
        .and_then(|r| ir.entry(r))
        .ok_or("no body")?;
    Kernel::compile(
        &ir,
        &KernelSpec {
            body,
            maps,
            inputs: 2,
            combine,
        },
    )
}

fn main() -> Result<(), Failure> {
    for (x, k) in [
        ([64, 30, 30], [32, 64, 3, 3]),
        ([256, 28, 28], [32, 256, 1, 1]),
    ] {
        let module = module(vec![conv(x, k)]);
        let mut interpreter = Interpreter::new(&module);
        let env = &mut interpreter.env;
        let a = env.alloc(Kind::F32, &x, 64, None)?;
        let w = env.alloc(Kind::F32, &k, 64, None)?;
        let y = env.alloc(
            Kind::F32,
            &[k[0], x[1] - k[2] + 1, x[2] - k[3] + 1],
            64,
            None,
        )?;
        let macs = (y.elements() as i64 * k[1] * k[2] * k[3]) as f64;
        let name = format!("bytecode conv {x:?} * {k:?}");
        report(&name, macs, "multiply-adds", || {
            let args = vec![a.clone().into(), w.clone().into(), y.clone().into()];
            interpreter
                .run(Name::new("conv"), args)
                .map_err(|e| Box::new(e[0].clone()))?;
            Ok(())
        })?;
    }
    use AffineExpr::Dim;
    let mul = |b: &mut Builder<'_>, a: &[Value]| b.add(Mul { x: a[0], y: a[1] });
    // (o, h, w, c, p, q)
    for stride in [1, 2] {
        let at = |d, e| Dim(d) * AffineExpr::Const(stride) + Dim(e);
        let maps = [
            AffineMap::new(6, vec![Dim(3), at(1, 4), at(2, 5)]),
            AffineMap::project(6, &[0, 3, 4, 5]),
            AffineMap::project(6, &[0, 1, 2]),
        ];
        let conv = kernel(&maps, Some(Combine::Add), mul)?;
        let side = (27 * stride + 3) as usize;
        let x = Array::random(DType::F32, &[64, side, side], 1).map_err(interp::failure)?;
        let w = Array::random(DType::F32, &[64, 64, 3, 3], 2).map_err(interp::failure)?;
        let sizes = [64, 28, 28, 64, 3, 3];
        let macs = sizes.iter().product::<i64>() as f64;
        report(
            &format!("kernel conv 3x3 stride {stride}"),
            macs,
            "multiply-adds",
            || {
                let y = interp::zeros(DType::F32, &[64, 28, 28])?;
                conv.run_arrays(&sizes, &[x.clone(), w.clone()], vec![y], &[])
                    .map(drop)
            },
        )?;
    }
    // (m, n, k), tiles of 16
    let maps = [
        AffineMap::project(3, &[0, 2]),
        AffineMap::project(3, &[2, 1]),
        AffineMap::project(3, &[0, 1]),
    ];
    let gemm = kernel(&maps, Some(Combine::Add), mul)?;
    for n in [16, 256] {
        let s = [n as usize; 2];
        let x = Array::random(DType::F32, &s, 1).map_err(interp::failure)?;
        let w = Array::random(DType::F32, &s, 2).map_err(interp::failure)?;
        let mut y = vec![interp::zeros(DType::F32, &s)?];
        report(
            &format!("kernel gemm {n}"),
            (n * n * n) as f64 * 100.0,
            "multiply-adds",
            || {
                for _ in 0..100 {
                    y = gemm.run_arrays(
                        &[n; 3],
                        &[x.clone(), w.clone()],
                        std::mem::take(&mut y),
                        &[],
                    )?;
                }
                Ok(())
            },
        )?;
    }
    // A region without a pattern of its own: (a - b)² summed up.
    let distance = kernel(&maps, Some(Combine::Add), |b, a| {
        let d = b.add(Sub { x: a[0], y: a[1] });
        b.add(Mul { x: d, y: d })
    })?;
    let s = [256usize; 2];
    let x = Array::random(DType::F32, &s, 1).map_err(interp::failure)?;
    report("kernel distance 256", 256f64.powi(3), "points", || {
        let y = interp::zeros(DType::F32, &s)?;
        distance
            .run_arrays(&[256; 3], &[x.clone(), x.clone()], vec![y], &[])
            .map(drop)
    })?;
    let id = vec![AffineMap::identity(2); 3];
    let add = kernel(&id, None, |b, a| b.add(Add { x: a[0], y: a[1] }))?;
    let big = Array::random(DType::F32, &[1024, 1024], 1).map_err(interp::failure)?;
    report("kernel elementwise add 1 Mi", 1048576.0, "points", || {
        let y = interp::zeros(DType::F32, &[1024, 1024])?;
        add.run_arrays(&[1024, 1024], &[big.clone(), big.clone()], vec![y], &[])
            .map(drop)
    })?;
    Ok(())
}
