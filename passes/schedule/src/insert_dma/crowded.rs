//! Stores that the thread waits to start: it goes through an iteration in order, so the calls of the next one wait with it.

use std::collections::BTreeMap;

use tir::remarks::QUEUE_FULL;
use tir::{Diagnostic, Ir, Name, OpId};
use tir_accel::MachineInfo;
use tir_loop::For;

use crate::spread::{Started, calls, starts};

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
        // Not in loops that make calls: between those of their starts units work.
        let at_once = |op: OpId| calls(ir, op) == 0;
        let mut all: BTreeMap<Name, Started> = BTreeMap::new();
        let found = ir.ops_in(body).filter_map(|op| starts(ir, op, &at_once));
        for (engine, started) in found.flatten() {
            let sum = all.entry(engine).or_insert(Started {
                count: 0,
                ..started
            });
            sum.count = sum.count.saturating_add(started.count);
        }
        for engine in &machine.engines {
            let stores = machine.far().is_some_and(|far| far.name == engine.to);
            let Some(Started { count, first }) = all.get(&engine.name).filter(|_| stores) else {
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
