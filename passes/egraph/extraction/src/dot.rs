//! An e-graph as DOT: classes as boxes, what is chosen filled.

use std::fmt::Write;

use crate::{Choice, EGraph};

/// The classes that `choice` computes, each with all its nodes and their costs, for Graphviz.
pub fn dot(graph: &EGraph, choice: &Choice) -> String {
    let mut out = String::from("digraph egraph {\n  compound=true\n  node [shape=box]\n");
    let members = graph.problem.members();
    let chosen = |class: usize| choice[class].is_some();
    for (class, nodes) in members.iter().enumerate().filter(|(c, _)| chosen(*c)) {
        let name = graph.classes[class].escape_default();
        let _ = writeln!(out, "  subgraph cluster_{class} {{\n    label=\"{name}\"");
        for &node in nodes {
            let op = graph.ops[node].escape_default();
            let fill = match choice[class] == Some(node) {
                true => ", style=filled, fillcolor=lightblue",
                false => "",
            };
            let cost = graph.problem.nodes[node].cost;
            let _ = writeln!(out, "    n{node} [label=\"{op}\\n{cost}\"{fill}]");
        }
        out.push_str("  }\n");
    }
    for (node, record) in graph.problem.nodes.iter().enumerate() {
        if !chosen(record.class) {
            continue;
        }
        for &child in record.children.iter().filter(|&&c| chosen(c)) {
            let first = choice[child].unwrap_or(members[child][0]);
            let style = match choice[record.class] == Some(node) {
                true => "",
                false => ", style=dotted",
            };
            let _ = writeln!(out, "  n{node} -> n{first} [lhead=cluster_{child}{style}]");
        }
    }
    out.push_str("}\n");
    out
}
