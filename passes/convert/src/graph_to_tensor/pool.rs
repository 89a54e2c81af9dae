//! Pooling.

use tir::data::Array;
use tir::interp::{attr_of, failure};
use tir::rewrite::{PatternSet, Rewriter};
use tir::{
    AffineMap, Attr, Decline, DenseElements, Failure, FloatType, OpId, Type, Value, float_bits,
};
use tir_arith::MulF;
use tir_graph::shape::Window;
use tir_graph::{AvgPool, GlobalAvgPool, MaxPool, accumulator};
use tir_tensor::Combine;

use super::nest::{
    E, Reduction, elements, map, number, padded, ranked, rounded, scalar, truncated, wide, window,
};

pub(super) fn patterns(set: &mut PatternSet) {
    set.on("max-pool-to-generic", max_pool);
    set.on("avg-pool-to-generic", avg_pool);
    set.on("global-avg-pool-to-generic", global_avg_pool);
}

/// What windows over the last two dimensions reduce to: `(n, c, h, w, kh, kw)`.
fn reduce(
    rw: &mut Rewriter<'_>,
    op: OpId,
    x: Value,
    windows: [Window; 2],
    combine: Combine,
    start: Option<f64>,
) -> Result<Value, Decline> {
    // The largest element is exact in any type.
    let ty = match combine {
        Combine::Max | Combine::Min => rw.ty(rw.result(op, 0)),
        Combine::Add | Combine::Mul => wide(rw.ty(rw.result(op, 0))),
    };
    let elem = ty.elem();
    let ([n, c, height, width], _) = ranked(rw, rw.result(op, 0))?;
    // The padding is what the result starts from, so it changes nothing; zero needs no saying.
    let x = padded(rw, x, windows, start)?;
    let [vertical, horizontal] = &windows;
    let rows = window(vertical, 2, 4);
    let cols = window(horizontal, 3, 5);
    let reduction = Reduction {
        ty,
        start: start.map(|value| scalar(value, elem)),
        combine,
        iterators: [4, 2],
        sizes: Some(vec![
            n,
            c,
            height,
            width,
            vertical.kernel,
            horizontal.kernel,
        ]),
    };
    let x_map = map(6, [E::Dim(0), E::Dim(1), rows, cols]);
    Ok(reduction.make(rw, &[(x, x_map)], |_, args| args[0]))
}

fn max_pool(pool: MaxPool, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let windows = pool.windows(rw.op(op))?;
    let y = reduce(
        rw,
        op,
        pool.x,
        windows,
        Combine::Max,
        Some(f64::NEG_INFINITY),
    )?;
    rw.replace(op, &[y]);
    Ok(())
}

/// The most rows or columns of windows of a mean, and the most windows: how many elements each has is kept.
const LONGEST: i64 = 1 << 24;
const MOST: i64 = 1 << 28;

fn avg_pool(pool: AvgPool, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let windows = pool.windows(rw.op(op))?;
    let result = rw.result(op, 0);
    let ty = rw.ty(result);
    let ([_, _, height, width], elem) = ranked::<4>(rw, result)?;
    if height.max(width) > LONGEST || height.saturating_mul(width) > MOST {
        let text = format!("makes means of {height} by {width} windows, expected at most {MOST}");
        return Err(text.into());
    }
    let count = |window: &Window, size: i64| -> Vec<usize> {
        (0..size)
            .map(|at| window.count(at, pool.count_include_pad))
            .collect()
    };
    let (rows, cols) = (count(&windows[0], height), count(&windows[1], width));
    let counts: Vec<usize> = rows
        .iter()
        .flat_map(|r| cols.iter().map(move |c| r * c))
        .collect();
    let factors = factors(&counts, [height, width], accumulator(elem))?;
    let sum = reduce(rw, op, pool.x, windows, Combine::Add, None)?;
    let y = match factors {
        Factors::One(factor) => scaled(rw, sum, factor, elem),
        Factors::Each(attr) => {
            let factors = elements(rw, attr);
            let inputs = [
                (sum, AffineMap::identity(4)),
                (factors, AffineMap::project(4, &[2, 3])),
            ];
            rounded(rw, ty, &inputs, |rw, args| {
                rw.add(MulF::new(args[0], args[1]))
            })
        }
    };
    rw.replace(op, &[y]);
    Ok(())
}

/// What sums are multiplied by.
enum Factors {
    One(f64),
    /// By row and column.
    Each(Attr),
}

fn factors(counts: &[usize], [height, width]: [i64; 2], elem: Type) -> Result<Factors, Failure> {
    let first = counts.first().copied().unwrap_or(1);
    if counts.iter().all(|count| *count == first) {
        return Ok(Factors::One(1.0 / first as f64));
    }
    let values = counts.iter().map(|count| 1.0 / *count as f64);
    if elem == Type::f32() {
        let values = values.map(|v| v as f32).collect::<Vec<f32>>();
        let array = Array::from_vec(&[height as usize, width as usize], values);
        return Ok(Factors::Each(attr_of(&array.map_err(failure)?)));
    }
    let format = elem
        .get::<FloatType>()
        .copied()
        .ok_or_else(|| format!("{elem} is not a float"))?;
    let size = format.bits() as usize / 8;
    let bytes = values.flat_map(|v| float_bits(v, format).to_le_bytes().into_iter().take(size));
    let ty = Type::tensor([height, width], elem);
    let data = bytes.collect();
    Ok(Factors::Each(Attr::new(DenseElements { ty, data })))
}

/// Each element times a number, rounded to elements of type `elem`.
fn scaled(rw: &mut Rewriter<'_>, x: Value, factor: f64, elem: Type) -> Value {
    if factor == 1.0 {
        return truncated(rw, x, elem);
    }
    let ty = rw.ty(x);
    let inputs = [(x, AffineMap::identity(4))];
    rounded(rw, ty.with_elem(elem), &inputs, |rw, args| {
        let factor = number(rw, factor, ty.elem());
        rw.add(MulF::new(args[0], factor))
    })
}

fn global_avg_pool(
    GlobalAvgPool { x }: GlobalAvgPool,
    op: OpId,
    rw: &mut Rewriter<'_>,
) -> Result<(), Decline> {
    let ty = rw.ty(rw.result(op, 0));
    let ([_, _, height, width], elem) = ranked::<4>(rw, x)?;
    // (n, c, 1, 1, h, w)
    let reduction = Reduction {
        ty: wide(ty),
        start: None,
        combine: Combine::Add,
        iterators: [4, 2],
        sizes: None,
    };
    let inputs = [(x, AffineMap::project(6, &[0, 1, 4, 5]))];
    let sum = reduction.make(rw, &inputs, |_, args| args[0]);
    let y = scaled(rw, sum, 1.0 / (height * width) as f64, elem);
    rw.replace(op, &[y]);
    Ok(())
}
