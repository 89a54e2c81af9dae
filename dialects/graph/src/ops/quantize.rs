//! Real numbers as small integers: `real = (integer - zero point) · scale`, with one scale for a
//! tensor or one for each element of a dimension.
//!
//! What they compute is what ONNX says of `QuantizeLinear`, `DequantizeLinear` and `QLinearConv`
//! (onnx/onnx, `docs/Operators.md`), step by step in `f32`.

use tir::constraints::{FLOAT_TENSOR, INT_TENSOR, NUMBER_TENSOR};
use tir::{Failure, Op, OpRef, Ret, Type, Value, Verify};

use crate::fusion::{Fusable, FusionKind};
use crate::layout::{Keeps, Layout, LayoutRule, common};
use crate::shape::{axis, tensor};

/// Real numbers as integers: `saturate(round(x / scale) + zero)`, rounded to nearest even; NaN
/// becomes 0.
#[derive(Op)]
#[op(
    "graph.quantize",
    StrictAttributes,
    Pure,
    Elementwise,
    verify,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts
)]
#[asm("$x `,` $scale (`,` $zero^)? attr-dict `:` functional-type(operands, results)")]
pub struct Quantize {
    /// The numbers, of `f32` or `i32`.
    #[is(NUMBER_TENSOR)]
    pub x: Value,
    /// The number that 1 stands for, of `f32`: one, or one for each element of `axis`.
    #[is(FLOAT_TENSOR)]
    pub scale: Value,
    /// What stands for 0, of the result's elements: as many as scales. 0 if absent.
    #[is(INT_TENSOR)]
    pub zero: Option<Value>,
    /// The dimension that scales belong to, where there are several.
    #[default(1)]
    pub axis: i64,
    /// Integers of at most 16 bits.
    #[is(INT_TENSOR)]
    pub y: Ret,
}
impl Verify for Quantize {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (shape, elem) = tensor(op, self.x, "x")?;
        if elem != Type::f32() && elem != Type::int(32) {
            return Err(format!("quantizes {elem}, expected f32 or i32").into());
        }
        narrow(op, &shape, self.y.0)?;
        stored(op, self.y.0)?;
        parameters(
            op,
            &shape,
            self.y.0.elem(),
            (self.scale, self.zero, self.axis),
        )
    }
}
impl Fusable for Quantize {
    const KIND: FusionKind = FusionKind::Injective;
}
impl LayoutRule for Quantize {
    const KEEPS: Keeps = Keeps::First;
}

/// The real numbers that integers stand for: `(x - zero) · scale`, the difference taken in `i32`.
#[derive(Op)]
#[op(
    "graph.dequantize",
    StrictAttributes,
    Pure,
    Elementwise,
    verify,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts
)]
#[asm("$x `,` $scale (`,` $zero^)? attr-dict `:` functional-type(operands, results)")]
pub struct Dequantize {
    /// The integers, of at most 16 bits, or `i32`.
    #[is(INT_TENSOR)]
    pub x: Value,
    /// The number that 1 stands for, of `f32`: one, or one for each element of `axis`.
    #[is(FLOAT_TENSOR)]
    pub scale: Value,
    /// What stands for 0, of the elements of `x`: as many as scales. 0 if absent.
    #[is(INT_TENSOR)]
    pub zero: Option<Value>,
    /// The dimension that scales belong to, where there are several.
    #[default(1)]
    pub axis: i64,
    /// The numbers, of `f32`.
    #[is(FLOAT_TENSOR)]
    pub y: Ret,
}
impl Verify for Dequantize {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (shape, elem) = tensor(op, self.x, "x")?;
        let bits = elem.bits().unwrap_or(0);
        if bits > 16 && elem != Type::int(32) || bits < 2 {
            return Err(format!("dequantizes {elem}, expected 2 to 16 bits or i32").into());
        }
        stored(op, self.y.0)?;
        if Layout::on(None, self.y.0) != Type::tensor(shape.clone(), Type::f32()) {
            return Err(format!("makes {} of {}", self.y.0, op.ir.ty(self.x)).into());
        }
        parameters(op, &shape, elem, (self.scale, self.zero, self.axis))
    }
}
impl Fusable for Dequantize {
    const KIND: FusionKind = FusionKind::Injective;
}
impl LayoutRule for Dequantize {
    const KEEPS: Keeps = Keeps::First;
}

/// Sums of products as integers of fewer bits: `saturate(round(x · factor) + zero)`, rounded to
/// nearest even.
#[derive(Op)]
#[op(
    "graph.requantize",
    StrictAttributes,
    Pure,
    Elementwise,
    verify,
    evaluate,
    crate::fusion::fusion,
    crate::layout::layouts
)]
#[asm("$x `,` $factor (`,` $zero^)? attr-dict `:` functional-type(operands, results)")]
pub struct Requantize {
    /// The sums, of `i32`.
    #[is(INT_TENSOR)]
    pub x: Value,
    /// What 1 becomes, of `f32`: one, or one for each element of `axis`.
    #[is(FLOAT_TENSOR)]
    pub factor: Value,
    /// What stands for 0, of the result's elements: as many as factors, or one. 0 if absent.
    #[is(INT_TENSOR)]
    pub zero: Option<Value>,
    /// The dimension that factors belong to, where there are several.
    #[default(1)]
    pub axis: i64,
    /// Integers of at most 16 bits.
    #[is(INT_TENSOR)]
    pub y: Ret,
}
impl Verify for Requantize {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (shape, elem) = tensor(op, self.x, "x")?;
        if elem != Type::int(32) {
            return Err(format!("requantizes {elem}, expected i32").into());
        }
        narrow(op, &shape, self.y.0)?;
        stored(op, self.y.0)?;
        parameters(
            op,
            &shape,
            self.y.0.elem(),
            (self.factor, self.zero, self.axis),
        )
    }
}
impl Fusable for Requantize {
    const KIND: FusionKind = FusionKind::Injective;
}
impl LayoutRule for Requantize {
    const KEEPS: Keeps = Keeps::First;
}

/// A result is stored as the first operand is, and the others are plain.
fn stored(op: OpRef<'_>, result: Type) -> Result<(), Failure> {
    let operands: Vec<Value> = op.ir.operands(op.id).collect();
    let wanted = common(op.ir, &operands, Keeps::First, &[result])?;
    if Layout::of(result) != wanted {
        let plain = Layout::on(wanted, result);
        return Err(format!("makes {result}, expected {plain}").into());
    }
    Ok(())
}

/// A result is a tensor of this shape, of integers of 2 to 16 bits.
fn narrow(op: OpRef<'_>, shape: &[i64], result: Type) -> Result<(), Failure> {
    let bits = result.elem().bits().unwrap_or(0);
    if result.shape() != Some(shape) || !(2..=16).contains(&bits) {
        let result = result.to_string();
        let x = op.ir.operands(op.id).next();
        let x = x.map_or(String::new(), |x| op.ir.ty(x).to_string());
        return Err(format!("makes {result} of {x}, expected integers of 2 to 16 bits").into());
    }
    Ok(())
}

/// Scales are `f32` and zero points `elem`: single numbers, or one for each element of a dimension.
fn parameters(
    op: OpRef<'_>,
    whole: &[i64],
    elem: Type,
    (scale, zero, along): (Value, Option<Value>, i64),
) -> Result<(), Failure> {
    let given = [("scale", Some(scale), Type::f32()), ("zero", zero, elem)];
    for (name, value, wanted) in given {
        let Some(value) = value else { continue };
        let (shape, found) = tensor(op, value, name)?;
        if found != wanted {
            return Err(format!("has operand '{name}' of {found}, expected {wanted}").into());
        }
        let one = shape.iter().all(|d| *d == 1) && shape.len() <= 1;
        if !one {
            let dim = whole[axis(along, whole.len())?];
            if shape != [dim] {
                return Err(format!(
                    "has operand '{name}' of shape {shape:?}, expected one number or {dim}, one \
                     for each element of dimension {along}"
                )
                .into());
            }
        }
    }
    Ok(())
}
