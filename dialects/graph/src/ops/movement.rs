//! Parts of tensors, and tensors put together: what moves elements and computes nothing.

use tir::constraints::{SCALAR, TENSOR};
use tir::{Attr, Failure, Fold, Folds, Infer, Op, OpRef, Ret, Type, Value, Verify};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::{Keeps, Layout, LayoutRule};
use crate::shape::{axis, broadcast, list, tensor};

/// Concatenation of tensors along one dimension; their other dimensions are equal.
///
/// Opaque to fusion: each operand is written to its part of the result, which is one buffer.
#[derive(Op)]
#[op(
    "graph.concat",
    StrictAttributes,
    Pure,
    results(y),
    crate::layout::infer,
    fold,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts,
    cost
)]
#[asm("$xs attr-dict `:` functional-type(operands, results)")]
pub struct Concat {
    /// What is put together, at least one.
    #[is(TENSOR)]
    pub xs: Vec<Value>,
    /// The dimension, counted from the first.
    pub axis: i64,
}
impl Infer for Concat {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let Some((first, rest)) = self.xs.split_first() else {
            return Err("has no operands".into());
        };
        let (mut shape, elem) = tensor(op, *first, "xs")?;
        let at = axis(self.axis, shape.len())?;
        for x in rest {
            let (other, other_elem) = tensor(op, *x, "xs")?;
            let fits = other.len() == shape.len()
                && (0..shape.len()).all(|d| d == at || other[d] == shape[d]);
            if !fits || other_elem != elem {
                let (first, other) = (op.ir.ty(*first), op.ir.ty(*x));
                return Err(format!("puts {other} behind {first} in dimension {at}").into());
            }
            shape[at] = shape[at]
                .checked_add(other[at])
                .ok_or("has a dimension beyond 64 bits")?;
        }
        Ok(vec![Type::tensor(shape, elem)])
    }
}
impl Fold for Concat {
    fn fold(&self, _: OpRef<'_>) -> Option<Folds> {
        match self.xs[..] {
            [x] => Some(x.into()),
            _ => None,
        }
    }
}
impl Fusable for Concat {
    const KIND: FusionKind = FusionKind::Opaque;
}
impl LayoutRule for Concat {
    const KEEPS: Keeps = Keeps::All;
}

/// The consecutive parts of a tensor along one dimension: a result for each size. Its canonical form is a
/// `graph.slice` for each part, which is what rules are about.
#[derive(Op)]
#[op(
    "graph.split",
    StrictAttributes,
    Pure,
    infer,
    fold,
    evaluate,
    crate::fusion::fusion
)]
#[asm("$x $sizes attr-dict `:` functional-type(operands, results)")]
pub struct Split {
    /// What is divided.
    #[is(TENSOR)]
    pub x: Value,
    /// The dimension, counted from the first.
    pub axis: i64,
    /// The size of each part in that dimension; they add up to that of `x`.
    pub sizes: Vec<i64>,
    /// The parts; their types are inferred.
    pub parts: tir::Rets,
}
impl Infer for Split {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (shape, elem) = tensor(op, self.x, "x")?;
        let at = axis(self.axis, shape.len())?;
        if let Some(size) = self.sizes.iter().find(|size| **size < 0) {
            return Err(format!("has a part of {size} elements").into());
        }
        let sum = self
            .sizes
            .iter()
            .try_fold(0i64, |sum, n| sum.checked_add(*n));
        if sum != Some(shape[at]) {
            let (sizes, size) = (&self.sizes, shape[at]);
            return Err(
                format!("has parts of {sizes:?} elements in dimension {at} of {size}").into(),
            );
        }
        let part = |size: &i64| {
            let mut part = shape.clone();
            part[at] = *size;
            Type::tensor(part, elem)
        };
        Ok(self.sizes.iter().map(part).collect())
    }
}
impl Fold for Split {
    fn fold(&self, _: OpRef<'_>) -> Option<Folds> {
        (self.sizes.len() == 1).then(|| self.x.into())
    }
}
impl Fusable for Split {
    const KIND: FusionKind = FusionKind::Opaque;
}

/// A regular part of a tensor: element `i` of a dimension is element `start + i · step` of `x`.
#[derive(Op)]
#[op(
    "graph.slice",
    StrictAttributes,
    Pure,
    results(y),
    crate::layout::infer,
    fold,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts,
    cost
)]
#[asm("$x $starts $sizes $steps attr-dict `:` functional-type(operands, results)")]
pub struct Slice {
    /// What the part is taken of.
    #[is(TENSOR)]
    pub x: Value,
    /// The first element, for each dimension.
    pub starts: Vec<i64>,
    /// The number of elements, for each dimension.
    pub sizes: Vec<i64>,
    /// The distance of elements, for each dimension; negative ones go backwards, none is 0.
    pub steps: Vec<i64>,
}
impl Infer for Slice {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (shape, elem) = tensor(op, self.x, "x")?;
        list("starts", &self.starts, shape.len())?;
        list("sizes", &self.sizes, shape.len())?;
        list("steps", &self.steps, shape.len())?;
        for (d, n) in shape.iter().enumerate() {
            let (start, size, step) = (self.starts[d], self.sizes[d], self.steps[d]);
            if step == 0 || size < 0 {
                return Err(format!("has size {size} and step {step} in dimension {d}").into());
            }
            let last = (size - 1)
                .checked_mul(step)
                .and_then(|w| w.checked_add(start));
            let inside = |at: Option<i64>| at.is_some_and(|at| (0..*n).contains(&at));
            if size > 0 && !(inside(Some(start)) && inside(last)) {
                let last = last.unwrap_or(i64::MAX);
                return Err(format!(
                    "takes elements {start} to {last} of dimension {d}, which has {n}"
                )
                .into());
            }
        }
        Ok(vec![Type::tensor(self.sizes.clone(), elem)])
    }
}
impl Fold for Slice {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        let whole = op.ir.ty(self.x).shape() == Some(&self.sizes[..])
            && self.starts.iter().all(|n| *n == 0)
            && self.steps.iter().all(|n| *n == 1);
        whole.then(|| self.x.into())
    }
}
impl Fusable for Slice {
    const KIND: FusionKind = FusionKind::Injective;
}
impl LayoutRule for Slice {
    const KEEPS: Keeps = Keeps::First;
    const OFFERED: bool = false;

    /// A part is whole blocks.
    fn admits(&self, _: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
        for (d, block) in layout.blocks().iter().enumerate().filter(|(_, b)| **b > 1) {
            let at = |list: &[i64]| list.get(d).copied().unwrap_or(0);
            let (start, size, step) = (at(&self.starts), at(&self.sizes), at(&self.steps));
            if start % block != 0 || size % block != 0 || step != 1 {
                return Err(format!("takes {size} elements of dimension {d} from {start} on, step {step}, which are no whole blocks of {layout}").into());
            }
        }
        Ok(())
    }
}

/// A tensor with elements of one value around it.
#[derive(Op)]
#[op(
    "graph.pad",
    StrictAttributes,
    Pure,
    results(y),
    crate::layout::infer,
    fold,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts
)]
#[asm("$x $low $high `with` $value attr-dict `:` functional-type(operands, results)")]
pub struct Pad {
    /// What is inside.
    #[is(TENSOR)]
    pub x: Value,
    /// Elements before it, for each dimension.
    pub low: Vec<i64>,
    /// Elements after it, for each dimension.
    pub high: Vec<i64>,
    /// The value: a number of the type of the elements.
    pub value: Attr,
}
impl Infer for Pad {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (mut shape, elem) = tensor(op, self.x, "x")?;
        list("low", &self.low, shape.len())?;
        list("high", &self.high, shape.len())?;
        if self.value.type_of() != Some(elem) || !SCALAR.holds(elem) {
            return Err(format!("pads elements of {elem} with {}", self.value).into());
        }
        for (d, size) in shape.iter_mut().enumerate() {
            let (low, high) = (self.low[d], self.high[d]);
            if low < 0 || high < 0 {
                return Err(format!("has {low} and {high} elements around dimension {d}").into());
            }
            let sum = size.checked_add(low).and_then(|n| n.checked_add(high));
            *size = sum.ok_or("has a dimension beyond 64 bits")?;
        }
        Ok(vec![Type::tensor(shape, elem)])
    }
}
impl Fold for Pad {
    fn fold(&self, _: OpRef<'_>) -> Option<Folds> {
        let none = self.low.iter().chain(&self.high).all(|n| *n == 0);
        none.then(|| self.x.into())
    }
}
impl Fusable for Pad {
    const KIND: FusionKind = FusionKind::Injective;
    fn pads(&self) -> bool {
        self.low.iter().chain(&self.high).any(|n| *n > 0)
    }
}
impl LayoutRule for Pad {
    const KEEPS: Keeps = Keeps::First;
    const OFFERED: bool = false;

    /// There is nothing around blocks.
    fn admits(&self, _: OpRef<'_>, layout: &Layout) -> Result<(), Failure> {
        let around = self.low.iter().zip(&self.high).zip(layout.blocks());
        let mut padded = around.map(|((low, high), block)| *block > 1 && low + high > 0);
        match padded.position(|padded| padded) {
            Some(d) => Err(format!("pads dimension {d}, which is in blocks of {layout}").into()),
            None => Ok(()),
        }
    }
}

/// A tensor broadcast to a shape, as numpy does it: dimensions of 1 are repeated, missing ones are
/// put before the first.
#[derive(Op)]
#[op(
    "graph.expand",
    StrictAttributes,
    Pure,
    fold,
    verify,
    evaluate,
    crate::fusion::fusion
)]
#[asm("$x attr-dict `:` type($x) `to` type($y)")]
pub struct Expand {
    /// What is repeated.
    #[is(TENSOR)]
    pub x: Value,
    /// Type of the result.
    #[is(TENSOR)]
    pub y: Ret,
}
impl Verify for Expand {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (shape, elem) = tensor(op, self.x, "x")?;
        let to = self.y.0.shape().unwrap_or(&[]);
        if self.y.0.elem() != elem || broadcast(&shape, to)? != to {
            return Err(format!("makes {} of {}", self.y.0, op.ir.ty(self.x)).into());
        }
        Ok(())
    }
}
impl Fold for Expand {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        (op.ir.ty(self.x) == self.y.0).then(|| self.x.into())
    }
}
impl Fusable for Expand {
    const KIND: FusionKind = FusionKind::Injective;
}
