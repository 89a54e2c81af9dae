//! Importers of reductions and of what is normalised by them.

use tir_core::{Op, Value};
use tir_graph::{
    BatchNorm, LayerNorm, Number, ReduceMax, ReduceMean, ReduceMin, ReduceSum, Softmax,
};
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::ops::Importer;

/// The importer of such an operator.
pub(super) fn importer(op: &str) -> Option<Importer> {
    macro_rules! reduce {
        ($name:ident) => {
            |cx, node| reduce(cx, node, |x, axes, keepdims| $name { x, axes, keepdims })
        };
    }
    Some(match op {
        "BatchNormalization" => batch_normalization,
        "LayerNormalization" => layer_normalization,
        "ReduceMax" => reduce!(ReduceMax),
        "ReduceMean" => reduce!(ReduceMean),
        "ReduceMin" => reduce!(ReduceMin),
        "ReduceSum" => reduce!(ReduceSum),
        "Softmax" => softmax,
        _ => return None,
    })
}

fn fail<T>(node: &Node, why: impl Into<String>) -> Outcome<T> {
    Err(Some(node.error(why)))
}

/// Dimension `axis` of so many; negative ones count from behind.
pub(super) fn dimension(node: &Node, axis: i64, rank: usize) -> Outcome<i64> {
    let from_front = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..rank as i64).contains(&from_front) {
        return Ok(from_front);
    }
    fail(node, format!("has axis {axis} for an input of rank {rank}"))
}

/// Axes stand in an attribute (up to opset 12 or 17) or an operand; none are all, unless the node
/// says that they are none.
fn reduce<T: Op>(
    cx: &mut Cx,
    node: &Node,
    make: impl FnOnce(Value, Vec<i64>, bool) -> T,
) -> Outcome<()> {
    node.only_attributes(&["axes", "keepdims", "noop_with_empty_axes"])
        .map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let rank = cx.shape(x).0.len();
    let stated = match (node.ints("axes").map_err(Some)?, node.input(1)) {
        (Some(axes), _) => axes.to_vec(),
        (None, None) => Vec::new(),
        (None, Some(_)) => match cx.elements(node, 1).and_then(|a| a.to_i64s()) {
            Some(axes) => axes,
            None => return fail(node, "has axes that are not a constant"),
        },
    };
    let flag = |name: &str, otherwise: i64| -> Outcome<bool> {
        Ok(node.int(name).map_err(Some)?.unwrap_or(otherwise) != 0)
    };
    let mut axes = Vec::new();
    for axis in &stated {
        axes.push(dimension(node, *axis, rank)?);
    }
    axes.sort_unstable();
    axes.dedup();
    if axes.len() != stated.len() {
        return fail(node, format!("names a dimension twice: {stated:?}"));
    }
    if axes.is_empty() {
        if flag("noop_with_empty_axes", 0)? {
            return cx.alias(node);
        }
        axes = (0..rank as i64).collect();
    }
    let y = cx.add(node, make(x, axes, flag("keepdims", 1)?))?;
    cx.define(node, y)
}

fn softmax(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axis"]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let axis = node.int("axis").map_err(Some)?.unwrap_or(-1);
    let axis = dimension(node, axis, cx.shape(x).0.len())?;
    let y = cx.add(node, Softmax { x, axis })?;
    cx.define(node, y)
}

fn only_first_result(node: &Node) -> Outcome<()> {
    if node.outputs.iter().skip(1).any(Option::is_some) {
        return fail(node, "has more than one result, which cannot be imported");
    }
    Ok(())
}

fn epsilon(node: &Node) -> Outcome<Number> {
    let epsilon = node.float("epsilon").map_err(Some)?.unwrap_or(1e-5);
    Ok(Number(epsilon.into()))
}

fn layer_normalization(cx: &mut Cx, node: &Node) -> Outcome<()> {
    // How mean and deviation are stored says nothing about the result here.
    node.only_attributes(&["axis", "epsilon", "stash_type"])
        .map_err(Some)?;
    only_first_result(node)?;
    let (x, scale) = (cx.operand(node, 0)?, cx.operand(node, 1)?);
    let bias = cx.optional(node, 2)?;
    let axis = node.int("axis").map_err(Some)?.unwrap_or(-1);
    let axis = dimension(node, axis, cx.shape(x).0.len())?;
    let epsilon = epsilon(node)?;
    let op = LayerNorm {
        x,
        scale,
        bias,
        axis,
        epsilon,
    };
    let y = cx.add(node, op)?;
    cx.define(node, y)
}

fn batch_normalization(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["epsilon", "momentum", "training_mode"])
        .map_err(Some)?;
    only_first_result(node)?;
    if node.int("training_mode").map_err(Some)?.unwrap_or(0) != 0 {
        return fail(node, "is in training mode, which cannot be imported");
    }
    let op = BatchNorm {
        x: cx.operand(node, 0)?,
        scale: cx.operand(node, 1)?,
        bias: cx.operand(node, 2)?,
        mean: cx.operand(node, 3)?,
        var: cx.operand(node, 4)?,
        epsilon: epsilon(node)?,
    };
    let y = cx.add(node, op)?;
    cx.define(node, y)
}
