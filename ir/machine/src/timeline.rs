//! How much of something is reserved at each time.

use std::collections::VecDeque;

/// What is reserved from each time on.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// `(time, amount reserved from then on)`, times rising; the first entry reaches back to the start, the
    /// last reserves nothing.
    used: VecDeque<(u64, u64)>,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Self {
            used: VecDeque::from([(0, 0)]),
        }
    }

    /// What is reserved at a time, and when that changes.
    pub(crate) fn at(&self, time: u64) -> (u64, u64) {
        let i = self.used.partition_point(|u| u.0 <= time).max(1) - 1;
        (
            self.used[i].1,
            self.used.get(i + 1).map_or(u64::MAX, |u| u.0),
        )
    }

    /// What is reserved from a time on: how long from it each change is, and to what.
    pub(crate) fn from(&self, time: u64) -> Vec<(u64, u64)> {
        let later = self.used.iter().filter(|u| u.0 > time);
        let later = later.map(|u| (u.0 - time, u.1));
        let mut out = vec![(0, self.at(time).0)];
        for change in later {
            if out.last().is_none_or(|last| last.1 != change.1) {
                out.push(change);
            }
        }
        out
    }

    /// Makes `time` the start of an entry and gives its place.
    fn cut(&mut self, time: u64) -> usize {
        let i = self.used.partition_point(|u| u.0 < time);
        if self.used.get(i).is_none_or(|u| u.0 != time) {
            let used = if i == 0 {
                self.used[0].1
            } else {
                self.used[i - 1].1
            };
            self.used.insert(i, (time, used));
        }
        i
    }

    /// Reserves so much between two times.
    pub(crate) fn reserve(&mut self, from: u64, to: u64, amount: u64) {
        let (a, b) = (self.cut(from), self.cut(to));
        self.used
            .range_mut(a..b)
            .for_each(|u| u.1 = u.1.saturating_add(amount));
    }

    /// The first time from `time` on at which no more than `most` is reserved for so many cycles.
    pub(crate) fn free(&self, time: u64, cycles: u64, most: u64) -> u64 {
        let (mut begin, mut now) = (time, time);
        while now < begin.saturating_add(cycles) {
            let (used, until) = self.at(now);
            now = until;
            if used > most {
                begin = until;
            }
        }
        begin
    }

    /// Forgets what was reserved before a time.
    pub(crate) fn forget(&mut self, before: u64) {
        while self.used.len() > 1 && self.used[1].0 <= before {
            self.used.pop_front();
        }
    }

    #[cfg(test)]
    pub(crate) fn entries(&self) -> impl Iterator<Item = &(u64, u64)> + Clone {
        self.used.iter()
    }
}
