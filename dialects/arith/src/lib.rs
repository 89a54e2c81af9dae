//! The dialect arith: arithmetic on integers, indices and floats, as MLIR defines it.
#![forbid(unsafe_code)]

mod attrs;
mod eval;
mod fold;
mod fold_result;
mod ops;

pub use attrs::{CmpFPredicate, CmpIPredicate, FastMath, Overflow, RoundingMode};
pub use eval::kind;
pub use fold::{ScalarLike, fold};
pub use fold_result::{OpFoldResult, dispatch_values, mixed_values};
pub use ops::cast::*;
pub use ops::constant::{Constant, constant_float, constant_index, constant_int, materialize};
pub use ops::float::*;
pub use ops::int::*;

tir::dialect! {
    /// Arithmetic on integers, indices and floats. Integers wrap; floats round to their type.
    arith {
        ops: [
            Constant,
            AddI, AddUIExtended, SubI, MulI, DivSI, DivUI, CeilDivSI, CeilDivUI, FloorDivSI, RemSI, RemUI, AndI, OrI, XOrI,
            ShLI, ShRSI, ShRUI, MaxSI, MaxUI, MinSI, MinUI, CmpI, Select,
            AddF, SubF, MulF, DivF, RemF, MaximumF, MinimumF, MaxNumF, MinNumF, NegF, CmpF,
            IndexCast, IndexCastUI, ExtSI, ExtUI, TruncI, ExtF, TruncF, SIToFP, UIToFP, FPToSI,
            FPToUI, Bitcast,
        ],
        attrs: [FastMath, Overflow],
        constant: materialize,
    }
}
