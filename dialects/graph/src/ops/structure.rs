//! Constants, and groups that run as one.

use tir::{
    Attr, BlobAttr, Builder, DenseElements, Failure, Fold, Folds, Infer, Op, OpRef, RegionId, Rets,
    Type, Value, Verify,
};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::Layout;

/// A constant tensor: elements in the text, or in a file beside it.
#[derive(Op)]
#[op(
    "graph.constant",
    StrictAttributes,
    Pure,
    ConstantLike,
    results(result),
    infer,
    fold,
    evaluate,
    crate::fusion::fusion
)]
#[asm("attr-dict $value")]
pub struct Constant {
    /// `dense<…>` or `#tir.blob<…>`.
    pub value: Attr,
}
impl Infer for Constant {
    fn infer(&self, _: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        if !self.value.is::<DenseElements>() && !self.value.is::<BlobAttr>() {
            return Err(format!("expects elements, found {}", self.value).into());
        }
        let ty = self.value.type_of();
        if let Some((layout, ty)) = ty.and_then(|ty| Some((Layout::of(ty)?, ty))) {
            layout.check(ty)?;
        }
        Ok(ty.into_iter().collect())
    }
}
impl Fold for Constant {
    fn fold(&self, _: OpRef<'_>) -> Option<Folds> {
        Some(self.value.into())
    }
}
impl Fusable for Constant {
    const KIND: FusionKind = FusionKind::Opaque;
}

/// The constant of these elements.
pub fn materialize(b: &mut Builder<'_>, value: Attr, ty: Type) -> Option<Value> {
    let elements = value.is::<DenseElements>() || value.is::<BlobAttr>();
    let fits = elements && value.type_of() == Some(ty);
    fits.then(|| b.add(Constant { value }))
}

/// A group of ops that runs as one loop nest, without buffers between them. The region may use
/// values from outside.
#[derive(Op)]
#[op(
    "graph.fused",
    StrictAttributes,
    Pure,
    SingleBlock,
    terminator(Yield),
    verify,
    lower_to_eval
)]
#[asm("$body attr-dict `:` type($results)")]
pub struct Fused {
    /// The ops; ends in `graph.yield`.
    pub body: RegionId,
    /// What the region yields.
    pub results: Rets,
}
impl Verify for Fused {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let block = op.ir.entry(self.body);
        let Some(last) = block.and_then(|block| op.ir.last(block)) else {
            return Err("has an empty region".into());
        };
        let Some(end) = op.ir.get::<Yield>(last) else {
            return Err("has a region that does not end in graph.yield".into());
        };
        let yielded: Vec<Type> = end.values.iter().map(|v| op.ir.ty(*v)).collect();
        if yielded != self.results.0 {
            let (found, wanted) = (
                Type::function([], yielded),
                Type::function([], self.results.0.clone()),
            );
            return Err(format!("yields {found}, expected {wanted}").into());
        }
        Ok(())
    }
}

/// Ends a group: its operands are the results of the group.
#[derive(Op)]
#[op(
    "graph.yield",
    StrictAttributes,
    Terminator,
    Pure,
    ReturnLike,
    parent(Fused)
)]
#[asm("attr-dict ($values^ `:` type($values))?")]
pub struct Yield {
    /// The results.
    pub values: Vec<Value>,
}
