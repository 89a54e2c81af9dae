//! How equal units and equal cores share the work of a plan: as `distribute` splits its loops, the one that
//! keeps them busiest, of equal ones the outermost.

use tir::Name;

use super::Target;
use super::unit::Way;
use crate::group::Group;
use crate::layout::Space;

/// How many times a tile and a block are worked on at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lanes {
    /// Cores, each with the near space of its own.
    pub(crate) cores: i64,
    /// Units in each of them.
    pub(crate) units: i64,
}

impl Lanes {
    /// What there is for a way to compute whose results lie in a space.
    pub(super) fn of(target: &Target<'_>, way: &Way, held: Name) -> Self {
        let called = way
            .unit()
            .and_then(|choice| target.called(&choice.assignment));
        let units = called.map_or(1, |called| {
            let equal = target.info.equal_units(called.unit);
            equal.filter(|unit| unit.place == 0).count()
        });
        Self {
            cores: target.info.cores_with(held) as i64,
            units: units as i64,
        }
    }

    /// Of so many cycles of all units, those that one of them takes at least.
    pub(super) fn least(self, cycles: i64) -> i64 {
        cycles / (self.cores * self.units).max(1)
    }

    /// The loop that is split among cores, if there is one, and how many times faster it is.
    pub(crate) fn split(self, space: &Space, parallel: &[usize]) -> Option<(usize, f64)> {
        let loops = parallel
            .iter()
            .map(|d| (*d, gain(space.trips(*d), self.cores)));
        loops.fold(None, |best: Option<(usize, f64)>, (d, gain)| match best {
            Some((_, most)) if most >= gain => best,
            _ => (gain > 1.0).then_some((d, gain)).or(best),
        })
    }

    /// How many times faster the blocks of a tile are by several units.
    pub(super) fn blocks(self, group: &Group, space: &Space) -> f64 {
        let blocks = group
            .iterators(false)
            .map(|d| gain(space.tile[d], self.units));
        blocks.fold(1.0, f64::max)
    }
}

/// How many times faster a nest is by several units equal to one, each on a part of an iterator.
pub(super) fn beside(target: &Target<'_>, unit: Name, domain: &[i64], reductions: &[bool]) -> f64 {
    let equal = target.info.equal_units(unit);
    let units = equal.filter(|unit| unit.place == 0).count() as i64;
    let parallel = domain.iter().zip(reductions).filter(|(_, r)| !**r);
    parallel.fold(1.0, |most, (n, _)| most.max(gain(*n, units)))
}

/// How many times faster so many equal pieces of work are done by so many at once.
fn gain(pieces: i64, lanes: i64) -> f64 {
    let turns = (pieces + lanes - 1) / lanes.max(1);
    pieces as f64 / turns.max(1) as f64
}

/// So many cycles, that many times faster.
pub(super) fn shared(cycles: i64, gain: f64) -> i64 {
    match gain > 1.0 {
        true => (cycles as f64 / gain) as i64,
        false => cycles,
    }
}
