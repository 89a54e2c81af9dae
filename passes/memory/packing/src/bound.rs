//! What no plan can be lower than: the largest set of buffers that must lie side by side.

use crate::problem::{Live, Problem};

/// A set of buffers that all interfere with each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSet {
    /// Sum of their sizes: a lower bound for every plan, exact or not.
    pub bytes: u64,
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
        self.bound.get_or_init(|| {
            let mut set = match &self.joined {
                Some(lives) => self.peak(lives),
                None => self.heaviest_clique(NODE_LIMIT),
            };
            set.members
                .sort_by_key(|&i| (std::cmp::Reverse(self.buffers[i].size), i));
            set
        })
    }

    fn peak(&self, lives: &[Live]) -> LiveSet {
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
            let size = self.buffers[i].size;
            now = if starts { now + size } else { now - size };
            if starts && now > best {
                (best, at) = (now, Some(time));
            }
        }
        let live = |&i: &usize| at.is_some_and(|t| lives[i].iter().any(|l| l.contains(&t)));
        let held = |&i: &usize| self.buffers[i].size > 0;
        let members = (0..lives.len()).filter(live).filter(held).collect();
        LiveSet {
            bytes: best,
            time: at,
            members,
            exact: true,
        }
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
        LiveSet {
            bytes: search.bytes,
            time: None,
            members: search.best,
            exact: complete,
        }
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
