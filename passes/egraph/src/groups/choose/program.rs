//! What a choice of groups is: a program of e-nodes, or an e-graph for people and other tools.

use rustc_hash::{FxHashMap, FxHashSet};
use tir_extraction::{Choice, EGraph, Solution};
use tir_graph::fusion::FusionKind;

use super::prices::Prices;
use super::{Grouped, Groups, Terms};
use crate::extract::Listed;
use crate::graph::{Graph, GraphExt};
use crate::groups::cuts::Cut;
use crate::node::Head;

impl Groups {
    /// The groups with names, a node each: their ops from the one whose result leaves on.
    pub(super) fn named(&self, graph: &Graph, listed: &Listed, prefix: &str) -> EGraph {
        let op = |node: &usize| match listed.all[*node].2.head {
            Head::Leaf(_) => "input",
            Head::Result(_) => "result",
            Head::Op { .. } => graph
                .name_of(&listed.all[*node].2)
                .map_or("", |name| name.as_str()),
        };
        let ops = |cut: &Cut| cut.nodes.iter().map(op).collect::<Vec<_>>().join(" ");
        EGraph {
            problem: self.problem.clone(),
            ids: (0..self.cuts.len())
                .map(|n| format!("{prefix}n{n}"))
                .collect(),
            ops: self.cuts.iter().map(ops).collect(),
            classes: (0..self.problem.classes)
                .map(|c| format!("{prefix}c{c}"))
                .collect(),
        }
    }

    /// The choice that is given if it is a program, or one near it that is, and that program. Groups that compute a class
    /// inside by one e-node, where the program has another one, may need each other; then those that disagree are left out,
    /// extraction runs again, and what it chooses in their place is planned.
    pub(super) fn agreeing(
        &mut self,
        listed: &Listed,
        mut solution: Solution,
        prices: &mut Prices<'_>,
        terms: Terms,
    ) -> (Solution, Option<Grouped>) {
        let mut left_out: FxHashSet<usize> = FxHashSet::default();
        for _ in 0..terms.rounds {
            let program = self.program(listed, &solution.choice);
            if program.is_some() {
                return (solution, program);
            }
            let disagreeing = self.disagreeing(&solution.choice);
            if disagreeing.is_empty() {
                break;
            }
            left_out.extend(disagreeing);
            let kept = |_: &Self, at: usize| (!left_out.contains(&at)).then_some(1.0);
            let mut next = None;
            self.settled(&kept, &mut next, prices, terms);
            let Some(next) = next else { break };
            solution = next;
        }
        let program = self.program(listed, &solution.choice);
        (solution, program)
    }

    /// The groups of a choice that compute some class by another e-node than the program has of it.
    fn disagreeing(&self, choice: &Choice) -> Vec<usize> {
        let Some((nodes, mut chosen)) = self.needed(choice) else {
            return Vec::new();
        };
        chosen.retain(|group| !self.agrees(&nodes, *group));
        chosen
    }

    /// Whether a group computes all classes by the e-nodes that the program has of them.
    fn agrees(&self, nodes: &FxHashMap<usize, usize>, group: usize) -> bool {
        let cut = &self.cuts[group].nodes;
        cut.iter()
            .all(|node| nodes.get(&self.cutter.nodes[*node].class) == Some(node))
    }

    /// The e-node of each class that the groups of a choice need: of a class that several groups compute inside, that of
    /// the first; and these groups, in order.
    fn needed(&self, choice: &Choice) -> Option<(FxHashMap<usize, usize>, Vec<usize>)> {
        let mut needed = vec![false; self.problem.classes];
        let mut work = self.problem.roots.clone();
        let mut nodes: FxHashMap<usize, usize> = FxHashMap::default();
        let mut inner: Vec<usize> = Vec::new();
        let mut chosen: Vec<usize> = Vec::new();
        while let Some(class) = work.pop() {
            if std::mem::replace(&mut needed[class], true) {
                continue;
            }
            let group = choice[class]?;
            let cut = &self.cuts[group].nodes;
            nodes.insert(class, cut[0]);
            inner.extend(&cut[1..]);
            chosen.push(group);
            work.extend(&self.problem.nodes[group].children);
        }
        inner.sort_unstable();
        for node in inner {
            nodes.entry(self.cutter.nodes[node].class).or_insert(node);
        }
        chosen.sort_unstable();
        Some((nodes, chosen))
    }

    /// The e-nodes that the groups of a choice need, and the classes of groups. `None` if classes need each other then.
    pub(super) fn program(&self, listed: &Listed, choice: &Choice) -> Option<Grouped> {
        let (nodes, chosen) = self.needed(choice)?;
        self.is_acyclic(&nodes).then_some(())?;
        let groups = chosen.into_iter().filter_map(|group| {
            let cut = &self.cuts[group].nodes;
            let info = self.cutter.nodes[cut[0]].info?;
            if info.kind == FusionKind::Opaque || !self.agrees(&nodes, group) {
                return None;
            }
            let order = self.cutter.order(cut)?.into_iter();
            Some(
                order
                    .map(|node| listed.ids[self.cutter.nodes[node].class])
                    .collect(),
            )
        });
        let groups = groups.collect();
        let chosen = nodes.into_iter().map(|(class, node)| {
            let (_, _, node) = &listed.all[node];
            (listed.ids[class], node.clone())
        });
        let choice = chosen.collect();
        Some(Grouped { choice, groups })
    }

    /// Whether no class needs itself, by the e-node of each.
    fn is_acyclic(&self, nodes: &FxHashMap<usize, usize>) -> bool {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut state = vec![State::New; self.problem.classes];
        let mut stack: Vec<(usize, bool)> = Vec::new();
        stack.extend(self.problem.roots.iter().map(|root| (*root, false)));
        while let Some((class, done)) = stack.pop() {
            if done {
                state[class] = State::Done;
                continue;
            }
            match state[class] {
                State::New => {}
                State::Open => return false,
                State::Done => continue,
            }
            state[class] = State::Open;
            stack.push((class, true));
            let Some(node) = nodes.get(&class) else {
                return false;
            };
            for child in &self.cutter.nodes[*node].needs {
                match state[*child] {
                    State::Open => return false,
                    State::New => stack.push((*child, false)),
                    State::Done => {}
                }
            }
        }
        true
    }
}
