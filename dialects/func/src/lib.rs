//! The dialect func: functions, calls, returns, as MLIR defines it.
#![forbid(unsafe_code)]

mod asm;
mod eval;
mod ops;

pub use ops::{Call, Func, Return, function};

tir::dialect! {
    /// Functions, calls and returns.
    func { ops: [Func, Call, Return] }
}
