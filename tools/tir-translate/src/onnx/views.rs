//! Importers of nodes that change shapes, and of constants.

use tir_core::{Ret, Type, Value};
use tir_data::Array;
use tir_graph::{Reshape, Transpose};
use tir_onnx::{AttributeValue, Node};

use super::import::{Cx, Outcome};
use super::operands::{dimension, fail, list, numbers, required};

/// The same elements in another shape; the value itself if that is its shape.
pub(super) fn reshaped(cx: &mut Cx, node: &Node, x: Value, shape: &[i64]) -> Outcome<Value> {
    let (from, elem) = cx.shape(x);
    if from == shape {
        return Ok(x);
    }
    let y = Type::tensor(shape, elem);
    let source = Type::tensor(from, elem);
    if source.elements() != y.elements() || y.elements().is_none() {
        return Err(Some(node.error(format!("makes {y} of {source}"))));
    }
    cx.add(node, Reshape { x, y: Ret(y) })
}

pub(super) fn flatten(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axis"]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let (shape, _) = cx.shape(x);
    let (axis, rank) = (node.int("axis").map_err(Some)?.unwrap_or(1), shape.len());
    let at = if axis < 0 { axis + rank as i64 } else { axis };
    let at = usize::try_from(at).ok().filter(|at| *at <= rank);
    let Some(at) = at else {
        return Err(Some(node.error(format!(
            "attribute 'axis' is {axis} for an input of rank {rank}"
        ))));
    };
    let (outer, inner) = shape.split_at(at);
    let y = reshaped(
        cx,
        node,
        x,
        &[outer.iter().product(), inner.iter().product()],
    )?;
    cx.define(node, y)
}

/// Until version 4.
pub(super) fn reshape_by_attribute(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["consumed_inputs", "shape"])
        .map_err(Some)?;
    let wanted = node.ints("shape").map_err(Some)?.unwrap_or(&[]).to_vec();
    in_shape(cx, node, &wanted, true)
}

pub(super) fn reshape(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["allowzero"]).map_err(Some)?;
    let wanted = cx.elements(node, 1).and_then(|a| a.to_i64s());
    let Some(wanted) = wanted else {
        return cx.not_constant(node, 1, "has a shape that is not a constant");
    };
    let keep = node.int("allowzero").map_err(Some)?.unwrap_or(0) == 0;
    in_shape(cx, node, &wanted, keep)
}

/// Operand 0 in the shape that a list asks for; `keep` says that 0 keeps a dimension.
fn in_shape(cx: &mut Cx, node: &Node, wanted: &[i64], keep: bool) -> Outcome<()> {
    if let Some(x) = cx.elements(node, 0) {
        let from: Vec<i64> = x.shape().iter().map(|d| *d as i64).collect();
        let shape = resolve(node, &from, wanted, keep)?;
        let shape: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
        let array = x
            .reshaped(&shape)
            .map_err(|e| Some(node.error(e.to_string())))?;
        return cx.define_constant(node, array);
    }
    let x = cx.operand(node, 0)?;
    let shape = resolve(node, cx.shape(x).0, wanted, keep)?;
    let y = reshaped(cx, node, x, &shape)?;
    cx.define(node, y)
}

/// The shape that a list asks for: 0 keeps a dimension, -1 is what is left.
fn resolve(node: &Node, from: &[i64], wanted: &[i64], keep: bool) -> Outcome<Vec<i64>> {
    let fail = |why: &str| {
        Err(Some(node.error(format!(
            "makes shape {wanted:?} of {from:?}: {why}"
        ))))
    };
    let mut shape = wanted.to_vec();
    for (d, size) in shape.iter_mut().enumerate() {
        if *size == 0 && keep {
            match from.get(d) {
                Some(kept) => *size = *kept,
                None => return fail("a zero stands where the input has no dimension"),
            }
        }
    }
    if shape.iter().any(|d| *d < -1) || shape.iter().filter(|d| **d == -1).count() > 1 {
        return fail("a size is negative, or two are to be inferred");
    }
    let product = |shape: &[i64]| {
        shape
            .iter()
            .filter(|d| **d != -1)
            .try_fold(1i64, |n, d| n.checked_mul(*d))
    };
    let (Some(all), Some(known)) = (product(from), product(&shape)) else {
        return fail("the number of elements overflows");
    };
    if let Some(rest) = shape.iter_mut().find(|d| **d == -1) {
        if known == 0 || all % known != 0 {
            return fail("no size is left for -1");
        }
        *rest = all / known;
    }
    if product(&shape) != Some(all) {
        return fail("the numbers of elements differ");
    }
    Ok(shape)
}

pub(super) fn transpose(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["perm"]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let rank = cx.shape(x).0.len() as i64;
    let perm = node.ints("perm").map_err(Some)?;
    let perm = perm.map_or_else(|| (0..rank).rev().collect(), <[i64]>::to_vec);
    let y = cx.add(node, Transpose { x, perm })?;
    cx.define(node, y)
}

pub(super) fn identity(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    cx.alias(node)
}

pub(super) fn constant(cx: &mut Cx, node: &Node) -> Outcome<()> {
    let mut attributes = node.attributes.iter();
    let (Some((name, value)), None) = (attributes.next(), attributes.next()) else {
        return Err(Some(
            node.error("expects exactly one attribute with the value"),
        ));
    };
    let array = match (name.as_str(), value) {
        ("value", AttributeValue::Tensor(array)) => Ok(array.clone()),
        ("value_float", AttributeValue::Float(value)) => Ok(Array::scalar(*value)),
        ("value_floats", AttributeValue::Floats(values)) => {
            Array::from_vec(&[values.len()], values.clone())
        }
        // An empty list has no stated kind.
        ("value_floats", AttributeValue::Ints(values)) if values.is_empty() => {
            Array::from_vec::<f32>(&[0], Vec::new())
        }
        ("value_int", AttributeValue::Int(value)) => Ok(Array::scalar(*value)),
        ("value_ints", AttributeValue::Ints(values)) => {
            Array::from_vec(&[values.len()], values.clone())
        }
        (name, value) => {
            let kind = value.kind();
            return Err(Some(node.error(format!(
                "has its value as {kind} in attribute '{name}', which cannot be imported"
            ))));
        }
    };
    let array = array.map_err(|e| Some(node.error(e.to_string())))?;
    cx.define_constant(node, array)
}

/// Until version 12.
pub(super) fn squeeze_by_attribute(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axes"]).map_err(Some)?;
    let axes = node.ints("axes").map_err(Some)?.map(<[i64]>::to_vec);
    without(cx, node, axes)
}

pub(super) fn squeeze(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let axes = numbers(cx, node, 1, "axes")?;
    without(cx, node, axes)
}

/// Operand 0 without these unit dimensions, or without any.
fn without(cx: &mut Cx, node: &Node, axes: Option<Vec<i64>>) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let shape = cx.shape(x).0;
    let mut gone = vec![false; shape.len()];
    match axes {
        Some(axes) => {
            for axis in axes {
                let d = dimension(node, axis, shape.len())?;
                if shape[d] != 1 {
                    let size = shape[d];
                    return fail(
                        node,
                        format!("takes out dimension {d}, which has size {size}"),
                    );
                }
                gone[d] = true;
            }
        }
        None => gone = shape.iter().map(|n| *n == 1).collect(),
    }
    let kept = shape.iter().zip(&gone).filter(|(_, gone)| !**gone);
    let kept: Vec<i64> = kept.map(|(n, _)| *n).collect();
    let y = reshaped(cx, node, x, &kept)?;
    cx.define(node, y)
}

/// Until version 12.
pub(super) fn unsqueeze_by_attribute(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axes"]).map_err(Some)?;
    with(cx, node, &list(node, "axes")?)
}

pub(super) fn unsqueeze(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let axes = required(cx, node, 1, "axes")?;
    with(cx, node, &axes)
}

/// Operand 0 with unit dimensions at these places of the result.
fn with(cx: &mut Cx, node: &Node, axes: &[i64]) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let shape = cx.shape(x).0;
    let rank = shape.len() + axes.len();
    let mut new = vec![false; rank];
    for axis in axes {
        let d = dimension(node, *axis, rank)?;
        if std::mem::replace(&mut new[d], true) {
            return fail(node, format!("names dimension {d} twice"));
        }
    }
    let mut old = shape.iter();
    let size = |new: &bool| {
        if *new {
            1
        } else {
            old.next().copied().unwrap_or(1)
        }
    };
    let whole: Vec<i64> = new.iter().map(size).collect();
    let y = reshaped(cx, node, x, &whole)?;
    cx.define(node, y)
}
