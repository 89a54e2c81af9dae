//! A search for a plan in which some pairs of buffers share no bank.
//!
//! Of the plans that are allowed take one whose offsets have the least sum: no buffer can be moved to a lower place. What keeps it there is
//! its own lowest place, one below it that lives at the same time, or a partner below it, whose last bank ends there. So buffers are
//! placed in rising order of offsets, each at the lowest place (`base`) that those before it leave, as in [`crate::exact`], where
//! the end of a partner is that of its last bank. A search that ends without a plan shows that there is none.
//!
//! - *Gaps*: none is placed so high that another one, with the banks of its partners kept free, fits below it.
//! - *Support*: a buffer whose `base` is passed lies above the lowest end that one that is left can have.
//! - *Sets*: what is left of buffers that live at one time lies above the lowest place of any of them.
//! - *Equal nodes*: what is left with its places; one that failed is not searched again.
//!
//! Runs are short first and begin anew with other orders, as those of [`crate::part`].

use std::collections::HashSet;

use crate::crowd::Times;
use crate::first_fit::start;
use crate::part::luby;
use crate::plan::{Plan, align_up};
use crate::problem::Problem;
use crate::random::mix;

/// How a search for such a plan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A plan within the capacity that keeps all pairs apart.
    Plan(Plan),
    /// There is none: the search was complete.
    Impossible,
    /// The search was ended, or not begun: there are too many buffers.
    Stopped,
}

/// Nodes of a first run, for each buffer.
const FIRST_NODES: u64 = 16;
/// Nodes that failed, at most.
const REMEMBERED: usize = 1_000_000;

/// Looks for a plan within the capacity in which the pairs of `must` share no bank of so many bytes (of a buffer and itself: its two
/// halves do not). Ends after `limit` nodes, or when `stop` says so; gives the number of nodes too.
pub fn keep_apart(
    problem: &Problem,
    capacity: u64,
    bank: u64,
    must: &[(usize, usize)],
    limit: u64,
    stop: &mut dyn FnMut() -> bool,
) -> (Kept, u64) {
    if !problem.is_dense() || bank == 0 {
        return (Kept::Stopped, 0);
    }
    let rules = Rules::new(problem, capacity, bank, must);
    let first = FIRST_NODES * rules.size.len() as u64;
    let mut nodes = 0;
    for number in 1.. {
        let mut run = Run {
            rules: &rules,
            rank: rules.ranks(number),
            failed: HashSet::new(),
            nodes: 0,
            limit: (first * luby(number)).min(limit.saturating_sub(nodes)),
            stop,
            stopped: false,
        };
        let found = run.begin();
        nodes += run.nodes.max(1);
        if let Some(offsets) = found {
            let plan = Plan::new(problem, offsets, "search with banks", Vec::new());
            return (Kept::Plan(plan), nodes);
        }
        if !run.stopped {
            return (Kept::Impossible, nodes);
        }
        if nodes >= limit || stop() {
            break;
        }
    }
    (Kept::Stopped, nodes)
}

/// What a plan must keep. Buffers without bytes have no part in it.
struct Rules {
    size: Vec<u64>,
    align: Vec<u64>,
    /// The lowest place, and the highest: below it where there is none.
    from: Vec<u64>,
    last: Vec<Option<u64>>,
    /// Whether its halves are to be apart.
    halved: Vec<bool>,
    near: Vec<Vec<usize>>,
    partners: Vec<Vec<usize>>,
    /// Those that live at one time.
    sets: Vec<Vec<usize>>,
    capacity: u64,
    bank: u64,
}

impl Rules {
    fn new(problem: &Problem, capacity: u64, bank: u64, must: &[(usize, usize)]) -> Self {
        let buffers = &problem.buffers;
        let there = |i: &usize| buffers[*i].size > 0;
        let all = 0..buffers.len();
        let mut partners = vec![Vec::new(); buffers.len()];
        let mut halved = vec![false; buffers.len()];
        for (a, b) in must.iter().filter(|(a, b)| there(a) && there(b)) {
            if a == b {
                halved[*a] = buffers[*a].size > 1;
            } else {
                partners[*a].push(*b);
                partners[*b].push(*a);
            }
        }
        let near = |i: usize| match there(&i) {
            true => {
                let near = problem.graph().neighbours(i);
                near.filter(|n| *n != i && there(n)).collect()
            }
            false => Vec::new(),
        };
        let last = |i: usize| {
            let end = buffers[i].within.as_ref().map_or(capacity, |w| w.end);
            end.min(capacity).checked_sub(buffers[i].size)
        };
        let mut sets = Vec::new();
        if let Some(lives) = &problem.joined {
            let times = Times::new(lives);
            sets = vec![Vec::new(); times.starts.len()];
            for i in all.clone().filter(there) {
                let of = lives[i].iter().flat_map(|live| {
                    let (from, to) = times.of(live);
                    from..to
                });
                of.for_each(|time| sets[time].push(i));
            }
            sets.dedup();
        }
        Self {
            size: buffers.iter().map(|b| b.size).collect(),
            align: buffers.iter().map(|b| b.align).collect(),
            from: buffers.iter().map(start).collect(),
            last: all.clone().map(last).collect(),
            halved,
            near: all.map(near).collect(),
            partners,
            sets,
            capacity,
            bank,
        }
    }

    /// The lowest place of a buffer from an offset on; none if it does not fit there.
    fn place(&self, i: usize, from: u64) -> Option<u64> {
        let (align, last) = (self.align[i], self.last[i]?);
        let mut at = align_up(from, align);
        if self.halved[i] {
            // Its middle is where a bank begins.
            let half = self.size[i] / 2;
            let mut middle = align_up_to(at + half, self.bank);
            while !(middle - half).is_multiple_of(align) {
                middle += self.bank;
                if middle > self.capacity {
                    return None;
                }
            }
            at = middle - half;
        }
        (at <= last).then_some(at)
    }

    /// The end of the last bank that a buffer at an offset has.
    fn bank_end(&self, i: usize, at: u64) -> u64 {
        align_up_to(at + self.size[i], self.bank)
    }

    /// An order of buffers, the first the same for all calls.
    fn ranks(&self, number: u64) -> Vec<u64> {
        let full = |i: usize| {
            let sets = self.sets.iter().filter(|set| set.contains(&i));
            let bytes = sets.map(|set| set.iter().map(|j| self.size[*j]).sum::<u64>());
            bytes.max().unwrap_or(0)
        };
        let key = |i: usize| {
            let weight = self.size[i] + self.bank * self.partners[i].len() as u64 + full(i);
            let shaken = match number {
                1 => 16,
                _ => 8 + mix(mix(number) ^ i as u64) % 16,
            };
            u64::MAX - weight.saturating_mul(shaken)
        };
        (0..self.size.len()).map(key).collect()
    }
}

/// The next multiple of any number.
fn align_up_to(at: u64, unit: u64) -> u64 {
    at.div_ceil(unit) * unit
}

/// A search with one order.
struct Run<'a, 'b> {
    rules: &'a Rules,
    rank: Vec<u64>,
    failed: HashSet<u64>,
    nodes: u64,
    limit: u64,
    stop: &'b mut dyn FnMut() -> bool,
    stopped: bool,
}

/// What is placed, and where the rest may lie.
#[derive(Clone)]
struct Node {
    /// Of what is left its lowest place.
    base: Vec<u64>,
    offsets: Vec<Option<u64>>,
    left: Vec<usize>,
    floor: u64,
}

impl Run<'_, '_> {
    fn begin(&mut self) -> Option<Vec<u64>> {
        let rules = self.rules;
        let all = 0..rules.size.len();
        let base: Option<Vec<u64>> = (all.clone())
            .map(|i| rules.place(i, rules.from[i]))
            .collect();
        let base = base?;
        let (empty, left): (Vec<usize>, Vec<usize>) = all.partition(|i| rules.size[*i] == 0);
        let mut offsets = vec![None; base.len()];
        empty.into_iter().for_each(|i| offsets[i] = Some(base[i]));
        let node = Node {
            base,
            offsets,
            left,
            floor: 0,
        };
        self.solve(node)
    }

    fn solve(&mut self, mut node: Node) -> Option<Vec<u64>> {
        if node.left.is_empty() {
            return node.offsets.into_iter().collect();
        }
        if self.stopped || self.nodes >= self.limit || self.nodes % 64 == 63 && (self.stop)() {
            self.stopped = true;
            return None;
        }
        self.nodes += 1;
        self.supported(&mut node)?;
        let key = key(&node);
        if self.failed.contains(&key) {
            return None;
        }
        let (rules, is_left) = (self.rules, |j: &usize| node.offsets[*j].is_none());
        let end = |i: usize| match rules.partners[i].iter().any(is_left) {
            true => rules.bank_end(i, node.base[i]),
            false => node.base[i] + rules.size[i],
        };
        // The two lowest ends, so that each buffer has one of another.
        let mut ends: Vec<(u64, usize)> = node.left.iter().map(|i| (end(*i), *i)).collect();
        ends.sort_unstable();
        let below = |i: usize| {
            let other = ends.iter().find(|(_, j)| *j != i);
            other.is_none_or(|(end, _)| node.base[i] < *end)
        };
        let ready = |i: &usize| node.base[*i] >= node.floor && below(*i);
        let mut next: Vec<usize> = node.left.iter().copied().filter(ready).collect();
        next.sort_by_key(|i| (node.base[*i], self.rank[*i], *i));
        for i in next {
            if let Some(placed) = self.place(&node, i)
                && let Some(found) = self.solve(placed)
            {
                return Some(found);
            }
            if self.stopped {
                return None;
            }
        }
        if self.failed.len() < REMEMBERED {
            self.failed.insert(key);
        }
        None
    }

    /// The node with a buffer placed at its lowest place; none if another one does not fit then.
    fn place(&self, node: &Node, i: usize) -> Option<Node> {
        let (rules, at) = (self.rules, node.base[i]);
        let mut node = node.clone();
        node.left.retain(|j| *j != i);
        node.offsets[i] = Some(at);
        node.floor = at;
        let mut raise = |j: usize, to: u64| {
            if node.offsets[j].is_none() && node.base[j] < to {
                node.base[j] = rules.place(j, to)?;
            }
            Some(())
        };
        for j in &rules.near[i] {
            raise(*j, at + rules.size[i])?;
        }
        for j in &rules.partners[i] {
            raise(*j, rules.bank_end(i, at))?;
        }
        Some(node)
    }

    /// Whether all that is left may still fit.
    fn supported(&self, node: &mut Node) -> Option<()> {
        let rules = self.rules;
        let is_left = |j: &&usize| node.offsets[**j].is_none();
        let from = |j: usize| node.base[j].max(node.floor);
        let mut low = node.base.clone();
        for &i in &node.left {
            if node.base[i] >= node.floor {
                continue;
            }
            let near = rules.near[i].iter().filter(is_left);
            let near = near.map(|j| from(*j) + rules.size[*j]);
            let partners = rules.partners[i].iter().filter(is_left);
            let partners = partners.map(|j| rules.bank_end(*j, from(*j)));
            low[i] = rules.place(i, near.chain(partners).min()?)?;
        }
        let fits = |set: &Vec<usize>| {
            let left = || set.iter().filter(is_left);
            let bytes: u64 = left().map(|i| rules.size[*i]).sum();
            let lowest = left().map(|i| low[*i]).min();
            lowest.is_none_or(|low| low + bytes <= rules.capacity)
        };
        rules.sets.iter().all(fits).then_some(())
    }
}

/// A number for what is left with its places.
fn key(node: &Node) -> u64 {
    let lowest = node.left.iter().map(|i| node.base[*i]).min();
    let floor = node.floor.min(lowest.unwrap_or(0));
    let parts = (node.left.iter()).flat_map(|i| [*i as u64, node.base[*i]]);
    parts.fold(mix(floor), |all, part| {
        mix(all.rotate_left(5) ^ mix(part.wrapping_add(1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Buffer, Live};
    use crate::random::Random;
    use crate::{Conflicts, check, cost};

    /// Whether there is a plan, by trying all offsets of each buffer.
    fn there_is(
        problem: &Problem,
        capacity: u64,
        must: &Conflicts,
        offsets: &mut Vec<u64>,
    ) -> bool {
        let i = offsets.len();
        let Some(buffer) = problem.buffers().get(i) else {
            return true;
        };
        (0..=capacity.saturating_sub(buffer.size)).any(|at| {
            let inside = |w: &std::ops::Range<u64>| w.start <= at && at + buffer.size <= w.end;
            let free = |j: usize| {
                let other = &problem.buffers()[j];
                !problem.graph().has(i, j)
                    || at + buffer.size <= offsets[j]
                    || offsets[j] + other.size <= at
            };
            if buffer.size > capacity
                || !at.is_multiple_of(buffer.align)
                || !buffer.within.as_ref().is_none_or(inside)
                || !(0..i).all(free)
            {
                return false;
            }
            offsets.push(at);
            let known: Conflicts = (must.iter())
                .filter(|((a, b), _)| *a.max(b) <= i)
                .map(|(pair, cost)| (*pair, *cost))
                .collect();
            let found = cost(problem, offsets, BANK, &known) == 0
                && there_is(problem, capacity, must, offsets);
            offsets.pop();
            found
        })
    }

    const BANK: u64 = 4;

    #[test]
    fn what_there_is_is_found_and_nothing_else() {
        let mut seed = Random::new(43);
        let (mut found, mut none) = (0, 0);
        for _ in 0..3000 {
            let (mut buffers, mut lives) = (Vec::new(), Vec::<Live>::new());
            let count = 2 + seed.below(4);
            let mut must = Vec::new();
            for i in 0..count {
                let (align, size) = (1 << (seed.below(5) / 3), seed.below(6) as u64);
                let within = (seed.below(8) == 0).then(|| 2..2 + align + size + 2);
                buffers.push(Buffer {
                    align,
                    within,
                    ..Buffer::new(&format!("b{i}"), size)
                });
                let start = seed.below(6) as u64;
                lives.push(std::iter::once(start..start + 1 + seed.below(5) as u64).collect());
                must.extend((0..=i).filter(|_| seed.below(4) == 0).map(|j| (j, i)));
            }
            let capacity = 4 + seed.below(13) as u64;
            let costs: Conflicts = must.iter().map(|pair| (*pair, 1)).collect();
            let problem = Problem::from_lives(buffers, lives).unwrap();
            let there_is = there_is(&problem, capacity, &costs, &mut Vec::new());
            let never = &mut || false;
            match keep_apart(&problem, capacity, BANK, &must, u64::MAX, never).0 {
                Kept::Plan(plan) => {
                    assert!(there_is && check(&problem, &plan.offsets, capacity).is_empty());
                    assert_eq!(cost(&problem, &plan.offsets, BANK, &costs), 0);
                    found += 1;
                }
                Kept::Impossible => {
                    assert!(!there_is, "{capacity} {must:?} {problem:?}");
                    none += 1;
                }
                Kept::Stopped => unreachable!("there is no limit"),
            }
        }
        assert!(found > 1000 && none > 500, "{found} {none}");
    }
}
