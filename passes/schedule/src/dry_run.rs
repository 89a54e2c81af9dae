//! A run of a command stream on the machine model without data: races, reads of what was never
//! written, work not waited for, and the account.

use tir::{Diagnostic, Failure, Ir, OpId};
use tir_accel::MachineInfo;
use tir_accel::model::machine_spec;
use tir_machine as sim;

use crate::stream::{Actor, Area, Event, Root, Sink, Stream};

struct Dry<'a> {
    ir: &'a Ir,
    stream: &'a Stream,
    machine: sim::Machine<'static>,
    buffers: Vec<sim::BufferId>,
    sites: Vec<sim::Site>,
    labels: Vec<Option<sim::Label>>,
    queues: Vec<sim::QueueId>,
    tokens: Vec<Vec<sim::Token>>,
    macs: Vec<u64>,
    overhead: Vec<bool>,
}

/// Runs the function at the root of an arena; the diagnostic of a fault names both ops.
pub fn dry_run(ir: &Ir, info: &MachineInfo, limit: u64) -> Result<sim::Report, Failure> {
    let stream = Stream::new(ir, info)?;
    let machine = sim::Machine::new(machine_spec(info), sim::Options::default());
    let mut machine = machine.map_err(|f| Failure::from(f.to_string()))?;
    let host = machine.site("func.func", "");
    let mut buffers = Vec::new();
    for root in &stream.roots {
        buffers.push(buffer(&mut machine, root, host)?);
    }
    let (mut sites, mut labels) = (Vec::new(), Vec::new());
    let (mut macs, mut overhead) = (Vec::new(), Vec::new());
    for site in &stream.sites {
        let label = site.label.map_or(String::new(), |l| format!(" @{l}"));
        let place = ir
            .loc(site.op)
            .place()
            .map_or(String::new(), |(f, l, c)| format!("{f}:{l}:{c}"));
        sites.push(machine.site(&format!("{}{label}", ir.name(site.op)), &place));
        let call = site.label.and_then(|l| info.intrinsic(l));
        labels.push(call.map(|c| machine.label(c.name.as_str())));
        macs.push(call.map_or(0, |c| c.macs.max(0) as u64));
        overhead.push(call.is_some_and(|c| !c.reads.contains(&true)));
    }
    let queues = stream
        .queues
        .iter()
        .filter_map(|q| machine.queue(q.as_str()))
        .collect();
    let tokens = vec![vec![machine.ready()]; stream.queues.len()];
    let mut dry = Dry {
        ir,
        stream: &stream,
        machine,
        buffers,
        sites,
        labels,
        queues,
        tokens,
        macs,
        overhead,
    };
    stream.run(ir, limit, &mut dry)?;
    Ok(dry.machine.report())
}

fn buffer(
    machine: &mut sim::Machine<'_>,
    root: &Root,
    host: sim::Site,
) -> Result<sim::BufferId, Failure> {
    let bytes = u64::try_from(root.bytes).unwrap_or(0);
    let space = machine.space(root.space.as_str());
    let space = space.ok_or_else(|| {
        format!(
            "{} lies in \"{}\", which the machine has not",
            root.name, root.space
        )
    })?;
    let fail = |f: Box<sim::Fault>| Failure::from(f.to_string());
    let id = machine
        .alloc(space, sim::Alloc::new(&root.name, bytes, host))
        .map_err(fail)?;
    if root.defined {
        machine
            .thread_write(host, &sim::Access::dense(id, 0, bytes))
            .map_err(fail)?;
    }
    Ok(id)
}

impl Dry<'_> {
    fn access(&self, area: &Area) -> sim::Access {
        let dims: Vec<(u64, i64)> = area.dims.iter().map(|d| (d.0.max(0) as u64, d.1)).collect();
        sim::Access::strided(
            self.buffers[area.root],
            area.offset,
            &dims,
            area.elem.max(0) as u64,
        )
    }

    /// A fault as a diagnostic with both ops.
    fn fault(&self, fault: &sim::Fault) -> Failure {
        let op = |site: sim::Site| -> Option<OpId> {
            let at = self.sites.iter().position(|s| *s == site)?;
            Some(self.stream.sites[at].op)
        };
        let mut error = Diagnostic::error(&fault.message);
        if let Some(op) = fault.site.and_then(op) {
            error = error.at(self.ir.loc(op));
        }
        for note in &fault.notes {
            error = match note.site.and_then(op) {
                Some(op) => error.note_at(self.ir.loc(op), &note.text),
                None => error.note(&note.text),
            };
        }
        Box::new(error)
    }

    fn step(&mut self, event: &Event<'_>) -> sim::Result<()> {
        let site = self.sites[event.site];
        let tokens: Vec<sim::Token> = event
            .after
            .iter()
            .map(|(queue, count)| self.tokens[*queue][*count as usize])
            .collect();
        let reads: Vec<sim::Access> = event.reads.iter().map(|a| self.access(a)).collect();
        let writes: Vec<sim::Access> = event.writes.iter().map(|a| self.access(a)).collect();
        let place = &self.stream.sites[event.site];
        match place.actor {
            Actor::Thread => {
                for read in &reads {
                    self.machine.thread_read(site, read)?;
                }
                for write in &writes {
                    self.machine.thread_write(site, write)?;
                }
            }
            Actor::Wait => self.machine.wait(site, &tokens)?,
            Actor::Return => self.machine.finish(site)?,
            Actor::Queue(queue) => {
                let moved = if self.labels[event.site].is_none() {
                    Some(())
                } else {
                    None
                };
                let cost = match moved {
                    None => sim::Cost::Cycles(place.cycles),
                    Some(()) => {
                        let (mut bytes, mut rows) = (0, 0);
                        // A read writes its tile as a whole, padding too: what lies inside counts.
                        let pairs = reads.iter().zip(writes.iter().cycle());
                        for (read, write) in pairs {
                            let same = read
                                .dims
                                .iter()
                                .map(|d| d.0)
                                .eq(write.dims.iter().map(|d| d.0));
                            let write = if same { write } else { read };
                            let cost =
                                self.machine
                                    .transfer_cost(self.queues[queue], read, write)?;
                            if let sim::Cost::Transfer { bytes: b, rows: r } = cost {
                                (bytes, rows) = (bytes + b, rows + r);
                            }
                        }
                        sim::Cost::Transfer { bytes, rows }
                    }
                };
                let work = sim::Work {
                    reads: &reads,
                    writes: &writes,
                    after: &tokens,
                    label: self.labels[event.site],
                    macs: self.macs[event.site],
                    overhead: self.overhead[event.site],
                    ..sim::Work::new(site, cost)
                };
                let token = self.machine.start(self.queues[queue], &work, |_| Ok(()))?;
                self.tokens[queue].push(token);
            }
        }
        Ok(())
    }
}

impl Sink for Dry<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        self.step(event).map_err(|f| self.fault(&f))
    }
    fn point(&mut self, _: usize) {}
}

/// The operands of waits without which the function still runs without a fault: none, where each
/// edge is needed. Each is tried in a copy with a complete token in its place.
pub fn needless_edges(ir: &Ir, info: &MachineInfo, limit: u64) -> Vec<(OpId, usize)> {
    let token = tir_accel::token();
    let mut out = Vec::new();
    for op in ir.walk_ids() {
        let waits =
            ir.is::<tir_accel::DmaWait>(op) || crate::insert_tokens::after_group(ir, op).is_some();
        if !waits {
            continue;
        }
        for (operand, value) in ir.operands(op).enumerate() {
            if ir.ty(value) != token {
                continue;
            }
            let mut cut = ir.clone();
            let twin = cut.twin(op, ir);
            let ready = cut.add(tir::At::Before(twin), tir_accel::Ready {});
            cut.set_operand(twin, operand, ready);
            if dry_run(&cut, info, limit).is_ok() {
                out.push((op, operand));
            }
        }
    }
    out
}
