//! Which places of rules with several roots are taken.
//!
//! A rule that makes one op of two takes part in every pair of siblings, and what it makes is a
//! sibling again: taken at every place, it doubles the siblings in each round and more. Here a
//! class takes part in few places in a round, first with the siblings that come next. So siblings
//! join by twos, by fours, …: all of them after as many rounds as their number has bits, and the
//! graph grows by a constant for each class and round. Pairs that are left over are met again in
//! the next round, since what was joined has changed.
//!
//! Roots of which one is reached from another are not joined: what is made of both would be needed
//! for its own operands (the cycles that Tensat leaves out; Yang et al., "Equality Saturation for
//! Tensor Graph Superoptimization", MLSys 2021), or joins a class with a part of it.

use egg::Id;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::matching::{Compiled, Match};
use crate::view::View;

/// Chooses among the places of rules in one round.
pub struct Joint<'a> {
    view: &'a View<'a>,
    /// How many places of a rule a class takes part in.
    partners: usize,
    /// The classes that a class reaches, as sets of bits.
    below: FxHashMap<Id, Vec<u64>>,
}

impl<'a> Joint<'a> {
    /// For one round.
    pub fn new(view: &'a View<'a>, partners: usize) -> Self {
        Self {
            view,
            partners,
            below: FxHashMap::default(),
        }
    }

    /// The places of a rule to take, in their order.
    pub fn choose(&mut self, rule: &Compiled, found: Vec<Match>) -> Vec<Match> {
        let mut taken: FxHashMap<Id, usize> = FxHashMap::default();
        let mut seen: FxHashSet<Vec<Id>> = FxHashSet::default();
        let mut chosen = Vec::new();
        for place in found {
            let roots = &place.roots;
            let mirror: Vec<Id> = roots.iter().rev().copied().collect();
            if rule.alike && mirror < *roots && seen.contains(&mirror) {
                continue;
            }
            let busy = |root: &Id| taken.get(root).is_some_and(|n| *n >= self.partners);
            if roots.iter().any(busy) || self.reached(roots) {
                continue;
            }
            for root in roots {
                *taken.entry(*root).or_default() += 1;
            }
            seen.insert(roots.clone());
            chosen.push(place);
        }
        chosen
    }

    /// Whether any of these classes is reached from another.
    fn reached(&mut self, classes: &[Id]) -> bool {
        classes.iter().any(|from| {
            let below = self
                .below
                .entry(*from)
                .or_insert_with(|| below(self.view, *from));
            classes.iter().any(|to| to != from && has(below, *to))
        })
    }
}

fn has(set: &[u64], id: Id) -> bool {
    let at = usize::from(id);
    set[at / 64] >> (at % 64) & 1 == 1
}

/// The classes that a class reaches through any of its nodes.
fn below(view: &View<'_>, from: Id) -> Vec<u64> {
    let mut set = vec![0; view.count().div_ceil(64)];
    let mut open = vec![from];
    while let Some(class) = open.pop() {
        for node in &view.class(class).nodes {
            for child in &node.children {
                if !has(&set, *child) {
                    let at = usize::from(*child);
                    set[at / 64] |= 1 << (at % 64);
                    open.push(*child);
                }
            }
        }
    }
    set
}
