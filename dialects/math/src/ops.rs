//! The ops of math.

use tir::constraints::FLOAT_LIKE;
use tir::{Attr, FloatType, Fold, Folds, Op, OpRef, Value, float_bits, float_value};
use tir_arith::FastMath;

fn rounded(op: OpRef<'_>, x: Value, value: f64) -> Option<Folds> {
    let ty = op.ir.ty(x);
    let format = *ty.get::<FloatType>()?;
    Some(Attr::float(float_value(float_bits(value, format), format), ty).into())
}

/// The error function, to about one unit in the last place of a double (W. J. Cody, "Rational
/// Chebyshev approximations for the error function", 1969, by way of `libm`).
pub fn erf(x: f64) -> f64 {
    libm::erf(x)
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $text:literal $compute:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, Pure, SameType, Elementwise, results(result), fold, lower_to_eval)]
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
                let value = op.ir.constant(self.operand)?.as_float()?;
                rounded(op, self.operand, Self::compute(value))
            }
        }
        impl $name {
            /// Without flags.
            pub fn new(operand: Value) -> Self {
                Self { operand, fastmath: None }
            }
            /// The function, computed in f64.
            pub fn compute(x: f64) -> f64 {
                let compute: fn(f64) -> f64 = $compute;
                compute(x)
            }
        }
    )*};
}

unary! {
    /// e to the power of the operand.
    Exp "math.exp" libm::exp;
    /// 2 to the power of the operand.
    Exp2 "math.exp2" libm::exp2;
    /// Natural logarithm.
    Log "math.log" libm::log;
    /// Square root.
    Sqrt "math.sqrt" f64::sqrt;
    /// Reciprocal of the square root.
    Rsqrt "math.rsqrt" |x| 1.0 / x.sqrt();
    /// Hyperbolic tangent.
    Tanh "math.tanh" libm::tanh;
    /// Error function.
    Erf "math.erf" erf;
    /// Sine of radians.
    Sin "math.sin" libm::sin;
    /// Cosine of radians.
    Cos "math.cos" libm::cos;
    /// Absolute value.
    AbsF "math.absf" f64::abs;
    /// Largest whole number not above.
    Floor "math.floor" f64::floor;
    /// Smallest whole number not below.
    Ceil "math.ceil" f64::ceil;
    /// Nearest whole number, ties to even.
    RoundEven "math.roundeven" f64::round_ties_even;
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
        let base = op.ir.constant(self.lhs)?.as_float()?;
        let exponent = op.ir.constant(self.rhs)?.as_float()?;
        rounded(op, self.lhs, libm::pow(base, exponent))
    }
}
