//! Importers of normalizations that are compositions: of groups of channels, of neighbours, by the root of the mean square.

use tir_core::Value;
use tir_graph::{AvgPool, LayerNorm, Number, accumulator};
use tir_onnx::Node;

use super::import::{Cx, LARGEST, Outcome};
use super::make::Make;
use super::reductions;

/// `(x - mean) / √(var + epsilon)` of groups of channels, in the accumulator's type.
fn normal(m: &mut Make<'_, '_>, x: Value, groups: i64, epsilon: f64) -> Outcome<Value> {
    let (shape, elem) = (m.shape(x), m.elem(x));
    let (Some(&[n, c]), true) = (shape.first_chunk::<2>(), groups > 0) else {
        return m.fail(format!("has {groups} groups for shape {shape:?}"));
    };
    if c % groups != 0 {
        return m.fail(format!("has {groups} groups for {c} channels"));
    }
    let wide = accumulator(elem);
    let size = shape[1..].iter().product::<i64>() / groups;
    let y = m.cast(x, wide)?;
    let y = m.reshape(y, &[n, groups, size])?;
    let scale = m.numbers(wide, &[1], &[1.0])?;
    let y = m.op(LayerNorm {
        x: y,
        scale,
        bias: None,
        axis: 2,
        epsilon: Number(epsilon),
    })?;
    m.reshape(y, &shape)
}

/// A number for each channel, or for each group of them, beside a tensor of this rank.
fn by_channel(m: &mut Make<'_, '_>, x: Value, channels: i64, rank: usize) -> Outcome<Value> {
    let count = m.shape(x).iter().product::<i64>();
    let mut form = vec![1; rank];
    form[1] = channels;
    if count == channels {
        return m.reshape(x, &form);
    }
    if count == 0 || channels % count != 0 {
        return m.fail(format!("has {count} factors for {channels} channels"));
    }
    let x = m.reshape(x, &[count, 1])?;
    let x = m.expand(x, &[count, channels / count])?;
    m.reshape(x, &form)
}

fn scaled(m: &mut Make<'_, '_>, y: Value, scale: Value, bias: Value) -> Outcome<Value> {
    let (channels, rank, wide) = (m.shape(y)[1], m.rank(y), m.elem(y));
    let (scale, bias) = (m.cast(scale, wide)?, m.cast(bias, wide)?);
    let (scale, bias) = (
        by_channel(m, scale, channels, rank)?,
        by_channel(m, bias, channels, rank)?,
    );
    let y = m.mul(y, scale)?;
    m.add(y, bias)
}

pub(super) fn instance(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["consumed_inputs", "epsilon"])?;
    let (x, scale, bias) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
    let channels = m.shape(x).get(1).copied().unwrap_or(0);
    let epsilon = m.float("epsilon", 1e-5)?;
    let y = normal(&mut m, x, channels, epsilon)?;
    let y = scaled(&mut m, y, scale, bias)?;
    let elem = m.elem(x);
    let y = m.cast(y, elem)?;
    m.done(y)
}

/// Factors are of groups until version 20, of channels since.
pub(super) fn group(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["epsilon", "num_groups", "stash_type"])?;
    let (x, scale, bias) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
    let groups = m.int("num_groups", 0)?;
    let epsilon = m.float("epsilon", 1e-5)?;
    let y = normal(&mut m, x, groups, epsilon)?;
    let y = scaled(&mut m, y, scale, bias)?;
    let elem = m.elem(x);
    let y = m.cast(y, elem)?;
    m.done(y)
}

/// `x / (bias + alpha / size · Σ x²)^beta`, the sum over neighbouring channels: a pool of means over channels, with zeros around
/// them (Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", 2012).
pub(super) fn local_response(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["alpha", "beta", "bias", "size"])?;
    let x = m.operand(0)?;
    let (shape, size) = (m.shape(x), m.int("size", 0)?);
    let Some(&[n, c]) = shape.first_chunk::<2>() else {
        return m.fail(format!("has an input of rank {}", shape.len()));
    };
    if !(1..=LARGEST).contains(&size) {
        return m.fail(format!(
            "has attribute 'size' {size}, expected 1 to {LARGEST}"
        ));
    }
    let (alpha, beta, bias) = (
        m.float("alpha", 1e-4)?,
        m.float("beta", 0.75)?,
        m.float("bias", 1.0)?,
    );
    let narrow = m.elem(x);
    let x = m.cast(x, accumulator(narrow))?;
    let square = m.mul(x, x)?;
    let rest = shape[2..].iter().product();
    let square = m.reshape(square, &[n, 1, c, rest])?;
    let low = (size - 1) / 2;
    let mean = m.op(AvgPool {
        x: square,
        kernel: vec![size, 1],
        strides: vec![1, 1],
        pads: vec![low, 0, size - 1 - low, 0],
        dilations: vec![1, 1],
        ceil_mode: false,
        count_include_pad: true,
    })?;
    let mean = m.reshape(mean, &shape)?;
    let sum = m.times(mean, alpha)?;
    let sum = m.plus(sum, bias)?;
    let y = if beta == 0.75 {
        // The fourth root three times is quicker than a power.
        let half = m.sqrt(sum)?;
        let quarter = m.sqrt(half)?;
        let below = m.mul(half, quarter)?;
        m.div(x, below)?
    } else {
        let power = m.like(sum, -beta)?;
        let factor = m.pow(sum, power)?;
        m.mul(x, factor)?
    };
    let y = m.cast(y, narrow)?;
    m.done(y)
}

/// `x / √(mean(x²) + epsilon)` over the dimensions from an axis on.
pub(super) fn by_root(m: &mut Make<'_, '_>, x: Value, dim: usize, epsilon: f64) -> Outcome<Value> {
    let axes: Vec<usize> = (dim..m.rank(x)).collect();
    let square = m.mul(x, x)?;
    let mean = m.mean(square, &axes)?;
    let mean = m.plus(mean, epsilon)?;
    let root = m.sqrt(mean)?;
    m.div(x, root)
}

/// Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
pub(super) fn root_mean_square(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["axis", "epsilon", "stash_type"])?;
    let (x, scale) = (m.operand(0)?, m.operand(1)?);
    let dim = m.dimension(m.int("axis", -1)?, m.rank(x))?;
    let elem = m.elem(x);
    let wide = accumulator(elem);
    let y = m.cast(x, wide)?;
    let epsilon = m.float("epsilon", 1e-5)?;
    let y = by_root(&mut m, y, dim, epsilon)?;
    let result = m.elem(scale);
    let y = m.cast(y, result)?;
    let y = m.mul(y, scale)?;
    m.done(y)
}

/// `x - max - ln Σ exp(x - max)`; until version 12 of all dimensions from the axis on together.
pub(super) fn log_softmax(cx: &mut Cx<'_>, node: &Node, rows: bool) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["axis"])?;
    let x = m.operand(0)?;
    let (shape, elem) = (m.shape(x), m.elem(x));
    let mut dim = m.dimension(m.int("axis", if rows { 1 } else { -1 })?, shape.len())?;
    let mut y = m.cast(x, accumulator(elem))?;
    if rows {
        let (outer, inner) = shape.split_at(dim);
        y = m.reshape(y, &[outer.iter().product(), inner.iter().product()])?;
        dim = 1;
    }
    let sum = reductions::log_sum_exp(&mut m, y, &[dim])?;
    let y = m.sub(y, sum)?;
    let y = m.reshape(y, &shape)?;
    let y = m.cast(y, elem)?;
    m.done(y)
}

/// What layer normalization gives besides its result: the mean, and one by the deviation, in the accumulator's type.
pub(super) fn moments(
    m: &mut Make<'_, '_>,
    x: Value,
    dim: usize,
    epsilon: f64,
) -> Outcome<[Value; 2]> {
    let axes: Vec<usize> = (dim..m.rank(x)).collect();
    let elem = m.elem(x);
    let x = m.cast(x, accumulator(elem))?;
    let mean = m.mean(x, &axes)?;
    let centred = m.sub(x, mean)?;
    let square = m.mul(centred, centred)?;
    let variance = m.mean(square, &axes)?;
    let variance = m.plus(variance, epsilon)?;
    let root = m.sqrt(variance)?;
    Ok([mean, m.reciprocal(root)?])
}
