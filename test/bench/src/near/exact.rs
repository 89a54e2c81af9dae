//! The fewest bytes that any choice of what stays near moves: which buffers of far memory stay from the first nest that
//! touches them to the last one, each as a whole at an address of its own.
//!
//! Nests move what they move with the near memory that is left to them: what each moves was measured for several sizes, and
//! counts as with the next larger one; a buffer that is not found again with a smaller one counts as nothing there. What stays and a nest touches takes no room from its tiles, as if it lay in their place. So
//! both are less than what a program that keeps whole tensors moves, as far as nests are tiled as they were measured. The search is
//! exact: from the first nest to the last it follows all sets of buffers that are held, of equal ones the one that moves least.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::path::Path;

use tir::{Ir, Loc};
use tir_packing::{Buffer, Live, Options, Problem, solve};

use super::{Accesses, resized, without};

/// Sets that are followed at the same time at most; beyond, there is no answer.
const STATES: usize = 200_000;

/// Sizes of near memory with which nests are measured: so many equal parts of all of it.
const PARTS: u64 = 8;

/// A buffer that may stay.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The first nest that touches it, and the last one.
    pub(crate) life: RangeInclusive<usize>,
    /// Bytes that it takes, and that move if it stays.
    pub(crate) bytes: u64,
    pub(crate) once: u64,
}

/// What a nest moves with so many bytes of near memory.
#[derive(Clone, Debug)]
pub(crate) struct Moves {
    pub(crate) room: u64,
    /// Of each item, and of all else.
    pub(crate) items: Vec<u64>,
    pub(crate) other: u64,
}

/// What may stay, and what each nest moves, with more and more room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    pub(crate) items: Vec<Item>,
    pub(crate) nests: Vec<Vec<Moves>>,
}

/// What the best choice moves, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Best {
    pub(crate) moved: u64,
    /// Whether its buffers have places; if not, no choice moves less, but this one may not be possible.
    pub(crate) placed: bool,
}

/// A buffer by where it is touched first, whether that writes it, its bytes, and how many such buffers are before it.
type Key = (Loc, bool, u64, usize);

/// Bytes of each buffer that each nest moves: nests are told apart by their place in the network.
type ByNest = HashMap<(Loc, Key), u64>;

/// By the items that are held, the bytes that have moved and all items that stay: those that move least.
type States = HashMap<Vec<usize>, (u64, Vec<usize>)>;

/// The key of each buffer that is touched.
fn keys(accesses: &Accesses) -> HashMap<usize, Key> {
    let (mut keys, mut seen) = (HashMap::new(), HashMap::new());
    for access in &accesses.all {
        keys.entry(access.buffer).or_insert_with(|| {
            let size = accesses.sizes[access.buffer];
            let before = seen.entry((access.loc, access.write, size)).or_insert(0);
            *before += 1;
            (access.loc, access.write, size, *before)
        });
    }
    keys
}

fn by_nest(accesses: &Accesses, keys: &HashMap<usize, Key>) -> ByNest {
    let mut moved = ByNest::new();
    for (number, access) in accesses.all.iter().enumerate() {
        let of = (access.loc, keys[&access.buffer]);
        *moved.entry(of).or_default() += accesses.bytes(&[number]);
    }
    moved
}

impl Choice {
    /// What may stay of a network, of which accesses with so many bytes of near memory are given.
    pub(super) fn of(network: &Ir, machine: &Path, accesses: &Accesses, capacity: u64) -> Self {
        let mut nests: Vec<Loc> = Vec::new();
        for access in accesses.all.iter().rev() {
            if !nests.contains(&access.loc) {
                nests.push(access.loc);
            }
        }
        // In the order in which they end.
        nests.reverse();
        let own = keys(accesses);
        let whole = by_nest(accesses, &own);
        let mut sizes: Vec<(u64, ByNest)> = Vec::new();
        for part in 1..PARTS {
            let room = capacity * part / PARTS;
            let smaller = resized(machine, room >> 10).and_then(|file| {
                let found = Accesses::of(network, &file, without());
                let _ = std::fs::remove_file(&file);
                found
            });
            // Where nests have no room, they count with the next size with which they have.
            sizes.extend(
                smaller
                    .ok()
                    .map(|smaller| (room, by_nest(&smaller, &keys(&smaller)))),
            );
        }
        sizes.push((capacity, whole.clone()));
        let mut touched: Vec<(Key, RangeInclusive<usize>)> = Vec::new();
        for (number, nest) in nests.iter().enumerate() {
            let mut own: Vec<Key> = whole.keys().filter(|k| k.0 == *nest).map(|k| k.1).collect();
            own.sort_unstable_by_key(|(_, write, size, number)| (*write, *size, *number));
            for key in own {
                match touched.iter_mut().find(|(other, _)| *other == key) {
                    Some((_, life)) => *life = *life.start()..=number,
                    None => touched.push((key, number..=number)),
                }
            }
        }
        let between = accesses.buffers().into_iter();
        let between = between.filter(|(_, which)| accesses.is_between(which));
        let between: HashSet<Key> = between.map(|(buffer, _)| own[&buffer]).collect();
        let items = touched.into_iter().filter_map(|(key, life)| {
            let moved: u64 = nests
                .iter()
                .filter_map(|nest| whole.get(&(*nest, key)))
                .sum();
            let once = if between.contains(&key) {
                0
            } else {
                key.2.min(moved)
            };
            let bytes = key.2;
            // What nests load more often where they have less room may stay, too.
            let more = sizes.iter().any(|(_, by)| {
                let all = nests.iter().filter_map(|nest| by.get(&(*nest, key)));
                all.sum::<u64>() > once
            });
            more.then_some((key, Item { life, bytes, once }))
        });
        let items: Vec<(Key, Item)> = items.collect();
        let moves = |nest: &Loc, (room, by): &(u64, ByNest)| {
            let of = |key: &Key| by.get(&(*nest, *key)).copied().unwrap_or(0);
            let own: Vec<u64> = items.iter().map(|(key, _)| of(key)).collect();
            let all: u64 = by
                .iter()
                .filter(|((l, _), _)| l == nest)
                .map(|(_, b)| b)
                .sum();
            Moves {
                room: *room,
                other: all - own.iter().sum::<u64>(),
                items: own,
            }
        };
        let of_nest = |nest: &Loc| sizes.iter().map(|size| moves(nest, size)).collect();
        let measured = nests.iter().map(of_nest).collect();
        Self {
            nests: measured,
            items: items.into_iter().map(|(_, item)| item).collect(),
        }
    }

    /// What a nest moves while these are held.
    fn moved(&self, nest: usize, held: &[usize], capacity: u64) -> u64 {
        let sizes = &self.nests[nest];
        let Some(most) = sizes.last() else { return 0 };
        let apart = held.iter().filter(|i| most.items[**i] == 0);
        let taken: u64 = apart.map(|i| self.items[*i].bytes).sum();
        let free = capacity.saturating_sub(taken);
        let moves = sizes
            .iter()
            .find(|moves| moves.room >= free)
            .unwrap_or(most);
        let far = moves.items.iter().enumerate();
        let far = far
            .filter(|(i, _)| !held.contains(i))
            .map(|(_, bytes)| bytes);
        let begins = held
            .iter()
            .filter(|i| *self.items[**i].life.start() == nest);
        far.sum::<u64>() + moves.other + begins.map(|i| self.items[*i].once).sum::<u64>()
    }

    /// The choice that moves least within a capacity; `None` where too many sets would have to be followed.
    pub(crate) fn best(&self, capacity: u64) -> Option<Best> {
        let mut states = States::from([(Vec::new(), (0, Vec::new()))]);
        for nest in 0..self.nests.len() {
            let ended = |i: &usize| *self.items[*i].life.end() < nest;
            let mut kept = States::new();
            for (mut held, old) in states {
                held.retain(|i| !ended(i));
                less(&mut kept, held, old);
            }
            states = kept;
            let begins = |i: &usize| *self.items[*i].life.start() == nest;
            for item in (0..self.items.len()).filter(begins) {
                let more = states.iter().filter_map(|(held, (moved, all))| {
                    let taken: u64 = held.iter().map(|i| self.items[*i].bytes).sum();
                    let fits = taken + self.items[item].bytes <= capacity;
                    let with = |old: &[usize]| old.iter().copied().chain([item]).collect();
                    fits.then(|| (with(held), (*moved, with(all))))
                });
                let more: States = more.collect();
                states.extend(more);
                if states.len() > STATES {
                    return None;
                }
            }
            for (held, (moved, _)) in &mut states {
                *moved += self.moved(nest, held, capacity);
            }
        }
        let mut found: Vec<(u64, Vec<usize>)> = states.into_values().collect();
        found.sort();
        let (moved, all) = found.into_iter().next()?;
        let placed = self.placed(&all, capacity);
        Some(Best { moved, placed })
    }

    /// Whether buffers have places within a capacity.
    fn placed(&self, which: &[usize], capacity: u64) -> bool {
        let buffer = |i: &usize| Buffer::new(&i.to_string(), self.items[*i].bytes);
        let lives = which.iter().map(|i| {
            let life = &self.items[*i].life;
            std::iter::once(*life.start() as u64..*life.end() as u64 + 1).collect::<Live>()
        });
        let problem = Problem::from_lives(which.iter().map(buffer).collect(), lives.collect());
        let options = Options {
            enough: capacity,
            ..Options::default()
        };
        problem.is_ok_and(|problem| solve(&problem, &options).plan.height <= capacity)
    }
}

/// Keeps of two with the same held the one that has moved less.
fn less(states: &mut States, held: Vec<usize>, new: (u64, Vec<usize>)) {
    let old = states.entry(held).or_insert_with(|| new.clone());
    if new < *old {
        *old = new;
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Item, Moves};

    /// Some nests that each touch some items and move more of them with less room.
    fn random(random: &mut tir_data::Random) -> Choice {
        let mut next = |below: u64| (random.next_u64() >> 33) % below;
        let items = (0..7).map(|_| {
            let start = next(5) as usize;
            Item {
                life: start..=start + next(3) as usize,
                bytes: 1 + next(9),
                once: next(3),
            }
        });
        let items: Vec<Item> = items.collect();
        let nests = (0..8).map(|nest| {
            let touches = |item: &Item| {
                let ends = [*item.life.start(), *item.life.end()];
                ends.contains(&nest)
            };
            let most: Vec<u64> = items
                .iter()
                .map(|item| if touches(item) { 3 + next(9) } else { 0 })
                .collect();
            let sizes = [4, 8, 12, 16].map(|room| Moves {
                room,
                items: most.iter().map(|most| most * (20 - room) / 4).collect(),
                other: 16 - room,
            });
            sizes.to_vec()
        });
        Choice {
            nests: nests.collect(),
            items: items.clone(),
        }
    }

    #[test]
    fn is_the_best_of_all_sets() {
        let mut seed = tir_data::Random::new(3);
        for _ in 0..100 {
            let choice = random(&mut seed);
            let capacity = 16;
            let within = |set: u32, nest: usize| -> Vec<usize> {
                let chosen = (0..choice.items.len()).filter(|i| set >> i & 1 == 1);
                chosen
                    .filter(|i| choice.items[*i].life.contains(&nest))
                    .collect()
            };
            let moved = |set: u32| -> Option<u64> {
                let mut all = 0;
                for (nest, sizes) in choice.nests.iter().enumerate() {
                    let held = within(set, nest);
                    let taken: u64 = held.iter().map(|i| choice.items[*i].bytes).sum();
                    let own = |i: &usize| sizes[0].items[*i] > 0;
                    let apart = held.iter().filter(|i| !own(i));
                    let free = capacity
                        - apart
                            .map(|i| choice.items[*i].bytes)
                            .sum::<u64>()
                            .min(capacity);
                    let level = (free.max(1).div_ceil(4) as usize).min(4) - 1;
                    for i in 0..choice.items.len() {
                        let begins = *choice.items[i].life.start() == nest;
                        all += match held.contains(&i) {
                            true => u64::from(begins) * choice.items[i].once,
                            false => sizes[level].items[i],
                        };
                    }
                    all += sizes[level].other;
                    if taken > capacity {
                        return None;
                    }
                }
                Some(all)
            };
            let least = (0..1 << choice.items.len()).filter_map(moved).min();
            assert_eq!(choice.best(capacity).map(|best| best.moved), least);
        }
    }

    #[test]
    fn a_nest_that_has_less_room_moves_more() {
        // What is held from the first nest to the third takes the room of the second.
        let moves = |room: u64, own: u64, other: u64| Moves {
            room,
            items: vec![own],
            other,
        };
        let choice = |other: u64| Choice {
            items: vec![Item {
                life: 0..=2,
                bytes: 6,
                once: 0,
            }],
            nests: vec![
                vec![moves(4, 6, 0), moves(10, 6, 0)],
                vec![moves(4, 0, other), moves(10, 0, 1)],
                vec![moves(4, 6, 0), moves(10, 6, 0)],
            ],
        };
        assert_eq!(choice(5).best(10).map(|best| best.moved), Some(5));
        assert_eq!(choice(20).best(10).map(|best| best.moved), Some(13));
    }
}
