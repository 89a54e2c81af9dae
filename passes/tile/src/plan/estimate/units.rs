//! Cycles of the units and of the thread that compute the points of a division.

use tir::Name;

use super::super::cost::HIDDEN;
use super::super::lanes::shared;
use super::super::shapes::OnBlock;
use super::super::unit::reset;
use super::Estimate;

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
        let Some(choice) = self.unit else {
            return 0;
        };
        let (group, info) = (self.group, self.target.info);
        let called = self.target.called(&choice.assignment);
        let unit = called.and_then(|called| info.unit(called.unit));
        let each = unit.map_or(0, |unit| unit.issue);
        let blocks = (0..group.core).map(|d| self.plan.space.covered(d));
        blocks.fold(each, i64::saturating_mul)
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
        let (group, space) = (self.group, &self.plan.space);
        if let Some(cycles) = self.staged {
            return cycles;
        }
        let Some(choice) = self.unit else {
            let moves = self.plan.moves;
            let whole = || self.vectors()?.whole(group, self.target, &self.plan);
            return if moves {
                0
            } else {
                whole().unwrap_or_else(|| self.by_thread())
            };
        };
        let calls = (0..group.core).map(|d| space.covered(d));
        let calls = calls.fold(1, i64::saturating_mul);
        let Some(called) = self.target.called(&choice.assignment) else {
            return 0;
        };
        let each = called.cycles;
        // All of a block is computed, also what lies beyond the range.
        let parallel = group.iterators(false);
        let blocks = parallel.map(|d| space.covered(d));
        let blocks = blocks.fold(1, i64::saturating_mul);
        let split = self.plan.splits_reduction(group);
        let last = choice.peel.last.filter(|_| !split);
        let on_vectors = self.steps_on_vectors();
        let on_vectors = on_vectors.fold(0, |sum: i64, (_, cycles)| sum.saturating_add(cycles));
        let on_vectors = on_vectors.saturating_mul(blocks);
        let blocks_at_once = self.lanes.blocks(group, space);
        let on_vectors = shared(on_vectors, blocks_at_once);
        // Where one call fills and multiplies, a reduction in several tiles takes longer: its accumulators
        // are filled by themselves.
        let first = match (choice.peel.first, split) {
            (Some(_), true) => reset(group, self.target, &choice.assignment).map_or(0, |(_, c)| c),
            (first, _) => first.map_or(0, |cycles| cycles - each),
        };
        let ends = first + last.map_or(0, |cycles| cycles - each);
        let on_unit = calls.saturating_mul(each);
        let on_unit = on_unit.saturating_add(ends.saturating_mul(blocks)).max(0);
        let on_unit = shared(on_unit, blocks_at_once);
        // Two units work beside each other, and one alone at both.
        let shared = (self.target.vectors.iter()).any(|vector| vector.unit == called.unit);
        let both = match shared {
            true => on_unit.saturating_add(on_vectors),
            false => on_unit
                .max(on_vectors)
                .saturating_add(on_unit.min(on_vectors) / HIDDEN),
        };
        both.saturating_add(self.steps_by_thread())
    }

    /// The steps behind the unit that no intrinsic computes, on a block: where a vector unit does, that unit and its
    /// cycles.
    fn steps_on_blocks(&self) -> &[OnBlock] {
        // One call does the last trip with all steps behind.
        let whole = !self.plan.splits_reduction(self.group);
        match self.unit {
            Some(choice) if choice.peel.last.is_none() || !whole => &self.tiles.on_blocks,
            _ => &[],
        }
    }

    /// Cycles of vector units for those steps of a block.
    pub(super) fn steps_on_vectors(&self) -> impl Iterator<Item = (Name, i64)> + '_ {
        self.steps_on_blocks()
            .iter()
            .filter_map(|(_, taken)| *taken)
    }

    /// Cycles of the thread for those steps of all blocks.
    pub(super) fn steps_by_thread(&self) -> i64 {
        let (group, space) = (self.group, &self.plan.space);
        // All of a block is computed, also what lies beyond the range.
        let points = group.iterators(false).map(|d| {
            let size = space.block[d];
            space.covered(d).saturating_mul(size)
        });
        let points = points.fold(1, i64::saturating_mul);
        let left = self.steps_on_blocks().iter();
        let left = left.filter(|(_, taken)| taken.is_none());
        let each = left.map(|(step, _)| self.thread(group.maps[*step].work));
        each.map(|each| points.saturating_mul(each))
            .fold(0, i64::saturating_add)
    }
}
