//! Stages of a pipeline that wait for what they load in each trip, and which of them computes behind the others.
//!
//! A tile that is loaded in each trip and has one slot is not loaded before the trip before is done with it. If the
//! blocks of all stages were issued in turn, their unit would wait for that load at the beginning of each trip. The stage
//! that waits longest computes *late*, behind all others of its unit, which work while it loads.

use tir::Name;

use super::Stage;

/// What decides when a stage of a pipeline computes in a trip.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The unit.
    pub unit: Option<Name>,
    /// Its cycles in all trips.
    pub busy: i64,
    /// Cycles in all trips of loads that wait for the only slot of their tile.
    pub loads: i64,
}

impl Stage {
    /// What decides when it computes.
    pub fn held(&self) -> Held {
        let plan = &self.plan;
        let each = |i: &usize| plan.single[*i] && plan.level(*i) == plan.order.len();
        let loads = (0..plan.single.len()).filter(each);
        let loads = loads.map(|i| plan.holders[i].exposed);
        let (unit, busy) = plan
            .busy
            .first()
            .map_or((None, 0), |(unit, busy)| (Some(*unit), *busy));
        Held {
            unit,
            busy,
            loads: loads.fold(0, i64::saturating_add),
        }
    }
}

/// Which stage computes late, if one does, and the cycles of the others of its unit. Rows of a ring are written where
/// others were read, in the order of the blocks: with them none does. Nor where a loop is cut, or trips are shared: stages of one
/// part hide nothing in another one; and where something is done to a tile between two stages, a third unit waits for both.
pub fn late(root: &Stage, stages: &[Held]) -> Option<(usize, i64)> {
    let apart =
        root.rings().next().is_some() || root.segments.len() > 1 || root.shares() || root.settles();
    if root.turns < 2 || apart {
        return None;
    }
    let others = |late: usize| {
        let unit = stages[late].unit;
        let others = stages.iter().enumerate();
        let others = others.filter(|(i, other)| *i != late && unit.is_some() && other.unit == unit);
        others
            .map(|(_, other)| other.busy)
            .fold(0, i64::saturating_add)
    };
    let hidden = |i: &usize| stages[*i].loads.min(others(*i));
    let found = (0..stages.len()).max_by_key(|i| (hidden(i), std::cmp::Reverse(*i)))?;
    (hidden(&found) > 0).then(|| (found, others(found)))
}
