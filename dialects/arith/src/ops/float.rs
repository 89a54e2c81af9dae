//! Float arithmetic and comparison.

use tir::constraints::FLOAT_LIKE;
use tir::{Attr, Failure, Fold, Folds, Infer, Op, OpRef, Type, Value, Verify};

use crate::attrs::{CmpFPredicate, FastMath};
use crate::fold::{float, fold_float, is_float, same};
use crate::ops::int::{bool_like, one_type};

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $text:literal [$($traits:ident),*]
        $compute:expr, $identity:expr;)*) => {$(
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
                fold_float(op, self.lhs, self.rhs, $compute).or_else(|| identity(op, self.lhs, self.rhs))
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

/// The larger one; a NaN if one is, and +0 above -0.
pub fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_positive() { a } else { b }
    } else {
        a.max(b)
    }
}
/// The smaller one; a NaN if one is, and -0 below +0.
pub fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_negative() { a } else { b }
    } else {
        a.min(b)
    }
}

binary! {
    /// Sum.
    AddF "arith.addf" [Commutative] |a, b| a + b, |op, x, y| right(op, x, y, -0.0);
    /// Difference.
    SubF "arith.subf" [] |a, b| a - b, |op, x, y| right(op, x, y, 0.0);
    /// Product.
    MulF "arith.mulf" [Commutative] |a, b| a * b, |op, x, y| right(op, x, y, 1.0);
    /// Quotient.
    DivF "arith.divf" [] |a, b| a / b, |op, x, y| right(op, x, y, 1.0);
    /// Remainder of the division rounded to zero.
    RemF "arith.remf" [] |a, b| a % b, |_, _, _| None;
    /// Maximum; a NaN if one operand is.
    MaximumF "arith.maximumf" [Commutative, Idempotent] maximum, |_, x, y| same(x, y);
    /// Minimum; a NaN if one operand is.
    MinimumF "arith.minimumf" [Commutative, Idempotent] minimum, |_, x, y| same(x, y);
    /// Maximum; the other operand if one is a NaN.
    MaxNumF "arith.maxnumf" [Commutative, Idempotent] f64::max, |_, x, y| same(x, y);
    /// Minimum; the other operand if one is a NaN.
    MinNumF "arith.minnumf" [Commutative, Idempotent] f64::min, |_, x, y| same(x, y);
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
        Some(Attr::float(-float(op, self.operand)?, op.ir.ty(self.operand)).into())
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
impl CmpFPredicate {
    /// Whether it holds between two numbers.
    pub fn holds(self, a: f64, b: f64) -> bool {
        let unordered = a.is_nan() || b.is_nan();
        match self {
            Self::False => false,
            Self::Oeq => a == b,
            Self::Ogt => a > b,
            Self::Oge => a >= b,
            Self::Olt => a < b,
            Self::Ole => a <= b,
            Self::One => !unordered && a != b,
            Self::Ord => !unordered,
            Self::Ueq => unordered || a == b,
            Self::Ugt => unordered || a > b,
            Self::Uge => unordered || a >= b,
            Self::Ult => unordered || a < b,
            Self::Ule => unordered || a <= b,
            Self::Une => a != b,
            Self::Uno => unordered,
            Self::True => true,
        }
    }
}
impl Fold for CmpF {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        let (a, b) = (float(op, self.lhs)?, float(op, self.rhs)?);
        Some(Attr::bool(self.predicate.holds(a, b)).into())
    }
}
