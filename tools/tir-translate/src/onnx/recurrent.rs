//! Importers of recurrent layers, step by step: `LSTM` (Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997), `GRU`
//! (Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014) and `RNN`.
//!
//! What the input adds to the gates of all steps is one product of matrices; in each step the state adds one product for all
//! gates together. Shapes: T steps, N sequences, I inputs, H numbers of a state, G gates.

use tir_core::{Type, Value};
use tir_graph::{HardSigmoid, LeakyRelu, Number};
use tir_loop::Bounds;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::make::Make;
use super::repeat;
use super::scatter;

/// Operators that a step is counted as.
const STEP: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    Lstm,
    Gru,
    Rnn,
}

impl Cell {
    fn gates(self) -> i64 {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Rnn => 1,
        }
    }
    fn activations(self) -> &'static [&'static str] {
        match self {
            Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
            Cell::Gru => &["Sigmoid", "Tanh"],
            Cell::Rnn => &["Tanh"],
        }
    }
}

/// A function of a gate, with its numbers.
#[derive(Clone, PartialEq, Debug)]
struct Activation {
    name: String,
    alpha: f64,
    beta: f64,
}

impl Activation {
    fn apply(&self, m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
        let (alpha, beta) = (self.alpha, self.beta);
        match self.name.to_lowercase().as_str() {
            "sigmoid" => m.sigmoid(x),
            "tanh" => m.tanh(x),
            "relu" => m.relu(x),
            "affine" => {
                let y = m.times(x, alpha)?;
                m.plus(y, beta)
            }
            "leakyrelu" => m.op(LeakyRelu {
                x,
                alpha: Number(alpha),
            }),
            "thresholdedrelu" => {
                let above = m.above(x, alpha)?;
                let zero = m.like(x, 0.0)?;
                m.choose(above, x, zero)
            }
            "scaledtanh" => {
                let y = m.times(x, beta)?;
                let y = m.tanh(y)?;
                m.times(y, alpha)
            }
            "hardsigmoid" => m.op(HardSigmoid {
                x,
                alpha: Number(alpha),
                beta: Number(beta),
            }),
            "elu" => {
                let low = m.at_most(x, 0.0)?;
                let low = m.exp(low)?;
                let low = m.plus(low, -1.0)?;
                let low = m.times(low, alpha)?;
                let high = m.relu(x)?;
                m.add(high, low)
            }
            "softsign" => {
                let below = m.abs(x)?;
                let below = m.plus(below, 1.0)?;
                m.div(x, below)
            }
            "softplus" => {
                let size = m.abs(x)?;
                let minus = m.neg(size)?;
                let small = m.exp(minus)?;
                let small = m.plus(small, 1.0)?;
                let small = m.log(small)?;
                let high = m.relu(x)?;
                m.add(high, small)
            }
            _ => m.fail(format!(
                "has activation '{}', which is not known",
                self.name
            )),
        }
    }

    /// The numbers that a function has where none are said.
    fn defaults(name: &str) -> [f64; 2] {
        match name.to_lowercase().as_str() {
            "affine" => [1.0, 0.0],
            "leakyrelu" => [0.01, 0.0],
            "thresholdedrelu" | "elu" => [1.0, 0.0],
            "scaledtanh" => [1.0, 1.0],
            "hardsigmoid" => [0.2, 0.5],
            _ => [0.0, 0.0],
        }
    }
}

/// The functions of all directions: numbers are given in order to those that take some.
fn activations(m: &Make<'_, '_>, cell: Cell, directions: usize) -> Outcome<Vec<Activation>> {
    let own = cell.activations();
    let names: Vec<String> = match m.node.strings("activations").map_err(Some)? {
        Some(names) => names.to_vec(),
        None => own
            .iter()
            .cycle()
            .take(own.len() * directions)
            .map(|n| (*n).to_string())
            .collect(),
    };
    if names.len() != own.len() * directions {
        let (found, wanted) = (names.len(), own.len() * directions);
        return m.fail(format!("has {found} activations, expected {wanted}"));
    }
    let list = |name: &str| -> Outcome<Vec<f32>> {
        Ok(m.node.floats(name).map_err(Some)?.unwrap_or(&[]).to_vec())
    };
    let (mut alphas, mut betas) = (
        list("activation_alpha")?.into_iter(),
        list("activation_beta")?.into_iter(),
    );
    let takes = |name: &str| match name.to_lowercase().as_str() {
        "affine" | "scaledtanh" | "hardsigmoid" => [true, true],
        "leakyrelu" | "thresholdedrelu" | "elu" => [true, false],
        _ => [false, false],
    };
    let make = |name: String| {
        let [alpha, beta] = Activation::defaults(&name);
        let takes = takes(&name);
        let number = |takes: bool, list: &mut std::vec::IntoIter<f32>, otherwise: f64| match takes {
            true => list.next().map_or(otherwise, f64::from),
            false => otherwise,
        };
        let alpha = number(takes[0], &mut alphas, alpha);
        let beta = number(takes[1], &mut betas, beta);
        Activation { name, alpha, beta }
    };
    Ok(names.into_iter().map(make).collect())
}

/// A layer in one direction.
struct Layer {
    cell: Cell,
    functions: Vec<Activation>,
    /// Gates are kept within plus and minus this number.
    clip: Option<f64>,
    /// Of an LSTM: the forget gate is what the input gate leaves.
    coupled: bool,
    /// Of a GRU: the reset gate is applied behind the product of the state.
    behind: bool,
    hidden: i64,
    /// I x G·H.
    w: Value,
    /// H x G·H.
    r: Value,
    /// What is added: of the input, and of the state; G·H each.
    bias: Option<[Value; 2]>,
    /// Factors of the cell's state for the input, output and forget gate, H each.
    peephole: Option<[Value; 3]>,
}

impl Layer {
    fn function(&self, m: &mut Make<'_, '_>, k: usize, x: Value) -> Outcome<Value> {
        let x = match self.clip {
            Some(most) => {
                let x = m.at_least(x, -most)?;
                m.at_most(x, most)?
            }
            None => x,
        };
        self.functions[k].apply(m, x)
    }

    /// Gate `k` of so many.
    fn gate(&self, m: &mut Make<'_, '_>, gates: Value, k: i64) -> Outcome<Value> {
        m.along(gates, 1, k * self.hidden, self.hidden, 1)
    }

    /// The next state and the cell's, of what the input adds (N x G·H), the state and the cell's.
    fn step(
        &self,
        m: &mut Make<'_, '_>,
        x: Value,
        h: Value,
        c: Option<Value>,
    ) -> Outcome<(Value, Option<Value>)> {
        match (self.cell, c) {
            (Cell::Lstm, Some(c)) => {
                let (h, c) = self.lstm(m, x, h, c)?;
                Ok((h, Some(c)))
            }
            (Cell::Gru, _) => Ok((self.gru(m, x, h)?, None)),
            _ => {
                let product = m.matmul(h, self.r)?;
                let sum = m.add(x, product)?;
                Ok((self.function(m, 0, sum)?, None))
            }
        }
    }

    /// Gates: input, output, forget, cell.
    fn lstm(&self, m: &mut Make<'_, '_>, x: Value, h: Value, c: Value) -> Outcome<(Value, Value)> {
        let product = m.matmul(h, self.r)?;
        let gates = m.add(x, product)?;
        let peep = |m: &mut Make<'_, '_>, gate: Value, k: usize, c: Value| match self.peephole {
            None => Ok(gate),
            Some(factors) => {
                let part = m.mul(factors[k], c)?;
                m.add(gate, part)
            }
        };
        let i = self.gate(m, gates, 0)?;
        let i = peep(m, i, 0, c)?;
        let i = self.function(m, 0, i)?;
        let f = if self.coupled {
            let minus = m.neg(i)?;
            m.plus(minus, 1.0)?
        } else {
            let f = self.gate(m, gates, 2)?;
            let f = peep(m, f, 2, c)?;
            self.function(m, 0, f)?
        };
        let new = self.gate(m, gates, 3)?;
        let new = self.function(m, 1, new)?;
        let (kept, added) = (m.mul(f, c)?, m.mul(i, new)?);
        let c = m.add(kept, added)?;
        let o = self.gate(m, gates, 1)?;
        let o = peep(m, o, 1, c)?;
        let o = self.function(m, 0, o)?;
        // The state is not a gate: ONNX Runtime does not clip it.
        let shown = self.functions[2].apply(m, c)?;
        Ok((m.mul(o, shown)?, c))
    }

    /// Gates: update, reset, hidden. What the state's bias adds to the hidden gate is reset with the product, if that is.
    fn gru(&self, m: &mut Make<'_, '_>, x: Value, h: Value) -> Outcome<Value> {
        let two = 2 * self.hidden;
        let xs = m.along(x, 1, 0, two, 1)?;
        let new = self.gate(m, x, 2)?;
        let (gates, rest) = if self.behind {
            let product = m.matmul(h, self.r)?;
            let rest = self.gate(m, product, 2)?;
            let rest = match self.bias {
                Some([_, bias]) => {
                    let bias = m.along(bias, 0, two, self.hidden, 1)?;
                    m.add(rest, bias)?
                }
                None => rest,
            };
            (m.along(product, 1, 0, two, 1)?, Some(rest))
        } else {
            let r = m.along(self.r, 1, 0, two, 1)?;
            (m.matmul(h, r)?, None)
        };
        let gates = m.add(xs, gates)?;
        let z = self.gate(m, gates, 0)?;
        let z = self.function(m, 0, z)?;
        let reset = self.gate(m, gates, 1)?;
        let reset = self.function(m, 0, reset)?;
        let part = match rest {
            Some(rest) => m.mul(reset, rest)?,
            None => {
                let seen = m.mul(reset, h)?;
                let r = m.along(self.r, 1, two, self.hidden, 1)?;
                m.matmul(seen, r)?
            }
        };
        let new = m.add(new, part)?;
        let new = self.function(m, 1, new)?;
        // (1 - z) · new + z · h
        let change = m.sub(h, new)?;
        let change = m.mul(z, change)?;
        m.add(new, change)
    }
}

/// Operands: X, W, R, B, lengths, the first state, and of an LSTM the cell's and P.
pub(super) fn layer(cx: &mut Cx<'_>, node: &Node, cell: Cell) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&[
        "activation_alpha",
        "activation_beta",
        "activations",
        "clip",
        "direction",
        "hidden_size",
        "input_forget",
        "layout",
        "linear_before_reset",
        "output_sequence",
    ])?;
    let (mut x, w, r) = (m.operand(0)?, m.operand(1)?, m.operand(2)?);
    let batch_first = m.flag("layout")?;
    if batch_first {
        x = m.transpose(x, &[1, 0, 2])?;
    }
    let direction = m.word("direction", "forward")?;
    let back: &[bool] = match direction.as_str() {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => {
            return m.fail(format!(
                "attribute 'direction' is '{other}', expected forward, reverse or bidirectional"
            ));
        }
    };
    let (&[t, n, _], &[directions, _, hidden]) = (&m.shape(x)[..], &m.shape(r)[..]) else {
        return m.fail("has operands 0 and 2 that are not of rank 3");
    };
    if directions != back.len() as i64 || m.shape(w)[0] != directions {
        return m.fail(format!(
            "has weights for {directions} directions, and is {direction}"
        ));
    }
    let most = m.cx.options.max_steps;
    if usize::try_from(t).is_ok_and(|t| t > most) && !repeat::is_long(m.cx, t, STEP) {
        return m.fail(format!(
            "has {t} steps to be written out, at most {most} are: option --max-steps"
        ));
    }
    let functions = activations(&m, cell, back.len())?;
    let (lengths, first, cells, peepholes) = (
        m.optional(4)?,
        m.optional(5)?,
        m.optional(6)?,
        m.optional(7)?,
    );
    let (mut sequences, mut lasts, mut last_cells) = (Vec::new(), Vec::new(), Vec::new());
    for (d, back) in back.iter().enumerate() {
        let at = d as i64;
        let start = |m: &mut Make<'_, '_>, state: Option<Value>| match state {
            Some(state) if batch_first => m.pick(state, 1, at),
            Some(state) => m.pick(state, 0, at),
            None => {
                let zero = m.like(x, 0.0)?;
                m.expand(zero, &[n, hidden])
            }
        };
        let bias = match m.optional(3)? {
            None => None,
            Some(b) => {
                let (b, size) = (m.pick(b, 0, at)?, cell.gates() * hidden);
                Some([m.along(b, 0, 0, size, 1)?, m.along(b, 0, size, size, 1)?])
            }
        };
        let peephole = match peepholes {
            None => None,
            Some(p) => {
                let p = m.pick(p, 0, at)?;
                let mut part = |k| m.along(p, 0, k * hidden, hidden, 1);
                Some([part(0)?, part(1)?, part(2)?])
            }
        };
        let own = cell.activations().len();
        let (w, r) = (m.pick(w, 0, at)?, m.pick(r, 0, at)?);
        let layer = Layer {
            cell,
            functions: functions[d * own..(d + 1) * own].to_vec(),
            clip: m.node.float("clip").map_err(Some)?.map(f64::from),
            coupled: m.flag("input_forget")?,
            behind: m.flag("linear_before_reset")?,
            hidden,
            w: m.transpose(w, &[1, 0])?,
            r: m.transpose(r, &[1, 0])?,
            bias,
            peephole,
        };
        let (state, cell_state) = (start(&mut m, first)?, start(&mut m, cells)?);
        let state = (state, (cell == Cell::Lstm).then_some(cell_state));
        let run = run(&mut m, &layer, x, lengths, state, *back)?;
        sequences.push(m.unsqueeze(run.sequence, 1)?);
        lasts.push(m.unsqueeze(run.last, 0)?);
        if let Some(c) = run.cell {
            last_cells.push(m.unsqueeze(c, 0)?);
        }
    }
    // T x D x N x H, and D x N x H.
    let mut results = vec![m.concat(sequences, 1)?, m.concat(lasts, 0)?];
    if !last_cells.is_empty() {
        results.push(m.concat(last_cells, 0)?);
    }
    if batch_first {
        results[0] = m.transpose(results[0], &[2, 0, 1, 3])?;
        for state in &mut results[1..] {
            *state = m.transpose(*state, &[1, 0, 2])?;
        }
    }
    cx.define_all(node, &results);
    Ok(())
}

/// What comes of all steps: T x N x H, N x H, and the cell's.
struct Run {
    sequence: Value,
    last: Value,
    cell: Option<Value>,
}

fn run(
    m: &mut Make<'_, '_>,
    layer: &Layer,
    mut x: Value,
    lengths: Option<Value>,
    (mut h, mut c): (Value, Option<Value>),
    back: bool,
) -> Outcome<Run> {
    let &[t, n, inputs] = &m.shape(x)[..] else {
        return m.fail("has an input that is not of rank 3");
    };
    // A known length of all steps is none.
    let lengths = lengths.filter(|lengths| {
        let known = m.cx.constant_of(*lengths).and_then(|a| a.to_i64s());
        !known.is_some_and(|list| list.iter().all(|n| *n == t))
    });
    if back {
        x = turn(m, x, lengths)?;
    }
    let flat = m.reshape(x, &[t * n, inputs])?;
    let product = m.matmul(flat, layer.w)?;
    let size = layer.cell.gates() * layer.hidden;
    let gates = match layer.bias {
        None => product,
        Some([w, r]) => {
            // Only what is reset behind the product is added there.
            let r = match layer.cell == Cell::Gru && layer.behind {
                true => {
                    let kept = m.along(r, 0, 0, 2 * layer.hidden, 1)?;
                    m.pad(kept, &[0], &[layer.hidden], 0.0)?
                }
                false => r,
            };
            let bias = m.add(w, r)?;
            m.add(product, bias)?
        }
    };
    let gates = m.reshape(gates, &[t, n, size])?;
    let mut sequence = if repeat::is_long(m.cx, t, STEP) {
        let sequence;
        (sequence, h, c) = looped(m, layer, gates, lengths, h, c)?;
        sequence
    } else {
        let mut steps = Vec::new();
        for k in 0..t {
            let gates = m.pick(gates, 0, k)?;
            let number = m.number(k)?;
            let shown;
            (shown, h, c) = stepped(m, layer, gates, lengths, number, h, c)?;
            steps.push(m.unsqueeze(shown, 0)?);
        }
        if steps.is_empty() {
            let zero = m.like(x, 0.0)?;
            m.expand(zero, &[0, n, layer.hidden])?
        } else {
            m.concat(steps, 0)?
        }
    };
    if back {
        sequence = turn(m, sequence, lengths)?;
    }
    Ok(Run {
        sequence,
        last: h,
        cell: c,
    })
}

/// A step's result and the next states. Behind its end a sequence gives zeros, and keeps its state.
fn stepped(
    m: &mut Make<'_, '_>,
    layer: &Layer,
    gates: Value,
    lengths: Option<Value>,
    number: Value,
    h: Value,
    c: Option<Value>,
) -> Outcome<(Value, Value, Option<Value>)> {
    let (next, next_cell) = layer.step(m, gates, h, c)?;
    let Some(lengths) = lengths else {
        return Ok((next, next, next_cell));
    };
    let elem = m.elem(lengths);
    let number = m.cast(number, elem)?;
    let ends = m.greater(lengths, number)?;
    let n = m.shape(next)[0];
    let goes_on = m.reshape(ends, &[n, 1])?;
    let zero = m.like(next, 0.0)?;
    let shown = m.choose(goes_on, next, zero)?;
    let kept = m.choose(goes_on, next, h)?;
    let cell = match (next_cell, c) {
        (Some(new), Some(old)) => Some(m.choose(goes_on, new, old)?),
        _ => None,
    };
    Ok((shown, kept, cell))
}

/// All steps as a loop of the program: what they give (T x N x H), and the states at the end.
fn looped(
    m: &mut Make<'_, '_>,
    layer: &Layer,
    gates: Value,
    lengths: Option<Value>,
    h: Value,
    c: Option<Value>,
) -> Outcome<(Value, Value, Option<Value>)> {
    let (node, t) = (m.node, m.shape(gates)[0]);
    let (n, elem) = (m.shape(h)[0], m.elem(h));
    let whole = m.cx.nothing(node, &[t, n, layer.hidden], elem)?;
    let number = m.number(0)?;
    let start = [vec![number, whole, h], c.into_iter().collect()].concat();
    let types: Vec<Type> = start.iter().map(|v| m.cx.ir().ty(*v)).collect();
    let (region, args) = m.cx.enter(&[&[Type::index()], &types[..]].concat());
    let &[at, number, whole, h, ref cell @ ..] = &args[..] else {
        return m.fail("has no state");
    };
    let body = (|| -> Outcome<Vec<Value>> {
        let gates = m.cx.picked(node, gates, 0, at)?;
        let (shown, h, c) = stepped(m, layer, gates, lengths, number, h, cell.first().copied())?;
        let whole = m.cx.placed(node, shown, whole, 0, at)?;
        let next = m.plus(number, 1.0)?;
        Ok([vec![next, whole, h], c.into_iter().collect()].concat())
    })();
    let given = match body {
        Ok(given) => given,
        Err(error) => {
            m.cx.abandon(region);
            return Err(error);
        }
    };
    let region = m.cx.close(region, given);
    let results = m.cx.repeat(node, Bounds::Static(t), start, region)?;
    match results[..] {
        [_, whole, h, ref cell @ ..] => Ok((whole, h, cell.first().copied())),
        _ => m.fail("has no results"),
    }
}

/// Steps in reverse order: those of each sequence.
fn turn(m: &mut Make<'_, '_>, x: Value, lengths: Option<Value>) -> Outcome<Value> {
    match lengths {
        Some(lengths) => scatter::reversed(m, x, lengths, 0, 1),
        None => {
            let t = m.shape(x)[0];
            match t > 1 {
                true => m.along(x, 0, t - 1, t, -1),
                false => Ok(x),
            }
        }
    }
}
