//! Loads behind the first ones that units wait for.

use super::Estimate;

/// Cycles of loads where a loop goes on: of tiles that it is the innermost loop of, with how many transfers these are and the most
/// pieces that they are cut into, and of tiles of loops inside of it that begin again.
#[derive(Clone, Copy, Default)]
pub(super) struct Ahead {
    pub(super) own: i64,
    pub(super) starts: i64,
    pub(super) pieces: i64,
    pub(super) again: i64,
}

impl Estimate<'_> {
    /// Cycles that units wait for loads behind the first ones, given what is loaded where each loop goes on. Loads run one trip
    /// ahead: what takes longer than a trip is waited for. Before what an inner loop loads, a tile of an outer one is loaded in
    /// pieces, one in each trip of the inner loop (`insert-dma`'s `spread`), which cuts transfers where the engine waits for a unit;
    /// what begins again with the outer one is not.
    pub(super) fn behind(&self, loads: &[Ahead], trip: i64) -> i64 {
        let Some(innermost) = loads.iter().rposition(|loads| loads.own > 0) else {
            return 0;
        };
        let trips = |loops: &[usize]| {
            let trips = loops.iter().map(|d| self.plan.space.trips(*d));
            trips.fold(1, i64::saturating_mul)
        };
        let order = &self.plan.order;
        let inside = trips(&order[innermost + 1..]);
        let [trip, unit] = [trip, self.trip()].map(|cycles| cycles.saturating_mul(inside));
        let beyond = |cycles: i64| cycles.saturating_sub(trip).max(0);
        let each = loads[innermost].own;
        let (mut sum, mut around) = (0i64, 1i64);
        for (k, (d, loads)) in order.iter().zip(loads).enumerate() {
            let own = self.plan.space.trips(*d);
            let mut waits = beyond(loads.own.saturating_add(loads.again));
            let cut = each < unit && loads.own.saturating_add(each) > unit;
            let pieces = if cut { loads.pieces } else { loads.starts };
            let pieces = match k < innermost {
                true => pieces.min(trips(&order[k + 1..=innermost])),
                false => 1,
            };
            if pieces > 1 {
                let piece = loads.own / pieces;
                let spread = beyond(each.saturating_add(piece)).saturating_mul(pieces);
                waits = waits.min(spread.saturating_add(beyond(loads.again)));
            }
            sum = sum.saturating_add(waits.saturating_mul(around.saturating_mul(own - 1)));
            around = around.saturating_mul(own);
        }
        sum
    }
}
