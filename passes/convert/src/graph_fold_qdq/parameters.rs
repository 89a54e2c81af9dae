//! What constants say of quantized tensors: scales, zero points, weights, biases.

use tir::data::Array;
use tir::interp::elements;
use tir::{IntType, Ir, Sign, Type, Value};
use tir_graph::{Constant, Dequantize};

/// The elements of a constant.
pub(super) fn constant(ir: &Ir, value: Value) -> Option<Array> {
    elements(ir.def::<Constant>(value)?.value).ok()
}

/// The only element of a constant.
pub(super) fn single(ir: &Ir, value: Value) -> Option<f64> {
    let array = constant(ir, value).filter(|array| array.len() == 1)?;
    array.iter_f64().next()
}

/// One zero point that is known; 0 where there is none.
pub(super) fn zero_of(ir: &Ir, zero: Option<Value>) -> Option<i64> {
    zero.map_or(Some(0), |zero| Some(single(ir, zero)? as i64))
}

/// A tensor of integers with one scale and one zero point.
pub(super) struct Quantized {
    pub x: Value,
    pub scale: f64,
    pub zero: i64,
}

pub(super) fn activation(ir: &Ir, value: Value) -> Result<Quantized, &'static str> {
    let dequantize = ir.def::<Dequantize>(value);
    let dequantize = dequantize.ok_or("an input is not dequantized")?;
    let known = single(ir, dequantize.scale).zip(zero_of(ir, dequantize.zero));
    let (scale, zero) = known.ok_or("an input has no constant scale and zero point")?;
    Ok(Quantized {
        x: dequantize.x,
        scale,
        zero,
    })
}

/// Constant weights without zero points, and their scales: one, or one for each element of a
/// dimension.
pub(super) struct Weights {
    pub value: Value,
    pub elements: Array,
    pub scales: Vec<f32>,
}

pub(super) fn weights(ir: &Ir, value: Value, channels: i64) -> Result<Weights, &'static str> {
    let dequantize = ir.def::<Dequantize>(value);
    let dequantize = dequantize.ok_or("the weights are not dequantized")?;
    let elements = constant(ir, dequantize.x).ok_or("the weights are not constant")?;
    let zeros = match dequantize.zero {
        Some(zero) => constant(ir, zero).ok_or("the weights have no constant zero point")?,
        None => Array::scalar(0i32),
    };
    if zeros.iter_f64().any(|zero| zero != 0.0) {
        return Err("the weights have a zero point that is not 0");
    }
    let scales = constant(ir, dequantize.scale).ok_or("the weights have no constant scale")?;
    let scales = scales.as_f32().ok_or("the weights have no scale of f32")?;
    if scales.len() > 1 && dequantize.axis != channels {
        return Err("the weights have a scale for each element of a dimension that is summed");
    }
    Ok(Weights {
        value: dequantize.x,
        elements,
        scales: scales.into_owned(),
    })
}

/// Numbers that are added to each output channel, as integers of the scale of the sums.
pub(super) fn addend(
    ir: &Ir,
    bias: Option<Value>,
    scales: &[f32],
    channels: usize,
) -> Result<Vec<i64>, &'static str> {
    let Some(bias) = bias else {
        return Ok(vec![0; channels]);
    };
    let at = |values: &[f64], o: usize| values[if values.len() == 1 { 0 } else { o }];
    let scale = |o: usize| f64::from(scales[if scales.len() == 1 { 0 } else { o }]);
    let reals: Vec<f64> = match ir.def::<Dequantize>(bias) {
        Some(dequantize) => {
            let known = constant(ir, dequantize.x).zip(constant(ir, dequantize.scale));
            let (whole, own) = known.ok_or("the bias is not constant")?;
            let zero = zero_of_all(ir, dequantize.zero).ok_or("the bias has a zero point")?;
            let own: Vec<f64> = own.iter_f64().collect();
            let whole = whole.iter_f64().enumerate();
            whole.map(|(o, n)| (n - zero) * at(&own, o)).collect()
        }
        None => constant(ir, bias)
            .ok_or("the bias is not constant")?
            .iter_f64()
            .collect(),
    };
    let last = ir.ty(bias).shape().and_then(|shape| shape.last().copied());
    let by_channel = last == i64::try_from(channels).ok() && reals.len() == channels;
    if !by_channel && reals.len() != 1 {
        return Err("the bias is not one number for each output channel");
    }
    let whole = |o: usize| (at(&reals, o) / scale(o)).round_ties_even() as i64;
    Ok((0..channels).map(whole).collect())
}

/// 0 if there is no zero point or all are 0.
pub(super) fn zero_of_all(ir: &Ir, zero: Option<Value>) -> Option<f64> {
    let Some(zero) = zero else { return Some(0.0) };
    let all = constant(ir, zero)?;
    all.iter_f64().all(|z| z == 0.0).then_some(0.0)
}

/// Of the weights of a channel, how much those above and those below zero are together.
#[derive(Clone, Copy, Default)]
pub(super) struct Total {
    pub above: i64,
    pub below: i64,
}

impl Total {
    /// The sum of all.
    pub(super) fn sum(self) -> i64 {
        self.above + self.below
    }

    /// The least and the largest sum of products with numbers from `low` to `high`.
    pub(super) fn products(self, (low, high): (i64, i64)) -> (i64, i64) {
        let (above, below) = (self.above, self.below);
        let of = |a: i64, b: i64| {
            above
                .saturating_mul(a)
                .saturating_add(below.saturating_mul(b))
        };
        (of(low, high), of(high, low))
    }
}

/// The totals of a matrix of `outer` x `count` x `inner`, over `outer` or over `inner`.
pub(super) fn totals(array: &Array, channels: usize, rows: bool) -> Vec<Total> {
    let mut totals = vec![Total::default(); channels];
    let inner = array.len() / channels.max(1);
    for (i, value) in array.iter_f64().enumerate() {
        let channel = if rows { i / inner.max(1) } else { i % channels };
        let total = &mut totals[channel];
        let value = value as i64;
        if value > 0 {
            total.above += value;
        } else {
            total.below += value;
        }
    }
    totals
}

/// The least and the largest number of a type of integers.
pub(super) fn range(ty: Type) -> Option<(i64, i64)> {
    let bits = ty.elem().bits().filter(|bits| (1..=32).contains(bits))?;
    let signed = ty.elem().get::<IntType>()?.sign != Sign::Unsigned;
    Some(match signed {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    })
}
