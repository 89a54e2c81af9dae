//! Cycles of the units and of the thread that compute the points of a division.

use tir::Name;

use super::super::Target;
use super::super::cost::HIDDEN;
use super::super::lanes::{Lanes, shared};
use super::super::shapes::OnBlock;
use super::super::unit::{UnitChoice, reset};
use super::Estimate;
use crate::group::Group;
use crate::layout::Space;

impl Estimate<'_> {
    /// Cycles of the thread to compute all steps of the group at all their points.
    fn by_thread(&self) -> i64 {
        let group = self.group;
        let reduce = group.reduce.iter().map(|(step, ..)| step);
        let reduced = reduce.map(|s| self.thread(s.work).saturating_mul(group.points()));
        let points = group.iterators(false).map(|d| group.domain[d]);
        let points = points.fold(1, i64::saturating_mul);
        let mapped = group.maps.iter();
        let mapped = mapped.map(|s| self.thread(s.work).saturating_mul(points));
        reduced.chain(mapped).fold(0, i64::saturating_add)
    }

    /// Cycles of each unit, or of the busiest one of equal ones.
    pub(super) fn busy(&self) -> Vec<(Name, i64)> {
        let (group, space) = (self.group, &self.plan.space);
        let Some(choice) = self.unit else {
            return Vec::new();
        };
        let count = |dims: &mut dyn Iterator<Item = usize>| {
            dims.fold(1, |n: i64, d| n.saturating_mul(space.covered(d)))
        };
        let (calls, blocks) = (
            count(&mut (0..group.core)),
            count(&mut group.iterators(false)),
        );
        let Some(called) = self.target.called(&choice.assignment) else {
            return Vec::new();
        };
        let mut busy = vec![(called.unit, calls.saturating_mul(called.cycles))];
        let beside = match self.plan.splits_reduction(group) {
            true => &choice.beside,
            false => &choice.beside_whole,
        };
        for (unit, cycles) in beside.iter().copied().chain(self.steps_on_vectors()) {
            let cycles = blocks.saturating_mul(cycles);
            match busy.iter_mut().find(|(name, _)| *name == unit) {
                Some((_, sum)) => *sum = sum.saturating_add(cycles),
                None => busy.push((unit, cycles)),
            }
        }
        // Each of equal units has a part of the blocks.
        let at_once = self.lanes.blocks(group, space);
        for (_, cycles) in &mut busy {
            *cycles = shared(*cycles, at_once);
        }
        busy
    }

    /// Of the cycles of units those of fills, and their unit.
    pub(super) fn resets(&self) -> Option<(Name, i64)> {
        let choice = self.unit?;
        if choice.peel.first.is_some() && !self.plan.splits_reduction(self.group) {
            // One call fills and begins to add: there is no fill to do otherwise.
            return None;
        }
        let (unit, cycles) = choice.reset?;
        let blocks = self
            .group
            .iterators(false)
            .map(|d| self.plan.space.covered(d));
        Some((unit, blocks.fold(cycles, i64::saturating_mul)))
    }

    /// Cycles of the thread to start the calls of the unit.
    pub(super) fn issued(&self) -> i64 {
        let on_unit = self.tiles.on_unit.as_ref();
        on_unit.map_or(0, |on_unit| on_unit.issued(&self.plan.space))
    }

    /// Cycles to compute all points, with the fills of accumulators where one unit does both.
    pub(super) fn computed(&self) -> i64 {
        let points = self.points();
        if self.lanes.cores * self.lanes.units > 1 || self.staged.is_some() {
            return points;
        }
        let longest = self.plan.busy.iter().map(|(_, cycles)| *cycles).max();
        let longest = longest.map(|longest| longest.saturating_add(self.plan.thread));
        points.max(longest.unwrap_or(0))
    }

    /// Cycles to compute all points.
    pub(super) fn points(&self) -> i64 {
        if let Some(cycles) = self.staged {
            return cycles;
        }
        if let Some(on_unit) = &self.tiles.on_unit {
            return on_unit.points(&self.plan.space, self.plan.splits_reduction(self.group));
        }
        let moves = self.plan.moves;
        let whole = || self.vectors()?.whole(self.group, self.target, &self.plan);
        if moves {
            0
        } else {
            whole().unwrap_or_else(|| self.by_thread())
        }
    }

    /// Cycles of vector units for the steps of a block that no intrinsic computes.
    pub(super) fn steps_on_vectors(&self) -> impl Iterator<Item = (Name, i64)> + '_ {
        let split = self.plan.splits_reduction(self.group);
        let on_unit = self.tiles.on_unit.iter();
        on_unit.flat_map(move |on_unit| on_unit.steps_on_vectors(split))
    }

    /// Cycles of the thread for those steps of all blocks.
    pub(super) fn steps_by_thread(&self) -> i64 {
        let split = self.plan.splits_reduction(self.group);
        let on_unit = self.tiles.on_unit.as_ref();
        on_unit.map_or(0, |on_unit| {
            on_unit.steps_by_thread(&self.plan.space, split)
        })
    }
}

/// What units do that compute the points of a group, however it is divided.
pub(in crate::plan) struct OnUnit<'a> {
    group: &'a Group,
    target: &'a Target<'a>,
    choice: &'a UnitChoice,
    lanes: Lanes,
    /// The steps behind the unit that no intrinsic computes; where a vector unit does on a block, that unit and its
    /// cycles.
    on_blocks: Vec<OnBlock>,
    /// The unit, and cycles of a call.
    call: Option<(Name, i64)>,
    /// Cycles of the thread to start a call.
    issue: i64,
    /// Cycles that fill accumulators where no call does.
    reset: i64,
}

impl<'a> OnUnit<'a> {
    pub(in crate::plan) fn new(
        group: &'a Group,
        target: &'a Target<'a>,
        choice: &'a UnitChoice,
        lanes: Lanes,
        on_blocks: Vec<OnBlock>,
    ) -> Self {
        let called = target.called(&choice.assignment);
        let unit = called
            .as_ref()
            .and_then(|called| target.info.unit(called.unit));
        let reset = match choice.peel.first {
            Some(_) => reset(group, target, &choice.assignment).map_or(0, |(_, cycles)| cycles),
            None => 0,
        };
        Self {
            group,
            target,
            choice,
            lanes,
            on_blocks,
            call: called.map(|called| (called.unit, called.cycles)),
            issue: unit.map_or(0, |unit| unit.issue),
            reset,
        }
    }

    /// Cycles of the thread to start the calls of the unit.
    pub(in crate::plan) fn issued(&self, space: &Space) -> i64 {
        let blocks = (0..self.group.core).map(|d| space.covered(d));
        blocks.fold(self.issue, i64::saturating_mul)
    }

    /// The least cycles of a call, of calls that begin or end a sum among them.
    pub(in crate::plan) fn least(&self) -> i64 {
        let Some((_, each)) = self.call else {
            return 0;
        };
        let ends = [self.choice.peel.first, self.choice.peel.last];
        let less = |end: Option<i64>| end.map_or(0, |cycles| (cycles - each).min(0));
        (each + ends.into_iter().map(less).sum::<i64>()).max(0)
    }

    /// Cycles to compute all points, where a reduction is in several tiles or in one.
    pub(in crate::plan) fn points(&self, space: &Space, split: bool) -> i64 {
        let Self { group, choice, .. } = self;
        let calls = (0..group.core).map(|d| space.covered(d));
        let calls = calls.fold(1, i64::saturating_mul);
        let Some((unit, each)) = self.call else {
            return 0;
        };
        // All of a block is computed, also what lies beyond the range.
        let parallel = group.iterators(false);
        let blocks = parallel.map(|d| space.covered(d));
        let blocks = blocks.fold(1, i64::saturating_mul);
        let last = choice.peel.last.filter(|_| !split);
        let on_vectors = self.steps_on_vectors(split);
        let on_vectors = on_vectors.fold(0, |sum: i64, (_, cycles)| sum.saturating_add(cycles));
        let on_vectors = on_vectors.saturating_mul(blocks);
        let blocks_at_once = self.lanes.blocks(group, space);
        let on_vectors = shared(on_vectors, blocks_at_once);
        // Where one call fills and multiplies, a reduction in several tiles takes longer: its accumulators
        // are filled by themselves.
        let first = match (choice.peel.first, split) {
            (Some(_), true) => self.reset,
            (first, _) => first.map_or(0, |cycles| cycles - each),
        };
        let ends = first + last.map_or(0, |cycles| cycles - each);
        let on_unit = calls.saturating_mul(each);
        let on_unit = on_unit.saturating_add(ends.saturating_mul(blocks)).max(0);
        let on_unit = shared(on_unit, blocks_at_once);
        // Two units work beside each other, and one alone at both.
        let shared = (self.target.vectors.iter()).any(|vector| vector.unit == unit);
        let both = match shared {
            true => on_unit.saturating_add(on_vectors),
            false => on_unit
                .max(on_vectors)
                .saturating_add(on_unit.min(on_vectors) / HIDDEN),
        };
        both.saturating_add(self.steps_by_thread(space, split))
    }

    /// The steps behind the unit that no intrinsic computes, on a block: where a vector unit does, that unit and its
    /// cycles.
    fn steps_on_blocks(&self, split: bool) -> &[OnBlock] {
        // One call does the last trip with all steps behind.
        match self.choice.peel.last.is_none() || split {
            true => &self.on_blocks,
            false => &[],
        }
    }

    fn steps_on_vectors(&self, split: bool) -> impl Iterator<Item = (Name, i64)> + '_ {
        let steps = self.steps_on_blocks(split).iter();
        steps.filter_map(|(_, taken)| *taken)
    }

    fn steps_by_thread(&self, space: &Space, split: bool) -> i64 {
        // All of a block is computed, also what lies beyond the range.
        let points = self.group.iterators(false).map(|d| {
            let size = space.block[d];
            space.covered(d).saturating_mul(size)
        });
        let points = points.fold(1, i64::saturating_mul);
        let left = self.steps_on_blocks(split).iter();
        let left = left.filter(|(_, taken)| taken.is_none());
        let each = left.map(|(step, _)| {
            let cycles = self.target.info.thread_cycles(self.group.maps[*step].work);
            i64::try_from(cycles).unwrap_or(i64::MAX)
        });
        each.map(|each| points.saturating_mul(each))
            .fold(0, i64::saturating_add)
    }
}
