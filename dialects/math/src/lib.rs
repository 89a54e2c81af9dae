//! The dialect math: elementary functions of floats and integers, as MLIR defines it.
#![forbid(unsafe_code)]

mod approximate;
mod eval;
mod ops;

pub use approximate::{Approximate, Approximation, Code, approximation};
pub use ops::*;

tir::dialect! {
    /// Elementary functions of floats and integers.
    math {
        ops: [
            Exp, Exp2, Log, Log1p, Sqrt, Rsqrt, Tanh, Erf, Sin, Cos, AbsF, AbsI, Floor, Ceil, RoundEven,
            PowF, Fma,
        ],
        constant: tir_arith::materialize,
    }
}
