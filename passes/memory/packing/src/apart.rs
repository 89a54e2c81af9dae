//! Buffers that are used at the same time in different banks.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::first_fit::lowest;
use crate::plan::{Plan, align_up};
use crate::problem::Problem;

/// How much it costs if two buffers share a bank, the lower number first; of a buffer and itself, if its two
/// halves do.
pub type Conflicts = BTreeMap<(usize, usize), u64>;

/// The banks of a range of bytes; none of an empty one.
fn banks(from: u64, to: u64, bank: u64) -> Option<RangeInclusive<u64>> {
    (from < to).then(|| from / bank..=(to - 1) / bank)
}

fn share(a: Option<RangeInclusive<u64>>, b: Option<RangeInclusive<u64>>) -> bool {
    let pair = a.zip(b);
    pair.is_some_and(|(a, b)| a.start() <= b.end() && b.start() <= a.end())
}

/// What the conflicts of buffers that are placed cost, in banks of so many bytes.
pub fn cost(problem: &Problem, offsets: &[u64], bank: u64, conflicts: &Conflicts) -> u64 {
    let pairs = conflicts.iter().filter(|((a, b), _)| {
        let whole = |i: usize| banks(offsets[i], offsets[i] + problem.buffers[i].size, bank);
        match a == b {
            true => halves_share(offsets[*a], problem.buffers[*a].size, bank),
            false => share(whole(*a), whole(*b)),
        }
    });
    pairs.fold(0, |sum, (_, cost)| sum.saturating_add(*cost))
}

fn halves_share(offset: u64, size: u64, bank: u64) -> bool {
    let middle = offset + size / 2;
    share(
        banks(offset, middle, bank),
        banks(middle, offset + size, bank),
    )
}

/// A plan within the capacity with few conflicts: buffers of a plan are moved, those with the most conflicts
/// first, each to the place that costs the least, of several to the lowest, until none gains. Places are
/// first fit from the start of each bank, and with the middle of the buffer there.
pub fn apart(
    problem: &Problem,
    plan: &Plan,
    capacity: u64,
    bank: u64,
    conflicts: &Conflicts,
) -> Plan {
    let all = Mover::new(problem, capacity, bank, conflicts);
    // From nothing placed, and from the plan, which fits in any case.
    let starts = [vec![None; plan.offsets.len()], all.placed(&plan.offsets)];
    let found = starts.into_iter().filter_map(|start| all.moved(start));
    let best = found.min_by_key(|offsets| cost(problem, offsets, bank, conflicts));
    match best {
        Some(offsets) if cost(problem, &offsets, bank, conflicts) < all.cost(&plan.offsets) => {
            let partitions = Vec::new();
            Plan::new(problem, offsets, "conflicts of banks", partitions)
        }
        _ => plan.clone(),
    }
}

/// Rounds in which each buffer is moved once.
const ROUNDS: usize = 8;

struct Mover<'a> {
    problem: &'a Problem,
    capacity: u64,
    bank: u64,
    conflicts: &'a Conflicts,
    /// Of each buffer, those that it has conflicts with.
    partners: Vec<Vec<(usize, u64)>>,
    order: Vec<usize>,
}

impl<'a> Mover<'a> {
    fn new(problem: &'a Problem, capacity: u64, bank: u64, conflicts: &'a Conflicts) -> Self {
        let count = problem.buffers.len();
        let mut partners: Vec<Vec<(usize, u64)>> = vec![Vec::new(); count];
        for ((a, b), cost) in conflicts {
            partners[*a].push((*b, *cost));
            if a != b {
                partners[*b].push((*a, *cost));
            }
        }
        let weight = |i: usize| {
            let costs = partners[i].iter().map(|(_, cost)| *cost);
            costs.fold(0, u64::saturating_add)
        };
        let mut order: Vec<usize> = (0..count).collect();
        // What has one place only comes first: nothing else may be there.
        let free = |i: usize| {
            let buffer = &problem.buffers[i];
            let within = buffer.within.as_ref();
            within.is_none_or(|w| w.end - w.start > buffer.size)
        };
        order.sort_by_key(|i| {
            (
                free(*i),
                std::cmp::Reverse((weight(*i), problem.buffers[*i].size)),
                *i,
            )
        });
        Self {
            problem,
            capacity,
            bank,
            conflicts,
            partners,
            order,
        }
    }

    fn placed(&self, offsets: &[u64]) -> Vec<Option<u64>> {
        offsets.iter().copied().map(Some).collect()
    }

    fn cost(&self, offsets: &[u64]) -> u64 {
        cost(self.problem, offsets, self.bank, self.conflicts)
    }

    /// What a buffer adds at an offset.
    fn adds(&self, i: usize, low: u64, placed: &[Option<u64>]) -> u64 {
        let size = self.problem.buffers[i].size;
        let here = banks(low, low + size, self.bank);
        let costs = self.partners[i]
            .iter()
            .filter(|(other, _)| match *other == i {
                true => halves_share(low, size, self.bank),
                false => placed[*other].is_some_and(|at| {
                    let size = self.problem.buffers[*other].size;
                    share(here.clone(), banks(at, at + size, self.bank))
                }),
            });
        costs.fold(0, |sum: u64, (_, cost)| sum.saturating_add(*cost))
    }

    /// Moves buffers until none gains; `None` if one finds no place.
    fn moved(&self, mut placed: Vec<Option<u64>>) -> Option<Vec<u64>> {
        for _ in 0..ROUNDS {
            let mut gained = false;
            for &i in &self.order {
                let best = self.best(i, &placed);
                let before = placed[i].map(|at| (self.adds(i, at, &placed), at));
                if best.is_some() && (before.is_none() || best < before) {
                    gained |= before.is_none() || best.map(|b| b.0) < before.map(|b| b.0);
                    placed[i] = best.map(|(_, at)| at);
                }
                placed[i]?;
            }
            if !gained {
                break;
            }
        }
        placed.into_iter().collect()
    }

    /// The place of a buffer that costs the least, beside the others.
    fn best(&self, i: usize, placed: &[Option<u64>]) -> Option<(u64, u64)> {
        let (buffer, buffers) = (&self.problem.buffers[i], &self.problem.buffers);
        let near = self.problem.graph().neighbours(i).filter(|n| *n != i);
        let near = near.filter_map(|n| Some((placed[n]?, placed[n]? + buffers[n].size)));
        let mut taken: Vec<(u64, u64)> = near.collect();
        taken.sort_unstable();
        let starts = (0..self.capacity.div_ceil(self.bank)).map(|at| at * self.bank);
        let middles = starts.clone().map(|at| at.saturating_sub(buffer.size / 2));
        let fit = |from: u64| lowest(buffer, &taken, align_up(from, buffer.align));
        let places = starts.chain(middles).map(fit);
        let end = buffer
            .within
            .as_ref()
            .map_or(self.capacity, |w| w.end.min(self.capacity));
        let begin = crate::first_fit::start(buffer);
        let places = places.filter(|low| begin <= *low && low + buffer.size <= end);
        places.map(|low| (self.adds(i, low, placed), low)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Order, check, first_fit};

    #[test]
    fn what_is_used_together_lies_in_different_banks() {
        let buffers = [96, 64, 64, 32].map(|size| Buffer {
            align: 16,
            ..Buffer::new("b", size)
        });
        let lives = vec![vec![0..4]; 4];
        let problem = Problem::from_lives(buffers.to_vec(), lives).unwrap();
        // Of the first one both halves are used at the same time.
        let conflicts = Conflicts::from([((0, 0), 8), ((1, 2), 2), ((1, 3), 1)]);
        let plain = first_fit(&problem, Order::Size);
        let moved = apart(&problem, &plain, 512, 128, &conflicts);
        assert_eq!(cost(&problem, &moved.offsets, 128, &conflicts), 0);
        assert!(check(&problem, &moved.offsets, 512).is_empty());
        // In one bank all of it costs, and the plan stays.
        let tight = apart(&problem, &plain, 256, 256, &conflicts);
        assert_eq!(cost(&problem, &tight.offsets, 256, &conflicts), 11);
        assert_eq!(tight, plain);
    }
}
