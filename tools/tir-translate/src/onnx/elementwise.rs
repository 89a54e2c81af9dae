//! Importers of elementwise nodes.

use tir_core::{Op, Value};
use tir_graph::*;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::numbers;
use super::operands::dimension;
use super::views::reshaped;

pub(super) fn unary<T: Op>(cx: &mut Cx, node: &Node, make: impl FnOnce(Value) -> T) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let y = cx.add(node, make(x))?;
    cx.define(node, y)
}

pub(super) fn binary<T: Op>(
    cx: &mut Cx,
    node: &Node,
    make: impl FnOnce(Value, Value) -> T,
) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let (x, y) = (cx.operand(node, 0)?, cx.operand(node, 1)?);
    let result = cx.add(node, make(x, y))?;
    cx.define(node, result)
}

/// Until version 6: of one shape, or the second repeated where `broadcast` says so, its dimensions
/// being those of the first from `axis` on, or the last ones.
pub(super) fn onto_first<T: Op>(
    cx: &mut Cx,
    node: &Node,
    make: impl FnOnce(Value, Value) -> T,
) -> Outcome<()> {
    node.only_attributes(&["axis", "broadcast", "consumed_inputs"])
        .map_err(Some)?;
    let (x, mut y) = (cx.operand(node, 0)?, cx.operand(node, 1)?);
    let (whole, part) = (cx.shape(x).0, cx.shape(y).0);
    let spread = node.int("broadcast").map_err(Some)?.unwrap_or(0) != 0;
    let end = match node.int("axis").map_err(Some)? {
        Some(axis) if spread => dimension(node, axis, whole.len())? + part.len(),
        _ => whole.len(),
    };
    if !spread && whole != part || end > whole.len() {
        let why = format!("has operands of shapes {whole:?} and {part:?}");
        return Err(Some(node.error(why)));
    }
    // Unit dimensions behind bring the others where they belong.
    let mut shape = part.to_vec();
    shape.resize(part.len() + whole.len() - end, 1);
    y = reshaped(cx, node, y, &shape)?;
    let result = cx.add(node, make(x, y))?;
    cx.define(node, result)
}

/// One after the other, from the left.
fn joined<T: Op>(
    cx: &mut Cx,
    node: &Node,
    make: impl Fn(Value, Value) -> T,
) -> Outcome<Option<Value>> {
    node.only_attributes(&[]).map_err(Some)?;
    let mut result = cx.operand(node, 0)?;
    if node.inputs.len() < 2 {
        return Ok(None);
    }
    for k in 1..node.inputs.len() {
        let y = cx.operand(node, k)?;
        result = cx.add(node, make(result, y))?;
    }
    Ok(Some(result))
}

pub(super) fn variadic<T: Op>(
    cx: &mut Cx,
    node: &Node,
    make: impl Fn(Value, Value) -> T,
) -> Outcome<()> {
    match joined(cx, node, make)? {
        Some(result) => cx.define(node, result),
        None => cx.alias(node),
    }
}

pub(super) fn mean(cx: &mut Cx, node: &Node) -> Outcome<()> {
    let Some(x) = joined(cx, node, |x, y| Add { x, y })? else {
        return cx.alias(node);
    };
    let y = splat(cx, node, x, node.inputs.len() as f64, "count")?;
    let result = cx.add(node, Div { x, y })?;
    cx.define(node, result)
}

/// A number as a constant of a value's element type.
pub(super) fn splat(
    cx: &mut Cx,
    node: &Node,
    like: Value,
    number: f64,
    name: &str,
) -> Outcome<Value> {
    let elem = cx.shape(like).1;
    let value = numbers::constant(cx, node, elem, &[], &[number])?;
    cx.hint(value, name);
    Ok(value)
}

/// `x` differs from true.
pub(super) fn not(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let y = splat(cx, node, x, 1.0, "true")?;
    let result = cx.add(node, Xor { x, y })?;
    cx.define(node, result)
}

/// A float attribute.
fn number(node: &Node, name: &str, otherwise: f32) -> Outcome<Number> {
    let value = node.float(name).map_err(Some)?;
    Ok(Number(value.unwrap_or(otherwise).into()))
}

pub(super) fn leaky_relu(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["alpha"]).map_err(Some)?;
    let (x, alpha) = (cx.operand(node, 0)?, number(node, "alpha", 0.01)?);
    let y = cx.add(node, LeakyRelu { x, alpha })?;
    cx.define(node, y)
}

pub(super) fn hard_sigmoid(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["alpha", "beta"]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let (alpha, beta) = (number(node, "alpha", 0.2)?, number(node, "beta", 0.5)?);
    let y = cx.add(node, HardSigmoid { x, alpha, beta })?;
    cx.define(node, y)
}

pub(super) fn gelu(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["approximate"]).map_err(Some)?;
    let tanh = match node.string("approximate").map_err(Some)? {
        None | Some("none") => false,
        Some("tanh") => true,
        Some(other) => {
            let why = format!("attribute 'approximate' is '{other}', expected none or tanh");
            return Err(Some(node.error(why)));
        }
    };
    let x = cx.operand(node, 0)?;
    let y = cx.add(node, Gelu { x, tanh })?;
    cx.define(node, y)
}

/// Until version 10: bounds are attributes, where they are absent the extremes of `f32`, which
/// infinities lie outside of.
pub(super) fn clip_by_attributes(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["consumed_inputs", "max", "min"])
        .map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let min = Some(number(node, "min", f32::MIN)?);
    let max = Some(number(node, "max", f32::MAX)?);
    let y = cx.add(node, Clip { x, min, max })?;
    cx.define(node, y)
}

/// Bounds that are known and exact are numbers of the op; others are operands of max and min.
pub(super) fn clip(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let mut y = cx.operand(node, 0)?;
    let known = |cx: &Cx, k: usize| match node.input(k) {
        None => Some(None),
        Some(_) => {
            let array = cx.elements(node, k).filter(|a| a.len() == 1)?;
            let value = array.iter_f64().next()?;
            let exact = array.dtype().is_float() || value.abs() < 2f64.powi(53);
            exact.then_some(Some(Number(value)))
        }
    };
    if let (Some(min), Some(max)) = (known(cx, 1), known(cx, 2)) {
        if min.is_none() && max.is_none() {
            return cx.alias(node);
        }
        y = cx.add(node, Clip { x: y, min, max })?;
        return cx.define(node, y);
    }
    if let Some(bound) = cx.optional(node, 1)? {
        y = cx.add(node, Max { x: y, y: bound })?;
    }
    if let Some(bound) = cx.optional(node, 2)? {
        y = cx.add(node, Min { x: y, y: bound })?;
    }
    cx.define(node, y)
}
