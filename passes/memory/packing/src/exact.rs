//! The exact search: branch and bound over canonical plans of at most some height.
//!
//! **Canonical plans.** Of the plans that fit take one whose offsets have the least sum: no buffer can be moved to a lower place. Sorted
//! by offset, each buffer lies on the highest of those before it that it interferes with, or at the start. So the search places
//! buffers in rising order of offsets, each at that place (`base`), and loses nothing (Moffitt, "MiniMalloc: A
//! Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023, calls such plans canonical too).
//! At a node `floor` is the offset of the buffer that was placed last, `low` what no plan below the node has a buffer lower than.
//!
//! - *Gaps*: none is placed so high that another one still fits below it.
//! - *Support*: a buffer whose `base` is below `floor`, or below `low`, or has been tried, must have another one placed below it, and
//!   lies above the lowest end that a neighbour can have.
//! - *Bounds*: what is left of a set of buffers that live at one time lies above the lowest place of any of them.
//! - *Not first*: a buffer of a set that begins too high for all others of the set to fit above it has one of them below it,
//!   and lies above the lowest end that these can have. This is repeated until nothing rises.
//! - *Equal nodes*: a node is what is left with its places, and `floor` if one of these is lower; one that failed is not searched again.
//! - *Nothing above*: if the lowest of all has nothing above it and the rest fails, no other is tried.
//! - *Equal orders*: two that do not interfere and have the same offset are placed in one order only.
//! - *Parts*: where no buffer that is left spans two times, both sides are searched apart, and the first
//!   that fails ends both.
//!
//! Which buffer is tried first is a [`Rule`]; the search ends after a number of nodes (attempts to place a
//! buffer), and another one begins.

use std::collections::HashSet;

use crate::plan::align_up;
use crate::random::mix;
use crate::sets::Sets;

/// How a search ended.
pub(crate) enum Outcome {
    /// Offsets of the items.
    Found(Vec<u64>),
    /// No plan is as low.
    None,
    /// The limit came first.
    Stopped,
}

/// What is tried first among buffers that can be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The lowest place, then the rank.
    Lowest,
    /// The lowest place, then the set with the fewest bytes to spare.
    LowestTight,
    /// The set with the fewest bytes to spare, then the lowest place.
    Tight,
    /// The rank.
    Rank,
}

/// Nodes that failed, at most.
const REMEMBERED: usize = 1_000_000;

/// A search for a plan of some height.
pub(crate) struct Search<'a> {
    sets: &'a Sets,
    height: u64,
    rule: Rule,
    rank: &'a [u32],
    /// The end of what is placed below each item.
    base: Vec<u64>,
    /// No plan has it lower: at least `base`.
    low: Vec<u64>,
    left: Vec<u64>,
    offsets: Vec<u64>,
    /// Of each set: the bytes that are left, and the lowest place of these.
    bytes: Vec<u64>,
    lowest: Vec<u64>,
    /// Items that are left and lie in sets on both sides of each boundary.
    spanning: Vec<u32>,
    /// Items that must not be placed here: another order has been tried.
    asleep: Vec<u64>,
    /// A neighbour of each item that ends low, or the item.
    witness: Vec<u32>,
    lows: Vec<(u32, u64, u64)>,
    lowests: Vec<(u32, u64)>,
    order: Vec<u32>,
    dirty: Vec<u64>,
    failed: HashSet<u64>,
    nodes: u64,
    limit: u64,
    stopped: bool,
    stop: &'a mut dyn FnMut() -> bool,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        sets: &'a Sets,
        height: u64,
        (rule, rank): (Rule, &'a [u32]),
        limit: u64,
        stop: &'a mut dyn FnMut() -> bool,
    ) -> Self {
        let (count, words) = (sets.len(), sets.words);
        let mut left = vec![0; words];
        (0..count).for_each(|i| left[i / 64] |= 1 << (i % 64));
        let low: Vec<u64> = sets.within.iter().map(|w| w.0).collect();
        let mut search = Search {
            sets,
            height,
            rule,
            rank,
            base: low.clone(),
            low,
            left,
            offsets: vec![0; count],
            bytes: sets.total.clone(),
            lowest: vec![0; sets.total.len()],
            spanning: vec![0; sets.total.len() + 1],
            asleep: vec![u64::MAX; count],
            witness: (0..count as u32).collect(),
            lows: Vec::new(),
            lowests: Vec::new(),
            order: Vec::new(),
            dirty: vec![0; sets.total.len().div_ceil(64)],
            failed: HashSet::new(),
            nodes: 1,
            limit,
            stopped: false,
            stop,
        };
        for i in 0..count {
            search.span(i, 1);
        }
        search
    }

    pub(crate) fn run(mut self) -> (Outcome, u64) {
        let count = self.sets.total.len();
        for s in 0..count {
            self.dirty[s / 64] |= 1 << (s % 64);
        }
        let items: Vec<u32> = (0..self.sets.len() as u32).collect();
        let fits = (0..self.sets.len()).all(|i| self.low[i] <= self.last(i));
        let found = fits && self.settle(0) && self.solve(&items, (0, count), 0);
        let outcome = match (found, self.stopped) {
            (true, _) => Outcome::Found(self.offsets),
            (false, true) => Outcome::Stopped,
            (false, false) => Outcome::None,
        };
        (outcome, self.nodes)
    }

    /// The highest offset that an item may have; it may be too large for any.
    fn last(&self, i: usize) -> u64 {
        let end = self.height.min(self.sets.within[i].1);
        end.saturating_sub(self.sets.size[i])
    }

    fn is_left(&self, i: usize) -> bool {
        self.left[i / 64] >> (i % 64) & 1 == 1
    }

    fn span(&mut self, i: usize, by: i32) {
        let sets = self.sets;
        let of = &sets.of[i];
        if let (Some(first), Some(last)) = (of.first(), of.last()) {
            for s in &mut self.spanning[*first as usize + 1..=*last as usize] {
                *s = s.wrapping_add_signed(by);
            }
        }
    }

    fn mark(&mut self, i: usize) {
        let words = self.dirty.len();
        let of = &self.sets.of_rows[i * words..(i + 1) * words];
        self.dirty.iter_mut().zip(of).for_each(|(d, of)| *d |= of);
    }

    /// Raises the lowest place of an item; whether it still fits.
    fn raise(&mut self, i: usize, to: u64) -> bool {
        self.lows.push((i as u32, self.base[i], self.low[i]));
        self.low[i] = align_up(to, self.sets.align[i]);
        self.mark(i);
        self.low[i] <= self.last(i) && self.sets.size[i] <= self.height
    }

    /// Puts an item above one that is placed; whether it still fits.
    fn lift(&mut self, i: usize, top: u64) -> bool {
        self.lows.push((i as u32, self.base[i], self.low[i]));
        self.base[i] = align_up(top, self.sets.align[i]);
        if self.low[i] < self.base[i] {
            self.low[i] = self.base[i];
            self.mark(i);
        }
        self.low[i] <= self.last(i) && self.sets.size[i] <= self.height
    }

    /// Whether an item may be placed at its lowest place: if not, another one must come below it.
    fn is_ready(&self, i: usize, floor: u64) -> bool {
        let base = self.base[i];
        base >= floor && base == self.low[i] && base != self.asleep[i]
    }

    /// Raises what cannot be placed above the lowest end of its neighbours that are left; whether all may still fit.
    fn stack(&mut self, items: &[u32], floor: u64) -> Option<bool> {
        let (sets, words) = (self.sets, self.sets.words);
        let mut raised = false;
        for i in items.iter().map(|&i| i as usize) {
            if !self.is_left(i) || self.is_ready(i, floor) {
                continue;
            }
            // The neighbour that ended lowest when it was last looked for, most often does still.
            let end = |j: usize| self.low[j].max(floor) + sets.size[j];
            let seen = self.witness[i] as usize;
            if self.is_left(seen) && end(seen) <= self.low[i] {
                continue;
            }
            let mut least = (u64::MAX, i);
            'neighbours: for w in 0..words {
                let mut row = self.left[w] & sets.near[i * words + w];
                while row != 0 {
                    let j = w * 64 + row.trailing_zeros() as usize;
                    row &= row - 1;
                    least = least.min((end(j), j));
                    if least.0 <= self.low[i] {
                        break 'neighbours;
                    }
                }
            }
            self.witness[i] = least.1 as u32;
            if least.0 > self.low[i] {
                if least.0 == u64::MAX || !self.raise(i, least.0) {
                    return None;
                }
                raised = true;
            }
        }
        Some(raised)
    }

    /// Places an item; whether all else may still fit.
    fn place(&mut self, i: usize, at: u64, items: &[u32]) -> bool {
        let (sets, words) = (self.sets, self.sets.words);
        let top = at + sets.size[i];
        self.left[i / 64] &= !(1 << (i % 64));
        self.offsets[i] = at;
        for &s in &sets.of[i] {
            self.bytes[s as usize] -= sets.size[i];
        }
        self.span(i, -1);
        self.dirty.fill(0);
        self.mark(i);
        let mut fits = true;
        for w in 0..words {
            let mut row = self.left[w] & sets.near[i * words + w];
            while row != 0 {
                let j = w * 64 + row.trailing_zeros() as usize;
                row &= row - 1;
                if self.base[j] < top {
                    fits &= self.lift(j, top);
                }
            }
        }
        if !fits {
            return false;
        }
        loop {
            if !self.settle(at) {
                return false;
            }
            match self.stack(items, at) {
                None => return false,
                Some(false) => return true,
                Some(true) => {}
            }
        }
    }

    /// Bounds of the sets that changed, and what rises by them, until nothing does.
    fn settle(&mut self, floor: u64) -> bool {
        let (sets, words) = (self.sets, self.sets.words);
        while let Some(word) = self.dirty.iter().position(|&d| d != 0) {
            let s = word * 64 + self.dirty[word].trailing_zeros() as usize;
            self.dirty[word] &= self.dirty[word] - 1;
            if self.bytes[s] == 0 {
                continue;
            }
            let Some(latest) = self.height.checked_sub(self.bytes[s]) else {
                return false;
            };
            // The lowest place of all, of those that are not first, and the lowest end of the others.
            let (mut lowest, mut late, mut end) = (u64::MAX, u64::MAX, u64::MAX);
            for w in 0..words {
                let mut row = self.left[w] & sets.members[s * words + w];
                while row != 0 {
                    let j = w * 64 + row.trailing_zeros() as usize;
                    row &= row - 1;
                    let low = self.low[j];
                    lowest = lowest.min(low);
                    if low <= latest {
                        end = end.min(low + sets.size[j]);
                    } else {
                        late = late.min(low);
                    }
                }
            }
            if lowest.max(floor) > latest {
                return false;
            }
            if lowest != self.lowest[s] {
                self.lowests.push((s as u32, self.lowest[s]));
                self.lowest[s] = lowest;
            }
            if late >= end {
                continue;
            }
            for w in 0..words {
                let mut row = self.left[w] & sets.members[s * words + w];
                while row != 0 {
                    let j = w * 64 + row.trailing_zeros() as usize;
                    row &= row - 1;
                    if self.low[j] > latest && self.low[j] < end && !self.raise(j, end) {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn undo(&mut self, i: usize, lows: usize, lowests: usize) {
        for (j, base, low) in self.lows.drain(lows..).rev() {
            (self.base[j as usize], self.low[j as usize]) = (base, low);
        }
        for (s, place) in self.lowests.drain(lowests..).rev() {
            self.lowest[s as usize] = place;
        }
        self.take_back(i);
    }

    fn take_back(&mut self, i: usize) {
        self.left[i / 64] |= 1 << (i % 64);
        let sets = self.sets;
        for &s in &sets.of[i] {
            self.bytes[s as usize] += sets.size[i];
        }
        self.span(i, 1);
    }

    /// Searches items that lie in some of the sets: part by part, if they fall into several.
    fn solve(&mut self, items: &[u32], (from, to): (usize, usize), floor: u64) -> bool {
        if (from + 1..to).all(|s| self.spanning[s] > 0) {
            return self.node(items, (from, to), floor);
        }
        let (mut parts, mut begin) = (Vec::new(), from);
        for s in from + 1..=to {
            if s < to && self.spanning[s] > 0 {
                continue;
            }
            let inside = |i: &&u32| {
                let first = self.sets.of[**i as usize]
                    .first()
                    .map_or(0, |s| *s as usize);
                self.is_left(**i as usize) && (begin..s).contains(&first)
            };
            let part: Vec<u32> = items.iter().filter(inside).copied().collect();
            if !part.is_empty() {
                parts.push((part, (begin, s)));
            }
            begin = s;
        }
        parts.sort_by_key(|(part, _)| part.len());
        parts
            .iter()
            .all(|(part, range)| self.node(part, *range, floor))
    }

    fn node(&mut self, items: &[u32], range: (usize, usize), floor: u64) -> bool {
        let Some((key, least, candidates)) = self.candidates(items, range, floor) else {
            return true;
        };
        if self.failed.contains(&key) {
            return false;
        }
        // Items that were tried, when they slept before, and where they would be.
        let (mut found, mut slept) = (false, Vec::<(usize, u64, u64)>::new());
        for (_, _, i) in candidates {
            self.nodes += 1;
            if self.nodes > self.limit || (self.nodes.is_multiple_of(64) && (self.stop)()) {
                self.stopped = true;
                break;
            }
            let i = i as usize;
            let at = self.base[i];
            // Below one that was tried nothing has been: that other order is a different plan.
            for &(j, before, place) in &slept {
                self.asleep[j] = if place <= at { place } else { before };
            }
            let (lows, lowests, order) = (self.lows.len(), self.lowests.len(), self.order.len());
            let fits = self.place(i, at, items);
            let mut covered = true;
            if fits {
                self.order.push(i as u32);
                let words = self.sets.words;
                covered = (0..words).any(|w| self.left[w] & self.sets.near[i * words + w] != 0);
                found = self.solve(items, range, at);
            }
            if found {
                break;
            }
            for j in self.order.split_off(order) {
                if j as usize != i {
                    self.take_back(j as usize);
                }
            }
            self.undo(i, lows, lowests);
            // Nothing is above it, and nothing below: it is not why the rest fails.
            if self.stopped || (fits && !covered && at <= least) {
                break;
            }
            slept.push((i, self.asleep[i], at));
        }
        for (i, before, _) in slept.into_iter().rev() {
            self.asleep[i] = before;
        }
        if !found && !self.stopped && self.failed.len() < REMEMBERED {
            self.failed.insert(key);
        }
        found
    }

    /// What may be placed next, in the order of the rule, the lowest place of all, and the key of the node; none if nothing is
    /// left.
    #[allow(clippy::type_complexity)]
    fn candidates(
        &self,
        items: &[u32],
        (from, to): (usize, usize),
        floor: u64,
    ) -> Option<(u64, u64, Vec<(u64, u64, u32)>)> {
        let (mut key, mut below, mut least) = (0u64, u64::MAX, u64::MAX);
        let mut passed = false;
        let left = || {
            items
                .iter()
                .map(|&i| i as usize)
                .filter(|&i| self.is_left(i))
        };
        for i in left() {
            let base = self.base[i];
            passed |= base < floor;
            least = least.min(self.low[i].max(floor));
            below = below
                .min(base + self.sets.size[i])
                .min(self.last(i).saturating_add(1));
            let place = base.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            key = key.wrapping_add(mix(mix(i as u64 + 1) ^ place));
        }
        if least == u64::MAX {
            return None;
        }
        if passed {
            key = mix(key ^ floor);
        }
        // Nothing may begin above where what is left of a set must.
        for s in from..to {
            if self.bytes[s] > 0 {
                below = below.min((self.height - self.bytes[s]).saturating_add(1));
            }
        }
        let spare = |i: usize| {
            let of = self.sets.of[i].iter().map(|&s| s as usize);
            let spare =
                of.map(|s| (self.height - self.bytes[s]).saturating_sub(self.lowest[s].max(floor)));
            spare.min().unwrap_or(0)
        };
        let mut found = Vec::new();
        for i in left() {
            let at = self.base[i];
            if at >= below || !self.is_ready(i, floor) {
                continue;
            }
            let rank = u64::from(self.rank[i]);
            let wide = |n: u64| (n.min(1 << 40) << 20) | rank;
            let (first, second) = match self.rule {
                Rule::Lowest => (at, rank),
                Rule::LowestTight => (at, wide(spare(i))),
                Rule::Tight => (spare(i), wide(at)),
                Rule::Rank => (rank, at),
            };
            found.push((first, second, i as u32));
        }
        found.sort_unstable();
        Some((key, least, found))
    }
}
