//! A run of a command stream on the machine model without data: races, reads of what was never
//! written, work not waited for, and the report.
//!
//! It is the run of `tir-run` but for the data: the same code of the same ops issues the same
//! steps to the same model, so both find the same faults and take the same cycles.

use std::collections::{HashMap, HashSet};

use tir::interp::Site;
use tir::{Failure, Ir, OpId};
use tir_accel::MachineInfo;
use tir_accel::eval::{MachineMemory, Stopped, run_dry};
use tir_machine as sim;

use crate::insert_tokens::{after_group, is_wait};
use crate::rounds;
use crate::stream::Stream;

/// Pieces of work that a loop has to start yet for iterations to be left out, where nothing else is said.
pub const WORTH: u64 = 4096;

/// Runs the function at the root of an arena, at most `limit` steps of the stream; the
/// diagnostic of a fault names both ops. Functions that it calls are those of `around`, its module.
///
/// Iterations that do the same as those before them are left out: the report is that of all.
pub fn dry_run(
    ir: &Ir,
    around: Option<&Ir>,
    info: &MachineInfo,
    limit: u64,
) -> Result<sim::Report, Failure> {
    dry_run_worth(ir, around, info, limit, Some(WORTH))
}

/// The same: only of loops that have so many pieces of work to start yet are iterations left out, or of none.
pub fn dry_run_worth(
    ir: &Ir,
    around: Option<&Ir>,
    info: &MachineInfo,
    limit: u64,
    worth: Option<u64>,
) -> Result<sim::Report, Failure> {
    if let Some(worth) = worth
        && let Ok(memory) = run_quick(ir, around, info, limit, (&rounds::loops(ir), worth), true)
    {
        return Ok(memory.report());
    }
    // What a run finds wrong without all iterations may be right with them.
    let memory = run_dry(ir, around, MachineMemory::dry(info)?, limit, &[], &[])?;
    Ok(memory.report())
}

/// Whether a run leaves iterations out, as [`dry_run_worth`].
pub fn leaves_out(
    ir: &Ir,
    around: Option<&Ir>,
    info: &MachineInfo,
    limit: u64,
    worth: u64,
) -> bool {
    let done = run_quick(ir, around, info, limit, (&rounds::loops(ir), worth), true);
    done.is_ok_and(|memory| !memory.left_out().is_empty())
}

/// A run that leaves iterations of these loops out.
fn run_quick(
    ir: &Ir,
    around: Option<&Ir>,
    info: &MachineInfo,
    limit: u64,
    (loops, worth): (&[OpId], u64),
    causes: bool,
) -> Result<MachineMemory, Failure> {
    let mut memory = MachineMemory::dry(info)?;
    memory.set_periods(rounds::periods(ir, loops, worth));
    if !causes {
        memory.forget_causes();
    }
    Ok(run_dry(ir, around, memory, limit, &[], loops)?)
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
/// once, and judged again for each operand with a complete token in its place, from where it is first come to. Functions
/// that it calls are those of `around`, its module.
///
/// Iterations of loops that have so many pieces of work to start yet (`worth`), and do the same as those before them, are
/// left out; without, none are. An operand without which later iterations are not as those before them is judged on a
/// stream of all.
///
/// # Errors
/// If the function does not run without a fault as it is.
pub fn edges(
    ir: &Ir,
    around: Option<&Ir>,
    info: &MachineInfo,
    limit: u64,
    worth: Option<u64>,
) -> Result<Vec<Edge>, Failure> {
    let loops = rounds::loops(ir);
    let left_out = worth.and_then(|worth| {
        let done = run_quick(ir, around, info, limit, (&loops, worth), false);
        Some(done.ok()?.left_out())
    });
    let mut all = All {
        record: || Stream::record(ir, around, info, limit),
        stream: None,
    };
    // The run that left iterations out found no fault.
    let left_out = left_out.filter(|left_out| !left_out.is_empty());
    let short = left_out
        .map(|left_out| Stream::record_without(ir, around, info, limit, (&loops, left_out)));
    let short = short.transpose()?;
    let ops = match &short {
        Some(short) => short.ops.clone(),
        None => all.get()?.ops.clone(),
    };
    let token = tir_accel::token();
    let called = around.into_iter().flat_map(|module| {
        let slots = module.slots().into_iter();
        slots.filter_map(|slot| module.child(slot))
    });
    let arenas: Vec<&Ir> = std::iter::once(ir).chain(called).collect();
    let (mut out, mut seen) = (Vec::new(), HashSet::new());
    for site in ops.iter().filter(|site| seen.insert(site.id)) {
        let Some(ir) = arenas.iter().find(|ir| ir.contains(site.id)) else {
            continue;
        };
        if !is_wait(ir, site.id) && after_group(ir, site.id).is_none() {
            continue;
        }
        let tokens = ir.operands(site.id).enumerate();
        let tokens = tokens.filter(|(_, value)| ir.ty(*value) == token);
        for (nth, (operand, _)) in tokens.enumerate() {
            let edge = Edge {
                op: *site,
                operand,
                needed: false,
            };
            out.push((edge, nth));
        }
    }
    let mut doubtful: Vec<usize> = (0..out.len()).collect();
    if let Some(short) = &short {
        doubtful = judge(short, &mut out, &doubtful)?;
    }
    if short.is_none() || !doubtful.is_empty() {
        judge(all.get()?, &mut out, &doubtful)?;
    }
    Ok(out.into_iter().map(|(edge, _)| edge).collect())
}

/// Judges some operands on a stream; gives those of which it cannot tell.
fn judge(
    stream: &Stream,
    edges: &mut [(Edge, usize)],
    which: &[usize],
) -> Result<Vec<usize>, Failure> {
    let mut sites: HashMap<OpId, HashSet<sim::Site>> = HashMap::new();
    for (number, op) in stream.ops.iter().enumerate() {
        let site = sim::Site::numbered(number);
        sites.entry(op.id).or_default().insert(site);
    }
    let operand = |at: &usize| {
        let (edge, nth) = &edges[*at];
        (sites.get(&edge.op.id).cloned().unwrap_or_default(), *nth)
    };
    let operands: Vec<_> = which.iter().map(operand).collect();
    let found = stream.recording.without(&operands);
    let found = found.map_err(|fault| stream.diagnostic(&fault))?;
    let mut doubtful = Vec::new();
    for (at, verdict) in which.iter().zip(found) {
        edges[*at].0.needed = verdict.fails;
        if verdict.doubt {
            doubtful.push(*at);
        }
    }
    Ok(doubtful)
}

/// The stream of all iterations, once it is asked for.
struct All<F> {
    record: F,
    stream: Option<Stream>,
}

impl<F: Fn() -> Result<Stream, Stopped>> All<F> {
    fn get(&mut self) -> Result<&Stream, Failure> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => (self.record)()?,
        };
        Ok(self.stream.insert(stream))
    }
}
