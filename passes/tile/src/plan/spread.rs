//! Blocks of a unit that are some points of one iterator in each of several parts of another.
//!
//! Where rows of an image do not fill a unit's blocks, a block may take pixels of several rows
//! ([`joined`](super::sizes::joined)). Of neighbouring rows each is an upper one in some place of a kernel and a lower
//! one in another, and lies in near memory once for each. Rows of different halves or quarters of the image never meet so but
//! where the parts do: with `H` rows in `n` parts, block `h` is pixels of the rows `h`, `h + H/n`, ... So the iterator of
//! rows becomes two, and the outer one is a dimension of the unit with that of the columns.

use super::sizes::{divisors, slides};
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
    /// Those with the fewest blocks, of each pair of iterators the one with the fewest parts; none where a plan waits for
    /// something else than its unit, or computes as many blocks and loads nothing several times for them.
    pub fn all(group: &Group, target: &Target<'_>, plan: &Plan) -> Vec<Self> {
        let Some((unit, called)) = plan.unit.as_ref().and_then(|unit| {
            unit.intrinsic()?;
            Some((unit, target.called(unit)?))
        }) else {
            return Vec::new();
        };
        // Equal units and cores divide the loops of whole iterators.
        let free = !group.has_inner()
            && group.core == group.domain.len()
            && group.into.is_none()
            && target.stage().is_none()
            && !target.info.has_equal_units();
        if !free || plan.cost.compute <= plan.cycles / 4 * 3 {
            return Vec::new();
        }
        let slides = |d: &usize| slides(group, *d) && group.domain[*d] > 1;
        let slides: Vec<usize> = group.iterators(false).filter(slides).collect();
        let pairs = || slides.iter().flat_map(|d| slides.iter().map(|o| (*d, *o)));
        let mut found: Vec<(i64, Self)> = Vec::new();
        for (dims, points) in unit.unit_dims.iter().zip(called.domain) {
            let here = |of: usize| dims.iter().any(|(d, _)| *d == of);
            for (d, other) in pairs().filter(|(d, o)| d != o && (here(*d) || here(*o))) {
                let now = plan
                    .space
                    .covered(d)
                    .saturating_mul(plan.space.covered(other));
                // As many are a gain where rows lie in near memory several times.
                let mut least = if dims.len() > 1 { now + 1 } else { now };
                let mut best = None;
                for parts in divisors(*points) {
                    let (each, rows) = (points / parts, group.domain[d]);
                    let blocks = |n: i64, size: i64| (n + size - 1) / size;
                    let count =
                        blocks(rows, parts).saturating_mul(blocks(group.domain[other], each));
                    if parts > 1 && each > 1 && parts <= rows && count < least {
                        // The outer of the two that the iterator becomes stands in its place.
                        let joined = vec![(other, each), (d, parts)];
                        (least, best) = (count, Some(Self { d, parts, joined }));
                    }
                }
                found.extend(best.map(|best| (least, best)));
            }
        }
        let least = found.iter().map(|(count, _)| *count).min();
        found.retain(|(count, _)| Some(*count) == least);
        found.into_iter().map(|(_, spread)| spread).collect()
    }
}
