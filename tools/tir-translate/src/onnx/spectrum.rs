//! Importers of Fourier transforms: products with matrices of cosines and sines, which are computed here. A complex number is a
//! pair along the last dimension.

use tir_core::Value;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::make::Make;

/// The matrix of `scale · wave(2π j k / size)`, rows j, columns k.
fn waves(
    m: &mut Make<'_, '_>,
    like: Value,
    [rows, columns, size]: [i64; 3],
    scale: impl Fn(i64, i64) -> f64,
    wave: fn(f64) -> f64,
) -> Outcome<Value> {
    m.cx.room(m.node, &[rows, columns])?;
    let mut values = Vec::new();
    for j in 0..rows {
        for k in 0..columns {
            // Whole turns are taken off before they cost accuracy.
            let turn = (j * k).rem_euclid(size) as f64 / size as f64;
            values.push(scale(j, k) * wave(2.0 * std::f64::consts::PI * turn));
        }
    }
    let elem = m.elem(like);
    m.numbers(elem, &[rows, columns], &values)
}

/// A tensor cut or filled with zeros to a size.
fn sized(m: &mut Make<'_, '_>, x: Value, dim: usize, size: i64) -> Outcome<Value> {
    let found = m.shape(x)[dim];
    if found >= size {
        return m.along(x, dim, 0, size, 1);
    }
    let rank = m.rank(x);
    let mut high = vec![0; rank];
    high[dim] = size - found;
    m.pad(x, &vec![0; rank], &high, 0.0)
}

/// The transform of pairs or single numbers along a dimension.
fn transform(
    m: &mut Make<'_, '_>,
    x: Value,
    dim: usize,
    size: i64,
    inverse: bool,
    onesided: bool,
) -> Outcome<Value> {
    let rank = m.rank(x);
    let parts = m.shape(x)[rank - 1];
    if !(1..=2).contains(&parts) || dim + 1 == rank {
        return m.fail(format!("transforms dimension {dim} of {:?}", m.shape(x)));
    }
    let real = m.pick(x, rank - 1, 0)?;
    let other = match parts {
        2 => Some(m.pick(x, rank - 1, 1)?),
        _ => None,
    };
    let half = size / 2 + 1;
    // Of an inverse of one side the other side is the mirror, conjugated: it doubles all but the middle.
    let mirrored = inverse && onesided;
    let rows = if mirrored { half } else { size };
    let columns = if onesided && !inverse { half } else { size };
    let scale = move |j: i64, _: i64| {
        let one = if inverse { 1.0 / size as f64 } else { 1.0 };
        let alone = j == 0 || 2 * j == size;
        if mirrored && !alone { 2.0 * one } else { one }
    };
    let sign = if inverse { 1.0 } else { -1.0 };
    let form = [rows, columns, size];
    let cos = waves(m, x, form, scale, f64::cos)?;
    let sin = waves(m, x, form, move |j, k| sign * scale(j, k), f64::sin)?;
    let last = rank - 2;
    let product = |m: &mut Make<'_, '_>, x: Value, w: Value| {
        let x = m.moved_last(x, dim)?;
        let x = sized(m, x, last, rows)?;
        let single = m.rank(x) == 1;
        let x = if single { m.unsqueeze(x, 0)? } else { x };
        let y = m.matmul(x, w)?;
        let y = if single { m.squeeze(y, 0)? } else { y };
        m.moved_back(y, dim)
    };
    let mut re = product(m, real, cos)?;
    let mut im = match mirrored {
        true => None,
        false => Some(product(m, real, sin)?),
    };
    if let Some(other) = other {
        let crossed = product(m, other, sin)?;
        re = m.sub(re, crossed)?;
        if let Some(sum) = im {
            let along = product(m, other, cos)?;
            im = Some(m.add(sum, along)?);
        }
    }
    let re = m.unsqueeze(re, rank - 1)?;
    match im {
        None => Ok(re),
        Some(im) => {
            let im = m.unsqueeze(im, rank - 1)?;
            m.concat(vec![re, im], rank - 1)
        }
    }
}

/// The length is operand 1; the axis operand 2 since version 20, before it an attribute.
pub(super) fn dft(cx: &mut Cx<'_>, node: &Node, attribute: bool) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(match attribute {
        true => &["axis", "inverse", "onesided"],
        false => &["inverse", "onesided"],
    })?;
    // All are looked at before one of them is an error.
    let (length, axis) = (m.ints(1, "a length"), m.ints(2, "an axis"));
    let (length, axis) = (length?, if attribute { None } else { axis? });
    let x = m.operand(0)?;
    let axis = match (attribute, axis.as_deref()) {
        (true, _) => m.int("axis", 1)?,
        (false, Some([axis])) => *axis,
        (false, _) => -2,
    };
    let dim = m.dimension(axis, m.rank(x))?;
    let (inverse, onesided) = (m.flag("inverse")?, m.flag("onesided")?);
    let found = m.shape(x)[dim];
    let size = match length.as_deref() {
        Some([size]) => *size,
        _ if inverse && onesided => 2 * (found - 1),
        _ => found,
    };
    if size < 1 {
        return m.fail(format!("has length {size}"));
    }
    let y = transform(&mut m, x, dim, size, inverse, onesided)?;
    m.done(y)
}

/// Transforms of windows of a signal.
pub(super) fn stft(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["onesided"])?;
    let (step, length) = (m.ints(1, "a step"), m.ints(3, "a length"));
    let (step, length) = (step?, length?);
    let (x, window) = (m.operand(0)?, m.optional(2)?);
    let x = match m.rank(x) {
        2 => m.unsqueeze(x, 2)?,
        _ => x,
    };
    let Some(&[step]) = step.as_deref() else {
        return m.fail("has no single step");
    };
    let size = match (length.as_deref(), window) {
        (Some([size]), _) => *size,
        (_, Some(window)) => m.shape(window)[0],
        _ => return m.fail("has neither a window nor a length"),
    };
    let &[_, samples, _] = &m.shape(x)[..] else {
        return m.fail("has a signal that is not of rank 2 or 3");
    };
    if step < 1 || size < 1 || samples < size {
        return m.fail(format!(
            "has windows of {size} in steps of {step} of {samples} samples"
        ));
    }
    let count = (samples - size) / step + 1;
    let starts = m.counting(Make::index_type(), count, 0, 2)?;
    let starts = m.times(starts, step as f64)?;
    let within = m.counting(Make::index_type(), size, 1, 2)?;
    let places = m.add(starts, within)?;
    let mut frames = m.gather(x, places, 1)?;
    if let Some(window) = window {
        let window = m.reshape(window, &[size, 1])?;
        frames = m.mul(frames, window)?;
    }
    let onesided = m.int("onesided", 1)? != 0;
    let y = transform(&mut m, frames, 2, size, false, onesided)?;
    m.done(y)
}
