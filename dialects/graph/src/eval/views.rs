//! The same elements in another shape or order.

use tir::interp::{View, failure};
use tir::{Data, Evaluate, Failure, OpRef};

use super::movement::gathered;
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
    fn evaluate(&self, _: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let [x] = tensors(inputs)?[..] else {
            return Err("expects one operand".into());
        };
        let order: Vec<usize> = self.perm.iter().map(|d| *d as usize).collect();
        let view = View::of_array(x);
        if order.len() != view.shape.len() {
            return Err("has an order of another rank".into());
        }
        Ok(vec![gathered(x, &view.permuted(&order)?)?.into()])
    }
}
