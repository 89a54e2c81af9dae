//! The choice by cost: which groups move the fewest bytes, found by local search.
//!
//! The search goes downhill from two seeds, the greedy groups and every op alone, by merging two
//! groups, moving an op to a neighbour and computing a cheap op in every group that needs it. The
//! better end is taken, the greedy one's if they are equal, so the result is never worse than the
//! greedy groups. It is a local optimum, not the least cost there is.

use std::collections::{BTreeMap, BTreeSet};

use tir::Value;
use tir::data::Random;

use super::flow::Flow;

/// What a byte and a computed element cost, and what the search may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Bytes that an engine moves in a cycle.
    pub bytes_per_cycle: i64,
    /// Cycles for an element that is computed again.
    pub element_cycles: i64,
    /// Whether a group may write several results.
    pub several: bool,
    /// Whether elementwise ops may be computed by each group that needs them.
    pub recompute: bool,
    /// Changes that are made at most.
    pub max_moves: usize,
}

/// Disjoint sets of ops that run as one, but for ops that are copied, which are in several.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    /// The sets; an empty one is nothing.
    pub groups: Vec<BTreeSet<usize>>,
    /// Ops that every group that needs their result computes for itself.
    pub copied: BTreeSet<usize>,
}

impl Partition {
    /// Groups without copies.
    pub(super) fn new(groups: Vec<BTreeSet<usize>>) -> Self {
        Self {
            groups,
            copied: BTreeSet::new(),
        }
    }
    /// Every fusable op alone.
    pub(super) fn alone(flow: &Flow) -> Self {
        let fusable = (0..flow.ops.len()).filter(|at| flow.is_fusable(*at));
        Self::new(fusable.map(|at| BTreeSet::from([at])).collect())
    }
}

/// What a partition costs: bytes moved, computing again expressed in bytes.
pub(super) fn cost(flow: &mut Flow, partition: &Partition, terms: &Terms) -> i64 {
    flow.copied.clone_from(&partition.copied);
    let moved: i64 = partition
        .groups
        .iter()
        .map(|set| flow.traffic(set).total())
        .sum();
    moved + again(flow, partition, terms)
}

/// What computing ops more than once costs.
fn again(flow: &Flow, partition: &Partition, terms: &Terms) -> i64 {
    let extra = |at: &usize| {
        let times = partition
            .groups
            .iter()
            .filter(|set| set.contains(at))
            .count() as i64;
        (times - 1).max(0) * element_cost(flow, *at, terms)
    };
    partition.copied.iter().map(extra).sum()
}

fn element_cost(flow: &Flow, at: usize, terms: &Terms) -> i64 {
    let elements = flow.parts[at]
        .result
        .and_then(|ty| ty.elements())
        .unwrap_or(0) as i64;
    elements * terms.element_cycles * terms.bytes_per_cycle
}

/// The better end of the search from the greedy groups and from every op alone.
pub(super) fn search(flow: &mut Flow, greedy: Vec<BTreeSet<usize>>, terms: &Terms) -> Partition {
    let from_greedy = descend(flow, Partition::new(greedy), terms);
    let from_alone = descend(flow, Partition::alone(flow), terms);
    let (a, b) = (
        cost(flow, &from_greedy, terms),
        cost(flow, &from_alone, terms),
    );
    if b < a { from_alone } else { from_greedy }
}

/// Random groups: of the pairs that may run as one, in random order, a share that is drawn first.
pub(super) fn random(flow: &mut Flow, terms: &Terms, random: &mut Random) -> Partition {
    let share = random.below(101);
    let mut search = Search::new(flow, Partition::alone(flow), terms);
    let mut left: Vec<Move> = search.moves().into_iter().collect();
    left.retain(|change| matches!(change, Move::Merge(..)));
    random.shuffle(&mut left);
    let mut made = 0;
    // A group has the number of one of those that it was made of.
    let mut now: Vec<usize> = (0..search.partition.groups.len()).collect();
    for change in left {
        let Move::Merge(a, b) = change else { continue };
        let (a, b) = (now[a], now[b]);
        if made == terms.max_moves || a == b || !random.percent(share) {
            continue;
        }
        let change = Move::Merge(a.min(b), a.max(b));
        if let Some(after) = search.after(change)
            && search.is_legal(change, &after)
        {
            search.apply(change, after);
            made += 1;
            now.iter_mut()
                .filter(|group| **group == a.max(b))
                .for_each(|group| *group = a.min(b));
        }
    }
    search.partition
}

/// A change of a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Move {
    /// Two groups become one.
    Merge(usize, usize),
    /// An op goes from its group to another.
    Shift(usize, usize),
    /// An op is computed by every group that needs it.
    Copy(usize),
}

struct Search<'a> {
    flow: &'a mut Flow,
    terms: &'a Terms,
    partition: Partition,
    /// The group of each op that is in exactly one.
    home: Vec<Option<usize>>,
    /// The groups of each op.
    sets: Vec<Vec<usize>>,
}

fn descend(flow: &mut Flow, seed: Partition, terms: &Terms) -> Partition {
    let mut search = Search::new(flow, seed, terms);
    let mut left = terms.max_moves;
    while left > 0 {
        let made = search.round(left);
        if made == 0 {
            break;
        }
        left -= made;
    }
    search.partition
}

impl<'a> Search<'a> {
    fn new(flow: &'a mut Flow, seed: Partition, terms: &'a Terms) -> Self {
        flow.copied.clone_from(&seed.copied);
        let mut home = vec![None; flow.ops.len()];
        let mut sets = vec![Vec::new(); flow.ops.len()];
        for (group, set) in seed.groups.iter().enumerate() {
            for at in set {
                home[*at] = Some(group);
                sets[*at].push(group);
            }
        }
        Self {
            flow,
            terms,
            partition: seed,
            home,
            sets,
        }
    }

    /// Makes the changes that gain, the most gainful first, each group changing once; says how
    /// many.
    fn round(&mut self, limit: usize) -> usize {
        let all: BTreeSet<Move> = self.moves();
        let mut gainful: Vec<(i64, Move)> = Vec::new();
        for change in all {
            if let Some(after) = self.after(change) {
                let gain = self.gain(change, &after);
                if gain > 0 {
                    gainful.push((-gain, change));
                }
            }
        }
        gainful.sort_unstable();
        let (mut touched, mut made) = (BTreeSet::new(), 0);
        for (_, change) in gainful {
            if made == limit {
                break;
            }
            let Some(after) = self.after(change) else {
                continue;
            };
            if after.keys().any(|group| touched.contains(group)) || !self.is_legal(change, &after) {
                continue;
            }
            touched.extend(after.keys().copied());
            self.apply(change, after);
            made += 1;
        }
        made
    }

    fn moves(&self) -> BTreeSet<Move> {
        let mut all = BTreeSet::new();
        for (at, users) in self.flow.users.iter().enumerate() {
            let Some(mine) = self.home[at] else {
                continue;
            };
            for user in users {
                if let Some(theirs) = self.home[*user]
                    && mine != theirs
                {
                    all.insert(Move::Merge(mine.min(theirs), mine.max(theirs)));
                    all.insert(Move::Shift(at, theirs));
                    all.insert(Move::Shift(*user, mine));
                }
            }
            if self.terms.recompute && users.len() > 1 && self.flow.parts[at].elementwise {
                all.insert(Move::Copy(at));
            }
        }
        if self.terms.several {
            all.extend(self.siblings());
        }
        all
    }

    /// Groups that read the same value, each with the next one.
    fn siblings(&self) -> Vec<Move> {
        let mut readers: BTreeMap<Value, Vec<usize>> = BTreeMap::new();
        let mut inner: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, home) in self.home.iter().enumerate() {
            let Some(group) = home else {
                continue;
            };
            for value in self.flow.outer[at].keys() {
                readers.entry(*value).or_default().push(*group);
            }
            for producer in &self.flow.producers[at] {
                inner.entry(*producer).or_default().push(*group);
            }
        }
        let all = readers.into_values().chain(inner.into_values());
        let pairs = all.flat_map(|mut groups| {
            groups.dedup();
            let pairs: Vec<(usize, usize)> = groups.windows(2).map(|w| (w[0], w[1])).collect();
            pairs
        });
        let apart = pairs.filter(|(a, b)| a != b);
        apart
            .map(|(a, b)| Move::Merge(a.min(b), a.max(b)))
            .collect()
    }

    /// The sets that a change touches, as they would be.
    fn after(&self, change: Move) -> Option<BTreeMap<usize, BTreeSet<usize>>> {
        let set = |group: usize| self.partition.groups[group].clone();
        let mut after = BTreeMap::new();
        match change {
            Move::Merge(a, b) => {
                after.insert(a, &set(a) | &set(b));
                after.insert(b, BTreeSet::new());
            }
            Move::Shift(at, to) => {
                let mine = self.home[at]?;
                let (mut from, mut target) = (set(mine), set(to));
                from.remove(&at);
                target.insert(at);
                after.insert(mine, from);
                after.insert(to, target);
            }
            Move::Copy(at) => {
                let mine = self.home[at]?;
                let mut from = set(mine);
                from.remove(&at);
                after.insert(mine, from);
                for user in &self.flow.users[at] {
                    let group = self.home[*user]?;
                    after.entry(group).or_insert_with(|| set(group)).insert(at);
                }
            }
        }
        Some(after)
    }

    /// Bytes saved by a change.
    fn gain(&mut self, change: Move, after: &BTreeMap<usize, BTreeSet<usize>>) -> i64 {
        let before: i64 = after
            .keys()
            .map(|group| self.flow.traffic(&self.partition.groups[*group]).total())
            .sum();
        let mut more = 0;
        if let Move::Copy(at) = change {
            let times = after.values().filter(|set| set.contains(&at)).count() as i64;
            more = (times - 1).max(0) * element_cost(self.flow, at, self.terms);
            self.flow.copied.insert(at);
        }
        let now: i64 = after
            .values()
            .map(|set| self.flow.traffic(set).total())
            .sum();
        if let Move::Copy(at) = change {
            self.flow.copied.remove(&at);
        }
        before - now - more
    }

    fn is_legal(&mut self, change: Move, after: &BTreeMap<usize, BTreeSet<usize>>) -> bool {
        if let Move::Copy(at) = change {
            self.flow.copied.insert(at);
        }
        let legal = after
            .values()
            .all(|set| self.flow.runs_as_one(set, self.terms.several))
            && !self.has_cycle(after);
        if let Move::Copy(at) = change {
            self.flow.copied.remove(&at);
        }
        legal
    }

    /// Whether there is a cycle with some sets as they would be. There was none before: one leads through a set that changes, or one that
    /// shares an op with it, as others may take that from it then.
    fn has_cycle(&self, after: &BTreeMap<usize, BTreeSet<usize>>) -> bool {
        let mut through: BTreeSet<usize> = after.keys().copied().collect();
        for (group, set) in after {
            let ops = self.partition.groups[*group].iter().chain(set);
            through.extend(ops.flat_map(|at| &self.sets[*at]));
        }
        through.iter().any(|group| self.comes_back(*group, after))
    }

    /// Whether what a set computes comes back to it by way of others, with some sets as they would be.
    fn comes_back(&self, group: usize, after: &BTreeMap<usize, BTreeSet<usize>>) -> bool {
        let set = |group: usize| after.get(&group).unwrap_or(&self.partition.groups[group]);
        let of = |at: usize| {
            let old = self.sets[at].iter().filter(|old| !after.contains_key(old));
            let new = after.iter().filter(move |(_, set)| set.contains(&at));
            old.chain(new.map(|(group, _)| group)).copied()
        };
        // What several sets compute others take from the first of them.
        let node = |at: usize| of(at).min().map_or(Node::Op(at), Node::Set);
        let count = self.partition.groups.len();
        let mut seen = vec![false; count + self.flow.ops.len()];
        let mut work = vec![Node::Set(group)];
        while let Some(from) = work.pop() {
            let alone;
            let ops: &BTreeSet<usize> = match from {
                Node::Set(group) => set(group),
                Node::Op(at) => {
                    alone = BTreeSet::from([at]);
                    &alone
                }
            };
            for producer in ops.iter().copied().filter(|at| node(*at) == from) {
                for user in &self.flow.users[producer] {
                    let mut reach = |to: Node, number: usize| {
                        if to != from && !std::mem::replace(&mut seen[number], true) {
                            work.push(to);
                        }
                    };
                    let mut none = true;
                    for to in of(*user) {
                        none = false;
                        if set(to).contains(&producer) {
                            continue;
                        }
                        if to == group && from != Node::Set(group) {
                            return true;
                        }
                        reach(Node::Set(to), to);
                    }
                    if none {
                        reach(Node::Op(*user), count + user);
                    }
                }
            }
        }
        false
    }

    fn apply(&mut self, change: Move, after: BTreeMap<usize, BTreeSet<usize>>) {
        for (group, set) in after {
            for at in &self.partition.groups[group] {
                self.sets[*at].retain(|other| *other != group);
            }
            for at in &set {
                self.home[*at] = Some(group);
                self.sets[*at].push(group);
            }
            self.partition.groups[group] = set;
        }
        if let Move::Copy(at) = change {
            self.home[at] = None;
            self.flow.copied.insert(at);
            self.partition.copied.insert(at);
        }
    }
}

/// What runs one after the other: a set, or an op that is in none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Node {
    /// The index of a set.
    Set(usize),
    /// An op.
    Op(usize),
}

/// An order of the sets and of the ops that are in none, each as near as can be to the place of
/// its last op; `None` if there is none. Ops that `keeps` names stay in order among each other.
pub(super) fn order(
    flow: &Flow,
    sets: &[BTreeSet<usize>],
    keeps: impl Fn(usize) -> bool,
) -> Option<Vec<Node>> {
    let count = flow.ops.len();
    let mut homes: Vec<Vec<Node>> = vec![Vec::new(); count];
    for (group, set) in sets.iter().enumerate() {
        for at in set {
            homes[*at].push(Node::Set(group));
        }
    }
    for (at, home) in homes.iter_mut().enumerate() {
        if home.is_empty() {
            home.push(Node::Op(at));
        }
    }
    let place = |node: Node| match node {
        Node::Set(group) => sets[group].last().copied().unwrap_or(0),
        Node::Op(at) => at,
    };
    let mut behind: BTreeMap<Node, BTreeSet<Node>> = BTreeMap::new();
    let mut waits: BTreeMap<Node, usize> = BTreeMap::new();
    for home in homes.iter().flatten() {
        waits.entry(*home).or_insert(0);
    }
    let mut edge = |from: Node, to: Node, waits: &mut BTreeMap<Node, usize>| {
        if from != to && behind.entry(from).or_default().insert(to) {
            *waits.entry(to).or_insert(0) += 1;
        }
    };
    let mut kept: Option<Node> = None;
    for at in 0..count {
        for node in &homes[at] {
            for producer in &flow.producers[at] {
                let inner = matches!(node, Node::Set(group) if sets[*group].contains(producer));
                if !inner && let Some(from) = homes[*producer].first() {
                    edge(*from, *node, &mut waits);
                }
            }
            if keeps(at) {
                if let Some(before) = kept {
                    edge(before, *node, &mut waits);
                }
                kept = Some(*node);
            }
        }
    }
    let free = waits.iter().filter(|(_, n)| **n == 0);
    let mut ready: BTreeSet<(usize, Node)> = free.map(|(node, _)| (place(*node), *node)).collect();
    let mut out = Vec::new();
    while let Some((_, node)) = ready.pop_first() {
        out.push(node);
        for next in behind.get(&node).into_iter().flatten() {
            if let Some(n) = waits.get_mut(next) {
                *n -= 1;
                if *n == 0 {
                    ready.insert((place(*next), *next));
                }
            }
        }
    }
    (out.len() == waits.len()).then_some(out)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use tir::data::Random;
    use tir::text::{ParseOptions, parse};
    use tir::{Name, OpId};

    use super::{Flow, Partition, Search, Terms, order};

    /// Ops of which each uses some before it.
    fn flow(random: &mut Random, (count, op): (usize, OpId)) -> Flow {
        let mut users = vec![Vec::new(); count];
        let mut producers = vec![Vec::new(); count];
        for (at, own) in producers.iter_mut().enumerate().skip(1) {
            for _ in 0..2 {
                let from = random.below(at);
                if !own.contains(&from) {
                    own.push(from);
                    users[from].push(at);
                }
            }
        }
        Flow {
            ops: vec![op; count],
            parts: Vec::new(),
            users,
            producers,
            outer: Vec::new(),
            bytes: Vec::new(),
            copied: BTreeSet::new(),
        }
    }

    #[test]
    fn a_set_that_comes_back_to_itself_has_no_order() {
        const OPS: usize = 14;
        let terms = Terms {
            bytes_per_cycle: 1,
            element_cycles: 1,
            several: true,
            recompute: true,
            max_moves: 100,
        };
        let module = parse("", Name::new("none"), &ParseOptions::default());
        let op = module.expect("an empty module").root();
        let mut random = Random::new(7);
        let (mut legal, mut illegal) = (0, 0);
        for _ in 0..200 {
            let mut flow = flow(&mut random, (OPS, op));
            let alone = (0..OPS).map(|at| BTreeSet::from([at])).collect();
            let mut search = Search::new(&mut flow, Partition::new(alone), &terms);
            for _ in 0..30 {
                // An op goes to a set, or is in both: a copy.
                let at = random.below(OPS);
                let (from, to) = (search.sets[at][0], random.below(OPS));
                let set = |group: usize| search.partition.groups[group].clone();
                let mut after = BTreeMap::from([(to, set(to))]);
                if random.percent(70) {
                    after.entry(from).or_insert_with(|| set(from)).remove(&at);
                }
                after.entry(to).or_default().insert(at);
                let mut sets = search.partition.groups.clone();
                for (group, set) in &after {
                    sets[*group].clone_from(set);
                }
                let orders = order(search.flow, &sets, |_| false).is_some();
                let back = search.has_cycle(&after);
                assert_eq!(orders, !back, "{sets:?} of {:?}", search.flow.producers);
                if !orders {
                    illegal += 1;
                    continue;
                }
                legal += 1;
                search.apply(super::Move::Shift(at, to), after);
            }
        }
        assert!(legal > 1000 && illegal > 500, "{legal} and {illegal}");
    }
}
