//! Elements chosen by other tensors, and elements of another type.

use tir::data::Array;
use tir::interp::{Kind, Scalar, failure};
use tir::{Data, Evaluate, Failure, OpRef};

use super::elementwise::source;
use super::real::{buffer, product, result_form, tensors};
use crate::{Cast, Gather, Where};

impl Evaluate for Gather {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (dtype, shape) = result_form(op)?;
        let [x, indices] = tensors(inputs)?[..] else {
            return Err("expects two operands".into());
        };
        let at = crate::shape::axis(self.axis, x.shape().len())?;
        let count = x.shape()[at];
        let inner = product(&x.shape()[at + 1..])?.saturating_mul(dtype.size());
        let outer = product(&x.shape()[..at])?;
        let mut out = Vec::new();
        out.try_reserve_exact(product(&shape)?.saturating_mul(dtype.size()))
            .map_err(|_| "needs more memory than there is")?;
        let places: Result<Vec<usize>, Failure> = (0..indices.len())
            .map(|i| {
                let index = indices.get_int(i).unwrap_or(i128::MAX);
                let from_start = if index < 0 {
                    index + count as i128
                } else {
                    index
                };
                let place = usize::try_from(from_start).ok().filter(|p| *p < count);
                place.ok_or_else(|| {
                    format!("takes element {index} of dimension {at}, which has {count}").into()
                })
            })
            .collect();
        let places = places?;
        for o in 0..outer {
            for place in &places {
                let start = (o * count + place) * inner;
                out.extend_from_slice(&x.bytes()[start..start + inner]);
            }
        }
        let y = Array::new(dtype, &shape, out.into()).map_err(failure)?;
        Ok(vec![y.into()])
    }
}

impl Evaluate for Where {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (dtype, shape) = result_form(op)?;
        let [condition, x, y] = tensors(inputs)?[..] else {
            return Err("expects three operands".into());
        };
        let size = dtype.size();
        let count = product(&shape)?;
        let mut out = buffer(count.saturating_mul(size), 0u8)?;
        for (i, place) in out.chunks_exact_mut(size).enumerate() {
            let chosen = condition.bytes()[source(i, &shape, condition.shape())] != 0;
            let from = if chosen { x } else { y };
            let at = source(i, &shape, from.shape()) * size;
            place.copy_from_slice(&from.bytes()[at..at + size]);
        }
        let result = Array::new(dtype, &shape, out.into()).map_err(failure)?;
        Ok(vec![result.into()])
    }
}

impl Evaluate for Cast {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (dtype, shape) = result_form(op)?;
        let [x] = tensors(inputs)?[..] else {
            return Err("expects one operand".into());
        };
        let (size, kind) = (dtype.size(), Kind::of_dtype(dtype));
        let mut out = buffer(product(&shape)?.saturating_mul(size), 0u8)?;
        let bit = size == 1 && self.y.0.elem().bits() == Some(1);
        for (i, place) in out.chunks_exact_mut(size).enumerate() {
            let number = x.get_int(i);
            let scalar = match (number, x.get_f64(i)) {
                (Some(n), _) if bit => Scalar::int(i64::from(n != 0), kind),
                (None, Some(v)) if bit => Scalar::int(i64::from(v != 0.0), kind),
                (Some(n), _) if kind.is_float() => Scalar::float(n as f64, kind),
                (Some(n), _) => Scalar::int(n as i64, kind),
                (None, Some(v)) if kind.is_float() => Scalar::float(v, kind),
                (None, Some(v)) if v >= i64::MAX as f64 => Scalar::int(v as u64 as i64, kind),
                (None, Some(v)) => Scalar::int(v as i64, kind),
                (None, None) => return Err("has an operand that is too short".into()),
            };
            kind.write(scalar.bits, place)
                .ok_or("internal error: an element of another size")?;
        }
        let y = Array::new(dtype, &shape, out.into()).map_err(failure)?;
        Ok(vec![y.into()])
    }
}
