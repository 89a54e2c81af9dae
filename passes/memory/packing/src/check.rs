//! The judge of plans. It shares no code with the planners: it reads the live intervals and groups
//! as they were given (or the edges, when there are no intervals) and sweeps over them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::problem::{Live, Problem};

/// Something wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The plan has another number of offsets than there are buffers.
    Count {
        /// Number of offsets.
        offsets: usize,
        /// Number of buffers.
        buffers: usize,
    },
    /// Two buffers that live at the same time share bytes.
    Overlap {
        /// The first buffer.
        a: String,
        /// The second buffer.
        b: String,
        /// First common byte.
        from: u64,
        /// The byte after the last common one.
        to: u64,
    },
    /// An offset is not a multiple of the buffer's alignment.
    Misaligned {
        /// The buffer.
        name: String,
        /// Its offset.
        offset: u64,
        /// Its alignment.
        align: u64,
    },
    /// A buffer lies outside of the bytes in which it must.
    Outside {
        /// The buffer.
        name: String,
        /// Its offset.
        offset: u64,
    },
    /// A buffer ends beyond the capacity.
    Beyond {
        /// The buffer.
        name: String,
        /// Its end.
        end: u64,
        /// The capacity.
        capacity: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Violation::Count { offsets, buffers } => {
                write!(f, "{offsets} offsets for {buffers} buffers")
            }
            Violation::Overlap { a, b, from, to } => {
                write!(
                    f,
                    "{a} and {b} live at the same time and share bytes {from}..{to}"
                )
            }
            Violation::Misaligned {
                name,
                offset,
                align,
            } => {
                write!(
                    f,
                    "{name} lies at offset {offset}, expected a multiple of {align}"
                )
            }
            Violation::Outside { name, offset } => {
                write!(
                    f,
                    "{name} lies at offset {offset}, outside of where it must lie"
                )
            }
            Violation::Beyond {
                name,
                end,
                capacity,
            } => {
                write!(
                    f,
                    "{name} ends at {end}, beyond the {capacity} bytes there are"
                )
            }
        }
    }
}

/// Overlaps that [`check`] lists at most; a plan with more is not looked at to the end.
pub const OVERLAPS: usize = 10_000;

/// All that is wrong with offsets for a problem in a space of `capacity` bytes, of overlaps at most [`OVERLAPS`].
///
/// With live intervals it sweeps over time with the buffers that live in a tree by offset: n intervals take n log n steps, and
/// as many more as there are overlaps.
pub fn check(problem: &Problem, offsets: &[u64], capacity: u64) -> Vec<Violation> {
    let buffers = problem.buffers();
    if offsets.len() != buffers.len() {
        return vec![Violation::Count {
            offsets: offsets.len(),
            buffers: buffers.len(),
        }];
    }
    let mut out = Vec::new();
    let ends: Vec<u64> = buffers
        .iter()
        .zip(offsets)
        .map(|(b, offset)| offset.saturating_add(b.size))
        .collect();
    for (i, (b, &offset)) in buffers.iter().zip(offsets).enumerate() {
        if offset % b.align != 0 {
            out.push(Violation::Misaligned {
                name: b.name.clone(),
                offset,
                align: b.align,
            });
        }
        let end = ends[i];
        let inside = |w: &std::ops::Range<u64>| w.start <= offset && end <= w.end;
        if !b.within.as_ref().is_none_or(inside) {
            out.push(Violation::Outside {
                name: b.name.clone(),
                offset,
            });
        }
        if end > capacity {
            out.push(Violation::Beyond {
                name: b.name.clone(),
                end,
                capacity,
            });
        }
    }
    let pairs = match &problem.lives {
        Some(lives) => over_time(problem, lives, offsets, &ends),
        None => over_bytes(problem, offsets, &ends),
    };
    out.extend(pairs.into_iter().map(|(i, j)| Violation::Overlap {
        a: buffers[i].name.clone(),
        b: buffers[j].name.clone(),
        from: offsets[i].max(offsets[j]),
        to: ends[i].min(ends[j]),
    }));
    out
}

/// Pairs that share bytes at a time, the lower number first.
fn over_time(
    problem: &Problem,
    lives: &[Live],
    offsets: &[u64],
    ends: &[u64],
) -> BTreeSet<(usize, usize)> {
    // All members of a group live while one of them does.
    let mut kin: Vec<Vec<usize>> = Vec::new();
    let mut groups: BTreeMap<u32, usize> = BTreeMap::new();
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (i, (b, live)) in problem.buffers().iter().zip(lives).enumerate() {
        let class = match b.group {
            Some(group) => *groups.entry(group).or_insert(kin.len()),
            None => kin.len(),
        };
        if class == kin.len() {
            kin.push(Vec::new());
        }
        if offsets[i] < ends[i] {
            kin[class].push(i);
        }
        for l in live.iter().filter(|l| l.start < l.end) {
            events.extend([(l.start, true, class), (l.end, false, class)]);
        }
    }
    // What ends at a time is gone before what starts then comes.
    events.sort_unstable();
    let mut now = Occupied::new(offsets);
    let mut alive = vec![0usize; kin.len()];
    let mut pairs = BTreeSet::new();
    for (_, starts, class) in events {
        if starts {
            alive[class] += 1;
        } else {
            alive[class] -= 1;
        }
        if alive[class] != usize::from(starts) {
            continue;
        }
        for &i in &kin[class] {
            if starts {
                now.across(offsets[i], ends[i], &mut |j| {
                    pairs.insert((i.min(j), i.max(j)));
                    pairs.len() < OVERLAPS
                });
                if pairs.len() >= OVERLAPS {
                    return pairs;
                }
            }
            now.set(i, if starts { ends[i] } else { 0 });
        }
    }
    pairs
}

/// The buffers that live now, in the order of their offsets, below a tree that knows the highest end of each part.
struct Occupied<'a> {
    offsets: &'a [u64],
    /// Buffers by offset, and the place of each in that order.
    order: Vec<usize>,
    place: Vec<usize>,
    /// The highest end below each node; leaves are the second half.
    highest: Vec<u64>,
}

impl<'a> Occupied<'a> {
    fn new(offsets: &'a [u64]) -> Self {
        let mut order: Vec<usize> = (0..offsets.len()).collect();
        order.sort_by_key(|&i| offsets[i]);
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &i)| place[i] = at);
        let leaves = order.len().next_power_of_two();
        Occupied {
            offsets,
            order,
            place,
            highest: vec![0; 2 * leaves],
        }
    }

    /// Sets where a buffer ends, 0 if it does not live.
    fn set(&mut self, i: usize, end: u64) {
        let mut node = self.highest.len() / 2 + self.place[i];
        self.highest[node] = end;
        while node > 1 {
            node /= 2;
            self.highest[node] = self.highest[2 * node].max(self.highest[2 * node + 1]);
        }
    }

    /// Calls for every buffer that has bytes of `from..to`, until it returns false.
    fn across(&self, from: u64, to: u64, each: &mut dyn FnMut(usize) -> bool) {
        let leaves = self.highest.len() / 2;
        let until = self.order.partition_point(|&i| self.offsets[i] < to);
        let mut open = vec![(1, 0, leaves)];
        while let Some((node, first, count)) = open.pop() {
            if first >= until || self.highest[node] <= from {
                continue;
            }
            if count > 1 {
                let half = count / 2;
                open.push((2 * node + 1, first + half, half));
                open.push((2 * node, first, half));
            } else if !each(self.order[first]) {
                return;
            }
        }
    }
}

/// Pairs with an edge that share bytes, the lower number first: a sweep over bytes.
fn over_bytes(problem: &Problem, offsets: &[u64], ends: &[u64]) -> BTreeSet<(usize, usize)> {
    let mut order: Vec<usize> = (0..offsets.len())
        .filter(|&i| offsets[i] < ends[i])
        .collect();
    order.sort_by_key(|&i| offsets[i]);
    let (mut pairs, mut open) = (BTreeSet::new(), Vec::<usize>::new());
    for i in order {
        open.retain(|&j| ends[j] > offsets[i]);
        let hit = open.iter().filter(|&&j| problem.graph().has(i, j));
        pairs.extend(hit.map(|&j| (i.min(j), i.max(j))));
        if pairs.len() >= OVERLAPS {
            return pairs;
        }
        open.push(i);
    }
    pairs
}
