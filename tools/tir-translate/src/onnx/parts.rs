//! Importers of nodes that put tensors together and take parts of them.

use tir_core::{Rets, Value};
use tir_graph::{Concat, Slice, Split};
use tir_onnx::Node;

use super::computed;
use super::import::{Cx, Outcome};
use super::operands::{axis, dimension, fail, list, numbers, required};

/// `default` is the axis where none is said.
pub(super) fn concat(cx: &mut Cx, node: &Node, default: Option<i64>) -> Outcome<()> {
    node.only_attributes(&["axis"]).map_err(Some)?;
    let mut xs = Vec::new();
    for k in 0..node.inputs.len() {
        xs.push(cx.operand(node, k)?);
    }
    let rank = xs.first().map_or(0, |x| cx.shape(*x).0.len());
    let axis = dimension(node, axis(node, default)?, rank)? as i64;
    let y = match xs[..] {
        [x] => x,
        _ => cx.add(node, Concat { xs, axis })?,
    };
    cx.define(node, y)
}

/// Until version 12.
pub(super) fn split_by_attribute(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axis", "split"]).map_err(Some)?;
    let sizes = node.ints("split").map_err(Some)?.map(<[i64]>::to_vec);
    split_in(cx, node, sizes, true)
}

/// Until version 17 parts whose sizes are not said are equal.
pub(super) fn split_equally(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axis"]).map_err(Some)?;
    let sizes = numbers(cx, node, 1, "sizes")?;
    split_in(cx, node, sizes, true)
}

pub(super) fn split(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axis", "num_outputs"])
        .map_err(Some)?;
    let sizes = numbers(cx, node, 1, "sizes")?;
    split_in(cx, node, sizes, false)
}

fn split_in(cx: &mut Cx, node: &Node, sizes: Option<Vec<i64>>, equal: bool) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let (shape, _) = cx.shape(x);
    let at = dimension(node, axis(node, Some(0))?, shape.len())?;
    let stated = node.int("num_outputs").map_err(Some)?;
    let count = stated.unwrap_or(node.outputs.len() as i64);
    if count != node.outputs.len() as i64 || count < 1 {
        let found = node.outputs.len();
        return fail(node, format!("has {found} results, expected {count}"));
    }
    let sizes = match sizes {
        Some(sizes) => sizes,
        None if equal && shape[at] % count != 0 => {
            let size = shape[at];
            return fail(
                node,
                format!("has {count} results for dimension {at}, which has size {size}"),
            );
        }
        // Equal ones, the last of them smaller if need be.
        None => {
            let each = shape[at] / count + i64::from(shape[at] % count != 0);
            let left = |i: i64| (shape[at] - each.saturating_mul(i)).clamp(0, each);
            (0..count).map(left).collect()
        }
    };
    if sizes.len() != node.outputs.len() || sizes.iter().any(|n| *n < 0) {
        let count = node.outputs.len();
        return fail(node, format!("has sizes {sizes:?} for {count} results"));
    }
    let split = Split {
        x,
        axis: at as i64,
        sizes,
        parts: Rets(Vec::new()),
    };
    let parts = cx.add_all(node, split)?;
    cx.define_all(node, &parts);
    Ok(())
}

/// Until version 9.
pub(super) fn slice_by_attributes(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axes", "ends", "starts"])
        .map_err(Some)?;
    let (starts, ends) = (list(node, "starts")?, list(node, "ends")?);
    let axes = node.ints("axes").map_err(Some)?.map(<[i64]>::to_vec);
    slice_of(cx, node, starts, ends, axes, None)
}

pub(super) fn slice(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    if computed::applies(cx, node, &[1, 2, 3, 4]) {
        return computed::slice(cx, node);
    }
    // All are looked at before one of them is an error.
    let starts = required(cx, node, 1, "starts");
    let ends = required(cx, node, 2, "ends");
    let axes = numbers(cx, node, 3, "axes");
    let steps = numbers(cx, node, 4, "steps");
    slice_of(cx, node, starts?, ends?, axes?, steps?)
}

fn slice_of(
    cx: &mut Cx,
    node: &Node,
    first: Vec<i64>,
    ends: Vec<i64>,
    axes: Option<Vec<i64>>,
    steps: Option<Vec<i64>>,
) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let shape = cx.shape(x).0;
    let axes = axes.unwrap_or_else(|| (0..first.len() as i64).collect());
    let by = steps.unwrap_or_else(|| vec![1; first.len()]);
    if [ends.len(), axes.len(), by.len()]
        .iter()
        .any(|n| *n != first.len())
    {
        let counts = [first.len(), ends.len(), axes.len(), by.len()];
        return fail(node, format!("has {counts:?} starts, ends, axes and steps"));
    }
    let (mut starts, mut sizes) = (vec![0; shape.len()], shape.to_vec());
    let mut steps = vec![1; shape.len()];
    for (i, axis) in axes.iter().enumerate() {
        let d = dimension(node, *axis, shape.len())?;
        if by[i] == 0 {
            return fail(node, format!("has step 0 in dimension {d}"));
        }
        // A step beyond the dimension takes its first element only.
        steps[d] = by[i].clamp(-shape[d].max(1), shape[d].max(1));
        (starts[d], sizes[d]) = range(first[i], ends[i], by[i], shape[d]);
        if sizes[d] == 0 {
            (starts[d], steps[d]) = (0, 1);
        }
    }
    let y = part(cx, node, x, starts, sizes, steps)?;
    cx.define(node, y)
}

/// Which elements a range takes of `n`: the first and how many.
fn range(start: i64, end: i64, step: i64, n: i64) -> (i64, i64) {
    let from_end = |at: i64| if at < 0 { at.saturating_add(n) } else { at };
    let (start, end) = (from_end(start), from_end(end));
    if step > 0 {
        let (start, end) = (start.clamp(0, n), end.clamp(0, n));
        let count = ((end - start).max(0) as u64).div_ceil(step as u64);
        (start.min((n - 1).max(0)), count as i64)
    } else {
        let (start, end) = (start.clamp(-1, n - 1), end.clamp(-1, n - 1));
        let count = ((start - end).max(0) as u64).div_ceil(step.unsigned_abs());
        (start.max(0), count as i64)
    }
}

/// A part of a tensor; the tensor itself if that is all of it.
fn part(
    cx: &mut Cx,
    node: &Node,
    x: Value,
    starts: Vec<i64>,
    sizes: Vec<i64>,
    steps: Vec<i64>,
) -> Outcome<Value> {
    if cx.shape(x).0 == sizes && steps.iter().all(|n| *n == 1) {
        return Ok(x);
    }
    let op = Slice {
        x,
        starts,
        sizes,
        steps,
    };
    cx.add(node, op)
}

/// `size` elements of dimension `d` from `start` on, in steps of 1 or -1.
pub(super) fn along(
    cx: &mut Cx,
    node: &Node,
    x: Value,
    d: usize,
    start: i64,
    size: i64,
    step: i64,
) -> Outcome<Value> {
    let shape = cx.shape(x).0;
    let (mut starts, mut sizes) = (vec![0; shape.len()], shape.to_vec());
    let mut steps = vec![1; shape.len()];
    if d >= shape.len() {
        let rank = shape.len();
        return fail(node, format!("takes a part of dimension {d} of {rank}"));
    }
    (starts[d], sizes[d], steps[d]) = (start, size, step);
    part(cx, node, x, starts, sizes, steps)
}
