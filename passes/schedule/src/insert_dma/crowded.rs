//! Stores that the thread waits to start: it goes through an iteration in order, so the calls of the next one wait with it.

use std::collections::BTreeMap;

use tir::remarks::QUEUE_FULL;
use tir::{Diagnostic, Ir, Name, OpId};
use tir_accel::{DmaStart, MachineInfo};
use tir_loop::For;

use crate::index::Counter;
use crate::spread::calls;

/// Starts by engine, each with the first op that starts there.
type Starts = BTreeMap<Name, (i64, OpId)>;

/// A remark for each loop that makes calls and, behind them, starts more stores in an iteration than their queue holds.
pub(super) fn crowded(ir: &Ir, machine: &MachineInfo) -> Vec<Diagnostic> {
    let mut remarks = Vec::new();
    for op in ir.walk_ids() {
        if !ir.is::<For>(op) || calls(ir, op) == 0 {
            continue;
        }
        let Some(body) = ir.body_block(op, 0) else {
            continue;
        };
        let mut all = Starts::new();
        for inside in ir.ops_in(body) {
            add(&mut all, at_once(ir, inside), 1);
        }
        for engine in &machine.engines {
            let stores = machine.far().is_some_and(|far| far.name == engine.to);
            let Some((count, first)) = all.get(&engine.name).filter(|_| stores) else {
                continue;
            };
            if *count <= engine.queue {
                continue;
            }
            let text = format!(
                "{count} stores of an iteration are started at once, the queue of @{} holds {}: the thread waits before the \
                 units are given work",
                engine.name, engine.queue
            );
            let help =
                format!("a queue of {count} holds all; an engine of more dimensions takes fewer");
            let remark = Diagnostic::remark(text).category(QUEUE_FULL);
            remarks.push(remark.at(ir.loc(*first)).note(help));
        }
    }
    remarks
}

/// The starts of an op and of what is below it, but for loops in which calls are made between them.
fn at_once(ir: &Ir, op: OpId) -> Starts {
    if let Some(start) = ir.get::<DmaStart>(op) {
        return Starts::from([(start.engine.0, (1, op))]);
    }
    let mut all = Starts::new();
    let mut times = 1;
    if ir.is::<For>(op) {
        if calls(ir, op) > 0 {
            return all;
        }
        times = Counter::of(ir, op).map_or(1, |counter| counter.trips);
    }
    for block in ir.regions(op).flat_map(|region| ir.blocks(region)) {
        for inside in ir.ops_in(block) {
            add(&mut all, at_once(ir, inside), times);
        }
    }
    all
}

fn add(all: &mut Starts, more: Starts, times: i64) {
    for (engine, (count, first)) in more {
        let sum = all.entry(engine).or_insert((0, first));
        sum.0 = sum.0.saturating_add(count.saturating_mul(times));
    }
}
