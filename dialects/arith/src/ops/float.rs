//! Float arithmetic and comparison.

use tir::constraints::FLOAT_LIKE;
use tir::{Failure, Fold, Folds, Infer, Op, OpRef, Type, Value, Verify};

use crate::attrs::{CmpFPredicate, FastMath};
use crate::fold::{fold, is_float, same};
use crate::ops::int::{bool_like, one_type};

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $text:literal [$($traits:ident),*]
        $identity:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, Pure, SameType, Elementwise, $($traits,)* results(result), fold, lower_to_eval)]
        #[asm("$lhs `,` $rhs (`fastmath` `` body($fastmath)^)? attr-dict `:` type($result)")]
        pub struct $name {
            /// Left operand.
            #[is(FLOAT_LIKE)]
            pub lhs: Value,
            /// Right operand.
            #[is(FLOAT_LIKE)]
            pub rhs: Value,
            /// What may be assumed.
            pub fastmath: Option<FastMath>,
        }
        impl Fold for $name {
            fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
                let identity: fn(OpRef<'_>, Value, Value) -> Option<Folds> = $identity;
                fold(self, op).or_else(|| identity(op, self.lhs, self.rhs))
            }
        }
        impl $name {
            /// Without flags.
            pub fn new(lhs: Value, rhs: Value) -> Self {
                Self { lhs, rhs, fastmath: None }
            }
        }
    )*};
}

/// `x op n = x` for the right operand `n`, sign of zero included.
fn right(op: OpRef<'_>, x: Value, y: Value, n: f64) -> Option<Folds> {
    is_float(op, y, n).then(|| x.into())
}

binary! {
    /// Sum.
    AddF "arith.addf" [Commutative] |op, x, y| right(op, x, y, -0.0);
    /// Difference.
    SubF "arith.subf" [] |op, x, y| right(op, x, y, 0.0);
    /// Product.
    MulF "arith.mulf" [Commutative] |op, x, y| right(op, x, y, 1.0);
    /// Quotient.
    DivF "arith.divf" [] |op, x, y| right(op, x, y, 1.0);
    /// Remainder of the division rounded to zero.
    RemF "arith.remf" [] |_, _, _| None;
    /// Maximum; a NaN if one operand is.
    MaximumF "arith.maximumf" [Commutative, Idempotent] |_, x, y| same(x, y);
    /// Minimum; a NaN if one operand is.
    MinimumF "arith.minimumf" [Commutative, Idempotent] |_, x, y| same(x, y);
    /// Maximum; the other operand if one is a NaN.
    MaxNumF "arith.maxnumf" [Commutative, Idempotent] |_, x, y| same(x, y);
    /// Minimum; the other operand if one is a NaN.
    MinNumF "arith.minnumf" [Commutative, Idempotent] |_, x, y| same(x, y);
}

/// Negation: flips the sign, also of a NaN.
#[derive(Op)]
#[op(
    "arith.negf",
    Pure,
    SameType,
    Elementwise,
    Involution,
    results(result),
    fold,
    lower_to_eval
)]
#[asm("$operand (`fastmath` `` body($fastmath)^)? attr-dict `:` type($result)")]
pub struct NegF {
    /// What is negated.
    #[is(FLOAT_LIKE)]
    pub operand: Value,
    /// What may be assumed.
    pub fastmath: Option<FastMath>,
}
impl Fold for NegF {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        if let Some(inner) = op.ir.def::<NegF>(self.operand) {
            return Some(inner.operand.into());
        }
        fold(self, op)
    }
}

/// Comparison of floats.
#[derive(Op)]
#[op(
    "arith.cmpf",
    Pure,
    Elementwise,
    results(result),
    infer,
    fold,
    verify,
    lower_to_eval
)]
#[asm("$predicate `,` $lhs `,` $rhs (`fastmath` `` body($fastmath)^)? attr-dict `:` type($lhs)")]
pub struct CmpF {
    /// How to compare.
    pub predicate: CmpFPredicate,
    /// Left operand.
    #[is(FLOAT_LIKE)]
    pub lhs: Value,
    /// Right operand.
    #[is(FLOAT_LIKE)]
    pub rhs: Value,
    /// What may be assumed.
    pub fastmath: Option<FastMath>,
}
impl Infer for CmpF {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![bool_like(op.ir.ty(self.lhs))])
    }
}
impl Verify for CmpF {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        one_type(op, self.lhs, self.rhs)
    }
}
impl Fold for CmpF {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        fold(self, op)
    }
}
