//! `insert-tokens`: orders the queues with tokens, and lets the thread wait where it must.
//!
//! A run of the command stream shows which hazards no order fulfils. Each is lifted to a token of
//! the text: "all work that was started on this queue up to that point, so many runs of the point
//! ago". Such a token is a variable that is set at some points and read at others, with a history;
//! loops carry it where a later iteration reads it. An edge without which all hazards are still
//! fulfilled is taken out.

mod static_edges;
mod steady;
mod token_values;

use tir::{At, Diagnostic, Failure, Ir, MemRefType, OpId, Sym};
use tir_accel::eval::Stopped;
use tir_accel::{Acquire, Apply, Call, DmaStart, DmaWait, MachineInfo, Mark, Ready};
use tir_loop::{For, If};

pub use crate::passes::InsertTokens;

use crate::dry_run::dry_run;
use crate::edit;
use crate::order::{Edge, Record, prune};
use crate::stream::{Stream, starts_work};

use static_edges::static_edges;
use steady::Steady;
use token_values::TokenValues;

/// A use of a variable: how many settings ago.
#[derive(Clone, Debug)]
struct Wanted {
    edge: Edge,
    points: Vec<usize>,
    back: usize,
}

impl InsertTokens {
    /// Runs on the function at the root of an arena. Gives a warning where the thread waits for
    /// each start at once, though that was not asked for.
    pub fn apply(&self, ir: &mut Ir, machine: &MachineInfo) -> Result<Option<Diagnostic>, Failure> {
        strip(ir);
        if self.sync {
            self.wait_at_once(ir, machine)?;
            return Ok(None);
        }
        let refused = out_of_reach(ir)
            .or_else(|| calls(ir))
            .or_else(|| unsized_argument(ir));
        if let Some(Refused { op, why, note }) = refused {
            let why = Diagnostic::error(why).at(ir.loc(op));
            // Where nothing is started there is nothing to wait for.
            let starts = ir
                .walk_ids()
                .into_iter()
                .any(|op| op != ir.root() && starts_work(ir, op));
            self.wait_at_once(ir, machine)?;
            return Ok(starts.then(|| synchronous(ir, why, note)));
        }
        let recorded = match Steady::of(ir, machine, self.full) {
            Some(Steady { ir: clone, markers }) => {
                Stream::record_twin(ir, &clone, &markers, None, machine, self.limit)
            }
            None => Stream::record(ir, None, machine, self.limit),
        };
        let stream = match recorded {
            Ok(stream) => stream,
            Err(Stopped::Wrong(error)) => return Err(error),
            Err(Stopped::Data(why)) => {
                self.wait_at_once(ir, machine)?;
                let note = "tokens are found by a run without data, which must not depend on any";
                return Ok(Some(synchronous(ir, *why, note)));
            }
            Err(Stopped::Limit(why)) => {
                self.wait_at_once(ir, machine)?;
                let note = format!("insert-tokens{{limit=N}} allows more than {}", self.limit);
                return Ok(Some(synchronous(ir, *why, &note)));
            }
        };
        let record = Record::new(&stream);
        let mut wanted = static_edges(ir, &stream, &record);
        if self.prune {
            let edges: Vec<Edge> = wanted.iter().map(|w| w.edge.clone()).collect();
            let keep = prune(&record, &edges);
            let mut keep = keep.into_iter();
            wanted.retain(|_| keep.next().unwrap_or(true));
        }
        TokenValues::new(ir, &stream, wanted).run();
        Ok(None)
    }

    /// Lets the thread wait for each start. An error where a semaphore is acquired, if that is not known to go on: the thread may be what
    /// releases it, behind the start that it waits for.
    fn wait_at_once(&self, ir: &mut Ir, machine: &MachineInfo) -> Result<(), Failure> {
        let acquires = ir.walk_ids().into_iter().find(|op| ir.is::<Acquire>(*op));
        let Some(acquires) = acquires else {
            return wait_at_once(ir, machine);
        };
        let at = ir.loc(acquires);
        wait_at_once(ir, machine)?;
        let Err(why) = dry_run(ir, None, machine, self.limit) else {
            return Ok(());
        };
        let text = "the thread would wait for each start at once, and work behind this acquire may start only after a release that comes later";
        let error = Diagnostic::error(text).at(at).note(why.message.clone());
        let help = "help: keep the tokens and waits that are there, without this pass";
        Err(Box::new(error.note(help)))
    }
}

/// The warning that nothing overlaps, and why.
fn synchronous(ir: &Ir, why: Diagnostic, note: &str) -> Diagnostic {
    let loc = match why.loc.is_unknown() {
        true => ir.loc(ir.root()),
        false => why.loc,
    };
    let text = "the thread waits for each start at once, so nothing overlaps: ";
    let warning = Diagnostic::warning(format!("{text}{}", why.message)).at(loc);
    warning.category(tir::remarks::SYNCHRONOUS).note(note)
}

/// An op for which no tokens are looked for.
struct Refused {
    op: OpId,
    why: &'static str,
    note: &'static str,
}

/// The first op that may call another function.
pub(crate) fn calling(ir: &Ir) -> Option<OpId> {
    let mut ops = ir.walk_ids().into_iter();
    ops.find(|op| *op != ir.root() && !ir.may_call(*op).is_empty())
}

/// A call of another function, which may start work too.
fn calls(ir: &Ir) -> Option<Refused> {
    Some(Refused {
        op: calling(ir)?,
        why: "another function is called",
        note: "tokens are found by a run of one function alone",
    })
}

/// A function that takes a buffer of a size that is not known, of which there is none for a run without data.
fn unsized_argument(ir: &Ir) -> Option<Refused> {
    let entry = ir.body_block(ir.root(), 0)?;
    let mut args = ir.args(entry).map(|arg| ir.ty(arg));
    args.find(|ty| ty.is::<MemRefType>() && ty.elements().is_none())?;
    Some(Refused {
        op: ir.root(),
        why: "an argument has a size that is not known",
        note: "tokens are found by a run without data, on buffers of known size",
    })
}

/// An op that starts work where no token of it can be handed on: tokens are carried by `loop.for` and `loop.if` alone.
fn out_of_reach(ir: &Ir) -> Option<Refused> {
    let several = |op: OpId| {
        let region = ir.block_of(op).and_then(|block| ir.region_of(block));
        region.is_some_and(|region| ir.blocks(region).len() > 1)
    };
    let carries = |op: OpId| ir.is::<For>(op) || ir.is::<If>(op);
    let mut starts = ir.walk_ids().into_iter();
    starts.find_map(|op| {
        if op == ir.root() || !starts_work(ir, op) {
            return None;
        }
        let around = || std::iter::successors(ir.parent(op), |op| ir.parent(*op));
        // Also from inside of a loop that stands in one of several blocks.
        let why = if several(op) || around().any(several) {
            "work is started in several blocks"
        } else if around().any(|op| op != ir.root() && !carries(op)) {
            "work is started in a region of an op that carries no tokens"
        } else {
            return None;
        };
        let note = "tokens are handed on in one block, by `loop.for` and by `loop.if`";
        Some(Refused { op, why, note })
    })
}

/// Whether an op is the thread's wait for tokens.
pub fn is_wait(ir: &Ir, op: OpId) -> bool {
    ir.is::<DmaWait>(op)
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
    } else if ir.is::<Apply>(op) {
        Some(2)
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
        let token = if b.ir.is::<DmaStart>(op) {
            b.ir.result(op, 0)
        } else {
            let unit = machine.unit_of(b.ir, op);
            let queue = Sym(unit.ok_or("runs on what the machine has not")?);
            b.add(Mark { queue })
        };
        b.add(DmaWait {
            tokens: vec![token],
        });
    }
    Ok(())
}
