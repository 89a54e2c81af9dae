//! Elementwise operators.

use tir::constraints::TENSOR;
use tir::{Failure, Infer, Op, OpRef, Type, Value};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::{Keeps, LayoutRule};
use crate::shape::{broadcast, tensor};

/// `max(x, 0)` of each element.
#[derive(Op)]
#[op(
    "graph.relu",
    Pure,
    SameType,
    Elementwise,
    Idempotent,
    results(y),
    evaluate,
    crate::fusion::fusion
)]
#[asm("$x attr-dict `:` type($y)")]
pub struct Relu {
    /// Input.
    #[is(TENSOR)]
    pub x: Value,
}
impl Fusable for Relu {
    const KIND: FusionKind = FusionKind::Injective;
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $text:literal [$($traits:ident),*];)*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, Pure, Elementwise, $($traits,)* results(result), crate::layout::infer, evaluate, crate::fusion::fusion, crate::layout::layouts)]
        #[asm("$x `,` $y attr-dict `:` functional-type(operands, results)")]
        pub struct $name {
            /// Left operand.
            #[is(TENSOR)]
            pub x: Value,
            /// Right operand.
            #[is(TENSOR)]
            pub y: Value,
        }
        impl Infer for $name {
            fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
                let (x, elem) = tensor(op, self.x, "x")?;
                let (y, y_elem) = tensor(op, self.y, "y")?;
                if elem != y_elem {
                    return Err(format!("has operands of {elem} and {y_elem}").into());
                }
                Ok(vec![Type::tensor(broadcast(&x, &y)?, elem)])
            }
        }
        impl Fusable for $name {
            const KIND: FusionKind = FusionKind::Injective;
        }
        impl LayoutRule for $name {
            const KEEPS: Keeps = Keeps::Broadcast;
        }
    )*};
}

binary! {
    /// Sum of each pair of elements; shapes broadcast.
    Add "graph.add" [Commutative];
    /// Difference of each pair of elements; shapes broadcast.
    Sub "graph.sub" [];
    /// Product of each pair of elements; shapes broadcast.
    Mul "graph.mul" [Commutative];
    /// Quotient of each pair of elements; shapes broadcast.
    Div "graph.div" [];
}
