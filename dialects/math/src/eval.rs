//! How the ops of math run and fold: each is one scalar operation.

use tir::interp::{FloatFn, FloatOp, IntFn, ScalarOp};
use tir_arith::{kind, scalar_like};

use crate::ops::*;

macro_rules! unary {
    ($($op:ident $how:ident),* $(,)?) => {
        scalar_like! { |this, ir|
            $($op: ScalarOp::FloatFn(FloatFn::$how, kind(ir.ty(this.operand))?);)*
        }
    };
}
unary! { Exp Exp, Exp2 Exp2, Log Log, Log1p Log1p, Sqrt Sqrt, Rsqrt Rsqrt, Tanh Tanh, Erf Erf,
Sin Sin, Cos Cos, AbsF Abs, Floor Floor, Ceil Ceil, RoundEven RoundEven }
scalar_like! { |this, ir|
    AbsI: ScalarOp::IntFn(IntFn::Abs, kind(ir.ty(this.operand))?);
    PowF: ScalarOp::Float(FloatOp::Pow, kind(ir.ty(this.lhs))?);
    Fma: ScalarOp::Fma(kind(ir.ty(this.a))?);
}
