//! Layers of a network beside nodes of ONNX Runtime.
//!
//! ONNX Runtime's nodes are those of the graph that it made: it has joined some, and named others anew. A node of its
//! graph stands for the node of the model whose result, or whose name, it has, and for all before that one up to where
//! another of its nodes stands. Layers and its nodes that have a node of the model in common are one line.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use prost::Message;
use tir_onnx::Model;
use tir_onnx::proto::{ModelProto, NodeProto};
use tir_run::native::NativeLayer;

/// Layers that are compared as one.
pub(super) struct Line {
    /// Numbers of layers, in their order.
    pub(super) layers: Vec<usize>,
    /// Names of nodes of ONNX Runtime.
    pub(super) nodes: Vec<String>,
}

/// A line for each layer, beside nothing.
pub(super) fn each(layers: &[NativeLayer]) -> Vec<Line> {
    let line = |k: usize| Line {
        layers: vec![k],
        nodes: Vec::new(),
    };
    (0..layers.len()).map(line).collect()
}

/// Nodes of a model that each node of ONNX Runtime's graph stands for, by its name.
pub(super) struct Nodes(Vec<(String, BTreeSet<usize>)>);

/// How ONNX Runtime marks the names of nodes that it lays out anew.
const MARK: &str = "_nchwc";

impl Nodes {
    /// Those of the graph that ONNX Runtime wrote for a model.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn read(model: &Model, optimized: &Path) -> Result<Self, String> {
        let file = std::fs::read(optimized).map_err(|e| e.to_string())?;
        let proto = ModelProto::decode(&file[..]).map_err(|e| e.to_string())?;
        let graph = proto.graph.unwrap_or_default();
        let own = &model.graph.nodes;
        let mut makes: HashMap<&str, usize> = HashMap::new();
        for (k, node) in own.iter().enumerate() {
            for output in node.outputs.iter().flatten() {
                makes.insert(output, k);
            }
        }
        let named: BTreeMap<&str, usize> = own
            .iter()
            .enumerate()
            .filter(|(_, node)| !node.name.is_empty())
            .map(|(k, node)| (node.name.as_str(), k))
            .collect();
        // Names are made longer: by `_token_3`, by `/MatMulAddFusion`.
        let begins = |name: &str| {
            let ends = name
                .char_indices()
                .filter(|(_, c)| matches!(c, '_' | '/'))
                .map(|(at, _)| at);
            let mut ends: Vec<usize> = ends.chain([name.len()]).collect();
            ends.reverse();
            let mut all = ends.into_iter().map(|end| &name[..end]);
            all.find_map(|part| named.get(part).or(makes.get(part)).copied())
        };
        let stands = |node: &NodeProto| {
            let outputs = node.output.iter();
            let mut outputs = outputs.filter_map(|name| makes.get(name.as_str()));
            let name = node.name.strip_suffix(MARK).unwrap_or(&node.name);
            outputs.next().copied().or_else(|| begins(name))
        };
        let mut last: Vec<Option<usize>> = graph.node.iter().map(stands).collect();
        // A node that ONNX Runtime added, to lay a value out anew, belongs to who uses it.
        for k in (0..graph.node.len()).rev() {
            if last[k].is_none() {
                let given = &graph.node[k].output;
                let uses = |node: &NodeProto| node.input.iter().any(|input| given.contains(input));
                let user = (k + 1..graph.node.len()).find(|at| uses(&graph.node[*at]));
                last[k] = user.and_then(|at| last[at]);
            }
        }
        let all_last: BTreeSet<usize> = last.iter().flatten().copied().collect();
        let stood_for = |last: usize| {
            let (mut all, mut todo) = (BTreeSet::from([last]), vec![last]);
            while let Some(k) = todo.pop() {
                let inputs = own[k].inputs.iter().flatten();
                for before in inputs.filter_map(|name| makes.get(name.as_str())) {
                    if !all_last.contains(before) && all.insert(*before) {
                        todo.push(*before);
                    }
                }
            }
            all
        };
        let nodes = graph.node.iter().zip(&last).map(|(node, last)| {
            let all = last.map(stood_for).unwrap_or_default();
            (node.name.clone(), all)
        });
        Ok(Self(nodes.collect()))
    }

    /// Layers and nodes side by side, in the order of layers; behind them each node that no layer has anything of.
    pub(super) fn beside(&self, model: &Model, layers: &[NativeLayer]) -> Vec<Line> {
        let titles: Vec<String> = model.graph.nodes.iter().map(|node| node.title()).collect();
        // The line of each layer: the number of the first layer that it is joined with.
        let mut line: Vec<usize> = (0..layers.len()).collect();
        let mut of_node: Vec<Option<usize>> = Vec::new();
        for (_, stands_for) in &self.0 {
            let has = |layer: &NativeLayer| {
                let mut own = stands_for.iter().map(|k| &titles[*k]);
                own.any(|title| layer.at.contains(title))
            };
            let joined: BTreeSet<usize> = (0..layers.len())
                .filter(|k| has(&layers[*k]))
                .map(|k| line[k])
                .collect();
            let first = joined.first().copied();
            if let Some(first) = first {
                for at in &mut line {
                    if joined.contains(at) {
                        *at = first;
                    }
                }
            }
            of_node.push(first);
        }
        let mut lines: Vec<Line> = Vec::new();
        let firsts: BTreeSet<usize> = line.iter().copied().collect();
        let names = |wanted: &dyn Fn(Option<usize>) -> bool| -> Vec<String> {
            let all = self.0.iter().zip(&of_node);
            let all = all.filter(|(_, at)| wanted(at.map(|at| line[at])));
            all.map(|((name, _), _)| name.clone()).collect()
        };
        for first in firsts {
            lines.push(Line {
                layers: (0..layers.len()).filter(|k| line[*k] == first).collect(),
                nodes: names(&|at| at == Some(first)),
            });
        }
        let further = names(&|at| at.is_none()).into_iter();
        lines.extend(further.map(|node| Line {
            layers: Vec::new(),
            nodes: vec![node],
        }));
        lines
    }
}
