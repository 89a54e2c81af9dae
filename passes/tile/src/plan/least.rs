//! What units take for the points of a group at the least, however it is divided: whole calls along what is computed in
//! parallel, and of reductions as many as their points fill.

use tir::{Ir, Name};

use super::Target;
use super::lanes::Lanes;
use super::unit::{UnitChoice, Way, candidates};
use crate::group::Group;
use crate::matching::Place;

/// A way to compute a group on a unit.
pub(crate) struct Least {
    /// The unit.
    pub(crate) unit: Name,
    /// Cycles of a call at the least.
    call: i64,
    /// What shares the calls.
    lanes: Lanes,
    /// Points of each iterator that a call takes.
    block: Vec<i64>,
    /// Whether no two of the unit's parallel iterators can be parts of one: something that it reads has one of them alone.
    apart: bool,
}

impl Least {
    /// The way of a choice; `None` if it is not known how long it takes.
    fn of(group: &Group, target: &Target<'_>, choice: UnitChoice) -> Option<Self> {
        choice.assignment.intrinsic()?;
        let called = target.called(&choice.assignment)?;
        // Some calls do more than one thing, and may be as quick.
        let calls = [Some(called.cycles), choice.peel.first, choice.peel.last];
        let call = calls.into_iter().flatten().min()?;
        let mut block = vec![1; group.core];
        for (d, points) in choice.assignment.unit_dims.iter().flatten() {
            block[*d] = *points;
        }
        let (unit, held) = (called.unit, called.held());
        let has = |places: &Vec<Place>, d: usize| places.iter().any(|place| place.dim == Some(d));
        let result = called.places.last()?;
        let of_result: Vec<usize> = result.iter().filter_map(|place| place.dim).collect();
        let alone = |a: usize, b: usize| called.places.iter().any(|p| has(p, a) != has(p, b));
        let mut pairs = of_result
            .iter()
            .enumerate()
            .flat_map(|(i, a)| of_result[..i].iter().map(move |b| (*a, *b)));
        let apart = pairs.all(|(a, b)| alone(a, b));
        Some(Self {
            apart,
            unit,
            call,
            lanes: Lanes::of(target, &Way::Unit(choice), held),
            block,
        })
    }

    /// Cycles of the unit for all points of the group, computed at once.
    pub(crate) fn all(&self, group: &Group) -> i64 {
        let points = group.domain[..group.core].iter().copied();
        let points = points.fold(self.call, i64::saturating_mul);
        let block = self.block.iter().copied().fold(1, i64::saturating_mul);
        self.lanes.least(points / block.max(1))
    }

    /// Cycles of the unit for a part of the group so many times: of its parallel iterators so many points each, of which some are
    /// counted by several iterators if it is `split`.
    pub(crate) fn parts(&self, group: &Group, points: &[i64], times: i64, split: bool) -> i64 {
        let (mut calls, mut summed, mut block) = (times, 1i64, 1i64);
        let whole = split && !self.apart;
        if whole {
            // A call takes its points wherever they are.
            let own = (0..points.len()).filter(|d| !group.reductions[*d]);
            let (points, block) = own.fold((1i64, 1i64), |(points_in, block), d| {
                (
                    points_in.saturating_mul(points[d]),
                    block.saturating_mul(self.block[d]),
                )
            });
            calls = calls.saturating_mul(points.saturating_add(block - 1) / block.max(1));
        }
        for (d, points) in points.iter().enumerate() {
            if group.reductions[d] {
                summed = summed.saturating_mul(group.domain[d]);
                block = block.saturating_mul(self.block[d]);
            } else if !whole {
                calls = calls.saturating_mul((points + self.block[d] - 1) / self.block[d].max(1));
            }
        }
        let all = calls.saturating_mul(summed).saturating_mul(self.call);
        self.lanes.least(all / block.max(1))
    }
}

/// The ways to compute a group on units; none if no intrinsic takes its points, or not all that do are known.
pub(crate) fn least(ir: &Ir, group: &Group, target: &Target<'_>) -> Vec<Least> {
    let all = candidates(ir, group, target, &[]).0.into_iter();
    let all = all.map(|choice| Least::of(group, target, choice));
    all.collect::<Option<_>>().unwrap_or_default()
}
