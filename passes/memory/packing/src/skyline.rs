//! Planning upward: the buffer that can lie lowest is placed next.
//!
//! Above each time there is a skyline, the end of what was placed last there. A buffer lies at the highest point of the skyline during
//! its life. Of those that can lie equally low, the one that lives longest where little is left, or has most bytes there, comes
//! first. These are the plans that the exact search begins with, for any number of buffers: where a buffer can lie is looked up only
//! when it is the lowest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::crowd::{Times, tight};
use crate::plan::align_up;
use crate::problem::{Live, Problem};

/// What comes first among buffers that can lie equally low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First {
    /// Size times life where little is left, or else a long life there.
    area: bool,
    /// Of equal ones that of the highest number, or else of the lowest.
    last: bool,
}

impl First {
    pub(crate) const ALL: [First; 4] = [
        First::new(false, false),
        First::new(false, true),
        First::new(true, false),
        First::new(true, true),
    ];

    const fn new(area: bool, last: bool) -> First {
        First { area, last }
    }

    pub(crate) fn name(self) -> &'static str {
        match (self.area, self.last) {
            (false, false) => "lowest first, by lifetime, lower numbers before",
            (false, true) => "lowest first, by lifetime, higher numbers before",
            (true, false) => "lowest first, by size and lifetime, lower numbers before",
            (true, true) => "lowest first, by size and lifetime, higher numbers before",
        }
    }

    /// The buffers that hold bytes at any time, in this order.
    fn order(self, problem: &Problem, crowds: &[u64], lives: &[Live]) -> Vec<usize> {
        let bound = problem.tallest_live_set().height;
        let held = |&i: &usize| problem.buffers[i].size > 0 && !lives[i].is_empty();
        let mut order: Vec<usize> = (0..lives.len()).filter(held).collect();
        order.sort_by_cached_key(|&i| {
            let life = u128::from(problem.lifetime(i));
            let size = u128::from(problem.buffers[i].size);
            let rank = if self.area { life * size } else { life };
            let tie = if self.last { usize::MAX - i } else { i };
            (Reverse(tight(rank, crowds[i], bound, 1024)), tie)
        });
        order
    }
}

/// Offsets of all buffers; none if `stop` says so first, or if only a graph is known.
pub(crate) fn upward(
    problem: &Problem,
    first: First,
    stop: &mut dyn FnMut() -> bool,
) -> Option<Vec<u64>> {
    let lives = problem.joined.as_ref()?;
    let order = first.order(problem, &problem.crowds()?, lives);
    let times = Times::new(lives);
    let mut skyline = Skyline::new(times.starts.len());
    let starts = problem.buffers.iter().map(crate::first_fit::start);
    let mut offsets: Vec<u64> = starts.collect();
    let each = order.iter().enumerate();
    let mut open: BinaryHeap<Reverse<(u64, usize)>> =
        each.map(|(rank, &i)| Reverse((offsets[i], rank))).collect();
    while let Some(Reverse((known, rank))) = open.pop() {
        if stop() {
            return None;
        }
        let i = order[rank];
        let b = &problem.buffers[i];
        let tops = lives[i].iter().map(|l| skyline.top(times.of(l)));
        let low = align_up(tops.max().unwrap_or(0), b.align).max(known);
        if low > known {
            open.push(Reverse((low, rank)));
            continue;
        }
        offsets[i] = low;
        for l in &lives[i] {
            skyline.set(times.of(l), low + b.size);
        }
    }
    Some(offsets)
}

/// A height at each time: the highest of an interval, and all of an interval to one height, in the logarithm of the number of times.
struct Skyline {
    leaves: usize,
    highest: Vec<u64>,
    /// A height that everything below a node has, but its own children do not know.
    all: Vec<Option<u64>>,
}

impl Skyline {
    fn new(times: usize) -> Skyline {
        let leaves = times.next_power_of_two().max(1);
        Skyline {
            leaves,
            highest: vec![0; 2 * leaves],
            all: vec![None; 2 * leaves],
        }
    }

    fn top(&self, (from, to): (usize, usize)) -> u64 {
        self.top_in(1, (0, self.leaves), (from, to))
    }

    fn top_in(&self, node: usize, (low, high): (usize, usize), (from, to): (usize, usize)) -> u64 {
        if to <= low || high <= from {
            return 0;
        }
        if from <= low && high <= to {
            return self.highest[node];
        }
        if let Some(all) = self.all[node] {
            return all;
        }
        let middle = (low + high) / 2;
        self.top_in(2 * node, (low, middle), (from, to))
            .max(self.top_in(2 * node + 1, (middle, high), (from, to)))
    }

    fn set(&mut self, (from, to): (usize, usize), height: u64) {
        self.set_in(1, (0, self.leaves), (from, to), height);
    }

    fn set_in(
        &mut self,
        node: usize,
        (low, high): (usize, usize),
        (from, to): (usize, usize),
        height: u64,
    ) {
        if to <= low || high <= from {
            return;
        }
        if from <= low && high <= to {
            self.highest[node] = height;
            self.all[node] = Some(height);
            return;
        }
        if let Some(all) = self.all[node].take() {
            for child in [2 * node, 2 * node + 1] {
                self.highest[child] = all;
                self.all[child] = Some(all);
            }
        }
        let middle = (low + high) / 2;
        self.set_in(2 * node, (low, middle), (from, to), height);
        self.set_in(2 * node + 1, (middle, high), (from, to), height);
        self.highest[node] = self.highest[2 * node].max(self.highest[2 * node + 1]);
    }
}
