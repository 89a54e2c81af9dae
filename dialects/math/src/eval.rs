//! How the ops of math run: each is one scalar instruction.

use tir::interp::{FloatFn, FloatOp, Kind, ScalarOp};
use tir::{Compiler, Failure, LowerToEval, OpRef, Value};

use crate::ops::*;

fn kind(op: OpRef<'_>, value: Value) -> Result<Kind, Failure> {
    let elem = op.ir.ty(value).elem();
    Kind::of(elem).ok_or_else(|| format!("{elem} cannot run").into())
}

macro_rules! unary {
    ($($op:ident $how:ident),* $(,)?) => {$(
        impl LowerToEval for $op {
            fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
                let how = ScalarOp::FloatFn(FloatFn::$how, kind(op, self.operand)?);
                cx.scalar(how, op.ir.result(op.id, 0), &[self.operand])
            }
        }
    )*};
}
unary! { Exp Exp, Exp2 Exp2, Log Log, Sqrt Sqrt, Rsqrt Rsqrt, Tanh Tanh, Erf Erf, Sin Sin, Cos Cos,
AbsF Abs, Floor Floor, Ceil Ceil, RoundEven RoundEven }

impl LowerToEval for PowF {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let how = ScalarOp::Float(FloatOp::Pow, kind(op, self.lhs)?);
        cx.scalar(how, op.ir.result(op.id, 0), &[self.lhs, self.rhs])
    }
}
