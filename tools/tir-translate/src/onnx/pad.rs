//! Importers of nodes that put a border around a tensor.

use tir_core::{Attr, Type, Value};
use tir_data::Array;
use tir_graph::{Concat, Pad};
use tir_onnx::Node;

use super::computed;
use super::import::{Cx, LARGEST, Outcome};
use super::make::Make;
use super::movement::expanded;
use super::operands::{dimension, fail, list, numbers, required};
use super::parts::along;

/// Until version 10.
pub(super) fn pad_by_attributes(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["mode", "pads", "value"])
        .map_err(Some)?;
    let value = node.float("value").map_err(Some)?.map(Array::scalar);
    pad_with(cx, node, list(node, "pads")?, None, value)
}

pub(super) fn pad(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&["mode"]).map_err(Some)?;
    if computed::applies(cx, node, &[1, 3]) {
        return computed::pad(cx, node);
    }
    // All are looked at before one of them is an error.
    let pads = required(cx, node, 1, "pads");
    let axes = numbers(cx, node, 3, "axes");
    let value = cx.elements(node, 2).filter(|array| array.len() == 1);
    let (pads, axes) = (pads?, axes?);
    let (Some(number), None) = (cx.optional(node, 2)?, &value) else {
        return pad_with(cx, node, pads, axes, value);
    };
    if node.string("mode").map_err(Some)?.unwrap_or("constant") != "constant" {
        return pad_with(cx, node, pads, axes, None);
    }
    // A number that is not known is chosen where a border of ones is around zeros.
    let x = cx.operand(node, 0)?;
    let shape = cx.shape(x).0.to_vec();
    pad_with(cx, node, pads.clone(), axes.clone(), None)?;
    let y = cx.value(node.output(0).unwrap_or_default())?;
    let mut m = Make::new(cx, node);
    let none = m.numbers(Type::int(1), &[], &[0.0])?;
    let none = m.expand(none, &shape)?;
    let border = bordered(m.cx, node, none, pads, axes, Some(Array::scalar(1i64)))?;
    let mut m = Make::new(cx, node);
    let number = m.reshape(number, &[])?;
    let y = m.choose(border, number, y)?;
    m.done(y)
}

fn pad_with(
    cx: &mut Cx,
    node: &Node,
    pads: Vec<i64>,
    axes: Option<Vec<i64>>,
    value: Option<Array>,
) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let y = bordered(cx, node, x, pads, axes, value)?;
    cx.define(node, y)
}

fn bordered(
    cx: &mut Cx,
    node: &Node,
    mut x: Value,
    pads: Vec<i64>,
    axes: Option<Vec<i64>>,
    value: Option<Array>,
) -> Outcome<Value> {
    let (shape, elem) = cx.shape(x);
    let rank = shape.len();
    let axes = axes.unwrap_or_else(|| (0..rank as i64).collect());
    if pads.len() != 2 * axes.len() {
        let (found, wanted) = (pads.len(), 2 * axes.len());
        return fail(node, format!("has {found} pads, expected {wanted}"));
    }
    if let Some(n) = pads.iter().find(|n| n.unsigned_abs() > LARGEST as u64) {
        return fail(node, format!("has pads of {n}, expected {LARGEST} at most"));
    }
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    for (i, axis) in axes.iter().enumerate() {
        let d = dimension(node, *axis, rank)?;
        (low[d], high[d]) = (pads[i], pads[axes.len() + i]);
    }
    let mode = node.string("mode").map_err(Some)?.unwrap_or("constant");
    // Negative ones cut off.
    for d in 0..rank {
        let (before, behind) = ((-low[d]).max(0), (-high[d]).max(0));
        let size = cx.shape(x).0[d] - before - behind;
        if size < 0 {
            return fail(node, format!("cuts more than there is off dimension {d}"));
        }
        x = along(cx, node, x, d, before, size, 1)?;
        (low[d], high[d]) = (low[d].max(0), high[d].max(0));
    }
    if mode != "constant" {
        for d in 0..rank {
            x = continued(cx, node, x, d, [low[d], high[d]], mode)?;
        }
        return Ok(x);
    }
    let value = match (elem.is_float(), value) {
        (true, value) => Attr::float(value.and_then(|a| a.get_f64(0)).unwrap_or(0.0), elem),
        (false, value) => {
            let number = value.and_then(|a| a.get_int(0)).unwrap_or(0);
            Attr::int(number as i64, elem)
        }
    };
    cx.add(
        node,
        Pad {
            x,
            low,
            high,
            value,
        },
    )
}

/// A dimension continued on both sides from what is in it: `edge` repeats the outermost element,
/// `reflect` mirrors at it, `wrap` goes on at the other end.
fn continued(
    cx: &mut Cx,
    node: &Node,
    x: Value,
    d: usize,
    [low, high]: [i64; 2],
    mode: &str,
) -> Outcome<Value> {
    let n = cx.shape(x).0[d];
    if low == 0 && high == 0 {
        return Ok(x);
    }
    let reach = match mode {
        "reflect" => n - 1,
        "wrap" => n,
        "edge" if n > 0 => i64::MAX,
        "edge" => 0,
        other => {
            return fail(
                node,
                format!("attribute 'mode' is '{other}', expected constant, edge, reflect or wrap"),
            );
        }
    };
    if low.max(high) > reach {
        let more = low.max(high);
        return fail(
            node,
            format!(
                "adds {more} elements to the {n} of dimension {d} by mode '{mode}', which cannot be imported"
            ),
        );
    }
    let mut xs = Vec::new();
    for (at_end, count) in [(false, low), (true, high)] {
        if at_end {
            xs.push(x);
        }
        if count == 0 {
            continue;
        }
        let added = match (mode, at_end) {
            ("reflect", false) => along(cx, node, x, d, low, count, -1)?,
            ("reflect", true) => along(cx, node, x, d, n - 2, count, -1)?,
            ("wrap", false) => along(cx, node, x, d, n - low, count, 1)?,
            ("wrap", true) => along(cx, node, x, d, 0, count, 1)?,
            _ => {
                let one = along(cx, node, x, d, if at_end { n - 1 } else { 0 }, 1, 1)?;
                let (shape, elem) = cx.shape(x);
                let mut shape = shape.to_vec();
                shape[d] = count;
                expanded(cx, node, one, &shape, elem)?
            }
        };
        xs.push(added);
    }
    let axis = d as i64;
    cx.add(node, Concat { xs, axis })
}
