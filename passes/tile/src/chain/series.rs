//! Nests one behind another: what they take together, where the first loads of one go on beside the one before.
//!
//! A nest alone waits for its first loads and ends with its last store. In a program engines store what one nest computed
//! while units begin with the next one, and what the next one loads first is loaded while the one before has its last trips,
//! if near memory has room for both and no nest writes it until then. So nests are played through in the order of the
//! program: one clock for units, one for each direction of engines, and for each tensor when it lies in far memory.

use std::collections::HashMap;

use tir::{Ir, OpId, Value};
use tir_tensor::Generic;

use super::Stage;
use super::cost::priced;
use super::stage::Context;
use crate::plan::{Cost, hold};

/// A nest, as its neighbours see it.
pub(super) struct Played {
    /// What it takes alone.
    cost: Cost,
    cycles: i64,
    /// What it loads before anything is computed: cycles, bytes of near memory, and of which tensor.
    loads: Vec<(i64, i64, Value)>,
    /// Generics whose results it writes to far memory.
    writes: Vec<OpId>,
    /// Bytes of near memory, and how many it may take.
    bytes: i64,
    room: i64,
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
            first_loads(cx, stage, &mut loads);
        }
        Self {
            cost,
            cycles,
            loads,
            writes,
            bytes,
            room,
        }
    }
}

impl Played {
    /// Cycles of the engines.
    pub(super) fn moved(&self) -> i64 {
        self.cost.moved()
    }
}

/// The first loads of a stage and of all that compute for it.
fn first_loads(cx: &Context<'_>, stage: &Stage, loads: &mut Vec<(i64, i64, Value)>) {
    for (number, operand) in stage.group.operands.iter().enumerate() {
        if operand.made || operand.near || operand.inner.is_some() {
            continue;
        }
        let with = (cx.ir.ty(operand.source).elem(), cx.budget);
        let level = stage.plan.level(number).min(stage.plan.order.len());
        let found = hold(&stage.group, cx.target, &stage.plan, number, level, with);
        if let Some(found) = found {
            loads.push((found.first, found.holder.bytes, operand.source));
        }
    }
    for made in stage.made() {
        for part in &made.parts {
            first_loads(cx, part, loads);
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

/// Cycles of nests in the order in which they run.
pub(super) fn series(ir: &Ir, nests: &[Played]) -> i64 {
    let mut far: HashMap<OpId, i64> = HashMap::new();
    let (mut units, mut load, mut store) = (0i64, 0i64, 0i64);
    // Bytes of near memory that the nest before leaves.
    let mut free = 0i64;
    for nest in nests {
        let cost = &nest.cost;
        if cost.in_order {
            let end = units.max(load).max(store).saturating_add(nest.cycles);
            (units, load, store) = (end, end, end);
            continue;
        }
        let known = nest.loads.iter().map(|(cycles, ..)| *cycles);
        let known = known.fold(0, i64::saturating_add).max(1);
        let mut waiting: Vec<(i64, i64)> = Vec::new();
        for (cycles, bytes, source) in &nest.loads {
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
            let part = i128::from(*cycles) * i128::from(cost.first) / i128::from(known);
            waiting.push((ready, i64::try_from(part).unwrap_or(*cycles)));
        }
        waiting.sort_unstable();
        let mut loaded = load;
        for (ready, cycles) in waiting {
            loaded = loaded.max(ready).saturating_add(cycles);
        }
        let ends = cost.waited().saturating_add(cost.last);
        let body = nest.cycles.saturating_sub(ends).max(0);
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
    }
    units.max(load).max(store)
}
