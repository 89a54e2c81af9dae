//! The dialect graph: operators on whole tensors.
#![forbid(unsafe_code)]

mod cost;
mod eval;
pub mod fusion;
pub mod layout;
pub mod lowering;
mod number;
mod ops;
pub mod pointwise;
pub mod rules;
pub mod shape;
pub mod winograd;

pub use layout::Layout;
pub use number::{Number, accumulator, bounds};
pub use ops::conv::{Conv2d, Conv2dInteger, Gemm, MatMul, MatMulInteger, ModeProduct};
pub use ops::elementwise::{
    Abs, Add, And, Ceil, Clip, Cos, Div, Equal, Erf, Exp, Floor, Gelu, Greater, GreaterEqual,
    HardSigmoid, HardSwish, LeakyRelu, Less, LessEqual, Log, Max, Min, Mul, Neg, Or, Pow,
    Reciprocal, Relu, Round, Sigmoid, Sin, Sqrt, Sub, Tanh, Xor,
};
pub use ops::layout::Relayout;
pub use ops::movement::{Concat, Expand, Pad, Slice, Split};
pub use ops::normalize::{BatchNorm, LayerNorm, Softmax};
pub use ops::pool::{AvgPool, GlobalAvgPool, MaxPool};
pub use ops::quantize::{Dequantize, Quantize, Requantize};
pub use ops::reduce::{ReduceMax, ReduceMean, ReduceMin, ReduceSum, reduced};
pub use ops::resize::{Coordinates, Resize, ResizeMode, Rounding, Tap};
pub use ops::select::{Cast, Gather, Where};
pub use ops::structure::{Constant, Fused, Yield, materialize};
pub use ops::views::{Reshape, Transpose};
pub use ops::winograd::{WinogradFilter, WinogradInput, WinogradOutput};

tir::dialect! {
    /// Operators on whole tensors, as networks are written.
    graph {
        ops: [
            Clip, LeakyRelu, Sigmoid, HardSigmoid, HardSwish, Gelu, Reciprocal, Neg, Abs, Exp, Log,
            Sqrt, Sin, Cos, Tanh, Erf, Floor, Ceil, Round, Max, Min, Pow, Equal, Less, LessEqual,
            Greater, GreaterEqual, And, Or, Xor, BatchNorm, Softmax, LayerNorm, ReduceSum,
            ReduceMean, ReduceMax, ReduceMin,
            Constant, Conv2d, MatMul, ModeProduct, Gemm, Relu, Add, Sub, Mul, Div, MaxPool, AvgPool,
            GlobalAvgPool, Reshape, Transpose, Fused, Yield, Relayout,
            Concat, Split, Slice, Pad, Expand, Gather, Where, Cast, Resize,
            Conv2dInteger, MatMulInteger, Quantize, Dequantize, Requantize,
            WinogradFilter, WinogradInput, WinogradOutput,
        ],
        attrs: [Layout],
        constant: materialize,
        patterns: rules::register,
    }
}
