//! The ops of math.

use tir::constraints::{FLOAT_LIKE, INT_LIKE};
use tir::{Fold, Folds, Op, OpRef, Value};
use tir_arith::{FastMath, fold};

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $text:literal $(, $hook:path)?;)*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, Pure, SameType, Elementwise, results(result), fold, lower_to_eval $(, $hook)?)]
        #[asm("$operand (`fastmath` `` body($fastmath)^)? attr-dict `:` type($result)")]
        pub struct $name {
            /// What it is applied to.
            #[is(FLOAT_LIKE)]
            pub operand: Value,
            /// What may be assumed.
            pub fastmath: Option<FastMath>,
        }
        impl Fold for $name {
            fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
                fold(self, op)
            }
        }
        impl $name {
            /// Without flags.
            pub fn new(operand: Value) -> Self {
                Self { operand, fastmath: None }
            }
        }
    )*};
}

unary! {
    /// e to the power of the operand.
    Exp "math.exp", crate::approximation;
    /// 2 to the power of the operand.
    Exp2 "math.exp2", crate::approximation;
    /// Natural logarithm.
    Log "math.log", crate::approximation;
    /// Natural logarithm of one more than the operand, exact near 0.
    Log1p "math.log1p", crate::approximation;
    /// Square root.
    Sqrt "math.sqrt";
    /// Reciprocal of the square root.
    Rsqrt "math.rsqrt";
    /// Hyperbolic tangent.
    Tanh "math.tanh", crate::approximation;
    /// Error function.
    Erf "math.erf", crate::approximation;
    /// Sine of radians.
    Sin "math.sin";
    /// Cosine of radians.
    Cos "math.cos";
    /// Absolute value.
    AbsF "math.absf";
    /// Largest whole number not above.
    Floor "math.floor";
    /// Smallest whole number not below.
    Ceil "math.ceil";
    /// Nearest whole number, ties to even.
    RoundEven "math.roundeven";
}

/// Absolute value of a signed integer; of the least one itself.
#[derive(Op)]
#[op(
    "math.absi",
    Pure,
    SameType,
    Elementwise,
    results(result),
    fold,
    lower_to_eval
)]
#[asm("$operand attr-dict `:` type($result)")]
pub struct AbsI {
    /// What it is applied to.
    #[is(INT_LIKE)]
    pub operand: Value,
}
impl Fold for AbsI {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        fold(self, op)
    }
}

/// The left operand to the power of the right one.
#[derive(Op)]
#[op(
    "math.powf",
    Pure,
    SameType,
    Elementwise,
    results(result),
    fold,
    lower_to_eval
)]
#[asm("$lhs `,` $rhs (`fastmath` `` body($fastmath)^)? attr-dict `:` type($result)")]
pub struct PowF {
    /// Base.
    #[is(FLOAT_LIKE)]
    pub lhs: Value,
    /// Exponent.
    #[is(FLOAT_LIKE)]
    pub rhs: Value,
    /// What may be assumed.
    pub fastmath: Option<FastMath>,
}
impl Fold for PowF {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        fold(self, op)
    }
}

/// `a · b + c`, rounded once.
#[derive(Op)]
#[op(
    "math.fma",
    Pure,
    SameType,
    Elementwise,
    results(result),
    fold,
    lower_to_eval
)]
#[asm("$a `,` $b `,` $c (`fastmath` `` body($fastmath)^)? attr-dict `:` type($result)")]
pub struct Fma {
    /// First factor.
    #[is(FLOAT_LIKE)]
    pub a: Value,
    /// Second factor.
    #[is(FLOAT_LIKE)]
    pub b: Value,
    /// Addend.
    #[is(FLOAT_LIKE)]
    pub c: Value,
    /// What may be assumed.
    pub fastmath: Option<FastMath>,
}
impl Fold for Fma {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        fold(self, op)
    }
}
