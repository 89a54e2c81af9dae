//! Importers of nodes that move elements: parts, joints, repetition, choice, element types.

use tir_core::{Attr, Ret, Rets, Type, Value};
use tir_data::Array;
use tir_graph::{Cast, Concat, Expand, Gather, Pad, Slice, Split, Where};
use tir_onnx::{ElementType, Node};

use super::import::{Cx, Outcome};
use super::views::reshaped;

pub(super) fn fail<T>(node: &Node, why: impl Into<String>) -> Outcome<T> {
    Err(Some(node.error(why)))
}

/// A dimension, counted from the end if it is negative.
pub(super) fn dimension(node: &Node, axis: i64, rank: usize) -> Outcome<usize> {
    let at = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(at) {
        Ok(at) if at < rank => Ok(at),
        _ => fail(node, format!("has axis {axis} for rank {rank}")),
    }
}

/// The integers of operand `k`, which must be a constant; `None` if it is omitted.
pub(super) fn numbers(cx: &Cx, node: &Node, k: usize, what: &str) -> Outcome<Option<Vec<i64>>> {
    if node.input(k).is_none() {
        return Ok(None);
    }
    if cx.is_broken(node, k) {
        return Err(None);
    }
    let list = cx.elements(node, k).and_then(|a| a.to_i64s());
    match list {
        Some(list) => Ok(Some(list)),
        None => fail(node, format!("has {what} that are not constant integers")),
    }
}

fn required(cx: &Cx, node: &Node, k: usize, what: &str) -> Outcome<Vec<i64>> {
    match numbers(cx, node, k, what)? {
        Some(list) => Ok(list),
        None => fail(node, format!("operand {k} is missing")),
    }
}

/// The integers of an attribute that must be there.
fn list(node: &Node, name: &str) -> Outcome<Vec<i64>> {
    let list = node.ints(name).map_err(Some)?;
    list.map(<[i64]>::to_vec)
        .ok_or_else(|| Some(node.missing(name)))
}

fn axis(node: &Node, default: Option<i64>) -> Outcome<i64> {
    let said = node.int("axis").map_err(Some)?.or(default);
    said.ok_or_else(|| Some(node.missing("axis")))
}

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
    let (shape, elem) = cx.shape(x);
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
            let each = (shape[at] + count - 1) / count;
            let left = |i: i64| (shape[at] - i * each).clamp(0, each);
            (0..count).map(left).collect()
        }
    };
    if sizes.len() != node.outputs.len() || sizes.iter().any(|n| *n < 0) {
        let count = node.outputs.len();
        return fail(node, format!("has sizes {sizes:?} for {count} results"));
    }
    let part = |n: &i64| {
        let mut part = shape.to_vec();
        part[at] = *n;
        Type::tensor(part, elem)
    };
    let parts = Rets(sizes.iter().map(part).collect());
    let axis = at as i64;
    let parts = cx.add_all(node, Split { x, axis, parts })?;
    cx.define_all(node, &parts);
    Ok(())
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
    let starts = required(cx, node, 1, "starts")?;
    let ends = required(cx, node, 2, "ends")?;
    let axes = numbers(cx, node, 3, "axes")?;
    let steps = numbers(cx, node, 4, "steps")?;
    slice_of(cx, node, starts, ends, axes, steps)
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
fn along(
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
    (starts[d], sizes[d], steps[d]) = (start, size, step);
    part(cx, node, x, starts, sizes, steps)
}

/// Until version 10.
pub(super) fn pad_by_attributes(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["mode", "pads", "value"])
        .map_err(Some)?;
    let value = node.float("value").map_err(Some)?.map(Array::scalar);
    pad_with(cx, node, list(node, "pads")?, None, value)
}

pub(super) fn pad(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["mode"]).map_err(Some)?;
    let pads = required(cx, node, 1, "pads")?;
    let axes = numbers(cx, node, 3, "axes")?;
    let value = match node.input(2) {
        None => None,
        Some(_) => match cx.elements(node, 2) {
            Some(array) if array.len() == 1 => Some(array),
            _ => return fail(node, "has a value that is not a constant number"),
        },
    };
    pad_with(cx, node, pads, axes, value)
}

fn pad_with(
    cx: &mut Cx,
    node: &Node,
    pads: Vec<i64>,
    axes: Option<Vec<i64>>,
    value: Option<Array>,
) -> Outcome<()> {
    let mut x = cx.operand(node, 0)?;
    let (shape, elem) = cx.shape(x);
    let rank = shape.len();
    let axes = axes.unwrap_or_else(|| (0..rank as i64).collect());
    if pads.len() != 2 * axes.len() {
        let (found, wanted) = (pads.len(), 2 * axes.len());
        return fail(node, format!("has {found} pads, expected {wanted}"));
    }
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    for (i, axis) in axes.iter().enumerate() {
        let d = dimension(node, *axis, rank)?;
        (low[d], high[d]) = (pads[i], pads[axes.len() + i]);
    }
    let mode = node.string("mode").map_err(Some)?.unwrap_or("constant");
    // Negative ones cut off.
    for d in 0..rank {
        let (before, behind) = ((-low[d]).max(0), (-high[d]).max(0));
        let size = cx.shape(x).0[d] - before - behind;
        if size < 0 {
            return fail(node, format!("cuts more than there is off dimension {d}"));
        }
        x = along(cx, node, x, d, before, size, 1)?;
        (low[d], high[d]) = (low[d].max(0), high[d].max(0));
    }
    if mode != "constant" {
        for d in 0..rank {
            x = continued(cx, node, x, d, [low[d], high[d]], mode)?;
        }
        return cx.define(node, x);
    }
    let value = match (elem.is_float(), value) {
        (true, value) => Attr::float(value.and_then(|a| a.get_f64(0)).unwrap_or(0.0), elem),
        (false, value) => {
            let number = value.and_then(|a| a.get_int(0)).unwrap_or(0);
            Attr::int(number as i64, elem)
        }
    };
    let y = cx.add(
        node,
        Pad {
            x,
            low,
            high,
            value,
        },
    )?;
    cx.define(node, y)
}

/// A dimension continued on both sides from what is in it: `edge` repeats the outermost element,
/// `reflect` mirrors at it, `wrap` goes on at the other end.
fn continued(
    cx: &mut Cx,
    node: &Node,
    x: Value,
    d: usize,
    [low, high]: [i64; 2],
    mode: &str,
) -> Outcome<Value> {
    let n = cx.shape(x).0[d];
    if low == 0 && high == 0 {
        return Ok(x);
    }
    let reach = match mode {
        "reflect" => n - 1,
        "wrap" => n,
        "edge" if n > 0 => i64::MAX,
        "edge" => 0,
        other => {
            return fail(
                node,
                format!("attribute 'mode' is '{other}', expected constant, edge, reflect or wrap"),
            );
        }
    };
    if low.max(high) > reach {
        let more = low.max(high);
        return fail(
            node,
            format!(
                "adds {more} elements to the {n} of dimension {d} by mode '{mode}', which cannot be imported"
            ),
        );
    }
    let mut xs = Vec::new();
    for (at_end, count) in [(false, low), (true, high)] {
        if at_end {
            xs.push(x);
        }
        if count == 0 {
            continue;
        }
        let added = match (mode, at_end) {
            ("reflect", false) => along(cx, node, x, d, low, count, -1)?,
            ("reflect", true) => along(cx, node, x, d, n - 2, count, -1)?,
            ("wrap", false) => along(cx, node, x, d, n - low, count, 1)?,
            ("wrap", true) => along(cx, node, x, d, 0, count, 1)?,
            _ => {
                let one = along(cx, node, x, d, if at_end { n - 1 } else { 0 }, 1, 1)?;
                let (shape, elem) = cx.shape(x);
                let mut shape = shape.to_vec();
                shape[d] = count;
                expanded(cx, node, one, &shape, elem)?
            }
        };
        xs.push(added);
    }
    let axis = d as i64;
    cx.add(node, Concat { xs, axis })
}

fn expanded(cx: &mut Cx, node: &Node, x: Value, shape: &[i64], elem: Type) -> Outcome<Value> {
    if cx.shape(x).0 == shape {
        return Ok(x);
    }
    let y = Ret(Type::tensor(shape, elem));
    cx.add(node, Expand { x, y })
}

pub(super) fn expand(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let wanted = required(cx, node, 1, "sizes")?;
    let (shape, elem) = cx.shape(x);
    // Either may be broadcast to the other.
    let whole = tir_graph::shape::broadcast(shape, &wanted);
    let whole = whole.map_err(|e| Some(node.error(e.message)))?;
    let y = expanded(cx, node, x, &whole, elem)?;
    cx.define(node, y)
}

/// A tensor repeated in each dimension: as one with two dimensions for each that is repeated.
pub(super) fn tile(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let counts = required(cx, node, 1, "repeats")?;
    let (shape, elem) = cx.shape(x);
    if counts.len() != shape.len() || counts.iter().any(|n| *n < 0) {
        return fail(node, format!("has repeats {counts:?} of {shape:?}"));
    }
    let (mut single, mut whole, mut result) = (Vec::new(), Vec::new(), Vec::new());
    for (n, count) in shape.iter().zip(&counts) {
        single.extend([1, *n]);
        whole.extend([*count, *n]);
        result.push(n.saturating_mul(*count));
    }
    let y = reshaped(cx, node, x, &single)?;
    let y = expanded(cx, node, y, &whole, elem)?;
    let y = reshaped(cx, node, y, &result)?;
    cx.define(node, y)
}

/// Until version 12.
pub(super) fn squeeze_by_attribute(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axes"]).map_err(Some)?;
    let axes = node.ints("axes").map_err(Some)?.map(<[i64]>::to_vec);
    without(cx, node, axes)
}

pub(super) fn squeeze(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let axes = numbers(cx, node, 1, "axes")?;
    without(cx, node, axes)
}

/// Operand 0 without these unit dimensions, or without any.
fn without(cx: &mut Cx, node: &Node, axes: Option<Vec<i64>>) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let shape = cx.shape(x).0;
    let mut gone = vec![false; shape.len()];
    match axes {
        Some(axes) => {
            for axis in axes {
                let d = dimension(node, axis, shape.len())?;
                if shape[d] != 1 {
                    let size = shape[d];
                    return fail(
                        node,
                        format!("takes out dimension {d}, which has size {size}"),
                    );
                }
                gone[d] = true;
            }
        }
        None => gone = shape.iter().map(|n| *n == 1).collect(),
    }
    let kept = shape.iter().zip(&gone).filter(|(_, gone)| !**gone);
    let kept: Vec<i64> = kept.map(|(n, _)| *n).collect();
    let y = reshaped(cx, node, x, &kept)?;
    cx.define(node, y)
}

/// Until version 12.
pub(super) fn unsqueeze_by_attribute(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axes"]).map_err(Some)?;
    with(cx, node, &list(node, "axes")?)
}

pub(super) fn unsqueeze(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let axes = required(cx, node, 1, "axes")?;
    with(cx, node, &axes)
}

/// Operand 0 with unit dimensions at these places of the result.
fn with(cx: &mut Cx, node: &Node, axes: &[i64]) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let shape = cx.shape(x).0;
    let rank = shape.len() + axes.len();
    let mut new = vec![false; rank];
    for axis in axes {
        let d = dimension(node, *axis, rank)?;
        if std::mem::replace(&mut new[d], true) {
            return fail(node, format!("names dimension {d} twice"));
        }
    }
    let mut old = shape.iter();
    let size = |new: &bool| {
        if *new {
            1
        } else {
            old.next().copied().unwrap_or(1)
        }
    };
    let whole: Vec<i64> = new.iter().map(size).collect();
    let y = reshaped(cx, node, x, &whole)?;
    cx.define(node, y)
}

/// By constant numbers that go on regularly it is a part of the tensor.
pub(super) fn gather(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axis"]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let (shape, _) = cx.shape(x);
    let at = dimension(node, axis(node, Some(0))?, shape.len())?;
    let n = shape[at];
    let known = cx.elements(node, 1);
    if let Some(array) = &known
        && let Some(list) = array.to_i64s()
    {
        let from_end = |i: &i64| if *i < 0 { i.saturating_add(n) } else { *i };
        let places: Vec<i64> = list.iter().map(from_end).collect();
        if let Some(i) = places.iter().position(|p| !(0..n).contains(p)) {
            let index = list[i];
            return fail(
                node,
                format!("takes element {index} of dimension {at}, which has {n}"),
            );
        }
        let step = match places[..] {
            [a, b, ..] => b - a,
            _ => 1,
        };
        let regular = places.windows(2).all(|pair| pair[1] - pair[0] == step);
        if regular && step != 0 && !places.is_empty() {
            let y = along(cx, node, x, at, places[0], places.len() as i64, step)?;
            let mut result = shape.to_vec();
            result.splice(at..=at, array.shape().iter().map(|d| *d as i64));
            let y = reshaped(cx, node, y, &result)?;
            return cx.define(node, y);
        }
    }
    let indices = cx.operand(node, 1)?;
    let axis = at as i64;
    let y = cx.add(node, Gather { x, indices, axis })?;
    cx.define(node, y)
}

pub(super) fn choose(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let condition = cx.operand(node, 0)?;
    let (x, y) = (cx.operand(node, 1)?, cx.operand(node, 2)?);
    let y = cx.add(node, Where { condition, x, y })?;
    cx.define(node, y)
}

pub(super) fn cast(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["to", "saturate", "round_mode"])
        .map_err(Some)?;
    let to = node.int("to").map_err(Some)?;
    let to = to.ok_or_else(|| Some(node.missing("to")))?;
    let to = ElementType(i32::try_from(to).unwrap_or(0));
    let Some(dtype) = to.dtype() else {
        return fail(node, format!("converts to {to}, which cannot be imported"));
    };
    as_type(cx, node, tir_interp::elem_of(dtype))
}

/// Until version 6: training unless the node says that it is a test.
pub(super) fn dropout_with_is_test(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["consumed_inputs", "is_test", "ratio"])
        .map_err(Some)?;
    if node.int("is_test").map_err(Some)?.unwrap_or(0) == 0 {
        return fail(node, "is in training mode, which cannot be imported");
    }
    cx.alias(node)
}

/// Nothing is dropped but in training. The mask is not made: what reads it is refused.
pub(super) fn dropout(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["ratio", "seed"]).map_err(Some)?;
    if node.input(2).is_some() {
        let training = cx.elements(node, 2).and_then(|a| a.get_int(0));
        if training != Some(0) {
            return fail(
                node,
                "may be in training mode, which cannot be imported: operand 2 is not false",
            );
        }
    }
    cx.alias(node)
}

/// Its elements have the type of those of another value.
pub(super) fn cast_like(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["saturate", "round_mode"])
        .map_err(Some)?;
    let like = cx.operand(node, 1)?;
    let elem = cx.shape(like).1;
    as_type(cx, node, elem)
}

fn as_type(cx: &mut Cx, node: &Node, elem: Type) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let (shape, from) = cx.shape(x);
    if from == elem {
        return cx.alias(node);
    }
    let y = Ret(Type::tensor(shape, elem));
    let y = cx.add(node, Cast { x, y })?;
    cx.define(node, y)
}
