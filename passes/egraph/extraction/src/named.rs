//! E-graphs with names, for people and other tools.

use serde_json::json;

use crate::{Choice, Node, Problem};

/// An e-graph and the names in it.
#[derive(Clone, Debug, Default)]
pub struct EGraph {
    /// The numbers.
    pub problem: Problem,
    /// The id of each node.
    pub ids: Vec<String>,
    /// The op of each node.
    pub ops: Vec<String>,
    /// The name of each class.
    pub classes: Vec<String>,
}

impl EGraph {
    /// Several e-graphs and choices side by side as one.
    pub fn joined<'a>(parts: impl IntoIterator<Item = &'a (EGraph, Choice)>) -> (EGraph, Choice) {
        let mut all = (EGraph::default(), Choice::new());
        for (graph, choice) in parts {
            let (into, chosen) = &mut all;
            let (classes, nodes) = (into.problem.classes, into.problem.nodes.len());
            let moved = graph.problem.nodes.iter().map(|node| {
                let children = node.children.iter().map(|c| c + classes);
                Node::new(
                    node.class + classes,
                    node.cost,
                    children.collect::<Vec<_>>(),
                )
            });
            into.problem.nodes.extend(moved);
            into.problem.classes += graph.problem.classes;
            let roots = graph.problem.roots.iter().map(|root| root + classes);
            into.problem.roots.extend(roots);
            into.ids.extend(graph.ids.iter().cloned());
            into.ops.extend(graph.ops.iter().cloned());
            into.classes.extend(graph.classes.iter().cloned());
            chosen.extend(choice.iter().map(|node| node.map(|node| node + nodes)));
        }
        all
    }

    /// JSON in the format of egraph-serialize, which extraction-gym reads: nodes by id with `op`,
    /// `cost`, `eclass` and `children`, and `root_eclasses`; besides, which nodes are `chosen`.
    /// Nodes that need a class without nodes are left out.
    pub fn json(&self, choice: &Choice) -> String {
        let members = self.problem.members();
        let nodes = self.problem.nodes.iter().enumerate();
        let lines = nodes.filter_map(|(number, node)| {
            let children = node.children.iter();
            let children = children.map(|class| Some(&self.ids[*members[*class].first()?]));
            let mut fields = json!({
                "op": self.ops[number],
                "cost": node.cost,
                "eclass": self.classes[node.class],
                "children": children.collect::<Option<Vec<_>>>()?,
            });
            if choice.get(node.class) == Some(&Some(number)) {
                fields["chosen"] = json!(true);
            }
            Some(format!("\n  {}: {fields}", json!(self.ids[number])))
        });
        let lines = lines.collect::<Vec<_>>().join(",");
        let roots = self.problem.roots.iter().map(|root| &self.classes[*root]);
        let roots = json!(roots.collect::<Vec<_>>());
        format!("{{\"nodes\": {{{lines}\n}},\n\"root_eclasses\": {roots}}}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_side_by_side() {
        let part = |op: &str| {
            let problem = Problem {
                classes: 2,
                nodes: vec![Node::new(0, 1.5, [1]), Node::new(1, 0.0, [])],
                roots: vec![0],
            };
            let graph = EGraph {
                problem,
                ids: vec![format!("{op}.0"), format!("{op}.1")],
                ops: vec![op.to_string(), "\"x\"".to_string()],
                classes: vec![format!("{op}c"), format!("{op}d")],
            };
            (graph, vec![Some(0), Some(1)])
        };
        let (graph, choice) = EGraph::joined(&[part("f"), part("g")]);
        assert_eq!(choice, [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(graph.problem.roots, [0, 2]);
        assert_eq!(graph.problem.nodes[2], Node::new(2, 1.5, [3]));
        let json = graph.json(&choice);
        let line = r#""g.0": {"children":["g.1"],"chosen":true,"cost":1.5,"eclass":"gc","op":"g"}"#;
        assert!(json.contains(line), "{json}");
        assert!(json.contains(r#""op":"\"x\"""#), "{json}");
        assert!(
            json.ends_with("\"root_eclasses\": [\"fc\",\"gc\"]}\n"),
            "{json}"
        );
    }
}
