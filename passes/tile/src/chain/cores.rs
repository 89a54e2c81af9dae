//! Nests of several stages on equal cores: one loop of the root is split among them, as `distribute` does it, and each
//! core computes what its trips need, with tiles of its own.
//!
//! Where tiles of neighbouring trips overlap, each computes the common rows again: rows that stay, stages beside each other
//! and tensors that stay between nests all go on from one trip to the next, which is on another core.

use tir::Name;

use super::Stage;
use super::cost::each;
use super::stage::Context;
use crate::plan::{Cost, Lanes};

/// Equal cores that share the trips of a root's loops.
#[derive(Clone, Copy)]
pub(super) struct Cores {
    lanes: Lanes,
}

impl Cores {
    /// Those with a space of their own for what is computed; `None` if it is one.
    pub(super) fn of(cx: &Context<'_>) -> Option<Self> {
        let cores = cx.target.info.cores_with(cx.target.near.name) as i64;
        let lanes = Lanes { cores, units: 1 };
        (cores > 1).then_some(Self { lanes })
    }

    /// How many times faster all of them are at most.
    pub(super) fn most(cx: &Context<'_>) -> i64 {
        Self::of(cx).map_or(1, |cores| cores.lanes.cores)
    }

    /// Whether trips of a chain are independent of one another, so that cores may share them.
    pub(super) fn take(stage: &Stage) -> bool {
        let whole = stage.cut.is_none() && stage.segments.len() == 1;
        whole && stage.turns == 1 && !stage.is_running() && stage.rings().next().is_none()
    }

    /// Divides among cores what each does for itself of a chain that is priced for one. What all of them load is loaded
    /// by each, and all share the far space.
    pub(super) fn share(self, cx: &Context<'_>, root: &Stage, sum: &mut Cost) {
        let (plan, target) = (&root.plan, cx.target);
        let loops = &plan.order[..plan.parallel(&root.group)];
        let Some((split, gain)) = self.lanes.split(&plan.space, loops) else {
            return;
        };
        let level = loops.iter().position(|d| *d == split).unwrap_or(0);
        // Bytes that are loaded, those of tiles that move with the loop that is split and those of others.
        let (mut own, mut again) = (0i64, 0i64);
        let mut on_units = false;
        each(&mut root.clone(), &mut |stage| {
            on_units |= stage.plan.by_thread(i64::MAX) < i64::MAX;
            // Of a producer the loops around it are its first iterators.
            let d = match stage.group.into.is_some() {
                true => level,
                false => split,
            };
            let order = &stage.plan.order;
            for (i, operand) in stage.group.operands.iter().enumerate() {
                if operand.made || operand.near {
                    continue;
                }
                let trips = order[..stage.plan.level(i).min(order.len())].iter();
                let trips = trips.map(|d| stage.plan.space.trips(*d));
                let bytes = trips.fold(stage.plan.holders[i].one, i64::saturating_mul);
                let moves = stage.plan.tiles[i].moves_with(&stage.plan.space, d);
                let all = if moves { &mut own } else { &mut again };
                *all = all.saturating_add(bytes);
            }
        });
        let rate = |from: Name, to: Name| {
            let engine = target.info.engine_between(from, to);
            engine.map_or(1, |engine| engine.bytes_per_cycle)
        };
        let (far, near) = (target.far.name, target.near.name);
        let part = own as f64 / (own.saturating_add(again)).max(1) as f64;
        let load = sum.load as f64;
        let each = load * (part / gain + 1.0 - part);
        // What all of them load is loaded once where it can be passed on.
        let times = match target.info.passes_on(near) {
            true => 1.0,
            false => self.lanes.cores as f64,
        };
        let loaded = load * (part + (1.0 - part) * times) * rate(far, near) as f64;
        let stored = sum.store as f64 * rate(target.held.name, far) as f64;
        let all = (loaded + stored) / target.far.bytes_per_cycle.max(1) as f64;
        sum.load = each.max(all) as i64;
        sum.store = (sum.store as f64 / gain) as i64;
        let by_thread = if on_units { sum.thread } else { sum.compute };
        sum.divide(by_thread, |cycles| (cycles as f64 / gain) as i64);
    }
}
