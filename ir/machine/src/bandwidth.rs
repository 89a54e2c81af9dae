//! How the engines share the bandwidth of a space.
//!
//! Transfers reserve bandwidth in the order their work is ordered (the issue order, unless a
//! semaphore holds work back): in every cycle a transfer gets its engine's rate or what earlier
//! ones left of each space it touches, whichever is less. No space ever gives more than it has and
//! none is left unused while somebody asks, so the time a saturated space needs for all transfers
//! is exact. What is approximate is who is slowed: a fair arbiter would slow all transfers in
//! proportion, here the later one takes the whole delay. The traffic of units is left out, since
//! their cycle formulas contain it.

use crate::spec::MachineSpec;
use crate::timeline::Timeline;

/// Bandwidth reserved in every space.
#[derive(Clone, Debug)]
pub(crate) struct Bandwidth {
    spaces: Vec<Space>,
}

#[derive(Clone, Debug)]
struct Space {
    rate: u64,
    /// Whether all engines together can ask for more than the space gives.
    contended: bool,
    /// Bytes a cycle that are reserved.
    used: Timeline,
}

/// What a transfer asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub from: usize,
    pub to: usize,
    /// Bytes a cycle at most.
    pub rate: u64,
    /// Bytes that are paid for.
    pub bytes: u64,
}

impl Bandwidth {
    pub(crate) fn new(spec: &MachineSpec) -> Bandwidth {
        let asked = |name: &str| {
            let ends = |e: &&crate::EngineSpec| u64::from(e.from == name) + u64::from(e.to == name);
            let rates = spec
                .engines
                .iter()
                .map(|e| e.bytes_per_cycle.saturating_mul(ends(&e)));
            rates.fold(0, u64::saturating_add)
        };
        let spaces = spec.spaces.iter().map(|s| Space {
            rate: s.bytes_per_cycle,
            contended: asked(&s.name) > s.bytes_per_cycle,
            used: Timeline::new(),
        });
        Bandwidth {
            spaces: spaces.collect(),
        }
    }

    /// Reserves a transfer whose first byte may flow at `time`; gives the cycle after its last.
    pub(crate) fn transfer(&mut self, time: u64, d: Demand) -> u64 {
        let ends: &[usize] = if d.from == d.to {
            &[d.from]
        } else {
            &[d.from, d.to]
        };
        // Within one space every byte counts twice.
        let share = if d.from == d.to { 2 } else { 1 };
        let limit = |s: &Space, used: u64| ((s.rate.saturating_sub(used)) / share).min(d.rate);
        if ends.iter().all(|&s| !self.spaces[s].contended) {
            let rate = ends
                .iter()
                .fold(d.rate, |r, &s| limit(&self.spaces[s], 0).min(r));
            return time.saturating_add(d.bytes.div_ceil(rate.max(1)));
        }
        let (mut now, mut left) = (time, d.bytes);
        // The last cycle that can be counted is behind all others.
        while left > 0 && now < u64::MAX {
            let (mut rate, mut until) = (d.rate, u64::MAX);
            for &s in ends {
                let (used, next) = self.spaces[s].used.at(now);
                rate = rate.min(limit(&self.spaces[s], used));
                until = until.min(next);
            }
            if until == u64::MAX {
                // Nothing is reserved: a space of one byte a cycle still moves one.
                rate = rate.max(1);
            }
            if rate == 0 {
                now = until;
                continue;
            }
            let cycles = left.div_ceil(rate).min(until - now);
            for &s in ends {
                self.spaces[s]
                    .used
                    .reserve(now, now.saturating_add(cycles), rate * share);
            }
            left = left.saturating_sub(cycles.saturating_mul(rate));
            now = now.saturating_add(cycles);
        }
        now
    }

    /// What is reserved in each space.
    pub(crate) fn timelines(&self) -> impl Iterator<Item = &Timeline> {
        self.spaces.iter().map(|space| &space.used)
    }

    /// Forgets what was reserved before a time: no transfer will ask for it any more.
    pub(crate) fn forget(&mut self, before: u64) {
        for s in &mut self.spaces {
            s.used.forget(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EngineSpec, SpaceSpec};

    fn two_engines(dram: u64) -> Bandwidth {
        Bandwidth::new(&MachineSpec {
            spaces: vec![
                SpaceSpec::new("dram", 1 << 20, 1, dram),
                SpaceSpec::new("spm", 1024, 1, 256),
            ],
            engines: vec![
                EngineSpec::new("load", "dram", "spm", 8, 0),
                EngineSpec::new("store", "spm", "dram", 8, 0),
            ],
            ..MachineSpec::default()
        })
    }

    #[test]
    fn enough_for_both_slows_nobody() {
        let mut b = two_engines(16);
        assert_eq!(
            b.transfer(
                0,
                Demand {
                    from: 0,
                    to: 1,
                    rate: 8,
                    bytes: 801
                }
            ),
            101
        );
        assert_eq!(
            b.transfer(
                0,
                Demand {
                    from: 1,
                    to: 0,
                    rate: 8,
                    bytes: 800
                }
            ),
            100
        );
    }

    #[test]
    fn the_later_one_gets_what_is_left() {
        let mut b = two_engines(12);
        assert_eq!(
            b.transfer(
                0,
                Demand {
                    from: 0,
                    to: 1,
                    rate: 8,
                    bytes: 800
                }
            ),
            100
        );
        // 4 a cycle up to 100, then 8: 400 bytes, then 50 cycles more.
        assert_eq!(
            b.transfer(
                0,
                Demand {
                    from: 1,
                    to: 0,
                    rate: 8,
                    bytes: 800
                }
            ),
            150
        );
        // A transfer before both is slowed by neither, and no byte is given twice.
        assert_eq!(
            b.transfer(
                50,
                Demand {
                    from: 0,
                    to: 1,
                    rate: 8,
                    bytes: 400
                }
            ),
            175
        );
    }

    #[test]
    fn a_saturated_space_takes_turns() {
        let mut b = two_engines(8);
        assert_eq!(
            b.transfer(
                10,
                Demand {
                    from: 0,
                    to: 1,
                    rate: 8,
                    bytes: 80
                }
            ),
            20
        );
        assert_eq!(
            b.transfer(
                0,
                Demand {
                    from: 1,
                    to: 0,
                    rate: 8,
                    bytes: 160
                }
            ),
            30
        );
        b.forget(30);
        assert_eq!(
            b.transfer(
                30,
                Demand {
                    from: 0,
                    to: 1,
                    rate: 8,
                    bytes: 8
                }
            ),
            31
        );
    }

    #[test]
    fn random_reservations_never_exceed_the_space() {
        let mut b = two_engines(13);
        let mut random = tir_data::Random::new(3);
        let mut next = |n: usize| random.below(n) as u64;
        for _ in 0..300 {
            let load = next(2) == 0;
            let (from, to) = if load { (0, 1) } else { (1, 0) };
            b.transfer(
                next(2000),
                Demand {
                    from,
                    to,
                    rate: 8,
                    bytes: 1 + next(300),
                },
            );
            assert!(b.spaces[0].used.entries().all(|u| u.1 <= 13));
            assert!(
                b.spaces[0]
                    .used
                    .entries()
                    .zip(b.spaces[0].used.entries().skip(1))
                    .all(|(a, b)| a.0 < b.0)
            );
        }
    }
}
