//! `If`, `Loop` and `Scan` as control flow of the program: one body, however many steps there are.
//!
//! A step is imported once, with values of the types that it begins with. Where it cannot be (it takes its own number as a
//! constant, or values change their types from step to step), nothing is left of it, and the steps are written out instead.

use tir_core::{Type, Value};
use tir_loop::Bounds;
use tir_onnx::{Graph, Node};

use super::control::{inside, known, value};
use super::import::{Cx, Meaning, Outcome};
use super::make::Make;

/// The nodes of a graph, with those in its branches and loops; of an attribute's graph all are counted.
pub(super) fn nodes(graph: &Graph) -> usize {
    let inner = |node: &Node| -> usize {
        let graphs = node.attributes.values().filter_map(|value| match value {
            tir_onnx::AttributeValue::Graph(graph) => Some(nodes(graph)),
            _ => None,
        });
        graphs.sum()
    };
    graph.nodes.iter().map(|node| 1 + inner(node)).sum()
}

/// Whether so many steps of so many nodes are too much to be written out.
pub(super) fn is_long(cx: &Cx<'_>, steps: i64, nodes: usize) -> bool {
    let steps = usize::try_from(steps).unwrap_or(usize::MAX);
    steps > 1 && steps.saturating_mul(nodes.max(1)) > cx.options.max_written
}

/// How often a loop runs.
pub(super) enum Count {
    Known(i64),
    /// A number that the program is given, or none; the most steps that data may take.
    Given(Option<Value>),
}

/// What a body gives: whether the loop goes on, what is carried, what is collected.
struct Step {
    goes_on: Meaning,
    state: Vec<Value>,
    lists: Vec<Value>,
}

fn unknown<T>() -> Result<T, Option<tir_data::DataError>> {
    Err(None)
}

/// The results of a `Loop`; `None` if its steps cannot be those of a loop of the program.
pub(super) fn loop_(
    cx: &mut Cx<'_>,
    node: &Node,
    body: &Graph,
    count: &Count,
    goes_on: &Meaning,
    init: &[Meaning],
) -> Option<Vec<Value>> {
    let said = cx.said();
    // Whether a step says that the loop goes on is known behind the first attempt.
    for by_data in [false, true] {
        let open = matches!(count, Count::Given(_)) || known(goes_on) != Some(true);
        if !by_data && open {
            continue;
        }
        match looped(cx, node, body, count, goes_on, init, by_data) {
            Ok(Some(results)) => return Some(results),
            Ok(None) => {}
            Err(_) => {
                cx.unsay(said);
                return None;
            }
        }
    }
    cx.unsay(said);
    None
}

/// `None` if data say how long it goes on, and `by_data` is not set.
fn looped(
    cx: &mut Cx<'_>,
    node: &Node,
    body: &Graph,
    count: &Count,
    goes_on: &Meaning,
    init: &[Meaning],
    by_data: bool,
) -> Outcome<Option<Vec<Value>>> {
    let last = cx.ir().last(cx.block);
    let collects = body.outputs.len().saturating_sub(init.len() + 1);
    let most = i64::try_from(cx.options.max_steps).unwrap_or(i64::MAX);
    let steps = match count {
        Count::Known(n) if by_data => Bounds::Static((*n).min(most)),
        Count::Known(n) => Bounds::Static(*n),
        Count::Given(_) if by_data => Bounds::Static(most),
        Count::Given(_) => return Ok(None),
    };
    // What is collected has a size that is known.
    if collects > 0 && by_data {
        return unknown();
    }
    let first = Make::new(cx, node).number(0)?;
    let mut start = vec![first];
    if by_data {
        let running = value(cx, goes_on)?;
        let mut m = Make::new(cx, node);
        let running = m.reshape(running, &[])?;
        start.push(below(&mut m, running, first, count)?);
    }
    for meaning in init {
        start.push(value(cx, meaning)?);
    }
    let own = 1 + usize::from(by_data);
    let types: Vec<Type> = start.iter().map(|v| cx.ir().ty(*v)).collect();
    let (region, args) = cx.enter(&[&[Type::index()], &types[..]].concat());
    let done = (|| -> Outcome<Option<(Vec<Value>, Vec<Value>)>> {
        let number = args[1];
        if !by_data {
            let next = Make::new(cx, node).plus(number, 1.0)?;
            let step = step(
                cx,
                node,
                body,
                number,
                goes_on.clone(),
                &args[1 + own..],
                &types[own..],
            )?;
            if known(&step.goes_on) != Some(true) {
                return Ok(None);
            }
            return Ok(Some(([vec![next], step.state].concat(), step.lists)));
        }
        let running = args[2];
        let condition = cx.element(node, running)?;
        let (then, _) = cx.enter(&[]);
        let made = (|| -> Outcome<Vec<Value>> {
            let next = Make::new(cx, node).plus(number, 1.0)?;
            let step = step(
                cx,
                node,
                body,
                number,
                Meaning::Value(running),
                &args[1 + own..],
                &types[own..],
            )?;
            let again = value(cx, &step.goes_on)?;
            let mut m = Make::new(cx, node);
            let again = m.reshape(again, &[])?;
            let again = below(&mut m, again, next, count)?;
            Ok([vec![next, again], step.state].concat())
        })();
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                cx.abandon(then);
                return Err(error);
            }
        };
        let then = cx.close(then, made);
        let (other, _) = cx.enter(&[]);
        let other = cx.close(other, args[1..].to_vec());
        let chosen = cx.either(node, condition, [then, other], types.clone())?;
        Ok(Some((chosen, Vec::new())))
    })();
    let (mut given, lists) = match done {
        Ok(Some(given)) => given,
        other => {
            cx.abandon(region);
            cx.drop_unused(last);
            return match other {
                Err(error) => Err(error),
                _ => Ok(None),
            };
        }
    };
    if !lists.is_empty() {
        let Bounds::Static(length) = steps else {
            cx.abandon(region);
            return unknown();
        };
        for list in lists {
            let (shape, elem) = cx.shape(list);
            let whole = [&[length], shape].concat();
            let arg = cx.argument(&region, Type::tensor(&whole[..], elem));
            given.push(cx.placed(node, list, arg, 0, args[0])?);
            start.push(cx.outside(node, &whole, elem)?);
        }
    }
    let region = cx.close(region, given);
    let results = cx.repeat(node, steps, start, region)?;
    if by_data {
        let more = match count {
            Count::Known(n) => *n > most,
            Count::Given(_) => true,
        };
        if more {
            let ended = Make::new(cx, node).not(results[1])?;
            let why =
                format!("goes on for more than {most} steps: option --max-steps of the import");
            cx.check(node, ended, &why)?;
        }
    }
    if by_data {
        cx.remark(
            node,
            "data say how long it goes on: where it runs, the thread waits for all that it starts",
        );
    }
    Ok(Some(results[own..].to_vec()))
}

/// Whether a loop goes on, with the number of steps that the program is given.
fn below(m: &mut Make<'_, '_>, running: Value, number: Value, count: &Count) -> Outcome<Value> {
    let Count::Given(Some(steps)) = count else {
        return Ok(running);
    };
    let steps = m.reshape(*steps, &[])?;
    let more = m.less(number, steps)?;
    m.and(running, more)
}

/// One step: its number, whether it runs, and what is carried, of these types.
fn step(
    cx: &mut Cx<'_>,
    node: &Node,
    body: &Graph,
    number: Value,
    running: Meaning,
    state: &[Value],
    types: &[Type],
) -> Outcome<Step> {
    let inputs = [Meaning::Value(number), running];
    let state = state.iter().map(|v| Meaning::Value(*v));
    let results = inside(cx, node, body, inputs.into_iter().chain(state).collect())?;
    let mut results = results.into_iter();
    let goes_on = results.next().unwrap_or(Meaning::Broken);
    if matches!(goes_on, Meaning::Broken) {
        return unknown();
    }
    let mut values = Vec::new();
    for result in results {
        values.push(value(cx, &result)?);
    }
    let lists = values.split_off(types.len().min(values.len()));
    carried(cx, &values, types)?;
    Ok(Step {
        goes_on,
        state: values,
        lists,
    })
}

/// Whether what is carried keeps its types.
fn carried(cx: &Cx<'_>, values: &[Value], types: &[Type]) -> Outcome<()> {
    let same = values.len() == types.len()
        && values
            .iter()
            .zip(types)
            .all(|(v, ty)| cx.ir().ty(*v) == *ty);
    match same {
        true => Ok(()),
        false => unknown(),
    }
}

/// What a `Scan` scans and collects along.
pub(super) struct Ways<'a> {
    /// Values and their dimensions, and whether from the end.
    pub scanned: &'a [(Value, usize, bool)],
    /// Dimensions of what is collected (counted from the end if negative), and whether from the end.
    pub collected: &'a [(i64, bool)],
    pub length: i64,
}

/// The results of a `Scan`; `None` if its steps cannot be those of a loop of the program.
pub(super) fn scan(
    cx: &mut Cx<'_>,
    node: &Node,
    body: &Graph,
    init: &[Meaning],
    ways: &Ways<'_>,
) -> Option<Vec<Value>> {
    let said = cx.said();
    match scanned(cx, node, body, init, ways) {
        Ok(results) => Some(results),
        Err(_) => {
            cx.unsay(said);
            None
        }
    }
}

fn scanned(
    cx: &mut Cx<'_>,
    node: &Node,
    body: &Graph,
    init: &[Meaning],
    ways: &Ways<'_>,
) -> Outcome<Vec<Value>> {
    let mut start = Vec::new();
    for meaning in init {
        start.push(value(cx, meaning)?);
    }
    let types: Vec<Type> = start.iter().map(|v| cx.ir().ty(*v)).collect();
    let (region, args) = cx.enter(&[&[Type::index()], &types[..]].concat());
    let place = |cx: &mut Cx<'_>, back: bool| match back {
        true => cx.counted_down(args[0], ways.length),
        false => args[0],
    };
    let done = (|| -> Outcome<Vec<Value>> {
        let mut inputs: Vec<Meaning> = args[1..].iter().map(|v| Meaning::Value(*v)).collect();
        for (x, dim, back) in ways.scanned {
            let at = place(cx, *back);
            inputs.push(Meaning::Value(cx.picked(node, *x, *dim, at)?));
        }
        let results = inside(cx, node, body, inputs)?;
        let mut values = Vec::new();
        for result in &results {
            values.push(value(cx, result)?);
        }
        carried(cx, &values[..types.len().min(values.len())], &types)?;
        Ok(values)
    })();
    let mut given = match done {
        Ok(values) => values,
        Err(error) => {
            cx.abandon(region);
            return Err(error);
        }
    };
    for (k, (axis, back)) in ways.collected.iter().enumerate() {
        let at = place(cx, *back);
        let list = given[types.len() + k];
        let (shape, elem) = cx.shape(list);
        let dim = super::operands::dimension(node, *axis, shape.len() + 1);
        let dim = match dim {
            Ok(dim) => dim,
            Err(error) => {
                cx.abandon(region);
                return Err(error);
            }
        };
        let mut whole = shape.to_vec();
        whole.insert(dim, ways.length);
        let arg = cx.argument(&region, Type::tensor(&whole[..], elem));
        given[types.len() + k] = cx.placed(node, list, arg, dim, at)?;
        start.push(cx.outside(node, &whole, elem)?);
    }
    let region = cx.close(region, given);
    cx.repeat(node, Bounds::Static(ways.length), start, region)
}

/// The results of the branch that a condition takes; `None` if the branches cannot be those of the program.
pub(super) fn either(
    cx: &mut Cx<'_>,
    node: &Node,
    condition: Value,
    branches: [&Graph; 2],
) -> Option<Vec<Value>> {
    let said = cx.said();
    let mut regions = Vec::new();
    let mut types: Option<Vec<Type>> = None;
    let condition = cx.element(node, condition).ok()?;
    for branch in branches {
        let (region, _) = cx.enter(&[]);
        let done = (|| -> Outcome<Vec<Value>> {
            let results = inside(cx, node, branch, Vec::new())?;
            results.iter().map(|result| value(cx, result)).collect()
        })();
        let values = done.unwrap_or_default();
        let found: Vec<Type> = values.iter().map(|v| cx.ir().ty(*v)).collect();
        let fits = found.len() == branch.outputs.len()
            && types.as_ref().is_none_or(|types| *types == found);
        if !fits {
            cx.abandon(region);
            for region in regions {
                cx.forget(region);
            }
            cx.unsay(said);
            return None;
        }
        types = Some(found);
        regions.push(cx.close(region, values));
    }
    let regions: [tir_core::RegionId; 2] = regions.try_into().ok()?;
    cx.either(node, condition, regions, types.unwrap_or_default())
        .ok()
}
