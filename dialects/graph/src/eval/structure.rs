//! Constants and groups.

use tir::{Compiler, Data, Evaluate, Failure, LowerToEval, OpRef, Value};

use crate::{Constant, Fused};

impl Evaluate for Constant {
    fn evaluate(&self, _: OpRef<'_>, _: &[Data]) -> Result<Vec<Data>, Failure> {
        Ok(vec![tir::interp::elements(self.value)?.into()])
    }
}

impl LowerToEval for Fused {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let values = cx.inline(self.body, &[])?;
        let results: Vec<Value> = op.ir.results(op.id).collect();
        cx.yield_to(self.body, &values, &results)
    }
}
