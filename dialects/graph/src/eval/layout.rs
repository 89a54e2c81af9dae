//! Layouts say nothing of values.

use tir::{Data, Evaluate, Failure, OpRef};

use crate::Relayout;

impl Evaluate for Relayout {
    fn evaluate(&self, _: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        Ok(inputs.to_vec())
    }
}
