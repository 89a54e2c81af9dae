//! Which places of rules with several roots are taken.
//!
//! A rule that makes one op of two takes part in every pair of siblings, and what it makes is a
//! sibling again: taken at every place, it squares the siblings in each round. Here a class takes
//! part in few places in a round, first with a sibling that comes next. So siblings join by twos,
//! by fours, …: all of them after as many rounds as their number has bits, and the graph grows by a
//! constant for each class and round. Pairs that are left over are met again in the next round,
//! since what was joined has changed.
//!
//! Roots of which one is reached from another are not joined: what is made of both would be needed
//! for its own operands (the cycles that Tensat leaves out; Yang et al., "Equality Saturation for
//! Tensor Graph Superoptimization", MLSys 2021), or joins a class with a part of it.

use egg::Id;
use fixedbitset::FixedBitSet;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::matching::{Compiled, Match};
use crate::view::View;

/// Chooses among the places of rules in one round.
pub struct MultiPattern<'a> {
    view: &'a View<'a>,
    /// How many places of a rule a class takes part in.
    multi_matches: usize,
    /// The classes that a class reaches.
    below: FxHashMap<Id, FixedBitSet>,
}

impl<'a> MultiPattern<'a> {
    /// For one round.
    pub fn new(view: &'a View<'a>, multi_matches: usize) -> Self {
        Self {
            view,
            multi_matches,
            below: FxHashMap::default(),
        }
    }

    /// The places of a rule to take, in their order: some in which no class takes part twice, then
    /// more of them.
    pub fn choose(&mut self, rule: &Compiled, found: Vec<Match>) -> Vec<Match> {
        let mut seen: FxHashSet<&[Id]> = FxHashSet::default();
        let mut open = Vec::new();
        for (at, place) in found.iter().enumerate() {
            let mirror: Vec<Id> = place.roots.iter().rev().copied().collect();
            let again = rule.alike && mirror < place.roots && seen.contains(&mirror[..]);
            if !again && !self.reached(&place.roots) {
                seen.insert(&place.roots);
                open.push(at);
            }
        }
        let mut chosen = vec![false; found.len()];
        for _ in 0..self.multi_matches {
            let mut busy: FxHashSet<Id> = FxHashSet::default();
            open.retain(|at| {
                let roots = &found[*at].roots;
                let free = !roots.iter().any(|root| busy.contains(root));
                if free {
                    busy.extend(roots);
                    chosen[*at] = true;
                }
                !free
            });
        }
        let found = found.into_iter().zip(chosen);
        found
            .filter_map(|(place, taken)| taken.then_some(place))
            .collect()
    }

    /// Whether any of these classes is reached from another.
    fn reached(&mut self, classes: &[Id]) -> bool {
        classes.iter().any(|from| {
            let below = self
                .below
                .entry(*from)
                .or_insert_with(|| below(self.view, *from));
            classes
                .iter()
                .any(|to| to != from && below.contains(usize::from(*to)))
        })
    }
}

/// The classes that a class reaches through any of its nodes.
fn below(view: &View<'_>, from: Id) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(view.count());
    let mut open = vec![from];
    while let Some(class) = open.pop() {
        for node in &view.class(class).nodes {
            for child in &node.children {
                if !set.put(usize::from(*child)) {
                    open.push(*child);
                }
            }
        }
    }
    set
}
