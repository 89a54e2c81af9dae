//! Changing how a tensor is stored.

use tir::constraints::TENSOR;
use tir::{Failure, Fold, Folds, Op, OpRef, Ret, Value, Verify};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::{Layout, retyped};

/// The same tensor, stored in another layout: shape and elements stay. After a convolution or
/// product it is fused into the write of the result.
#[derive(Op)]
#[op(
    "graph.relayout",
    StrictAttributes,
    Pure,
    Elementwise,
    fold,
    verify,
    evaluate,
    crate::fusion::fusion
)]
#[asm("$x attr-dict `:` type($x) `to` type($y)")]
pub struct Relayout {
    /// Input.
    #[is(TENSOR)]
    pub x: Value,
    /// Type of the result.
    #[is(TENSOR)]
    pub y: Ret,
}
impl Verify for Relayout {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (from, to) = (op.ir.ty(self.x), self.y.0);
        if Layout::on(None, from) != Layout::on(None, to) || from.elements().is_none() {
            return Err(format!("makes {to} of {from}, expected the same static shape").into());
        }
        for ty in [from, to] {
            Layout::of(ty).map_or(Ok(()), |layout| layout.check(ty))?;
        }
        Ok(())
    }
}
impl Fold for Relayout {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        let to = self.y.0;
        if op.ir.ty(self.x) == to {
            return Some(self.x.into());
        }
        if let Some(inner) = op.ir.def::<Relayout>(self.x)
            && op.ir.ty(inner.x) == to
        {
            return Some(inner.x.into());
        }
        Some(retyped(op.ir.constant(self.x)?, to)?.into())
    }
}
impl Fusable for Relayout {
    const KIND: FusionKind = FusionKind::Injective;
}
