//! Operators of ONNX Runtime's own domain `com.microsoft`, which its optimizer writes.
//!
//! Source: `docs/ContribOperators.md` of microsoft/onnxruntime.

use tir_core::{Ret, Type, Value};
use tir_graph::{Dequantize, Gelu, HardSigmoid, LayerNorm, LeakyRelu, Number};
use tir_onnx::Node;

use super::attention::{self, Weighing};
use super::convolution;
use super::groups;
use super::import::{Cx, Outcome};
use super::make::Make;
use super::ops;
use super::opsets::Importer;
use super::window::Windows;

/// The importer of a node; or why there is none.
pub(super) fn importer(node: &Node) -> Result<Importer, Option<String>> {
    let row = TABLE.binary_search_by_key(&node.op_type.as_str(), |(op, _)| op);
    match row.ok().and_then(|at| TABLE.get(at)) {
        Some((_, importer)) => Ok(*importer),
        None => Err(None),
    }
}

/// The operators, in the order of their names.
static TABLE: &[(&str, Importer)] = &[
    ("Attention", attention_of_one),
    ("BiasGelu", |cx, node| gelu(cx, node, false)),
    ("FastGelu", |cx, node| gelu(cx, node, true)),
    ("FusedConv", fused_conv),
    ("FusedGemm", fused_gemm),
    ("FusedMatMul", fused_matmul),
    ("Gelu", |cx, node| gelu(cx, node, false)),
    ("MultiHeadAttention", multi_head),
    ("QAttention", quantized_attention),
    ("QuickGelu", quick_gelu),
    ("SimplifiedLayerNormalization", |cx, node| {
        simplified(cx, node, false)
    }),
    ("SkipLayerNormalization", skip),
    ("SkipSimplifiedLayerNormalization", |cx, node| {
        simplified(cx, node, true)
    }),
];

/// `x` plus a bias, if there is one, through the error function or its approximation.
fn gelu(cx: &mut Cx<'_>, node: &Node, tanh: bool) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&[])?;
    let mut x = m.operand(0)?;
    if let Some(bias) = m.optional(1)? {
        x = m.add(x, bias)?;
    }
    let y = m.op(Gelu { x, tanh })?;
    m.done(y)
}

/// `x · sigmoid(alpha · x)`.
fn quick_gelu(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["alpha"])?;
    let (x, alpha) = (m.operand(0)?, m.float("alpha", 1.702)?);
    let gate = m.times(x, alpha)?;
    let gate = m.sigmoid(gate)?;
    let y = m.mul(x, gate)?;
    m.done(y)
}

/// The function that attribute `activation` names, its numbers in order.
fn activated(m: &mut Make<'_, '_>, x: Value, numbers: &[f32]) -> Outcome<Value> {
    let number = |k: usize, otherwise: f64| numbers.get(k).map_or(otherwise, |n| f64::from(*n));
    match m.word("activation", "")?.as_str() {
        "" => Ok(x),
        "Relu" => m.relu(x),
        "Sigmoid" => m.sigmoid(x),
        "Tanh" => m.tanh(x),
        "LeakyRelu" => m.op(LeakyRelu {
            x,
            alpha: Number(number(0, 0.01)),
        }),
        "HardSigmoid" => m.op(HardSigmoid {
            x,
            alpha: Number(number(0, 0.2)),
            beta: Number(number(1, 0.5)),
        }),
        "Clip" => {
            let y = m.at_least(x, number(0, f64::NEG_INFINITY))?;
            m.at_most(y, number(1, f64::INFINITY))
        }
        other => m.fail(format!(
            "attribute 'activation' is '{other}', which is not read"
        )),
    }
}

fn fused_conv(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&[
        "activation",
        "activation_params",
        "auto_pad",
        "dilations",
        "group",
        "kernel_shape",
        "pads",
        "strides",
    ])?;
    let (x, w, bias, more) = (m.operand(0)?, m.operand(1)?, m.optional(2)?, m.optional(3)?);
    let (shape, weights) = (m.shape(x), m.shape(w));
    let windows = Windows::read(
        node,
        shape.get(2..).unwrap_or(&[]),
        weights.get(2..).unwrap_or(&[]),
    )?;
    let groups = m.int("group", 1)?;
    let form = (
        &windows.strides[..],
        &windows.pads[..],
        &windows.dilations[..],
        groups,
    );
    let mut y = convolution::convolved(&mut m, x, w, bias, form)?;
    if let Some(more) = more {
        y = m.add(y, more)?;
    }
    let numbers = node
        .floats("activation_params")
        .map_err(Some)?
        .unwrap_or(&[]);
    let y = activated(&mut m, y, numbers)?;
    m.done(y)
}

/// The last two dimensions exchanged, if an attribute says so.
fn turned(m: &mut Make<'_, '_>, x: Value, name: &str) -> Outcome<Value> {
    let rank = m.rank(x);
    if !m.flag(name)? || rank < 2 {
        return Ok(x);
    }
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    m.transpose(x, &perm)
}

fn fused_matmul(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["alpha", "transA", "transB", "transBatchA", "transBatchB"])?;
    let mut operands = [m.operand(0)?, m.operand(1)?];
    let names = [("transBatchA", "transA"), ("transBatchB", "transB")];
    for (x, (batch, own)) in operands.iter_mut().zip(names) {
        let rank = m.rank(*x);
        if m.flag(batch)? && rank > 2 {
            // The first dimension is behind those of the batch.
            let perm = (1..rank - 1).chain([0, rank - 1]);
            *x = m.transpose(*x, &perm.collect::<Vec<_>>())?;
        }
        *x = turned(&mut m, *x, own)?;
    }
    let [a, b] = operands;
    let y = ops::product(m.cx, node, a, b)?;
    let alpha = m.float("alpha", 1.0)?;
    let y = if alpha == 1.0 { y } else { m.times(y, alpha)? };
    m.done(y)
}

fn fused_gemm(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&[
        "activation",
        "activation_alpha",
        "activation_beta",
        "activation_gamma",
        "alpha",
        "beta",
        "transA",
        "transB",
    ])?;
    let (a, b) = (m.operand(0)?, m.operand(1)?);
    let (a, b) = (turned(&mut m, a, "transA")?, turned(&mut m, b, "transB")?);
    let mut y = m.matmul(a, b)?;
    let (alpha, beta) = (m.float("alpha", 1.0)?, m.float("beta", 1.0)?);
    if alpha != 1.0 {
        y = m.times(y, alpha)?;
    }
    if let Some(c) = m.optional(2)? {
        let c = if beta == 1.0 { c } else { m.times(c, beta)? };
        y = m.add(y, c)?;
    }
    let mut numbers = Vec::new();
    for name in ["activation_alpha", "activation_beta"] {
        numbers.extend(node.float(name).map_err(Some)?);
    }
    let y = activated(&mut m, y, &numbers)?;
    m.done(y)
}

/// Operands: x, what is added to it, gamma, beta, and a bias; result 3 is the sum.
fn skip(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["epsilon"])?;
    let (x, y) = (m.operand(0)?, m.operand(1)?);
    let mut sum = m.add(x, y)?;
    if let Some(bias) = m.optional(4)? {
        sum = m.add(sum, bias)?;
    }
    let (scale, bias, epsilon) = (m.operand(2)?, m.optional(3)?, m.float("epsilon", 1e-12)?);
    let axis = m.rank(sum) as i64 - 1;
    let y = m.op(LayerNorm {
        x: sum,
        scale,
        bias,
        axis,
        epsilon: Number(epsilon),
    })?;
    let [mean, root] = groups::moments(&mut m, sum, axis as usize, epsilon)?;
    cx.define_all(node, &[y, mean, root, sum]);
    Ok(())
}

/// The same without a mean, of x alone, or with what is added: gamma and the bias come then behind it.
fn simplified(cx: &mut Cx<'_>, node: &Node, skips: bool) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(if skips {
        &["epsilon"]
    } else {
        &["axis", "epsilon", "stash_type"]
    })?;
    let mut x = m.operand(0)?;
    let scale = m.operand(if skips { 2 } else { 1 })?;
    if skips {
        let y = m.operand(1)?;
        x = m.add(x, y)?;
        if let Some(bias) = m.optional(3)? {
            x = m.add(x, bias)?;
        }
    }
    let axis = if skips { -1 } else { m.int("axis", -1)? };
    let (dim, epsilon) = (
        m.dimension(axis, m.rank(x))?,
        m.float("epsilon", if skips { 1e-12 } else { 1e-5 })?,
    );
    let y = groups::by_root(&mut m, x, dim, epsilon)?;
    let y = m.mul(y, scale)?;
    if skips {
        let unused = m.like(x, 0.0)?;
        cx.define_all(node, &[y, unused, unused, x]);
        return Ok(());
    }
    m.done(y)
}

/// A mask of ONNX Runtime's attention for N x H x S x T: of keys (N x T), of queries and keys (N x S x T), how many keys
/// there are (N), or where they end and then where they begin (2N).
fn masked(
    m: &mut Make<'_, '_>,
    mask: Value,
    (batch, keys): (i64, i64),
    elem: Type,
    filter: f64,
) -> Outcome<Value> {
    let shape = m.shape(mask);
    let index = Make::index_type();
    let seen = match shape[..] {
        [n] if n == 2 * batch => {
            let bounds = m.cast(mask, index)?;
            let columns = m.counting(index, keys, 3, 4)?;
            let ends = m.along(bounds, 0, 0, batch, 1)?;
            let ends = m.reshape(ends, &[batch, 1, 1, 1])?;
            let begins = m.along(bounds, 0, batch, batch, 1)?;
            let begins = m.reshape(begins, &[batch, 1, 1, 1])?;
            let (before, behind) = (m.less(columns, ends)?, m.greater_equal(columns, begins)?);
            m.and(before, behind)?
        }
        [n] => {
            let lengths = m.cast(mask, index)?;
            let lengths = m.reshape(lengths, &[n, 1, 1, 1])?;
            let columns = m.counting(index, keys, 3, 4)?;
            m.less(columns, lengths)?
        }
        [n, t] => {
            let mask = m.reshape(mask, &[n, 1, 1, t])?;
            m.above(mask, 0.0)?
        }
        [n, s, t] => {
            let mask = m.reshape(mask, &[n, 1, s, t])?;
            m.above(mask, 0.0)?
        }
        _ => {
            return m.fail(format!(
                "has a mask of shape {shape:?}, which cannot be imported"
            ));
        }
    };
    let (zero, hidden) = (
        m.numbers(elem, &[], &[0.0])?,
        m.numbers(elem, &[], &[filter])?,
    );
    m.choose(seen, zero, hidden)
}

/// How queries and keys, whose heads are apart, make weights: with a mask of keys, what is added to products, and the node's
/// own scale; without one, or with 0, by the size of a head.
fn weighing(
    m: &mut Make<'_, '_>,
    q: Value,
    k: Value,
    mask: Option<Value>,
    more: Option<Value>,
) -> Outcome<Weighing> {
    let &[n, _, s, size] = &m.shape(q)[..] else {
        return m.fail("has heads that are not of rank 4");
    };
    let (elem, t) = (m.elem(q), m.shape(k)[2]);
    let bias = biases(m, [n, s, t], elem, mask, more)?;
    let scale = match m.float("scale", 0.0)? {
        0.0 => 1.0 / (size as f64).sqrt(),
        scale => scale,
    };
    Ok(Weighing {
        scale,
        softcap: 0.0,
        bias,
        precision: None,
    })
}

/// What is added to products, of a mask, of the order in time and of a bias.
fn biases(
    m: &mut Make<'_, '_>,
    [n, s, t]: [i64; 3],
    elem: Type,
    mask: Option<Value>,
    bias: Option<Value>,
) -> Outcome<Option<Value>> {
    let filter = m.float("mask_filter_value", -10000.0)?;
    let mut parts = Vec::new();
    if let Some(mask) = mask {
        parts.push(masked(m, mask, (n, t), elem, filter)?);
    }
    if m.flag("unidirectional")? {
        let index = Make::index_type();
        let (rows, columns) = (m.counting(index, s, 0, 2)?, m.counting(index, t, 1, 2)?);
        let last = m.plus(rows, (t - s) as f64)?;
        let hidden = m.greater(columns, last)?;
        let seen = m.not(hidden)?;
        let (zero, no) = (
            m.numbers(elem, &[], &[0.0])?,
            m.numbers(elem, &[], &[filter])?,
        );
        parts.push(m.choose(seen, zero, no)?);
    }
    parts.extend(bias);
    let mut parts = parts.into_iter();
    let Some(mut sum) = parts.next() else {
        return Ok(None);
    };
    for part in parts {
        sum = m.add(sum, part)?;
    }
    Ok(Some(sum))
}

/// Queries, keys and values of one input, by one product.
struct OfOne {
    x: Value,
    w: Value,
    bias: Option<Value>,
    mask: Option<Value>,
    past: Option<Value>,
    more: Option<Value>,
}

impl OfOne {
    fn attend(self, mut m: Make<'_, '_>) -> Outcome<()> {
        let heads = m.int("num_heads", 0)?;
        if m.flag("do_rotary")? || m.flag("past_present_share_buffer")? {
            return m.fail("turns places or shares a buffer, which cannot be imported");
        }
        let mut y = m.matmul(self.x, self.w)?;
        if let Some(bias) = self.bias {
            y = m.add(y, bias)?;
        }
        let &[_, _, all] = &m.shape(y)[..] else {
            return m.fail("has an input that is not of rank 3");
        };
        let sizes = match m.node.ints("qkv_hidden_sizes").map_err(Some)? {
            Some(&[q, k, v]) => [q, k, v],
            _ => [all / 3; 3],
        };
        if sizes.iter().sum::<i64>() != all || heads < 1 {
            return m.fail(format!("has sizes {sizes:?} of {all} and {heads} heads"));
        }
        let mut parts = [y; 3];
        let mut start = 0;
        for (part, size) in parts.iter_mut().zip(sizes) {
            let x = m.along(y, 2, start, size, 1)?;
            *part = attention::heads(&mut m, x, heads)?;
            start += size;
        }
        let [q, mut k, mut v] = parts;
        if let Some(past) = self.past {
            let (past_k, past_v) = (m.pick(past, 0, 0)?, m.pick(past, 0, 1)?);
            k = m.concat(vec![past_k, k], 2)?;
            v = m.concat(vec![past_v, v], 2)?;
        }
        let how = weighing(&mut m, q, k, self.mask, self.more)?;
        let y = attention::attended(&mut m, [q, k, v], &how)?.y;
        let y = attention::joined(&mut m, y)?;
        if m.node.output(1).is_some() {
            let (k, v) = (m.unsqueeze(k, 0)?, m.unsqueeze(v, 0)?);
            let present = m.concat(vec![k, v], 0)?;
            m.cx.define_all(m.node, &[y, present]);
            return Ok(());
        }
        m.done(y)
    }
}

const OF_ONE: [&str; 7] = [
    "do_rotary",
    "mask_filter_value",
    "num_heads",
    "past_present_share_buffer",
    "qkv_hidden_sizes",
    "scale",
    "unidirectional",
];

fn attention_of_one(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&OF_ONE)?;
    let of = OfOne {
        x: m.operand(0)?,
        w: m.operand(1)?,
        bias: m.optional(2)?,
        mask: m.optional(3)?,
        past: m.optional(4)?,
        more: m.optional(5)?,
    };
    of.attend(m)
}

/// The numbers that integers stand for.
fn dequantized(
    m: &mut Make<'_, '_>,
    x: Value,
    scale: Value,
    zero: Option<Value>,
) -> Outcome<Value> {
    let shape = m.shape(x);
    let axis = shape.len() as i64 - 1;
    let y = Ret(Type::tensor(shape, Type::f32()));
    m.cx.add(
        m.node,
        Dequantize {
            x,
            scale,
            zero,
            axis,
            y,
        },
    )
}

/// Operands: x, w, bias, their scales, a mask, their zero points, keys and values of before.
fn quantized_attention(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&OF_ONE)?;
    let (x, w) = (m.operand(0)?, m.operand(1)?);
    let (x_scale, w_scale) = (m.operand(3)?, m.operand(4)?);
    let (x_zero, w_zero) = (m.optional(6)?, m.optional(7)?);
    let of = OfOne {
        x: dequantized(&mut m, x, x_scale, x_zero)?,
        w: dequantized(&mut m, w, w_scale, w_zero)?,
        bias: m.optional(2)?,
        mask: m.optional(5)?,
        past: m.optional(8)?,
        more: None,
    };
    of.attend(m)
}

/// Operands: Q, K, V of rank 3, a bias for all three, a mask of keys, and what is added to products.
fn multi_head(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["mask_filter_value", "num_heads", "scale", "unidirectional"])?;
    let heads = m.int("num_heads", 0)?;
    let mut parts = [m.operand(0)?, m.operand(1)?, m.operand(2)?];
    if parts.iter().any(|x| m.rank(*x) != 3) || m.optional(6)?.is_some() || m.optional(7)?.is_some()
    {
        return m
            .fail("has packed operands, or keys and values of before, which cannot be imported");
    }
    let bias = m.optional(3)?;
    let mut start = 0;
    for part in &mut parts {
        let size = m.shape(*part)[2];
        if let Some(bias) = bias {
            let own = m.along(bias, 0, start, size, 1)?;
            *part = m.add(*part, own)?;
        }
        start += size;
        *part = attention::heads(&mut m, *part, heads)?;
    }
    let [q, k, _] = parts;
    let (mask, more) = (m.optional(4)?, m.optional(5)?);
    let how = weighing(&mut m, q, k, mask, more)?;
    let y = attention::attended(&mut m, parts, &how)?.y;
    let y = attention::joined(&mut m, y)?;
    m.done(y)
}

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn the_table_is_in_order() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
    }
}
