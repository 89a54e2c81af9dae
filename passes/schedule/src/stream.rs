//! The command stream of a function: what it starts on which queue, and which bytes that touches,
//! recorded from a run without data.
//!
//! *Terms.* A **site** is an op that does work or touches memory; each of its runs is a step of
//! the recording. A **point** is an op that starts work, or holds one that does: behind each a
//! token can be made for what has been started so far.
//!
//! *Invariant.* The order of steps depends on no data: where it would, there is no stream. All
//! that is told of the recording therefore holds for every run of the function.

use std::collections::HashMap;

use tir::{Failure, Ir, MemRefType, Name, OpId};
use tir_accel::eval::{LeftOut, MachineMemory, Periods, Stopped, run_dry};
use tir_accel::{Apply, Call, DmaStart, MachineInfo};
use tir_machine::{Recording, Site};

/// A function's command stream.
pub struct Stream {
    /// Names of the queues: engines, then units, as the machine lists them.
    pub queues: Vec<Name>,
    /// What it does.
    pub recording: Recording,
    /// The ops that do something, in the order of the text.
    pub sites: Vec<OpId>,
    /// Ops that start work, or hold one that does, in the order in which they end in the text.
    pub points: Vec<OpId>,
    /// Behind the runs of ops numbered after the points: whether hazards in near memory do not
    /// count for one reason more, or for one less.
    pub markers: Vec<bool>,
    /// Whether each buffer of the recording lies in near memory.
    pub near: Vec<bool>,
    /// For each site of the recording the number of its op in `sites`.
    numbers: Vec<Option<usize>>,
    /// For each site of the recording its op, which may be one of a function that is called.
    pub ops: Vec<tir::interp::Site>,
}

/// What is run for a stream.
struct Run<'a> {
    ir: &'a Ir,
    clone: &'a Ir,
    markers: &'a [(OpId, bool)],
    around: Option<&'a Ir>,
    limit: u64,
}

/// Whether an op, or one below it, starts work on a queue.
pub fn starts_work(ir: &Ir, op: OpId) -> bool {
    starts(ir, op) || ir.walk_below(op).into_iter().any(|op| starts(ir, op))
}

fn starts(ir: &Ir, op: OpId) -> bool {
    let on_unit = ir.is::<Call>(op) || ir.is::<Apply>(op);
    ir.is::<DmaStart>(op) || on_unit && ir.operands(op).any(|v| ir.ty(v).is::<MemRefType>())
}

/// Adds the points below an op; gives whether there are any.
fn points(ir: &Ir, op: OpId, out: &mut Vec<OpId>) -> bool {
    let before = out.len();
    for region in ir.regions(op) {
        for block in ir.blocks(region) {
            for inner in ir.ops_in(block) {
                if points(ir, inner, out) || starts(ir, inner) {
                    out.push(inner);
                }
            }
        }
    }
    out.len() > before
}

impl Stream {
    /// Records the stream of the function at the root of an arena, at most `limit` steps; it may
    /// call functions of `around`, its module, whose ops are no sites of it.
    pub fn record(
        ir: &Ir,
        around: Option<&Ir>,
        machine: &MachineInfo,
        limit: u64,
    ) -> Result<Self, Stopped> {
        Self::record_twin(ir, ir, &[], around, machine, limit)
    }

    /// The same, without the iterations of these loops that another run has left out.
    pub fn record_without(
        ir: &Ir,
        around: Option<&Ir>,
        machine: &MachineInfo,
        limit: u64,
        (loops, left_out): (&[OpId], Vec<LeftOut>),
    ) -> Result<Self, Stopped> {
        let mut memory = MachineMemory::recorder(machine, limit).map_err(Stopped::Wrong)?;
        memory.set_periods(Periods::Known(left_out));
        let run = Run {
            ir,
            clone: ir,
            markers: &[],
            around,
            limit,
        };
        Self::record_on(memory, machine, run, loops)
    }

    /// Records the stream of a clone of the function with further ops, as that of the function.
    pub fn record_twin(
        ir: &Ir,
        clone: &Ir,
        markers: &[(OpId, bool)],
        around: Option<&Ir>,
        machine: &MachineInfo,
        limit: u64,
    ) -> Result<Self, Stopped> {
        let memory = MachineMemory::recorder(machine, limit).map_err(Stopped::Wrong)?;
        let run = Run {
            ir,
            clone,
            markers,
            around,
            limit,
        };
        Self::record_on(memory, machine, run, &[])
    }

    fn record_on(
        memory: MachineMemory,
        machine: &MachineInfo,
        run: Run<'_>,
        loops: &[OpId],
    ) -> Result<Self, Stopped> {
        let Run {
            ir,
            clone,
            markers,
            around,
            limit,
        } = run;
        let mut all = Vec::new();
        points(ir, ir.root(), &mut all);
        let twins = all.iter().map(|op| clone.twin(*op, ir));
        let watched: Vec<OpId> = twins.chain(markers.iter().map(|(op, _)| *op)).collect();
        let memory = run_dry(clone, around, memory, limit, &watched, loops)?;
        let recorded = memory.into_recording();
        let (recording, ops) =
            recorded.ok_or_else(|| Stopped::Wrong("nothing was recorded".into()))?;
        let order = ir.walk_ids().into_iter().filter(|op| *op != ir.root());
        let seen: HashMap<OpId, ()> = ops.iter().map(|site| (site.id, ())).collect();
        let twin = |op: &OpId| clone.twin(*op, ir);
        let sites: Vec<OpId> = order.filter(|op| seen.contains_key(&twin(op))).collect();
        let number: HashMap<OpId, usize> = sites.iter().map(twin).zip(0..).collect();
        let far = machine.far().map(|s| s.name.as_str());
        let queues = machine.engines.iter().map(|e| e.name);
        Ok(Self {
            queues: queues.chain(machine.units.iter().map(|u| u.name)).collect(),
            near: recording.spaces().map(|space| Some(space) != far).collect(),
            markers: markers.iter().map(|(_, more)| *more).collect(),
            recording,
            numbers: ops
                .iter()
                .map(|site| number.get(&site.id).copied())
                .collect(),
            ops,
            sites,
            points: all,
        })
    }

    /// The number of the op behind a site of the recording; `None` for the host.
    pub fn number(&self, site: Site) -> Option<usize> {
        self.numbers[site.index()]
    }

    /// A fault of the recording as a diagnostic.
    pub fn diagnostic(&self, fault: &tir_machine::Fault) -> Failure {
        MachineMemory::diagnostic(fault, |site| Some(self.ops.get(site.index())?.loc))
    }
}
