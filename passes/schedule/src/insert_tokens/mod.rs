//! `insert-tokens`: orders the queues with tokens, and lets the thread wait where it must.
//!
//! A run of the command stream shows which hazards no order fulfils. Each is lifted to a token of
//! the text: "all work that was started on this queue up to that point, so many runs of the point
//! ago". Such a token is a variable that is set at some points and read at others, with a history;
//! loops carry it where a later iteration reads it. An edge without which all hazards are still
//! fulfilled is taken out.

mod lift;
mod weave;

use tir::{At, Failure, Ir, OpId, Sym};
use tir_accel::{Call, DmaStart, DmaWait, MachineInfo, Mark, Ready};

pub use crate::passes::InsertTokens;

use crate::edit;
use crate::order::{Edge, Record, prune};
use crate::stream::{Stream, starts_work};

use lift::lift;
use weave::Weave;

/// A use of a variable: how many settings ago.
#[derive(Clone, Debug)]
struct Wanted {
    edge: Edge,
    points: Vec<usize>,
    back: usize,
}

impl InsertTokens {
    /// Runs on the function at the root of an arena.
    pub fn apply(&self, ir: &mut Ir, machine: &MachineInfo) -> Result<(), Failure> {
        strip(ir);
        if self.sync {
            return wait_at_once(ir, machine);
        }
        let blocks = |op: OpId| ir.regions(op).any(|region| ir.blocks(region).len() > 1);
        if blocks(ir.root()) || ir.walk_ids().into_iter().any(blocks) {
            return wait_at_once(ir, machine);
        }
        let Ok(stream) = Stream::new(ir, machine) else {
            return wait_at_once(ir, machine);
        };
        let Ok(record) = Record::new(ir, &stream, self.limit) else {
            // The first run finds what is wrong with the text; a stream that is too long is not.
            stream.run(ir, u64::MAX, &mut Nothing)?;
            return wait_at_once(ir, machine);
        };
        let mut wanted = lift(ir, &stream, &record);
        if self.prune {
            let edges: Vec<Edge> = wanted.iter().map(|w| w.edge.clone()).collect();
            let keep = prune(&record, &edges);
            let mut keep = keep.into_iter();
            wanted.retain(|_| keep.next().unwrap_or(true));
        }
        Weave::new(ir, &stream, wanted).run();
        Ok(())
    }
}

struct Nothing;
impl crate::stream::Sink for Nothing {
    fn event(&mut self, _: &crate::stream::Event<'_>) -> Result<(), Failure> {
        Ok(())
    }
    fn point(&mut self, _: usize) {}
}

/// Takes all waits and `after` tokens out of a function.
pub fn strip(ir: &mut Ir) {
    for op in ir.walk_ids() {
        if ir.is::<DmaWait>(op) {
            ir.erase(op);
        } else if let Some(group) = after_group(ir, op) {
            edit::set_group(ir, op, group, &[]);
        }
    }
    edit::drop_dead_carried(ir, tir_accel::token());
    drop_unused(ir);
}

pub(crate) fn drop_unused(ir: &mut Ir) {
    for op in ir.walk_ids() {
        if (ir.is::<Mark>(op) || ir.is::<Ready>(op)) && ir.is_unused(ir.result(op, 0)) {
            ir.erase(op);
        }
    }
}

/// The operand group of a start that holds its tokens.
pub fn after_group(ir: &Ir, op: OpId) -> Option<usize> {
    if ir.is::<Call>(op) {
        Some(1)
    } else if ir.is::<DmaStart>(op) {
        Some(4)
    } else {
        None
    }
}

fn wait_at_once(ir: &mut Ir, machine: &MachineInfo) -> Result<(), Failure> {
    for op in ir.walk_ids() {
        if !starts_work(ir, op) || after_group(ir, op).is_none() {
            continue;
        }
        let mut b = ir.at(At::After(op));
        let token = match b.ir.get::<Call>(op) {
            Some(call) => {
                let unit = machine
                    .intrinsic(call.callee.0)
                    .ok_or("calls what the machine has not")?
                    .unit;
                b.add(Mark { queue: Sym(unit) })
            }
            None => b.ir.result(op, 0),
        };
        b.add(DmaWait {
            tokens: vec![token],
        });
    }
    Ok(())
}
