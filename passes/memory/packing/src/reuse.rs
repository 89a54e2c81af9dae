//! Plans whose buffers do not reuse bytes where that costs something, as far as there is room.

use std::collections::BTreeMap;

use crate::graph::Interference;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::solve::{Options, solve};

/// What it costs if two buffers share a byte that do not live at the same time, the lower number first. Pairs that are
/// not named cost nothing.
pub type Reuse = BTreeMap<(usize, usize), u64>;

/// Steps of each search for a plan without some pairs.
const STEPS: u64 = 20_000;

/// Pairs that are tried one by one.
const SINGLE: usize = 48;

/// The pairs of a plan that share bytes and cost something, with that.
pub fn shared<'a>(
    problem: &'a Problem,
    offsets: &'a [u64],
    reuse: &'a Reuse,
) -> impl Iterator<Item = ((usize, usize), u64)> + 'a {
    let end = |i: usize| offsets[i] + problem.buffers[i].size;
    let pairs = reuse
        .iter()
        .filter(move |((a, b), cost)| **cost > 0 && offsets[*a] < end(*b) && offsets[*b] < end(*a));
    pairs.map(|(pair, cost)| (*pair, *cost))
}

/// What the reuse in a plan costs.
pub fn reuse_cost(problem: &Problem, offsets: &[u64], reuse: &Reuse) -> u64 {
    shared(problem, offsets, reuse).fold(0, |sum, (_, cost)| sum.saturating_add(cost))
}

/// A plan within the capacity whose reuse costs less than that of a given one, of equal cost with the least height; the given
/// one if none was found, or if its graph is too large to be made ([`DENSE`](crate::DENSE)).
///
/// As many pairs as there is room for, those that cost the most first, are treated as if they lived at the same time: how
/// many is found by halving, further ones are tried one by one. The same problem gives the same plan.
pub fn apart_in_time(problem: &Problem, plan: &Plan, capacity: u64, reuse: &Reuse) -> Plan {
    if !problem.is_dense() || reuse_cost(problem, &plan.offsets, reuse) == 0 {
        return plan.clone();
    }
    let mut pairs: Vec<((usize, usize), u64)> = reuse.iter().map(|(p, c)| (*p, *c)).collect();
    pairs.retain(|((a, b), cost)| *cost > 0 && a != b && !problem.graph().has(*a, *b));
    pairs.sort_by_key(|(pair, cost)| (std::cmp::Reverse(*cost), *pair));
    let mut search = Search {
        problem,
        capacity,
        reuse,
        best: plan.clone(),
    };
    let all = |count: usize| pairs[..count].iter().map(|(pair, _)| *pair);
    let (mut low, mut high) = (0, pairs.len() + 1);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match search.without(all(middle)) {
            true => low = middle,
            false => high = middle,
        }
    }
    let mut kept: Vec<(usize, usize)> = all(low).collect();
    let rest = pairs[low..].iter().map(|(pair, _)| *pair);
    let mut tried = 0;
    for pair in rest.collect::<Vec<_>>() {
        if tried == SINGLE || !search.shares(pair) {
            continue;
        }
        tried += 1;
        if search.without(kept.iter().copied().chain([pair])) {
            kept.push(pair);
        }
    }
    search.lowest(&kept);
    search.best
}

struct Search<'p> {
    problem: &'p Problem,
    capacity: u64,
    reuse: &'p Reuse,
    best: Plan,
}

impl Search<'_> {
    fn shares(&self, (a, b): (usize, usize)) -> bool {
        let (at, of) = (&self.best.offsets, &self.problem.buffers);
        at[a] < at[b] + of[b].size && at[b] < at[a] + of[a].size
    }

    /// The problem in which these pairs live at the same time, too.
    fn harder(&self, pairs: impl Iterator<Item = (usize, usize)>) -> Option<Problem> {
        let graph = self.problem.graph();
        let edges = graph.edges().chain(pairs);
        let graph = Interference::from_edges(graph.len(), edges);
        // Groups are in the graph already.
        let mut buffers = self.problem.buffers.clone();
        buffers.iter_mut().for_each(|buffer| buffer.group = None);
        Problem::from_graph(buffers, graph).ok()
    }

    /// Looks for a plan without these pairs; whether one fits.
    fn without(&mut self, pairs: impl Iterator<Item = (usize, usize)>) -> bool {
        let options = Options {
            enough: self.capacity,
            steps: STEPS,
            ..Options::default()
        };
        let found = self.harder(pairs).map(|harder| solve(&harder, &options));
        let Some(found) = found.filter(|found| found.plan.height <= self.capacity) else {
            return false;
        };
        self.offer(found.plan.offsets);
        true
    }

    /// Looks for the lowest plan without these pairs.
    fn lowest(&mut self, pairs: &[(usize, usize)]) {
        let options = Options {
            steps: STEPS,
            ..Options::default()
        };
        let harder = self.harder(pairs.iter().copied());
        if let Some(found) = harder.map(|harder| solve(&harder, &options)) {
            self.offer(found.plan.offsets);
        }
    }

    fn offer(&mut self, offsets: Vec<u64>) {
        let height = Plan::sized(self.problem, &offsets);
        let inside = self.problem.buffers.iter().zip(&offsets);
        let mut inside = inside.filter_map(|(b, at)| Some((b.within.as_ref()?, at + b.size)));
        if height > self.capacity || !inside.all(|(within, end)| end <= within.end) {
            return;
        }
        let rank =
            |offsets: &[u64], height| (reuse_cost(self.problem, offsets, self.reuse), height);
        if rank(&offsets, height) < rank(&self.best.offsets, self.best.height) {
            let proved = self.best.proved;
            let new = Plan::new(self.problem, offsets, "reuse that waits", Vec::new());
            self.best = Plan { proved, ..new };
        }
    }
}

#[cfg(test)]
// A buffer that lives once.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use crate::{Buffer, Order, check, first_fit};

    /// One behind the other in time, all of one size.
    fn chain(count: u64) -> Problem {
        let buffers = (0..count).map(|i| Buffer::new(&format!("b{i}"), 64));
        let lives = (0..count).map(|i| vec![i..i + 1]);
        Problem::from_lives(buffers.collect(), lives.collect()).unwrap()
    }

    #[test]
    fn the_dearest_pairs_get_the_spare_bytes() {
        let problem = chain(4);
        let reuse = Reuse::from([((0, 1), 5), ((1, 2), 9), ((2, 3), 1), ((0, 2), 3)]);
        let plain = first_fit(&problem, Order::Size);
        assert_eq!(reuse_cost(&problem, &plain.offsets, &reuse), 18);
        // Two places: 1 and 2 apart, 0 beside 2 (3) and not beside 1 (5); 3 beside 1.
        let two = apart_in_time(&problem, &plain, 128, &reuse);
        assert_eq!(reuse_cost(&problem, &two.offsets, &reuse), 3);
        let three = apart_in_time(&problem, &plain, 4096, &reuse);
        assert_eq!(reuse_cost(&problem, &three.offsets, &reuse), 0);
        // No more bytes than that needs: three places.
        assert_eq!(three.height, 192);
        assert_eq!(apart_in_time(&problem, &plain, 64, &reuse), plain);
    }

    #[test]
    fn plans_stay_valid_and_do_not_cost_more() {
        let mut random = crate::random::Random::new(7);
        for _ in 0..200 {
            let count = 2 + random.below(12);
            let mut lives = Vec::new();
            let mut buffers = Vec::new();
            for i in 0..count {
                let from = random.below(20) as u64;
                lives.push(vec![from..from + 1 + random.below(6) as u64]);
                buffers.push(Buffer::new(
                    &format!("b{i}"),
                    16 * (1 + random.below(8) as u64),
                ));
            }
            let problem = Problem::from_lives(buffers, lives).unwrap();
            let mut reuse = Reuse::new();
            for a in 0..count {
                for b in a + 1..count {
                    if !problem.graph().has(a, b) && random.below(2) == 0 {
                        reuse.insert((a, b), random.below(100) as u64);
                    }
                }
            }
            let plain = first_fit(&problem, Order::Size);
            let capacity = plain.height + random.below(200) as u64;
            let moved = apart_in_time(&problem, &plain, capacity, &reuse);
            assert!(check(&problem, &moved.offsets, capacity).is_empty());
            let cost = |plan: &Plan| reuse_cost(&problem, &plan.offsets, &reuse);
            assert!(cost(&moved) <= cost(&plain));
        }
    }
}
