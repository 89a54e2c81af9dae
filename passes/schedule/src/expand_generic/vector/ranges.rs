//! Ranges of points as blocks of vectors, and what of them is left over.

use tir::{Builder, Failure, Value};
use tir_arith::{MinSI, OpFoldResult, constant_index};
use tir_loop::{Bounds, For, Yield};

/// A part of a range: blocks of `count` times `step` from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Rows or vectors of a block.
    pub(super) count: i64,
    /// Points of each.
    pub(super) step: i64,
}

impl Part {
    /// Its number of blocks.
    pub(super) fn blocks(&self) -> i64 {
        (self.end - self.start) / (self.count * self.step)
    }
}

/// A range of `size` points in blocks of `count` times `step`, then in smaller ones: fewer at a time, then of fewer points
/// each.
pub(super) fn parts(size: i64, count: i64, step: i64, least: i64) -> Vec<Part> {
    let (mut all, mut start) = (Vec::new(), 0);
    let (mut count, mut step) = (count.max(1), step);
    while start < size {
        let one = count * step;
        let end = start + (size - start) / one * one;
        if end > start {
            all.push(Part {
                start,
                end,
                count,
                step,
            });
            start = end;
        }
        // What is left is less than a block.
        let left = (size - start) / step.max(1);
        match left {
            0 => (count, step) = (1, (step / 2).max(least)),
            left => count = left.min(count),
        }
    }
    all
}

/// A range of `size` points in blocks as [`parts`] has them, but for what is less than a vector: that is one more vector which ends
/// with the range, and some points are in two.
pub(super) fn overlapping(size: i64, count: i64, step: i64) -> Vec<Part> {
    let mut start = size / step * step;
    let mut all = parts(start, count, step, 1);
    while start < size {
        let left = size - start;
        let round = (left as u64).next_power_of_two() as i64;
        let step = if round > size { round / 2 } else { round };
        let begin = start.min(size - step);
        all.push(Part {
            start: begin,
            end: begin + step,
            count: 1,
            step,
        });
        start = begin + step;
    }
    all
}

/// Loops over the blocks of a part, or one block alone.
pub(super) fn blocks(
    b: &mut Builder<'_>,
    part: Part,
    fill: &mut dyn FnMut(&mut Builder<'_>, Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let step = part.count * part.step;
    if part.end - part.start <= step {
        let start = constant_index(b, part.start);
        return fill(b, start);
    }
    let mut done = Ok(());
    let body = b.body(&[tir::Type::index()], |b, args| {
        done = fill(b, args[0]);
        b.add(Yield { values: vec![] });
    });
    let bounds = [part.start, part.end, step].map(Bounds::Static);
    b.add(For::new(bounds, vec![], body, vec![]));
    done
}

/// A row of `size` elements by vectors of up to `width`: `fill` is given where each begins, and its length.
fn row(
    b: &mut Builder<'_>,
    size: i64,
    width: i64,
    fill: &mut dyn FnMut(&mut Builder<'_>, Value, i64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for part in parts(size, 1, width.max(1), 1) {
        blocks(b, part, &mut |b, first| fill(b, first, part.step))?;
    }
    Ok(())
}

/// Where the rows or vectors of a block begin.
pub(super) fn places(b: &mut Builder<'_>, first: Value, part: Part) -> Vec<Value> {
    let place = |k: i64| {
        let at = OpFoldResult::Value(first).plus(b, k * part.step);
        at.value(b)
    };
    (0..part.count).map(place).collect()
}

/// The length of the one vector whose first elements are a range, where shorter ones would be two: the range is shorter than
/// the longest vector, and no vector is as long.
pub(in super::super) fn masked(size: i64, width: i64) -> Option<i64> {
    let length = (size.max(1) as u64).next_power_of_two() as i64;
    (size > 2 && size < length && length <= width).then_some(length)
}

/// A range by vectors of at most so many elements: `fill` is given where each begins, and its length.
pub(in super::super) fn pieces(
    b: &mut Builder<'_>,
    size: i64,
    width: i64,
    fill: &mut dyn FnMut(&mut Builder<'_>, Value, i64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let length = 1i64 << size.min(width).max(1).ilog2();
    let whole = size / length * length;
    row(b, whole, length, fill)?;
    if size == whole {
        return Ok(());
    }
    let end = constant_index(b, size - length);
    fill(b, end, length)
}

/// Where squares along a range begin.
pub(in super::super) fn begins(
    b: &mut Builder<'_>,
    size: i64,
    side: i64,
    fill: &mut dyn FnMut(&mut Builder<'_>, Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    row(
        b,
        (size + side - 1) / side * side,
        side,
        &mut |b, first, _| {
            if size % side == 0 {
                return fill(b, first);
            }
            let rhs = constant_index(b, size - side);
            let begin = b.add(MinSI { lhs: first, rhs });
            fill(b, begin)
        },
    )
}
