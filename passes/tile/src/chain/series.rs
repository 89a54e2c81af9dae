//! Nests one behind another: what they take together, where the first loads of one go on beside the one before.
//!
//! A nest alone waits for its first loads and ends with its last store. In a program engines store what one nest computed
//! while units begin with the next one, and what the next one loads first is loaded while the one before has its last trips,
//! if near memory has room for both and no nest writes it until then. So nests are played through in the order of the
//! program: one clock for units, one for each direction of engines, and for each tensor when it lies in far memory.
//!
//! A nest that loads for longer than anything else in it has some of that loaded in the nests before, while their engine has time
//! and near memory is free from there on (`schedule-transfers`, decision 0172).

use std::collections::HashMap;

use tir::{Ir, OpId, Value};
use tir_tensor::Generic;

use super::Stage;
use super::cost::priced;
use super::stage::Context;
use crate::plan::Cost;

/// A nest, as its neighbours see it.
pub(super) struct Played {
    /// What it takes alone.
    cost: Cost,
    cycles: i64,
    /// What it loads.
    loads: Vec<Load>,
    /// Bytes that the engine loads in a cycle.
    rate: i64,
    /// Cycles of the thread for a scalar operation.
    thread: i64,
    /// Generics whose results it writes to far memory.
    writes: Vec<OpId>,
    /// Bytes of near memory, and how many it may take.
    bytes: i64,
    room: i64,
}

/// What a stage loads of a tensor.
struct Load {
    source: Value,
    /// Cycles before anything is computed, and those behind.
    first: i64,
    rest: i64,
    /// Bytes of near memory.
    bytes: i64,
}

/// How many nests before its own tiles are loaded in at most: `schedule-transfers` looks at as many, each of which is several loops where
/// borders are filled or pipelines drain.
pub(super) const REACH: usize = 8;

/// A nest that was played: what others may load in it.
struct Past {
    /// Cycles of its engine.
    idle: i64,
    /// Bytes of near memory.
    free: i64,
    writes: Vec<OpId>,
}

impl Played {
    /// A nest of some stages, each with all that computes for it; `in_full` as a program is priced.
    pub(super) fn new(
        cx: &Context<'_>,
        stages: &[&Stage],
        thread: i64,
        (bytes, room): (i64, i64),
        writes: Vec<OpId>,
        in_full: bool,
    ) -> Self {
        let (mut cost, mut cycles) = (Cost::default(), 0i64);
        let mut loads = Vec::new();
        for stage in stages {
            let own = priced(stage);
            let own = if in_full { own.in_full() } else { own };
            cycles = cycles.saturating_add(own.price(thread));
            cost.add(&own);
            all_loads(cx, stage, &mut loads);
        }
        let (far, near) = (cx.target.far.name, cx.target.near.name);
        let engine = cx.target.info.engine_between(far, near);
        Self {
            cost,
            cycles,
            loads,
            rate: engine.map_or(1, |engine| engine.bytes_per_cycle.max(1)),
            thread,
            writes,
            bytes,
            room,
        }
    }
}

impl Played {
    /// With a tensor that is loaded before it begins, and stays: cycles of the engine, and bytes.
    pub(super) fn loads_first(&mut self, source: Value, cycles: i64, bytes: i64) {
        self.loads.push(Load {
            source,
            first: cycles,
            rest: 0,
            bytes,
        });
    }
    /// Cycles of the engines.
    pub(super) fn moved(&self) -> i64 {
        self.cost.moved()
    }
}

/// What a stage and all that compute for it load.
fn all_loads(cx: &Context<'_>, stage: &Stage, loads: &mut Vec<Load>) {
    loads.extend(stage.own_loads(cx).map(|(source, found)| Load {
        source,
        first: found.first,
        rest: found.load.saturating_sub(found.first).max(0),
        bytes: found.holder.bytes,
    }));
    for made in stage.made() {
        for part in &made.parts {
            all_loads(cx, part, loads);
        }
    }
}

/// The generics that a value is computed by, through what only views it or puts it together.
fn computed_by(ir: &Ir, value: Value) -> Vec<OpId> {
    let (mut found, mut work) = (Vec::new(), vec![value]);
    while let Some(op) = work.pop().and_then(|value| ir.owner(value)) {
        if ir.is::<Generic>(op) {
            found.push(op);
        } else {
            work.extend(ir.operands(op));
        }
    }
    found
}

/// Cycles of what a nest loads that are loaded in the nests before it; their time and their memory are taken.
fn early(ir: &Ir, nest: &Played, past: &mut [Past]) -> i64 {
    let cost = &nest.cost;
    let others = cost.compute.max(cost.store).max(cost.issue);
    // Its first loads are those of the nest before.
    let first = cost.first.min(cost.load);
    if let Some(before) = past.last_mut() {
        before.idle = (before.idle - first).max(0);
    }
    let mut excess = (cost.load - first).saturating_sub(others).max(0);
    let mut free = (nest.room - nest.bytes).max(0);
    // What computes it, cycles, and those of a tile: they come whole.
    let mut rest: Vec<(Vec<OpId>, i64, i64)> = Vec::new();
    if excess > 0 && free > 0 {
        let moved = nest.loads.iter().filter(|load| load.rest > 0);
        let moved = moved.map(|load| {
            let by = computed_by(ir, load.source);
            (by, load.rest, load.first.max(1))
        });
        rest.extend(moved);
    }
    let (mut all, reach) = (0i64, past.len().saturating_sub(REACH));
    for at in (reach..past.len()).rev() {
        let before = &past[at];
        // What is written there or behind it is not there yet.
        rest.retain(|(ops, ..)| !ops.iter().any(|op| before.writes.contains(op)));
        free = free.min(before.free);
        let mut most = excess.min(before.idle).min(free / nest.rate).max(0);
        let mut taken = 0i64;
        for (_, left, tile) in &mut rest {
            let own = most.min(*left) / *tile * *tile;
            *left -= own;
            most -= own;
            taken = taken.saturating_add(own);
        }
        let bytes = taken.saturating_mul(nest.rate);
        past[at].idle -= taken;
        for held in &mut past[at..] {
            held.free = (held.free - bytes).max(0);
        }
        free -= bytes;
        excess -= taken;
        all = all.saturating_add(taken);
    }
    all
}

/// Cycles of nests in the order in which they run.
pub(super) fn series(ir: &Ir, nests: &[Played]) -> i64 {
    let mut far: HashMap<OpId, i64> = HashMap::new();
    let (mut units, mut load, mut store) = (0i64, 0i64, 0i64);
    // Bytes of near memory that the nest before leaves.
    let mut free = 0i64;
    let mut past: Vec<Past> = Vec::new();
    for nest in nests {
        let (mut cost, mut cycles) = (nest.cost.clone(), nest.cycles);
        if cost.in_order {
            let end = units.max(load).max(store).saturating_add(nest.cycles);
            (units, load, store) = (end, end, end);
            past.clear();
            continue;
        }
        let ahead = early(ir, nest, &mut past);
        if ahead > 0 {
            cost.load = cost.load.saturating_sub(ahead);
            cost.behind = cost.behind.saturating_sub(ahead).max(0);
            cycles = cycles.min(cost.price(nest.thread));
        }
        let known = nest.loads.iter().map(|load| load.first);
        let known = known.fold(0, i64::saturating_add).max(1);
        let mut waiting: Vec<(i64, i64)> = Vec::new();
        for Load {
            first,
            bytes,
            source,
            ..
        } in &nest.loads
        {
            let written = computed_by(ir, *source).into_iter();
            let ready = written.filter_map(|op| far.get(&op).copied()).max();
            let mut ready = ready.unwrap_or(0);
            if *bytes <= free {
                free -= bytes;
            } else {
                // Its place is taken until the nest before is done.
                ready = ready.max(units);
            }
            // Loads that several stages share are counted once in the sum.
            let part = i128::from(*first) * i128::from(cost.first) / i128::from(known);
            waiting.push((ready, i64::try_from(part).unwrap_or(*first)));
        }
        // What was loaded in the nest before lies beside what that one holds.
        if let Some(before) = past.last_mut() {
            before.free = before.free.min(free);
        }
        waiting.sort_unstable();
        let mut loaded = load;
        for (ready, cycles) in waiting {
            loaded = loaded.max(ready).saturating_add(cycles);
        }
        let ends = cost.waited().saturating_add(cost.last);
        let body = cycles.saturating_sub(ends).max(0);
        let begin = units.max(loaded.saturating_sub(cost.hidden));
        units = begin.saturating_add(body);
        // The next one's loads are started in the last trip but one; those of this one's last trip are done then.
        let trips = cost.trip.saturating_mul(2).min(body);
        load = loaded.max(units - trips);
        store = store.max(units).saturating_add(cost.last);
        for op in &nest.writes {
            far.insert(*op, store);
        }
        free = (nest.room - nest.bytes).max(0);
        let longest = cost.compute.max(cost.store).max(cost.load);
        past.push(Past {
            idle: longest - cost.load,
            free,
            writes: nest.writes.clone(),
        });
    }
    units.max(load).max(store)
}
