//! Pooling.

use tir::constraints::{FLOAT_TENSOR, NUMBER_TENSOR};
use tir::{Failure, Infer, Op, OpRef, Type, Value};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::{Keeps, Layout, LayoutRule, windows_in};
use crate::shape::{Window, ranked, windows};

macro_rules! pool {
    ($($(#[$doc:meta])* $name:ident $text:literal $elems:ident { $($(#[$field_meta:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, StrictAttributes, Pure, results(y), crate::layout::infer, evaluate, crate::fusion::fusion, crate::layout::layouts, cost)]
        #[asm("$x attr-dict `:` functional-type(operands, results)")]
        pub struct $name {
            /// Input, N x C x H x W.
            #[is($elems)]
            pub x: Value,
            /// Size of a window: vertical, horizontal.
            pub kernel: Vec<i64>,
            /// Distance of windows: vertical, horizontal.
            #[default(vec![1, 1])]
            pub strides: Vec<i64>,
            /// Padding around the input: top, left, bottom, right.
            #[default(vec![0, 0, 0, 0])]
            pub pads: Vec<i64>,
            /// Distance of window elements: vertical, horizontal.
            #[default(vec![1, 1])]
            pub dilations: Vec<i64>,
            /// Whether a last window may reach beyond the padding.
            #[default(false)]
            pub ceil_mode: bool,
            $($(#[$field_meta])* pub $field: $ty,)*
        }
        impl $name {
            /// The vertical and horizontal window.
            pub fn windows(&self, op: OpRef<'_>) -> Result<[Window; 2], Failure> {
                let ([_, _, h, w], _) = ranked(op, self.x, "x")?;
                windows([h, w], &self.kernel, &self.strides, &self.pads, &self.dilations, self.ceil_mode)
            }
        }
        impl Infer for $name {
            fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
                let ([n, c, ..], elem) = ranked::<4>(op, self.x, "x")?;
                let [vertical, horizontal] = self.windows(op)?;
                Ok(vec![Type::tensor([n, c, vertical.output()?, horizontal.output()?], elem)])
            }
        }
        impl Fusable for $name {
            const KIND: FusionKind = FusionKind::Reduction;
            fn pads(&self) -> bool {
                self.ceil_mode || self.pads.iter().any(|n| *n > 0)
            }
        }
        impl LayoutRule for $name {
            const KEEPS: Keeps = Keeps::First;
            fn admits(&self, _: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
                windows_in(layout)
            }
        }
    )*};
}

pool! {
    /// Largest element of each window; padding does not count.
    MaxPool "graph.max_pool" NUMBER_TENSOR {}
    /// Mean of each window.
    AvgPool "graph.avg_pool" FLOAT_TENSOR {
        /// Whether padding counts as zeros; else a window is divided by its elements inside.
        #[default(false)]
        count_include_pad: bool,
    }
}

/// Mean over all dimensions but the first two, which become 1.
#[derive(Op)]
#[op(
    "graph.global_avg_pool",
    StrictAttributes,
    Pure,
    results(y),
    crate::layout::infer,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts,
    cost
)]
#[asm("$x attr-dict `:` functional-type(operands, results)")]
pub struct GlobalAvgPool {
    /// Input, N x C x H x W.
    #[is(FLOAT_TENSOR)]
    pub x: Value,
}
impl Infer for GlobalAvgPool {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let ([n, c, ..], elem) = ranked::<4>(op, self.x, "x")?;
        Ok(vec![Type::tensor([n, c, 1, 1], elem)])
    }
}
impl Fusable for GlobalAvgPool {
    const KIND: FusionKind = FusionKind::Reduction;
}
impl LayoutRule for GlobalAvgPool {
    const KEEPS: Keeps = Keeps::First;
    fn admits(&self, _: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
        windows_in(layout)
    }
}
