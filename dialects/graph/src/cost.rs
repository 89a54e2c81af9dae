//! What running the ops takes, where their types alone do not tell.

use tir::cost::{Cost, Product, Work};
use tir::{Failure, OpRef, Value};

use crate::layout::Layout;
use crate::ops::conv::{Conv2d, Conv2dInteger, Gemm, MatMul, MatMulInteger, ModeProduct};
use crate::ops::movement::{Concat, Slice};
use crate::ops::pool::{AvgPool, GlobalAvgPool, MaxPool};
use crate::ops::select::Gather;
use crate::ops::views::{Reshape, Transpose};
use crate::ops::winograd::{WinogradFilter, WinogradInput, WinogradOutput};
use crate::shape::{Window, ranked};
use crate::winograd::{Matrix, Winograd, operations};

fn count(dims: &[i64]) -> u64 {
    let dims = dims.iter().map(|d| u64::try_from(*d).unwrap_or(0));
    dims.fold(1, u64::saturating_mul)
}

/// The shape of a value; empty where it is not known.
fn shape(op: OpRef<'_>, value: Value) -> &'static [i64] {
    op.ir.ty(value).shape().unwrap_or_default()
}

/// The shape of the first result.
fn result(op: OpRef<'_>) -> &'static [i64] {
    let value = op.ir.results(op.id).next();
    value.map(|value| shape(op, value)).unwrap_or_default()
}

/// Of the first operand, images N x C x H x W, only what windows read.
fn windowed(op: OpRef<'_>, mut work: Work, windows: Result<[Window; 2], Failure>) -> Work {
    let shape = op.ir.operands(op.id).next().map(|x| shape(op, x));
    let (Some(&[_, _, h, w]), Ok([vertical, horizontal])) = (shape, windows) else {
        return work;
    };
    if let (Some(all), Ok(rows), Ok(columns)) =
        (work.reads.first_mut(), vertical.read(), horizontal.read())
        && h > 0
        && w > 0
    {
        let row = *all / h as u64 / w as u64;
        *all = row.saturating_mul(count(&[rows, columns]));
    }
    work
}

fn with(op: OpRef<'_>, products: Vec<Product>, scalars: u64) -> Work {
    Work {
        products,
        scalars,
        ..Work::by_types(op)
    }
}

/// A row of the output at a time: for each element of the kernel, the columns of the row by the
/// channels of a group; of a kernel of one element all rows at once.
fn convolution(op: OpRef<'_>, w: Value, bias: Option<Value>, groups: i64) -> Work {
    let (Ok(([_, i, kh, kw], _)), [n, o, h, cols]) = (ranked::<4>(op, w, "w"), result(op)) else {
        return Work::by_types(op);
    };
    let groups = groups.max(1);
    let (rows, cols_at_once) = match (kh, kw) {
        (1, 1) => (1, count(&[*h, *cols])),
        _ => (*h, count(&[*cols])),
    };
    let product = Product {
        times: count(&[*n, rows, kh, kw, groups]),
        m: cols_at_once,
        n: count(&[*o / groups]),
        k: count(&[i]),
    };
    let bias = bias.map_or(0, |_| count(&[*n, *o, *h, *cols]));
    with(op, vec![product], bias)
}
impl Cost for Conv2d {
    fn work(&self, op: OpRef<'_>) -> Work {
        let work = convolution(op, self.w, self.bias, self.groups);
        windowed(op, work, self.windows(op))
    }
}
impl Cost for Conv2dInteger {
    fn work(&self, op: OpRef<'_>) -> Work {
        let work = convolution(op, self.w, self.bias, self.groups);
        windowed(op, work, self.windows(op))
    }
}

fn matrices(op: OpRef<'_>, a: Value) -> Work {
    let ([.., k], [outer @ .., m, n]) = (shape(op, a), result(op)) else {
        return Work::by_types(op);
    };
    let product = Product {
        times: count(outer),
        m: count(&[*m]),
        n: count(&[*n]),
        k: count(&[*k]),
    };
    with(op, vec![product], 0)
}
impl Cost for MatMul {
    fn work(&self, op: OpRef<'_>) -> Work {
        matrices(op, self.a)
    }
}
impl Cost for MatMulInteger {
    fn work(&self, op: OpRef<'_>) -> Work {
        matrices(op, self.a)
    }
}

/// A matrix for each place in front of the axis, with a column for each behind it.
impl Cost for ModeProduct {
    fn work(&self, op: OpRef<'_>) -> Work {
        let (shape, &[m, k]) = (shape(op, self.x), shape(op, self.m)) else {
            return Work::by_types(op);
        };
        let at = usize::try_from(self.axis).unwrap_or(usize::MAX);
        let (Some(outer), Some(inner)) = (shape.get(..at), shape.get(at.saturating_add(1)..))
        else {
            return Work::by_types(op);
        };
        // Where the axis is the last one, the other dimensions are rows of one product.
        let (times, n) = match inner {
            [] => (1, count(outer)),
            _ => (count(outer), count(inner)),
        };
        let (m, k) = (count(&[m]), count(&[k]));
        with(op, vec![Product { times, m, n, k }], 0)
    }
}

impl Cost for Gemm {
    fn work(&self, op: OpRef<'_>) -> Work {
        let (&[rows, columns], [m, n]) = (shape(op, self.a), result(op)) else {
            return Work::by_types(op);
        };
        let k = if self.trans_a { rows } else { columns };
        let product = Product {
            times: 1,
            m: count(&[*m]),
            n: count(&[*n]),
            k: count(&[k]),
        };
        let added = self.c.map_or(0, |_| count(&[*m, *n]));
        with(op, vec![product], added)
    }
}

/// Each element of a window once.
impl Cost for MaxPool {
    fn work(&self, op: OpRef<'_>) -> Work {
        let scalars = count(result(op)).saturating_mul(count(&self.kernel));
        windowed(op, with(op, Vec::new(), scalars), self.windows(op))
    }
}
/// Each element of a window once.
impl Cost for AvgPool {
    fn work(&self, op: OpRef<'_>) -> Work {
        let scalars = count(result(op)).saturating_mul(count(&self.kernel));
        windowed(op, with(op, Vec::new(), scalars), self.windows(op))
    }
}
/// Each element once.
impl Cost for GlobalAvgPool {
    fn work(&self, op: OpRef<'_>) -> Work {
        with(op, Vec::new(), count(shape(op, self.x)))
    }
}

/// The same bytes seen otherwise.
impl Cost for Reshape {
    fn work(&self, op: OpRef<'_>) -> Work {
        Work::none(op)
    }
}
/// Nothing where dimensions are only renamed.
impl Cost for Transpose {
    fn work(&self, op: OpRef<'_>) -> Work {
        let mut values = op.ir.operands(op.id).chain(op.ir.results(op.id));
        match values.any(|v| Layout::of(op.ir.ty(v)).is_some()) {
            true => Work::none(op),
            false => Work::moved(op),
        }
    }
}
impl Cost for Concat {
    fn work(&self, op: OpRef<'_>) -> Work {
        Work::moved(op)
    }
}
/// Only what is kept is read.
impl Cost for Slice {
    fn work(&self, op: OpRef<'_>) -> Work {
        Work::kept(op)
    }
}
/// Only the elements that are chosen are read.
impl Cost for Gather {
    fn work(&self, op: OpRef<'_>) -> Work {
        Work::kept(op)
    }
}

/// So many transforms by a matrix of a form; of nothing if there is no such form.
fn transforms(op: OpRef<'_>, tile: i64, count: u64, matrix: fn(&Winograd) -> Matrix) -> Work {
    let each = Winograd::new(tile).map_or(0, |form| operations(matrix(&form)));
    with(op, Vec::new(), count.saturating_mul(each))
}
/// Each filter of each channel.
impl Cost for WinogradFilter {
    fn work(&self, op: OpRef<'_>) -> Work {
        let kernels = count(&shape(op, self.w)[..2.min(shape(op, self.w).len())]);
        transforms(op, self.tile, kernels, |form| form.filter)
    }
}
/// Each channel of each tile.
impl Cost for WinogradInput {
    fn work(&self, op: OpRef<'_>) -> Work {
        let tiles = count(result(op).get(1..).unwrap_or(&[]));
        transforms(op, self.tile, tiles, |form| form.input)
    }
}
/// Each filter of each tile.
impl Cost for WinogradOutput {
    fn work(&self, op: OpRef<'_>) -> Work {
        let tiles = count(shape(op, self.m).get(1..).unwrap_or(&[]));
        let mut work = transforms(op, self.tile, tiles, |form| form.output);
        work.scalars += self.bias.map_or(0, |_| count(result(op)));
        work
    }
}
