//! Blocks of a unit that are some points of one iterator in each of several parts of another.
//!
//! Where rows of an image do not fill a unit's blocks, a block may take pixels of several rows
//! ([`joined`](super::sizes::joined)). Of neighbouring rows each is an upper one in some place of a kernel and a lower
//! one in another, and lies in near memory once for each. Rows of different halves or quarters of the image never meet so but
//! where the parts do: with `H` rows in `n` parts, block `h` is pixels of the rows `h`, `h + H/n`, ... So the iterator of
//! rows becomes two, and the outer one is a dimension of the unit with that of the columns.

use super::{Plan, Target};
use crate::group::Group;
use crate::matching::Joined;

/// How the iterators of a group fill a unit's blocks by parts.
pub struct Spread {
    /// The iterator that becomes two.
    pub d: usize,
    /// In so many parts.
    pub parts: i64,
    /// What is one dimension of the unit then.
    pub joined: Joined,
}

impl Spread {
    /// The one with the fewest blocks, of those the one with the fewest parts; `None` where a plan waits for something else
    /// than its unit, or computes as many blocks and loads nothing several times for them.
    pub fn of(group: &Group, target: &Target<'_>, plan: &Plan) -> Option<Self> {
        let unit = plan.unit.as_ref()?;
        unit.intrinsic()?;
        let called = target.called(unit)?;
        let free = !group.has_inner() && group.core == group.domain.len() && group.into.is_none();
        if !free || plan.cost.compute <= plan.cycles / 4 * 3 {
            return None;
        }
        let slides: Vec<usize> = (group.iterators(false))
            .filter(|d| super::sizes::slides(group, *d) && group.domain[*d] > 1)
            .collect();
        let mut best: Option<(i64, Self)> = None;
        for (dims, points) in unit.unit_dims.iter().zip(called.domain) {
            if !dims.iter().any(|(d, _)| slides.contains(d)) {
                continue;
            }
            for (d, other) in slides.iter().flat_map(|d| slides.iter().map(|o| (*d, *o))) {
                let here = |of: usize| dims.iter().any(|(d, _)| *d == of);
                if d == other || !(here(d) || here(other)) {
                    continue;
                }
                let ceil = |n: i64, by: i64| (n + by - 1) / by;
                let now = plan.space.covered(d) * plan.space.covered(other);
                // As many are a gain where rows lie in near memory several times.
                let most = if dims.len() > 1 { now + 1 } else { now };
                for parts in (2..*points).filter(|parts| points % parts == 0) {
                    let each = points / parts;
                    let (rows, columns) = (group.domain[d], group.domain[other]);
                    let count = ceil(rows, parts) * ceil(columns, each);
                    let fewer = best.as_ref().map_or(most, |(least, _)| *least);
                    if parts <= rows && count < fewer {
                        // The outer of the two that the iterator becomes stands in its place.
                        let joined = vec![(other, each), (d, parts)];
                        best = Some((count, Self { d, parts, joined }));
                    }
                }
            }
        }
        best.map(|(_, spread)| spread)
    }
}
