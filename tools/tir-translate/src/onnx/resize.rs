//! Importers of Resize and Upsample.

use tir_core::{Attr, Ret, Type};
use tir_graph::{Coordinates, Resize, ResizeMode, Rounding};
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::operands::{dimension, fail, numbers};

fn keyword<T>(
    node: &Node,
    name: &str,
    default: &str,
    of: impl Fn(&str) -> Option<T>,
) -> Outcome<T> {
    let given = node.string(name).map_err(Some)?.unwrap_or(default);
    match of(given) {
        Some(found) => Ok(found),
        None => fail(
            node,
            format!("attribute '{name}' is '{given}', which cannot be imported"),
        ),
    }
}

pub(super) fn resize(cx: &mut Cx, node: &Node) -> Outcome<()> {
    let known = [
        "antialias",
        "axes",
        "coordinate_transformation_mode",
        "cubic_coeff_a",
        "exclude_outside",
        "extrapolation_value",
        "keep_aspect_ratio_policy",
        "mode",
        "nearest_mode",
    ];
    node.only_attributes(&known).map_err(Some)?;
    let mode = keyword(node, "mode", "nearest", ResizeMode::from_keyword)?;
    let coordinates = "coordinate_transformation_mode";
    let coordinates = keyword(node, coordinates, "half_pixel", Coordinates::from_keyword)?;
    let rounding = "round_prefer_floor";
    let rounding = keyword(node, "nearest_mode", rounding, Rounding::from_keyword)?;
    if node.int("antialias").map_err(Some)?.unwrap_or(0) != 0 {
        return fail(
            node,
            "attribute 'antialias' is set, which cannot be imported",
        );
    }
    let x = cx.operand(node, 0)?;
    let (shape, _) = cx.shape(x);
    let rank = shape.len();
    let axes = match node.ints("axes").map_err(Some)? {
        Some(axes) => axes
            .iter()
            .map(|axis| dimension(node, *axis, rank))
            .collect::<Outcome<Vec<usize>>>()?,
        None => (0..rank).collect(),
    };
    let how = (mode, coordinates, rounding);
    let given = node.input(2).is_some() && cx.elements(node, 2).is_none_or(|a| !a.is_empty());
    if given {
        let scales = floats(cx, node, 2)?;
        return by_scales(cx, node, &axes, &scales, how);
    }
    let Some(list) = numbers(cx, node, 3, "sizes")? else {
        return fail(node, "has neither scales nor sizes");
    };
    if list.len() != axes.len() {
        let (found, wanted) = (list.len(), axes.len());
        return fail(node, format!("has {found} sizes for {wanted} dimensions"));
    }
    let (mut result, mut scales) = (shape.to_vec(), vec![1f32; rank]);
    let quotient = |(d, size): (&usize, &i64)| *size as f32 / shape[*d] as f32;
    let quotients: Vec<f32> = axes.iter().zip(&list).map(quotient).collect();
    let kept = kept_ratio(node, &quotients)?;
    for (i, d) in axes.iter().enumerate() {
        scales[*d] = kept.unwrap_or(quotients[i]);
        result[*d] = match kept {
            Some(scale) => (scale * shape[*d] as f32).round_ties_even() as i64,
            None => list[i],
        };
    }
    resized(cx, node, result, scales, how)
}

/// Upsample, and the first Resize: scales are in an attribute or operand 1, coordinates are
/// multiplied with them, and cut.
pub(super) fn upsample(cx: &mut Cx, node: &Node, attribute: bool) -> Outcome<()> {
    let known: &[&str] = if attribute {
        &["mode", "scales"]
    } else {
        &["mode"]
    };
    node.only_attributes(known).map_err(Some)?;
    let mode = keyword(node, "mode", "nearest", ResizeMode::from_keyword)?;
    let scales = match attribute {
        false => floats(cx, node, 1)?,
        true => match node.floats("scales").map_err(Some)? {
            Some(scales) => scales.to_vec(),
            None => return Err(Some(node.missing("scales"))),
        },
    };
    // Which neighbour a smaller image has is not said.
    if mode == ResizeMode::Nearest && scales.iter().any(|s| *s < 1.0) {
        return fail(
            node,
            format!("makes an image smaller by scales {scales:?}, which cannot be imported"),
        );
    }
    let x = cx.operand(node, 0)?;
    let axes: Vec<usize> = (0..cx.shape(x).0.len()).collect();
    let how = (mode, Coordinates::Asymmetric, Rounding::Floor);
    by_scales(cx, node, &axes, &scales, how)
}

/// How an image gets another size.
type How = (ResizeMode, Coordinates, Rounding);

/// The floats of operand `k`, which must be a constant.
fn floats(cx: &Cx, node: &Node, k: usize) -> Outcome<Vec<f32>> {
    let list = cx.elements(node, k);
    match list.and_then(|a| a.as_f32().map(|s| s.to_vec())) {
        Some(list) => Ok(list),
        None => fail(node, "has scales that are not constant floats"),
    }
}

fn by_scales(cx: &mut Cx, node: &Node, axes: &[usize], list: &[f32], how: How) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let (shape, _) = cx.shape(x);
    if list.len() != axes.len() {
        let (found, wanted) = (list.len(), axes.len());
        return fail(node, format!("has {found} scales for {wanted} dimensions"));
    }
    let (mut result, mut scales) = (shape.to_vec(), vec![1f32; shape.len()]);
    for (d, scale) in axes.iter().zip(list) {
        scales[*d] = *scale;
        result[*d] = (shape[*d] as f32 * scale).floor() as i64;
    }
    resized(cx, node, result, scales, how)
}

fn resized(
    cx: &mut Cx,
    node: &Node,
    result: Vec<i64>,
    scales: Vec<f32>,
    (mode, coordinates, rounding): How,
) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let (shape, elem) = cx.shape(x);
    let quotient = |d: usize| result[d] as f32 / shape[d] as f32;
    let exact = (0..shape.len()).all(|d| scales[d] == quotient(d));
    let scale = |s: &f32| Attr::float(f64::from(*s), Type::f32());
    let scales = (!exact).then(|| scales.iter().map(scale).collect());
    let y = Ret(Type::tensor(result, elem));
    let op = Resize {
        x,
        mode,
        coordinates,
        rounding,
        scales,
        y,
    };
    let y = cx.add(node, op)?;
    cx.define(node, y)
}

/// The one scale of all dimensions, if the ratio of the sizes is to be kept.
fn kept_ratio(node: &Node, quotients: &[f32]) -> Outcome<Option<f32>> {
    let policy = "keep_aspect_ratio_policy";
    let given = node.string(policy).map_err(Some)?.unwrap_or("stretch");
    let quotients = quotients.iter().copied();
    Ok(match given {
        "stretch" => None,
        "not_larger" => Some(quotients.fold(f32::INFINITY, f32::min)),
        "not_smaller" => Some(quotients.fold(0.0, f32::max)),
        other => {
            let text = format!("attribute '{policy}' is '{other}', which cannot be imported");
            return fail(node, text);
        }
    })
}
