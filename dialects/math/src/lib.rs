//! The dialect math: elementary functions of floats, as MLIR defines it.
#![forbid(unsafe_code)]

mod eval;
mod ops;

pub use ops::*;

tir::dialect! {
    /// Elementary functions of floats.
    math {
        ops: [Exp, Exp2, Log, Sqrt, Rsqrt, Tanh, Erf, Sin, Cos, AbsF, Floor, Ceil, RoundEven, PowF],
        constant: tir_arith::materialize,
    }
}
