//! The placed buffers that interfere with one, without a graph: live intervals in a tree over their starts.
//!
//! The intervals of all buffers lie in the order of their starts, and a tree above them knows the latest end of
//! those that are placed. The ones that overlap `[start, end)` are among those that start before `end`; parts of the
//! tree in which nothing ends after `start` are left out. It takes memory for the intervals alone, and time for what
//! it finds times the depth of the tree.

use crate::problem::Problem;

/// The buffers that are placed already.
pub(crate) enum Placed<'p> {
    /// By live intervals.
    Lives(Tree<'p>),
    /// By the graph, where only that is known.
    Graph(&'p Problem, Vec<bool>),
}

pub(crate) struct Tree<'p> {
    problem: &'p Problem,
    /// Start, buffer and end of each interval, by start.
    intervals: Vec<(u64, usize, u64)>,
    /// The intervals of each buffer, by their place in the order above.
    of: Vec<Vec<u32>>,
    /// The latest end of what is placed, below each node; leaves from `leaves` on.
    latest: Vec<u64>,
    leaves: usize,
    /// The last buffer that asked, for buffers of several intervals.
    seen: Vec<u32>,
    asked: u32,
}

impl<'p> Placed<'p> {
    pub(crate) fn new(problem: &'p Problem) -> Self {
        let count = problem.buffers.len();
        let Some(lives) = &problem.joined else {
            return Placed::Graph(problem, vec![false; count]);
        };
        let each = lives.iter().enumerate();
        let each = each.flat_map(|(i, live)| live.iter().map(move |l| (l.start, i, l.end)));
        let mut intervals: Vec<_> = each.collect();
        intervals.sort_unstable();
        let mut of = vec![Vec::new(); count];
        for (at, (_, i, _)) in intervals.iter().enumerate() {
            of[*i].push(at as u32);
        }
        let leaves = intervals.len().next_power_of_two();
        Placed::Lives(Tree {
            problem,
            intervals,
            of,
            latest: vec![0; 2 * leaves],
            leaves,
            seen: vec![0; count],
            asked: 0,
        })
    }

    pub(crate) fn add(&mut self, i: usize) {
        match self {
            Placed::Graph(_, placed) => placed[i] = true,
            Placed::Lives(tree) => tree.add(i),
        }
    }

    /// Every placed buffer that interferes with one, once.
    pub(crate) fn near(&mut self, i: usize, found: &mut dyn FnMut(usize)) {
        match self {
            Placed::Graph(problem, placed) => {
                let near = problem.graph().neighbours(i);
                near.filter(|&n| placed[n]).for_each(found);
            }
            Placed::Lives(tree) => tree.near(i, found),
        }
    }
}

impl Tree<'_> {
    fn add(&mut self, i: usize) {
        for &at in &self.of[i] {
            let end = self.intervals[at as usize].2;
            let mut node = self.leaves + at as usize;
            while node > 0 && self.latest[node] < end {
                self.latest[node] = end;
                node /= 2;
            }
        }
    }

    fn near(&mut self, i: usize, found: &mut dyn FnMut(usize)) {
        self.asked += 1;
        let lives = self.problem.joined.as_ref();
        for live in lives.into_iter().flat_map(|lives| &lives[i]) {
            let until = self.intervals.partition_point(|x| x.0 < live.end);
            let mut open = vec![(1, 0, self.leaves)];
            while let Some((node, low, len)) = open.pop() {
                if low >= until || self.latest[node] <= live.start {
                    continue;
                }
                if len > 1 {
                    let half = len / 2;
                    open.push((2 * node + 1, low + half, half));
                    open.push((2 * node, low, half));
                    continue;
                }
                let other = self.intervals[low].1;
                if other != i && self.seen[other] != self.asked {
                    self.seen[other] = self.asked;
                    found(other);
                }
            }
        }
    }
}
