//! The dialect cf: branches between blocks, as MLIR defines it.
mod eval;
mod ops;

pub use ops::{Assert, Br, CondBr};

tir::dialect! {
    /// Branches between the blocks of a region.
    cf { ops: [Br, CondBr, Assert] }
}
