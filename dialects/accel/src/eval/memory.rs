//! The machine model as the memory of a running program.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tir::interp::{Alloc, BufferId, Memory, Round, Site, StridedBox, View};
use tir::{Diagnostic, Failure, Loc, Name};
use tir_machine as sim;

use super::causes::Causes;
use super::layers::Layers;
use super::rounds::Rounds;
use crate::machine::{EngineInfo, MachineInfo};
use crate::model::machine_spec;

/// A site, and the label of what is done there if it has several.
type Labelled = (Site, Option<Name>);

/// Sites that are found without looking them up: those of the ops of an inner loop.
const RECENT: usize = 8;

/// The machine model as the memory of a running program: every access of the thread is checked,
/// transfers and calls are started on queues.
pub struct MachineMemory {
    pub(super) info: MachineInfo,
    pub(super) machine: sim::Machine<'static>,
    /// Of each buffer, whether it is the program's own: no argument, result or constant.
    local: Vec<bool>,
    /// By the place of the op: copies of one op make the same part.
    parts: HashMap<(BufferId, u64, u64, Name, Loc), BufferId>,
    sites: HashMap<Labelled, sim::Site>,
    /// What each site stands for, to say where a fault is.
    known: Vec<Site>,
    /// Those that were asked for last, so that a loop finds its sites at once; and which is replaced next.
    recent: [Option<(Labelled, sim::Site)>; RECENT],
    next: usize,
    pub(super) causes: Causes,
    layers: Layers,
    pub(super) rounds: Rounds,
    dataless: bool,
    /// Tells one memory from another.
    number: u64,
}

impl MachineMemory {
    /// A machine with empty memory; with `trace`, what happens when is kept.
    pub fn new(info: &MachineInfo, trace: bool) -> Result<Self, Failure> {
        let options = sim::Options {
            trace,
            ..sim::Options::default()
        };
        Self::of(info, sim::Machine::new(machine_spec(info), options), false)
    }

    /// A machine that runs a program without data: all checks, and time.
    pub fn dry(info: &MachineInfo) -> Result<Self, Failure> {
        let options = sim::Options {
            data: false,
            ..sim::Options::default()
        };
        Self::of(info, sim::Machine::new(machine_spec(info), options), true)
    }

    /// A machine that only records what a program does, at most `limit` steps.
    pub fn recorder(info: &MachineInfo, limit: u64) -> Result<Self, Failure> {
        let machine = sim::Machine::recorder(machine_spec(info), limit);
        Self::of(info, machine, true)
    }

    fn of(
        info: &MachineInfo,
        machine: sim::Result<sim::Machine<'static>>,
        dataless: bool,
    ) -> Result<Self, Failure> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Ok(Self {
            info: info.clone(),
            machine: machine.map_err(|f| Failure::from(f.to_string()))?,
            local: Vec::new(),
            parts: HashMap::new(),
            sites: HashMap::new(),
            known: Vec::new(),
            recent: [None; RECENT],
            next: 0,
            causes: Causes::default(),
            layers: Layers::default(),
            rounds: Rounds::default(),
            dataless,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// What was recorded, by a [`recorder`](Self::recorder), and the op behind each of its sites.
    pub fn into_recording(self) -> Option<(sim::Recording, Vec<Site>)> {
        Some((self.machine.into_recording()?, self.known))
    }

    /// Counts what happens from now on by layer too.
    pub fn set_layers(&mut self, layers: Layers) {
        self.layers = layers;
    }

    /// The layers that are counted.
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// A fault of the model as a diagnostic at the op that it shows at, with the others as notes.
    pub fn diagnostic(fault: &sim::Fault, place: impl Fn(sim::Site) -> Option<Loc>) -> Failure {
        let mut error = Diagnostic::error(&fault.message);
        if let Some(loc) = fault.site.and_then(&place) {
            error = error.at(loc);
        }
        for note in &fault.notes {
            error = match note.site.and_then(&place) {
                Some(loc) => error.note_at(loc, &note.text),
                None => error.note(&note.text),
            };
        }
        Box::new(error)
    }

    /// A number that no other memory has.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The machine.
    pub fn info(&self) -> &MachineInfo {
        &self.info
    }

    /// The end of the program, at an op: all work that was started must have been waited for.
    pub fn finish(&mut self, site: Site) -> Result<(), Failure> {
        let at = self.site(site, None);
        let done = self.machine.finish(at);
        self.check(done)
    }

    /// What the run cost, with bytes by cause.
    pub fn report(&self) -> sim::Report {
        let mut report = self.machine.report();
        report.causes = self.causes.report();
        for layer in &mut report.layers {
            layer.causes = self.causes.of_layer(&layer.name);
        }
        report
    }

    /// What happened when, as a file for Perfetto; empty unless it was asked for.
    pub fn trace(&self) -> String {
        sim::chrome_trace(&self.machine)
    }

    /// The machine.
    pub fn machine(&self) -> &sim::Machine<'static> {
        &self.machine
    }

    /// The thread starts something, which takes it so long.
    pub(super) fn issue(&mut self, at: sim::Site, cycles: u64) -> Result<(), Failure> {
        if cycles == 0 {
            return Ok(());
        }
        let done = self.machine.thread_cycles(at, cycles);
        self.check(done)
    }
    pub(super) fn site(&mut self, site: Site, label: Option<Name>) -> sim::Site {
        let key = (site, label);
        let mut recent = self.recent.iter().flatten();
        if let Some((_, found)) = recent.find(|(k, _)| k.0.id == site.id && *k == key) {
            return *found;
        }
        if let Some(found) = self.sites.get(&key) {
            self.recent[self.next] = Some((key, *found));
            self.next = (self.next + 1) % RECENT;
            return *found;
        }
        // What the host does for no op of the program: it brings arguments, and takes results.
        let whole = site.host && site.loc.place().is_none();
        let op = if whole { "the host" } else { site.op.as_str() };
        let name = label.map_or(op.to_string(), |l| format!("{op} @{l}"));
        let place = site
            .loc
            .place()
            .map_or(String::new(), |(f, l, c)| format!("{f}:{l}:{c}"));
        let new = self.machine.site(&name, &place);
        if let Some(layer) = self.layers.name(site.id).filter(|_| !site.host) {
            let layer = self.machine.label(layer.as_str());
            self.machine.put_in_layer(new, layer);
        }
        self.sites.insert(key, new);
        self.known.push(site);
        new
    }

    /// A fault as a diagnostic at the op that it shows at, with the others as notes.
    pub(super) fn check<T>(&self, result: sim::Result<T>) -> Result<T, Failure> {
        result.map_err(|fault| {
            Self::diagnostic(&fault, |site| self.known.get(site.index()).map(|s| s.loc))
        })
    }

    /// A failure unless a buffer is of this memory.
    fn own(&self, buffer: BufferId) -> Result<(), Failure> {
        match buffer.index() < self.local.len() {
            true => Ok(()),
            false => Err("the buffer is of another memory".into()),
        }
    }

    /// The elements of a view of this memory.
    pub(super) fn strided(&self, view: &View) -> Result<StridedBox, Failure> {
        self.own(view.buffer)?;
        Ok(view.strided.clone())
    }

    /// Counts a transfer of an op by cause.
    pub(super) fn moved(
        &mut self,
        site: Site,
        far: BufferId,
        boxes: &[StridedBox],
        read: bool,
        engine: &EngineInfo,
    ) {
        if self.machine.is_recorder() || self.rounds.uncounted {
            return;
        }
        let local = self.local.get(far.index()).is_some_and(|local| *local);
        let (from, to) = (engine.from.as_str(), engine.to.as_str());
        let layer = self.layers.name(site.id);
        let of = |space: Name| self.info.space(space).map(|s| s.of);
        let passed = engine.from != engine.to && of(engine.from) == of(engine.to);
        self.rounds.moved(local, boxes, read, passed, engine);
        if passed {
            self.causes.pass_on(layer, boxes, from, to);
        } else {
            self.causes.note(layer, boxes, read, local, from, to);
        }
    }

    /// Notes a new buffer; the machine numbers them from 0.
    fn hold(&mut self, id: BufferId, local: bool) -> BufferId {
        debug_assert_eq!(id.index(), self.local.len());
        self.local.push(local);
        id
    }
}

impl Memory for MachineMemory {
    fn alloc(&mut self, want: &Alloc) -> Result<BufferId, Failure> {
        let site = self.site(want.site, None);
        let far = self.info.far().map(|s| s.name);
        let name = want
            .space
            .or(far)
            .ok_or("the machine has no memory space")?;
        let space = self.machine.space(name.as_str());
        let space =
            space.ok_or_else(|| format!("machine @{} has no space \"{name}\"", self.info.name))?;
        let text = want
            .name
            .map_or_else(|| format!("buffer {}", self.local.len()), |n| n.to_string());
        let wanted = sim::Alloc {
            align: want.align.max(1),
            ..sim::Alloc::new(&text, want.bytes, site)
        };
        let made = self.machine.alloc(space, wanted);
        let id = self.check(made)?;
        Ok(self.hold(id, !want.site.host))
    }

    fn dealloc(&mut self, buffer: BufferId, site: Site) -> Result<(), Failure> {
        self.own(buffer)?;
        let site = self.site(site, None);
        let done = self.machine.dealloc(buffer, site);
        self.check(done)
    }

    fn bytes(&self, buffer: BufferId) -> Result<&[u8], Failure> {
        self.own(buffer)?;
        Ok(self.machine.memory().bytes(buffer)?)
    }

    fn bytes_mut(&mut self, buffer: BufferId) -> Result<&mut [u8], Failure> {
        self.own(buffer)?;
        Ok(self.machine.memory_mut().bytes_mut(buffer)?)
    }

    fn is_dataless(&self) -> bool {
        self.dataless
    }

    fn passed(&mut self, number: u32) {
        // A recorder that is full says so at its next step.
        let _ = self.machine.note(number);
    }

    fn round(&mut self, round: &Round<'_>) -> Result<u64, Failure> {
        self.leave_out(round)
    }

    fn touch(&mut self, view: &View, write: bool, site: Site) -> Result<(), Failure> {
        self.own(view.buffer)?;
        let at = self.site(site, None);
        let done = match write {
            true => self.machine.thread_write(at, view),
            false => self.machine.thread_read(at, view),
        };
        self.check(done)?;
        match site.host {
            true => Ok(()),
            false => self.work(view.elements() as u64, site),
        }
    }

    fn counts_work(&self) -> bool {
        true
    }

    fn work(&mut self, ops: u64, site: Site) -> Result<(), Failure> {
        let at = self.site(site, None);
        let done = self.machine.thread_cycles(at, self.info.thread_cycles(ops));
        self.check(done)
    }

    fn part(
        &mut self,
        outer: BufferId,
        offset: u64,
        bytes: u64,
        name: Option<Name>,
        site: Site,
    ) -> Result<Option<BufferId>, Failure> {
        let key = (outer, offset, bytes, site.op, site.loc);
        if let Some(found) = self.parts.get(&key) {
            return Ok(Some(*found));
        }
        self.own(outer)?;
        let at = self.site(site, None);
        let Some(space) = self.machine.spec().spaces.first().map(|s| s.name.clone()) else {
            return Ok(None);
        };
        // The space of the outer buffer counts; the model only wants one to be named.
        let space = self
            .machine
            .space(&space)
            .ok_or("the machine has no memory space")?;
        let text = name.map_or_else(|| format!("buffer {}", self.local.len()), |n| n.to_string());
        let placement = sim::Placement::Within(outer, offset);
        let made = self.machine.alloc(
            space,
            sim::Alloc {
                placement,
                ..sim::Alloc::new(&text, bytes, at)
            },
        );
        let id = self.check(made)?;
        let part = self.hold(id, self.local[outer.index()]);
        self.parts.insert(key, part);
        Ok(Some(part))
    }
}
