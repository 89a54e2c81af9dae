//! Elements chosen by other tensors, and elements of another type.

use tir::constraints::{INT_TENSOR, NUMBER_TENSOR, TENSOR};
use tir::{
    Constraint, Failure, Fold, Folds, Infer, Op, OpRef, Ret, TensorType, Type, Value, Verify,
};

use crate::fusion::{Fusable, FusionKind};
use crate::shape::{axis, broadcast, tensor};

/// Slices of `x` along one dimension, by their numbers: the shape of the result is that of `x`
/// with the dimension replaced by the shape of `indices`.
///
/// A negative number counts from the end. Numbers outside of the dimension are an error when the
/// program runs at this level; below, the nearest slice is taken.
///
/// Opaque to fusion: which element is read depends on data.
#[derive(Op)]
#[op(
    "graph.gather",
    StrictAttributes,
    Pure,
    MayStop,
    results(y),
    infer,
    evaluate,
    crate::fusion::fusion,
    cost
)]
#[asm("$x `at` $indices attr-dict `:` functional-type(operands, results)")]
pub struct Gather {
    /// What is chosen from.
    #[is(NUMBER_TENSOR)]
    pub x: Value,
    /// The numbers.
    #[is(INT_TENSOR)]
    pub indices: Value,
    /// The dimension of `x`, counted from the first.
    #[default(0)]
    pub axis: i64,
}
impl Infer for Gather {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (mut shape, elem) = tensor(op, self.x, "x")?;
        let (indices, index) = tensor(op, self.indices, "indices")?;
        if !index.is_int() || index == Type::int(1) {
            return Err(format!("has indices of {index}, expected integers").into());
        }
        let at = axis(self.axis, shape.len())?;
        shape.splice(at..=at, indices);
        Ok(vec![Type::tensor(shape, elem)])
    }
}
impl Fusable for Gather {
    const KIND: FusionKind = FusionKind::Opaque;
}

static TRUTH: Constraint = Constraint::new("a tensor of i1", |ty| {
    ty.is::<TensorType>() && ty.elem() == Type::int(1)
});

/// Elements of `x` where `condition` is true, else those of `y`; shapes broadcast.
#[derive(Op)]
#[op(
    "graph.where",
    StrictAttributes,
    Pure,
    Elementwise,
    results(result),
    infer,
    evaluate,
    crate::fusion::fusion
)]
#[asm("$condition `,` $x `,` $y attr-dict `:` functional-type(operands, results)")]
pub struct Where {
    /// Which one, of `i1`.
    #[is(TRUTH)]
    pub condition: Value,
    /// Taken where it is true.
    #[is(TENSOR)]
    pub x: Value,
    /// Taken where it is false.
    #[is(TENSOR)]
    pub y: Value,
}
impl Infer for Where {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (condition, bit) = tensor(op, self.condition, "condition")?;
        let (x, elem) = tensor(op, self.x, "x")?;
        let (y, y_elem) = tensor(op, self.y, "y")?;
        if bit != Type::int(1) || elem != y_elem {
            return Err(format!("chooses by {bit} between {elem} and {y_elem}").into());
        }
        let shape = broadcast(&condition, &broadcast(&x, &y)?)?;
        Ok(vec![Type::tensor(shape, elem)])
    }
}
impl Fusable for Where {
    const KIND: FusionKind = FusionKind::Injective;
}

/// Each element as a number of another type: floats are rounded to nearest even, or towards zero
/// to become integers, where what is out of range becomes the nearest integer there is and NaN
/// becomes 0; integers are cut; what is not zero is true.
#[derive(Op)]
#[op(
    "graph.cast",
    StrictAttributes,
    Pure,
    Elementwise,
    fold,
    verify,
    evaluate,
    crate::fusion::fusion
)]
#[asm("$x attr-dict `:` type($x) `to` type($y)")]
pub struct Cast {
    /// The numbers.
    #[is(NUMBER_TENSOR)]
    pub x: Value,
    /// Type of the result.
    #[is(NUMBER_TENSOR)]
    pub y: Ret,
}
impl Verify for Cast {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (shape, _) = tensor(op, self.x, "x")?;
        let to = self.y.0;
        if to.shape() != Some(&shape[..]) {
            return Err(format!("makes {to} of {}", op.ir.ty(self.x)).into());
        }
        Ok(())
    }
}
impl Fold for Cast {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        (op.ir.ty(self.x) == self.y.0).then(|| self.x.into())
    }
}
impl Fusable for Cast {
    const KIND: FusionKind = FusionKind::Injective;
}
