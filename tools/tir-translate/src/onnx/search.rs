//! Importers of nodes that look for elements: largest ones, sorted ones, and those that a number names.

use tir_core::{Type, Value};
use tir_data::DType;
use tir_loop::Bounds;
use tir_onnx::Node;

use super::computed;
use super::import::{Cx, Outcome};
use super::make::Make;
use super::operands::fail;

/// The place of the largest or smallest element of a dimension, which stays: the first one, or the last.
fn place(m: &mut Make<'_, '_>, x: Value, dim: usize, largest: bool, last: bool) -> Outcome<Value> {
    let best = match largest {
        true => m.largest(x, &[dim])?,
        false => m.smallest(x, &[dim])?,
    };
    let found = m.equal(x, best)?;
    let count = m.shape(x)[dim];
    let (elem, rank) = (Make::index_type(), m.rank(x));
    let places = m.counting(elem, count, dim, rank)?;
    let other = m.like(places, if last { 0.0 } else { (count - 1) as f64 })?;
    let places = m.choose(found, places, other)?;
    match last {
        true => m.largest(places, &[dim]),
        false => m.smallest(places, &[dim]),
    }
}

pub(super) fn arg(cx: &mut Cx<'_>, node: &Node, largest: bool) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["axis", "keepdims", "select_last_index"])?;
    let x = m.operand(0)?;
    let dim = m.dimension(m.int("axis", 0)?, m.rank(x))?;
    let last = m.flag("select_last_index")?;
    let mut y = place(&mut m, x, dim, largest, last)?;
    if m.int("keepdims", 1)? == 0 {
        y = m.squeeze(y, dim)?;
    }
    m.done(y)
}

/// 1 at the largest element of a dimension, else 0.
pub(super) fn hardmax(cx: &mut Cx<'_>, node: &Node, rows: bool) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["axis"])?;
    let mut x = m.operand(0)?;
    let shape = m.shape(x);
    let mut dim = m.dimension(m.int("axis", if rows { 1 } else { -1 })?, shape.len())?;
    if rows {
        let (outer, inner) = shape.split_at(dim);
        x = m.reshape(x, &[outer.iter().product(), inner.iter().product()])?;
        dim = 1;
    }
    let at = place(&mut m, x, dim, true, false)?;
    let (count, rank) = (m.shape(x)[dim], m.rank(x));
    let places = m.counting(Make::index_type(), count, dim, rank)?;
    let found = m.equal(at, places)?;
    let elem = m.elem(x);
    let y = m.cast(found, elem)?;
    let y = m.reshape(y, &shape)?;
    m.done(y)
}

/// The largest or smallest elements of a dimension in their order, and their places: an element belongs to the place of the
/// result that as many others go before it, equal ones by their place.
pub(super) fn top_k(cx: &mut Cx<'_>, node: &Node, attribute: bool) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(match attribute {
        true => &["axis", "k"],
        false => &["axis", "largest", "sorted"],
    })?;
    let count = match attribute {
        true => m.int("k", -1)?,
        false => match m.ints(1, "a number of elements")?.as_deref() {
            Some([k]) => *k,
            _ => return m.fail("has no single number of elements"),
        },
    };
    let x = m.operand(0)?;
    let dim = m.dimension(m.int("axis", -1)?, m.rank(x))?;
    let largest = m.int("largest", 1)? != 0;
    let x = m.moved_last(x, dim)?;
    let (rank, elem) = (m.rank(x), m.elem(x));
    let size = m.shape(x)[rank - 1];
    if !(0..=size).contains(&count) {
        return m.fail(format!("takes {count} of {size} elements"));
    }
    // Few of many are found one after the other: a table of all pairs is large.
    let [low, high] = match tir_graph::bounds(elem) {
        Some([low, high]) => [low as f64, high as f64],
        None => [f64::NEG_INFINITY, f64::INFINITY],
    };
    let exact = !(elem.is_int() && elem.bits() == Some(64));
    if size > PAIRS && (1..size / FEW).contains(&count) && exact {
        let [values, numbers] = one_by_one(cx, node, x, (count, largest), [low, high])?;
        let mut m = Make::new(cx, node);
        let mut results = Vec::new();
        for y in [values, numbers] {
            results.push(m.moved_back(y, dim)?);
        }
        cx.define_all(node, &results);
        return Ok(());
    }
    m.cx.room(node, &[size, size])?;
    let (one, others) = (m.unsqueeze(x, rank)?, m.unsqueeze(x, rank - 1)?);
    let better = match largest {
        true => m.greater(others, one)?,
        false => m.less(others, one)?,
    };
    let same = m.equal(others, one)?;
    let index = Make::index_type();
    let (rows, columns) = (
        m.counting(index, size, 0, 2)?,
        m.counting(index, size, 1, 2)?,
    );
    let before = m.less(columns, rows)?;
    let same = m.and(same, before)?;
    let ahead = m.or(better, same)?;
    let ahead = m.cast(ahead, index)?;
    let ahead = m.sum(ahead, &[rank])?;
    // Of each place of the result there is one element.
    let places = m.counting(index, count, 1, 2)?;
    let taken = m.equal(ahead, places)?;
    let zero = m.like(x, 0.0)?;
    let values = m.choose(taken, one, zero)?;
    let values = sum_of_one(&mut m, values, rank - 1, elem)?;
    let numbers = m.counting(index, size, 0, 2)?;
    let nothing = m.like(numbers, 0.0)?;
    let numbers = m.choose(taken, numbers, nothing)?;
    let numbers = m.sum(numbers, &[rank - 1])?;
    let mut results = Vec::new();
    for y in [values, numbers] {
        let y = m.squeeze(y, rank - 1)?;
        results.push(m.moved_back(y, dim)?);
    }
    cx.define_all(node, &results);
    Ok(())
}

/// More elements than these are not compared each with each, where only few of them are taken: one in so many.
const PAIRS: i64 = 1024;
const FEW: i64 = 4;

/// So many of the largest or smallest elements of the last dimension, and their places, by a loop of the program: each time the best
/// of those that are left, of equal ones the first. `bounds` are those of the element type.
fn one_by_one(
    cx: &mut Cx<'_>,
    node: &Node,
    x: Value,
    (count, largest): (i64, bool),
    [low, high]: [f64; 2],
) -> Outcome<[Value; 2]> {
    let mut m = Make::new(cx, node);
    let (shape, elem, index) = (m.shape(x), m.elem(x), Make::index_type());
    let last = shape.len() - 1;
    let size = shape[last];
    let numbers = m.counting(index, size, last, shape.len())?;
    // None is taken yet.
    let taken = m.less(x, x)?;
    let mut lists = shape.clone();
    lists[last] = count;
    let [values, places] = [elem, index].map(|elem| Type::tensor(&lists[..], elem));
    let start = vec![
        taken,
        cx.outside(node, &lists, elem)?,
        cx.outside(node, &lists, index)?,
    ];
    let mask = cx.ir().ty(taken);
    let (region, args) = cx.enter(&[Type::index(), mask, values, places]);
    let done = (|| -> Outcome<Vec<Value>> {
        let mut m = Make::new(cx, node);
        let worst = m.like(x, if largest { low } else { high })?;
        let left = m.choose(args[1], worst, x)?;
        let best = match largest {
            true => m.largest(left, &[last])?,
            false => m.smallest(left, &[last])?,
        };
        let same = m.equal(left, best)?;
        // What is no number goes before all.
        let number = m.equal(left, left)?;
        let odd = m.not(number)?;
        let same = m.or(same, odd)?;
        let free = m.not(args[1])?;
        let found = m.and(same, free)?;
        let behind = m.like(numbers, size as f64)?;
        let candidates = m.choose(found, numbers, behind)?;
        let place = m.smallest(candidates, &[last])?;
        let here = m.equal(numbers, place)?;
        let taken = m.or(args[1], here)?;
        let (value, number) = (m.squeeze(best, last)?, m.squeeze(place, last)?);
        Ok(vec![
            taken,
            cx.placed(node, value, args[2], last, args[0])?,
            cx.placed(node, number, args[3], last, args[0])?,
        ])
    })();
    let given = match done {
        Ok(given) => given,
        Err(error) => {
            cx.abandon(region);
            return Err(error);
        }
    };
    let region = cx.close(region, given);
    let results = cx.repeat(node, Bounds::Static(count), start, region)?;
    match results[..] {
        [_, values, places] => Ok([values, places]),
        _ => fail(node, "has no results"),
    }
}

/// Sums along a dimension where all but one are 0.
fn sum_of_one(m: &mut Make<'_, '_>, x: Value, dim: usize, elem: Type) -> Outcome<Value> {
    let y = m.sum(x, &[dim])?;
    m.cast(y, elem)
}

/// `values[1]` at the element that a number names, `values[0]` elsewhere.
pub(super) fn one_hot(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let depth = super::fold::known(cx, node, 1)?;
    let mut m = Make::new(cx, node);
    m.attributes(&["axis"])?;
    let Some(depth) = depth.get_f64(0).filter(|d| depth.len() == 1 && *d >= 0.0) else {
        return m.fail("has no single number of elements");
    };
    let depth = depth as i64;
    let (indices, values) = (m.operand(0)?, m.operand(2)?);
    let rank = m.rank(indices) + 1;
    let dim = m.dimension(m.int("axis", -1)?, rank)?;
    let indices = m.cast(indices, Make::index_type())?;
    let indices = m.counted_up(indices, depth)?;
    let indices = m.unsqueeze(indices, dim)?;
    let places = m.counting(Make::index_type(), depth, dim, rank)?;
    let found = m.equal(indices, places)?;
    let (off, on) = (m.pick(values, 0, 0)?, m.pick(values, 0, 1)?);
    let y = m.choose(found, on, off)?;
    m.done(y)
}

/// Elements on one side of a diagonal, else 0.
pub(super) fn trilu(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["upper"])?;
    if m.cx.is_open(node, 1) {
        return computed::trilu(cx, node);
    }
    let k = match m.ints(1, "a number of a diagonal")?.as_deref() {
        None | Some([]) => 0,
        Some([k, ..]) => *k,
    };
    let x = m.operand(0)?;
    let [.., rows, columns] = m.shape(x)[..] else {
        return m.fail("has no matrices");
    };
    let upper = m.int("upper", 1)? != 0;
    let inside = |r: i64, c: i64| if upper { c - r >= k } else { c - r <= k };
    m.cx.room(node, &[rows, columns])?;
    let mut mask = Vec::new();
    for r in 0..rows {
        mask.extend((0..columns).map(|c| f64::from(u8::from(inside(r, c)))));
    }
    let mask = m.numbers(Type::int(1), &[rows, columns], &mask)?;
    let zero = m.like(x, 0.0)?;
    let y = m.choose(mask, x, zero)?;
    m.done(y)
}

/// 1 on a diagonal, else 0.
pub(super) fn eye_like(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["dtype", "k"])?;
    let (k, x) = (m.int("k", 0)?, m.operand(0)?);
    let [rows, columns] = m.shape(x)[..] else {
        return m.fail("has no matrix");
    };
    let elem = match node.int("dtype").map_err(Some)? {
        None => m.elem(x),
        Some(code) => {
            let dtype = i32::try_from(code)
                .ok()
                .and_then(|c| tir_onnx::ElementType(c).dtype());
            match dtype {
                Some(dtype) => tir_interp::elem_of(dtype),
                None => return m.fail(format!("makes elements of type {code}, which is not read")),
            }
        }
    };
    m.cx.room(node, &[rows, columns])?;
    let mut ones = Vec::new();
    for r in 0..rows {
        ones.extend((0..columns).map(|c| f64::from(u8::from(c - r == k))));
    }
    let y = m.numbers(elem, &[rows, columns], &ones)?;
    m.done(y)
}

/// Sums or products of all elements up to each one, by steps that double.
pub(super) fn running(cx: &mut Cx<'_>, node: &Node, product: bool) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["exclusive", "reverse"])?;
    let axis = match m.ints(1, "an axis")?.as_deref() {
        Some([axis]) => *axis,
        _ => return m.fail("has no single axis"),
    };
    let x = m.operand(0)?;
    let (dim, elem) = (m.dimension(axis, m.rank(x))?, m.elem(x));
    let mut y = m.cast(x, tir_graph::accumulator(elem))?;
    let count = m.shape(x)[dim];
    let (exclusive, reverse) = (m.flag("exclusive")?, m.flag("reverse")?);
    let nothing = f64::from(u8::from(product));
    if reverse && count > 0 {
        y = m.along(y, dim, count - 1, count, -1)?;
    }
    if exclusive {
        y = moved(&mut m, y, dim, 1, nothing)?;
    }
    let mut step = 1;
    while step < count {
        let before = moved(&mut m, y, dim, step, nothing)?;
        y = match product {
            true => m.mul(y, before)?,
            false => m.add(y, before)?,
        };
        step *= 2;
    }
    if reverse && count > 0 {
        y = m.along(y, dim, count - 1, count, -1)?;
    }
    let y = m.cast(y, elem)?;
    m.done(y)
}

/// Sums of all elements up to each one, along a dimension.
pub(super) fn summed(m: &mut Make<'_, '_>, mut x: Value, dim: usize) -> Outcome<Value> {
    let mut step = 1;
    while step < m.shape(x)[dim] {
        let before = moved(m, x, dim, step, 0.0)?;
        x = m.add(x, before)?;
        step *= 2;
    }
    Ok(x)
}

/// Elements moved along a dimension, by less than its size.
fn moved(m: &mut Make<'_, '_>, x: Value, dim: usize, by: i64, number: f64) -> Outcome<Value> {
    let (rank, size) = (m.rank(x), m.shape(x)[dim]);
    let mut low = vec![0; rank];
    low[dim] = by.min(size);
    let kept = m.along(x, dim, 0, size - low[dim], 1)?;
    m.pad(kept, &low, &vec![0; rank], number)
}

/// The slices of a dimension, or the elements, where a constant says so.
pub(super) fn compress(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    if computed::applies(cx, node, &[1]) {
        return computed::compress(cx, node);
    }
    let condition = super::fold::known(cx, node, 1)?;
    let mut m = Make::new(cx, node);
    let (x, dim) = m.axis_or_flat()?;
    let holds: Vec<f64> = condition
        .iter_f64()
        .enumerate()
        .filter(|(_, v)| *v != 0.0)
        .map(|(i, _)| i as f64)
        .collect();
    let places = m.numbers(
        tir_interp::elem_of(DType::I64),
        &[holds.len() as i64],
        &holds,
    )?;
    let y = m.gather(x, places, dim)?;
    m.done(y)
}
