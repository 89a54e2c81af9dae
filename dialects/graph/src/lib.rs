//! The dialect graph: operators on whole tensors.
#![forbid(unsafe_code)]

mod eval;
pub mod fusion;
pub mod layout;
mod ops;
pub mod shape;

pub use layout::Layout;
pub use ops::conv::{Conv2d, Gemm, MatMul};
pub use ops::elementwise::{Add, Div, Mul, Relu, Sub};
pub use ops::layout::Relayout;
pub use ops::pool::{AvgPool, GlobalAvgPool, MaxPool};
pub use ops::structure::{Constant, Fused, Yield, materialize};
pub use ops::views::{Reshape, Transpose};

tir::dialect! {
    /// Operators on whole tensors, as networks are written.
    graph {
        ops: [
            Constant, Conv2d, MatMul, Gemm, Relu, Add, Sub, Mul, Div, MaxPool, AvgPool,
            GlobalAvgPool, Reshape, Transpose, Fused, Yield, Relayout,
        ],
        attrs: [Layout],
        constant: materialize,
    }
}
