//! What nodes say beside their operands: attributes, and operands that must be constants.

use tir_onnx::Node;

use super::import::{Cx, Outcome};

pub(super) fn fail<T>(node: &Node, why: impl Into<String>) -> Outcome<T> {
    Err(Some(node.error(why)))
}

/// A dimension, counted from the end if it is negative.
pub(super) fn dimension(node: &Node, axis: i64, rank: usize) -> Outcome<usize> {
    let at = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(at) {
        Ok(at) if at < rank => Ok(at),
        _ => fail(node, format!("has axis {axis} for rank {rank}")),
    }
}

/// The integers of operand `k`, which must be a constant; `None` if it is omitted.
pub(super) fn numbers(cx: &Cx, node: &Node, k: usize, what: &str) -> Outcome<Option<Vec<i64>>> {
    if node.input(k).is_none() {
        return Ok(None);
    }
    if cx.is_broken(node, k) {
        return Err(None);
    }
    let list = cx.elements(node, k).and_then(|a| a.to_i64s());
    match list {
        Some(list) => Ok(Some(list)),
        None => cx.not_constant(
            node,
            k,
            &format!("has {what} that are not constant integers"),
        ),
    }
}

pub(super) fn required(cx: &Cx, node: &Node, k: usize, what: &str) -> Outcome<Vec<i64>> {
    match numbers(cx, node, k, what)? {
        Some(list) => Ok(list),
        None => fail(node, format!("operand {k} is missing")),
    }
}

/// The integers of an attribute that must be there.
pub(super) fn list(node: &Node, name: &str) -> Outcome<Vec<i64>> {
    let list = node.ints(name).map_err(Some)?;
    list.map(<[i64]>::to_vec)
        .ok_or_else(|| Some(node.missing(name)))
}

pub(super) fn axis(node: &Node, default: Option<i64>) -> Outcome<i64> {
    let said = node.int("axis").map_err(Some)?.or(default);
    said.ok_or_else(|| Some(node.missing("axis")))
}
