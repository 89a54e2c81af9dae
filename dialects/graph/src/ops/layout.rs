//! Changing how a tensor is stored.

use tir::constraints::TENSOR;
use tir::{Attr, BlobAttr, DenseElements, Failure, Fold, Folds, Op, OpRef, Ret, Value, Verify};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::Layout;

/// The same tensor, stored in another layout: shape and elements stay.
#[derive(Op)]
#[op("graph.relayout", Pure, fold, verify, evaluate, crate::fusion::fusion)]
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
        // The text and the file hold elements in logical order; lowering stores them.
        let value = op.ir.constant(self.x)?;
        if let Some(dense) = value.get::<DenseElements>() {
            let data = dense.data.clone();
            return Some(Attr::new(DenseElements { ty: to, data }).into());
        }
        let blob = value.get::<BlobAttr>()?.clone();
        Some(Attr::new(BlobAttr { ty: to, ..blob }).into())
    }
}
impl Fusable for Relayout {
    const KIND: FusionKind = FusionKind::Injective;
}
