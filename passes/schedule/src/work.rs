//! How long queues work for ops: transfers on engines, calls on units, those in loops as often as they run; and how long the
//! thread computes.

use std::collections::BTreeMap;

use tir::{Ir, Name, OpId, Value};
use tir_accel::machine::EngineInfo;
use tir_accel::transfer::Pattern;
use tir_accel::{Apply, Call, DmaStart, MachineInfo};
use tir_loop::{For, If};
use tir_tensor::Generic;

use crate::index::{Counter, total};
use crate::insert_dma::filled;
use crate::multi_buffer::nest_of;
use crate::range::Facts;
use crate::transfer::Transfer;

/// Who works for an op.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Works {
    /// The queue of an engine or a unit.
    Queue(Name),
    /// The thread, which computes what no unit does.
    Thread,
}

/// Cycles by who works.
pub(crate) type Busy = BTreeMap<Works, i64>;

/// What branches count for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branches {
    /// What both ways have in common.
    Least,
    /// Each way as often as it is gone in the loops that the op holds, or stands in: half as often each where that is
    /// not known.
    Often,
}

/// Iterations of the loops around a branch that are looked at to tell how often each way is gone.
const SAMPLES: i64 = 128;

/// Cycles that queues work, and the thread computes, for an op and what is below it; what is not known counts for nothing.
pub(crate) fn busy(ir: &Ir, machine: &MachineInfo, op: OpId, branches: Branches) -> Busy {
    if let Some(own) = one(ir, machine, op) {
        return BTreeMap::from([own]);
    }
    let mut ways = ir.regions(op).map(|region| {
        let mut sum = Busy::new();
        for op in ir.blocks(region).flat_map(|block| ir.ops_in(block)) {
            for (queue, cycles) in busy(ir, machine, op, branches) {
                let all: &mut i64 = sum.entry(queue).or_default();
                *all = all.saturating_add(cycles);
            }
        }
        sum
    });
    let mut out = ways.next().unwrap_or_default();
    if ir.is::<For>(op) {
        let trips = Counter::of(ir, op).map_or(0, |counter| counter.trips);
        for cycles in out.values_mut() {
            *cycles = cycles.saturating_mul(trips);
        }
        return out;
    }
    let Some(branch) = ir.get::<If>(op) else {
        return out;
    };
    let mut other = ways.next().unwrap_or_default();
    let queues: Vec<Works> = out.keys().chain(other.keys()).copied().collect();
    let taken = match branches {
        Branches::Least => 0,
        Branches::Often if queues.is_empty() => 0,
        Branches::Often => taken(ir, op, branch.condition),
    };
    for queue in queues {
        let (then, not) = (
            out.entry(queue).or_default(),
            other.entry(queue).or_default(),
        );
        *then = match branches {
            Branches::Least => (*then).min(*not),
            Branches::Often => {
                let sum = (*then).saturating_mul(taken);
                sum.saturating_add((*not).saturating_mul(SAMPLES - taken)) / SAMPLES
            }
        };
        *not = *then;
    }
    out
}

/// Iterations that samples are taken of at most: the first ones.
const MOST: i64 = 1 << 40;

/// Of [`SAMPLES`] iterations of the loops around a branch those in which its condition holds.
fn taken(ir: &Ir, branch: OpId, condition: Value) -> i64 {
    // In a loop that never runs it holds as often as not.
    let nest = nest_of(ir, branch).filter(|nest| nest.iter().all(|counter| counter.trips > 0));
    let Some(nest) = nest else {
        return SAMPLES / 2;
    };
    let all = total(&nest).clamp(1, MOST);
    // Where there are more, those that are far from a multiple of anything.
    let samples = all.min(SAMPLES);
    let step = if all > SAMPLES { (all * 8 / 13) | 1 } else { 1 };
    let mut sum = 0;
    for sample in 0..samples {
        let mut n = (sample * step) % all;
        let mut facts = Facts::default();
        for counter in nest.iter().rev() {
            facts.say(counter.iv, counter.low + counter.step * (n % counter.trips));
            n /= counter.trips;
        }
        sum += match facts.holds(ir, condition) {
            Some(holds) => 2 * i64::from(holds),
            None => 1,
        };
    }
    sum * SAMPLES / (2 * samples)
}

/// The queue of an op that starts work, or the thread that computes it, and its cycles there.
fn one(ir: &Ir, machine: &MachineInfo, op: OpId) -> Option<(Works, i64)> {
    if let Some(call) = ir.get::<Call>(op) {
        let mut known = machine.intrinsics.iter();
        let called = known.find(|intrinsic| intrinsic.name == call.callee.0)?;
        return Some((Works::Queue(called.unit), called.cycles));
    }
    if let Some(apply) = ir.get::<Apply>(op) {
        let mut known = machine.vectors.iter();
        let unit = known.find(|vector| vector.name == apply.vector.0)?;
        let cycles = unit.nest_cycles(ir, &apply.nest()).ok()?;
        return Some((Works::Queue(unit.unit), cycles));
    }
    // What an engine fills is a transfer.
    if let Some(nest) = ir
        .get::<Generic>(op)
        .filter(|_| filled(ir, machine, op).is_none())
    {
        let cycles = machine.thread_cycles(nest.point_work(ir));
        let cycles = i64::try_from(cycles).unwrap_or(i64::MAX);
        let points = nest.domain(ir).ok()?.into_iter();
        return Some((Works::Thread, points.fold(cycles, i64::saturating_mul)));
    }
    let (engine, pattern) = moves(ir, machine, op)?;
    Some((Works::Queue(engine.name), cycles(engine, &pattern)))
}

/// The engine that an op's transfer goes through, and its pattern.
fn moves<'a>(ir: &Ir, machine: &'a MachineInfo, op: OpId) -> Option<(&'a EngineInfo, Pattern)> {
    if let Some(start) = ir.get::<DmaStart>(op) {
        let mut engines = machine.engines.iter();
        let engine = engines.find(|engine| engine.name == start.engine.0)?;
        let pattern = Pattern::new(ir.ty(start.far), ir.ty(start.tile), &start.access).ok()?;
        return Some((engine, pattern));
    }
    let transfer = Transfer::of(ir, op)?;
    let [from, to] = transfer.spaces(ir, machine)?;
    let engine = machine.engine_between(from, to)?;
    let pattern = Pattern::new(ir.ty(transfer.far), ir.ty(transfer.tile), &transfer.access).ok()?;
    Some((engine, pattern))
}

/// Cycles of a transfer of a tile, of which what lies outside of its source wherever the tile stands is not moved.
fn cycles(engine: &EngineInfo, pattern: &Pattern) -> i64 {
    let mut bytes = pattern.elem;
    let mut inside = vec![1i64; pattern.far_shape.len()];
    for (t, size) in pattern.tile_shape.iter().enumerate() {
        let along = pattern.access.iter().position(|form| form.at(t) != 0);
        let all = along.and_then(|d| inside.get_mut(d)).unwrap_or(&mut bytes);
        *all = all.saturating_mul(*size);
    }
    for (all, size) in inside.iter().zip(&pattern.far_shape) {
        bytes = bytes.saturating_mul(*all.min(size));
    }
    let dims = usize::try_from(engine.dims).unwrap_or(0);
    let within = vec![false; pattern.tile_shape.len()];
    let transfers = pattern.transfers(&within, dims);
    let runs = bytes / pattern.run(engine.square).max(1);
    engine.cycles(bytes, runs, transfers)
}
