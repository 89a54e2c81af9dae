//! The ops of the chapter on the language: one for each thing that a record can say.

mod band;
mod buffers;
mod flops;
mod ops;

pub use band::Band;
pub use buffers::Accumulate;
pub use flops::{CountFlops, HasFlops, flops};
pub use ops::*;

// ANCHOR: dialect
tir::dialect! {
    /// One op for each thing that an op can be made of.
    demo {
        ops: [
            Scale, Zip, Table, Lookup, Repeat, Done, Number, SumOf, Kernel, Task, Branch, Limit,
            Accumulate,
        ],
        attrs: [Band],
        constant: materialize,
        load: buffers::attach,
    }
}

/// The passes of the dialect.
pub fn passes() -> Vec<tir::PassInfo> {
    vec![tir::PassInfo::of::<CountFlops>()]
}
// ANCHOR_END: dialect
