//! Bottom-up extraction: for each class the node whose tree is cheapest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::core::Lists;
use crate::{Blocked, Choice, Error, Problem};

/// A non-negative finite number, ordered.
#[derive(Clone, Copy, PartialEq)]
struct Price(f64);

impl Eq for Price {}

impl PartialOrd for Price {
    fn partial_cmp(&self, other: &Price) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Price {
    fn cmp(&self, other: &Price) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// For each class that can be computed, the node whose tree is cheapest: a child needed twice is
/// paid twice, which a DAG does not. Always acyclic. Knuth's generalization of Dijkstra's
/// algorithm ("A generalization of Dijkstra's algorithm", 1977); among equals the class settled
/// first, then the earlier node. Costs that leave the range of `f64` stay at its largest number.
///
/// The problem must have passed [`Problem::check`].
pub fn bottom_up(problem: &Problem) -> Choice {
    let nodes = problem.nodes.iter().enumerate();
    let users = Lists::inverse(
        problem.classes,
        nodes.map(|(i, node)| (i, node.children.iter().copied())),
    );
    // Of a child that is named twice there are two users.
    let mut missing: Vec<usize> = problem.nodes.iter().map(|n| n.children.len()).collect();
    let mut price = vec![f64::INFINITY; problem.classes];
    let mut choice = vec![None; problem.classes];
    let mut heap = BinaryHeap::new();
    for (i, node) in problem.nodes.iter().enumerate() {
        if missing[i] == 0 {
            heap.push(Reverse((Price(node.cost), i)));
        }
    }
    while let Some(Reverse((Price(cost), i))) = heap.pop() {
        let class = problem.nodes[i].class;
        if choice[class].is_some() {
            continue;
        }
        (choice[class], price[class]) = (Some(i), cost);
        for &user in users.of(class) {
            let user = user as usize;
            missing[user] -= 1;
            if missing[user] == 0 {
                let node = &problem.nodes[user];
                let children: f64 = node.children.iter().map(|&c| price[c]).sum();
                let total = (node.cost + children).min(f64::MAX);
                heap.push(Reverse((Price(total), user)));
            }
        }
    }
    choice
}

/// Why `root`, which [`bottom_up`] gave no node, cannot be computed.
pub(crate) fn blocked(problem: &Problem, computed: &Choice, root: usize) -> Error {
    let members = problem.members();
    let mut path = vec![root];
    let mut seen = vec![false; problem.classes];
    seen[root] = true;
    let mut class = root;
    let why = loop {
        let Some(&node) = members[class].first() else {
            break Blocked::Empty;
        };
        let stuck = problem.nodes[node].children.iter();
        // Bottom-up extraction goes on until no node is left all of whose children are computed and whose class is not;
        // the class of this node is not.
        let Some(&child) = stuck.into_iter().find(|&&c| computed[c].is_none()) else {
            unreachable!("all children of a node are computed, its class is not");
        };
        if seen[child] {
            break Blocked::Cycle(child);
        }
        seen[child] = true;
        path.push(child);
        class = child;
    };
    Error::Infeasible { root, path, why }
}
