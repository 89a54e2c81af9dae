//! A run of a command stream on the machine model without data: races, reads of what was never
//! written, work not waited for, and the report.
//!
//! It is the run of `tir-run` but for the data: the same code of the same ops issues the same
//! steps to the same model, so both find the same faults and take the same cycles.

use std::collections::HashSet;

use tir::interp::Site;
use tir::{Failure, Ir};
use tir_accel::MachineInfo;
use tir_accel::eval::{MachineMemory, run_dry};
use tir_machine as sim;

use crate::insert_tokens::{after_group, is_wait};
use crate::stream::Stream;

/// Runs the function at the root of an arena, at most `limit` steps of the stream; the
/// diagnostic of a fault names both ops. Functions that it calls are those of `around`, its module.
pub fn dry_run(
    ir: &Ir,
    around: Option<&Ir>,
    info: &MachineInfo,
    limit: u64,
) -> Result<sim::Report, Failure> {
    let memory = run_dry(ir, around, MachineMemory::dry(info)?, limit, &[])?;
    Ok(memory.report())
}

/// An operand of a wait that a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The op that waits, of the function that ran or of one that it called.
    pub op: Site,
    /// Which operand.
    pub operand: usize,
    /// Whether there is a fault without it.
    pub needed: bool,
}

/// The operands of waits that the function and those that it calls come to. The stream is recorded
/// once, and judged again for each operand with a complete token in its place. Functions that it
/// calls are those of `around`, its module.
///
/// # Errors
/// If the function does not run without a fault as it is.
pub fn edges(
    ir: &Ir,
    around: Option<&Ir>,
    info: &MachineInfo,
    limit: u64,
) -> Result<Vec<Edge>, Failure> {
    let stream = Stream::record(ir, around, info, limit)?;
    let whole = stream.recording.replay(|_, _| false);
    whole.map_err(|fault| stream.diagnostic(&fault))?;
    let token = tir_accel::token();
    let called = around.into_iter().flat_map(|module| {
        let slots = module.slots().into_iter();
        slots.filter_map(|slot| module.child(slot))
    });
    let arenas: Vec<&Ir> = std::iter::once(ir).chain(called).collect();
    let (mut out, mut seen) = (Vec::new(), HashSet::new());
    for site in stream.ops.iter().filter(|site| seen.insert(site.id)) {
        let Some(ir) = arenas.iter().find(|ir| ir.contains(site.id)) else {
            continue;
        };
        if !is_wait(ir, site.id) && after_group(ir, site.id).is_none() {
            continue;
        }
        let tokens = ir.operands(site.id).enumerate();
        let tokens = tokens.filter(|(_, value)| ir.ty(*value) == token);
        for (nth, (operand, _)) in tokens.enumerate() {
            let own = |at: sim::Site| stream.ops.get(at.index()).is_some_and(|s| s.id == site.id);
            let cut = |at, n| own(at) && n == nth;
            out.push(Edge {
                op: *site,
                operand,
                needed: stream.recording.replay(cut).is_err(),
            });
        }
    }
    Ok(out)
}
