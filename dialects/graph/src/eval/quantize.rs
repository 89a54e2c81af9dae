//! Real numbers as small integers.

use tir::data::{Array, Bytes, DType};
use tir::interp::failure;
use tir::{Data, Evaluate, Failure, OpRef, Value};

use super::real::{buffer, product, result_form, tensors, whole};
use crate::bounds;
use crate::ops::quantize::{Dequantize, Quantize, Requantize};
use crate::shape::axis;

/// Scale and zero point of each element of a tensor.
struct Parameters {
    scales: Vec<f32>,
    zeros: Vec<i32>,
    /// Neighbours with one scale, and the size of the dimension that scales belong to.
    inner: usize,
    count: usize,
}

impl Parameters {
    /// From the operands behind the first one.
    fn new(shape: &[usize], given: &[&Array], along: i64) -> Result<Self, Failure> {
        let scales = given.first().and_then(|scale| scale.as_f32());
        let scales = scales.ok_or("expects a scale of f32")?.into_owned();
        let zeros = match given.get(1) {
            Some(zero) => whole(zero)?.into_iter().map(|n| n.0).collect(),
            None => vec![0],
        };
        let several = scales.len() > 1 || zeros.len() > 1;
        let at = several.then(|| axis(along, shape.len())).transpose()?;
        let (inner, count) = match at {
            Some(at) => (product(&shape[at + 1..])?, shape[at]),
            None => (1, 1),
        };
        Ok(Self {
            scales,
            zeros,
            inner: inner.max(1),
            count: count.max(1),
        })
    }
    fn of(&self, index: usize) -> (f32, i32) {
        let at = index / self.inner % self.count;
        let scale = self.scales[at % self.scales.len()];
        (scale, self.zeros[at % self.zeros.len()])
    }
}

/// `saturate(round(scaled(x, scale)) + zero)` of each element.
fn rounded(
    op: OpRef<'_>,
    inputs: &[Data],
    along: i64,
    scaled: impl Fn(f32, f32) -> f32,
) -> Result<Vec<Data>, Failure> {
    let (dtype, shape) = result_form(op)?;
    let result: Option<Value> = op.ir.results(op.id).next();
    let limits = result.and_then(|y| bounds(op.ir.ty(y).elem()));
    let [low, high] = limits.ok_or("expects integers as result")?;
    let [x, given @ ..] = &tensors(inputs)?[..] else {
        return Err("expects an operand".into());
    };
    let parameters = Parameters::new(&shape, given, along)?;
    let mut out = buffer(product(&[x.len(), dtype.size()])?, 0u8)?;
    let numbers: Vec<f32> = match x.as_f32() {
        Some(values) => values.into_owned(),
        None => whole(x)?.into_iter().map(|n| n.0 as f32).collect(),
    };
    for ((i, x), place) in numbers
        .into_iter()
        .enumerate()
        .zip(out.chunks_exact_mut(dtype.size()))
    {
        let (scale, zero) = parameters.of(i);
        let y = scaled(x, scale).round_ties_even() + zero as f32;
        // NaN becomes 0.
        let y = y.max(low as f32).min(high as f32);
        let y = if scaled(x, scale).is_nan() {
            0
        } else {
            y as i32
        };
        place.copy_from_slice(&y.to_le_bytes()[..dtype.size()]);
    }
    let y = Array::new(dtype, &shape, Bytes::from(out)).map_err(failure)?;
    Ok(vec![y.into()])
}

impl Evaluate for Quantize {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        rounded(op, inputs, self.axis, |x, scale| x / scale)
    }
}

impl Evaluate for Requantize {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        rounded(op, inputs, self.axis, |x, factor| x * factor)
    }
}

impl Evaluate for Dequantize {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (_, shape) = result_form(op)?;
        let [x, given @ ..] = &tensors(inputs)?[..] else {
            return Err("expects an operand".into());
        };
        let parameters = Parameters::new(&shape, given, self.axis)?;
        let real = |(i, x): (usize, std::num::Wrapping<i32>)| {
            let (scale, zero) = parameters.of(i);
            x.0.wrapping_sub(zero) as f32 * scale
        };
        let values = whole(x)?.into_iter().enumerate().map(real).collect();
        let y = Array::from_vec::<f32>(&shape, values).map_err(failure)?;
        debug_assert_eq!(y.dtype(), DType::F32);
        Ok(vec![y.into()])
    }
}
