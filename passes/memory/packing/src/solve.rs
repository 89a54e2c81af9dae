//! The portfolio: all planners behind one interface, within a time or a number of steps.
//!
//! Greedy planners come first. Then the exact search looks for plans of some heights, from the lower bound upward to the
//! best plan known, with each of its rules for a few nodes; each round has more nodes. What it finds lowers the best plan;
//! what it shows to be impossible raises the bound.

use std::time::{Duration, Instant};

use crate::bound::LiveSet;
use crate::colour::colour;
use crate::exact::{Outcome, Rule, Search};
use crate::first_fit::{Fit, Order, place_until, refine};
use crate::plan::{Plan, REFINE_ROUNDS, align_up};
use crate::problem::Problem;
use crate::random::mix;
use crate::sets::Sets;

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
    /// These buffers all interfere with each other: whoever adds up their sizes has checked it.
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

/// Nodes of a first search, for each buffer.
const FIRST_NODES: u64 = 2;

/// Growth of this number by a round.
const GROWTH: u64 = 2;

/// Rules for heights above the lowest.
const TRIED_ABOVE: usize = 3;

/// What searches try first, and how they rank buffers.
const TRIED: [(Rule, Rank); 9] = [
    (Rule::LowestTight, Rank::TotalLife),
    (Rule::Lowest, Rank::TotalLife),
    (Rule::Lowest, Rank::Life),
    (Rule::Tight, Rank::TotalArea),
    (Rule::LowestTight, Rank::TotalArea),
    (Rule::Tight, Rank::TotalLife),
    (Rule::Rank, Rank::TotalArea),
    (Rule::LowestTight, Rank::Shaken),
    (Rule::Lowest, Rank::Shaken),
];

/// What makes a buffer come early, each falling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    /// The largest set that has it, then its life, then size times life.
    TotalLife,
    /// The largest set that has it, then size times life, then its life.
    TotalArea,
    /// Its life, then size times life.
    Life,
    /// The largest set that has it times a random factor.
    Shaken,
}

/// Finds a low plan; see [`Options`]. Planners that look at all pairs are left out of large problems.
pub fn solve(problem: &Problem, options: &Options) -> Solution {
    let set = problem.largest_live_set().clone();
    let mut portfolio = Portfolio {
        problem,
        options,
        bound: set.bytes,
        proof: None,
        best: None,
        steps: 0,
        until: options.time.map(|time| Instant::now() + time),
        progress: Vec::new(),
    };
    portfolio.run();
    let stacked = || stack(problem);
    let bound = portfolio.bound;
    let mut plan = portfolio.best.take().unwrap_or_else(stacked);
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
        for order in orders {
            if algorithm != Algorithm::BestFit {
                self.greedy(*order, Fit::First);
            }
        }
        if is(Algorithm::BestFit) {
            Order::ALL
                .iter()
                .for_each(|order| self.greedy(*order, Fit::Best));
        }
        let mut tries = is(Algorithm::Exact)
            .then(|| Sets::new(self.problem))
            .flatten()
            .map(Tries::new);
        let rounds = if algorithm == Algorithm::Auto {
            4
        } else {
            usize::MAX
        };
        self.search(&mut tries, rounds);
        if is(Algorithm::Refine) && dense && free && !self.done() {
            let count = self.problem.buffers.len().max(1);
            let left = self.options.steps.saturating_sub(self.steps) / count as u64;
            let rounds = REFINE_ROUNDS.min(usize::try_from(left).unwrap_or(REFINE_ROUNDS));
            if self.until.is_none() || algorithm == Algorithm::Refine {
                self.steps += (rounds * count) as u64;
                self.offer(refine(self.problem, Order::Size, rounds));
            }
        }
        self.search(&mut tries, usize::MAX);
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

    /// Rounds of searches.
    fn search(&mut self, tries: &mut Option<Tries>, rounds: usize) {
        let Some(tries) = tries else { return };
        for _ in 0..rounds {
            if self.done() {
                return;
            }
            let mut found = self.round(tries, true);
            while found && !self.done() {
                found = self.round(tries, false);
            }
            tries.nodes *= GROWTH;
        }
    }

    /// Searches at the lowest height, if asked to, and between it and the best plan; whether one found a plan.
    fn round(&mut self, tries: &mut Tries, lowest: bool) -> bool {
        let low = self.bound.max(self.options.enough);
        let gap = self.height() - 1 - low.min(self.height() - 1);
        // Heights above the lowest are found soon, or not with this number of nodes.
        let mut heights = vec![low, low + gap / 16, low + gap / 4, low + gap / 2, low + gap];
        heights.dedup();
        for height in heights {
            let rules = if height == low {
                TRIED.len()
            } else {
                TRIED_ABOVE
            };
            for (rule, rank) in TRIED.into_iter().take(rules) {
                if height == low && !lowest && gap > 0 {
                    break;
                }
                if self.done() {
                    return false;
                }
                if height < self.bound {
                    break;
                }
                let ranks = tries.ranks(rank);
                let limit = tries.nodes.min(self.options.steps - self.steps);
                let until = self.until;
                let stop = &mut || until.is_some_and(|until| Instant::now() >= until);
                let search = Search::new(&tries.sets, height, (rule, &ranks), limit, stop);
                let (outcome, nodes) = search.run();
                self.steps += nodes;
                match outcome {
                    Outcome::Found(offsets) => {
                        let mut all: Vec<u64> = self
                            .problem
                            .buffers
                            .iter()
                            .map(crate::first_fit::start)
                            .collect();
                        for (item, at) in offsets.into_iter().enumerate() {
                            all[tries.sets.buffer[item]] = at;
                        }
                        self.offer(Plan::new(self.problem, all, "exact search", Vec::new()));
                        return true;
                    }
                    Outcome::None => {
                        // Nothing is between two sums of sizes.
                        self.bound = tries.above(height).min(self.height());
                        self.proof = Some(self.proof.unwrap_or(0) + nodes);
                    }
                    Outcome::Stopped => {}
                }
            }
        }
        false
    }
}

struct Tries {
    sets: Sets,
    nodes: u64,
    shaken: u64,
    /// What all sizes and alignments are multiples of.
    unit: u64,
}

impl Tries {
    fn new(sets: Sets) -> Tries {
        let places = sets.within.iter().map(|w| w.0);
        let parts = sets.size.iter().chain(&sets.align).copied().chain(places);
        let unit = parts.fold(0, divisor).max(1);
        let nodes = FIRST_NODES * sets.len().max(100) as u64;
        Tries {
            sets,
            nodes,
            shaken: 0,
            unit,
        }
    }

    /// The next height that a plan can have.
    fn above(&self, height: u64) -> u64 {
        align_down(height, self.unit) + self.unit
    }

    fn ranks(&mut self, rank: Rank) -> Vec<u32> {
        let sets = &self.sets;
        let total = |i: usize| {
            let all = sets.of[i].iter().map(|s| sets.total[*s as usize]);
            u128::from(all.max().unwrap_or(0))
        };
        let area = |i: usize| u128::from(sets.size[i]) * u128::from(sets.life[i]);
        let life = |i: usize| u128::from(sets.life[i]);
        self.shaken += u64::from(rank == Rank::Shaken);
        let parts = [32u32, 8, 3, 1][(self.shaken % 4) as usize];
        let shake = |i: usize| {
            let random = mix(mix(self.shaken) ^ i as u64) >> 32;
            total(i) * ((u128::from(parts) << 32) - u128::from(random))
        };
        let key = |i: usize| match rank {
            Rank::TotalLife => (total(i), life(i), area(i)),
            Rank::TotalArea => (total(i), area(i), life(i)),
            Rank::Life => (life(i), area(i), total(i)),
            Rank::Shaken => (shake(i), area(i), life(i)),
        };
        let mut order: Vec<usize> = (0..sets.len()).collect();
        order.sort_by_cached_key(|&i| (std::cmp::Reverse(key(i)), i));
        let mut ranks = vec![0; order.len()];
        for (rank, i) in order.into_iter().enumerate() {
            ranks[i] = rank as u32;
        }
        ranks
    }
}

fn align_down(n: u64, unit: u64) -> u64 {
    align_up(n + 1, unit) - unit
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
