//! The e-graph with names, for DOT and JSON.

use tir::Ir;
use tir_extraction::{Choice, EGraph};

use crate::build::Program;
use crate::extract::Extracted;
use crate::graph::{Graph, GraphExt};
use crate::node::{Head, Node};
use crate::report;

/// Attributes with more text than this are left out.
const LONG: usize = 80;

/// An e-graph with names that begin with `prefix`, and what was chosen of it.
pub(crate) fn named(
    ir: &Ir,
    graph: &Graph,
    program: &Program,
    extracted: &Extracted,
    prefix: &str,
) -> (EGraph, Choice) {
    let nodes = extracted.nodes.iter();
    let classes = extracted.classes.iter();
    let named = EGraph {
        problem: extracted.problem.clone(),
        ids: (0..nodes.len()).map(|n| format!("{prefix}n{n}")).collect(),
        ops: nodes.map(|node| label(ir, graph, program, node)).collect(),
        classes: classes.map(|id| format!("{prefix}c{id}")).collect(),
    };
    (named, extracted.numbers.clone())
}

/// What a node is: its op and attributes, or the value that is not looked into.
fn label(ir: &Ir, graph: &Graph, program: &Program, node: &Node) -> String {
    match node.head {
        Head::Leaf(index) => report::name(ir, program.leaves[index as usize].value),
        Head::Result(index) => format!("#{index}"),
        Head::Op { .. } => {
            let name = graph.name_of(node).map_or("", |name| name.as_str());
            let attrs = graph.attrs_of(node);
            let attrs = tir::Attr::new(tir::DictAttr::new(attrs.to_vec())).to_string();
            match attrs.len() {
                0..=2 => name.to_string(),
                3..=LONG => format!("{name} {attrs}"),
                _ => format!("{name} {{...}}"),
            }
        }
    }
}
