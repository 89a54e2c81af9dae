//! Importers of nodes that move elements: repetition, choice, element types.

use tir_core::{Ret, Type, Value};
use tir_graph::{Cast, Expand, Gather, Where};
use tir_onnx::{ElementType, Node};

use super::import::{Cx, Outcome};
use super::make::Make;
use super::operands::{axis, dimension, fail, required};
use super::parts::along;
use super::views::reshaped;

/// A tensor broadcast to a shape.
pub(super) fn expanded(
    cx: &mut Cx,
    node: &Node,
    x: Value,
    shape: &[i64],
    elem: Type,
) -> Outcome<Value> {
    if cx.shape(x).0 == shape {
        return Ok(x);
    }
    let y = Ret(Type::tensor(shape, elem));
    cx.add(node, Expand { x, y })
}

pub(super) fn expand(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let wanted = required(cx, node, 1, "sizes")?;
    let (shape, elem) = cx.shape(x);
    // Either may be broadcast to the other.
    let whole = tir_graph::shape::broadcast(shape, &wanted);
    let whole = whole.map_err(|e| Some(node.error(e.message)))?;
    let y = expanded(cx, node, x, &whole, elem)?;
    cx.define(node, y)
}

/// A tensor repeated in each dimension: as one with two dimensions for each that is repeated.
pub(super) fn tile(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let counts = required(cx, node, 1, "repeats")?;
    let (shape, elem) = cx.shape(x);
    if counts.len() != shape.len() || counts.iter().any(|n| *n < 0) {
        return fail(node, format!("has repeats {counts:?} of {shape:?}"));
    }
    let (mut single, mut whole, mut result) = (Vec::new(), Vec::new(), Vec::new());
    for (n, count) in shape.iter().zip(&counts) {
        single.extend([1, *n]);
        whole.extend([*count, *n]);
        result.push(n.saturating_mul(*count));
    }
    let y = reshaped(cx, node, x, &single)?;
    let y = expanded(cx, node, y, &whole, elem)?;
    let y = reshaped(cx, node, y, &result)?;
    cx.define(node, y)
}

/// By constant numbers that go on regularly it is a part of the tensor.
pub(super) fn gather(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axis"]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let (shape, _) = cx.shape(x);
    let at = dimension(node, axis(node, Some(0))?, shape.len())?;
    let n = shape[at];
    let known = cx.elements(node, 1);
    if let Some(array) = &known
        && let Some(list) = array.to_i64s()
    {
        let from_end = |i: &i64| if *i < 0 { i.saturating_add(n) } else { *i };
        let places: Vec<i64> = list.iter().map(from_end).collect();
        if let Some(i) = places.iter().position(|p| !(0..n).contains(p)) {
            let index = list[i];
            return fail(
                node,
                format!("takes element {index} of dimension {at}, which has {n}"),
            );
        }
        let step = match places[..] {
            [a, b, ..] => b - a,
            _ => 1,
        };
        let regular = places.windows(2).all(|pair| pair[1] - pair[0] == step);
        if regular && step != 0 && !places.is_empty() {
            let y = along(cx, node, x, at, places[0], places.len() as i64, step)?;
            let mut result = shape.to_vec();
            result.splice(at..=at, array.shape().iter().map(|d| *d as i64));
            let y = reshaped(cx, node, y, &result)?;
            return cx.define(node, y);
        }
    }
    let indices = cx.operand(node, 1)?;
    let axis = at as i64;
    let y = cx.add(node, Gather { x, indices, axis })?;
    cx.define(node, y)
}

pub(super) fn choose(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let condition = cx.operand(node, 0)?;
    let (x, y) = (cx.operand(node, 1)?, cx.operand(node, 2)?);
    let y = cx.add(node, Where { condition, x, y })?;
    cx.define(node, y)
}

pub(super) fn cast(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["to", "saturate", "round_mode"])
        .map_err(Some)?;
    let to = node.int("to").map_err(Some)?;
    let to = to.ok_or_else(|| Some(node.missing("to")))?;
    let to = ElementType(i32::try_from(to).unwrap_or(0));
    let Some(dtype) = to.dtype() else {
        return fail(node, format!("converts to {to}, which cannot be imported"));
    };
    as_type(cx, node, tir_interp::elem_of(dtype))
}

/// Until version 6: training unless the node says that it is a test.
pub(super) fn dropout_with_is_test(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["consumed_inputs", "is_test", "ratio"])
        .map_err(Some)?;
    if node.int("is_test").map_err(Some)?.unwrap_or(0) == 0 {
        return fail(node, "is in training mode, which cannot be imported");
    }
    cx.alias(node)
}

/// Nothing is dropped but in training: a mask holds everywhere.
pub(super) fn dropout(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["ratio", "seed"]).map_err(Some)?;
    if node.input(2).is_some() {
        let training = cx.elements(node, 2).and_then(|a| a.get_int(0));
        if training != Some(0) {
            return fail(
                node,
                "may be in training mode, which cannot be imported: operand 2 is not false",
            );
        }
    }
    if node.output(1).is_some() {
        let x = cx.operand(node, 0)?;
        let mut m = Make::new(cx, node);
        let shape = m.shape(x);
        let all = m.numbers(Type::int(1), &[], &[1.0])?;
        let mask = m.expand(all, &shape)?;
        cx.define_all(node, &[x, mask]);
    }
    cx.alias(node)
}

/// Its elements have the type of those of another value.
pub(super) fn cast_like(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["saturate", "round_mode"])
        .map_err(Some)?;
    let like = cx.operand(node, 1)?;
    let elem = cx.shape(like).1;
    as_type(cx, node, elem)
}

fn as_type(cx: &mut Cx, node: &Node, elem: Type) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let (shape, from) = cx.shape(x);
    if from == elem {
        return cx.alias(node);
    }
    let y = Ret(Type::tensor(shape, elem));
    let y = cx.add(node, Cast { x, y })?;
    cx.define(node, y)
}
