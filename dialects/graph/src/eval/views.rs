//! The same elements in another shape or order.

use tir::data::Array;
use tir::interp::failure;
use tir::{Data, Evaluate, Failure, OpRef};

use super::real::{result_form, tensors};
use crate::{Reshape, Transpose};

impl Evaluate for Reshape {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (_, shape) = result_form(op)?;
        let [x] = tensors(inputs)?[..] else {
            return Err("expects one operand".into());
        };
        let y = x.reshaped(&shape).map_err(failure)?;
        Ok(vec![y.into()])
    }
}

impl Evaluate for Transpose {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (dtype, shape) = result_form(op)?;
        let [x] = tensors(inputs)?[..] else {
            return Err("expects one operand".into());
        };
        let size = dtype.size();
        let mut strides = vec![size; x.shape().len()];
        for d in (1..strides.len()).rev() {
            strides[d - 1] = strides[d] * x.shape()[d].max(1);
        }
        let steps = self.perm.iter().map(|d| strides.get(*d as usize).copied());
        let steps: Option<Vec<usize>> = steps.collect();
        let steps = steps.filter(|s| s.len() == shape.len());
        let steps = steps.ok_or_else(|| Failure::from("has an order of another rank"))?;
        let mut out = Vec::with_capacity(x.bytes().len());
        if !x.is_empty() {
            copy(x.bytes(), size, &shape, &steps, 0, &mut out);
        }
        let y = Array::new(dtype, &shape, out.into()).map_err(failure)?;
        Ok(vec![y.into()])
    }
}

/// Appends the elements of a strided box in row-major order.
pub(crate) fn copy(
    x: &[u8],
    size: usize,
    shape: &[usize],
    steps: &[usize],
    at: usize,
    out: &mut Vec<u8>,
) {
    match (shape, steps) {
        ([n, shape @ ..], [step, steps @ ..]) => {
            for i in 0..*n {
                copy(x, size, shape, steps, at + i * step, out);
            }
        }
        _ => out.extend_from_slice(&x[at..at + size]),
    }
}
