//! Operands that are given when a program runs, computed with: index arithmetic, and elements taken by number. The sizes of the
//! results are those that the file states; the program stops where the operands give others.

use tir_core::Value;
use tir_data::{Array, DType};
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::make::Make;

/// Whether one of these operands is given when the program runs, and the shape of the result is stated.
pub(super) fn applies(cx: &Cx<'_>, node: &Node, operands: &[usize]) -> bool {
    operands.iter().any(|k| cx.is_open(node, *k)) && cx.stated(node, 0).is_some()
}

/// What each dimension has of a list of numbers, one for each axis.
struct PerDim {
    axes: Axes,
    rank: usize,
}

enum Axes {
    /// These, in the order of the list.
    Known(Vec<usize>),
    /// Numbers from 0 on, and how many.
    Given(Value, i64),
}

impl PerDim {
    /// Axes in operand `k`; without it the first ones, as many as there are.
    fn read(m: &mut Make<'_, '_>, k: usize, rank: usize, count: i64) -> Outcome<Self> {
        let axes = match m.optional(k)? {
            None => Axes::Known((0..count.max(0) as usize).collect()),
            Some(_) if m.cx.is_open(m.node, k) => {
                let (axes, count) = m.places(k, rank)?;
                Axes::Given(axes, count)
            }
            Some(_) => {
                let list = m.ints(k, "axes")?.unwrap_or_default();
                let dims = list.iter().map(|axis| m.dimension(*axis, rank));
                Axes::Known(dims.collect::<Outcome<Vec<usize>>>()?)
            }
        };
        let found = match &axes {
            Axes::Known(dims) => dims.len() as i64,
            Axes::Given(_, count) => *count,
        };
        if found != count || matches!(&axes, Axes::Known(dims) if dims.iter().any(|d| *d >= rank)) {
            return m.fail(format!(
                "has {count} numbers for {found} axes of rank {rank}"
            ));
        }
        let axes = Self { axes, rank };
        axes.differ(m)?;
        Ok(axes)
    }

    /// Stops the program if an axis is not one, or is named twice.
    fn differ(&self, m: &mut Make<'_, '_>) -> Outcome<()> {
        let Axes::Given(axes, count) = self.axes else {
            return Ok(());
        };
        let rank = self.rank as i64;
        let dims = m.counting(Make::index_type(), rank, 0, 2)?;
        let list = m.reshape(axes, &[1, count])?;
        let here = m.equal(dims, list)?;
        let here = m.any_along(here, 1)?;
        let here = m.cast(here, Make::index_type())?;
        let here = m.sum(here, &[0])?;
        let here = m.reshape(here, &[])?;
        let all = m.equals(here, count as f64)?;
        let node = m.node;
        m.cx.check(node, all, "axes are no different dimensions")
    }

    /// Whether it is known that a dimension is none of the axes.
    fn without(&self, d: usize) -> bool {
        matches!(&self.axes, Axes::Known(dims) if !dims.contains(&d))
    }

    /// The number of a list that belongs to a dimension, as a single one; `otherwise` if it is none of the axes.
    fn of(&self, m: &mut Make<'_, '_>, list: Value, d: usize, otherwise: i64) -> Outcome<Value> {
        match &self.axes {
            Axes::Known(dims) => match dims.iter().position(|axis| *axis == d) {
                Some(at) => {
                    let y = m.along(list, 0, at as i64, 1, 1)?;
                    m.reshape(y, &[])
                }
                None => m.number(otherwise),
            },
            Axes::Given(axes, _) => {
                let here = m.equals(*axes, d as f64)?;
                let nothing = m.like(list, 0.0)?;
                let y = m.choose(here, list, nothing)?;
                let y = m.sum(y, &[0])?;
                let y = m.reshape(y, &[])?;
                let there = m.any(here)?;
                let otherwise = m.number(otherwise)?;
                m.choose(there, y, otherwise)
            }
        }
    }
}

impl Make<'_, '_> {
    /// A single integer.
    pub(super) fn number(&mut self, n: i64) -> Outcome<Value> {
        Ok(self.array(&Array::scalar(n)))
    }

    /// Whether one of the truth values along a dimension holds; it goes.
    fn any_along(&mut self, x: Value, dim: usize) -> Outcome<Value> {
        let x = self.cast(x, Self::index_type())?;
        let y = self.largest(x, &[dim])?;
        let y = self.squeeze(y, dim)?;
        self.above(y, 0.0)
    }

    /// An integer kept between two numbers.
    fn between(&mut self, x: Value, least: i64, most: i64) -> Outcome<Value> {
        let least = self.number(least)?;
        let most = self.number(most)?;
        let y = self.max(x, least)?;
        self.min(y, most)
    }

    /// Stops the program unless a truth value holds.
    fn stop_unless(&mut self, holds: Value, why: &str) -> Outcome<()> {
        let node = self.node;
        self.cx.check(node, holds, why)
    }
}

impl Make<'_, '_> {
    /// The number of dimensions of a value, which the result has too as the file states it.
    fn stated_rank(&self, x: Value, whole: &[i64]) -> Outcome<usize> {
        let rank = self.rank(x);
        if whole.len() != rank {
            return self.fail(format!(
                "is stated to have {} dimensions, the input has {rank}",
                whole.len()
            ));
        }
        Ok(rank)
    }

    /// The first operand and the dimension `axis`; without one all elements as one dimension.
    pub(super) fn axis_or_flat(&mut self) -> Outcome<(Value, usize)> {
        let axis = self.node.int("axis").map_err(Some)?;
        self.attributes(&["axis"])?;
        let x = self.operand(0)?;
        match axis {
            Some(axis) => Ok((x, self.dimension(axis, self.rank(x))?)),
            None => {
                let count = self.shape(x).iter().product();
                Ok((self.reshape(x, &[count])?, 0))
            }
        }
    }
}

/// A part of a tensor from numbers that the program is given.
pub(super) fn slice(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let whole = cx.whole(node)?;
    let mut m = Make::new(cx, node);
    let mut x = m.operand(0)?;
    let rank = m.stated_rank(x, &whole)?;
    let (starts, count) = m.list(1)?;
    let (ends, others) = m.list(2)?;
    if count != others {
        return m.fail(format!("has {count} starts and {others} ends"));
    }
    let steps = match m.optional(4)? {
        Some(_) => Some(m.list(4)?.0),
        None => None,
    };
    let axes = PerDim::read(&mut m, 3, rank, count)?;
    for (d, wanted) in whole.iter().enumerate() {
        let n = m.shape(x)[d];
        if axes.without(d) {
            continue;
        }
        let start = axes.of(&mut m, starts, d, 0)?;
        let end = axes.of(&mut m, ends, d, n)?;
        let step = match steps {
            Some(steps) => axes.of(&mut m, steps, d, 1)?,
            None => m.number(1)?,
        };
        let zero = m.number(0)?;
        let forward = m.greater(step, zero)?;
        let backward = m.less(step, zero)?;
        let moves = m.or(forward, backward)?;
        let reach = n.max(1);
        let step = m.between(step, -reach, reach)?;
        let first = bound(&mut m, start, n, forward)?;
        let last = bound(&mut m, end, n, forward)?;
        // How many elements there are on the way.
        let (ahead, behind) = (m.sub(last, first)?, m.sub(first, last)?);
        let way = m.choose(forward, ahead, behind)?;
        let way = m.max(way, zero)?;
        let stride = m.abs(step)?;
        let one = m.number(1)?;
        let stride = m.max(stride, one)?;
        let more = m.sub(stride, one)?;
        let way = m.add(way, more)?;
        let found = m.div(way, stride)?;
        let right = m.equals(found, *wanted as f64)?;
        let right = m.and(right, moves)?;
        m.stop_unless(
            right,
            &format!("does not take {wanted} elements of dimension {d}, as the file states"),
        )?;
        if *wanted == 0 || n == 0 {
            x = m.along(x, d, 0, 0, 1)?;
            continue;
        }
        let places = m.counting(Make::index_type(), *wanted, 0, 1)?;
        let places = m.mul(places, step)?;
        let places = m.add(places, first)?;
        let places = m.between(places, 0, n - 1)?;
        x = m.gather(x, places, d)?;
    }
    said(m.cx, node, "starts, ends, axes and steps");
    Make::new(cx, node).done(x)
}

/// A start or an end as a place: counted from the begin, within the dimension.
fn bound(m: &mut Make<'_, '_>, at: Value, n: i64, forward: Value) -> Outcome<Value> {
    let at = m.between(at, -n - 1, n)?;
    let at = m.counted_up(at, n)?;
    let up = m.between(at, 0, n)?;
    let down = m.between(at, -1, n - 1)?;
    m.choose(forward, up, down)
}

/// What the program does with operands that it is given.
fn said(cx: &mut Cx<'_>, node: &Node, what: &str) {
    let why = format!(
        "{what} are given when the program runs: it stops if they do not give the shape that the file states"
    );
    cx.remark(node, &why);
}

/// A border whose sizes the program is given.
pub(super) fn pad(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let whole = cx.whole(node)?;
    let mut m = Make::new(cx, node);
    let mode = m.word("mode", "constant")?;
    let mut x = m.operand(0)?;
    let rank = m.stated_rank(x, &whole)?;
    let (pads, count) = m.list(1)?;
    if count % 2 != 0 {
        return m.fail(format!("has {count} pads, expected an even number"));
    }
    let axes = PerDim::read(&mut m, 3, rank, count / 2)?;
    let (lows, highs) = (
        m.along(pads, 0, 0, count / 2, 1)?,
        m.along(pads, 0, count / 2, count / 2, 1)?,
    );
    let number = match m.optional(2)? {
        Some(number) => m.reshape(number, &[])?,
        None => m.like(x, 0.0)?,
    };
    let mut inside: Option<Value> = None;
    for (d, wanted) in whole.iter().enumerate() {
        let n = m.shape(x)[d];
        if axes.without(d) {
            continue;
        }
        let (low, high) = (axes.of(&mut m, lows, d, 0)?, axes.of(&mut m, highs, d, 0)?);
        let sum = m.add(low, high)?;
        let mut right = m.equals(sum, (wanted - n) as f64)?;
        let most = match mode.as_str() {
            "constant" => None,
            "edge" if n > 0 => None,
            "edge" => Some(0),
            "reflect" => Some(n - 1),
            "wrap" => Some(n),
            other => {
                return m.fail(format!(
                    "attribute 'mode' is '{other}', expected constant, edge, reflect or wrap"
                ));
            }
        };
        // What is cut off is no longer there to be repeated.
        if let Some(most) = most {
            let zero = m.number(0)?;
            let (cut, behind) = (m.min(low, zero)?, m.min(high, zero)?);
            let cut = m.add(cut, behind)?;
            let most = m.number(most)?;
            let most = m.add(cut, most)?;
            let largest = m.max(low, high)?;
            let within = m.greater_equal(most, largest)?;
            right = m.and(right, within)?;
            if mode == "wrap" {
                let whole = m.equals(cut, 0.0)?;
                right = m.and(right, whole)?;
            }
        }
        m.stop_unless(
            right,
            &format!(
                "does not make {wanted} elements of the {n} of dimension {d}, as the file states"
            ),
        )?;
        let places = m.counting(Make::index_type(), *wanted, 0, 1)?;
        let places = m.sub(places, low)?;
        let (last, zero) = (m.number(n - 1)?, m.number(0)?);
        let (before, behind) = (m.less(places, zero)?, m.greater(places, last)?);
        let taken = match mode.as_str() {
            "constant" => {
                let outside = m.or(before, behind)?;
                let here = m.not(outside)?;
                let mut form = vec![1; rank];
                form[d] = *wanted;
                let here = m.reshape(here, &form)?;
                inside = Some(match inside {
                    None => here,
                    Some(inside) => m.and(inside, here)?,
                });
                places
            }
            "reflect" => {
                let mirrored = m.neg(places)?;
                let places = m.choose(before, mirrored, places)?;
                let twice = m.number(2 * (n - 1))?;
                let mirrored = m.sub(twice, places)?;
                m.choose(behind, mirrored, places)?
            }
            "wrap" => {
                let (up, down) = (m.plus(places, n as f64)?, m.plus(places, -n as f64)?);
                let places = m.choose(before, up, places)?;
                m.choose(behind, down, places)?
            }
            _ => places,
        };
        if n == 0 {
            let mut shape = m.shape(x);
            shape[d] = *wanted;
            let nothing = m.like(x, 0.0)?;
            x = m.expand(nothing, &shape)?;
            continue;
        }
        let taken = m.between(taken, 0, n - 1)?;
        x = m.gather(x, taken, d)?;
    }
    if let Some(inside) = inside {
        x = m.choose(inside, x, number)?;
    }
    said(m.cx, node, "pads and axes");
    Make::new(cx, node).done(x)
}

/// Elements on one side of a diagonal that the program is given, else 0.
pub(super) fn trilu(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    let upper = m.int("upper", 1)? != 0;
    let x = m.operand(0)?;
    let &[.., rows, columns] = &m.shape(x)[..] else {
        return m.fail("has no matrices");
    };
    let (k, count) = m.list(1)?;
    if count != 1 {
        return m.fail(format!("has {count} numbers of a diagonal, expected one"));
    }
    let k = m.reshape(k, &[])?;
    // Beyond a corner all diagonals are the same.
    let k = m.between(k, -rows - columns, rows + columns)?;
    let index = Make::index_type();
    let (r, c) = (
        m.counting(index, rows, 0, 2)?,
        m.counting(index, columns, 1, 2)?,
    );
    let right = m.sub(c, r)?;
    let inside = match upper {
        true => m.greater_equal(right, k)?,
        false => m.greater_equal(k, right)?,
    };
    let zero = m.like(x, 0.0)?;
    let y = m.choose(inside, x, zero)?;
    m.done(y)
}

/// Where the truth values of a list hold: so many places, in their order. The program stops if there are not as many.
fn places(m: &mut Make<'_, '_>, holds: Value, wanted: i64) -> Outcome<Value> {
    let count = m.shape(holds)[0];
    let node = m.node;
    m.cx.room(node, &[count, wanted])?;
    let ones = m.cast(holds, Make::index_type())?;
    let so_far = super::search::summed(m, ones, 0)?;
    let all = match count {
        0 => m.number(0)?,
        _ => {
            let all = m.sum(ones, &[0])?;
            m.reshape(all, &[])?
        }
    };
    let right = m.equals(all, wanted as f64)?;
    m.stop_unless(
        right,
        &format!("does not find {wanted} elements, as the file states"),
    )?;
    if wanted == 0 || count == 0 {
        return m.known(&[]);
    }
    // The k-th is where so many hold for the first time.
    let index = Make::index_type();
    let number = m.counting(index, wanted, 0, 2)?;
    let number = m.plus(number, 1.0)?;
    let so_far = m.reshape(so_far, &[1, count])?;
    let here = m.equal(so_far, number)?;
    let holds = m.reshape(holds, &[1, count])?;
    let here = m.and(here, holds)?;
    let at = m.counting(index, count, 1, 2)?;
    let nothing = m.like(at, 0.0)?;
    let at = m.choose(here, at, nothing)?;
    let at = m.sum(at, &[1])?;
    m.reshape(at, &[wanted])
}

/// The slices of a dimension, or the elements, where a condition that the program is given holds.
pub(super) fn compress(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let whole = cx.whole(node)?;
    let mut m = Make::new(cx, node);
    let (x, dim) = m.axis_or_flat()?;
    let condition = m.operand(1)?;
    let (rank, count) = (m.rank(x), m.shape(condition).iter().product::<i64>());
    if whole.len() != rank || count > m.shape(x)[dim] {
        return m.fail(format!(
            "takes {whole:?} of {:?} by {count} truth values",
            m.shape(x)
        ));
    }
    let condition = m.reshape(condition, &[count])?;
    let at = places(&mut m, condition, whole[dim])?;
    let y = m.gather(x, at, dim)?;
    said(m.cx, node, "truth values");
    Make::new(cx, node).done(y)
}

/// Where elements are not zero: a row for each dimension.
pub(super) fn non_zero(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let Some(&[_, wanted]) = cx.stated(node, 0).as_deref() else {
        return Err(Some(node.error("has no stated shape")));
    };
    let mut m = Make::new(cx, node);
    let x = m.operand(0)?;
    let shape = m.shape(x);
    let count = shape.iter().product::<i64>();
    let flat = m.reshape(x, &[count])?;
    let holds = match m.elem(x) == tir_core::Type::int(1) {
        true => flat,
        false => {
            let zero = m.equals(flat, 0.0)?;
            m.not(zero)?
        }
    };
    let at = places(&mut m, holds, wanted)?;
    let (mut rows, mut inner) = (Vec::new(), count);
    for n in &shape {
        inner /= (*n).max(1);
        let stride = m.number(inner.max(1))?;
        let size = m.number((*n).max(1))?;
        let outer = m.div(at, stride)?;
        let rounds = m.div(outer, size)?;
        let before = m.mul(rounds, size)?;
        let row = m.sub(outer, before)?;
        rows.push(m.reshape(row, &[1, wanted])?);
    }
    if rows.is_empty() {
        return m.fail("is of a single number");
    }
    let y = m.concat(rows, 0)?;
    said(m.cx, node, "elements");
    Make::new(cx, node).done(y)
}

/// Numbers in equal steps from one that the program is given.
pub(super) fn range(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let Some(&[wanted]) = cx.stated(node, 0).as_deref() else {
        return Err(Some(node.error("has no stated shape")));
    };
    let mut m = Make::new(cx, node);
    let mut numbers = Vec::new();
    for k in 0..3 {
        let x = m.operand(k)?;
        numbers.push(m.reshape(x, &[])?);
    }
    let [first, limit, step] = numbers[..] else {
        return m.fail("has no three operands");
    };
    let wide = tir_interp::elem_of(DType::F64);
    let (from, to, by) = (
        m.cast(first, wide)?,
        m.cast(limit, wide)?,
        m.cast(step, wide)?,
    );
    let way = m.sub(to, from)?;
    let count = m.div(way, by)?;
    let count = m.ceil(count)?;
    let count = m.at_least(count, 0.0)?;
    let right = m.equals(count, wanted as f64)?;
    m.stop_unless(
        right,
        &format!("does not count {wanted} numbers, as the file states"),
    )?;
    let elem = m.elem(first);
    let at = m.counting(elem, wanted, 0, 1)?;
    let at = m.mul(at, step)?;
    let y = m.add(at, first)?;
    said(m.cx, node, "start, limit and delta");
    Make::new(cx, node).done(y)
}
