//! How the ops of arith run: each is one scalar instruction.

use tir::interp::{CastOp, FloatCmp, FloatFn, FloatOp, IntCmp, IntOp, Kind, ScalarOp};
use tir::{Compiler, Failure, LowerToEval, OpRef, Type, Value};

use crate::attrs::{CmpFPredicate as F, CmpIPredicate as I};
use crate::ops::{cast::*, float::*, int::*};

/// The kind of the elements of a type.
fn kind(ty: Type) -> Result<Kind, Failure> {
    let elem = ty.elem();
    Kind::of(elem).ok_or_else(|| format!("{elem} is too wide to run").into())
}
fn result(op: OpRef<'_>) -> Value {
    op.ir.result(op.id, 0)
}

macro_rules! binary {
    ($group:ident $ops:ident: $($op:ident $how:ident),* $(,)?) => {$(
        impl LowerToEval for $op {
            fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
                let kind = kind(op.ir.ty(self.lhs))?;
                cx.scalar(ScalarOp::$group($ops::$how, kind), result(op), &[self.lhs, self.rhs])
            }
        }
    )*};
}
binary! { Int IntOp: AddI Add, SubI Sub, MulI Mul, DivSI DivS, DivUI DivU, CeilDivSI CeilDivS,
FloorDivSI FloorDivS, RemSI RemS, RemUI RemU, AndI And, OrI Or, XOrI Xor, ShLI Shl, ShRSI ShrS,
ShRUI ShrU, MaxSI MaxS, MaxUI MaxU, MinSI MinS, MinUI MinU }
binary! { Float FloatOp: AddF Add, SubF Sub, MulF Mul, DivF Div, RemF Rem, MaximumF Maximum,
MinimumF Minimum, MaxNumF MaxNum, MinNumF MinNum }

macro_rules! cast {
    ($($op:ident $how:ident),* $(,)?) => {$(
        impl LowerToEval for $op {
            fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
                let (from, to) = (kind(op.ir.ty(self.input))?, kind(self.output.0)?);
                cx.scalar(ScalarOp::Cast(CastOp::$how, from, to), result(op), &[self.input])
            }
        }
    )*};
}
cast! { IndexCast IntS, IndexCastUI IntU, ExtSI IntS, ExtUI IntU, TruncI IntS, ExtF Float,
SIToFP SiToFp, UIToFP UiToFp, FPToSI FpToSi, FPToUI FpToUi, Bitcast Bits }

impl LowerToEval for TruncF {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        if let Some(mode) = self.roundingmode.filter(|_| !rounds_to_even(op)) {
            return Err(format!("rounds '{}': only to_nearest_even runs", mode.keyword()).into());
        }
        let (from, to) = (kind(op.ir.ty(self.input))?, kind(self.output.0)?);
        cx.scalar(
            ScalarOp::Cast(CastOp::Float, from, to),
            result(op),
            &[self.input],
        )
    }
}
impl LowerToEval for NegF {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let kind = kind(op.ir.ty(self.operand))?;
        cx.scalar(
            ScalarOp::FloatFn(FloatFn::Neg, kind),
            result(op),
            &[self.operand],
        )
    }
}
impl LowerToEval for Select {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.select(
            result(op),
            self.condition,
            self.true_value,
            self.false_value,
        )
    }
}
impl LowerToEval for CmpI {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let how = match self.predicate {
            I::Eq => IntCmp::Eq,
            I::Ne => IntCmp::Ne,
            I::Slt => IntCmp::Slt,
            I::Sle => IntCmp::Sle,
            I::Sgt => IntCmp::Sgt,
            I::Sge => IntCmp::Sge,
            I::Ult => IntCmp::Ult,
            I::Ule => IntCmp::Ule,
            I::Ugt => IntCmp::Ugt,
            I::Uge => IntCmp::Uge,
        };
        let kind = kind(op.ir.ty(self.lhs))?;
        cx.scalar(
            ScalarOp::CmpInt(how, kind),
            result(op),
            &[self.lhs, self.rhs],
        )
    }
}
impl LowerToEval for CmpF {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let how = match self.predicate {
            F::False => FloatCmp::False,
            F::Oeq => FloatCmp::Oeq,
            F::Ogt => FloatCmp::Ogt,
            F::Oge => FloatCmp::Oge,
            F::Olt => FloatCmp::Olt,
            F::Ole => FloatCmp::Ole,
            F::One => FloatCmp::One,
            F::Ord => FloatCmp::Ord,
            F::Ueq => FloatCmp::Ueq,
            F::Ugt => FloatCmp::Ugt,
            F::Uge => FloatCmp::Uge,
            F::Ult => FloatCmp::Ult,
            F::Ule => FloatCmp::Ule,
            F::Une => FloatCmp::Une,
            F::Uno => FloatCmp::Uno,
            F::True => FloatCmp::True,
        };
        let kind = kind(op.ir.ty(self.lhs))?;
        cx.scalar(
            ScalarOp::CmpFloat(how, kind),
            result(op),
            &[self.lhs, self.rhs],
        )
    }
}
