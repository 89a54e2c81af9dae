//! Ways that other ways make needless: blocks of one result, of a unit that sums over several numbers of points at once.
//!
//! A processor's kernel sums over any number of points, and a machine file lists some. For most groups the usual one is
//! best, and all others only take time to plan; where channels are few, one that the taps of a window fill is.

use super::Target;
use crate::group::Group;
use crate::matching::Assignment;

/// Hundredths by which a way has to be quicker than one that is listed before it, or joins less.
const WORTH: i64 = 3;
/// The same for one that joins more iterators, whose tiles cost more to load.
const WORTH_JOINED: i64 = 10;

/// A way, and what it is compared by.
struct Known<'a> {
    way: &'a Assignment,
    /// The iterators that count the result's block, with their points.
    result: Vec<&'a [(usize, i64)]>,
    /// Points that the unit sums over.
    sums: Vec<i64>,
    /// How many iterators are joined.
    joined: usize,
    /// Cycles of all blocks of the group.
    cycles: i64,
}

impl<'a> Known<'a> {
    fn of(group: &Group, target: &Target<'_>, way: &'a Assignment) -> Option<Self> {
        let called = target.called(way)?;
        let counted = |unit: &usize| {
            let places = called.places.last().into_iter().flatten();
            places.map(|place| place.dim).any(|d| d == Some(*unit))
        };
        let (result, sums): (Vec<usize>, Vec<usize>) = (0..way.unit_dims.len()).partition(counted);
        let mut blocks = group.domain.clone();
        for (d, size) in way.unit_dims.iter().flatten() {
            let range = blocks.get_mut(*d)?;
            *range = (*range + size - 1) / (*size).max(1);
        }
        let blocks = blocks.iter().fold(1i64, |all, n| all.saturating_mul(*n));
        Some(Self {
            way,
            result: result
                .iter()
                .map(|unit| &way.unit_dims[*unit][..])
                .collect(),
            sums: sums.iter().map(|unit| called.domain[*unit]).collect(),
            joined: way.unit_dims.iter().filter(|dims| dims.len() > 1).count(),
            cycles: blocks.saturating_mul(called.cycles),
        })
    }

    /// Whether it makes another way needless, before which it is listed or not.
    fn replaces(&self, other: &Self, before: bool) -> bool {
        let comparable = self.result == other.result && self.sums != other.sums;
        let scaled = |cycles: i64, percent: i64| cycles.saturating_mul(100 + percent);
        let quicker = |percent| scaled(self.cycles, percent) < other.cycles.saturating_mul(100);
        let near = self.cycles.saturating_mul(100) <= scaled(other.cycles, WORTH);
        comparable
            && match self.joined.cmp(&other.joined) {
                std::cmp::Ordering::Less => near,
                std::cmp::Ordering::Equal if before => near,
                std::cmp::Ordering::Equal => quicker(WORTH),
                std::cmp::Ordering::Greater => quicker(WORTH_JOINED),
            }
    }
}

/// The ways that no other one makes needless, in their order.
pub(super) fn needed<'a>(
    group: &Group,
    target: &Target<'_>,
    ways: &'a [Assignment],
) -> Vec<&'a Assignment> {
    let known: Option<Vec<Known<'_>>> = ways
        .iter()
        .map(|way| Known::of(group, target, way))
        .collect();
    let Some(known) = known else {
        return ways.iter().collect();
    };
    let needless = |(k, way): &(usize, &Known<'_>)| {
        let mut others = known.iter().enumerate();
        others.any(|(l, other)| l != *k && other.replaces(way, l < *k))
    };
    let left = known.iter().enumerate().filter(|one| !needless(one));
    left.map(|(_, known)| known.way).collect()
}
