//! Accumulators that an engine fills: a transfer of which nothing lies inside of its source pads all of a tile, in
//! the time that it takes to start, while units compute.
//!
//! An intrinsic fills one block and keeps its unit busy. Which is quicker depends on what all waits for, so a plan
//! changes over only if its busiest queue has less to do then.

use tir::Name;

use super::{Plan, Target};
use crate::group::{Group, Input, StepRef};

/// An engine fills the accumulators of a nest of one stage if that saves one in so many cycles.
const GAIN: i64 = 64;

impl Plan {
    /// The engine to fill a tile and its cycles, if it can: it pads, and the tile is where sums are accumulated.
    pub fn fill_cycles(&self, group: &Group, target: &Target<'_>) -> Option<(Name, i64)> {
        let info = target.info;
        let extents = group.iterators(false).map(|d| self.space.extent(d));
        let engine = info.fills(self.held, extents.fold(1, i64::saturating_mul))?;
        let reduced = group.outs.iter().any(|out| out.step == StepRef::Reduced);
        let sums = reduced || self.in_place == Some(Input::Reduced) || self.splits_reduction(group);
        let blocks = group.iterators(false).map(|d| self.space.tile[d]);
        let several = blocks.fold(1, i64::saturating_mul) > 1;
        // A tile of one slot is filled when the one before is stored, and all units wait. What is computed into a tile
        // of another nest has as many as that one.
        let into = group.into.is_some();
        let slots = into
            || match self.in_place == Some(Input::Reduced) || reduced {
                true => !self.single_result,
                false => self.own_accumulator,
            };
        // What a block that is moved back computes again is no sum any more.
        let once = self.space.shifted.is_none();
        let here =
            sums && once && self.strips.is_none() && several && slots && !info.has_equal_units();
        (here && self.resets.is_some() && self.filled.is_none())
            .then_some((engine.name, engine.latency))
    }

    /// Lets an engine fill the accumulators: in so many cycles in all.
    pub fn fill_by_engine(&mut self, engine: Name, cycles: i64) {
        self.filled = Some(engine);
        self.cost.load = self.cost.load.saturating_add(cycles);
        let Some((unit, resets)) = self.resets else {
            return;
        };
        let longest = |busy: &[(Name, i64)]| busy.iter().map(|(_, cycles)| *cycles).max();
        let all = longest(&self.busy).unwrap_or(0);
        for (name, busy) in &mut self.busy {
            if *name == unit {
                *busy -= resets;
            }
        }
        // So much less of each trip.
        let less = all - longest(&self.busy).unwrap_or(0);
        for cycles in [&mut self.cost.trip, &mut self.cost.tile] {
            let share = i128::from(*cycles) * i128::from(less) / i128::from(all.max(1));
            *cycles -= i64::try_from(share).unwrap_or(0);
        }
    }

    /// Whether an engine fills the accumulators of a nest of one stage.
    pub(super) fn fill_alone(&mut self, group: &Group, target: &Target<'_>) {
        let Some((engine, each)) = self.fill_cycles(group, target) else {
            return;
        };
        let tiles = self.order[..self.parallel(group)].iter();
        let tiles = tiles.map(|d| self.space.trips(*d));
        let mut other = self.clone();
        other.fill_by_engine(engine, tiles.fold(each, i64::saturating_mul));
        // Other loads stand before a fill in the engine's queue.
        let free = other.running() <= other.busiest() / 16 * 15;
        let least = self.busiest() / GAIN;
        if free && other.busiest() < self.busiest() - least {
            *self = other;
        }
    }

    /// Cycles of the engine that loads but for what is loaded before anything is computed.
    fn running(&self) -> i64 {
        (self.cost.load - self.cost.first).max(0)
    }

    /// Cycles of the queue that has the most to do once something is computed.
    fn busiest(&self) -> i64 {
        let units = self.busy.iter().map(|(_, cycles)| *cycles);
        let cost = &self.cost;
        let all = units.chain([self.running(), cost.store, cost.issue]);
        all.max().unwrap_or(0)
    }
}
