//! Running the ops of loop: structured jumps.

use tir::interp::{CountedLoop, Reg};
use tir::{Compiler, Failure, LowerToEval, OpRef, Value};

use crate::{Bounds, For, If};

impl LowerToEval for For {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let bounds = self.all_bounds().ok_or("has not three bounds")?;
        let mut reg = |bound: Bounds| -> Result<Reg, Failure> {
            match bound {
                Bounds::Static(n) => Ok(cx.index(n)),
                Bounds::Dynamic(value) => cx.reg(value),
            }
        };
        let [lower, upper, step] = [reg(bounds[0])?, reg(bounds[1])?, reg(bounds[2])?];
        let results: Vec<Value> = op.ir.results(op.id).collect();
        cx.counted_loop(&CountedLoop {
            lower,
            upper,
            step,
            init: &self.init,
            body: self.body,
            results: &results,
        })
    }
}

impl LowerToEval for If {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let results: Vec<Value> = op.ir.results(op.id).collect();
        cx.if_else(
            self.condition,
            self.then_region,
            Some(self.else_region),
            &results,
        )
    }
}
