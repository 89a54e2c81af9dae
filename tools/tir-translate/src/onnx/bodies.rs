//! Nodes that stand for other nodes: functions of the model, and the bodies that ONNX itself has for
//! operators.
//!
//! `functions.onnx` is a model of functions alone, made by `functions.py` from the onnx package: a function for
//! each definition of an operator that has a fixed body there, `overload` being the version from which
//! on it holds. A body is imported in a scope of its own; the node's operands are its inputs.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use tir_data::Bytes;
use tir_onnx::{AttributeValue, Function, Graph, Model, Node};

use super::import::{Cx, Meaning, Outcome, Scope};
use super::opsets::{self, Importer};
use super::{contrib, operands::fail, stated};

/// Bodies in bodies, at most: more are taken for a circle.
const DEPTH: usize = 64;

/// The bodies of ONNX's own operators.
fn standard() -> &'static [Function] {
    static FUNCTIONS: OnceLock<Vec<Function>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let file = Bytes::from_static(include_bytes!("functions.onnx"));
        match tir_onnx::decode(file, None) {
            Ok(model) => model.functions,
            Err(error) => panic!("the table of bodies cannot be read: {error}"),
        }
    })
}

/// The functions that nodes may stand for.
pub(super) struct Library<'m> {
    local: Vec<&'m Function>,
}

/// How a node is imported.
pub(super) enum Means<'m> {
    Importer(Importer),
    Body(&'m Function),
    /// Not at all; why, if that is known.
    Nothing(Option<String>),
}

impl<'m> Library<'m> {
    pub(super) fn new(model: &'m Model) -> Self {
        Self {
            local: model.functions.iter().collect(),
        }
    }

    /// What a node means in a version of ONNX's own operators: a function of the model goes first.
    pub(super) fn means(&self, node: &Node, opset: i64) -> Means<'m> {
        let own = |f: &&&Function| {
            f.name == node.op_type && f.domain == node.domain && f.overload == node.overload
        };
        if let Some(function) = self.local.iter().find(own) {
            return Means::Body(function);
        }
        let found = match node.domain.as_str() {
            "" => opsets::importer(node, opset),
            "com.microsoft" => contrib::importer(node),
            domain => Err(opsets::domain(domain)),
        };
        match found {
            Ok(importer) => Means::Importer(importer),
            Err(why) => match body(node, opset) {
                Some(function) => Means::Body(function),
                None => Means::Nothing(why.or_else(|| {
                    let since = bodies(node).filter_map(since).min()?;
                    Some(format!(
                        "is not supported in opset {opset}, only from {since} on"
                    ))
                })),
            },
        }
    }
}

/// The bodies of an operator, of all versions.
fn bodies(node: &Node) -> impl Iterator<Item = &'static Function> {
    let named = move |f: &&Function| f.name == node.op_type && f.domain == node.domain;
    standard().iter().filter(named)
}

/// The version from which on a body holds.
fn since(function: &Function) -> Option<i64> {
    function.overload.parse().ok()
}

/// The newest body of an operator that is not newer than a version.
fn body(node: &Node, opset: i64) -> Option<&'static Function> {
    let holds = |f: &&Function| since(f).is_some_and(|since| since <= opset);
    bodies(node).filter(holds).max_by_key(|f| since(f))
}

/// Imports the body of a node.
pub(super) fn call<'m>(cx: &mut Cx<'m>, node: &Node, function: &'m Function) -> Outcome<()> {
    if cx.within.len() >= DEPTH {
        return fail(node, format!("is within {DEPTH} bodies of others"));
    }
    let mut scope = Scope {
        opset: function.opset.get("").copied().unwrap_or(cx.scope.opset),
        ..Scope::default()
    };
    if node.inputs.len() > function.graph.inputs.len() {
        let (found, most) = (node.inputs.len(), function.graph.inputs.len());
        return fail(
            node,
            format!("has {found} operands, expected at most {most}"),
        );
    }
    for (k, formal) in function.graph.inputs.iter().enumerate() {
        let meaning = node.input(k).and_then(|name| cx.scope.names.get(name));
        if let Some(meaning) = meaning {
            scope.names.insert(formal.name.clone(), meaning.clone());
        }
    }
    let outputs = function.graph.outputs.iter().enumerate();
    let stated = outputs.filter_map(|(k, formal)| Some((formal.name.clone(), cx.stated(node, k)?)));
    scope.stated = stated::shapes(&function.graph, stated.collect());
    let given = attributes(node, function)?;
    let mut nodes = function.graph.nodes.clone();
    nodes.iter_mut().for_each(|n| substitute(n, &given));
    // What is omitted is omitted in the body too.
    for inner in &mut nodes {
        for operand in &mut inner.inputs {
            let formal = operand.as_ref().and_then(|name| {
                let inputs = &function.graph.inputs;
                inputs.iter().position(|formal| formal.name == *name)
            });
            if formal.is_some_and(|k| node.input(k).is_none()) {
                *operand = None;
            }
        }
    }
    let outer = std::mem::replace(&mut cx.scope, scope);
    cx.within.push(node.label());
    cx.nodes(&nodes);
    cx.within.pop();
    let inner = std::mem::replace(&mut cx.scope, outer);
    for (k, formal) in function.graph.outputs.iter().enumerate() {
        if let Some(name) = node.output(k) {
            let meaning = inner.names.get(&formal.name).cloned();
            cx.name(name, meaning.unwrap_or(Meaning::Broken));
        }
    }
    Ok(())
}

/// The attributes that a body may refer to; those without a value and a default are not there.
fn attributes(node: &Node, function: &Function) -> Outcome<BTreeMap<String, AttributeValue>> {
    let mut given = function.defaults.clone();
    for (name, value) in &node.attributes {
        if !function.attributes.contains(name) && !function.defaults.contains_key(name) {
            return fail(node, format!("attribute '{name}' is not known for this op"));
        }
        given.insert(name.clone(), value.clone());
    }
    Ok(given)
}

/// Puts values in the place of references, in the graphs of a node too.
fn substitute(node: &mut Node, given: &BTreeMap<String, AttributeValue>) {
    let all = std::mem::take(&mut node.attributes);
    for (name, value) in all {
        let value = match value {
            AttributeValue::Reference(of) => given.get(&of).cloned(),
            AttributeValue::Graph(mut graph) => {
                inside(&mut graph, given);
                Some(AttributeValue::Graph(graph))
            }
            other => Some(other),
        };
        node.attributes.extend(value.map(|value| (name, value)));
    }
}

fn inside(graph: &mut Graph, given: &BTreeMap<String, AttributeValue>) {
    graph.nodes.iter_mut().for_each(|n| substitute(n, given));
}
