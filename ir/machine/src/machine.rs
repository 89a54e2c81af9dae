//! The machine: the program thread's side of it.
//!
//! *Terms.* A **queue** takes work of one engine or unit in order. The **clock** of the thread or of a
//! piece of work is, for each actor, how much of its work is complete before (a vector clock; Mattern,
//! "Virtual time and global states of distributed systems", 1988). A **frame** is the work that was
//! started before a function was entered.
//!
//! *Invariants.* Every access is checked for bounds, liveness and order before its effect runs; the
//! first fault ends the run. Clocks know nothing of time, and time nothing of clocks: what is a race
//! is one for every latency. A recorder checks what it needs to number things and runs nothing.

mod recorder;
mod twin;

use std::collections::VecDeque;

use crate::alloc::{Alloc, Buffers};
use crate::bandwidth::Bandwidth;
use crate::banks::Banks;
use crate::fault::{Fault, FaultKind, Result, Site, Sites};
use crate::layers::{Layers, Thread};
use crate::memory::Memory;
use crate::pending::{Blocked, Pending, SemaphoreState};
use crate::recording::{Recording, Step};
use crate::report::{Account, QueueAccount};
use crate::rounds::Log;
use crate::spec::{MachineSpec, QueueId, SpaceId};
use crate::trace::{Event, Held, Life};
use crate::work::{Cost, Label, THREAD, Token, Work, Works, join};
use tir_data::BufferId;
use tir_data::{Rows, StridedBox};

/// What the model keeps beside bytes and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Keep the state of every byte: races, uninitialised reads, overlaps. Without it a wrong
    /// program gives wrong numbers instead of a fault.
    pub track: bool,
    /// Keep an event for every piece of work.
    pub trace: bool,
    /// Keep the bytes of buffers. Without it effects must not look at memory.
    pub data: bool,
    /// Bytes that live buffers may take in the host's memory.
    pub host_limit: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            track: true,
            trace: false,
            data: true,
            host_limit: 8 << 30,
        }
    }
}

/// A machine that runs a command stream. `'p` bounds what the effects of work may borrow.
pub struct Machine<'p> {
    pub(crate) spec: MachineSpec,
    pub(crate) options: Options,
    pub(crate) sites: Sites,
    pub(crate) labels: Vec<String>,
    pub(crate) buffers: Buffers,
    pub(crate) works: Works,
    pub(crate) queues: Vec<Queue<'p>>,
    /// What is complete for the thread.
    pub(crate) clock: Vec<u32>,
    /// The thread's time.
    pub(crate) now: u64,
    pub(crate) bandwidth: Bandwidth,
    pub(crate) banks: Banks,
    pub(crate) semaphores: Vec<SemaphoreState>,
    /// Pieces of work held back by semaphores, in all queues.
    pub(crate) held: usize,
    pub(crate) account: Account,
    pub(crate) layers: Layers,
    pub(crate) events: Vec<Event>,
    pub(crate) memory_events: Vec<Held>,
    /// By buffer; kept with [`Options::trace`].
    pub(crate) lives: Vec<Option<Life>>,
    /// Of each space, the bytes of its last memory event.
    pub(crate) memory_held: Vec<u64>,
    /// What is issued is kept here instead of being run.
    pub(crate) recording: Option<Box<Recording>>,
    /// The accesses of a period, while one is watched.
    pub(crate) log: Option<Box<Log>>,
    /// The last access that was not allowed was one of far memory.
    pub(crate) far_fault: bool,
    /// Cycles of iterations that were left out.
    pub(crate) left_out: u64,
}

pub(crate) struct Queue<'p> {
    pub name: String,
    pub depth: u32,
    pub engine: Option<Engine>,
    pub held: VecDeque<Pending<'p>>,
    pub account: QueueAccount,
}

#[derive(Clone, Copy)]
pub(crate) struct Engine {
    pub from: u32,
    pub to: u32,
    pub rate: u64,
    pub latency: u64,
    pub granule: u64,
    pub square: u64,
    pub dims: u32,
}

/// The work started before a function was entered.
#[derive(Clone, Debug)]
pub struct Frame(Vec<u32>);

impl<'p> Machine<'p> {
    /// A machine with empty memory at cycle 0.
    pub fn new(spec: MachineSpec, options: Options) -> Result<Machine<'p>> {
        let problems = spec.problems();
        if let [first, rest @ ..] = problems.as_slice() {
            let fault = Fault::new(FaultKind::Spec, None, first.clone());
            return Err(rest.iter().fold(fault, |f, p| f.note(None, p.clone())));
        }
        let space = |name: &str| spec.space_index(name).unwrap_or(0) as u32;
        let engines = spec.engines.iter().map(|e| {
            let engine = Engine {
                from: space(&e.from),
                to: space(&e.to),
                rate: e.bytes_per_cycle,
                latency: e.latency,
                granule: e.granule,
                square: e.square,
                dims: e.dims,
            };
            (e.name.clone(), e.queue, Some(engine))
        });
        let units = spec.units.iter().map(|u| (u.name.clone(), u.queue, None));
        let queues: Vec<_> = engines
            .chain(units)
            .map(|(name, depth, engine)| Queue {
                name,
                depth,
                engine,
                held: VecDeque::new(),
                account: QueueAccount::default(),
            })
            .collect();
        let (actors, spaces) = (queues.len() + 1, spec.spaces.len());
        let host_limit = options.data.then_some(options.host_limit);
        Ok(Machine {
            recording: None,
            log: None,
            far_fault: false,
            left_out: 0,
            bandwidth: Bandwidth::new(&spec),
            banks: Banks::new(&spec),
            buffers: Buffers::new(spaces, actors, host_limit),
            account: Account::new(spaces),
            works: Works::new(actors),
            clock: vec![0; actors],
            sites: Sites::default(),
            labels: Vec::new(),
            semaphores: Vec::new(),
            layers: Layers::default(),
            events: Vec::new(),
            memory_events: Vec::new(),
            lives: Vec::new(),
            memory_held: vec![0; spaces],
            now: 0,
            held: 0,
            queues,
            options,
            spec,
        })
    }

    /// The description it was made of.
    pub fn spec(&self) -> &MachineSpec {
        &self.spec
    }

    /// The queue of an engine or a unit, by its name.
    pub fn queue(&self, name: &str) -> Option<QueueId> {
        self.queues
            .iter()
            .position(|q| q.name == name)
            .map(|i| QueueId(i as u32))
    }

    /// A memory space, by its name.
    pub fn space(&self, name: &str) -> Option<SpaceId> {
        self.spec.space_index(name).map(|i| SpaceId(i as u32))
    }

    /// Makes an operation known: its name, with what it is on, and its place in the text.
    /// To be called once per operation of the program, not once per execution.
    pub fn site(&mut self, op: &str, location: &str) -> Site {
        self.sites.add(op, location)
    }

    /// Makes a label known: the same for the same name.
    pub fn label(&mut self, name: &str) -> Label {
        let at = self
            .labels
            .iter()
            .position(|l| l == name)
            .unwrap_or_else(|| {
                self.labels.push(name.to_string());
                self.labels.len() - 1
            });
        Label(at as u32)
    }

    /// The bytes of all buffers.
    pub fn memory(&self) -> &Memory {
        &self.buffers.memory
    }

    /// The bytes of all buffers, to change. Pair it with [`Machine::thread_write`].
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.buffers.memory
    }

    /// Pieces of work that were started, but for those left out.
    pub fn started(&self) -> u64 {
        let queues = 1..self.clock.len();
        queues.map(|actor| u64::from(self.works.count(actor))).sum()
    }

    /// The thread's time in cycles.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// A new buffer. Its bytes are uninitialised.
    pub fn alloc(&mut self, space: SpaceId, want: Alloc) -> Result<BufferId> {
        let spec = &self.spec.spaces[space.0 as usize];
        let id = self.buffers.alloc(&self.sites, space, spec, &want)?;
        if let Some(recording) = &mut self.recording {
            recording.alloc(space, &want)?;
        }
        self.trace_memory();
        Ok(id)
    }

    /// Releases a buffer and those placed within it. All work that uses them must have been
    /// waited for.
    pub fn dealloc(&mut self, buffer: BufferId, site: Site) -> Result<()> {
        self.buffers.usable(&self.sites, buffer, site)?;
        let family = self.buffers.family(buffer);
        if let Some(recording) = &mut self.recording {
            recording.plain(Step::Dealloc(buffer), site)?;
            self.buffers.release(&family, site);
            return Ok(());
        }
        for &b in &family {
            let uses = self.buffers.uses(BufferId(b)).iter().enumerate().skip(1);
            let late = uses
                .filter(|&(a, &n)| n > self.clock[a])
                .map(|(a, &n)| (a, n))
                .next();
            if let Some((actor, index)) = late {
                let first = self.works.nth(actor, index);
                return Err(self.freed_in_use(BufferId(b), site, first));
            }
        }
        self.buffers.release(&family, site);
        self.trace_memory();
        Ok(())
    }

    /// Writes the first bytes of a buffer from the host, as the thread at `site`.
    pub fn init(&mut self, buffer: BufferId, site: Site, data: &[u8]) -> Result<()> {
        let access = StridedBox::contiguous(buffer, 0, data.len() as u64);
        self.thread_write(site, &access)?;
        let done = self.buffers.memory.store(&access, data);
        done.map_err(|e| self.effect(site, &e))
    }

    /// The thread reads: checked like any other access, at no cost.
    pub fn thread_read(&mut self, site: Site, access: &StridedBox) -> Result<()> {
        self.thread_access(site, access, false)
    }

    /// The thread writes: checked like any other access, at no cost. The bytes themselves are the
    /// caller's to change, in [`Machine::memory_mut`].
    pub fn thread_write(&mut self, site: Site, access: &StridedBox) -> Result<()> {
        self.thread_access(site, access, true)
    }

    /// The thread computes for some cycles.
    pub fn thread_cycles(&mut self, site: Site, cycles: u64) -> Result<()> {
        if let Some(recording) = &mut self.recording {
            return recording.cycles(site, cycles);
        }
        let until = self.now.saturating_add(cycles);
        self.trace_thread(site, until);
        self.count_layer_thread(site, until, Thread::Busy);
        self.now = until;
        self.account.thread_cycles = self.account.thread_cycles.saturating_add(cycles);
        Ok(())
    }

    /// What a transfer from one box to another costs on an engine: elements are paired in logical
    /// order and make rows that are contiguous on both sides. A fault when the counts differ or
    /// the engine has too few dimensions. (For a padded transfer, `to` is the part not filled.)
    pub fn transfer_cost(
        &self,
        engine: QueueId,
        from: &StridedBox,
        to: &StridedBox,
    ) -> Result<Cost> {
        let q = &self.queues[engine.0 as usize];
        let bad = |text: String| Fault::new(FaultKind::Transfer, None, text);
        let rows = Rows::new(from, to).map_err(bad)?;
        if let Some(e) = q.engine
            && rows.rank() > e.dims
        {
            let text = format!(
                "the transfer has {} dimensions, @{} at most {}",
                rows.rank(),
                q.name,
                e.dims
            );
            return Err(bad(text));
        }
        // A row of a square is as good as one that is contiguous on both sides.
        let bytes = from.bytes();
        let square = q.engine.map_or(0, |e| e.square).min(rows.square());
        let rows = match square > rows.run {
            true => bytes.div_ceil(square),
            false => rows.count(),
        };
        Ok(Cost::Transfer { bytes, rows })
    }

    /// Starts work on a queue and gives the token of its end. The thread is held while the queue
    /// is full. `run` is the effect; it runs now, or when the semaphores that the work or the
    /// head of its queue waits for have been released.
    pub fn start<F>(&mut self, queue: QueueId, work: &Work, run: F) -> Result<Token>
    where
        F: FnOnce(&mut Memory) -> std::result::Result<(), String> + 'p,
    {
        let q = queue.0 as usize;
        self.usable_by(q, work)?;
        if let Some(recording) = &mut self.recording {
            return recording.start(queue, work);
        }
        let (id, deps) = self.issue(queue, work)?;
        if !self.queues[q].held.is_empty() || !deps.iter().all(|&d| self.settled(d)) {
            let clock = self.clock.clone();
            let held = Pending::new(id, work, deps, self.now, clock, Box::new(run));
            self.queues[q].held.push_back(held);
            self.held += 1;
            return Ok(Token(id));
        }
        self.order(q, id, work, &deps, self.now, None)?;
        if self.spec.in_order {
            self.sleep(self.works.get(id).end, work.site, false);
        }
        let done = run(&mut self.buffers.memory);
        done.map_err(|e| self.effect(work.site, &e))?;
        self.resume()?;
        Ok(Token(id))
    }

    /// The end of all work started on a queue so far.
    pub fn mark(&self, queue: QueueId) -> Token {
        if let Some(recording) = &self.recording {
            return recording.mark(queue);
        }
        Token(self.works.last(queue.0 as usize + 1))
    }

    /// A token that is complete already.
    pub fn ready(&self) -> Token {
        Token(0)
    }

    /// Holds the thread until all tokens are complete. `site` is the waiting operation.
    pub fn wait(&mut self, site: Site, tokens: &[Token]) -> Result<()> {
        if let Some(recording) = &mut self.recording {
            return recording.wait(site, tokens);
        }
        for t in tokens {
            if !self.works.get(t.0).done {
                return Err(self.deadlock(site, "waits for", Blocked::Work(t.0)));
            }
            join(&mut self.clock, self.works.clock(t.0));
            self.sleep(self.works.get(t.0).end, site, false);
        }
        Ok(())
    }

    /// Enters a function.
    pub fn enter(&self) -> Frame {
        Frame((0..self.clock.len()).map(|a| self.works.count(a)).collect())
    }

    /// Leaves a function at its return: a fault unless all work started in it has been waited for.
    pub fn leave(&mut self, frame: &Frame, site: Site) -> Result<()> {
        for actor in 1..self.clock.len() {
            let (done, all) = (
                self.clock[actor].max(frame.0[actor]),
                self.works.count(actor),
            );
            if done == all {
                continue;
            }
            let first = self.works.nth(actor, done + 1);
            if !self.works.get(self.works.last(actor)).done {
                let last = Blocked::Work(self.works.last(actor));
                return Err(self.deadlock(site, "ends before", last));
            }
            return Err(self.not_waited(site, actor, first, all - done));
        }
        Ok(())
    }

    /// The end of the program: [`Machine::leave`] for all work there is.
    pub fn finish(&mut self, site: Site) -> Result<()> {
        if let Some(recording) = &mut self.recording {
            return recording.plain(Step::Finish, site);
        }
        self.leave(&Frame(vec![0; self.clock.len()]), site)
    }

    /// Moves the thread's time on to `until`, waiting for a token or, if `full`, for a queue.
    pub(crate) fn sleep(&mut self, until: u64, site: Site, full: bool) {
        if until <= self.now {
            return;
        }
        let counter = if full {
            &mut self.account.queue_full
        } else {
            &mut self.account.waiting
        };
        *counter += until - self.now;
        let what = if full {
            Thread::QueueFull
        } else {
            Thread::Waiting
        };
        self.count_layer_thread(site, until, what);
        if self.options.trace {
            let label = None;
            self.events.push(Event {
                queue: None,
                start: self.now,
                end: until,
                site,
                label,
                bytes: 0,
                computes: false,
                waited: None,
            });
        }
        self.now = until;
        self.bandwidth.forget(until);
        self.banks.forget(until);
    }

    /// A fault unless work touches live buffers of the spaces of its queue, and inside them.
    fn usable_by(&self, q: usize, work: &Work) -> Result<()> {
        let engine = self.queues[q].engine;
        for (list, space) in [
            (work.reads, engine.map(|e| e.from)),
            (work.writes, engine.map(|e| e.to)),
        ] {
            for a in list {
                self.in_bounds(work.site, a)?;
                self.in_space(work.site, q, a.buffer, space)?;
            }
        }
        Ok(())
    }

    /// The parts of a start that happen at once: the wait for a slot, what it waits for.
    fn issue(&mut self, queue: QueueId, work: &Work) -> Result<(u32, Vec<Blocked>)> {
        let q = queue.0 as usize;
        let actor = q + 1;
        let (started, depth) = (self.works.count(actor), self.queues[q].depth);
        if started >= depth {
            let oldest = self.works.nth(actor, started + 1 - depth);
            if !self.works.get(oldest).done {
                let why = format!(
                    "waits for a slot of the full queue @{}, held by",
                    self.queues[q].name
                );
                return Err(self.deadlock(work.site, &why, Blocked::Work(oldest)));
            }
            self.sleep(self.works.get(oldest).end, work.site, true);
        }
        let mut deps: Vec<Blocked> = work
            .after
            .iter()
            .filter(|t| t.0 != 0)
            .map(|t| Blocked::Work(t.0))
            .collect();
        for s in work.acquire {
            deps.push(self.take(*s, actor, work.site)?);
        }
        let Some(id) = self.works.add(actor, work.site) else {
            let text = format!(
                "{} is one start too many for the model",
                self.sites.show(work.site)
            );
            return Err(Fault::new(FaultKind::Effect, Some(work.site), text));
        };
        for s in work.release {
            self.give(*s, actor, id, work.site)?;
        }
        for a in work.reads.iter().chain(work.writes) {
            self.buffers.uses(a.buffer)[actor] = started + 1;
        }
        Ok((id, deps))
    }

    fn thread_access(&mut self, site: Site, access: &StridedBox, write: bool) -> Result<()> {
        self.in_bounds(site, access)?;
        if let Some(recording) = &mut self.recording {
            return recording.thread(site, access, write);
        }
        if self.options.trace {
            self.trace_accesses(std::iter::once(access), site, (self.now, self.now));
        }
        if !self.options.track || access.is_empty() {
            return Ok(());
        }
        self.check_thread(site, access, write)
    }

    /// A step of the thread as a piece of work of its own.
    pub(crate) fn thread_step(&mut self, site: Site) -> Result<u32> {
        let Some(id) = self.works.add(THREAD, site) else {
            let text = format!(
                "{} is one step too many for the model",
                self.sites.show(site)
            );
            return Err(Fault::new(FaultKind::Effect, Some(site), text));
        };
        self.clock[THREAD] = self.works.get(id).index;
        self.works.complete(id, &self.clock, self.now);
        Ok(id)
    }
}
