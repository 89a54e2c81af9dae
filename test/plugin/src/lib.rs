//! A dialect from outside: fixed-point numbers.
//!
//! A value of `!fixed.point<8, 4>` is an integer of 8 bits that stands for itself divided by 2^4.
//! Tensors of floats are rounded to such numbers, multiplied exactly, and made floats again. The
//! crate is what a user writes: it depends on the façade and on dialects, and adds a type, ops,
//! rules, a lowering and drivers without a change of what it builds on.
#![forbid(unsafe_code)]

mod buffers;
mod control;
mod eval;
mod lower;
mod ops;
mod point;
mod rules;

pub use buffers::{Either, Fresh, Half, Release, Send, Wrap};
pub use control::{Fork, Next, Repeat};
pub use lower::FixedToTensor;
pub use ops::{Dequantize, MatMul, Quantize};
pub use point::Point;

use tir::PassInfo;

tir::dialect! {
    /// Fixed-point numbers: integers that stand for themselves divided by a power of two.
    fixed {
        ops: [
            Quantize, Dequantize, MatMul, Half, Either, Release, Fresh, Send, Wrap, Repeat, Fork, Next,
        ],
        types: [Point],
        rules: rules::RULES,
        patterns: rules::functions,
        load: || {
            // Where pipelines turn graph ops into index expressions, ours are turned too.
            tir_graph::lowering::register(&DIALECT, |p| {
                p.add(FixedToTensor::default());
            });
        },
    }
}

/// The passes of this crate.
pub fn passes() -> Vec<PassInfo> {
    vec![PassInfo::of::<FixedToTensor>()]
}
