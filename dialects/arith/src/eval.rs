//! How the ops of arith run and fold: each is one scalar operation.

use tir::interp::{CastOp, FloatCmp, FloatFn, FloatOp, IntCmp, IntOp, Kind, ScalarOp};
use tir::{Compiler, Failure, Ir, LowerToEval, OpRef, Type, Value};

use crate::attrs::{CmpFPredicate as F, CmpIPredicate as I, RoundingMode};
use crate::fold::ScalarLike;
use crate::ops::{cast::*, float::*, int::*};

/// The kind of the elements of a type.
///
/// # Errors
/// If no scalar operation runs on them.
pub fn kind(ty: Type) -> Result<Kind, Failure> {
    let elem = ty.elem();
    Kind::wide(elem).ok_or_else(|| format!("{elem} is too wide to run").into())
}

/// Makes ops run as one scalar operation: `|this, ir| Op: ScalarOp::…;` for each, where `?` is a
/// failure.
#[macro_export]
macro_rules! scalar_like {
    (|$this:ident, $ir:ident| $($op:ident: $how:expr;)*) => {$(
        impl $crate::ScalarLike for $op {
            fn scalar(&self, $ir: &tir::Ir) -> Result<tir::interp::ScalarOp, tir::Failure> {
                let $this = self;
                Ok($how)
            }
        }
        impl tir::LowerToEval for $op {
            fn lower<'m>(
                &self,
                op: tir::OpRef<'m>,
                cx: &mut tir::Compiler<'m>,
            ) -> Result<(), tir::Failure> {
                let operands: Vec<tir::Value> = op.ir.operands(op.id).collect();
                let scalar = $crate::ScalarLike::scalar(self, op.ir)?;
                cx.scalar(scalar, op.ir.result(op.id, 0), &operands)
            }
        }
    )*};
}
macro_rules! binary {
    ($group:ident $ops:ident: $($op:ident $how:ident),* $(,)?) => {
        scalar_like! { |this, ir| $($op: ScalarOp::$group($ops::$how, kind(ir.ty(this.lhs))?);)* }
    };
}
binary! { Int IntOp: AddI Add, SubI Sub, MulI Mul, DivSI DivS, DivUI DivU, CeilDivSI CeilDivS,
CeilDivUI CeilDivU, FloorDivSI FloorDivS, RemSI RemS, RemUI RemU, AndI And, OrI Or, XOrI Xor,
ShLI Shl, ShRSI ShrS, ShRUI ShrU, MaxSI MaxS, MaxUI MaxU, MinSI MinS, MinUI MinU }
binary! { Float FloatOp: AddF Add, SubF Sub, MulF Mul, DivF Div, RemF Rem, MaximumF Maximum,
MinimumF Minimum, MaxNumF MaxNum, MinNumF MinNum }

macro_rules! cast {
    ($($op:ident $how:ident),* $(,)?) => {
        scalar_like! { |this, ir| $(
            $op: ScalarOp::Cast(CastOp::$how, kind(ir.ty(this.input))?, kind(this.output.0)?);
        )* }
    };
}
cast! { IndexCast IntS, IndexCastUI IntU, ExtSI IntS, ExtUI IntU, TruncI IntS, ExtF Float,
SIToFP SiToFp, UIToFP UiToFp, FPToSI FpToSi, FPToUI FpToUi, Bitcast Bits }
impl ScalarLike for TruncF {
    fn scalar(&self, ir: &Ir) -> Result<ScalarOp, Failure> {
        if let Some(mode) = self.roundingmode
            && mode != RoundingMode::ToNearestEven
        {
            return Err(format!("rounds '{}': only to_nearest_even runs", mode.keyword()).into());
        }
        let (from, to) = (kind(ir.ty(self.input))?, kind(self.output.0)?);
        Ok(ScalarOp::Cast(CastOp::Float, from, to))
    }
}
impl LowerToEval for TruncF {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.scalar(self.scalar(op.ir)?, op.ir.result(op.id, 0), &[self.input])
    }
}
scalar_like! { |this, ir|
    NegF: ScalarOp::FloatFn(FloatFn::Neg, kind(ir.ty(this.operand))?);
    CmpI: ScalarOp::CmpInt(int_order(this.predicate), kind(ir.ty(this.lhs))?);
    CmpF: ScalarOp::CmpFloat(float_order(this.predicate), kind(ir.ty(this.lhs))?);
}

impl AddUIExtended {
    /// What computes each result.
    pub(crate) fn scalars(&self, ir: &Ir) -> Result<[ScalarOp; 2], Failure> {
        let kind = kind(ir.ty(self.lhs))?;
        Ok([IntOp::Add, IntOp::CarryU].map(|how| ScalarOp::Int(how, kind)))
    }
}
impl LowerToEval for AddUIExtended {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let hows = self.scalars(op.ir)?.into_iter();
        let all: Vec<(ScalarOp, Value)> = hows.zip(op.ir.results(op.id)).collect();
        cx.scalars(&all, &[self.lhs, self.rhs])
    }
}

impl ScalarLike for Select {
    fn scalar(&self, ir: &Ir) -> Result<ScalarOp, Failure> {
        Ok(ScalarOp::Select(kind(ir.ty(self.true_value))?))
    }
}
impl LowerToEval for Select {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        cx.select(
            op.ir.result(op.id, 0),
            self.condition,
            self.true_value,
            self.false_value,
        )
    }
}

fn int_order(predicate: I) -> IntCmp {
    match predicate {
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
    }
}
fn float_order(predicate: F) -> FloatCmp {
    match predicate {
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
    }
}
