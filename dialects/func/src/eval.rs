//! How the ops of func run.

use tir::{Compiler, Failure, LowerToEval, OpRef, Value};

use crate::ops::{Call, Return};

impl LowerToEval for Call {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let results: Vec<Value> = op.ir.results(op.id).collect();
        cx.call(self.callee.0, &self.operands, &results);
        Ok(())
    }
}
impl LowerToEval for Return {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.ret(&self.operands);
        Ok(())
    }
}
