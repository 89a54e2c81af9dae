//! What a division of a group's iterators takes: bytes of near memory, cycles of units and engines.
//!
//! A tile is loaded at a *level*: inside of so many of the loops, the innermost that moves it. Where
//! that is none it has one slot, else `depth` of them, for transfers run ahead. *Holders* are what
//! lies in near memory at once: a tile of each operand, of each result, and what is held between
//! steps. Cycles are those of the busiest of loading, storing and computing, and a part of the
//! others; the model of a transfer is the machine's: latency, rows shorter than the engine's granule
//! cost a whole one, and dimensions beyond the engine's are transfers of their own.
//!
//! The estimate only orders divisions. All arithmetic saturates: what is too large is never chosen.

mod behind;
mod units;

pub(super) use units::OnUnit;

use std::sync::Arc;

use behind::Ahead;

use super::cost::Cost;
use super::lanes::{Lanes, shared};
use super::places::Places;
use super::shapes::Tiles;
use super::sizes::any_order;
use super::slots::fit;
use super::traffic::{Holder, Moved, bytes, round_up, slides_in_rings};
use super::unit::{UnitChoice, Way};
use super::vectors::Vectors;
use super::{Budget, Peel, Plan, Target};
use crate::group::{Group, StepRef};
use crate::layout::Space;

/// A division of a group being estimated, in any order of its loops.
pub(super) struct Estimate<'a> {
    group: &'a Group,
    target: &'a Target<'a>,
    unit: Option<&'a UnitChoice>,
    tiles: &'a Tiles<'a>,
    places: &'a Places<'a>,
    budget: Budget,
    vectors: &'a Vectors,
    /// Cycles of all points, where they are computed a level further in.
    staged: Option<i64>,
    lanes: Lanes,
    /// The plan, but for what the order of its loops decides.
    plan: Plan,
    /// What it takes whatever the order.
    fixed: Cost,
    /// The results, and what is held between steps.
    holders: [Holder; 2],
    /// Of all orders so far the fewest cycles without waits and starts.
    pub(super) least_work: i64,
}

/// What a division takes with its loops in an order.
pub(super) struct Ordered {
    /// Bytes of each operand's tile, of the results and of what is accumulated.
    pub(super) bytes: Vec<i64>,
    /// The same with all slots.
    all: Vec<Holder>,
    /// Which of them have one slot.
    single: Vec<bool>,
    cycles: i64,
    cost: Cost,
}

impl Ordered {
    /// Estimated cycles.
    pub(super) fn cycles(&self) -> i64 {
        self.cycles
    }
    /// Bytes of near memory.
    pub(super) fn in_all(&self) -> i64 {
        self.bytes.iter().copied().fold(0, i64::saturating_add)
    }
}

impl<'a> Estimate<'a> {
    pub(super) fn new(
        group: &'a Group,
        target: &'a Target<'a>,
        way: &'a Way,
        tiles: &'a Tiles<'a>,
        budget: Budget,
        vectors: &'a Vectors,
    ) -> Self {
        let unit = way.unit();
        // The loops of all orders in one of them.
        let order = any_order(group, &tiles.space);
        let plan = Plan {
            space: Arc::clone(&tiles.space),
            unit: unit.map(|c| Arc::clone(&c.assignment)),
            order,
            strips: tiles.strips.clone(),
            spaces: Arc::clone(&tiles.spaces),
            held: tiles.places.held.name,
            tiles: Arc::clone(&tiles.operands),
            out: Arc::clone(&tiles.out),
            results: Arc::clone(&tiles.results),
            unit_out: Arc::clone(&tiles.unit_out),
            moves: matches!(way, Way::Moved(_)),
            quicker: false,
            helps: false,
            in_place: None,
            peel: unit.map_or_else(Peel::default, |choice| choice.peel),
            own_accumulator: true,
            hold: vec![None; group.operands.len()],
            single: Vec::new(),
            single_result: false,
            holders: Vec::new(),
            bytes: 0,
            cycles: 0,
            cost: Cost::default(),
            busy: Vec::new(),
            thread: 0,
            resets: None,
            filled: None,
            listed: Vec::new(),
            nearest: None,
        };
        let all = Lanes::of(target, way, tiles.places.held.name);
        let mut estimate = Self {
            group,
            target,
            unit,
            tiles,
            places: tiles.places,
            budget,
            vectors,
            lanes: Lanes {
                cores: if budget.cores { all.cores } else { 1 },
                ..all
            },
            staged: match way {
                Way::Staged(cycles) => Some(*cycles),
                _ => None,
            },
            plan,
            fixed: Cost::default(),
            holders: [Holder::default(); 2],
            least_work: i64::MAX,
        };
        let mut fixed = Cost {
            in_order: target.info.in_order,
            worth: budget.worth,
            ..Cost::default()
        };
        estimate.plan.busy = estimate.busy();
        estimate.plan.thread = estimate.steps_by_thread();
        estimate.holders = [estimate.results(&mut fixed), estimate.held()];
        estimate.plan.resets = estimate.resets();
        fixed.issue = fixed.issue.saturating_add(estimate.issued());
        fixed.compute = fixed.compute.saturating_add(estimate.points());
        (fixed.trip, fixed.tile) = estimate.one(estimate.computed());
        fixed.thread = estimate.plan.thread;
        fixed.last = fixed.last.saturating_add(estimate.tail());
        estimate.fixed = fixed;
        estimate
    }

    /// The least cycles in any order if loads take so much at least, and those without waits and starts; 0 where that is
    /// not known.
    pub(super) fn least(&self, loads: &Cost) -> (i64, i64) {
        if self.lanes.cores > 1 {
            return (0, 0);
        }
        let mut cost = self.fixed.clone();
        cost.add(loads);
        // How much of them is started ahead depends on the order.
        cost.thread = 0;
        (cost.total(self.thread(1)), cost.work())
    }

    /// What it takes with the loops in an order; `None` if that is more than `most` cycles.
    pub(super) fn ordered(&mut self, order: Vec<usize>, most: i64) -> Option<Ordered> {
        self.plan.order = order;
        let mut cycles = self.fixed.clone();
        let mut holders = self.operands(&mut cycles);
        holders.extend(self.holders);
        cycles.exposed = cycles.exposed.saturating_add(self.waits(&cycles));
        if let Some(strips) = &self.plan.strips {
            // Behind the last load is a strip to compute, and the first one of the last trip is stored beside others.
            let strip = cycles.trip / strips.count;
            cycles.tile -= cycles.trip - strip;
            cycles.trip = strip;
        }
        self.share(&mut cycles);
        self.least_work = self.least_work.min(cycles.work());
        if cycles.total(self.thread(1)) > most {
            return None;
        }
        let (places, budget) = (self.places, self.budget);
        let single = fit(&holders, &places.spaces(holders.len()), |bytes| {
            places.excess(bytes, budget)
        });
        let all = holders.clone();
        for (holder, single) in holders.iter_mut().zip(&single) {
            if *single {
                holder.bytes = holder.one;
                cycles.exposed = cycles.exposed.saturating_add(holder.exposed);
            }
        }
        let total = cycles.total(self.thread(1));
        if total > most {
            return None;
        }
        Some(Ordered {
            bytes: holders.iter().map(|holder| holder.bytes).collect(),
            all,
            single,
            cycles: total,
            cost: cycles,
        })
    }

    /// Whether its tiles are wider than those of a plan that takes as long: along the last iterators, whose elements lie nearest to
    /// each other, they are longer. Processors fetch ahead along rows; engines take the same time.
    pub(super) fn is_wider(&self, than: &Plan) -> bool {
        let extents = |space: &Space| -> Vec<i64> {
            let all = (0..self.group.core).rev();
            all.map(|d| space.extent(d)).collect()
        };
        self.target.info.in_order && extents(&self.plan.space) > extents(&than.space)
    }
    /// The plan with the loops in the order that was estimated last.
    pub(super) fn plan(&self, made: Ordered) -> Plan {
        let operands = self.group.operands.len();
        let loops = &self.plan.order[..self.plan.parallel(self.group)];
        let split = self.lanes.split(&self.plan.space, loops);
        let gain = split.map_or(1.0, |(_, gain)| gain);
        let busy = self.plan.busy.iter();
        Plan {
            busy: busy
                .map(|(unit, cycles)| (*unit, shared(*cycles, gain)))
                .collect(),
            single: made.single[..operands].to_vec(),
            single_result: made.single[operands],
            own_accumulator: made.bytes[operands + 1] > made.all[operands + 1].one,
            bytes: made.in_all(),
            holders: made.all,
            cycles: made.cycles,
            cost: made.cost,
            ..self.plan.clone()
        }
    }
    /// Cycles of the thread for so many scalar operations.
    fn thread(&self, ops: u64) -> i64 {
        i64::try_from(self.target.info.thread_cycles(ops)).unwrap_or(i64::MAX)
    }
    /// Of so many cycles of all loops those of one trip, and of one tile of the results.
    fn one(&self, cycles: i64) -> (i64, i64) {
        let trips = |order: &[usize]| {
            let trips = order.iter().map(|d| self.plan.space.trips(*d));
            trips.fold(1, i64::saturating_mul).max(1)
        };
        let tiles = &self.plan.order[..self.plan.parallel(self.group)];
        (cycles / trips(&self.plan.order), cycles / trips(tiles))
    }
    /// Cycles of the unit for one trip of all loops.
    fn trip(&self) -> i64 {
        let trips = self.plan.order.iter().map(|d| self.plan.space.trips(*d));
        let unit = self.plan.busy.first().map_or(0, |(_, cycles)| *cycles);
        unit / trips.fold(1, i64::saturating_mul).max(1)
    }
    /// Cycles of the steps behind the strips of the last tile that no product is computed beside.
    fn tail(&self) -> i64 {
        if self.plan.strips.is_none() {
            return 0;
        }
        let tiles = self.plan.order[..self.plan.parallel(self.group)].iter();
        let tiles = tiles.map(|d| self.plan.space.trips(*d));
        let tiles = tiles.fold(1, i64::saturating_mul).max(1);
        let others = self.plan.busy.iter().skip(1);
        let others = others.map(|(_, cycles)| *cycles).max().unwrap_or(0);
        let blocks = self
            .group
            .iterators(false)
            .map(|d| self.plan.space.covered(d));
        let blocks = blocks.fold(1, i64::saturating_mul);
        let on_vectors = self.steps_on_vectors().map(|(_, cycles)| cycles);
        let on_vectors = on_vectors
            .fold(0, i64::saturating_add)
            .saturating_mul(blocks);
        let behind = others.max(on_vectors).saturating_add(self.plan.thread) / tiles;
        (behind - self.trip()).max(0)
    }
    /// Cycles that the units wait for the operands of a strip, where they stand behind those of the next tile in
    /// the engine's queue.
    fn waits(&self, cycles: &Cost) -> i64 {
        let Some(strips) = &self.plan.strips else {
            return 0;
        };
        let (space, inner) = (&self.plan.space, self.plan.order.len());
        let (mut piece, mut each) = (0i64, 0i64);
        for (i, fixed) in self.tiles.loads.iter().enumerate() {
            let level = self.plan.level(i);
            let Some(engine) = self.places.operands[i].load.filter(|_| level >= inner) else {
                continue;
            };
            if level > inner {
                each = each.saturating_add(fixed.cycles);
            } else {
                let pieces = engine.pieces(fixed.cycles, strips.count);
                piece = piece.saturating_add(fixed.cycles / pieces);
            }
        }
        let trips = self.plan.order.iter().map(|d| space.trips(*d));
        let trips = trips.fold(1, i64::saturating_mul);
        let compute = self.trip() / strips.count;
        let wait = piece.saturating_add(each).saturating_sub(compute);
        let waits = wait.max(0).saturating_mul(trips);
        let longest = cycles.compute.max(cycles.load);
        (cycles.compute.saturating_add(waits) - longest).max(0)
    }
    /// Divides among cores what each does for itself. What all of them load is loaded by each, and all
    /// share the far space.
    fn share(&self, cycles: &mut Cost) {
        let parallel = self.plan.parallel(self.group);
        let (space, order) = (&self.plan.space, &self.plan.order[..parallel]);
        let Some((split, gain)) = self
            .lanes
            .split(space, order)
            .filter(|_| self.staged.is_none())
        else {
            return;
        };
        let cores = self.lanes.cores;
        let (mut all, mut own) = (0i64, 0i64);
        for (i, tile) in self.plan.tiles.iter().enumerate() {
            let Some(engine) = self.places.operands[i].load else {
                continue;
            };
            let moves = tile.moves_with(space, split);
            let level = order[..self.plan.level(i).min(parallel)].iter();
            let count = level.fold(1, |n: i64, d| n.saturating_mul(space.trips(*d)));
            let once = self.tiles.loads[i].cycles.saturating_mul(count);
            let moved = once.saturating_mul(engine.bytes_per_cycle);
            own = own.saturating_add(if moves { shared(once, gain) } else { once });
            // What all of them load is loaded once where it can be passed on.
            let passed = self.target.info.passes_on(self.plan.spaces[i]);
            let times = if moves || passed { 1 } else { cores };
            all = all.saturating_add(moved.saturating_mul(times));
        }
        let stored = cycles
            .store
            .saturating_mul(self.places.store.bytes_per_cycle);
        let all = all.saturating_add(stored) / self.target.far.bytes_per_cycle.max(1);
        cycles.load = shared(cycles.load, gain).max(own).max(all);
        cycles.store = shared(cycles.store, gain);
        let by_thread = match self.target.inner.is_some() {
            true => 0,
            false => self.plan.by_thread(cycles.compute),
        };
        cycles.divide(by_thread, |n| shared(n, gain));
    }
    /// Alignment of what is computed.
    fn align(&self) -> i64 {
        self.places.held.align.max(1)
    }
    /// The vector units, where all tiles lie where they work.
    fn vectors(&self) -> Option<&Vectors> {
        let here = self.places.all_in(self.target.near.name);
        here.then_some(self.vectors)
    }
    fn is_result(&self, step: StepRef) -> bool {
        self.group.outs.iter().any(|out| out.step == step)
    }

    /// Bytes of each operand's tiles; adds what loading or computing them takes.
    fn operands(&self, cycles: &mut Cost) -> Vec<Holder> {
        let mut holders = Vec::new();
        let mut trips = vec![Ahead::default(); self.plan.order.len()];
        for (i, operand) in self.group.operands.iter().enumerate() {
            let strips = self.plan.strips.as_ref();
            let strips = strips.filter(|strips| strips.operands[i]);
            let moved = Moved {
                tile: &self.plan.tiles[i],
                fixed: &self.tiles.loads[i],
                space: &self.plan.space,
                order: &self.plan.order,
                level: self.plan.level(i).min(self.plan.order.len()),
                times: strips.map_or(1, |strips| strips.count),
                elem: bytes(self.tiles.elems[i]),
                shape: &operand.shape,
                engine: self.places.operands[i].load.unwrap_or(self.places.store),
                align: self.places.operands[i].space.align.max(1),
                depth: self.budget.depth,
                slides: slides_in_rings(operand, self.unit.is_some()),
            };
            if let Some(inner) = &operand.inner {
                let ranges = inner.reductions.iter().map(|d| self.group.domain[*d]);
                let each = self.thread(inner.work);
                let by_thread = ranges
                    .chain([each])
                    .fold(moved.tile.elements(), i64::saturating_mul);
                let vectors = self.vectors();
                let on_vectors =
                    vectors.and_then(|v| v.inner(self.group, self.target, &self.plan, i));
                let called = vectors.and_then(|v| v.called(self.group, &self.plan, i));
                let once = on_vectors.into_iter().chain(called).min();
                let once = once.unwrap_or(by_thread);
                let work = match self.staged {
                    Some(_) => 0,
                    None => once.saturating_mul(moved.count()),
                };
                let (trip, tile) = self.one(work);
                cycles.compute = cycles.compute.saturating_add(work);
                cycles.trip = cycles.trip.saturating_add(trip);
                cycles.tile = cycles.tile.saturating_add(tile);
                holders.push(Holder {
                    bytes: moved.near(),
                    one: moved.fixed.one,
                    exposed: work,
                });
                continue;
            }
            // What lies in near memory was counted when it was put there.
            if operand.near {
                holders.push(Holder::default());
                continue;
            }
            // What another nest computes is counted there.
            if operand.made {
                holders.push(Holder {
                    bytes: moved.near(),
                    one: moved.fixed.one,
                    exposed: 0,
                });
                continue;
            }
            let t = moved.traffic();
            cycles.load = cycles.load.saturating_add(t.cycles);
            // Behind a reduction in several tiles the loads of one trip are started ahead.
            let (space, around) = (moved.space, &moved.order[..moved.level]);
            let sums = around.iter().filter(|d| self.group.reductions[**d]);
            let sums = sums.fold(1, |n: i64, d| n.saturating_mul(space.trips(*d)));
            cycles.ahead = cycles.ahead.saturating_add(t.cycles / sums.max(1));
            cycles.first = cycles.first.saturating_add(t.first);
            for (k, loads) in trips[..moved.level].iter_mut().enumerate() {
                if k + 1 < moved.level {
                    let whole = t.next.1.saturating_mul(moved.times);
                    loads.again = loads.again.saturating_add(whole);
                    continue;
                }
                let own = t.next.0.saturating_mul(moved.times);
                let starts = (t.starts / moved.count().max(1)).max(1);
                let pieces = moved.engine.pieces(own, i64::MAX).max(starts);
                loads.own = loads.own.saturating_add(own);
                loads.starts = loads.starts.saturating_add(starts);
                loads.pieces = loads.pieces.saturating_add(pieces);
            }
            cycles.starts = cycles.starts.saturating_add(t.starts);
            let issue = moved.engine.issue.saturating_mul(t.starts);
            cycles.issue = cycles.issue.saturating_add(issue);
            holders.push(Holder {
                bytes: t.near,
                one: t.one,
                exposed: t.cycles - t.first,
            });
        }
        if self.lanes.cores == 1 {
            cycles.behind = cycles
                .behind
                .saturating_add(self.behind(&trips, cycles.trip));
        }
        holders
    }

    /// Bytes of the results' tiles; adds what storing them takes.
    fn results(&self, cycles: &mut Cost) -> Holder {
        let (mut near, mut one, mut exposed) = (0i64, 0i64, 0i64);
        if self.group.into.is_some() {
            // It lies in the tile that the other nest reads.
            return Holder::default();
        }
        for t in self.tiles.stores.iter() {
            near = near.saturating_add(t.near);
            one = one.saturating_add(t.one);
            // Strips are stored while the last trip computes others.
            let shown = match &self.plan.strips {
                Some(strips) => (t.first - self.trip()).max(t.first / strips.count),
                None => t.first,
            };
            let tiles = t.cycles / t.first.max(1);
            exposed = exposed.saturating_add(shown.saturating_mul(tiles - 1));
            cycles.store = cycles.store.saturating_add(t.cycles);
            cycles.last = cycles.last.saturating_add(shown);
            cycles.starts = cycles.starts.saturating_add(t.starts);
            let issue = self.places.store.issue.saturating_mul(t.starts);
            cycles.issue = cycles.issue.saturating_add(issue);
        }
        // What is moved is stored from where it was loaded.
        let moves = self.plan.moves;
        Holder {
            bytes: if moves { 0 } else { near },
            one: if moves { 0 } else { one },
            exposed,
        }
    }

    /// Bytes of accumulators and of steps between, where they are not results themselves.
    fn held(&self) -> Holder {
        let over = self.unit.and_then(|choice| choice.over);
        // Where the result takes the place of the accumulators, a tile is not begun before the result
        // of an earlier one is stored; in a tile of many blocks no block waits for an earlier one.
        let (space, parallel) = (&self.plan.space, self.plan.parallel(self.group));
        let blocks = self.group.iterators(false).map(|d| space.tile[d]);
        let blocks = blocks.fold(1, i64::saturating_mul);
        let few = blocks <= self.budget.depth && !self.plan.splits_reduction(self.group);
        // What the thread computes behind the unit keeps it waiting longer.
        let apart = few || self.unit.is_some_and(|choice| !choice.others.is_empty());
        let tiles = self.plan.order[..parallel].iter();
        let tiles = tiles.map(|d| space.trips(*d));
        Holder {
            bytes: self.held_bytes(over.is_none_or(|over| apart && !over.only)),
            one: self.held_bytes(over.is_none()),
            exposed: tiles.fold(self.places.store.latency, i64::saturating_mul),
        }
    }

    fn held_bytes(&self, own: bool) -> i64 {
        // A level further in there is one nest, and nothing lies here between its steps.
        if self.plan.moves || self.staged.is_some() {
            return 0;
        }
        let (group, plan, depth) = (self.group, &self.plan, self.budget.depth);
        // What is held between steps is as large as the largest of them.
        let steps = group.reduce.iter().map(|(s, ..)| s).chain(&group.maps);
        let elem = steps.map(|s| bytes(s.ty.elem())).max().unwrap_or(1);
        let size = |elements: i64| round_up(elements.saturating_mul(elem), self.align());
        let tile = size(plan.out.elements());
        let between = |i: &usize| !self.is_result(StepRef::Mapped(*i));
        let steps = (0..group.maps.len()).filter(between).count() as i64;
        let accumulates = group.reduce.is_some() && own && !self.is_result(StepRef::Reduced);
        let accumulators = i64::from(accumulates);
        // Without a loop around it, what is held for a tile is there once.
        let around = plan.parallel(group) > 0;
        let tile = tile.saturating_mul(if around { depth } else { 1 });
        if self.unit.is_none() {
            return tile.saturating_mul(accumulators + steps);
        }
        let block = plan.unit_out.iter().flatten().map(|d| plan.space.block[*d]);
        let block = size(block.fold(1, i64::saturating_mul));
        if plan.splits_reduction(group) {
            // An accumulator for all of the tile; elementwise steps follow block by block.
            let blocks = block.saturating_mul(depth * steps);
            return tile.saturating_mul(accumulators).saturating_add(blocks);
        }
        let several = |d: usize| plan.space.tile[d] > 1 || plan.space.trips(d) > 1;
        let inside = group.iterators(false).any(several);
        block.saturating_mul(if inside { depth } else { 1 } * (accumulators + steps))
    }
}
