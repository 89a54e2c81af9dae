//! What a chain costs: the work of its stages one after the other or beside each other, and the tiles that lie in near
//! memory at once.

use std::sync::Arc;

use tir::{AffineMap, Ir, Name, Type, Value};
use tir_accel::machine::SpaceInfo;

use super::begins::{Begin, hidden};
use super::filling::fill;
use super::late::{Held, late};
use super::pipeline::{Work, compute, run};
use super::search::{MARGIN, Refused};
use super::stage::Context;
use super::{Made, Stage};
use crate::group::Input;
use crate::layout::Tile;
use crate::plan::{Cost, Hold, Holder, Plan, Target, boxes, excess, fit, hold, near_bytes};

/// Cycles of a plan's points that no unit computes: those of the thread, which starts all else.
pub(super) fn by_thread(plan: &Plan) -> i64 {
    match plan.unit {
        Some(_) => plan.thread,
        None => plan.cost.compute,
    }
}

/// What a nest of one stage costs: its units work beside each other, if they can.
fn beside(plan: &Plan) -> Cost {
    if plan.cost.in_order {
        return in_turn(plan);
    }
    let longest = plan.busy.iter().map(|(_, cycles)| *cycles).max();
    let mut cost = plan.cost.clone();
    let longest = longest.map(|longest| longest.saturating_add(by_thread(plan)));
    cost.compute = cost.compute.max(longest.unwrap_or(0));
    cost
}

/// What a stage costs as a nest that is priced.
pub(super) fn priced(stage: &Stage) -> Cost {
    match stage.depth() {
        0 => beside(&stage.plan),
        _ => stage.plan.cost.clone(),
    }
}

/// What a stage costs if its units work one after the other.
fn in_turn(plan: &Plan) -> Cost {
    let all = plan.busy.iter().map(|(_, cycles)| *cycles);
    let mut cost = plan.cost.clone();
    cost.compute = all.fold(by_thread(plan), i64::saturating_add);
    cost
}

/// What a stage costs where each waits for the one before: beside the unit that is busy longest others work on the blocks
/// before, and on the last one of each tile behind it.
pub(super) fn serial(stage: &Stage) -> Cost {
    let plan = &stage.plan;
    let mut cost = in_turn(plan);
    let longest = plan.busy.iter().map(|(_, cycles)| *cycles).max();
    if let (Some(longest), Some(_), false) = (longest, &plan.unit, plan.cost.in_order) {
        let own = by_thread(plan);
        let blocks = stage.group.iterators(false).map(|d| plan.space.tile[d]);
        let blocks = blocks.fold(1, i64::saturating_mul).max(1);
        let others = cost.compute - own - longest;
        cost.compute = longest.saturating_add(others / blocks).saturating_add(own);
    }
    cost
}

/// Cycles of a nest of one stage, by the same measure: its units work beside each other.
pub(super) fn alone(plan: &Plan, thread: i64) -> i64 {
    beside(plan).total(thread)
}

/// Does something with a stage and all that compute for it, in a fixed order.
pub(super) fn each(stage: &mut Stage, work: &mut dyn FnMut(&mut Stage)) {
    work(stage);
    let made = stage.segments.iter_mut().flat_map(|s| &mut s.made);
    for part in made.flat_map(|made| &mut made.parts) {
        each(part, work);
    }
}

/// Counts the bytes of the tile of an operand again.
pub(super) fn resize(ir: &Ir, target: &Target<'_>, stage: &mut Stage, operand: usize) {
    let plan = &mut stage.plan;
    let elem = ir.ty(stage.group.operands[operand].source).elem();
    let align = target
        .info
        .space(plan.spaces[operand])
        .map_or(1, |s| s.align);
    let holder = &mut plan.holders[operand];
    let slots = (holder.bytes / holder.one.max(1)).max(1);
    holder.one = near_bytes(&plan.tiles[operand], elem, align);
    holder.bytes = holder.one.saturating_mul(slots);
}

/// Makes the tiles that others compute as large as what is written into them.
pub(super) fn widen(ir: &Ir, target: &Target<'_>, stage: &mut Stage) {
    let Stage { plan, segments, .. } = stage;
    let mut tiles = plan.tiles.to_vec();
    for made in segments.iter().flat_map(|segment| &segment.made) {
        let dims = &mut Arc::make_mut(&mut tiles[made.operand]).dims;
        for part in &made.parts {
            let space = &part.plan.space;
            let Some(slot) = &part.group.into else {
                continue;
            };
            let own = slot.whole_dims(dims.len());
            for (dim, own) in dims.iter_mut().zip(own) {
                let Some(t) = own else { continue };
                let d = part.group.outer + t;
                let end = slot.at[t] + space.extent(d) * space.trips(d);
                dim.size = dim.size.max(slot.shape[t]).max(end);
            }
            // What is filled behind is not shifted over what was computed; boxes are as large as they are.
            let exact = made.boxes.is_some();
            let units = &part.plan.unit_out;
            for (i, of) in units.iter().enumerate() {
                let t = dims.len() - units.len() + i;
                let block: i64 = of.iter().map(|d| space.block[*d]).product();
                for fill in made.behind.iter().filter(|fill| fill.start[t] > 0) {
                    dims[t].size = dims[t].size.max(fill.end(t, if exact { 1 } else { block }));
                }
            }
        }
    }
    plan.tiles = tiles.into();
    let made = stage.made().map(|made| made.operand);
    for operand in made.collect::<Vec<_>>() {
        resize(ir, target, stage, operand);
    }
}

/// The unit that fills the borders of what is computed for a stage, none for the thread, and its cycles; what is filled
/// before is so once in so many trips.
fn fills(cx: &Context<'_>, made: &Made, space: Name, run: i64) -> (Option<Name>, i64) {
    let Some(part) = made.parts.first() else {
        return (None, 0);
    };
    let unit = part.plan.unit.as_ref();
    let called = unit.and_then(|unit| cx.target.called(unit));
    let cycles = called.map_or(0, |called| called.cycles);
    let elem = part.group.result().map_or(Type::f32(), Type::elem);
    let boxed = |sizes: &[i64]| boxes(cx.target, space, elem, sizes);
    let cut = &part.plan.space;
    let outer = part.group.outer;
    let trips = made.times();
    let once = (trips + run - 1) / run.max(1);
    let before = made.before.iter().filter(|_| made.filled().is_none());
    let before = before.map(|fill| (fill, once));
    let behind = made.behind.iter().filter(|fill| fill.by.is_none());
    let behind = behind.map(|fill| (fill, if fill.rows.is_some() { 1 } else { trips }));
    let blocks = before.chain(behind).map(|(fill, steps)| {
        if let Some((_, cycles)) = boxed(&fill.sizes).filter(|_| made.boxes.is_some()) {
            return cycles.saturating_mul(steps);
        }
        let sizes = fill.sizes.iter().enumerate();
        // A pipeline's tiles have a dimension more.
        let more = fill.sizes.len().saturating_sub(part.plan.out.forms.len());
        let blocks = sizes.map(|(t, size)| {
            let block = t.checked_sub(more).map_or(1, |t| cut.block[outer + t]);
            (size + block - 1) / block.max(1)
        });
        let blocks = blocks.fold(steps, i64::saturating_mul);
        blocks.saturating_mul(cycles)
    });
    let resets = part.plan.resets.map(|(unit, _)| unit);
    (made.boxes.or(resets), blocks.fold(0, i64::saturating_add))
}

/// Cycles of engines that fill borders behind what is computed for a stage, and their transfers.
fn filled_by_engines(cx: &Context<'_>, made: &Made) -> (i64, i64) {
    if made.parts.is_empty() {
        return (0, 0);
    }
    let trips = made.times();
    let engines = made
        .behind
        .iter()
        .filter_map(|fill| cx.target.info.engine(fill.by?));
    engines.fold((0, 0), |(cycles, starts), engine| {
        (
            cycles.saturating_add(engine.latency.saturating_mul(trips)),
            starts.saturating_add(trips),
        )
    })
}

/// Bytes of a space that the tiles of a stage and of all that compute for it take; of what several load before all
/// loops there is one.
pub(super) fn used(stage: &Stage, space: Name) -> i64 {
    used_with(stage, space, &mut Vec::new())
}

fn used_with(stage: &Stage, space: Name, known: &mut Vec<Loaded>) -> i64 {
    let plan = &stage.plan;
    let operands = plan.single.len();
    let loaded = (0..operands).map(|i| Loaded::of(stage, i));
    let again: Vec<bool> = loaded
        .map(|loaded| {
            let Some(loaded) = loaded else { return false };
            let again = known.contains(&loaded);
            known.push(loaded);
            again
        })
        .collect();
    let own = plan.holders.iter().enumerate().filter(|(i, _)| {
        let name = plan.spaces.get(*i).unwrap_or(&plan.held);
        *name == space && !again.get(*i).is_some_and(|again| *again)
    });
    let own = own.map(|(i, holder)| {
        let single = plan.single.get(i).copied();
        let single = single.unwrap_or(i == operands && plan.single_result);
        if single || i > operands {
            holder.one
        } else {
            holder.bytes
        }
    });
    let done = stage.made().filter_map(|made| made.between.as_ref());
    let done = done.filter(|_| plan.held == space).map(|done| done.bytes);
    let parts = stage.made().flat_map(|made| &made.parts);
    let parts = parts.map(|part| used_with(part, space, known));
    own.chain(done).chain(parts).fold(0, i64::saturating_add)
}

/// Counts tiles once that several stages load before all loops; of what begins stages, those of the stage that computes first.
fn share(
    cx: &Context<'_>,
    root: &mut Stage,
    holders: &mut [Holder],
    cost: &mut Cost,
    begins: &mut [Begin],
) {
    let mut known: Vec<(Loaded, usize)> = Vec::new();
    let (mut next, mut number) = (0, 0);
    each(root, &mut |stage| {
        for operand in 0..stage.group.operands.len() {
            let Some(loaded) = Loaded::of(stage, operand) else {
                continue;
            };
            // What stays is loaded by none of them. Where cycles decide what stays, it counts as if it were, but in the price
            // of a program: less would stay otherwise, as a nest that is not the first one seldom waits for all of such a load.
            let near = stage.group.operands[operand].near;
            if near && cx.budget.worth > 0 {
                continue;
            }
            let Some((loaded, last)) = known.iter_mut().find(|(other, _)| *other == loaded) else {
                known.push((loaded, number));
                continue;
            };
            let with = (cx.ir.ty(loaded.source).elem(), cx.budget);
            let (group, plan) = (&stage.group, &mut stage.plan);
            let Some(once) = hold(group, cx.target, plan, operand, 0, with) else {
                continue;
            };
            cost.load = cost.load.saturating_sub(once.load);
            cost.first = cost.first.saturating_sub(once.first);
            let before = &mut begins[std::mem::replace(last, number)].loads;
            *before = before.saturating_sub(once.first).max(0);
            if near {
                cost.taken_off = cost.taken_off.saturating_add(once.load);
            }
            cost.starts = cost.starts.saturating_sub(once.starts);
            let none = Holder {
                bytes: 0,
                one: 0,
                exposed: 0,
            };
            (holders[next + operand], plan.holders[operand]) = (none, none);
        }
        next += stage.plan.holders.len();
        number += 1;
    });
}

/// A tile that is loaded before all loops.
#[derive(PartialEq)]
pub(super) struct Loaded {
    source: Value,
    padding: Option<Value>,
    space: Name,
    shape: Vec<i64>,
    access: AffineMap,
    start: Vec<i64>,
}

impl Loaded {
    /// That of an operand, if it is loaded there.
    pub(super) fn of(stage: &Stage, operand: usize) -> Option<Self> {
        let loaded = Self::with(stage, operand, &stage.plan.tiles[operand]);
        loaded.filter(|_| stage.plan.level(operand) == 0)
    }

    /// That of an operand if it were loaded there as this tile.
    pub(super) fn with(stage: &Stage, operand: usize, tile: &Tile) -> Option<Self> {
        let (far, plan) = (&stage.group.operands[operand], &stage.plan);
        let written = plan.in_place == Some(Input::Operand(operand));
        let other = far.made || far.inner.is_some() || far.flat.is_some() || far.diagonal.is_some();
        (!other && !written).then(|| Self {
            source: far.source,
            padding: far.padding,
            space: plan.spaces[operand],
            shape: tile.shape(),
            access: tile.access(),
            start: (tile.forms.iter().zip(&tile.low))
                .map(|(form, low)| form.constant + low)
                .collect(),
        })
    }
}

impl Stage {
    /// Gives a stage and all that compute for it.
    fn walk(&self, visit: &mut dyn FnMut(&Stage)) {
        visit(self);
        let parts = self.made().flat_map(|made| &made.parts);
        parts.for_each(|part| part.walk(visit));
    }

    /// Cycles of all that compute for it inside of all its loops.
    fn made_inside(&self) -> i64 {
        let loops = self.plan.order.len();
        let inside = self.made().filter(|made| made.level == loops);
        let mut all = 0i64;
        for part in inside.flat_map(|made| &made.parts) {
            part.walk(&mut |stage| all = all.saturating_add(serial(stage).compute));
        }
        all
    }

    /// What it loads itself, and how each of that stays now.
    pub(super) fn own_loads<'s>(
        &'s self,
        cx: &'s Context<'_>,
    ) -> impl Iterator<Item = (Value, Hold)> + 's {
        let plan = &self.plan;
        let operands = self.group.operands.iter().enumerate();
        let loaded = operands.filter(|(_, o)| !o.made && !o.near && o.inner.is_none());
        loaded.filter_map(|(i, operand)| {
            let with = (cx.ir.ty(operand.source).elem(), cx.budget);
            let level = plan.level(i).min(plan.order.len());
            let found = hold(&self.group, cx.target, plan, i, level, with);
            Some((operand.source, found?))
        })
    }

    /// Cycles of all that.
    fn loads(&self, cx: &Context<'_>) -> i64 {
        let cycles = self.own_loads(cx).map(|(_, found)| found.load);
        cycles.fold(0, i64::saturating_add)
    }

    /// Cycles of loads in loops of its own, inside of which nothing else computes: where stages wait for one another, no other
    /// one has work meanwhile. What has one slot is waited for in any case.
    fn streamed(&self) -> i64 {
        let plan = &self.plan;
        let around = self.made().map(|made| made.level).max().unwrap_or(0);
        let own = |i: &usize| !plan.single[*i] && plan.level(*i) > around;
        let loads = (0..plan.single.len()).filter(own).map(|i| {
            let inner = plan.order.iter().take(plan.level(i)).skip(around);
            let trips = inner.map(|d| plan.space.trips(*d));
            let trips = trips.fold(1, i64::saturating_mul).max(1);
            // The first one of each time is loaded while others compute.
            plan.holders[i].exposed / trips * (trips - 1)
        });
        let loads = loads.fold(0, i64::saturating_add);
        loads.min(plan.cost.load - plan.cost.first)
    }
}

/// What a nest takes longer where its segments, each with producers of its own, run one after the other: loads of one are not beside
/// what others compute, but for the first tile.
pub(super) fn segments_in_turn(cx: &Context<'_>, root: &Stage) -> i64 {
    if root.segments.len() < 2 {
        return 0;
    }
    let trips: i64 = root.segments.iter().map(|segment| segment.trips).sum();
    let longest = |[load, compute, store]: [i64; 3]| load.max(compute).max(store);
    let own = serial(root);
    let own = [root.loads(cx), own.compute, own.store];
    let (mut sum, mut all) = (0i64, [0i64; 3]);
    for segment in &root.segments {
        let part = |cycles: i64| cycles.saturating_mul(segment.trips) / trips.max(1);
        let mut work = own.map(part);
        let mut add = |stage: &Stage| {
            work[0] = work[0].saturating_add(stage.loads(cx));
            work[1] = work[1].saturating_add(serial(stage).compute);
        };
        let parts = segment.made.iter().flat_map(|made| &made.parts);
        parts.for_each(|part| part.walk(&mut add));
        sum = sum.saturating_add(longest(work));
        for (all, own) in all.iter_mut().zip(work) {
            *all = all.saturating_add(own);
        }
    }
    sum.saturating_sub(longest(all)).max(0)
}

/// Cycles of the units of a pipeline.
fn beside_each_other(cx: &Context<'_>, root: &mut Stage) -> i64 {
    let trips = run(root);
    let mut work: Vec<Work> = Vec::new();
    each(root, &mut |stage| {
        let plan = &stage.plan;
        let mut own = Work::of(stage);
        own.units.push((None, by_thread(plan)));
        for made in stage.made() {
            own.units
                .push(fills(cx, made, plan.spaces[made.operand], trips));
            if let Some(done) = &made.between {
                let (unit, cycles) = done.work;
                // It is done a trip before the tile is read.
                let lag = stage.depth().saturating_sub(1);
                work.push(Work::beside(lag, unit, cycles));
            }
        }
        work.push(own);
    });
    let loads = cx.target.loads();
    let latency = loads.map(|engine| engine.latency).max().unwrap_or(0);
    compute(root, &work, latency)
}

/// Lets an engine fill what it has time for where it loads less than when the chain was priced: tiles stay.
pub(super) fn fill_again(cx: &Context<'_>, root: &mut Stage, cost: &mut Cost) {
    let mut other = root.clone();
    let cycles = fill(&mut other, cx.target, Some(cost.load));
    if cycles == 0 {
        return;
    }
    let then = Cost {
        load: cost.load.saturating_add(cycles),
        compute: beside_each_other(cx, &mut other),
        ..cost.clone()
    };
    // Units wait for fills that stand behind other loads: a small gain is none.
    let (before, after) = (cost.total(1), then.total(1));
    if after.saturating_add(after / MARGIN) < before {
        (*root, *cost) = (other, then);
    }
}

/// What a chain costs; decides which tiles have one slot so that all fit, or says what does not.
///
/// All tiles of all stages fit at the same time, so there is a place for each however long it lives, at the latest
/// where transfers are scheduled with one slot for each: no chain is refused later that is taken here.
pub(super) fn cost(cx: &Context<'_>, root: &mut Stage) -> Result<Cost, Refused> {
    fill(root, cx.target, None);
    let mut holders: Vec<Holder> = Vec::new();
    let mut spaces: Vec<&SpaceInfo> = Vec::new();
    let mut cost = Cost::default();
    let mut known = true;
    // What is kept for rows, in which space.
    let mut kept: Vec<(Name, i64)> = Vec::new();
    // Whether fills stand behind loads in an engine's queue.
    let mut behind = false;
    let trips = run(root);
    let several = root.depth() > 0;
    let mut begins: Vec<Begin> = Vec::new();
    each(root, &mut |stage| {
        let plan = &stage.plan;
        begins.push(Begin {
            loads: plan.cost.first,
            trip: plan.cost.trip,
        });
        for done in stage.made().filter_map(|made| made.between.as_ref()) {
            kept.push((plan.held, done.bytes));
        }
        let names = (0..plan.holders.len()).map(|i| plan.spaces.get(i).unwrap_or(&plan.held));
        for (holder, name) in plan.holders.iter().zip(names) {
            match cx.target.info.space(*name) {
                Some(space) => spaces.push(space),
                None => known = false,
            }
            holders.push(*holder);
        }
        cost.add(&if several { serial(stage) } else { beside(plan) });
        for made in stage.made() {
            let (_, filled) = fills(cx, made, plan.spaces[made.operand], trips);
            cost.compute = cost.compute.saturating_add(filled);
            let (load, starts) = filled_by_engines(cx, made);
            if let Some(done) = &made.between {
                cost.compute = cost.compute.saturating_add(done.work.1);
            }
            behind |= starts > 0;
            cost.load = cost.load.saturating_add(load);
            cost.starts = cost.starts.saturating_add(starts);
        }
    });
    if several {
        // Units wait for the loads of all stages together, while others of them have work.
        cost.behind = 0;
    }
    if root.turns > 1 {
        cost.compute = beside_each_other(cx, root);
    }
    if !known {
        return Err(Refused::Never("a space is not known".to_string()));
    }
    share(cx, root, &mut holders, &mut cost, &mut begins);
    cost.hidden = hidden(&begins);
    for (name, bytes) in kept {
        let (one, exposed) = (bytes, 0);
        spaces.extend(cx.target.info.space(name));
        holders.push(Holder {
            bytes,
            one,
            exposed,
        });
    }
    cost.exposed = 0;
    let single = fit(&holders, &spaces, |bytes| excess(&spaces, bytes, cx.budget));
    let bytes: Vec<i64> = holders
        .iter()
        .zip(&single)
        .map(|(holder, single)| if *single { holder.one } else { holder.bytes })
        .collect();
    if let Some(over) = excess(&spaces, &bytes, cx.budget) {
        return Err(Refused::TooLarge(over));
    }
    let in_turn = several && root.turns < 2 && !cost.in_order;
    // Cycles that units of stages wait for what these load in loops of their own.
    let mut waits = 0i64;
    // What the others compute for a tile of the result, beside which the one before is stored.
    let mut beside_stores = if in_turn { root.made_inside() } else { 0 };
    let mut next = 0;
    let mut held: Vec<Held> = Vec::new();
    each(root, &mut |stage| {
        let plan = &mut stage.plan;
        let operands = plan.single.len();
        let own = &single[next..next + plan.holders.len()];
        plan.single = own[..operands].to_vec();
        // With one slot for each buffer there is one for the result too.
        let result = &plan.holders[operands];
        plan.single_result = own[operands] || result.bytes == result.one;
        for (i, (holder, single)) in plan.holders.iter().zip(own).enumerate() {
            if *single {
                let hidden = if i == operands { beside_stores } else { 0 };
                let exposed = (holder.exposed - hidden).max(0);
                cost.exposed = cost.exposed.saturating_add(exposed);
            }
        }
        beside_stores = 0;
        next += plan.holders.len();
        held.push(stage.held());
        if in_turn {
            let own = stage.streamed() - serial(stage).compute;
            waits = waits.saturating_add(own.max(0));
        }
    });
    // A part of that is in what runs beside the longest.
    let more = cost.compute.saturating_add(waits) - cost.taken();
    if in_turn && waits > 0 && more > 0 {
        cost.exposed = cost.exposed.saturating_add(more);
    }
    if !cost.in_order {
        cost.apart = segments_in_turn(cx, root);
    }
    let late = late(root, &held);
    for (i, held) in held.iter().enumerate() {
        // A load of each trip that waits for its only slot holds up the fills behind it in the engine's queue, so stages
        // wait for it twice; not for that of the stage that computes late.
        let more = match late {
            Some((late, others)) if late == i => -held.loads.min(others),
            _ if behind => held.loads,
            _ => 0,
        };
        cost.exposed = cost.exposed.saturating_add(more);
    }
    root.plan.bytes = bytes.iter().copied().fold(0, i64::saturating_add);
    Ok(cost)
}
