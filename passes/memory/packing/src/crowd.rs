//! How full it is while a buffer lives.

use crate::problem::{Live, Problem};

impl Problem {
    /// For each buffer the most bytes that live at one time of its life, itself among them; none if only a graph is known.
    pub(crate) fn crowds(&self) -> Option<Vec<u64>> {
        let lives = self.joined.as_ref()?;
        let times = Times::new(lives);
        let mut bytes = vec![0i128; times.starts.len() + 1];
        for (b, live) in self.buffers.iter().zip(lives) {
            for l in live {
                let (from, to) = times.of(l);
                bytes[from] += i128::from(b.size);
                bytes[to] -= i128::from(b.size);
            }
        }
        let mut now = 0;
        let all = bytes.iter().map(|change| {
            now += change;
            u64::try_from(now).unwrap_or(0)
        });
        // Row k has the most bytes of 2^k times from each on.
        let mut rows: Vec<Vec<u64>> = vec![all.collect()];
        let mut len = 1;
        while 2 * len <= times.starts.len() {
            let last = &rows[rows.len() - 1];
            let next = (0..last.len() - len).map(|t| last[t].max(last[t + len]));
            rows.push(next.collect());
            len *= 2;
        }
        let most = |(from, to): (usize, usize)| {
            let k = (to - from).ilog2() as usize;
            rows[k][from].max(rows[k][to - (1 << k)])
        };
        let crowd = |live: &Live| live.iter().map(|l| most(times.of(l))).max().unwrap_or(0);
        Some(lives.iter().map(crowd).collect())
    }
}

/// The times at which buffers start to live: all that lives at any time lives at one of these.
pub(crate) struct Times {
    pub(crate) starts: Vec<u64>,
}

impl Times {
    pub(crate) fn new(lives: &[Live]) -> Times {
        let mut starts: Vec<u64> = lives.iter().flatten().map(|l| l.start).collect();
        starts.sort_unstable();
        starts.dedup();
        Times { starts }
    }

    /// The numbers of the times in an interval.
    pub(crate) fn of(&self, live: &std::ops::Range<u64>) -> (usize, usize) {
        let at = |time| self.starts.partition_point(|start| *start < time);
        (at(live.start), at(live.end))
    }
}

/// A number divided by the bytes that are left of `bound` in a crowd, and a part of the bound more, so that what is as full as the
/// bound does not come before all else.
pub(crate) fn tight(n: u128, crowd: u64, bound: u64, part: u64) -> u128 {
    let spare = bound.saturating_sub(crowd) + bound / part + 1;
    n.saturating_mul(1 << 20) / u128::from(spare)
}
