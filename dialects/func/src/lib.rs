//! The dialects func and cf: functions, calls, returns, and branches between blocks, as MLIR defines
//! them.
#![forbid(unsafe_code)]

mod asm;
pub mod cf;
mod eval;
mod ops;

pub use ops::{Call, Func, Return, function};

tir::dialect! {
    /// Functions, calls and returns.
    func { ops: [Func, Call, Return] }
}
