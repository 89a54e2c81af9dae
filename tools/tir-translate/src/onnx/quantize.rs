//! Importers of quantized nodes. Products of integers become ops without zero points: what those
//! of the input add is a number for each output channel, `-zero · Σ w`, computed here if it is
//! constant.

use tir_core::{Op, Ret, Type, Value};
use tir_graph::*;
use tir_onnx::{ElementType, Node};

use super::elementwise::splat;
use super::import::{Cx, Outcome};
use super::make::Make;
use super::operands::{dimension, fail};
use super::ops::{Convolution, in_rank};
use super::views::reshaped;

/// An op's result; a constant if all operands are.
fn known<T: Op>(cx: &mut Cx, node: &Node, op: T) -> Outcome<Value> {
    let value = cx.add(node, op)?;
    Ok(cx.evaluated(value, node.output(0).unwrap_or("constant")))
}

/// Whether there is one number for a whole tensor.
fn one(cx: &Cx, value: Value) -> bool {
    let shape = cx.shape(value).0;
    shape.len() <= 1 && shape.iter().all(|d| *d == 1)
}

/// The dimension that scales belong to: attribute `axis`, 1 by default.
fn axis(cx: &Cx, node: &Node, x: Value, scale: Value) -> Outcome<i64> {
    let stated = node.int("axis").map_err(Some)?.unwrap_or(1);
    if one(cx, scale) {
        return Ok(1);
    }
    dimension(node, stated, cx.shape(x).0.len()).map(|axis| axis as i64)
}

/// Blocks of scales, and results of other types than operands say, are not read.
fn plain(node: &Node) -> Outcome<()> {
    node.only_attributes(&[
        "axis",
        "block_size",
        "output_dtype",
        "precision",
        "saturate",
    ])
    .map_err(Some)?;
    if node.int("block_size").map_err(Some)?.unwrap_or(0) != 0 {
        return fail(node, "has scales of blocks, which cannot be imported");
    }
    if node.int("precision").map_err(Some)?.unwrap_or(1) != 1 {
        return fail(
            node,
            "computes in another precision than f32, which cannot be imported",
        );
    }
    Ok(())
}

/// The element type that attribute `output_dtype` says.
fn stated_type(node: &Node) -> Outcome<Option<Type>> {
    let number = node.int("output_dtype").map_err(Some)?.unwrap_or(0);
    if number == 0 {
        return Ok(None);
    }
    let dtype = i32::try_from(number)
        .ok()
        .map(ElementType)
        .and_then(|e| e.dtype());
    match dtype {
        Some(dtype) => Ok(Some(tir_interp::elem_of(dtype))),
        None => fail(
            node,
            format!("attribute 'output_dtype' is {number}, which is not read"),
        ),
    }
}

pub(super) fn quantize(cx: &mut Cx, node: &Node) -> Outcome<()> {
    plain(node)?;
    let (x, scale) = (cx.operand(node, 0)?, cx.operand(node, 1)?);
    let zero = cx.optional(node, 2)?;
    let axis = axis(cx, node, x, scale)?;
    let elem = match (zero, stated_type(node)?) {
        (Some(zero), _) => cx.shape(zero).1,
        (None, Some(elem)) => elem,
        (None, None) => tir_interp::elem_of(tir_data::DType::U8),
    };
    let y = Ret(Type::tensor(cx.shape(x).0.to_vec(), elem));
    let y = cx.add(
        node,
        Quantize {
            x,
            scale,
            zero,
            axis,
            y,
        },
    )?;
    cx.define(node, y)
}

pub(super) fn dequantize(cx: &mut Cx, node: &Node) -> Outcome<()> {
    plain(node)?;
    let (x, scale) = (cx.operand(node, 0)?, cx.operand(node, 1)?);
    let zero = cx.optional(node, 2)?;
    let axis = axis(cx, node, x, scale)?;
    let elem = stated_type(node)?.unwrap_or(cx.shape(scale).1);
    let y = Ret(Type::tensor(cx.shape(x).0.to_vec(), elem));
    let y = cx.add(
        node,
        Dequantize {
            x,
            scale,
            zero,
            axis,
            y,
        },
    )?;
    cx.define(node, y)
}

/// `y`, its scale and its zero point, so that all of `x` and 0 lie in 0 to 255.
pub(super) fn dynamic_quantize(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let axes: Vec<i64> = (0..cx.shape(x).0.len() as i64).collect();
    let keepdims = false;
    let high = cx.add(
        node,
        ReduceMax {
            x,
            axes: axes.clone(),
            keepdims,
        },
    )?;
    let low = cx.add(node, ReduceMin { x, axes, keepdims })?;
    let zero = splat(cx, node, x, 0.0, "zero")?;
    let high = cx.add(node, Max { x: high, y: zero })?;
    let low = cx.add(node, Min { x: low, y: zero })?;
    let range = cx.add(node, Sub { x: high, y: low })?;
    let steps = splat(cx, node, x, 255.0, "steps")?;
    let scale = cx.add(node, Div { x: range, y: steps })?;
    let below = cx.add(node, Neg { x: low })?;
    let point = cx.add(node, Div { x: below, y: scale })?;
    let (min, max) = (Some(Number(0.0)), Some(Number(255.0)));
    let point = cx.add(node, Clip { x: point, min, max })?;
    let point = cx.add(node, Round { x: point })?;
    let elem = tir_interp::elem_of(tir_data::DType::U8);
    let zero = cx.add(
        node,
        Cast {
            x: point,
            y: Ret(Type::tensor(vec![], elem)),
        },
    )?;
    let y = Ret(Type::tensor(cx.shape(x).0.to_vec(), elem));
    let y = cx.add(
        node,
        Quantize {
            x,
            scale,
            zero: Some(zero),
            axis: 1,
            y,
        },
    )?;
    cx.define_all(node, &[y, scale, zero]);
    Ok(())
}

/// Elements as `i32`.
fn widened(cx: &mut Cx, node: &Node, x: Value) -> Outcome<Value> {
    let (shape, elem) = cx.shape(x);
    if elem == Type::int(32) {
        return Ok(x);
    }
    let y = Ret(Type::tensor(shape.to_vec(), Type::int(32)));
    known(cx, node, Cast { x, y })
}

/// A zero point as `i32`, of a shape; `None` if it is absent, or known to be 0.
fn zero_point(
    cx: &mut Cx,
    node: &Node,
    zero: Option<Value>,
    shape: impl FnOnce(i64) -> Vec<i64>,
) -> Outcome<Option<Value>> {
    let Some(zero) = zero else { return Ok(None) };
    if let Some(array) = cx.constant_of(zero)
        && array.iter_f64().all(|n| n == 0.0)
    {
        return Ok(None);
    }
    let zero = widened(cx, node, zero)?;
    let count = cx.shape(zero).0.iter().product();
    let shape = if count == 1 { vec![] } else { shape(count) };
    if cx.shape(zero).0 == shape {
        return Ok(Some(zero));
    }
    let zero = reshaped(cx, node, zero, &shape)?;
    Ok(Some(cx.evaluated(zero, "zero_point")))
}

/// Weights without a zero point.
fn centred(cx: &mut Cx, node: &Node, w: Value, zero: Option<Value>) -> Outcome<Value> {
    let Some(y) = zero else { return Ok(w) };
    let x = widened(cx, node, w)?;
    known(cx, node, Sub { x, y })
}

/// What a zero point of the input adds to each sum of products with `w`, taken off `sum` (0 if
/// absent).
fn corrected(
    cx: &mut Cx,
    node: &Node,
    (zero, w, axes, keepdims): (Value, Value, Vec<i64>, bool),
    sum: Option<Value>,
) -> Outcome<Value> {
    let x = widened(cx, node, w)?;
    let x = known(cx, node, ReduceSum { x, axes, keepdims })?;
    let y = known(cx, node, Mul { x, y: zero })?;
    match sum {
        Some(x) => known(cx, node, Sub { x, y }),
        None => known(cx, node, Neg { x: y }),
    }
}

/// Sums of products of integers, with a bias: the result, in the rank of the node's input.
fn convolved(
    cx: &mut Cx,
    node: &Node,
    [x, w]: [usize; 2],
    [x_zero, w_zero]: [usize; 2],
    bias: Option<usize>,
) -> Outcome<(Value, usize)> {
    let Convolution {
        x,
        w,
        rank,
        windows,
        groups,
    } = Convolution::read(cx, node, x, w)?;
    let bias = bias.map(|k| cx.optional(node, k)).transpose()?.flatten();
    let w_zero = cx.optional(node, w_zero)?;
    let w_zero = zero_point(cx, node, w_zero, |channels| vec![channels, 1, 1, 1])?;
    let w = centred(cx, node, w, w_zero)?;
    let (mut x, mut bias, mut padding) = (x, bias, 0);
    let x_zero = cx.optional(node, x_zero)?;
    if let Some(zero) = zero_point(cx, node, x_zero, |count| vec![count])? {
        let constant = cx.constant_of(zero).and_then(|array| array.to_i64s());
        match constant.as_deref() {
            Some([known]) => {
                padding = *known;
                let sum = (zero, w, vec![1, 2, 3], false);
                bias = Some(corrected(cx, node, sum, bias)?);
            }
            _ => {
                // What is around the input is known later: it is 0 once the zero point is off.
                let whole = widened(cx, node, x)?;
                x = cx.add(node, Sub { x: whole, y: zero })?;
            }
        }
    }
    let op = Conv2dInteger {
        x,
        w,
        bias,
        padding,
        strides: windows.strides,
        pads: windows.pads,
        dilations: windows.dilations,
        groups,
    };
    Ok((cx.add(node, op)?, rank))
}

pub(super) fn conv_integer(cx: &mut Cx, node: &Node) -> Outcome<()> {
    let (y, rank) = convolved(cx, node, [0, 1], [2, 3], None)?;
    let y = in_rank(cx, node, y, rank)?;
    cx.define(node, y)
}

/// `x · w / y`, of scales.
fn factor(cx: &mut Cx, node: &Node, [x, w, y]: [Value; 3]) -> Outcome<Value> {
    let x = known(cx, node, Mul { x, y: w })?;
    known(cx, node, Div { x, y })
}

/// Operands `x`, `x_scale`, `x_zero_point`, `w`, `w_scale`, `w_zero_point`, `y_scale`,
/// `y_zero_point`, and a bias of scale `x_scale · w_scale`.
pub(super) fn qlinear_conv(cx: &mut Cx, node: &Node) -> Outcome<()> {
    let (sum, rank) = convolved(cx, node, [0, 3], [2, 5], Some(8))?;
    let y = requantized(cx, node, sum, 1)?;
    let y = in_rank(cx, node, y, rank)?;
    cx.define(node, y)
}

/// Sums with the scales that operands 1, 4, 6 say and the zero point of operand 7.
fn requantized(cx: &mut Cx, node: &Node, sum: Value, axis: i64) -> Outcome<Value> {
    let scales = [
        cx.operand(node, 1)?,
        cx.operand(node, 4)?,
        cx.operand(node, 6)?,
    ];
    // Scales of 16 bits are computed with in f32, as the others.
    let mut make = Make::new(cx, node);
    let mut wide = [scales[0]; 3];
    for (wide, scale) in wide.iter_mut().zip(scales) {
        *wide = make.cast(scale, Type::f32())?;
    }
    let scales = wide;
    let zero = cx.operand(node, 7)?;
    let several = |k: usize| !one(cx, scales[k]);
    if several(0) || several(2) || !one(cx, zero) {
        let why = "has several scales or zero points of input or result, expected one each";
        return fail(node, why);
    }
    let factor = factor(cx, node, scales)?;
    let (shape, elem) = (cx.shape(sum).0.to_vec(), cx.shape(zero).1);
    let op = Requantize {
        x: sum,
        factor,
        zero: Some(zero),
        axis,
        y: Ret(Type::tensor(shape, elem)),
    };
    cx.add(node, op)
}

/// `(a - a_zero) · (b - b_zero)`: zero points by row of `a`, by column of `b`.
fn multiplied(
    cx: &mut Cx,
    node: &Node,
    [a, b]: [usize; 2],
    [a_zero, b_zero]: [usize; 2],
) -> Outcome<Value> {
    let (a, b) = (cx.operand(node, a)?, cx.operand(node, b)?);
    let b_zero = cx.optional(node, b_zero)?;
    let b_zero = zero_point(cx, node, b_zero, |columns| vec![1, columns])?;
    let b = centred(cx, node, b, b_zero)?;
    let sum = cx.add(node, MatMulInteger { a, b })?;
    let a_zero = cx.optional(node, a_zero)?;
    let Some(zero) = zero_point(cx, node, a_zero, |rows| vec![rows, 1])? else {
        return Ok(sum);
    };
    let rank = cx.shape(b).0.len() as i64;
    corrected(cx, node, (zero, b, vec![rank - 2], true), Some(sum))
}

pub(super) fn matmul_integer(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let y = multiplied(cx, node, [0, 1], [2, 3])?;
    cx.define(node, y)
}

/// Operands as of [`qlinear_conv`], without a bias.
pub(super) fn qlinear_matmul(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let sum = multiplied(cx, node, [0, 3], [2, 5])?;
    let last = cx.shape(sum).0.len() as i64 - 1;
    let y = requantized(cx, node, sum, last)?;
    cx.define(node, y)
}
