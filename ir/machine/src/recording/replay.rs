//! Runs of a recording: a machine without data does what was recorded, all of it or without an operand.
//!
//! *Terms.* An **operand** is the n-th token of the steps of some sites. The **verdict** on one is what a run without it
//! finds. A run **parts** from that of the whole where the operand is first come to.
//!
//! *Invariants.* A run has the same verdict, report and words as if the program had run on the machine at once. Where
//! iterations were left out, they count as the last ones that ran if these repeat each other, else the run ends in a fault.

use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;

use super::{Entry, Recording, Step};
use crate::alloc::Alloc;
use crate::fault::{Fault, FaultKind, Result, Site};
use crate::machine::{Machine, Options};
use crate::report::Report;
use crate::rounds::Snapshot;
use crate::work::{Token, Work};

impl Recording {
    /// Runs the stream on a machine without data.
    ///
    /// # Errors
    /// What a run of the program on the machine would find wrong.
    pub fn replay(&self) -> Result<Report> {
        let mut replay = self.begin()?;
        while let Some(at) = replay.next(self) {
            replay.step(self, at, None)?;
        }
        Ok(replay.machine.report())
    }

    /// Runs the stream on a machine without data: the account, and for each step in which cycle it begins and ends. Work
    /// that is started runs later than its step.
    ///
    /// # Errors
    /// What a run of the program on the machine would find wrong.
    pub fn times(&self) -> Result<(Report, Vec<(u64, u64)>)> {
        let mut replay = self.begin()?;
        replay.machine.options.trace = true;
        let mut times = Vec::with_capacity(self.entries.len());
        // Which steps start work on each queue, in its order.
        let mut starts: Vec<Vec<usize>> = vec![Vec::new(); self.queues.len()];
        while let Some(at) = replay.next(self) {
            if let Step::Start(queue) = at.step {
                starts[queue.0 as usize].push(times.len());
            }
            let before = replay.machine.now;
            replay.step(self, at, None)?;
            times.push((before, replay.machine.now));
        }
        let mut starts: Vec<_> = starts.into_iter().map(Vec::into_iter).collect();
        for event in replay.machine.events() {
            let queue = event.queue.map(|queue| queue.0 as usize);
            if let Some(step) = queue.and_then(|queue| starts[queue].next()) {
                times[step] = (event.start, event.end);
            }
        }
        Ok((replay.machine.report(), times))
    }

    /// Runs the stream on a machine without data for each of some operands that are left out: the n-th token of steps of
    /// some sites counts as complete each time. The runs part where the operand is first come to.
    ///
    /// # Errors
    /// What a run of the program on the machine would find wrong with all operands.
    pub fn without(&self, operands: &[(HashSet<Site>, usize)]) -> Result<Vec<Verdict>> {
        let mut found = vec![None; operands.len()];
        let mut by_site: HashMap<Site, Vec<usize>> = HashMap::new();
        for (number, (sites, _)) in operands.iter().enumerate() {
            for site in sites {
                by_site.entry(*site).or_default().push(number);
            }
        }
        let mut whole = self.begin()?;
        while let Some(at) = whole.next(self) {
            let numbers = by_site.get(&at.site).filter(|_| whole.waits(self));
            for number in numbers.into_iter().flatten() {
                if found[*number].is_some() {
                    continue;
                }
                let operand = &operands[*number];
                let mut own = match whole.fork() {
                    Some(own) => own,
                    None => self.begin()?,
                };
                found[*number] = Some(own.verdict(self, operand));
            }
            whole.step(self, at, None)?;
        }
        // What is never come to is not needed.
        let unused = Verdict {
            fails: false,
            doubt: false,
        };
        Ok(found.into_iter().map(|v| v.unwrap_or(unused)).collect())
    }

    fn begin(&self) -> Result<Replay> {
        Ok(Replay {
            machine: self.machine()?,
            started: vec![Token(0)],
            period: None,
            left_out: false,
            entry: 0,
            touches: 0,
            tokens: 0,
        })
    }

    /// A machine without data that knows its names.
    fn machine(&self) -> Result<Machine<'static>> {
        let options = Options {
            data: false,
            ..Options::default()
        };
        let mut machine = Machine::new(self.spec.clone(), options)?;
        machine.sites = self.sites.clone();
        machine.labels = self.labels.clone();
        for (name, initial) in &self.semaphores {
            machine.semaphore(name, *initial);
        }
        Ok(machine)
    }
}

/// What is found where an operand is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// There is a fault.
    pub fails: bool,
    /// Where iterations were left out, they may not be as those that ran for this choice of tokens, or the fault behind them
    /// may be none (module `rounds`).
    pub doubt: bool,
}

/// A run of a recording.
struct Replay {
    machine: Machine<'static>,
    /// The token of each start.
    started: Vec<Token>,
    /// How a period began that is watched.
    period: Option<Snapshot>,
    /// Whether iterations were left out.
    left_out: bool,
    /// What comes next.
    entry: usize,
    touches: usize,
    tokens: usize,
}

impl Replay {
    /// What comes next.
    fn next(&self, all: &Recording) -> Option<Entry> {
        all.entries.get(self.entry).copied()
    }

    /// Whether what comes next waits by operands of its op.
    fn waits(&self, all: &Recording) -> bool {
        let next = self.next(all);
        next.is_some_and(|next| {
            let held = matches!(next.step, Step::Period(_) | Step::LeftOut(_));
            !held && next.tokens as usize > self.tokens
        })
    }

    /// The same run once more from here on.
    fn fork(&self) -> Option<Self> {
        Some(Self {
            machine: self.machine.fork()?,
            started: self.started.clone(),
            period: self.period.clone(),
            ..*self
        })
    }

    /// Runs to the end without an operand.
    fn verdict(&mut self, all: &Recording, without: &(HashSet<Site>, usize)) -> Verdict {
        while let Some(at) = self.next(all) {
            if let Err(fault) = self.step(all, at, Some(without)) {
                // What is complete for the thread and who used near memory last are known as they are.
                let sure = match fault.kind {
                    FaultKind::NotWaited => true,
                    FaultKind::Race => !self.machine.far_fault,
                    _ => false,
                };
                return Verdict {
                    fails: true,
                    doubt: self.left_out && !sure,
                };
            }
        }
        Verdict {
            fails: false,
            doubt: false,
        }
    }

    /// Runs the next step.
    fn step(
        &mut self,
        all: &Recording,
        entry: Entry,
        without: Option<&(HashSet<Site>, usize)>,
    ) -> Result<()> {
        let (machine, site) = (&mut self.machine, entry.site);
        let touches = &all.touches[self.touches..entry.touches as usize];
        let tokens = &all.tokens[self.tokens..entry.tokens as usize];
        (self.touches, self.tokens) = (entry.touches as usize, entry.tokens as usize);
        self.entry += 1;
        // What is at hand stays so.
        let held = matches!(entry.step, Step::Period(_) | Step::LeftOut(_));
        let without = without.filter(|(sites, _)| !held && sites.contains(&site));
        let left_out = without.map(|(_, n)| *n);
        let kept = tokens.iter().enumerate();
        let kept = kept.filter(|(n, _)| left_out != Some(*n));
        let after: SmallVec<[Token; 4]> = kept.map(|(_, t)| self.started[t.0 as usize]).collect();
        match entry.step {
            Step::Thread(cycles) => {
                for touch in touches {
                    let access = all.access(touch);
                    match touch.write {
                        true => machine.thread_write(site, &access)?,
                        false => machine.thread_read(site, &access)?,
                    }
                }
                machine.thread_cycles(site, cycles)?;
            }
            Step::Start(queue) => {
                let (mut reads, mut writes) =
                    (SmallVec::<[_; 4]>::new(), SmallVec::<[_; 4]>::new());
                for touch in touches {
                    let list = if touch.write { &mut writes } else { &mut reads };
                    list.push(all.access(touch));
                }
                let kind = &all.kinds[entry.kind as usize];
                let work = Work {
                    site,
                    cost: kind.cost,
                    reads: &reads,
                    writes: &writes,
                    after: &after,
                    acquire: &kind.acquire,
                    release: &kind.release,
                    label: kind.label,
                    cause: kind.cause,
                    macs: kind.macs,
                    overhead: kind.overhead,
                };
                self.started.push(machine.start(queue, &work, |_| Ok(()))?);
            }
            Step::Wait => machine.wait(site, &after)?,
            Step::Alloc(id) => {
                let wanted = &all.buffers[id.0 as usize];
                let want = Alloc {
                    name: &wanted.name,
                    bytes: wanted.bytes,
                    align: wanted.align,
                    placement: wanted.placement,
                    site: wanted.site,
                };
                machine.alloc(wanted.space, want)?;
            }
            Step::Dealloc(id) => machine.dealloc(id, site)?,
            Step::Release(s) => machine.release(site, s)?,
            Step::Acquire(s) => machine.acquire(site, s)?,
            Step::Note(_) => {}
            Step::Period(again) => {
                machine.watch_period(again);
                self.period = again.then(|| machine.snapshot(&after, &[]));
            }
            Step::LeftOut(periods) => {
                self.left_out = true;
                let now = machine.snapshot(&after, &[]);
                let from = self.period.take();
                let done = from.is_some_and(|from| {
                    machine.repeats(&from, &now, false) && machine.leave_out(&from, periods)
                });
                if !done {
                    let text = "iterations that were left out are unlike those before".to_string();
                    return Err(Fault::new(FaultKind::Limit, Some(site), text));
                }
            }
            Step::Finish => machine.finish(site)?,
        }
        Ok(())
    }
}
