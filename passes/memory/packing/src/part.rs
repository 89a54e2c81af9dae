//! A part of a problem, which nothing outside interferes with, and the runs of the exact search in it.
//!
//! How long a search takes depends on the order in which it tries buffers, by orders of magnitude: of orders that differ a
//! little one ends after hundreds of nodes, the next one after millions. So runs are short and many. A few orders are tried first,
//! then random ones, with numbers of nodes that follow Luby, Sinclair and Zuckerman ("Optimal speedup of Las Vegas
//! algorithms", 1993): no other sequence is better by more than a logarithm without knowing how the lengths are
//! distributed.

use crate::crowd::tight;
use crate::exact::{Outcome, Rule, Search};
use crate::plan::align_up;
use crate::problem::Problem;
use crate::random::mix;
use crate::sets::Sets;

/// Nodes of a first run, for each buffer.
const FIRST_NODES: u64 = 12;

/// Buffers that it counts at least.
const FEW: usize = 100;

/// Random orders of a round at the lowest height, and at others.
const RANDOM: (u64, u64) = (16, 2);

/// What runs try first, and how they rank buffers.
const TRIED: [(Rule, Rank); 8] = [
    (Rule::LowestTight, Rank::Total),
    (Rule::Lowest, Rank::LifeTight),
    (Rule::Lowest, Rank::Life),
    (Rule::Lowest, Rank::Total),
    (Rule::Tight, Rank::AreaTight),
    (Rule::LowestTight, Rank::AreaTight),
    (Rule::Tight, Rank::Total),
    (Rule::Rank, Rank::LifeTight),
];

/// Fixed orders at heights above the lowest: the first ones.
const TRIED_ABOVE: usize = 3;

/// The same for random orders, which begin with one of these. Of runs of 4,000 nodes on MiniMalloc's instances between 1 in 60 and 20
/// in 60 found a plan by life and tightness, most of all; by each of the others there are instances that it is best on.
const SHAKEN: [(Rule, Rank); 8] = [
    (Rule::Lowest, Rank::LifeTight),
    (Rule::LowestTight, Rank::Total),
    (Rule::LowestTight, Rank::LifeTight),
    (Rule::Lowest, Rank::Life),
    (Rule::Lowest, Rank::LifeTight),
    (Rule::LowestTight, Rank::AreaTight),
    (Rule::LowestTight, Rank::LifeTight),
    (Rule::Lowest, Rank::LifeTight),
];

/// What makes a buffer come early, each falling; ties go by size times life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// The largest set that has it.
    Total,
    /// Its life.
    Life,
    /// Its life, divided by the bytes that its largest set leaves.
    LifeTight,
    /// Size times life, divided by the bytes that its largest set leaves.
    AreaTight,
}

/// How to search: what comes first, how ranks are changed at random (0: not), and how many nodes at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    rule: Rule,
    rank: Rank,
    shake: u64,
    nodes: u64,
}

/// Some buffers, and what is known of plans for them.
pub(crate) struct Part {
    sets: Sets,
    /// The height and the offsets of the best plan.
    best: Option<(u64, Vec<u64>)>,
    /// More than any plan needs, if there is one at all: all that need not lie in some bytes above all that must.
    ceiling: u64,
    /// No plan is lower.
    pub(crate) bound: u64,
    /// Nodes of the searches that raised the bound.
    pub(crate) proof: u64,
    /// What all sizes and alignments are multiples of.
    unit: u64,
    rounds: u64,
    shaken: u64,
}

impl Part {
    /// The parts of a problem; none if it is too large for a search.
    pub(crate) fn of(problem: &Problem) -> Vec<Part> {
        let parts = Sets::parts(problem).unwrap_or_default();
        parts.into_iter().map(Part::new).collect()
    }

    fn new(sets: Sets) -> Part {
        let places = sets.within.iter().map(|w| w.0);
        let parts = sets.size.iter().chain(&sets.align).copied().chain(places);
        let fixed = sets
            .within
            .iter()
            .map(|w| w.1)
            .filter(|end| *end < u64::MAX);
        let each = sets.size.iter().zip(&sets.align);
        let ceiling =
            fixed.max().unwrap_or(0) + each.map(|(size, align)| size + align).sum::<u64>();
        Part {
            best: None,
            ceiling: ceiling + 1,
            bound: sets.total.iter().copied().max().unwrap_or(0),
            proof: 0,
            unit: parts.fold(0, divisor).max(1),
            rounds: 0,
            shaken: 0,
            sets,
        }
    }

    /// The height of the best plan; one more than any plan needs, if none is known.
    pub(crate) fn height(&self) -> u64 {
        self.best.as_ref().map_or(self.ceiling, |best| best.0)
    }

    /// Whether a search may still find a plan, where none higher than so much is wanted.
    pub(crate) fn is_open(&self, enough: u64) -> bool {
        match &self.best {
            Some(best) => best.0 > enough,
            None => self.bound < self.ceiling,
        }
    }

    /// Takes the offsets of a plan for all, if they are lower here.
    pub(crate) fn learn(&mut self, offsets: &[u64]) {
        let own: Vec<u64> = self.sets.buffer.iter().map(|&i| offsets[i]).collect();
        self.take(own);
    }

    fn take(&mut self, offsets: Vec<u64>) {
        let ends = offsets.iter().zip(&self.sets.size);
        let height = ends.map(|(at, size)| at + size).max().unwrap_or(0);
        if height < self.height() {
            self.best = Some((height, offsets));
        }
    }

    /// Offsets for all buffers, if there is a plan for each part.
    pub(crate) fn join(problem: &Problem, parts: &[Part]) -> Option<Vec<u64>> {
        let starts = problem.buffers.iter().map(crate::first_fit::start);
        let mut all: Vec<u64> = starts.collect();
        for part in parts {
            for (item, at) in part.best.as_ref()?.1.iter().enumerate() {
                all[part.sets.buffer[item]] = *at;
            }
        }
        Some(all)
    }

    /// The number of this round.
    pub(crate) fn next_round(&mut self) -> u64 {
        self.rounds += 1;
        self.rounds - 1
    }

    /// The runs of a round at one height.
    pub(crate) fn runs(&mut self, round: u64, lowest: bool) -> Vec<Run> {
        let first = FIRST_NODES * self.sets.len().max(FEW) as u64;
        let mut runs = Vec::new();
        // Fixed orders again with as many nodes as random ones had, for proofs.
        if round == 0 || (lowest && round.is_power_of_two()) {
            let nodes = first * (2 * round).max(1);
            let tried = if lowest { TRIED.len() } else { TRIED_ABOVE };
            let tried = TRIED.into_iter().take(tried);
            let shake = 0;
            runs.extend(tried.map(|(rule, rank)| Run {
                rule,
                rank,
                shake,
                nodes,
            }));
        }
        let random = if lowest { RANDOM.0 } else { RANDOM.1 };
        for _ in 0..random {
            self.shaken += 1;
            let (rule, rank) = SHAKEN[(self.shaken % SHAKEN.len() as u64) as usize];
            runs.push(Run {
                rule,
                rank,
                shake: self.shaken,
                nodes: first * luby(self.shaken),
            });
        }
        runs
    }

    /// Searches for a plan of some height; whether one was found, and how many nodes it took.
    pub(crate) fn search(
        &mut self,
        height: u64,
        run: Run,
        limit: u64,
        stop: &mut dyn FnMut() -> bool,
    ) -> (bool, u64) {
        let ranks = self.ranks(height, run.rank, run.shake);
        let limit = limit.min(run.nodes);
        let search = Search::new(&self.sets, height, (run.rule, &ranks), limit, stop);
        let (outcome, nodes) = search.run();
        match outcome {
            Outcome::Found(offsets) => {
                self.take(offsets);
                return (true, nodes);
            }
            Outcome::None => {
                // Nothing is between two sums of sizes.
                let above = align_up(height + 1, self.unit);
                self.bound = above.min(self.height()).max(self.bound);
                self.proof += nodes;
            }
            Outcome::Stopped => {}
        }
        (false, nodes)
    }

    fn ranks(&self, height: u64, rank: Rank, shake: u64) -> Vec<u32> {
        let sets = &self.sets;
        let total = |i: usize| {
            let all = sets.of[i].iter().map(|s| sets.total[*s as usize]);
            all.max().unwrap_or(0)
        };
        let area = |i: usize| u128::from(sets.size[i]) * u128::from(sets.life[i]);
        let life = |i: usize| u128::from(sets.life[i]);
        // A set that leaves nothing is a thousand times as tight as one that leaves all.
        let tight = |i: usize, n: u128| tight(n, total(i), height, 1024);
        let factor = |i: usize| match shake {
            0 => 1,
            _ => {
                let parts = [32u32, 8, 3, 1][(mix(shake) % 4) as usize];
                let random = mix(mix(shake) ^ i as u64) >> 32;
                (u128::from(parts) << 32) - u128::from(random)
            }
        };
        let key = |i: usize| {
            let first = match rank {
                Rank::Total => u128::from(total(i)),
                Rank::Life => life(i),
                Rank::LifeTight => tight(i, life(i)),
                Rank::AreaTight => tight(i, area(i)),
            };
            (first.saturating_mul(factor(i)), area(i), life(i))
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

/// The sequence 1, 1, 2, 1, 1, 2, 4, 1, …, from 1.
pub(crate) fn luby(mut n: u64) -> u64 {
    loop {
        let whole = (n + 1).next_power_of_two();
        if whole == n + 1 {
            return whole / 2;
        }
        // The part before it is the sequence up to `whole / 2 - 1`.
        n -= whole / 2 - 1;
    }
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Buffer, Live};
    use crate::random::Random;

    /// Whether the items from `i` on fit, by trying all offsets of each.
    fn fits(sets: &Sets, height: u64, offsets: &mut Vec<u64>) -> bool {
        let i = offsets.len();
        if i == sets.len() {
            return true;
        }
        let near = |j: usize| sets.near[i * sets.words + j / 64] >> (j % 64) & 1 == 1;
        (sets.within[i].0..(height.min(sets.within[i].1) + 1).saturating_sub(sets.size[i])).any(
            |at| {
                let free =
                    |j: usize| at + sets.size[i] <= offsets[j] || offsets[j] + sets.size[j] <= at;
                if !at.is_multiple_of(sets.align[i]) || !(0..i).all(|j| !near(j) || free(j)) {
                    return false;
                }
                offsets.push(at);
                let found = fits(sets, height, offsets);
                offsets.pop();
                found
            },
        )
    }

    /// Each order of search alone must find what there is, and nothing else: what one leaves out, others would hide.
    #[test]
    fn every_order_is_complete() {
        let mut seed = Random::new(41);
        let (mut found, mut none) = (0, 0);
        for _ in 0..4000 {
            let (mut buffers, mut lives) = (Vec::new(), Vec::<Live>::new());
            for i in 0..2 + seed.below(7) {
                let align = 1 << (seed.below(5) / 3);
                let size = 1 + seed.below(5) as u64;
                let within = (seed.below(8) == 0).then(|| 2..2 + align + size + 3);
                let name = format!("b{i}");
                buffers.push(Buffer {
                    align,
                    within,
                    ..Buffer::new(&name, size)
                });
                let start = seed.below(9) as u64;
                lives.push(std::iter::once(start..start + 1 + seed.below(5) as u64).collect());
            }
            let problem = Problem::from_lives(buffers, lives).unwrap();
            for part in Part::of(&problem) {
                for height in part.bound..part.bound + 3 {
                    let there_is = fits(&part.sets, height, &mut Vec::new());
                    let rules = [Rule::Lowest, Rule::LowestTight, Rule::Tight, Rule::Rank];
                    let ranks = [Rank::Total, Rank::Life, Rank::LifeTight, Rank::AreaTight];
                    for (rule, rank) in rules.into_iter().zip(ranks) {
                        let (ranks, stop) = (part.ranks(height, rank, 3), &mut || false);
                        let search =
                            Search::new(&part.sets, height, (rule, &ranks), u64::MAX, stop);
                        match search.run().0 {
                            Outcome::Found(offsets) => {
                                assert!(there_is && fits_as(&part.sets, height, &offsets));
                                found += 1;
                            }
                            Outcome::None => {
                                assert!(!there_is, "{rule:?} {height} {problem:?}");
                                none += 1;
                            }
                            Outcome::Stopped => unreachable!("there is no limit"),
                        }
                    }
                }
            }
        }
        assert!(found > 10_000 && none > 4000, "{found} {none}");
    }

    fn fits_as(sets: &Sets, height: u64, offsets: &[u64]) -> bool {
        (0..sets.len()).all(|i| {
            let near = |j: usize| sets.near[i * sets.words + j / 64] >> (j % 64) & 1 == 1;
            let end = |j: usize| offsets[j] + sets.size[j];
            let apart = |j: usize| end(i) <= offsets[j] || end(j) <= offsets[i];
            let inside = sets.within[i].0 <= offsets[i] && end(i) <= height.min(sets.within[i].1);
            inside
                && offsets[i].is_multiple_of(sets.align[i])
                && (0..i).all(|j| !near(j) || apart(j))
        })
    }
}
