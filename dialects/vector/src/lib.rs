//! The dialect vector: rows of elements as values, as MLIR's dialect of this name has them. Ops of arith and math compute
//! on them, element by element; loops carry them.
#![forbid(unsafe_code)]

mod eval;
mod ops;

pub use ops::{
    Broadcast, CreateMask, Dot, Interleave, Load, MaskedLoad, MaskedStore, Shuffle, Store, of,
};

tir::dialect! {
    /// Rows of elements as values: what registers of a processor hold.
    vector {
        ops: [
            Load, Store, MaskedLoad, MaskedStore, Broadcast, CreateMask, Shuffle, Interleave, Dot,
        ]
    }
}
