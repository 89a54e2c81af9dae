//! Importers of Resize and Upsample.

use tir_core::{Attr, Ret, Type};
use tir_graph::{Coordinates, Resize, ResizeMode, Rounding};
use tir_onnx::Node;

use super::computed;
use super::import::{Cx, Outcome};
use super::operands::{dimension, fail, numbers};
use super::resample::{Along, Kernel, Resampling};
use super::rescale::{self, Said};

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
    let how = Asked::read(node)?;
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
    let given = node.input(2).is_some() && cx.elements(node, 2).is_none_or(|a| !a.is_empty());
    if given && computed::applies(cx, node, &[2]) {
        return rescale::by_operand(cx, node, &axes, &Said::Scales(2), &how);
    }
    if given {
        let scales = floats(cx, node, 2)?;
        return by_scales(cx, node, &axes, &scales, &how);
    }
    let policy = node.string("keep_aspect_ratio_policy").map_err(Some)?;
    if let Some(policy @ ("not_larger" | "not_smaller")) = policy
        && computed::applies(cx, node, &[3])
    {
        let smallest = policy == "not_larger";
        return rescale::by_operand(cx, node, &axes, &Said::Kept { smallest }, &how);
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
    resized(cx, node, result, scales, &axes, &how)
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
    let how = Asked {
        mode: Some(mode),
        coordinates: Some(Coordinates::Asymmetric),
        rounding: Rounding::Floor,
        cubic: -0.75,
        antialias: false,
        exclude_outside: false,
        beyond: 0.0,
        never_smaller: mode == ResizeMode::Nearest,
    };
    let x = cx.operand(node, 0)?;
    let axes: Vec<usize> = (0..cx.shape(x).0.len()).collect();
    if !attribute && computed::applies(cx, node, &[1]) {
        return rescale::by_operand(cx, node, &axes, &Said::Scales(1), &how);
    }
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
    by_scales(cx, node, &axes, &scales, &how)
}

/// How an image gets another size.
pub(super) struct Asked {
    /// None for cubic.
    pub mode: Option<ResizeMode>,
    /// None for `tf_crop_and_resize`.
    pub coordinates: Option<Coordinates>,
    pub rounding: Rounding,
    /// The number of a cubic kernel.
    pub cubic: f64,
    pub antialias: bool,
    pub exclude_outside: bool,
    /// What is beyond a part that is cut out.
    pub beyond: f64,
    /// Whether no scale may be below 1.
    pub never_smaller: bool,
}

impl Asked {
    fn read(node: &Node) -> Outcome<Self> {
        let mode = keyword(node, "mode", "nearest", |word| match word {
            "cubic" => Some(None),
            word => ResizeMode::from_keyword(word).map(Some),
        })?;
        let coordinates = "coordinate_transformation_mode";
        let coordinates = keyword(node, coordinates, "half_pixel", |word| match word {
            "tf_crop_and_resize" => Some(None),
            word => Coordinates::from_keyword(word).map(Some),
        })?;
        let rounding = "round_prefer_floor";
        let rounding = keyword(node, "nearest_mode", rounding, Rounding::from_keyword)?;
        let flag =
            |name: &str| -> Outcome<bool> { Ok(node.int(name).map_err(Some)?.unwrap_or(0) != 0) };
        let float = |name: &str, otherwise: f32| -> Outcome<f64> {
            Ok(node.float(name).map_err(Some)?.unwrap_or(otherwise).into())
        };
        Ok(Self {
            mode,
            coordinates,
            rounding,
            cubic: float("cubic_coeff_a", -0.75)?,
            antialias: flag("antialias")? && mode != Some(ResizeMode::Nearest),
            exclude_outside: flag("exclude_outside")?,
            beyond: float("extrapolation_value", 0.0)?,
            never_smaller: false,
        })
    }

    /// Whether graph has an op for it.
    fn plain(&self) -> Option<(ResizeMode, Coordinates)> {
        let plain = !self.antialias && !self.exclude_outside;
        self.mode.zip(self.coordinates).filter(|_| plain)
    }

    fn resampling(&self) -> Resampling {
        let round: fn(f64) -> f64 = match self.rounding {
            Rounding::Floor => f64::floor,
            Rounding::Ceil => f64::ceil,
            Rounding::PreferFloor => |x| (x - 0.5).ceil(),
            Rounding::PreferCeil => |x| (x + 0.5).floor(),
        };
        Resampling {
            kernel: match self.mode {
                Some(ResizeMode::Nearest) => Kernel::Nearest(round),
                Some(ResizeMode::Linear) => Kernel::Linear,
                None => Kernel::Cubic(self.cubic),
            },
            antialias: self.antialias,
            exclude_outside: self.exclude_outside,
            beyond: self.coordinates.is_none().then_some(self.beyond),
        }
    }
}

/// Where the elements of a dimension of `to` lie in one of `from`, as ONNX says.
fn places(coordinates: Coordinates, from: i64, to: i64, scale: f64) -> Vec<f64> {
    let (whole, made) = (from as f64, to as f64);
    let place = |at: i64| {
        let x = at as f64;
        let half = (x + 0.5) / scale - 0.5;
        match coordinates {
            Coordinates::HalfPixel => half,
            Coordinates::PytorchHalfPixel if to > 1 => half,
            Coordinates::AlignCorners if to > 1 => x * (whole - 1.0) / (made - 1.0),
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners => 0.0,
            Coordinates::Asymmetric => x / scale,
            Coordinates::HalfPixelSymmetric => whole / 2.0 * (1.0 - made / (scale * whole)) + half,
        }
    };
    (0..to).map(place).collect()
}

/// The floats of operand `k`, which must be a constant.
fn floats(cx: &Cx, node: &Node, k: usize) -> Outcome<Vec<f32>> {
    floats_of(cx, node, k, "scales that are not constant floats")
}

fn floats_of(cx: &Cx, node: &Node, k: usize, what: &str) -> Outcome<Vec<f32>> {
    let list = cx.elements(node, k);
    match list {
        Some(list) => Ok(list.iter_f64().map(|v| v as f32).collect()),
        None => cx.not_constant(node, k, &format!("has {what}")),
    }
}

fn by_scales(cx: &mut Cx, node: &Node, axes: &[usize], list: &[f32], how: &Asked) -> Outcome<()> {
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
    resized(cx, node, result, scales, axes, how)
}

fn resized(
    cx: &mut Cx,
    node: &Node,
    result: Vec<i64>,
    scales: Vec<f32>,
    axes: &[usize],
    how: &Asked,
) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let (shape, elem) = cx.shape(x);
    let rounding = how.rounding;
    if how.coordinates.is_none() && cx.is_open(node, 1) {
        return rescale::by_part(cx, node, axes, &result, &scales, how);
    }
    let Some((mode, coordinates)) = how.plain() else {
        let parts = match how.coordinates {
            Some(_) => None,
            None => Some(floats_of(
                cx,
                node,
                1,
                "a part that is not constant floats",
            )?),
        };
        if parts
            .as_ref()
            .is_some_and(|parts| parts.len() != 2 * axes.len())
        {
            return fail(
                node,
                format!("has no begin and end of a part for {} axes", axes.len()),
            );
        }
        let mut dims = Vec::new();
        for d in 0..shape.len() {
            let (from, to, scale) = (shape[d], result[d], f64::from(scales[d]));
            if from < 1 && to > 0 {
                return fail(
                    node,
                    format!("makes {to} elements of none in dimension {d}"),
                );
            }
            cx.room(node, &[to])?;
            let places = match (how.coordinates, &parts) {
                (Some(coordinates), _) if from != to || scale != 1.0 => {
                    places(coordinates, from, to, scale)
                }
                (None, Some(parts)) => match axes.iter().position(|a| *a == d) {
                    Some(i) => {
                        let (start, end) = (f64::from(parts[i]), f64::from(parts[axes.len() + i]));
                        let last = (from - 1) as f64;
                        let step = match to {
                            1 => 0.0,
                            _ => (end - start) * last / (to - 1) as f64,
                        };
                        let first = match to {
                            1 => (start + end) * last / 2.0,
                            _ => start * last,
                        };
                        if start == 0.0 && end == 1.0 && from == to {
                            continue;
                        }
                        (0..to).map(|at| first + at as f64 * step).collect()
                    }
                    None => continue,
                },
                _ => continue,
            };
            dims.push(Along {
                dim: d,
                places,
                scale,
            });
        }
        return how.resampling().apply(cx, node, x, &dims);
    };
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
