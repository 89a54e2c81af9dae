//! Normalising operators: by channel, along an axis, over the last dimensions.

use tir::constraints::FLOAT_TENSOR;
use tir::{Failure, Infer, Op, OpRef, Type, Value};

use crate::fusion::{Fusable, FusionKind};
use crate::number::Number;
use crate::ops::elementwise::operands;
use crate::pointwise::{Pointwise, Scalar, Scalars};
use crate::shape::{broadcast, ranked, tensor};

/// Each channel with mean and variance given: `(x - mean) / √(var + epsilon) · scale + bias`
/// (Ioffe and Szegedy, "Batch Normalization", 2015, as it is after training).
#[derive(Op)]
#[op(
    "graph.batch_norm",
    StrictAttributes,
    Pure,
    Elementwise,
    results(y),
    infer,
    evaluate,
    crate::fusion::fusion
)]
#[asm(
    "$x `,` $scale `,` $bias `,` $mean `,` $var attr-dict `:` functional-type(operands, results)"
)]
pub struct BatchNorm {
    /// Input, N x C x ….
    #[is(FLOAT_TENSOR)]
    pub x: Value,
    /// Factor of each channel, C.
    #[is(FLOAT_TENSOR)]
    pub scale: Value,
    /// Addend of each channel, C.
    #[is(FLOAT_TENSOR)]
    pub bias: Value,
    /// Mean of each channel, C.
    #[is(FLOAT_TENSOR)]
    pub mean: Value,
    /// Variance of each channel, C.
    #[is(FLOAT_TENSOR)]
    pub var: Value,
    /// What is added to the variance.
    #[default(Number(1e-5))]
    pub epsilon: Number,
}
impl Infer for BatchNorm {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (x, elem) = tensor(op, self.x, "x")?;
        let &[_, channels, ..] = &x[..] else {
            let rank = x.len();
            return Err(format!("has operand 'x' of rank {rank}, expected at least 2").into());
        };
        let by_channel = [
            ("scale", self.scale),
            ("bias", self.bias),
            ("mean", self.mean),
            ("var", self.var),
        ];
        for (name, value) in by_channel {
            let ([size], found) = ranked(op, value, name)?;
            if size != channels || found != elem {
                return Err(format!(
                    "has a {name} of {size} x {found}, expected {channels} x {elem}"
                )
                .into());
            }
        }
        Ok(vec![Type::tensor(x, elem)])
    }
}
impl Pointwise for BatchNorm {
    fn compute<S: Scalars>(&self, s: &mut S, args: &[S::V]) -> Result<S::V, Failure> {
        let [x, scale, bias, mean, var] = operands(args)?;
        let spread = s.with(Scalar::Add, var, self.epsilon.0)?;
        let spread = s.one(Scalar::Sqrt, &spread)?;
        let factor = s.two(Scalar::Div, scale, &spread)?;
        let centred = s.two(Scalar::Sub, x, mean)?;
        let y = s.two(Scalar::Mul, &centred, &factor)?;
        s.two(Scalar::Add, &y, bias)
    }
}
impl Fusable for BatchNorm {
    const KIND: FusionKind = FusionKind::Injective;
}

/// `exp(x)` divided by its sum along an axis; the largest element of the axis is taken from `x`
/// first, so that nothing overflows.
#[derive(Op)]
#[op(
    "graph.softmax",
    StrictAttributes,
    Pure,
    results(y),
    infer,
    evaluate,
    crate::fusion::fusion
)]
#[asm("$x attr-dict `:` functional-type(operands, results)")]
pub struct Softmax {
    /// Input.
    #[is(FLOAT_TENSOR)]
    pub x: Value,
    /// The axis.
    pub axis: i64,
}
impl Infer for Softmax {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (shape, elem) = tensor(op, self.x, "x")?;
        if !(0..shape.len() as i64).contains(&self.axis) {
            let (axis, rank) = (self.axis, shape.len());
            return Err(format!("has axis {axis} for rank {rank}").into());
        }
        Ok(vec![Type::tensor(shape, elem)])
    }
}
impl Fusable for Softmax {
    const KIND: FusionKind = FusionKind::Reduction;
    const STEPS: bool = true;
}

/// The last dimensions, from `axis` on, brought to mean 0 and variance 1:
/// `(x - mean) / √(var + epsilon) · scale + bias` (Ba et al., "Layer Normalization", 2016).
#[derive(Op)]
#[op(
    "graph.layer_norm",
    StrictAttributes,
    Pure,
    results(y),
    infer,
    evaluate,
    crate::fusion::fusion
)]
#[asm("$x `,` $scale (`,` $bias^)? attr-dict `:` functional-type(operands, results)")]
pub struct LayerNorm {
    /// Input.
    #[is(FLOAT_TENSOR)]
    pub x: Value,
    /// Factors; they broadcast to `x`.
    #[is(FLOAT_TENSOR)]
    pub scale: Value,
    /// Addends; they broadcast to `x`.
    #[is(FLOAT_TENSOR)]
    pub bias: Option<Value>,
    /// The first of the dimensions that are normalised together.
    pub axis: i64,
    /// What is added to the variance.
    #[default(Number(1e-5))]
    pub epsilon: Number,
}
impl Infer for LayerNorm {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (shape, elem) = tensor(op, self.x, "x")?;
        if !(0..shape.len() as i64).contains(&self.axis) {
            let (axis, rank) = (self.axis, shape.len());
            return Err(format!("has axis {axis} for rank {rank}").into());
        }
        for (name, value) in [("scale", Some(self.scale)), ("bias", self.bias)] {
            let Some(value) = value else { continue };
            let (found, found_elem) = tensor(op, value, name)?;
            if found_elem != elem || broadcast(&found, &shape)? != shape {
                return Err(format!(
                    "has a {name} of type {}, which does not broadcast to {}",
                    op.ir.ty(value),
                    op.ir.ty(self.x)
                )
                .into());
            }
        }
        Ok(vec![Type::tensor(shape, elem)])
    }
}
impl Fusable for LayerNorm {
    const KIND: FusionKind = FusionKind::Reduction;
    const STEPS: bool = true;
}
