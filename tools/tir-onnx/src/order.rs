//! Names and order: what each node needs is defined once, and before it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use tir_data::DataError;

use crate::{Graph, Node};

/// Names that a graph uses and does not define, with the label of a node that does.
pub(crate) type Free = HashMap<String, String>;

/// Checks the names of `graph`, sorts its nodes topologically (keeping their order where that is
/// legal) and returns the names it needs from around it. `captures[k]` are those that the graphs
/// inside node k need.
pub(crate) fn resolve(graph: &mut Graph, captures: &[BTreeSet<String>]) -> Result<Free, DataError> {
    let makers = makers(graph)?;
    let inputs: BTreeSet<&str> = graph.inputs.iter().map(|v| v.name.as_str()).collect();
    let known = |name: &str| {
        makers.contains_key(name) || inputs.contains(name) || graph.initializers.contains_key(name)
    };

    let mut free = Free::new();
    let mut waits = vec![0usize; graph.nodes.len()]; // how many makers each node waits for
    let mut users = vec![Vec::new(); graph.nodes.len()];
    for (k, node) in graph.nodes.iter().enumerate() {
        for name in needs(node, captures.get(k)) {
            if let Some(&maker) = makers.get(name) {
                if let (Some(wait), Some(users)) = (waits.get_mut(k), users.get_mut(maker)) {
                    *wait += 1;
                    users.push(k);
                }
            } else if !known(name) {
                free.entry(name.to_string()).or_insert_with(|| node.label());
            }
        }
    }
    for output in &graph.outputs {
        if !known(&output.name) {
            free.entry(output.name.clone())
                .or_insert_with(|| "the graph's outputs".into());
        }
    }

    // Kahn's algorithm; the smallest ready position first, so a legal order stays as it is.
    let mut ready: BinaryHeap<Reverse<usize>> = waits
        .iter()
        .enumerate()
        .filter(|(_, w)| **w == 0)
        .map(|(k, _)| Reverse(k))
        .collect();
    let mut order = Vec::with_capacity(graph.nodes.len());
    while let Some(Reverse(k)) = ready.pop() {
        order.push(k);
        for &user in users.get(k).into_iter().flatten() {
            if let Some(wait) = waits.get_mut(user) {
                *wait -= 1;
                if *wait == 0 {
                    ready.push(Reverse(user));
                }
            }
        }
    }
    if order.len() < graph.nodes.len() {
        return Err(cycle(graph, captures, &makers, &waits));
    }
    if !order.is_sorted() {
        let mut nodes: Vec<Option<Node>> = graph.nodes.drain(..).map(Some).collect();
        graph.nodes = order
            .iter()
            .filter_map(|&k| nodes.get_mut(k)?.take())
            .collect();
    }
    Ok(free)
}

/// What a node needs: its operands, and what the graphs inside it capture; each name once.
fn needs<'a>(node: &'a Node, captured: Option<&'a BTreeSet<String>>) -> BTreeSet<&'a str> {
    let operands = node.inputs.iter().flatten();
    operands
        .chain(captured.into_iter().flatten())
        .map(String::as_str)
        .collect()
}

/// The position of the node that makes each value; every value is made once.
fn makers(graph: &Graph) -> Result<HashMap<String, usize>, DataError> {
    let mut inputs = BTreeSet::new();
    for input in &graph.inputs {
        if !inputs.insert(input.name.as_str()) {
            return Err(DataError::at_part(
                format!("input '{}'", input.name),
                "is listed twice",
            ));
        }
    }
    let mut makers: HashMap<String, usize> = HashMap::new();
    for (k, node) in graph.nodes.iter().enumerate() {
        for name in node.outputs.iter().flatten() {
            let also = if inputs.contains(name.as_str()) {
                "an input of the graph".to_string()
            } else if graph.initializers.contains_key(name) {
                "an initializer".to_string()
            } else if let Some(&first) = makers.get(name) {
                format!(
                    "a result of {}",
                    graph.nodes.get(first).map(Node::label).unwrap_or_default()
                )
            } else {
                makers.insert(name.clone(), k);
                continue;
            };
            return Err(node.error(format!("result '{name}' is also {also}")));
        }
    }
    Ok(makers)
}

/// The error for a cycle among the nodes that still wait.
fn cycle(
    graph: &Graph,
    captures: &[BTreeSet<String>],
    makers: &HashMap<String, usize>,
    waits: &[usize],
) -> DataError {
    let waiting = |k: usize| waits.get(k).is_some_and(|&w| w > 0);
    // Every waiting node needs a waiting one; walking back must come round.
    let mut path = Vec::new();
    let mut seen = HashMap::new();
    let mut at = (0..waits.len()).find(|&k| waiting(k));
    while let Some(k) = at {
        if let Some(start) = seen.insert(k, path.len()) {
            path.drain(..start);
            break;
        }
        path.push(k);
        let needed = graph
            .nodes
            .get(k)
            .map(|node| needs(node, captures.get(k)))
            .unwrap_or_default();
        at = needed
            .into_iter()
            .filter_map(|name| makers.get(name).copied())
            .find(|&m| waiting(m));
    }
    // Walked from user to maker; told from maker to user, closing the circle.
    path.reverse();
    let mut labels: Vec<String> = path
        .iter()
        .filter_map(|&k| graph.nodes.get(k))
        .map(Node::label)
        .collect();
    let count = labels.len();
    labels.extend(labels.first().cloned());
    if count > 8 {
        labels.splice(4..count - 3, ["…".to_string()]);
    }
    let place = labels.first().cloned().unwrap_or_default();
    DataError::at_part(
        place,
        format!("needs its own result: {}", labels.join(" → ")),
    )
}
