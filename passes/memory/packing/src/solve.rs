//! The portfolio: all planners behind one interface, within a time or a number of steps.
//!
//! Greedy planners come first. Then the exact search looks for plans of some heights, from the lower bound upward to the
//! best plan known, in many short runs; see [`crate::part`]. What it finds lowers the best plan; what it shows to be
//! impossible raises the bound.

use std::time::{Duration, Instant};

use crate::bound::LiveSet;
use crate::colour::colour;
use crate::first_fit::{Fit, Order, place_until, refine};
use crate::part::Part;
use crate::plan::{Plan, REFINE_ROUNDS};
use crate::problem::Problem;
use crate::skyline::{First, upward};

/// Which planners are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// All of them.
    #[default]
    Auto,
    /// Each buffer has a place of its own.
    NoReuse,
    /// [`colour`](crate::colour()), as TOpLib does.
    Colour,
    /// First fit in all orders.
    FirstFit,
    /// Best fit in all orders.
    BestFit,
    /// The buffer that can lie lowest is placed next.
    Upward,
    /// [`refine`](crate::refine), from first fit by size.
    Refine,
    /// First fit by size, then the exact search.
    Exact,
}

/// How long to look, and for what.
#[derive(Clone, Debug)]
pub struct Options {
    /// The planners.
    pub algorithm: Algorithm,
    /// Stop at a plan that is no higher; 0 for the lowest.
    pub enough: u64,
    /// Steps at most: buffers placed by greedy planners and nodes of the search. The first plan is always
    /// completed. The same problem with the same steps gives the same plan.
    pub steps: u64,
    /// Time at most; the first plan is always completed.
    pub time: Option<Duration>,
}

/// Steps by default.
pub const STEPS: u64 = 2_000_000;

impl Default for Options {
    fn default() -> Options {
        Options {
            algorithm: Algorithm::Auto,
            enough: 0,
            steps: STEPS,
            time: None,
        }
    }
}

/// Why no plan is lower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// These buffers all interfere with each other: whoever adds up their sizes, rounded up to the smallest of their alignments for all
    /// but one, has checked it.
    LiveSet(LiveSet),
    /// A complete search found no plan that is a byte lower than the bound, in so many nodes: only another
    /// search can check it. The live set is what can be checked at once.
    Search {
        /// Nodes of the search.
        nodes: u64,
        /// The largest live set.
        set: LiveSet,
    },
}

/// A better plan, and when it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Steps taken until then.
    pub steps: u64,
    /// Its height.
    pub height: u64,
    /// What found it.
    pub method: String,
}

/// The answer of [`solve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The lowest plan found.
    pub plan: Plan,
    /// What no plan can be lower than.
    pub bound: u64,
    /// Why.
    pub certificate: Certificate,
    /// Steps taken.
    pub steps: u64,
    /// Better and better plans.
    pub progress: Vec<Progress>,
}

impl Solution {
    /// How much higher the plan is than the bound, in parts of the bound.
    pub fn gap(&self) -> f64 {
        match self.bound {
            0 => 0.0,
            bound => (self.plan.height - bound) as f64 / bound as f64,
        }
    }
}

/// Heights above the lowest that a round searches at.
const HALVED: usize = 5;

/// Finds a low plan; see [`Options`]. Planners that look at all pairs are left out of large problems.
pub fn solve(problem: &Problem, options: &Options) -> Solution {
    let set = problem.tallest_live_set().clone();
    let mut portfolio = Portfolio {
        problem,
        options,
        bound: set.height,
        proof: None,
        best: None,
        steps: 0,
        until: options.time.map(|time| Instant::now() + time),
        progress: Vec::new(),
    };
    portfolio.run();
    let stacked = || stack(problem);
    let mut plan = portfolio.best.take().unwrap_or_else(stacked);
    // Above it, if buffers must lie in the same bytes: then there is no plan.
    let bound = portfolio.bound.min(plan.height);
    let certificate = match portfolio.proof {
        Some(nodes) => Certificate::Search {
            nodes,
            set: set.clone(),
        },
        None => Certificate::LiveSet(set.clone()),
    };
    plan.proved = bound;
    Solution {
        plan,
        bound,
        certificate,
        steps: portfolio.steps,
        progress: portfolio.progress,
    }
}

/// All buffers one above the other, those with a place of their own there.
fn stack(problem: &Problem) -> Plan {
    let mut order: Vec<usize> = (0..problem.buffers.len()).collect();
    order.sort_by_key(|&i| {
        problem.buffers[i]
            .within
            .as_ref()
            .map_or(u64::MAX, |w| w.end - w.start)
    });
    let mut offsets = vec![0; order.len()];
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for i in order {
        let b = &problem.buffers[i];
        offsets[i] = crate::first_fit::lowest(b, &taken, crate::first_fit::start(b));
        if b.size > 0 {
            let place = (offsets[i], offsets[i] + b.size);
            // Neighbours become one: there are few.
            let at = taken.partition_point(|t| t.0 < place.0);
            match at.checked_sub(1).map(|before| taken[before]) {
                Some(before) if before.1 == place.0 => taken[at - 1].1 = place.1,
                _ => taken.insert(at, place),
            }
        }
    }
    Plan::new(problem, offsets, "no reuse", Vec::new())
}

struct Portfolio<'p> {
    problem: &'p Problem,
    options: &'p Options,
    bound: u64,
    /// Nodes of the search that raised the bound.
    proof: Option<u64>,
    best: Option<Plan>,
    steps: u64,
    until: Option<Instant>,
    progress: Vec<Progress>,
}

impl Portfolio<'_> {
    fn run(&mut self) {
        let algorithm = self.options.algorithm;
        let is = |a: Algorithm| algorithm == a || algorithm == Algorithm::Auto;
        let dense = self.problem.is_dense();
        let free = self.problem.buffers.iter().all(|b| b.within.is_none());
        if algorithm == Algorithm::NoReuse {
            return self.offer(stack(self.problem));
        }
        if is(Algorithm::Colour) && dense && free {
            self.steps += self.problem.buffers.len() as u64;
            self.offer(colour(self.problem));
        }
        let orders = match algorithm {
            Algorithm::Exact => &Order::ALL[..1],
            Algorithm::Auto | Algorithm::FirstFit | Algorithm::BestFit => &Order::ALL[..],
            _ => &[],
        };
        for (at, order) in orders.iter().enumerate() {
            if at == 2 && is(Algorithm::Upward) {
                self.upward();
            }
            if algorithm != Algorithm::BestFit {
                self.greedy(*order, Fit::First);
            }
        }
        if algorithm == Algorithm::Upward {
            self.upward();
        }
        if is(Algorithm::BestFit) {
            Order::ALL
                .iter()
                .for_each(|order| self.greedy(*order, Fit::Best));
        }
        let mut parts = Vec::new();
        if is(Algorithm::Exact) && !self.done() {
            parts = Part::of(self.problem);
        }
        let rounds = if algorithm == Algorithm::Auto {
            4
        } else {
            usize::MAX
        };
        self.search(&mut parts, rounds);
        if is(Algorithm::Refine) && dense && free && !self.done() {
            let count = self.problem.buffers.len().max(1);
            let left = self.options.steps.saturating_sub(self.steps) / count as u64;
            let rounds = REFINE_ROUNDS.min(usize::try_from(left).unwrap_or(REFINE_ROUNDS));
            if self.until.is_none() || algorithm == Algorithm::Refine {
                self.steps += (rounds * count) as u64;
                self.offer(refine(self.problem, Order::Size, rounds));
            }
        }
        self.search(&mut parts, usize::MAX);
    }

    /// Takes a plan that is lower than the best, and within where buffers must lie.
    fn offer(&mut self, plan: Plan) {
        let inside = self.problem.buffers.iter().zip(&plan.offsets);
        let inside = inside
            .into_iter()
            .all(|(b, at)| b.within.as_ref().is_none_or(|w| at + b.size <= w.end));
        if inside
            && self
                .best
                .as_ref()
                .is_none_or(|best| plan.height < best.height)
        {
            self.progress.push(Progress {
                steps: self.steps,
                height: plan.height,
                method: plan.method.clone(),
            });
            self.best = Some(plan);
        }
    }

    fn height(&self) -> u64 {
        self.best.as_ref().map_or(u64::MAX, |best| best.height)
    }

    fn late(&self) -> bool {
        self.steps >= self.options.steps || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Whether there is nothing left to do, or no more time for it.
    fn done(&self) -> bool {
        let good = self.height() <= self.bound.max(self.options.enough);
        good || (self.best.is_some() && self.late())
    }

    fn greedy(&mut self, order: Order, fit: Fit) {
        if self.done() || (order == Order::Conflict && !self.problem.is_dense()) {
            return;
        }
        let first = self.best.is_none();
        let (mut steps, limit, until) = (self.steps, self.options.steps, self.until);
        let stop = &mut || {
            steps += 1;
            let late =
                || steps.is_multiple_of(64) && until.is_some_and(|until| Instant::now() >= until);
            !first && (steps > limit || late())
        };
        let offsets = place_until(self.problem, &order.of(self.problem), fit, stop);
        self.steps = steps;
        let name = match fit {
            Fit::First => order.name().to_string(),
            Fit::Best => order.name().replace("first fit", "best fit"),
        };
        if let Some(offsets) = offsets {
            self.offer(Plan::new(self.problem, offsets, &name, Vec::new()));
        }
    }

    fn upward(&mut self) {
        for first in First::ALL {
            if self.done() {
                return;
            }
            self.steps += self.problem.buffers.len() as u64;
            let begun = self.best.is_some();
            let (mut looked, until) = (0u64, self.until);
            let stop = &mut || {
                looked += 1;
                begun
                    && looked.is_multiple_of(64)
                    && until.is_some_and(|until| Instant::now() >= until)
            };
            if let Some(offsets) = upward(self.problem, first, stop) {
                self.offer(Plan::new(self.problem, offsets, first.name(), Vec::new()));
            }
        }
    }

    /// Rounds of searches in the parts that keep the plan from being lower.
    fn search(&mut self, parts: &mut [Part], rounds: usize) {
        if let Some(best) = &self.best {
            parts.iter_mut().for_each(|part| part.learn(&best.offsets));
        }
        for _ in 0..rounds {
            let mut open = false;
            for at in 0..parts.len() {
                if self.done() || self.late() {
                    return;
                }
                if parts[at].is_open(self.bound.max(self.options.enough)) {
                    self.round(parts, at);
                    open = true;
                }
            }
            if !open {
                return;
            }
        }
    }

    /// Searches in a part at the lowest height that helps, then at some between it and the best one, by halving.
    fn round(&mut self, parts: &mut [Part], at: usize) {
        let round = parts[at].next_round();
        let low = self.bound.max(self.options.enough);
        if self.height_in(parts, at, low, true, round) {
            return;
        }
        let mut from = low;
        for _ in 0..HALVED {
            let low = self.bound.max(self.options.enough);
            let height = parts[at].height();
            if self.done() || self.late() || height <= low.max(from) + 1 {
                return;
            }
            let middle = from + (height - 1 - from) / 2;
            if !self.height_in(parts, at, middle, false, round) {
                from = middle;
            }
        }
    }

    /// Searches in a part at a height; whether a plan was found.
    fn height_in(
        &mut self,
        parts: &mut [Part],
        at: usize,
        height: u64,
        lowest: bool,
        round: u64,
    ) -> bool {
        for run in parts[at].runs(round, lowest) {
            if self.done() || self.late() || height < parts[at].bound {
                return false;
            }
            let until = self.until;
            let stop = &mut || until.is_some_and(|until| Instant::now() >= until);
            let limit = self.options.steps - self.steps;
            let (found, nodes) = parts[at].search(height, run, limit, stop);
            self.steps += nodes;
            if parts[at].bound > self.bound {
                self.bound = parts[at].bound;
                self.proof = Some(parts[at].proof);
            }
            if found {
                if let Some(offsets) = Part::join(self.problem, parts) {
                    let plan = Plan::new(self.problem, offsets, "exact search", Vec::new());
                    self.offer(plan);
                }
                return true;
            }
        }
        false
    }
}
