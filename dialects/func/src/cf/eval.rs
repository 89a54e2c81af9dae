//! How the ops of cf run: jumps between the blocks of a function.

use tir::{Compiler, Failure, LowerToEval, OpRef};

use super::ops::{Assert, Br, CondBr};

impl LowerToEval for Br {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.branch(self.dest.block, &self.dest.args)
    }
}
impl LowerToEval for CondBr {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let then = (self.true_dest.block, &self.true_dest.args[..]);
        let other = (self.false_dest.block, &self.false_dest.args[..]);
        cx.branch_if(self.condition, then, other)
    }
}
impl LowerToEval for Assert {
    fn lower<'m>(&self, _: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let arg = cx.reg(self.arg)?;
        cx.check(arg, format!("assertion failed: {}", self.msg));
        Ok(())
    }
}
