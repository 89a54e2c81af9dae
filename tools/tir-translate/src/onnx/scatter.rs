//! Importers of nodes that take elements from places, or put them there, that data say.
//!
//! Places are numbers of elements in row-major order, or of slices. What is taken is a gather of slices. What is put is, if
//! the places are known, a gather from the tensor and the new elements together; else each slice of the result
//! is compared with all places: as many steps as there are slices, times those that are put. Where those are many, slices are put by a
//! loop of the program.

use tir_arith::IndexCast;
use tir_core::{Ret, Type, Value};
use tir_data::Array;
use tir_loop::Bounds;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::make::Make;
use super::reductions;

/// What becomes of elements that are put to one place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// The last one stays.
    Replace,
    Add,
    Mul,
    Max,
    Min,
}

impl How {
    /// What becomes of an element that something is put to.
    fn put(self, m: &mut Make<'_, '_>, old: Value, new: Value) -> Outcome<Value> {
        match self {
            How::Replace => Ok(new),
            How::Add => m.add(old, new),
            How::Mul => m.mul(old, new),
            How::Max => m.max(old, new),
            How::Min => m.min(old, new),
        }
    }
}

fn how(m: &Make<'_, '_>) -> Outcome<How> {
    Ok(match m.word("reduction", "none")?.as_str() {
        "none" => How::Replace,
        "add" => How::Add,
        "mul" => How::Mul,
        "max" => How::Max,
        "min" => How::Min,
        other => {
            let why =
                format!("attribute 'reduction' is '{other}', expected none, add, mul, max or min");
            return m.fail(why);
        }
    })
}

/// The distance of elements of each dimension, in row-major order.
fn strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d];
    }
    strides
}

/// The numbers of elements in a tensor of a shape whose places are those of `indices`, but for one dimension, in which the
/// indices say it.
fn numbers(m: &mut Make<'_, '_>, indices: Value, shape: &[i64], dim: usize) -> Outcome<Value> {
    let (index, strides, own) = (Make::index_type(), strides(shape), m.shape(indices));
    let indices = m.cast(indices, index)?;
    let indices = m.counted_up(indices, shape[dim])?;
    let mut sum = m.times(indices, strides[dim] as f64)?;
    for (d, size) in own.iter().enumerate().filter(|(d, _)| *d != dim) {
        let along = m.counting(index, *size, d, own.len())?;
        let along = m.times(along, strides[d] as f64)?;
        sum = m.add(sum, along)?;
    }
    Ok(sum)
}

pub(super) fn gather_elements(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["axis"])?;
    let (x, indices) = (m.operand(0)?, m.operand(1)?);
    let shape = m.shape(x);
    let dim = m.dimension(m.int("axis", 0)?, shape.len())?;
    if m.rank(indices) != shape.len() {
        return m.fail(format!(
            "has indices of rank {} for rank {}",
            m.rank(indices),
            shape.len()
        ));
    }
    let numbers = numbers(&mut m, indices, &shape, dim)?;
    let flat = m.reshape(x, &[shape.iter().product()])?;
    let y = m.gather(flat, numbers, 0)?;
    m.done(y)
}

/// The numbers of slices that the last dimension of `indices` says, one index for each of these dimensions.
fn slices(m: &mut Make<'_, '_>, indices: Value, sizes: &[i64]) -> Outcome<Value> {
    let (index, strides, last) = (Make::index_type(), strides(sizes), m.rank(indices) - 1);
    let indices = m.cast(indices, index)?;
    let sizes: Vec<f64> = sizes.iter().map(|n| *n as f64).collect();
    let strides: Vec<f64> = strides.iter().map(|n| *n as f64).collect();
    let count = sizes.len() as i64;
    let (sizes, strides) = (
        m.numbers(index, &[count], &sizes)?,
        m.numbers(index, &[count], &strides)?,
    );
    let (negative, other) = (m.below(indices, 0.0)?, m.add(indices, sizes)?);
    let indices = m.choose(negative, other, indices)?;
    let parts = m.mul(indices, strides)?;
    let sum = m.sum(parts, &[last])?;
    m.squeeze(sum, last)
}

pub(super) fn gather_nd(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["batch_dims"])?;
    let (x, indices) = (m.operand(0)?, m.operand(1)?);
    let (shape, places) = (m.shape(x), m.shape(indices));
    let batch = usize::try_from(m.int("batch_dims", 0)?).unwrap_or(usize::MAX);
    let depth = usize::try_from(places.last().copied().unwrap_or(0)).unwrap_or(0);
    let Some(whole) = batch
        .checked_add(depth)
        .filter(|n| *n <= shape.len() && batch < places.len())
    else {
        return m.fail(format!(
            "takes from {shape:?} by indices {places:?} in a batch of rank {batch}"
        ));
    };
    let mut numbers = slices(&mut m, indices, &shape[batch..whole])?;
    // Each element of the batch has slices of its own.
    let count: i64 = shape[batch..whole].iter().product();
    let (index, own) = (Make::index_type(), m.rank(numbers));
    for (d, stride) in strides(&shape[..batch]).iter().enumerate() {
        let along = m.counting(index, shape[d], d, own)?;
        let along = m.times(along, (stride * count) as f64)?;
        numbers = m.add(numbers, along)?;
    }
    let rest = &shape[whole..];
    let flat = [&[shape[..whole].iter().product()], rest].concat();
    let flat = m.reshape(x, &flat)?;
    let y = m.gather(flat, numbers, 0)?;
    m.done(y)
}

/// The slices of `x` (P x R) with those of `updates` (K x R) put to their numbers (K).
fn put(m: &mut Make<'_, '_>, x: Value, numbers: Value, updates: Value, how: How) -> Outcome<Value> {
    let (places, count) = (m.shape(x)[0], m.shape(updates)[0]);
    if count == 0 || places == 0 {
        return Ok(x);
    }
    if how == How::Replace
        && let Some(known) = m.cx.constant_of(numbers).and_then(|a| a.to_i64s())
    {
        m.cx.room(m.node, &[places])?;
        let mut from: Vec<i64> = (0..places).collect();
        for (k, at) in known.iter().enumerate() {
            match usize::try_from(*at).ok().and_then(|at| from.get_mut(at)) {
                Some(from) => *from = places + k as i64,
                None => return m.fail(format!("puts a slice to number {at} of {places}")),
            }
        }
        let from = Array::from_vec(&[from.len()], from);
        let from = from.map_err(|e| Some(m.node.error(e.message)))?;
        let from = m.array(&from);
        let all = m.concat(vec![x, updates], 0)?;
        return m.gather(all, from, 0);
    }
    let rest = m.shape(x)[1];
    if count.saturating_mul(places).saturating_mul(rest) > TABLE {
        return put_one_by_one(m, x, numbers, updates, how);
    }
    let index = Make::index_type();
    let numbers = m.reshape(numbers, &[count, 1])?;
    let all = m.counting(index, places, 1, 2)?;
    let mut here = m.equal(numbers, all)?;
    if how == How::Replace {
        // Of several the last one stays: it is the only one behind which there is no other.
        let later = m.cast(here, index)?;
        let order = m.counting(index, count, 0, 2)?;
        let order = m.plus(order, 1.0)?;
        let order = m.mul(later, order)?;
        let last = m.largest(order, &[0])?;
        let own = m.equal(order, last)?;
        here = m.and(here, own)?;
    }
    let some = m.cast(here, index)?;
    let some = m.largest(some, &[0])?;
    let some = m.above(some, 0.0)?;
    let some = m.reshape(some, &[places, 1])?;
    let here = m.unsqueeze(here, 2)?;
    let updates = m.unsqueeze(updates, 1)?;
    let elem = m.elem(x);
    let bounds = tir_graph::bounds(elem);
    let nothing = match how {
        How::Replace | How::Add => 0.0,
        How::Mul => 1.0,
        How::Max => bounds.map_or(f64::NEG_INFINITY, |[low, _]| low as f64),
        How::Min => bounds.map_or(f64::INFINITY, |[_, high]| high as f64),
    };
    let number = m.like(x, nothing);
    let Ok(nothing) = number else {
        return m.fail(format!(
            "puts elements of {elem} by a reduction, which cannot be imported"
        ));
    };
    let parts = m.choose(here, updates, nothing)?;
    let together = match how {
        How::Replace | How::Add => m.sum(parts, &[0])?,
        How::Mul => reductions::product(m, parts, &[0])?,
        How::Max => m.largest(parts, &[0])?,
        How::Min => m.smallest(parts, &[0])?,
    };
    let together = m.squeeze(together, 0)?;
    let changed = how.put(m, x, together)?;
    m.choose(some, changed, x)
}

/// Elements of a table of all places by all that is put, above which slices are put one after the other.
const TABLE: i64 = 1 << 20;

/// The same by a loop of the program, one slice in each trip.
fn put_one_by_one(
    m: &mut Make<'_, '_>,
    x: Value,
    numbers: Value,
    updates: Value,
    how: How,
) -> Outcome<Value> {
    let (count, node) = (m.shape(updates)[0], m.node);
    let cx = &mut *m.cx;
    let ty = cx.ir().ty(x);
    let (region, args) = cx.enter(&[Type::index(), ty]);
    let done = (|| -> Outcome<Value> {
        let number = cx.picked(node, numbers, 0, args[0])?;
        let input = cx.element(node, number)?;
        let output = Ret(Type::index());
        let at = cx.add(node, IndexCast { input, output })?;
        let put = cx.picked(node, updates, 0, args[0])?;
        if how == How::Replace {
            return cx.placed(node, put, args[1], 0, at);
        }
        let old = cx.picked(node, args[1], 0, at)?;
        let mut m = Make::new(cx, node);
        let new = how.put(&mut m, old, put)?;
        cx.placed(node, new, args[1], 0, at)
    })();
    let changed = match done {
        Ok(changed) => changed,
        Err(error) => {
            cx.abandon(region);
            return Err(error);
        }
    };
    let region = cx.close(region, vec![changed]);
    let results = cx.repeat(node, Bounds::Static(count), vec![x], region)?;
    results.first().copied().ok_or(None)
}

pub(super) fn scatter_nd(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["reduction"])?;
    let how = how(&m)?;
    let (x, indices, updates) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
    let (shape, places) = (m.shape(x), m.shape(indices));
    let depth = usize::try_from(places.last().copied().unwrap_or(0)).unwrap_or(0);
    if depth > shape.len() {
        return m.fail(format!("puts to {shape:?} by indices {places:?}"));
    }
    let count: i64 = places[..places.len() - 1].iter().product();
    let rest: i64 = shape[depth..].iter().product();
    let numbers = slices(&mut m, indices, &shape[..depth])?;
    let numbers = m.reshape(numbers, &[count])?;
    let flat = m.reshape(x, &[shape[..depth].iter().product(), rest])?;
    let updates = m.reshape(updates, &[count, rest])?;
    let y = put(&mut m, flat, numbers, updates, how)?;
    let y = m.reshape(y, &shape)?;
    m.done(y)
}

/// Elements put along a dimension: one number for each of them.
pub(super) fn scatter_elements(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["axis", "reduction"])?;
    let how = how(&m)?;
    let (x, indices, updates) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
    let shape = m.shape(x);
    let dim = m.dimension(m.int("axis", 0)?, shape.len())?;
    let places = m.shape(indices);
    if places.len() != shape.len() || m.shape(updates) != places {
        return m.fail(format!(
            "puts {:?} by {places:?} to {shape:?}",
            m.shape(updates)
        ));
    }
    let numbers = numbers(&mut m, indices, &shape, dim)?;
    let (count, all) = (
        places.iter().product::<i64>(),
        shape.iter().product::<i64>(),
    );
    let numbers = m.reshape(numbers, &[count])?;
    let flat = m.reshape(x, &[all, 1])?;
    let updates = m.reshape(updates, &[count, 1])?;
    let y = put(&mut m, flat, numbers, updates, how)?;
    let y = m.reshape(y, &shape)?;
    m.done(y)
}

/// A cache of sequences with new elements written from a position on, of each sequence its own; with mode `circular` beyond the
/// end from the begin on.
pub(super) fn tensor_scatter(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["axis", "mode"])?;
    let (x, updates, starts) = (m.operand(0)?, m.operand(1)?, m.optional(2)?);
    let shape = m.shape(x);
    let dim = m.dimension(m.int("axis", -2)?, shape.len())?;
    let (index, count, size) = (Make::index_type(), m.shape(updates)[dim], shape[dim]);
    if dim == 0 {
        return m.fail("writes along the batch");
    }
    let circular = match m.word("mode", "linear")?.as_str() {
        "linear" => false,
        "circular" => true,
        other => {
            return m.fail(format!(
                "attribute 'mode' is '{other}', expected linear or circular"
            ));
        }
    };
    // Place p of the result has element p - start of what is written, if there is one.
    let places = m.counting(index, size, 1, 2)?;
    let mut from = match starts {
        None => places,
        Some(starts) => {
            let starts = m.cast(starts, index)?;
            let starts = m.unsqueeze(starts, 1)?;
            m.sub(places, starts)?
        }
    };
    if circular {
        let negative = m.below(from, 0.0)?;
        let other = m.plus(from, size as f64)?;
        from = m.choose(negative, other, from)?;
    }
    let n = m.shape(from)[0];
    let (inside, first) = (m.below(from, count as f64)?, m.below(from, 0.0)?);
    let first = m.not(first)?;
    let inside = m.and(inside, first)?;
    let from = m.at_least(from, 0.0)?;
    let from = m.at_most(from, (count - 1) as f64)?;
    // One gather for each sequence, of slices that lie along the dimension.
    let mut parts = Vec::new();
    m.written(shape[0])?;
    for at in 0..shape[0] {
        let one = m.along(updates, 0, at, 1, 1)?;
        let row = m.pick(from, 0, if n == 1 { 0 } else { at })?;
        parts.push(m.gather(one, row, dim)?);
    }
    let new = m.concat(parts, 0)?;
    let mut form = vec![1; shape.len()];
    (form[0], form[dim]) = (n, size);
    let inside = m.reshape(inside, &form)?;
    let y = m.choose(inside, new, x)?;
    m.done(y)
}

/// The first elements of each sequence in reverse order, as many as its length.
pub(super) fn reverse_sequence(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["batch_axis", "time_axis"])?;
    let (x, lengths) = (m.operand(0)?, m.operand(1)?);
    let shape = m.shape(x);
    let time = m.dimension(m.int("time_axis", 0)?, shape.len())?;
    let batch = m.dimension(m.int("batch_axis", 1)?, shape.len())?;
    if time == batch {
        return m.fail("has one axis for the batch and for time");
    }
    let y = reversed(&mut m, x, lengths, time, batch)?;
    m.done(y)
}

/// See [`reverse_sequence`].
pub(super) fn reversed(
    m: &mut Make<'_, '_>,
    x: Value,
    lengths: Value,
    time: usize,
    batch: usize,
) -> Outcome<Value> {
    let shape = m.shape(x);
    let index = Make::index_type();
    let mut perm = vec![batch, time];
    perm.extend((0..shape.len()).filter(|d| *d != batch && *d != time));
    let x = m.transpose(x, &perm)?;
    let (n, t) = (shape[batch], shape[time]);
    let lengths = m.cast(lengths, index)?;
    let lengths = m.reshape(lengths, &[n, 1])?;
    let steps = m.counting(index, t, 1, 2)?;
    let inside = m.less(steps, lengths)?;
    let last = m.plus(lengths, -1.0)?;
    let back = m.sub(last, steps)?;
    let from = m.choose(inside, back, steps)?;
    let rows = m.counting(index, n, 0, 2)?;
    let rows = m.times(rows, t as f64)?;
    let from = m.add(from, rows)?;
    let own = m.shape(x);
    let flat = m.reshape(x, &[&[n * t], &own[2..]].concat())?;
    let y = m.gather(flat, from, 0)?;
    let mut back = vec![0; perm.len()];
    for (i, d) in perm.iter().enumerate() {
        back[*d] = i;
    }
    m.transpose(y, &back)
}
