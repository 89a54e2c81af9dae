//! Elements chosen by other tensors, and elements of another type.

use tir::data::{Array, DType};
use tir::interp::{
    CastOp, FloatCmp, IntCmp, Kind, Scalar, ScalarOp, elem_of, elementwise, failure,
};
use tir::{Data, Evaluate, Failure, OpRef};

use super::elementwise::{source, unsigned};
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
        let how = cast(x.dtype(), dtype);
        let mut args = vec![Data::Tensor(x.clone())];
        if !matches!(how, ScalarOp::Cast(..)) {
            args.push(Scalar::int(0, Kind::of_dtype(x.dtype())).into());
        }
        let y = elementwise(how, &args, elem_of(dtype))?;
        debug_assert!(y.as_tensor().is_ok_and(|y| y.shape() == shape));
        Ok(vec![y])
    }
}

/// The scalar operation that converts an element; a truth value is whether it differs from zero.
fn cast(from: DType, to: DType) -> ScalarOp {
    let (x, y) = (Kind::of_dtype(from), Kind::of_dtype(to));
    let how = match (x.is_float(), y.is_float()) {
        (true, false) if y == Kind::BOOL => return ScalarOp::CmpFloat(FloatCmp::Une, x),
        (false, false) if y == Kind::BOOL => return ScalarOp::CmpInt(IntCmp::Ne, x),
        (true, true) => CastOp::Float,
        (true, false) if unsigned(to) => CastOp::FpToUi,
        (true, false) => CastOp::FpToSi,
        (false, true) if unsigned(from) => CastOp::UiToFp,
        (false, true) => CastOp::SiToFp,
        (false, false) if unsigned(from) => CastOp::IntU,
        (false, false) => CastOp::IntS,
    };
    ScalarOp::Cast(how, x, y)
}
