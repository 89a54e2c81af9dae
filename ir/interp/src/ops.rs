//! Scalar operations: what each computes, for one value and for columns of values.
//!
//! Semantics are those of MLIR's `arith` and `math`. What is undefined there (division by zero,
//! a shift beyond the width, a float that no integer holds) is an error here, or has the defined
//! result that the operation's line says.

use crate::scalar::Kind;
use crate::semantics::{One, dispatch};

/// Integer arithmetic on two values; results are cut to the width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum IntOp {
    Add,
    Sub,
    Mul,
    DivS,
    DivU,
    CeilDivS,
    CeilDivU,
    FloorDivS,
    RemS,
    RemU,
    And,
    Or,
    Xor,
    /// A shift by the width or more is an error.
    Shl,
    /// A shift by the width or more is an error.
    ShrS,
    /// A shift by the width or more is an error.
    ShrU,
    MinS,
    MaxS,
    MinU,
    MaxU,
    /// The high half of a signed product.
    MulHighS,
    /// The high half of an unsigned product.
    MulHighU,
    /// Whether an unsigned sum overflows: 0 or 1.
    CarryU,
    /// A power; a negative exponent gives 0 but for the bases 1 and -1.
    Pow,
}

/// Float arithmetic on two values, rounded to the kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum FloatOp {
    Add,
    Sub,
    Mul,
    Div,
    /// Of the sign of the dividend, as C's `fmod`.
    Rem,
    /// `arith.minimumf`: NaN if either is; -0 is below +0.
    Minimum,
    /// `arith.maximumf`: NaN if either is; -0 is below +0.
    Maximum,
    /// `arith.minnumf`: the other if one is NaN.
    MinNum,
    /// `arith.maxnumf`: the other if one is NaN.
    MaxNum,
    Pow,
    Atan2,
    CopySign,
}

/// Float functions of one value, rounded to the kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum FloatFn {
    Neg,
    Abs,
    Sqrt,
    Rsqrt,
    Cbrt,
    Exp,
    Exp2,
    Expm1,
    Log,
    Log2,
    Log10,
    Log1p,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Erfc,
    Ceil,
    Floor,
    Trunc,
    /// To nearest, ties away from zero.
    Round,
    /// To nearest, ties to even.
    RoundEven,
}

/// Integer functions of one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum IntFn {
    Abs,
    LeadingZeros,
    TrailingZeros,
    Ones,
}

/// Integer orders.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum IntCmp {
    Eq,
    Ne,
    Slt,
    Sle,
    Sgt,
    Sge,
    Ult,
    Ule,
    Ugt,
    Uge,
}

/// Float orders: `O…` is false where one is NaN, `U…` true.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum FloatCmp {
    False,
    Oeq,
    Ogt,
    Oge,
    Olt,
    Ole,
    One,
    Ord,
    Ueq,
    Ugt,
    Uge,
    Ult,
    Ule,
    Une,
    Uno,
    True,
}

/// Conversions between kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum CastOp {
    /// Sign-extends, truncates, or goes to or from `index` by sign.
    IntS,
    /// Zero-extends, truncates, or goes to or from `index` without sign.
    IntU,
    SiToFp,
    UiToFp,
    /// Towards zero; out of range gives the nearest integer there is, NaN gives 0.
    FpToSi,
    /// Towards zero; out of range gives the nearest integer there is, NaN gives 0.
    FpToUi,
    /// Between float kinds, rounded to nearest even.
    Float,
    /// The same bits.
    Bits,
}

/// A scalar operation on up to three registers, with the kind it works on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum ScalarOp {
    Int(IntOp, Kind),
    Float(FloatOp, Kind),
    IntFn(IntFn, Kind),
    FloatFn(FloatFn, Kind),
    CmpInt(IntCmp, Kind),
    CmpFloat(FloatCmp, Kind),
    /// `a ? b : c`, of this kind.
    Select(Kind),
    /// `a · b + c` rounded once.
    Fma(Kind),
    Cast(CastOp, Kind, Kind),
    /// The first, of this kind.
    Copy(Kind),
}

/// What went wrong in a scalar operation.
pub type Trap = &'static str;

impl ScalarOp {
    /// The kind of the result.
    pub fn kind(self) -> Kind {
        match self {
            Self::Int(IntOp::CarryU, _) | Self::CmpInt(..) | Self::CmpFloat(..) => Kind::BOOL,
            Self::Int(_, k) | Self::Float(_, k) | Self::IntFn(_, k) | Self::FloatFn(_, k) => k,
            Self::Select(k) | Self::Fma(k) | Self::Copy(k) | Self::Cast(_, _, k) => k,
        }
    }
    /// The kinds of the operands, as many as there are.
    pub fn inputs(self) -> ([Kind; 3], usize) {
        match self {
            Self::Int(_, k) | Self::CmpInt(_, k) => ([k; 3], 2),
            Self::Float(_, k) | Self::CmpFloat(_, k) => ([k; 3], 2),
            Self::IntFn(_, k) | Self::FloatFn(_, k) | Self::Copy(k) | Self::Cast(_, k, _) => {
                ([k; 3], 1)
            }
            Self::Select(k) => ([Kind::BOOL, k, k], 3),
            Self::Fma(k) => ([k; 3], 3),
        }
    }
    /// Whether it can fail.
    pub fn may_trap(self) -> bool {
        use IntOp::*;
        matches!(
            self,
            Self::Int(
                DivS | DivU | CeilDivS | CeilDivU | FloorDivS | RemS | RemU | Shl | ShrS | ShrU,
                _
            )
        )
    }
    /// The result for three registers, of which it uses as many as it has operands.
    #[inline]
    pub fn apply(self, args: [u64; 3]) -> Result<u64, Trap> {
        dispatch(self, One(args))
    }
}
