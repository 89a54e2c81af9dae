//! Importers of attention (Vaswani et al., "Attention Is All You Need", 2017) and of what goes with it: rotated positions, states
//! that attention is kept in, convolutions over what came before.
//!
//! Shapes: N sequences, H heads, S queries, T keys, D numbers of a head.

use tir_core::{Type, Value};
use tir_graph::accumulator;
use tir_onnx::{ElementType, Node};

use super::convolution;
use super::import::{Cx, Outcome};
use super::make::Make;

/// How queries and keys make weights.
pub(super) struct Weighing {
    /// What products are multiplied by.
    pub scale: f64,
    /// Products go through `c · tanh(x / c)`; 0 if not.
    pub softcap: f64,
    /// What is added to products: minus infinity where there is no attention.
    pub bias: Option<Value>,
    /// The type that weights are computed in.
    pub precision: Option<Type>,
}

/// What comes of attention: the result, products, what they become, with the bias, and weights.
pub(super) struct Attended {
    pub y: Value,
    pub stages: [Value; 4],
}

/// N x S x H·D as N x H x S x D.
pub(super) fn heads(m: &mut Make<'_, '_>, x: Value, heads: i64) -> Outcome<Value> {
    let &[n, s, all] = &m.shape(x)[..] else {
        return Ok(x);
    };
    if heads < 1 || all % heads != 0 {
        return m.fail(format!("has {heads} heads for {all} numbers"));
    }
    let x = m.reshape(x, &[n, s, heads, all / heads])?;
    m.transpose(x, &[0, 2, 1, 3])
}

/// N x H x S x D as N x S x H·D.
pub(super) fn joined(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let &[n, h, s, d] = &m.shape(x)[..] else {
        return Ok(x);
    };
    let x = m.transpose(x, &[0, 2, 1, 3])?;
    m.reshape(x, &[n, s, h * d])
}

/// Each head as often as there are queries' heads for it.
fn repeated(m: &mut Make<'_, '_>, x: Value, wanted: i64) -> Outcome<Value> {
    let &[n, h, s, d] = &m.shape(x)[..] else {
        return m.fail("has keys that are not of rank 4");
    };
    if h == wanted {
        return Ok(x);
    }
    if h == 0 || wanted % h != 0 {
        return m.fail(format!("has {wanted} heads of queries and {h} of keys"));
    }
    let x = m.unsqueeze(x, 2)?;
    let x = m.expand(x, &[n, h, wanted / h, s, d])?;
    m.reshape(x, &[n, wanted, s, d])
}

/// Attention of N x H x S x D to N x H' x T x D and its values.
pub(super) fn attended(
    m: &mut Make<'_, '_>,
    [q, k, v]: [Value; 3],
    how: &Weighing,
) -> Outcome<Attended> {
    let elem = m.elem(q);
    let all = m.shape(q).get(1).copied().unwrap_or(0);
    let (k, v) = (repeated(m, k, all)?, repeated(m, v, all)?);
    // Half of the scale on each side, so that products of small types do not overflow.
    let root = how.scale.abs().sqrt();
    let (q, k) = (m.times(q, root * how.scale.signum())?, m.times(k, root)?);
    let k = m.transpose(k, &[0, 1, 3, 2])?;
    let raw = m.matmul(q, k)?;
    let capped = match how.softcap {
        c if c > 0.0 => {
            let y = m.times(raw, 1.0 / c)?;
            let y = m.tanh(y)?;
            m.times(y, c)?
        }
        _ => raw,
    };
    let with_bias = match how.bias {
        Some(bias) => m.add(capped, bias)?,
        None => capped,
    };
    let last = m.rank(with_bias) - 1;
    let x = m.cast(with_bias, how.precision.unwrap_or(elem))?;
    let mut weights = m.softmax(x, last)?;
    if let Some(bias) = how.bias
        && may_hide_all(m, bias)
    {
        // A query without a key has no weights.
        let most = m.largest(bias, &[m.rank(bias) - 1])?;
        let none = m.equals(most, f64::NEG_INFINITY)?;
        let zero = m.like(weights, 0.0)?;
        weights = m.choose(none, zero, weights)?;
    }
    let weights = m.cast(weights, elem)?;
    let y = m.matmul(weights, v)?;
    Ok(Attended {
        y,
        stages: [raw, capped, with_bias, weights],
    })
}

/// Whether a row of a bias may be minus infinity alone.
fn may_hide_all(m: &Make<'_, '_>, bias: Value) -> bool {
    let Some(known) = m.cx.constant_of(bias) else {
        return true;
    };
    let row = known.shape().last().copied().unwrap_or(1).max(1);
    let values: Vec<f64> = known.iter_f64().collect();
    values
        .chunks(row)
        .any(|row| row.iter().all(|v| *v == f64::NEG_INFINITY))
}

/// A mask as what is added: 0 where it holds, else minus infinity; another type is added as it is.
pub(super) fn as_bias(m: &mut Make<'_, '_>, mask: Value, elem: Type) -> Outcome<Value> {
    if m.elem(mask) != Type::int(1) {
        return m.cast(mask, elem);
    }
    let zero = m.numbers(elem, &[], &[0.0])?;
    let hidden = m.numbers(elem, &[], &[f64::NEG_INFINITY])?;
    m.choose(mask, zero, hidden)
}

/// The element type of a code.
fn stated_type(m: &Make<'_, '_>, name: &str) -> Outcome<Option<Type>> {
    let Some(code) = m.node.int(name).map_err(Some)? else {
        return Ok(None);
    };
    match i32::try_from(code)
        .ok()
        .and_then(|code| ElementType(code).dtype())
    {
        Some(dtype) => Ok(Some(tir_interp::elem_of(dtype))),
        None => m.fail(format!("attribute '{name}' is {code}, which is not read")),
    }
}

/// Operands: Q, K, V, a mask, keys and values of before, lengths of keys.
pub(super) fn attention(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&[
        "is_causal",
        "kv_num_heads",
        "left_window_size",
        "q_num_heads",
        "qk_matmul_output_mode",
        "right_window_size",
        "scale",
        "softcap",
        "softmax_precision",
    ])?;
    let [q, k, v] = [m.operand(0)?, m.operand(1)?, m.operand(2)?];
    let flat = m.rank(q) == 3;
    let (q_heads, k_heads) = (m.int("q_num_heads", 0)?, m.int("kv_num_heads", 0)?);
    let (q, mut k, mut v) = (
        heads(&mut m, q, q_heads)?,
        heads(&mut m, k, k_heads)?,
        heads(&mut m, v, k_heads)?,
    );
    let (past_k, past_v) = (m.optional(4)?, m.optional(5)?);
    let mut before = 0;
    if let (Some(past_k), Some(past_v)) = (past_k, past_v) {
        before = m.shape(past_k).get(2).copied().unwrap_or(0);
        k = m.concat(vec![past_k, k], 2)?;
        v = m.concat(vec![past_v, v], 2)?;
    }
    let (&[_, _, s, d], &[_, _, t, _]) = (&m.shape(q)[..], &m.shape(k)[..]) else {
        return m.fail("has queries or keys that are not of rank 3 or 4");
    };
    let elem = m.elem(q);
    let mut bias = match m.optional(3)? {
        Some(mask) => {
            let rank = m.rank(mask);
            let missing = t - m.shape(mask)[rank - 1];
            let mask = as_bias(&mut m, mask, elem)?;
            // Keys that a mask says nothing of are hidden.
            let mut high = vec![0; rank];
            high[rank - 1] = missing.max(0);
            Some(m.pad(mask, &vec![0; rank], &high, f64::NEG_INFINITY)?)
        }
        None => None,
    };
    let lengths = m.optional(6)?;
    let (left, right) = (
        m.int("left_window_size", -1)?,
        m.int("right_window_size", -1)?,
    );
    let causal = m.flag("is_causal")?;
    let index = Make::index_type();
    if causal || left >= 0 || right >= 0 {
        // Query i is at place i + offset among the keys.
        let (rows, columns) = (m.counting(index, s, 0, 2)?, m.counting(index, t, 1, 2)?);
        let mut places = m.plus(rows, before as f64)?;
        if let (Some(lengths), None) = (lengths, past_k) {
            let lengths = m.cast(lengths, index)?;
            let n = m.shape(lengths).iter().product();
            let offset = m.reshape(lengths, &[n, 1, 1, 1])?;
            let offset = m.plus(offset, -s as f64)?;
            places = m.add(rows, offset)?;
        }
        let away = m.sub(places, columns)?;
        let mut limits = Vec::new();
        if causal || right >= 0 {
            let least = if causal { 0 } else { -right };
            let hidden = m.below(away, least as f64)?;
            limits.push(m.not(hidden)?);
        }
        if left >= 0 {
            let hidden = m.above(away, left as f64)?;
            limits.push(m.not(hidden)?);
        }
        for seen in limits {
            let part = as_bias(&mut m, seen, elem)?;
            bias = Some(match bias {
                Some(bias) => m.add(bias, part)?,
                None => part,
            });
        }
    }
    if let Some(lengths) = lengths {
        let lengths = m.cast(lengths, index)?;
        let n = m.shape(lengths).iter().product();
        let lengths = m.reshape(lengths, &[n, 1, 1, 1])?;
        let columns = m.counting(index, t, 3, 4)?;
        let seen = m.less(columns, lengths)?;
        let part = as_bias(&mut m, seen, elem)?;
        bias = Some(match bias {
            Some(bias) => m.add(bias, part)?,
            None => part,
        });
    }
    let scale = m.float("scale", 0.0)?;
    let how = Weighing {
        scale: if scale == 0.0 {
            1.0 / (d as f64).sqrt()
        } else {
            scale
        },
        softcap: m.float("softcap", 0.0)?,
        bias,
        precision: stated_type(&m, "softmax_precision")?,
    };
    let mode = m.int("qk_matmul_output_mode", 0)?;
    let Attended { y, stages } = attended(&mut m, [q, k, v], &how)?;
    let shown = usize::try_from(mode).ok().and_then(|mode| stages.get(mode));
    let Some(shown) = shown else {
        return m.fail(format!(
            "attribute 'qk_matmul_output_mode' is {mode}, expected 0 to 3"
        ));
    };
    let y = if flat { joined(&mut m, y)? } else { y };
    cx.define_all(node, &[y, k, v, *shown]);
    Ok(())
}

/// Pairs of numbers turned by the angle of their place (Su et al., "RoFormer", 2021).
pub(super) fn rotary(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["interleaved", "num_heads", "rotary_embedding_dim"])?;
    let (x, mut cos, mut sin) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
    let flat = m.rank(x) == 3;
    // N x S x H x D.
    let x = match flat {
        true => {
            let (count, shape) = (m.int("num_heads", 0)?, m.shape(x));
            if count < 1 || shape[2] % count != 0 {
                return m.fail(format!("has {count} heads for {} numbers", shape[2]));
            }
            m.reshape(x, &[shape[0], shape[1], count, shape[2] / count])?
        }
        false => m.transpose(x, &[0, 2, 1, 3])?,
    };
    let size = m.shape(x)[3];
    let turned = match m.int("rotary_embedding_dim", 0)? {
        0 => size,
        n => n,
    };
    if let Some(places) = m.optional(3)? {
        cos = m.gather(cos, places, 0)?;
        sin = m.gather(sin, places, 0)?;
    }
    let (cos, sin) = (m.unsqueeze(cos, 2)?, m.unsqueeze(sin, 2)?);
    let part = m.along(x, 3, 0, turned, 1)?;
    let half = turned / 2;
    let (a, b) = match m.flag("interleaved")? {
        true => (m.along(part, 3, 0, half, 2)?, m.along(part, 3, 1, half, 2)?),
        false => (
            m.along(part, 3, 0, half, 1)?,
            m.along(part, 3, half, half, 1)?,
        ),
    };
    let (ca, sb) = (m.mul(cos, a)?, m.mul(sin, b)?);
    let (sa, cb) = (m.mul(sin, a)?, m.mul(cos, b)?);
    let (real, other) = (m.sub(ca, sb)?, m.add(sa, cb)?);
    let mut y = match m.flag("interleaved")? {
        true => {
            let (real, other) = (m.unsqueeze(real, 4)?, m.unsqueeze(other, 4)?);
            let y = m.concat(vec![real, other], 4)?;
            let shape = m.shape(part);
            m.reshape(y, &shape)?
        }
        false => m.concat(vec![real, other], 3)?,
    };
    if turned < size {
        let rest = m.along(x, 3, turned, size - turned, 1)?;
        y = m.concat(vec![y, rest], 3)?;
    }
    let &[n, s, h, d] = &m.shape(y)[..] else {
        return m.fail("has an input that is not of rank 3 or 4");
    };
    let y = match flat {
        true => m.reshape(y, &[n, s, h * d])?,
        false => m.transpose(y, &[0, 2, 1, 3])?,
    };
    m.done(y)
}

/// A convolution of each channel over itself and what came before, which the next call is given.
pub(super) fn causal_convolution(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["activation"])?;
    let (x, w, bias, past) = (m.operand(0)?, m.operand(1)?, m.optional(2)?, m.optional(3)?);
    let (&[_, channels, _], &[_, _, k]) = (&m.shape(x)[..], &m.shape(w)[..]) else {
        return m.fail("has an input or weights that are not of rank 3");
    };
    let whole = match past {
        Some(past) => m.concat(vec![past, x], 2)?,
        None => m.pad(x, &[0, 0, k - 1], &[0, 0, 0], 0.0)?,
    };
    let y = convolution::convolved(&mut m, whole, w, bias, (&[1], &[0, 0], &[1], channels))?;
    let y = match m.word("activation", "none")?.as_str() {
        "none" => y,
        "silu" | "swish" => {
            let elem = m.elem(y);
            let wide = m.cast(y, accumulator(elem))?;
            let gate = m.sigmoid(wide)?;
            let y = m.mul(wide, gate)?;
            m.cast(y, elem)?
        }
        other => {
            return m.fail(format!(
                "attribute 'activation' is '{other}', expected none, silu or swish"
            ));
        }
    };
    let kept = m.along(whole, 2, m.shape(whole)[2] - (k - 1), k - 1, 1)?;
    cx.define_all(node, &[y, kept]);
    Ok(())
}

/// Attention whose keys and values are summed up in a state, step by step: `state ← gate · state + k · (v or beta (v - stateᵀ k))ᵀ`,
/// of which each step's query reads.
pub(super) fn linear(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let most = cx.options.max_steps;
    let mut m = Make::new(cx, node);
    m.attributes(&[
        "chunk_size",
        "kv_num_heads",
        "q_num_heads",
        "scale",
        "update_rule",
    ])?;
    let (q_heads, k_heads) = (m.int("q_num_heads", 0)?, m.int("kv_num_heads", 0)?);
    let rule = m.word("update_rule", "gated_delta")?;
    let (gated, delta) =
        match rule.as_str() {
            "linear" => (false, false),
            "gated" => (true, false),
            "delta" => (false, true),
            "gated_delta" => (true, true),
            other => return m.fail(format!(
                "attribute 'update_rule' is '{other}', expected linear, gated, delta or gated_delta"
            )),
        };
    let [q, k, v] = [m.operand(0)?, m.operand(1)?, m.operand(2)?];
    let elem = m.elem(q);
    let wide = accumulator(elem);
    let split = |m: &mut Make<'_, '_>, x: Value, count: i64| {
        let x = m.cast(x, wide)?;
        heads(m, x, count)
    };
    let (q, k, v) = (
        split(&mut m, q, q_heads)?,
        split(&mut m, k, k_heads)?,
        split(&mut m, v, k_heads)?,
    );
    let (&[n, _, steps, dk], &[_, _, _, dv]) = (&m.shape(q)[..], &m.shape(v)[..]) else {
        return m.fail("has queries or values that are not of rank 3");
    };
    if usize::try_from(steps).is_ok_and(|steps| steps > most) {
        return m.fail(format!(
            "has {steps} steps to be written out, at most {most} are: option --max-steps"
        ));
    }
    let past = m.optional(3)?;
    let kept = past.map_or(elem, |past| m.elem(past));
    let mut state = match past {
        Some(past) => m.cast(past, wide)?,
        None => {
            let zero = m.numbers(wide, &[], &[0.0])?;
            m.expand(zero, &[n, k_heads, dk, dv])?
        }
    };
    // N x H x T x (1 or D) x 1.
    let beside = |m: &mut Make<'_, '_>, at: usize| {
        let Some(x) = m.optional(at)? else {
            return m.fail(format!("operand {at} is missing for rule '{rule}'"));
        };
        let x = m.cast(x, wide)?;
        let count = k_heads.min(m.shape(x)[2]);
        heads(m, x, count)
    };
    let decay = if gated {
        Some(beside(&mut m, 4)?)
    } else {
        None
    };
    let beta = if delta {
        Some(beside(&mut m, 5)?)
    } else {
        None
    };
    let scale = match m.float("scale", 0.0)? {
        0.0 => 1.0 / (dk as f64).sqrt(),
        scale => scale,
    };
    let mut results = Vec::new();
    m.written(steps)?;
    for step in 0..steps {
        let q = m.along(q, 2, step, 1, 1)?;
        let k = m.along(k, 2, step, 1, 1)?;
        let mut v = m.along(v, 2, step, 1, 1)?;
        if let Some(decay) = decay {
            let gate = m.along(decay, 2, step, 1, 1)?;
            let gate = m.exp(gate)?;
            let gate = m.transpose(gate, &[0, 1, 3, 2])?;
            state = m.mul(state, gate)?;
        }
        if let Some(beta) = beta {
            let found = m.matmul(k, state)?;
            let rest = m.sub(v, found)?;
            let beta = m.along(beta, 2, step, 1, 1)?;
            v = m.mul(beta, rest)?;
        }
        let column = m.transpose(k, &[0, 1, 3, 2])?;
        let added = m.mul(column, v)?;
        state = m.add(state, added)?;
        let read = repeated(&mut m, state, q_heads)?;
        let q = m.times(q, scale)?;
        results.push(m.matmul(q, read)?);
    }
    if results.is_empty() {
        return m.fail("has no steps");
    }
    let y = m.concat(results, 2)?;
    let y = joined(&mut m, y)?;
    let y = m.cast(y, elem)?;
    let state = m.cast(state, kept)?;
    cx.define_all(node, &[y, state]);
    Ok(())
}
