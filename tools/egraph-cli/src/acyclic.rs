//! Whether an extracted graph is whole and acyclic, in the terms of the file.

use std::collections::{BTreeMap, BTreeSet};

use tir_extraction::EGraph;

/// Whether `choice`, nodes by the name of their class, computes all roots without a cycle: takes
/// away classes whose children are all taken away until none is left. Shares no code with
/// extraction.
pub fn is_acyclic(graph: &EGraph, choice: &BTreeMap<&str, usize>) -> bool {
    let name = |class: usize| graph.classes[class].as_str();
    let problem = &graph.problem;
    let in_its_class = |(class, &node): (&&str, &usize)| name(problem.nodes[node].class) == *class;
    let roots = problem.roots.iter().all(|&r| choice.contains_key(name(r)));
    if !roots || !choice.iter().all(in_its_class) {
        return false;
    }
    let mut computed: BTreeSet<&str> = BTreeSet::new();
    loop {
        let before = computed.len();
        for (class, &node) in choice {
            let mut children = problem.nodes[node].children.iter();
            if children.all(|&c| computed.contains(name(c))) {
                computed.insert(class);
            }
        }
        if computed.len() == choice.len() {
            return true;
        }
        if computed.len() == before {
            return false;
        }
    }
}
