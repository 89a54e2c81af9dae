//! Importers of control flow: `If`, `Loop` and `Scan`.
//!
//! A condition that is known takes one branch; of another one both branches are computed where that is little and nothing in them may
//! stop the program (a division of integers, a place that data say), and the results are chosen from; else they are branches of
//! the program. Loops are written out, one step after the other, so their number must be known, and is
//! bounded by an option.

use tir_core::Value;
use tir_data::{Array, DType};
use tir_graph::Where;
use tir_onnx::{Graph, Node};

use super::import::{Cx, Meaning, Outcome};
use super::make::Make;
use super::operands::{dimension, fail};
use super::repeat::{self, Count, Ways};
use super::stated;

/// Imports a graph within a node, its inputs being these; what its outputs are.
pub(super) fn inside(
    cx: &mut Cx<'_>,
    node: &Node,
    graph: &Graph,
    inputs: Vec<Meaning>,
) -> Outcome<Vec<Meaning>> {
    if inputs.len() != graph.inputs.len() {
        let (found, wanted) = (inputs.len(), graph.inputs.len());
        return fail(
            node,
            format!("gives {found} values to a graph of {wanted} inputs"),
        );
    }
    // What the graph defines hides what is around it, and goes with it.
    let defined = graph.inputs.iter().map(|v| &v.name);
    let defined = defined.chain(graph.initializers.keys());
    let defined = defined.chain(graph.nodes.iter().flat_map(|n| n.outputs.iter().flatten()));
    let mut hidden = Vec::new();
    for name in defined {
        let scope = &mut cx.scope;
        hidden.push((name, scope.names.remove(name), scope.made.remove(name)));
    }
    for (name, array) in &graph.initializers {
        cx.name(name, Meaning::Constant(array.clone()));
    }
    for (input, meaning) in graph.inputs.iter().zip(inputs) {
        cx.name(&input.name, meaning);
    }
    let around = cx.scope.stated.clone();
    cx.scope.stated = stated::shapes(graph, around.clone());
    cx.within.push(node.label());
    cx.nodes(&graph.nodes);
    cx.within.pop();
    cx.scope.stated = around;
    let meaning = |name: &String| cx.scope.names.get(name).cloned();
    let outputs = graph.outputs.iter().map(|output| meaning(&output.name));
    let outputs: Option<Vec<Meaning>> = outputs.collect();
    for (name, meaning, made) in hidden.into_iter().rev() {
        let scope = &mut cx.scope;
        scope.names.remove(name);
        scope.made.remove(name);
        scope.names.extend(meaning.map(|m| (name.clone(), m)));
        scope.made.extend(made.map(|v| (name.clone(), v)));
    }
    match outputs {
        Some(outputs) => Ok(outputs),
        None => fail(node, "has a graph with an output that nothing defines"),
    }
}

fn graph<'a>(node: &'a Node, name: &str) -> Outcome<&'a Graph> {
    let graph = node.graph(name).map_err(Some)?;
    graph.ok_or_else(|| Some(node.missing(name)))
}

/// What operand `k` means, if it is there.
fn meaning(cx: &Cx<'_>, node: &Node, k: usize) -> Outcome<Option<Meaning>> {
    let Some(name) = node.input(k) else {
        return Ok(None);
    };
    match cx.scope.names.get(name) {
        Some(meaning) => Ok(Some(meaning.clone())),
        None => fail(node, format!("operand {k} is not defined")),
    }
}

/// A value for what is known or computed; an error for what is broken.
pub(super) fn value(cx: &mut Cx<'_>, meaning: &Meaning) -> Outcome<Value> {
    match meaning {
        Meaning::Value(value) => Ok(*value),
        Meaning::Constant(array) => Ok(cx.constant(array, "constant")),
        Meaning::Broken => Err(None),
    }
}

/// What a truth value is, if it is known.
pub(super) fn known(meaning: &Meaning) -> Option<bool> {
    match meaning {
        Meaning::Constant(array) => array.get_f64(0).map(|v| v != 0.0),
        _ => None,
    }
}

fn define(cx: &mut Cx<'_>, node: &Node, results: Vec<Meaning>) {
    for (name, result) in node.outputs.iter().zip(results) {
        if let Some(name) = name {
            cx.name(name, result);
        }
    }
}

pub(super) fn if_(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    node.only_attributes(&["then_branch", "else_branch"])
        .map_err(Some)?;
    let branches = [graph(node, "then_branch")?, graph(node, "else_branch")?];
    let Some(condition) = meaning(cx, node, 0)? else {
        return fail(node, "operand 0 is missing");
    };
    if let Some(holds) = known(&condition) {
        let results = inside(cx, node, branches[usize::from(!holds)], Vec::new())?;
        define(cx, node, results);
        return Ok(());
    }
    let condition = value(cx, &condition)?;
    let [then, other] = branches;
    let long = repeat::is_long(cx, 2, repeat::nodes(then) + repeat::nodes(other));
    if let Some(results) = repeat::either(cx, node, condition, branches) {
        let made = results.iter().copied().map(Meaning::Value).collect();
        match if long { None } else { cx.both(&results) } {
            Some([then, other]) => {
                let mut chosen = Vec::new();
                let condition = Make::new(cx, node).reshape(condition, &[])?;
                for (x, y) in then.into_iter().zip(other) {
                    chosen.push(cx.add(node, Where { condition, x, y })?);
                }
                define(cx, node, chosen.into_iter().map(Meaning::Value).collect());
            }
            None => {
                let text =
                    "data say which branch is taken: the thread waits for all that it starts";
                cx.remark(node, text);
                define(cx, node, made);
            }
        }
        return Ok(());
    }
    let then = inside(cx, node, then, Vec::new())?;
    let other = inside(cx, node, other, Vec::new())?;
    let broken = |list: &[Meaning]| list.iter().any(|m| matches!(m, Meaning::Broken));
    if broken(&then) || broken(&other) {
        let why = "has a branch that cannot be imported, and a condition that is not known";
        return cx.not_constant(node, 0, why);
    }
    let mut results = Vec::new();
    for (x, y) in then.iter().zip(&other) {
        results.push(chosen(cx, node, condition, x, y)?);
    }
    define(cx, node, results);
    Ok(())
}

/// One of two results, by a single truth value.
fn chosen(
    cx: &mut Cx<'_>,
    node: &Node,
    condition: Value,
    x: &Meaning,
    y: &Meaning,
) -> Outcome<Meaning> {
    let (x, y) = (value(cx, x)?, value(cx, y)?);
    let (a, b) = (cx.ir().ty(x), cx.ir().ty(y));
    if a != b {
        cx.not_constant::<()>(
            node,
            0,
            &format!("has results of {a} and {b} by a condition that is not known"),
        )?;
    }
    let condition = Make::new(cx, node).reshape(condition, &[])?;
    let result = cx.add(node, Where { condition, x, y })?;
    Ok(Meaning::Value(result))
}

/// The number of steps, if it is within what is allowed.
fn bounded(cx: &Cx<'_>, node: &Node, steps: i64) -> Outcome<i64> {
    let most = cx.options.max_steps;
    match usize::try_from(steps) {
        Ok(n) if n > most => fail(
            node,
            format!("has {n} steps to be written out, at most {most} are: option --max-steps"),
        ),
        _ => Ok(steps.max(0)),
    }
}

pub(super) fn loop_(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    node.only_attributes(&["body"]).map_err(Some)?;
    let body = graph(node, "body")?;
    let carried = node.inputs.len().saturating_sub(2);
    if body.outputs.len() < carried + 1 {
        return fail(
            node,
            "has a body with fewer outputs than values are carried",
        );
    }
    let most = match node.input(0) {
        None => None,
        Some(_) => match cx.elements(node, 0).and_then(|a| a.to_i64s()) {
            Some(list) if list.len() == 1 => Some(list[0]),
            _ => given(cx, node, body, carried)?,
        },
    };
    let counted = cx.is_open(node, 0);
    let mut goes_on = meaning(cx, node, 1)?.unwrap_or_else(|| truth(true));
    let mut state = Vec::new();
    for k in 0..carried {
        match meaning(cx, node, k + 2)? {
            Some(meaning) => state.push(meaning),
            None => return fail(node, format!("operand {} is missing", k + 2)),
        }
    }
    let by_data = known(&goes_on).is_none();
    let long = repeat::is_long(cx, most.unwrap_or(i64::MAX), repeat::nodes(body));
    if (counted || by_data || long) && known(&goes_on) != Some(false) {
        let count = match (counted, most) {
            (true, _) => Count::Given(Some(cx.operand(node, 0)?)),
            (false, None) => Count::Given(None),
            (false, Some(most)) => Count::Known(most),
        };
        let results = repeat::loop_(cx, node, body, &count, &goes_on, &state);
        if let Some(results) = results {
            define(cx, node, results.into_iter().map(Meaning::Value).collect());
            return Ok(());
        }
        if counted {
            return cx.not_constant(node, 0, "has a number of steps that is not constant");
        }
    }
    let mut scans: Vec<Vec<Meaning>> = vec![Vec::new(); body.outputs.len() - carried - 1];
    let mut step = 0;
    while most.is_none_or(|most| step < most) && known(&goes_on) != Some(false) {
        bounded(cx, node, step + 1)?;
        let unknown = known(&goes_on).is_none();
        if unknown && most.is_none() {
            return cx.not_constant(node, 1, "goes on as long as data say");
        }
        if unknown && !scans.is_empty() {
            let why = "collects a value for each step, and ends when data say so";
            return cx.not_constant(node, 1, why);
        }
        let counter = Meaning::Constant(Array::scalar(step));
        let inputs = [counter, goes_on.clone()];
        let inputs = inputs.into_iter().chain(state.iter().cloned()).collect();
        let results = inside(cx, node, body, inputs)?;
        let next = results.get(1..=carried).unwrap_or_default().to_vec();
        let again = results.first().cloned().unwrap_or(Meaning::Broken);
        if matches!(again, Meaning::Broken) {
            return Err(None);
        }
        if unknown {
            // Once it has ended, nothing changes any more.
            let running = value(cx, &goes_on)?;
            for (old, new) in state.iter_mut().zip(&next) {
                *old = chosen(cx, node, running, new, old)?;
            }
            goes_on = both(cx, node, running, &again)?;
        } else {
            state = next;
            goes_on = again;
        }
        for (list, result) in scans.iter_mut().zip(results.into_iter().skip(carried + 1)) {
            list.push(result);
        }
        step += 1;
    }
    for (k, list) in scans.into_iter().enumerate() {
        if list.is_empty() && node.output(carried + k).is_some() {
            return fail(node, "collects values in no step, whose shape is not known");
        }
        if !list.is_empty() {
            state.push(collected(cx, node, &list, 0)?);
        }
    }
    define(cx, node, state);
    Ok(())
}

/// Whether a number of steps that is not constant may be that of a loop of the program.
fn given(cx: &Cx<'_>, node: &Node, body: &Graph, carried: usize) -> Outcome<Option<i64>> {
    match cx.is_open(node, 0) && body.outputs.len() == carried + 1 {
        true => Ok(None),
        false => cx.not_constant(node, 0, "has a number of steps that is not constant"),
    }
}

fn truth(value: bool) -> Meaning {
    let array = Array::new(DType::Bool, &[], vec![u8::from(value)].into());
    array.map_or(Meaning::Broken, Meaning::Constant)
}

fn both(cx: &mut Cx<'_>, node: &Node, x: Value, y: &Meaning) -> Outcome<Meaning> {
    let y = value(cx, y)?;
    let mut make = Make::new(cx, node);
    let (x, y) = (make.reshape(x, &[])?, make.reshape(y, &[])?);
    Ok(Meaning::Value(make.and(x, y)?))
}

/// Values put together along a new dimension.
fn collected(cx: &mut Cx<'_>, node: &Node, list: &[Meaning], dim: usize) -> Outcome<Meaning> {
    let mut xs = Vec::new();
    for meaning in list {
        let x = value(cx, meaning)?;
        xs.push(Make::new(cx, node).unsqueeze(x, dim)?);
    }
    Ok(Meaning::Value(Make::new(cx, node).concat(xs, dim)?))
}

/// A list of integers for each scanned value.
fn each(node: &Node, name: &str, count: usize) -> Outcome<Vec<i64>> {
    let list = node.ints(name).map_err(Some)?;
    match list {
        None => Ok(vec![0; count]),
        Some(list) if list.len() == count => Ok(list.to_vec()),
        Some(list) => fail(
            node,
            format!(
                "attribute '{name}' has {} numbers, expected {count}",
                list.len()
            ),
        ),
    }
}

pub(super) fn scan(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    node.only_attributes(&[
        "body",
        "num_scan_inputs",
        "scan_input_axes",
        "scan_input_directions",
        "scan_output_axes",
        "scan_output_directions",
    ])
    .map_err(Some)?;
    scanned(cx, node, 0)
}

/// Version 8: a batch, each element of which is scanned; operand 0 says lengths.
pub(super) fn scan_of_batch(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    node.only_attributes(&["body", "directions", "num_scan_inputs"])
        .map_err(Some)?;
    if node.input(0).is_some() {
        return fail(
            node,
            "has lengths of sequences, which cannot be imported in opset 8",
        );
    }
    if node
        .ints("directions")
        .map_err(Some)?
        .is_some_and(|d| d.iter().any(|n| *n != 0))
    {
        return fail(node, "scans backwards, which cannot be imported in opset 8");
    }
    let x = cx.operand(node, 1)?;
    let count = cx.shape(x).0.first().copied().unwrap_or(0);
    let mut results: Vec<Vec<Meaning>> = Vec::new();
    for at in 0..bounded(cx, node, count)? {
        let mut inputs = Vec::new();
        for k in 1..node.inputs.len() {
            let x = cx.operand(node, k)?;
            inputs.push(Meaning::Value(Make::new(cx, node).pick(x, 0, at)?));
        }
        let one = steps(cx, node, inputs)?;
        results.resize(one.len(), Vec::new());
        for (list, result) in results.iter_mut().zip(one) {
            list.push(result);
        }
    }
    let mut whole = Vec::new();
    for list in &results {
        whole.push(collected(cx, node, list, 0)?);
    }
    define(cx, node, whole);
    Ok(())
}

fn scanned(cx: &mut Cx<'_>, node: &Node, first: usize) -> Outcome<()> {
    let mut inputs = Vec::new();
    for k in first..node.inputs.len() {
        inputs.push(match meaning(cx, node, k)? {
            Some(Meaning::Broken) => return Err(None),
            Some(meaning) => meaning,
            None => return fail(node, format!("operand {k} is missing")),
        });
    }
    let results = steps(cx, node, inputs)?;
    define(cx, node, results);
    Ok(())
}

/// The state at the end, and what was collected.
fn steps(cx: &mut Cx<'_>, node: &Node, inputs: Vec<Meaning>) -> Outcome<Vec<Meaning>> {
    let body = graph(node, "body")?;
    let count = node.int("num_scan_inputs").map_err(Some)?;
    let count = count.ok_or_else(|| Some(node.missing("num_scan_inputs")))?;
    let count = usize::try_from(count)
        .ok()
        .filter(|n| (1..=inputs.len()).contains(n));
    let Some(count) = count else {
        return fail(node, "has more inputs to scan than operands");
    };
    let carried = inputs.len() - count;
    if body.outputs.len() < carried {
        return fail(
            node,
            "has a body with fewer outputs than values are carried",
        );
    }
    let outputs = body.outputs.len() - carried;
    let (axes, back) = (
        each(node, "scan_input_axes", count)?,
        each(node, "scan_input_directions", count)?,
    );
    let (out_axes, out_back) = (
        each(node, "scan_output_axes", outputs)?,
        each(node, "scan_output_directions", outputs)?,
    );
    let mut whole = Vec::new();
    for (meaning, axis) in inputs[carried..].iter().zip(&axes) {
        let x = value(cx, meaning)?;
        whole.push((x, dimension(node, *axis, cx.shape(x).0.len())?));
    }
    let lengths: Vec<i64> = whole.iter().map(|(x, d)| cx.shape(*x).0[*d]).collect();
    if lengths.iter().any(|n| *n != lengths[0]) {
        return fail(node, format!("scans lengths {lengths:?}, expected one"));
    }
    if repeat::is_long(cx, lengths[0], repeat::nodes(body)) {
        let scanned: Vec<(Value, usize, bool)> = whole
            .iter()
            .zip(&back)
            .map(|((x, dim), back)| (*x, *dim, *back != 0))
            .collect();
        let collected: Vec<(i64, bool)> = out_axes
            .iter()
            .zip(&out_back)
            .map(|(axis, back)| (*axis, *back != 0))
            .collect();
        let ways = Ways {
            scanned: &scanned,
            collected: &collected,
            length: lengths[0],
        };
        if let Some(results) = repeat::scan(cx, node, body, &inputs[..carried], &ways) {
            return Ok(results.into_iter().map(Meaning::Value).collect());
        }
    }
    let length = bounded(cx, node, lengths[0])?;
    let mut state = inputs[..carried].to_vec();
    let mut lists: Vec<Vec<Meaning>> = vec![Vec::new(); outputs];
    for step in 0..length {
        let mut given = state;
        for ((x, d), back) in whole.iter().zip(&back) {
            let at = if *back != 0 { length - 1 - step } else { step };
            given.push(Meaning::Value(Make::new(cx, node).pick(*x, *d, at)?));
        }
        let mut results = inside(cx, node, body, given)?.into_iter();
        state = results.by_ref().take(carried).collect();
        for (list, result) in lists.iter_mut().zip(results) {
            list.push(result);
        }
    }
    for ((mut list, axis), back) in lists.into_iter().zip(&out_axes).zip(&out_back) {
        if *back != 0 {
            list.reverse();
        }
        let Some(first) = list.first() else {
            return fail(node, "collects values in no step, whose shape is not known");
        };
        let first = value(cx, first)?;
        let rank = cx.shape(first).0.len() + 1;
        let dim = dimension(node, *axis, rank)?;
        state.push(collected(cx, node, &list, dim)?);
    }
    Ok(state)
}
