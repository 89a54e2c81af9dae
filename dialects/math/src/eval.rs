//! How the ops of math run and fold: each is one scalar operation.

use tir::interp::{FloatFn, FloatOp, IntFn, Kind, ScalarOp};
use tir::{Compiler, Failure, Ir, LowerToEval, OpRef, Value};
use tir_arith::ScalarLike;

use crate::ops::*;

fn kind(ir: &Ir, value: Value) -> Result<Kind, Failure> {
    let elem = ir.ty(value).elem();
    Kind::wide(elem).ok_or_else(|| format!("{elem} cannot run").into())
}

macro_rules! scalar {
    (|$this:ident, $ir:ident| $($op:ident: $how:expr;)*) => {$(
        impl ScalarLike for $op {
            fn scalar(&self, $ir: &Ir) -> Result<ScalarOp, Failure> {
                let $this = self;
                Ok($how)
            }
        }
        impl LowerToEval for $op {
            fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
                let operands: Vec<Value> = op.ir.operands(op.id).collect();
                cx.scalar(self.scalar(op.ir)?, op.ir.result(op.id, 0), &operands)
            }
        }
    )*};
}
macro_rules! unary {
    ($($op:ident $how:ident),* $(,)?) => {
        scalar! { |this, ir|
            $($op: ScalarOp::FloatFn(FloatFn::$how, kind(ir, this.operand)?);)*
        }
    };
}
unary! { Exp Exp, Exp2 Exp2, Log Log, Log1p Log1p, Sqrt Sqrt, Rsqrt Rsqrt, Tanh Tanh, Erf Erf,
Sin Sin, Cos Cos, AbsF Abs, Floor Floor, Ceil Ceil, RoundEven RoundEven }
scalar! { |this, ir|
    AbsI: ScalarOp::IntFn(IntFn::Abs, kind(ir, this.operand)?);
    PowF: ScalarOp::Float(FloatOp::Pow, kind(ir, this.lhs)?);
    Fma: ScalarOp::Fma(kind(ir, this.a)?);
}
