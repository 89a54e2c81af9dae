//! Importers of reductions and of what is normalised by them.

use tir_core::{Op, Value};
use tir_graph::{BatchNorm, LayerNorm, Number, Softmax};
use tir_onnx::Node;

use super::groups;
use super::import::{Cx, Outcome};
use super::make::Make;
use super::operands::numbers;
use super::views::reshaped;

fn fail<T>(node: &Node, why: impl Into<String>) -> Outcome<T> {
    Err(Some(node.error(why)))
}

/// Dimension `axis` of so many; negative ones count from behind.
fn dimension(node: &Node, axis: i64, rank: usize) -> Outcome<i64> {
    let from_front = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..rank as i64).contains(&from_front) {
        return Ok(from_front);
    }
    fail(node, format!("has axis {axis} for an input of rank {rank}"))
}

/// Where a reduction says its axes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Axes {
    Attribute,
    Operand,
}

/// What a reduction is of.
pub(super) struct Reduced {
    pub x: Value,
    /// In ascending order; none where nothing is reduced.
    pub axes: Vec<i64>,
    pub keepdims: bool,
}

impl Reduced {
    /// No axes are all, unless the node says that they are none.
    pub(super) fn read(cx: &mut Cx<'_>, node: &Node, place: Axes) -> Outcome<Self> {
        let known = match place {
            Axes::Attribute => ["axes", "keepdims"],
            Axes::Operand => ["keepdims", "noop_with_empty_axes"],
        };
        node.only_attributes(&known).map_err(Some)?;
        let x = cx.operand(node, 0)?;
        let rank = cx.shape(x).0.len();
        let stated = match place {
            Axes::Attribute => node.ints("axes").map_err(Some)?.map(<[i64]>::to_vec),
            Axes::Operand => numbers(cx, node, 1, "axes")?,
        };
        let stated = stated.unwrap_or_default();
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
        if axes.is_empty() && !flag("noop_with_empty_axes", 0)? {
            axes = (0..rank as i64).collect();
        }
        let keepdims = flag("keepdims", 1)?;
        Ok(Self { x, axes, keepdims })
    }
}

pub(super) fn reduce<T: Op>(
    cx: &mut Cx,
    node: &Node,
    place: Axes,
    make: impl FnOnce(Value, Vec<i64>, bool) -> T,
) -> Outcome<()> {
    let Reduced { x, axes, keepdims } = Reduced::read(cx, node, place)?;
    if axes.is_empty() && !cx.shape(x).0.is_empty() {
        return cx.alias(node);
    }
    let y = cx.add(node, make(x, axes, keepdims))?;
    cx.define(node, y)
}

/// Until version 12: all dimensions from the axis on are one, and so are those before it.
pub(super) fn softmax_of_rows(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["axis"]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let shape = cx.shape(x).0;
    let axis = node.int("axis").map_err(Some)?.unwrap_or(1);
    let axis = dimension(node, axis, shape.len())?;
    let (outer, inner) = shape.split_at(axis as usize);
    let y = if inner.len() == 1 {
        cx.add(node, Softmax { x, axis })?
    } else {
        let rows = [outer.iter().product(), inner.iter().product()];
        let x = reshaped(cx, node, x, &rows)?;
        let y = cx.add(node, Softmax { x, axis: 1 })?;
        reshaped(cx, node, y, shape)?
    };
    cx.define(node, y)
}

pub(super) fn softmax(cx: &mut Cx, node: &Node) -> Outcome<()> {
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

pub(super) fn layer_normalization(cx: &mut Cx, node: &Node) -> Outcome<()> {
    // How mean and deviation are stored says nothing about the result here.
    node.only_attributes(&["axis", "epsilon", "stash_type"])
        .map_err(Some)?;
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
    cx.define(node, y)?;
    if node.outputs.iter().skip(1).any(Option::is_some) {
        let moments = groups::moments(&mut Make::new(cx, node), x, axis as usize, epsilon.0)?;
        cx.define_all(node, &[&[y], &moments[..]].concat());
    }
    Ok(())
}

/// Until version 6: training unless the node says that it is a test.
pub(super) fn batch_normalization_with_is_test(cx: &mut Cx, node: &Node) -> Outcome<()> {
    let known = [
        "consumed_inputs",
        "epsilon",
        "is_test",
        "momentum",
        "spatial",
    ];
    node.only_attributes(&known).map_err(Some)?;
    if node.int("is_test").map_err(Some)?.unwrap_or(0) == 0 {
        return fail(node, "is in training mode, which cannot be imported");
    }
    by_channel(cx, node)
}

pub(super) fn batch_normalization(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["epsilon", "momentum", "spatial", "training_mode"])
        .map_err(Some)?;
    if node.int("training_mode").map_err(Some)?.unwrap_or(0) != 0 {
        return fail(node, "is in training mode, which cannot be imported");
    }
    by_channel(cx, node)
}

fn by_channel(cx: &mut Cx, node: &Node) -> Outcome<()> {
    only_first_result(node)?;
    // Until version 8.
    if node.int("spatial").map_err(Some)?.unwrap_or(1) == 0 {
        return fail(
            node,
            "normalizes each element of an image, which cannot be imported",
        );
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
