//! Importers of nodes that compute.

use tir_core::{Type, Value};
use tir_data::Array;
use tir_graph::{AvgPool, Conv2d, Gemm, GlobalAvgPool, MatMul, MatMulInteger, MaxPool, Mul};
use tir_onnx::Node;

use super::convolution;
use super::import::{Cx, Outcome};
use super::make::Make;
use super::views::reshaped;
use super::window::Windows;

fn fail<T>(node: &Node, why: impl Into<String>) -> Outcome<T> {
    Err(Some(node.error(why)))
}

/// The input as a batch of images: one dimension behind the first two gets a unit one before it.
fn image(cx: &mut Cx, node: &Node, x: Value) -> Outcome<Value> {
    match *cx.shape(x).0 {
        [_, _, _, _] => Ok(x),
        [n, c, l] => reshaped(cx, node, x, &[n, c, 1, l]),
        ref shape => {
            let rank = shape.len();
            fail(
                node,
                format!("has an input of rank {rank}, expected 3 or 4"),
            )
        }
    }
}

/// The result of an op on images, in the rank that the node's input has.
pub(super) fn in_rank(cx: &mut Cx, node: &Node, y: Value, rank: usize) -> Outcome<Value> {
    match *cx.shape(y).0 {
        [n, c, 1, l] if rank == 3 => reshaped(cx, node, y, &[n, c, l]),
        _ => Ok(y),
    }
}

/// The sizes behind the first two dimensions.
fn spatial(shape: &[i64]) -> &[i64] {
    shape.get(2..).unwrap_or(&[])
}

/// The attributes of convolutions.
const CONVOLUTION: [&str; 6] = [
    "auto_pad",
    "dilations",
    "group",
    "kernel_shape",
    "pads",
    "strides",
];

/// What convolutions of floats and of integers share.
pub(super) struct Convolution {
    /// The input as images.
    pub x: Value,
    /// The weights, of images.
    pub w: Value,
    /// The rank of the node's input.
    pub rank: usize,
    pub windows: Windows,
    pub groups: i64,
}

impl Convolution {
    /// Operands `x` and `w` of a node, and its attributes.
    pub(super) fn read(cx: &mut Cx, node: &Node, x: usize, w: usize) -> Outcome<Self> {
        node.only_attributes(&CONVOLUTION).map_err(Some)?;
        let (x, w) = (cx.operand(node, x)?, cx.operand(node, w)?);
        let (shape, weights) = (cx.shape(x).0, cx.shape(w).0);
        let kernel = spatial(weights);
        if let Some(stated) = node.ints("kernel_shape").map_err(Some)?
            && stated != kernel
        {
            return fail(
                node,
                format!("attribute 'kernel_shape' is {stated:?}, the weights are {weights:?}"),
            );
        }
        Ok(Self {
            windows: Windows::read(node, spatial(shape), kernel)?.two_dimensional(),
            groups: node.int("group").map_err(Some)?.unwrap_or(1),
            x: image(cx, node, x)?,
            w: image(cx, node, w)?,
            rank: shape.len(),
        })
    }
}

pub(super) fn conv(cx: &mut Cx, node: &Node) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    if cx.shape(x).0.len() == 5 {
        node.only_attributes(&CONVOLUTION).map_err(Some)?;
        return convolution::conv_of_volumes(cx, node);
    }
    let Convolution {
        x,
        w,
        rank,
        windows,
        groups,
    } = Convolution::read(cx, node, 0, 1)?;
    let bias = cx.optional(node, 2)?;
    let Windows {
        strides,
        pads,
        dilations,
        ..
    } = windows;
    let y = cx.add(
        node,
        Conv2d {
            x,
            w,
            bias,
            strides,
            pads,
            dilations,
            groups,
        },
    )?;
    let y = in_rank(cx, node, y, rank)?;
    cx.define(node, y)
}

/// A pool: of largest elements, or of means, with or without the padding.
fn pool(cx: &mut Cx, node: &Node, average: Option<bool>) -> Outcome<()> {
    let x = cx.operand(node, 0)?;
    let shape = cx.shape(x).0;
    let kernel = node.ints("kernel_shape").map_err(Some)?;
    let kernel = kernel.ok_or_else(|| Some(node.missing("kernel_shape")))?;
    let windows = Windows::read(node, spatial(shape), kernel)?;
    let ceil_mode = node.int("ceil_mode").map_err(Some)?.unwrap_or(0) != 0;
    let places = node.output(1).is_some() && average.is_none();
    let y = if kernel.len() == 3 {
        convolution::pool_of_volumes(&mut Make::new(cx, node), x, &windows, ceil_mode, average)?
    } else {
        let Windows {
            kernel,
            strides,
            pads,
            dilations,
        } = windows.clone().two_dimensional();
        let x = image(cx, node, x)?;
        let y = match average {
            None => cx.add(
                node,
                MaxPool {
                    x,
                    kernel,
                    strides,
                    pads,
                    dilations,
                    ceil_mode,
                },
            )?,
            Some(count_include_pad) => cx.add(
                node,
                AvgPool {
                    x,
                    kernel,
                    strides,
                    pads,
                    dilations,
                    ceil_mode,
                    count_include_pad,
                },
            )?,
        };
        in_rank(cx, node, y, shape.len())?
    };
    if !places {
        return cx.define(node, y);
    }
    let columns = node.int("storage_order").map_err(Some)?.unwrap_or(0) != 0;
    let places = convolution::places(&mut Make::new(cx, node), x, y, &windows, columns)?;
    cx.define_all(node, &[y, places]);
    Ok(())
}

pub(super) fn max_pool(cx: &mut Cx, node: &Node) -> Outcome<()> {
    let known = [
        "auto_pad",
        "ceil_mode",
        "dilations",
        "kernel_shape",
        "pads",
        "storage_order",
        "strides",
    ];
    node.only_attributes(&known).map_err(Some)?;
    pool(cx, node, None)
}

pub(super) fn average_pool(cx: &mut Cx, node: &Node) -> Outcome<()> {
    let known = [
        "auto_pad",
        "ceil_mode",
        "count_include_pad",
        "dilations",
        "kernel_shape",
        "pads",
        "strides",
    ];
    node.only_attributes(&known).map_err(Some)?;
    let count_include_pad = node.int("count_include_pad").map_err(Some)?.unwrap_or(0) != 0;
    pool(cx, node, Some(count_include_pad))
}

pub(super) fn global_average_pool(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let x = cx.operand(node, 0)?;
    let rank = cx.shape(x).0.len();
    if rank > 4 {
        let axes: Vec<usize> = (2..rank).collect();
        let y = Make::new(cx, node).mean(x, &axes)?;
        return cx.define(node, y);
    }
    let x = image(cx, node, x)?;
    let y = cx.add(node, GlobalAvgPool { x })?;
    let y = in_rank(cx, node, y, rank)?;
    cx.define(node, y)
}

/// Each element times a factor, in the array's own type; `None` for integers.
fn scaled(array: &Array, factor: f32) -> Option<Array> {
    let shape = array.shape();
    if let Some(values) = array.as_f32() {
        return Array::from_vec(shape, values.iter().map(|v| v * factor).collect()).ok();
    }
    let values = array.as_slice::<f64>()?;
    Array::from_vec(
        shape,
        values.iter().map(|v| v * f64::from(factor)).collect(),
    )
    .ok()
}

/// Operand `k` times a factor: a constant is multiplied here, else by an op.
fn times(cx: &mut Cx, node: &Node, k: usize, factor: f32) -> Outcome<Value> {
    if factor == 1.0 {
        return cx.operand(node, k);
    }
    if let Some(array) = cx.elements(node, k).and_then(|a| scaled(&a, factor)) {
        let name = format!("{}_scaled", node.input(k).unwrap_or("constant"));
        return Ok(cx.constant(&array, &name));
    }
    let x = cx.operand(node, k)?;
    let (_, elem) = cx.shape(x);
    let one = if elem == tir_core::Type::f32() {
        Array::scalar(factor)
    } else {
        return fail(
            node,
            format!("multiplies {elem} by {factor}, which cannot be imported"),
        );
    };
    let y = cx.constant(&one, "factor");
    cx.add(node, Mul { x, y })
}

/// `more` are attributes of some versions, which change nothing: without `broadcast` the addend has
/// the shape of the result.
pub(super) fn gemm(cx: &mut Cx, node: &Node, more: &[&str]) -> Outcome<()> {
    let known = [&["alpha", "beta", "transA", "transB"], more].concat();
    node.only_attributes(&known).map_err(Some)?;
    let float = |name: &str| -> Outcome<f32> { Ok(node.float(name).map_err(Some)?.unwrap_or(1.0)) };
    let flag =
        |name: &str| -> Outcome<bool> { Ok(node.int(name).map_err(Some)?.unwrap_or(0) != 0) };
    let (alpha, beta) = (float("alpha")?, float("beta")?);
    let (trans_a, trans_b) = (flag("transA")?, flag("transB")?);
    // α·a·b = a·(α·b), where α·b can be computed here, else (α·a)·b.
    let (a, b) = match cx.elements(node, 1) {
        Some(_) => (cx.operand(node, 0)?, times(cx, node, 1, alpha)?),
        None => (times(cx, node, 0, alpha)?, cx.operand(node, 1)?),
    };
    let c = match node.input(2) {
        Some(_) if beta != 0.0 => Some(times(cx, node, 2, beta)?),
        _ => None,
    };
    let y = cx.add(
        node,
        Gemm {
            a,
            b,
            c,
            trans_a,
            trans_b,
        },
    )?;
    cx.define(node, y)
}

pub(super) fn matmul(cx: &mut Cx, node: &Node) -> Outcome<()> {
    node.only_attributes(&[]).map_err(Some)?;
    let (a, b) = (cx.operand(node, 0)?, cx.operand(node, 1)?);
    let y = product(cx, node, a, b)?;
    cx.define(node, y)
}

/// A product of matrices: vectors are matrices of one row on the left, of one column on the right, and the result has no
/// dimension for them.
pub(super) fn product(cx: &mut Cx, node: &Node, mut a: Value, mut b: Value) -> Outcome<Value> {
    let (row, column) = (cx.shape(a).0.len() == 1, cx.shape(b).0.len() == 1);
    if let ([k], true) = (cx.shape(a).0, row) {
        a = reshaped(cx, node, a, &[1, *k])?;
    }
    if let ([k], true) = (cx.shape(b).0, column) {
        b = reshaped(cx, node, b, &[*k, 1])?;
    }
    let whole = [a, b].iter().all(|v| cx.shape(*v).1 == Type::int(32));
    let y = match whole {
        true => cx.add(node, MatMulInteger { a, b })?,
        false => cx.add(node, MatMul { a, b })?,
    };
    let mut shape = cx.shape(y).0.to_vec();
    if column {
        shape.pop();
    }
    if row {
        let at = shape.len() - usize::from(!column) - 1;
        shape.remove(at);
    }
    reshaped(cx, node, y, &shape)
}
