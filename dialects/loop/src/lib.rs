//! The dialect loop: structured loops and conditions.
#![forbid(unsafe_code)]

mod asm;
mod eval;
mod ops;

pub use ops::{Bounds, For, If, RANGE, THROUGH, Yield};

tir::dialect! {
    /// Structured loops and conditions.
    r#loop { ops: [For, If, Yield] }
}
