//! What no plan can be lower than: the largest set of buffers that must lie side by side.

use std::collections::BTreeSet;

use crate::plan::align_up;
use crate::problem::{Live, Problem};

/// A set of buffers that all interfere with each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSet {
    /// Sum of their sizes: a lower bound for every plan, exact or not.
    pub bytes: u64,
    /// Where the highest of them ends at the lowest: with the sizes of all but one rounded up to what their offsets are multiples
    /// of, the smallest of their alignments. A lower bound that is no less than `bytes`.
    pub height: u64,
    /// When they live, if live intervals are known.
    pub time: Option<u64>,
    /// The buffers, largest first.
    pub members: Vec<usize>,
    /// Whether no larger such set exists.
    pub exact: bool,
}

/// Nodes that the search for the heaviest clique of a graph visits at most.
pub const NODE_LIMIT: u64 = 200_000;

/// Cliques that are grown greedily before the search begins.
const GREEDY_STARTS: usize = 64;

impl Problem {
    /// The largest live set: over all times, if live intervals are known (and then exact for sets
    /// that live at one time), else the heaviest clique that a search of
    /// [`NODE_LIMIT`] nodes finds.
    pub fn largest_live_set(&self) -> &LiveSet {
        self.bound.get_or_init(|| match &self.joined {
            Some(lives) => self.peak(lives, 1),
            None => self.heaviest_clique(NODE_LIMIT),
        })
    }

    /// The live set that no plan can be lower than: the largest one, or another one that needs more for the alignments of its
    /// buffers.
    pub fn tallest_live_set(&self) -> &LiveSet {
        let largest = self.largest_live_set();
        let tallest = self.tallest.get_or_init(|| {
            let lives = self.joined.as_ref()?;
            // Of those that are aligned to as much or more, for each alignment there is.
            let held = self.buffers.iter().filter(|b| b.size > 0);
            let aligns: BTreeSet<u64> = held.map(|b| b.align).filter(|align| *align > 1).collect();
            let sets = aligns.into_iter().map(|align| self.peak(lives, align));
            sets.reduce(|a, b| if b.height > a.height { b } else { a })
                .filter(|set| set.height > largest.height)
        });
        tallest.as_ref().unwrap_or(largest)
    }

    /// Where the highest of buffers that all interfere ends at the lowest: below each other one lies a multiple of the
    /// smallest alignment, so of all but the highest the sizes are rounded up to that, and the highest may be any.
    fn height(&self, members: &[usize]) -> u64 {
        let each = || members.iter().map(|&i| &self.buffers[i]);
        let align = each().map(|b| b.align).min().unwrap_or(1);
        let whole = |size: u64| align_up(size, align);
        let all: u64 = each().map(|b| whole(b.size)).sum();
        let spared = each().map(|b| whole(b.size) - b.size).max();
        all - spared.unwrap_or(0)
    }

    /// A set of which it is known who is in it.
    fn live_set(&self, mut members: Vec<usize>, time: Option<u64>, exact: bool) -> LiveSet {
        members.retain(|&i| self.buffers[i].size > 0);
        members.sort_by_key(|&i| (std::cmp::Reverse(self.buffers[i].size), i));
        LiveSet {
            bytes: members.iter().map(|&i| self.buffers[i].size).sum(),
            height: self.height(&members),
            time,
            members,
            exact,
        }
    }

    /// The set that is largest at one time of buffers that are aligned to `unit` or more, with sizes rounded up to multiples of it.
    fn peak(&self, lives: &[Live], unit: u64) -> LiveSet {
        // Ends before starts at equal times: intervals are half-open.
        let mut events: Vec<(u64, bool, usize)> = Vec::new();
        for (i, live) in lives.iter().enumerate() {
            for l in live {
                events.extend([(l.start, true, i), (l.end, false, i)]);
            }
        }
        events.sort_unstable();
        let (mut now, mut best, mut at) = (0, 0, None);
        for (time, starts, i) in events {
            let buffer = &self.buffers[i];
            let counts = buffer.align >= unit;
            let size = if counts {
                align_up(buffer.size, unit)
            } else {
                0
            };
            now = if starts { now + size } else { now - size };
            if starts && now > best {
                (best, at) = (now, Some(time));
            }
        }
        let live = |&i: &usize| at.is_some_and(|t| lives[i].iter().any(|l| l.contains(&t)));
        let counts = |&i: &usize| self.buffers[i].align >= unit;
        let members = (0..lives.len()).filter(live).filter(counts);
        self.live_set(members.collect(), at, true)
    }

    /// Branch and bound over the vertices that can still extend the clique, heaviest first. A
    /// branch is left when a colouring of its vertices, each colour counted by its heaviest
    /// vertex, shows that it cannot beat the best clique found.
    pub(crate) fn heaviest_clique(&self, limit: u64) -> LiveSet {
        let mut order: Vec<usize> = (0..self.buffers.len()).collect();
        order.retain(|&i| self.buffers[i].size > 0);
        order.sort_by_key(|&i| (std::cmp::Reverse(self.buffers[i].size), i));
        let mut search = Clique {
            problem: self,
            best: Vec::new(),
            bytes: 0,
            left: limit,
        };
        for &first in order.iter().take(GREEDY_STARTS) {
            search.greedy(first, &order);
        }
        let complete = search.extend(&order, &mut Vec::new(), 0);
        let members = std::mem::take(&mut search.best);
        self.live_set(members, None, complete)
    }
}

struct Clique<'p> {
    problem: &'p Problem,
    best: Vec<usize>,
    bytes: u64,
    left: u64,
}

impl Clique<'_> {
    /// A clique around `first` that takes the heaviest vertices it can.
    fn greedy(&mut self, first: usize, order: &[usize]) {
        let mut clique = vec![first];
        for &v in order {
            if clique.iter().all(|&u| self.problem.graph().has(u, v)) {
                clique.push(v);
            }
        }
        let bytes = clique.iter().map(|&v| self.problem.buffers[v].size).sum();
        if bytes > self.bytes {
            (self.bytes, self.best) = (bytes, clique);
        }
    }

    /// Tries all cliques of `chosen` and some of `open`; whether the search was complete.
    fn extend(&mut self, open: &[usize], chosen: &mut Vec<usize>, bytes: u64) -> bool {
        if bytes > self.bytes {
            (self.bytes, self.best) = (bytes, chosen.clone());
        }
        if self.left == 0 {
            return open.is_empty();
        }
        self.left -= 1;
        let (order, bounds) = self.colour(open);
        let mut complete = true;
        for at in (0..order.len()).rev() {
            if bytes + bounds[at] <= self.bytes {
                // All vertices up to here together cannot beat the best.
                break;
            }
            let v = order[at];
            let inner: Vec<usize> = order[..at]
                .iter()
                .copied()
                .filter(|&u| self.problem.graph().has(u, v))
                .collect();
            chosen.push(v);
            complete &= self.extend(&inner, chosen, bytes + self.problem.buffers[v].size);
            chosen.pop();
        }
        complete
    }

    /// Vertices by colour class, and for each the most a clique among those up to it can weigh.
    fn colour(&self, open: &[usize]) -> (Vec<usize>, Vec<u64>) {
        let mut rest = open.to_vec();
        rest.sort_by_key(|&v| (std::cmp::Reverse(self.problem.buffers[v].size), v));
        let (mut order, mut bounds, mut sum) = (Vec::new(), Vec::new(), 0);
        while !rest.is_empty() {
            let mut class: Vec<usize> = Vec::new();
            rest.retain(|&v| {
                let free = class.iter().all(|&u| !self.problem.graph().has(u, v));
                if free {
                    class.push(v);
                }
                !free
            });
            // Sorted by size: the first of a class is its heaviest.
            sum += class.first().map_or(0, |&v| self.problem.buffers[v].size);
            bounds.extend(class.iter().map(|_| sum));
            order.extend(class);
        }
        (order, bounds)
    }
}

/// Sum of the sizes of a buffer's neighbours.
pub(crate) fn conflict(problem: &Problem, i: usize) -> u64 {
    problem
        .graph()
        .neighbours(i)
        .map(|n| problem.buffers[n].size)
        .sum()
}
