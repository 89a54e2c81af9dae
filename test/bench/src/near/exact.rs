//! The fewest bytes that any choice of what stays near moves: which buffers of far memory stay from their first
//! transfer to their last, each as a whole at an address of its own.
//!
//! Tiles in work take nothing, so no program that keeps whole tensors moves less. The search is exact: from the first
//! time to the last it follows all sets of buffers that are held, of equal ones the one that saves most.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use tir_packing::{Buffer, Live, Options, Problem, solve};

/// Sets that are followed at the same time at most; beyond, there is no answer.
const STATES: usize = 200_000;

/// A buffer that may stay.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Times of its first transfer and its last.
    pub(crate) life: RangeInclusive<u64>,
    /// Bytes that it takes, and that need not move if it stays.
    pub(crate) bytes: u64,
    pub(crate) saved: u64,
}

/// What the best choice saves, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Best {
    pub(crate) saved: u64,
    /// Whether its buffers have places; if not, no choice saves more, but this one may not be possible.
    pub(crate) placed: bool,
}

/// The choice that saves most within a capacity; `None` where too many sets would have to be followed.
pub(crate) fn best(items: &[Item], capacity: u64) -> Option<Best> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|i| *items[*i].life.start());
    // By what is held: what is saved, and all that stays.
    let mut states: HashMap<Vec<usize>, (u64, Vec<usize>)> =
        HashMap::from([(Vec::new(), (0, Vec::new()))]);
    for i in order {
        let now = *items[i].life.start();
        let mut next: HashMap<Vec<usize>, (u64, Vec<usize>)> = HashMap::new();
        let mut add = |held: Vec<usize>, saved: u64, all: Vec<usize>| {
            let better = next.get(&held).is_none_or(|(old, _)| *old < saved);
            if better {
                next.insert(held, (saved, all));
            }
        };
        for (mut held, (saved, all)) in states {
            held.retain(|j| *items[*j].life.end() >= now);
            let taken: u64 = held.iter().map(|j| items[*j].bytes).sum();
            if taken + items[i].bytes <= capacity {
                let (mut held, mut all) = (held.clone(), all.clone());
                held.push(i);
                held.sort_unstable();
                all.push(i);
                add(held, saved + items[i].saved, all);
            }
            add(held, saved, all);
        }
        if next.len() > STATES {
            return None;
        }
        states = next;
    }
    let mut found: Vec<(u64, Vec<usize>)> = states.into_values().collect();
    found.sort();
    let (saved, all) = found.pop()?;
    Some(Best {
        saved,
        placed: placed(items, &all, capacity),
    })
}

/// Whether buffers have places within a capacity.
fn placed(items: &[Item], which: &[usize], capacity: u64) -> bool {
    let buffer = |i: &usize| Buffer::new(&i.to_string(), items[*i].bytes);
    let lives = which.iter().map(|i| {
        let life = &items[*i].life;
        std::iter::once(*life.start()..*life.end() + 1).collect::<Live>()
    });
    let problem = Problem::from_lives(which.iter().map(buffer).collect(), lives.collect());
    let options = Options {
        enough: capacity,
        ..Options::default()
    };
    problem.is_ok_and(|problem| solve(&problem, &options).plan.height <= capacity)
}

#[cfg(test)]
mod tests {
    use super::{Best, Item, best};

    fn item(life: std::ops::RangeInclusive<u64>, bytes: u64, saved: u64) -> Item {
        Item { life, bytes, saved }
    }

    #[test]
    fn is_the_best_of_all_sets() {
        let mut random = tir_data::Random::new(3);
        let mut next = |below: u64| (random.next_u64() >> 33) % below;
        for _ in 0..200 {
            let items: Vec<Item> = (0..8)
                .map(|_| {
                    let start = next(10);
                    item(start..=start + next(5), 1 + next(9), next(20))
                })
                .collect();
            let capacity = 8 + next(8);
            let fits = |set: u32| {
                (0..16).all(|time| {
                    let live = (0..8).filter(|i| set >> i & 1 == 1);
                    let live = live.filter(|i| items[*i].life.contains(&time));
                    live.map(|i| items[i].bytes).sum::<u64>() <= capacity
                })
            };
            let saved = |set: u32| -> u64 {
                let own = (0..8).filter(|i| set >> i & 1 == 1);
                own.map(|i| items[i].saved).sum()
            };
            let most = (0..256).filter(|set| fits(*set)).map(saved).max();
            assert_eq!(best(&items, capacity).map(|best| best.saved), most);
        }
    }

    #[test]
    fn two_that_do_not_fit_together() {
        let items = [item(0..=4, 6, 10), item(2..=6, 6, 11), item(5..=9, 6, 2)];
        let placed = true;
        assert_eq!(best(&items, 10), Some(Best { saved: 12, placed }));
        assert_eq!(best(&items, 12), Some(Best { saved: 23, placed }));
    }
}
