//! The dialect cf: branches between blocks, as MLIR defines it.
mod eval;
mod ops;
mod switch;

pub use ops::{Assert, Br, CondBr};
pub use switch::{Cases, Switch};

tir::dialect! {
    /// Branches between the blocks of a region.
    cf { ops: [Br, CondBr, Switch, Assert] }
}
