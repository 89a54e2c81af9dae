//! The same elements in another shape or order.

use tir::constraints::TENSOR;
use tir::{Failure, Fold, Folds, Infer, Op, OpRef, Ret, Type, Value, Verify};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::{Keeps, Layout, LayoutRule};
use crate::shape::tensor;

/// The same elements in row-major order as another shape.
#[derive(Op)]
#[op(
    "graph.reshape",
    StrictAttributes,
    Pure,
    fold,
    verify,
    evaluate,
    crate::fusion::fusion,
    cost
)]
#[asm("$x attr-dict `:` type($x) `to` type($y)")]
pub struct Reshape {
    /// Input.
    #[is(TENSOR)]
    pub x: Value,
    /// Type of the result.
    #[is(TENSOR)]
    pub y: Ret,
}
impl Verify for Reshape {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (from, to) = (op.ir.ty(self.x), self.y.0);
        if from.elements() != to.elements() || from.elem() != to.elem() {
            return Err(format!("makes {to} of {from}").into());
        }
        if let Some(layout) = Layout::of(from).or(Layout::of(to)) {
            return Err(format!("takes and makes plain tensors, found {layout}").into());
        }
        Ok(())
    }
}
impl Fold for Reshape {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        (op.ir.ty(self.x) == self.y.0).then(|| self.x.into())
    }
}
impl Fusable for Reshape {
    const KIND: FusionKind = FusionKind::Opaque;
}

/// Dimensions in another order: dimension `i` of the result is dimension `perm[i]` of the input.
///
/// Between plain tensors elements move. If one of them is stored in a layout, the result is the
/// same memory with its dimensions renamed: an image that comes as N x H x W x C is one of
/// N x C x H x W stored as NHWC.
#[derive(Op)]
#[op(
    "graph.transpose",
    StrictAttributes,
    Pure,
    results(y),
    crate::layout::infer,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts,
    cost
)]
#[asm("$x $perm attr-dict `:` functional-type(operands, results)")]
pub struct Transpose {
    /// Input.
    #[is(TENSOR)]
    pub x: Value,
    /// The order.
    pub perm: Vec<i64>,
}
impl Infer for Transpose {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (shape, elem) = tensor(op, self.x, "x")?;
        let mut sorted = self.perm.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..shape.len() as i64) {
            let rank = shape.len();
            return Err(format!("has order {:?} for rank {rank}", self.perm).into());
        }
        let shape: Vec<i64> = self.perm.iter().map(|d| shape[*d as usize]).collect();
        Ok(vec![Type::tensor(shape, elem)])
    }
}
impl Fusable for Transpose {
    const KIND: FusionKind = FusionKind::Injective;
}
impl LayoutRule for Transpose {
    const KEEPS: Keeps = Keeps::Order;

    fn order(&self) -> Vec<usize> {
        let dims = self.perm.iter().map(|d| usize::try_from(*d));
        dims.collect::<Result<_, _>>().unwrap_or_default()
    }
}
