//! Reductions over dimensions.

use tir::constraints::{FLOAT_TENSOR, NUMBER_TENSOR};
use tir::{Failure, Fold, Folds, Infer, Op, OpRef, Type, Value};

use crate::fusion::{Fusable, FusionKind};
use crate::shape::tensor;

/// Which dimensions of `rank` are reduced; a failure unless the axes are in ascending order.
pub fn reduced(axes: &[i64], rank: usize) -> Result<Vec<bool>, Failure> {
    let mut reduced = vec![false; rank];
    let mut last = -1;
    for axis in axes {
        let place = usize::try_from(*axis).ok().and_then(|d| reduced.get_mut(d));
        match place {
            Some(place) if *axis > last => *place = true,
            _ => {
                return Err(format!(
                    "has axes {axes:?} for rank {rank}, expected ascending dimensions"
                )
                .into());
            }
        }
        last = *axis;
    }
    Ok(reduced)
}

macro_rules! reduce {
    ($($(#[$doc:meta])* $name:ident $text:literal $elems:ident adds: $adds:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, StrictAttributes, Pure, results(y), infer, fold, evaluate, crate::fusion::fusion)]
        #[asm("$x $axes attr-dict `:` functional-type(operands, results)")]
        pub struct $name {
            /// Input.
            #[is($elems)]
            pub x: Value,
            /// The dimensions that are reduced, in ascending order.
            pub axes: Vec<i64>,
            /// Whether they stay, with size 1.
            #[default(true)]
            pub keepdims: bool,
        }
        impl Infer for $name {
            fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
                let (shape, elem) = tensor(op, self.x, "x")?;
                let reduced = reduced(&self.axes, shape.len())?;
                let sizes = shape.into_iter().zip(reduced);
                let kept = sizes.filter_map(|(size, reduced)| match (reduced, self.keepdims) {
                    (false, _) => Some(size),
                    (true, true) => Some(1),
                    (true, false) => None,
                });
                Ok(vec![Type::tensor(kept.collect::<Vec<i64>>(), elem)])
            }
        }
        impl Fold for $name {
            fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
                // Of single elements, and without axes, each is its own result; but a sum makes 0 of -0, so that
                // of floats it is a rule, which has a class.
                let (result, ty) = (op.ir.results(op.id).next()?, op.ir.ty(self.x));
                let same = ty == op.ir.ty(result) && !($adds && ty.elem().is_float());
                same.then(|| self.x.into())
            }
        }
        impl Fusable for $name {
            const KIND: FusionKind = FusionKind::Reduction;
        }
    )*};
}

reduce! {
    /// Sum over dimensions.
    ReduceSum "graph.reduce_sum" NUMBER_TENSOR adds: true;
    /// Mean over dimensions.
    ReduceMean "graph.reduce_mean" FLOAT_TENSOR adds: true;
    /// Largest element over dimensions, NaN if one is.
    ReduceMax "graph.reduce_max" NUMBER_TENSOR adds: false;
    /// Smallest element over dimensions, NaN if one is.
    ReduceMin "graph.reduce_min" NUMBER_TENSOR adds: false;
}
