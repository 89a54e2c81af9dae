//! Images in another size by scales or parts that the program is given: where each element of the result lies is computed, and so
//! are the weights of the elements around it. The sizes are those that the file states.

use tir_core::Value;
use tir_data::DType;
use tir_graph::{Coordinates, ResizeMode, Rounding};
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::make::Make;
use super::resize::Asked;

/// The most neighbours that an element of the result is put together of, in one dimension.
const NEIGHBOURS: i64 = 64;

/// How operands say the size of the result.
pub(super) enum Said {
    /// The scales of axes, operand `k`.
    Scales(usize),
    /// Sizes in operand 3, of which the smallest scale is taken for all, or the largest.
    Kept { smallest: bool },
}

/// A dimension that may change.
struct Along {
    dim: usize,
    from: i64,
    to: i64,
    /// An `f64`.
    scale: Value,
}

fn wide() -> tir_core::Type {
    tir_interp::elem_of(DType::F64)
}

/// The dimensions of a result whose shape is stated; the program stops if the operand gives another one.
pub(super) fn by_operand(
    cx: &mut Cx<'_>,
    node: &Node,
    axes: &[usize],
    said: &Said,
    how: &Asked,
) -> Outcome<()> {
    let whole = cx.whole(node)?;
    let mut m = Make::new(cx, node);
    let x = m.operand(0)?;
    let shape = m.shape(x);
    if whole.len() != shape.len()
        || (0..shape.len()).any(|d| !axes.contains(&d) && shape[d] != whole[d])
    {
        return m.fail(format!("is stated to make shape {whole:?} of {shape:?}"));
    }
    let k = match said {
        Said::Scales(k) => *k,
        Said::Kept { .. } => 3,
    };
    let single = tir_core::Type::f32();
    let list = m.operand(k)?;
    let list = m.cast(list, single)?;
    if m.shape(list) != [axes.len() as i64] {
        return m.fail(format!(
            "has {:?} numbers in operand {k} for {} dimensions",
            m.shape(list),
            axes.len()
        ));
    }
    let sizes: Vec<f64> = axes.iter().map(|d| shape[*d] as f64).collect();
    if sizes.contains(&0.0) {
        return m.fail("makes an image of nothing");
    }
    let sizes = m.numbers(single, &[axes.len() as i64], &sizes)?;
    let (list, made) = match said {
        Said::Scales(_) => {
            let made = m.mul(sizes, list)?;
            (list, m.floor(made)?)
        }
        Said::Kept { smallest } => {
            let quotients = m.div(list, sizes)?;
            let scale = match smallest {
                true => m.smallest(quotients, &[0])?,
                false => m.largest(quotients, &[0])?,
            };
            let made = m.mul(sizes, scale)?;
            (m.expand(scale, &[axes.len() as i64])?, m.round(made)?)
        }
    };
    let wanted: Vec<f64> = axes.iter().map(|d| whole[*d] as f64).collect();
    let wanted = m.numbers(single, &[axes.len() as i64], &wanted)?;
    let right = m.equal(made, wanted)?;
    let mut right = m.all(right)?;
    if how.never_smaller {
        let one = m.numbers(single, &[], &[1.0])?;
        let larger = m.greater_equal(list, one)?;
        let larger = m.all(larger)?;
        right = m.and(right, larger)?;
    }
    let why = format!("does not make shape {whole:?}, as the file states");
    m.cx.check(node, right, &why)?;
    let mut dims = Vec::new();
    for (i, d) in axes.iter().enumerate() {
        let scale = m.along(list, 0, i as i64, 1, 1)?;
        let scale = m.cast(scale, wide())?;
        dims.push(Along {
            dim: *d,
            from: shape[*d],
            to: whole[*d],
            scale: m.reshape(scale, &[])?,
        });
    }
    m.cx.remark(
        node,
        "the size is given when the program runs: it stops if that is not the one that the file states",
    );
    resampled(cx, node, dims, how)
}

/// A part that the program is given, in a size that is known.
pub(super) fn by_part(
    cx: &mut Cx<'_>,
    node: &Node,
    axes: &[usize],
    result: &[i64],
    scales: &[f32],
    how: &Asked,
) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    let x = m.operand(0)?;
    let shape = m.shape(x);
    let mut dims = Vec::new();
    for d in axes {
        let scale = m.numbers(wide(), &[], &[f64::from(scales[*d])])?;
        dims.push(Along {
            dim: *d,
            from: shape[*d],
            to: result[*d],
            scale,
        });
    }
    resampled(cx, node, dims, how)
}

fn resampled(cx: &mut Cx<'_>, node: &Node, dims: Vec<Along>, how: &Asked) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    let x = m.operand(0)?;
    let elem = m.elem(x);
    let nearest = how.mode == Some(ResizeMode::Nearest);
    let sum = match (elem.is_float(), nearest) {
        (_, true) => elem,
        (true, false) => tir_graph::accumulator(elem),
        (false, false) => {
            return m.fail(format!("interpolates elements of {elem}, expected floats"));
        }
    };
    let count = dims.len() as i64;
    let part = match how.coordinates {
        Some(_) => None,
        None => {
            let part = m.operand(1)?;
            if m.shape(part) != [2 * count] {
                return m.fail(format!("has no begin and end of a part for {count} axes"));
            }
            Some(m.cast(part, wide())?)
        }
    };
    let mut y = m.cast(x, sum)?;
    let mut inside: Option<Value> = None;
    for (i, along) in dims.iter().enumerate() {
        if along.to == 0 {
            y = m.along(y, along.dim, 0, 0, 1)?;
            continue;
        }
        let at = match part {
            None => places(&mut m, along, how)?,
            Some(part) => {
                let start = m.along(part, 0, i as i64, 1, 1)?;
                let end = m.along(part, 0, count + i as i64, 1, 1)?;
                cut(&mut m, along, start, end)?
            }
        };
        if part.is_some() {
            let (low, high) = (
                m.numbers(wide(), &[], &[0.0])?,
                m.numbers(wide(), &[], &[(along.from - 1) as f64])?,
            );
            let (above, below) = (m.greater_equal(at, low)?, m.greater_equal(high, at)?);
            let here = m.and(above, below)?;
            let mut form = vec![1; m.rank(y)];
            form[along.dim] = along.to;
            let here = m.reshape(here, &form)?;
            inside = Some(match inside {
                None => here,
                Some(inside) => m.and(inside, here)?,
            });
        }
        // All places have the one element there is.
        if along.from == 1 && along.to == 1 {
            continue;
        }
        y = match nearest {
            true => {
                let at = rounded(&mut m, at, how.rounding)?;
                taken(&mut m, y, along, at)?
            }
            false => weighted(&mut m, y, along, at, how)?,
        };
    }
    if let Some(inside) = inside {
        let other = m.like(y, how.beyond)?;
        y = m.choose(inside, y, other)?;
    }
    let y = m.cast(y, elem)?;
    m.done(y)
}

/// Where the elements of a dimension of the result lie in the input.
fn places(m: &mut Make<'_, '_>, along: &Along, how: &Asked) -> Outcome<Value> {
    let (from, to) = (along.from as f64, along.to as f64);
    let x = m.counting(wide(), along.to, 0, 1)?;
    let half = |m: &mut Make<'_, '_>| {
        let middle = m.plus(x, 0.5)?;
        let middle = m.div(middle, along.scale)?;
        m.plus(middle, -0.5)
    };
    match how.coordinates {
        Some(Coordinates::HalfPixel) => half(m),
        Some(Coordinates::PytorchHalfPixel) if along.to > 1 => half(m),
        Some(Coordinates::AlignCorners) if along.to > 1 => {
            // One division for each, as it is at import.
            let list: Vec<f64> = (0..along.to)
                .map(|i| i as f64 * (from - 1.0) / (to - 1.0))
                .collect();
            m.numbers(wide(), &[along.to], &list)
        }
        Some(Coordinates::PytorchHalfPixel | Coordinates::AlignCorners) => m.times(x, 0.0),
        Some(Coordinates::Asymmetric) => m.div(x, along.scale),
        Some(Coordinates::HalfPixelSymmetric) => {
            let exact = m.times(along.scale, from)?;
            let made = m.numbers(wide(), &[], &[to])?;
            let share = m.div(made, exact)?;
            let share = m.neg(share)?;
            let rest = m.plus(share, 1.0)?;
            let offset = m.times(rest, from / 2.0)?;
            let half = half(m)?;
            m.add(offset, half)
        }
        None => m.fail("has no coordinates"),
    }
}

/// Where they lie in a part of it.
fn cut(m: &mut Make<'_, '_>, along: &Along, start: Value, end: Value) -> Outcome<Value> {
    let last = (along.from - 1) as f64;
    if along.to == 1 {
        let sum = m.add(start, end)?;
        return m.times(sum, last / 2.0);
    }
    let x = m.counting(wide(), along.to, 0, 1)?;
    let way = m.sub(end, start)?;
    let way = m.times(way, last)?;
    let steps = m.numbers(wide(), &[], &[(along.to - 1) as f64])?;
    let step = m.div(way, steps)?;
    let first = m.times(start, last)?;
    let on = m.mul(x, step)?;
    m.add(on, first)
}

fn rounded(m: &mut Make<'_, '_>, at: Value, rounding: Rounding) -> Outcome<Value> {
    match rounding {
        Rounding::Floor => m.floor(at),
        Rounding::Ceil => m.ceil(at),
        Rounding::PreferFloor => {
            let at = m.plus(at, -0.5)?;
            m.ceil(at)
        }
        Rounding::PreferCeil => {
            let at = m.plus(at, 0.5)?;
            m.floor(at)
        }
    }
}

/// The elements at whole places, the outermost ones beyond the border.
fn taken(m: &mut Make<'_, '_>, x: Value, along: &Along, at: Value) -> Outcome<Value> {
    let at = m.at_least(at, 0.0)?;
    let at = m.at_most(at, (along.from - 1) as f64)?;
    let at = m.cast(at, Make::index_type())?;
    m.gather(x, at, along.dim)
}

/// Sums of the neighbours of places by their weights.
fn weighted(
    m: &mut Make<'_, '_>,
    x: Value,
    along: &Along,
    at: Value,
    how: &Asked,
) -> Outcome<Value> {
    let support = if how.mode.is_none() { 2 } else { 1 };
    // The smallest scale of this size reaches farthest.
    let smaller = how.antialias && along.to < along.from;
    let reach = match smaller {
        true => (support * along.from).div_euclid(along.to.max(1)) + 1,
        false => support,
    };
    if 2 * reach > NEIGHBOURS {
        return m.fail(format!(
            "puts an element together of {} neighbours by a scale that is not constant, expected {NEIGHBOURS} at most",
            2 * reach
        ));
    }
    let narrow = match how.antialias {
        true => Some(m.at_most(along.scale, 1.0)?),
        false => None,
    };
    let elem = m.elem(x);
    let mut form = vec![1; m.rank(x)];
    form[along.dim] = along.to;
    let middle = m.floor(at)?;
    let last = (along.from - 1) as f64;
    let (mut sum, mut total): (Option<Value>, Option<Value>) = (None, None);
    for tap in 1 - reach..=reach {
        let place = m.plus(middle, tap as f64)?;
        let mut way = m.sub(place, at)?;
        if let Some(narrow) = narrow {
            way = m.mul(way, narrow)?;
        }
        let mut weight = kernel(m, way, how)?;
        if how.exclude_outside {
            let (low, high) = (
                m.numbers(wide(), &[], &[0.0])?,
                m.numbers(wide(), &[], &[last])?,
            );
            let (above, below) = (m.greater_equal(place, low)?, m.greater_equal(high, place)?);
            let here = m.and(above, below)?;
            let nothing = m.like(weight, 0.0)?;
            weight = m.choose(here, weight, nothing)?;
        }
        total = Some(match total {
            None => weight,
            Some(total) => m.add(total, weight)?,
        });
        let weight = m.cast(weight, elem)?;
        let weight = m.reshape(weight, &form)?;
        let neighbour = taken(m, x, along, place)?;
        let part = m.mul(neighbour, weight)?;
        sum = Some(match sum {
            None => part,
            Some(sum) => m.add(sum, part)?,
        });
    }
    let (Some(sum), Some(total)) = (sum, total) else {
        return m.fail("has no neighbours");
    };
    if !(how.antialias || how.exclude_outside) {
        return Ok(sum);
    }
    let total = m.cast(total, elem)?;
    let total = m.reshape(total, &form)?;
    m.div(sum, total)
}

/// The weight at a distance.
fn kernel(m: &mut Make<'_, '_>, way: Value, how: &Asked) -> Outcome<Value> {
    let x = m.abs(way)?;
    if how.mode.is_some() {
        let y = m.neg(x)?;
        let y = m.plus(y, 1.0)?;
        return m.at_least(y, 0.0);
    }
    let a = how.cubic;
    // ((a + 2) x - (a + 3)) x² + 1 up to 1, then ((x - 5) x + 8) x a - 4 a up to 2.
    let near = m.times(x, a + 2.0)?;
    let near = m.plus(near, -(a + 3.0))?;
    let near = m.mul(near, x)?;
    let near = m.mul(near, x)?;
    let near = m.plus(near, 1.0)?;
    let far = m.plus(x, -5.0)?;
    let far = m.mul(far, x)?;
    let far = m.plus(far, 8.0)?;
    let far = m.mul(far, x)?;
    let far = m.times(far, a)?;
    let far = m.plus(far, -4.0 * a)?;
    let nothing = m.like(x, 0.0)?;
    let within = m.below(x, 2.0)?;
    let far = m.choose(within, far, nothing)?;
    let beyond = m.above(x, 1.0)?;
    m.choose(beyond, far, near)
}
