//! The greedy choice along immediate post-dominators: an op goes with the first one that
//! everything computed from it runs through, together with all that is between (TVM, OSDI 2018).

use std::collections::{BTreeSet, HashSet};

use tir_graph::fusion::{FusionKind, edge_fuses};

use super::flow::Flow;

/// The groups of a block, those of one op as well; ops that cannot be fused are in none.
pub(super) fn greedy(flow: &Flow) -> Vec<BTreeSet<usize>> {
    let count = flow.ops.len();
    let mut greedy = Greedy {
        flow,
        next: post_dominators(&flow.users),
        group: vec![None; count],
        groups: Vec::new(),
    };
    greedy.run();
    greedy.groups
}

struct Greedy<'a> {
    flow: &'a Flow,
    /// The immediate post-dominator; `None` where the ways part for good.
    next: Vec<Option<usize>>,
    /// The group an op is in.
    group: Vec<Option<usize>>,
    groups: Vec<BTreeSet<usize>>,
}

impl Greedy<'_> {
    fn run(&mut self) {
        let flow = self.flow;
        let count = flow.ops.len();
        // From the end, so that of two convolutions that meet the later one goes on: what the
        // earlier one computed is there by then.
        for at in (0..count).rev() {
            if flow.kind(at) == FusionKind::ComplexOutFusable {
                self.grow(at, |op| edge_fuses(&flow.parts[at], &flow.parts[op]));
            }
        }
        for at in (0..count).rev() {
            if flow.kind(at) == FusionKind::Reduction {
                self.start(at);
            }
        }
        for at in (0..count).rev() {
            self.join(at);
        }
        for at in 0..count {
            if flow.kind(at) == FusionKind::Injective && self.group[at].is_none() {
                self.grow(at, |op| {
                    flow.kind(op) == FusionKind::Injective && !flow.parts[op].pads
                });
            }
        }
    }

    fn start(&mut self, at: usize) -> usize {
        self.group[at] = Some(self.groups.len());
        self.groups.push(BTreeSet::from([at]));
        self.groups.len() - 1
    }
    fn put(&mut self, at: usize, group: usize) {
        self.group[at] = Some(group);
        self.groups[group].insert(at);
    }

    /// Goes on from post-dominator to post-dominator while all that is passed is free and fits.
    fn grow(&mut self, seed: usize, fits: impl Fn(usize) -> bool) {
        let group = self.start(seed);
        let mut at = seed;
        while let Some(sink) = self.next[at] {
            let Some(passed) = self.between(at, sink, &fits) else {
                break;
            };
            for op in passed {
                self.put(op, group);
            }
            at = sink;
        }
    }

    /// All ops on ways from one op to its post-dominator, that included, if they fit.
    fn between(
        &self,
        from: usize,
        sink: usize,
        fits: &impl Fn(usize) -> bool,
    ) -> Option<Vec<usize>> {
        let (mut seen, mut work) = (HashSet::new(), self.flow.users[from].clone());
        while let Some(op) = work.pop() {
            if !seen.insert(op) {
                continue;
            }
            if self.group[op].is_some() || !fits(op) {
                return None;
            }
            if op != sink {
                work.extend(&self.flow.users[op]);
            }
        }
        let mut passed: Vec<usize> = seen.into_iter().collect();
        passed.sort_unstable();
        Some(passed)
    }

    /// Puts an injective op into the group of those that use it, if that is one and takes it in:
    /// a reduction takes any, elementwise ops those of their shape, convolutions none.
    fn join(&mut self, at: usize) {
        let flow = self.flow;
        if flow.kind(at) != FusionKind::Injective || self.group[at].is_some() {
            return;
        }
        let mut users = flow.users[at].iter();
        let Some(group) = users.next().and_then(|user| self.group[*user]) else {
            return;
        };
        let takes = |user: usize| match flow.kind(user) {
            _ if flow.parts[user].pads => false,
            FusionKind::Reduction => true,
            FusionKind::Injective => flow.parts[at].is_elementwise_like(&flow.parts[user]),
            _ => false,
        };
        let all = &flow.users[at];
        if all
            .iter()
            .all(|user| self.group[*user] == Some(group) && takes(*user))
        {
            self.put(at, group);
        }
    }
}

/// The immediate post-dominator of each op of a block, given its users, which all come later.
fn post_dominators(users: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut next: Vec<Option<usize>> = vec![None; users.len()];
    for at in (0..users.len()).rev() {
        let mut all = users[at].iter().copied();
        let first = all.next();
        next[at] = all.fold(first, |meet, user| common(&next, meet, Some(user)));
    }
    next
}

/// Where two ways along post-dominators meet. The later one stands, the earlier one goes on.
fn common(next: &[Option<usize>], mut a: Option<usize>, mut b: Option<usize>) -> Option<usize> {
    while a != b {
        match (a, b) {
            (Some(x), Some(y)) if x < y => a = next[x],
            (Some(_), Some(y)) => b = next[y],
            _ => return None,
        }
    }
    a
}
