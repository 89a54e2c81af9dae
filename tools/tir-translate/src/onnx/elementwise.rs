//! Importers of elementwise nodes.

use tir_core::{Op, Type, Value};
use tir_data::{Array, DType};
use tir_graph::*;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::ops::Importer;

/// The importer of an elementwise operator.
pub(super) fn importer(op: &str) -> Option<Importer> {
    macro_rules! unary {
        ($name:ident) => {
            |cx, node| unary(cx, node, |x| $name { x })
        };
    }
    macro_rules! binary {
        ($name:ident) => {
            |cx, node| binary(cx, node, |x, y| $name { x, y })
        };
    }
    Some(match op {
        "Abs" => unary!(Abs),
        "Add" => binary!(Add),
        "And" => binary!(And),
        "Ceil" => unary!(Ceil),
        "Clip" => clip,
        "Cos" => unary!(Cos),
        "Div" => binary!(Div),
        "Equal" => binary!(Equal),
        "Erf" => unary!(Erf),
        "Exp" => unary!(Exp),
        "Floor" => unary!(Floor),
        "Gelu" => gelu,
        "Greater" => binary!(Greater),
        "GreaterOrEqual" => binary!(GreaterEqual),
        "HardSigmoid" => hard_sigmoid,
        "HardSwish" => unary!(HardSwish),
        "LeakyRelu" => leaky_relu,
        "Less" => binary!(Less),
        "LessOrEqual" => binary!(LessEqual),
        "Log" => unary!(Log),
        "Max" => |cx, node| variadic(cx, node, |x, y| Max { x, y }),
        "Mean" => mean,
        "Min" => |cx, node| variadic(cx, node, |x, y| Min { x, y }),
        "Mul" => binary!(Mul),
        "Neg" => unary!(Neg),
        "Not" => not,
        "Or" => binary!(Or),
        "Pow" => pow,
        "Reciprocal" => unary!(Reciprocal),
        "Relu" => unary!(Relu),
        "Round" => unary!(Round),
        "Sigmoid" => unary!(Sigmoid),
        "Sin" => unary!(Sin),
        "Sqrt" => unary!(Sqrt),
        "Sub" => binary!(Sub),
        "Sum" => |cx, node| variadic(cx, node, |x, y| Add { x, y }),
        "Tanh" => unary!(Tanh),
        "Xor" => binary!(Xor),
        _ => return None,
    })
}

fn unary<T: Op>(cx: &mut Cx, node: &Node, make: impl FnOnce(Value) -> T) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let y = cx.add(node, make(x))?;
    cx.define(node, y)
}

fn binary<T: Op>(cx: &mut Cx, node: &Node, make: impl FnOnce(Value, Value) -> T) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let (x, y) = (cx.operand(node, 0)?, cx.operand(node, 1)?);
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

fn variadic<T: Op>(cx: &mut Cx, node: &Node, make: impl Fn(Value, Value) -> T) -> Outcome<()> {
    match joined(cx, node, make)? {
        Some(result) => cx.define(node, result),
        None => cx.alias(node),
    }
}

fn mean(cx: &mut Cx, node: &Node) -> Outcome<()> {
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
    let (_, elem) = cx.shape(like);
    let array = if elem == Type::f32() {
        Array::scalar(number as f32)
    } else if elem == Type::int(1) {
        let truth = Array::new(DType::Bool, &[], vec![u8::from(number != 0.0)].into());
        truth.map_err(|e| Some(node.error(e.to_string())))?
    } else {
        let why = format!("needs the number {number} as {elem}, which cannot be imported");
        return Err(Some(node.error(why)));
    };
    Ok(cx.constant(&array, name))
}

/// `x` differs from true.
fn not(cx: &mut Cx, node: &Node) -> Outcome<()> {
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

fn leaky_relu(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["alpha"]).map_err(Some)?;
    let (x, alpha) = (cx.operand(node, 0)?, number(node, "alpha", 0.01)?);
    let y = cx.add(node, LeakyRelu { x, alpha })?;
    cx.define(node, y)
}

fn hard_sigmoid(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["alpha", "beta"]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let (alpha, beta) = (number(node, "alpha", 0.2)?, number(node, "beta", 0.5)?);
    let y = cx.add(node, HardSigmoid { x, alpha, beta })?;
    cx.define(node, y)
}

fn gelu(cx: &mut Cx, node: &Node) -> Outcome<()> {
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

/// Bounds that are known and exact are numbers of the op; others are operands of max and min.
fn clip(cx: &mut Cx, node: &Node) -> Outcome<()> {
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

/// A whole constant exponent of another type is taken in the type of the base.
fn pow(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let exponent = cx.elements(node, 1);
    let (_, elem) = cx.shape(x);
    let y = match exponent {
        Some(array) if array.dtype().is_int() && elem == Type::f32() => {
            let values = array.iter_f64().map(|v| v as f32).collect();
            let array = Array::from_vec::<f32>(array.shape(), values);
            let array = array.map_err(|e| Some(node.error(e.to_string())))?;
            cx.constant(&array, node.input(1).unwrap_or("exponent"))
        }
        _ => cx.operand(node, 1)?,
    };
    let y = cx.add(node, Pow { x, y })?;
    cx.define(node, y)
}
