//! Ordering of work: at its start, or, if a semaphore holds it back, when the release has come.

use crate::bandwidth::Demand;
use crate::banks::Uses;
use crate::fault::{Fault, FaultKind, Result, Site};
use crate::machine::{Engine, Machine};
use crate::memory::Effect;
use crate::recording::Step;
use crate::report::Times;
use crate::spec::QueueId;
use crate::trace::{Event, Waited};
use crate::work::{Cost, Semaphore, Token, Work, join};
use tir_data::StridedBox;

/// What work or the thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// The end of a piece of work.
    Work(u32),
    /// The release with this number (from 0) of a semaphore.
    Release(u32, u32),
}

/// A piece of work that is held back.
pub(crate) struct Pending<'p> {
    pub id: u32,
    pub deps: Vec<Blocked>,
    work: Work<'static>,
    reads: Vec<StridedBox>,
    writes: Vec<StridedBox>,
    issued: u64,
    /// The thread's clock at the start.
    clock: Vec<u32>,
    run: Effect<'p>,
}

/// A semaphore's history.
#[derive(Clone, Debug)]
pub(crate) struct SemaphoreState {
    pub name: String,
    initial: u32,
    acquired: u32,
    /// The work whose end is each release.
    pub released: Vec<u32>,
    /// Who releases and who acquires, once somebody has: one actor each.
    ends: [Option<(usize, Site)>; 2],
}

impl<'p> Pending<'p> {
    pub(crate) fn new(
        id: u32,
        work: &Work,
        deps: Vec<Blocked>,
        issued: u64,
        clock: Vec<u32>,
        run: Effect<'p>,
    ) -> Self {
        let (reads, writes) = (work.reads.to_vec(), work.writes.to_vec());
        let none = Work::new(work.site, work.cost);
        let (label, cause, macs, overhead) = (work.label, work.cause, work.macs, work.overhead);
        let work = Work {
            label,
            cause,
            macs,
            overhead,
            ..none
        };
        Pending {
            id,
            deps,
            work,
            reads,
            writes,
            issued,
            clock,
            run,
        }
    }
}

impl Machine<'_> {
    /// A semaphore with some units to begin with.
    pub fn semaphore(&mut self, name: &str, initial: u32) -> Semaphore {
        if let Some(recording) = &mut self.recording {
            recording.semaphore(name, initial);
        }
        let (name, released, ends) = (name.to_string(), Vec::new(), [None; 2]);
        self.semaphores.push(SemaphoreState {
            name,
            initial,
            acquired: 0,
            released,
            ends,
        });
        Semaphore(self.semaphores.len() as u32 - 1)
    }

    /// The thread releases a unit.
    pub fn release(&mut self, site: Site, semaphore: Semaphore) -> Result<()> {
        if let Some(recording) = &mut self.recording {
            return recording.plain(Step::Release(semaphore), site);
        }
        let id = self.thread_step(site)?;
        self.give(semaphore, 0, id, site)?;
        self.resume()
    }

    /// The thread takes a unit, waiting for it.
    pub fn acquire(&mut self, site: Site, semaphore: Semaphore) -> Result<()> {
        if let Some(recording) = &mut self.recording {
            return recording.plain(Step::Acquire(semaphore), site);
        }
        let unit = self.take(semaphore, 0, site)?;
        if !self.settled(unit) {
            return Err(self.deadlock(site, "waits for", unit));
        }
        match unit {
            Blocked::Work(id) => self.wait(site, &[Token(id)]),
            Blocked::Release(s, n) => {
                let id = self.semaphores[s as usize].released[n as usize];
                self.wait(site, &[Token(id)])
            }
        }
    }

    /// Notes that `actor` releases a unit with the end of work `id`.
    pub(crate) fn give(&mut self, s: Semaphore, actor: usize, id: u32, site: Site) -> Result<()> {
        self.same_end(s, 0, actor, site, "releases")?;
        self.semaphores[s.0 as usize].released.push(id);
        Ok(())
    }

    /// The unit that the next acquire of `actor` takes.
    pub(crate) fn take(&mut self, s: Semaphore, actor: usize, site: Site) -> Result<Blocked> {
        self.same_end(s, 1, actor, site, "acquires")?;
        let state = &mut self.semaphores[s.0 as usize];
        let n = state.acquired;
        state.acquired += 1;
        Ok(match n.checked_sub(state.initial) {
            None => Blocked::Work(0),
            Some(n) => Blocked::Release(s.0, n),
        })
    }

    fn same_end(
        &mut self,
        s: Semaphore,
        end: usize,
        actor: usize,
        site: Site,
        verb: &str,
    ) -> Result<()> {
        let state = &mut self.semaphores[s.0 as usize];
        let (was, first) = *state.ends[end].get_or_insert((actor, site));
        if was == actor {
            return Ok(());
        }
        let text = format!(
            "{} {verb} semaphore {} on {}, and {} on {}: which comes first is not determined",
            self.sites.show(site),
            self.semaphores[s.0 as usize].name,
            self.actor(actor),
            self.sites.show(first),
            self.actor(was)
        );
        Err(Fault::new(FaultKind::Semaphore, Some(site), text)
            .note(Some(first), "the other is here".into()))
    }

    /// Whether the end of what is waited for is known.
    pub(crate) fn settled(&self, dep: Blocked) -> bool {
        self.source(dep).is_some_and(|id| self.works.get(id).done)
    }

    /// The work whose end is waited for, if it has been started.
    pub(crate) fn source(&self, dep: Blocked) -> Option<u32> {
        match dep {
            Blocked::Work(id) => Some(id),
            Blocked::Release(s, n) => self.semaphores[s as usize]
                .released
                .get(n as usize)
                .copied(),
        }
    }

    /// Orders held work for which everything is known now, and runs its effects.
    pub(crate) fn resume(&mut self) -> Result<()> {
        let mut progress = self.held > 0;
        while progress {
            progress = false;
            for q in 0..self.queues.len() {
                while let Some(head) = self.queues[q].held.front()
                    && head.deps.iter().all(|&d| self.settled(d))
                {
                    let Some(p) = self.queues[q].held.pop_front() else {
                        break;
                    };
                    self.held -= 1;
                    let work = Work {
                        reads: &p.reads,
                        writes: &p.writes,
                        ..p.work
                    };
                    self.order(q, p.id, &work, &p.deps, p.issued, Some(&p.clock))?;
                    let done = (p.run)(&mut self.buffers.memory);
                    done.map_err(|e| self.effect(work.site, &e))?;
                    progress = true;
                }
            }
        }
        Ok(())
    }

    /// Fixes what a piece of work comes after, checks its accesses, gives it its time and counts
    /// it. Everything it waits for is settled, and all work before it in its queue is done.
    /// `thread` is the thread's clock at the start, if that is not now.
    pub(crate) fn order(
        &mut self,
        q: usize,
        id: u32,
        work: &Work,
        deps: &[Blocked],
        issued: u64,
        thread: Option<&[u32]>,
    ) -> Result<()> {
        let actor = q + 1;
        let index = self.works.get(id).index;
        let before = self.works.nth(actor, index - 1);
        let mut clock = thread.unwrap_or(&self.clock).to_vec();
        let free = issued.max(self.works.get(before).end);
        let mut begin = free;
        join(&mut clock, self.works.clock(before));
        let mut waited = None;
        for id in deps.iter().filter_map(|&d| self.source(d)) {
            join(&mut clock, self.works.clock(id));
            let before = self.works.get(id);
            if before.end > begin {
                (begin, waited) = (before.end, Some(before.site));
            }
        }
        if self.options.track {
            self.check_work(actor, id, index, work, &clock)?;
        }
        let ready = begin;
        let mut uses = Uses::new();
        if self.banks.any() {
            uses = self.banks.uses(&self.buffers, work);
        }
        let slower = self.banks.slower(&uses);
        begin = match uses.is_empty() {
            true => ready,
            false => {
                let cycles = self.ideal(q, work.cost).saturating_mul(slower);
                self.banks.free(&uses, ready, cycles)
            }
        };
        let (mut end, ideal) = self.schedule(q, begin, work.cost);
        let longer = ideal.saturating_mul(slower - 1);
        end = end.saturating_add(longer);
        self.banks.take(&uses, begin, end);
        clock[actor] = index;
        self.works.complete(id, &clock, end);
        let times = Times {
            free,
            ready,
            begin,
            end,
            ideal,
            longer,
        };
        self.count(q, work, times);
        self.count_layer(q, work, times);
        if self.options.trace {
            let (queue, label) = (Some(QueueId(q as u32)), work.label);
            self.events.push(Event {
                queue,
                start: begin,
                end,
                site: work.site,
                label,
                bytes: match work.cost {
                    Cost::Transfer { bytes, .. } => bytes,
                    Cost::Cycles(_) => 0,
                },
                computes: false,
                waited: waited.map(|site| Waited {
                    cycles: ready - free,
                    site,
                }),
            });
            let accesses = work.reads.iter().chain(work.writes);
            self.trace_accesses(accesses, work.site, (begin, end));
        }
        Ok(())
    }

    /// The bytes that a transfer pays for on an engine.
    fn paid(e: &Engine, bytes: u64, rows: u64) -> u64 {
        let short = rows > 0 && bytes / rows < e.granule;
        if short {
            rows.saturating_mul(e.granule)
        } else {
            bytes
        }
    }

    /// How long work takes without any sharing.
    fn ideal(&self, q: usize, cost: Cost) -> u64 {
        match (cost, self.queues[q].engine) {
            (Cost::Cycles(n), _) => n,
            // A unit that is given a transfer moves its bytes in no time.
            (Cost::Transfer { .. }, None) => 0,
            (Cost::Transfer { bytes, rows }, Some(e)) => {
                let paid = Self::paid(&e, bytes, rows);
                e.latency.saturating_add(paid.div_ceil(e.rate))
            }
        }
    }

    /// The end of work that begins at `begin`, and what its duration is without any sharing.
    fn schedule(&mut self, q: usize, begin: u64, cost: Cost) -> (u64, u64) {
        let ideal = self.ideal(q, cost);
        let (Cost::Transfer { bytes, rows }, Some(e)) = (cost, self.queues[q].engine) else {
            return (begin.saturating_add(ideal), ideal);
        };
        let paid = Self::paid(&e, bytes, rows);
        let demand = Demand {
            from: e.from as usize,
            to: e.to as usize,
            rate: e.rate,
            bytes: paid,
        };
        let end = self
            .bandwidth
            .transfer(begin.saturating_add(e.latency), demand);
        (end, ideal)
    }
}
