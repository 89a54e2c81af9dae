//! The account of a run.

use std::fmt;

use crate::layers::LayerReport;
use crate::machine::Machine;
use crate::work::{Cost, Label, Work};

/// What a run cost. Times in cycles, sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The end of the last piece of work or of the thread, whichever is later.
    pub cycles: u64,
    /// The clock in MHz, 0 if not stated.
    pub clock_mhz: u64,
    /// The thread's time.
    pub thread: ThreadReport,
    /// The queues: engines, then units.
    pub queues: Vec<QueueReport>,
    /// The memory spaces.
    pub spaces: Vec<SpaceReport>,
    /// Bytes moved by cause, in the order of their first transfer.
    pub causes: Vec<CauseReport>,
    /// Calls by label, in the order of their first call.
    pub labels: Vec<LabelReport>,
    /// Layers in the order of their first work, if operations were put in some.
    pub layers: Vec<LayerReport>,
    /// Lower bounds on the cycles by what must pass through each unit, engine and space.
    pub bounds: Vec<Bound>,
}

/// What the thread did with its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadReport {
    /// Own cycles.
    pub busy: u64,
    /// Waiting for tokens.
    pub waiting: u64,
    /// Waiting for a slot of a full queue.
    pub queue_full: u64,
}

/// What a queue did with its time: `busy + stall + idle` and the waits for banks are the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueReport {
    /// Name of the engine or unit.
    pub name: String,
    /// Whether it is an engine.
    pub engine: bool,
    /// Pieces of work.
    pub calls: u64,
    /// Held by running work.
    pub busy: u64,
    /// Of `busy`: added by sharing the bandwidth of a space.
    pub shared: u64,
    /// Work had been started, but its tokens were not complete.
    pub stall: u64,
    /// Work waited for ports of banks, or took longer for want of them; the latter is in `busy` too.
    pub conflict: u64,
    /// Nothing to do.
    pub idle: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Multiply-adds, as stated by the caller.
    pub macs: u64,
}

/// What a space held and moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceReport {
    /// Name.
    pub name: String,
    /// Its size.
    pub capacity: u64,
    /// Most bytes held by live buffers at a time.
    pub peak_live: u64,
    /// End of the highest buffer there ever was.
    pub peak_extent: u64,
    /// Bytes that engines read.
    pub read: u64,
    /// Bytes that engines wrote.
    pub written: u64,
}

/// Bytes moved from one space to another for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CauseReport {
    /// The cause as the caller named it, or "other".
    pub cause: String,
    /// The space read.
    pub from: String,
    /// The space written.
    pub to: String,
    /// Bytes.
    pub bytes: u64,
    /// Transfers.
    pub transfers: u64,
}

/// Calls counted under one label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelReport {
    /// The label.
    pub name: String,
    /// Pieces of work.
    pub calls: u64,
    /// The cycles they took.
    pub cycles: u64,
    /// Multiply-adds, as stated by the caller.
    pub macs: u64,
}

/// The cycles that one part of the machine needs at least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// The unit, engine or space.
    pub name: String,
    /// Cycles: of a unit its work without overhead, of an engine or space bytes by rate.
    pub cycles: u64,
}

impl Report {
    /// The roofline: the largest of the bounds.
    pub fn roofline(&self) -> u64 {
        self.bounds.iter().map(|b| b.cycles).max().unwrap_or(0)
    }
}

/// When a piece of work ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// It was started, and the work before it in its queue had ended.
    pub free: u64,
    /// Its tokens were complete.
    pub ready: u64,
    /// It began.
    pub begin: u64,
    /// It ended.
    pub end: u64,
    /// How long it takes without any sharing.
    pub ideal: u64,
    /// How much longer it took since several of its operands lie in one bank.
    pub longer: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct QueueAccount {
    calls: u64,
    busy: u64,
    shared: u64,
    stall: u64,
    /// Waits for ports of banks.
    held: u64,
    /// What work took longer for want of them.
    longer: u64,
    bytes: u64,
    macs: u64,
    useful: u64,
    end: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub thread_cycles: u64,
    pub waiting: u64,
    pub queue_full: u64,
    read: Vec<u64>,
    written: Vec<u64>,
    causes: Vec<Moved>,
    labels: Vec<Called>,
}

#[derive(Clone, Debug)]
struct Moved {
    cause: Option<Label>,
    from: u32,
    to: u32,
    bytes: u64,
    transfers: u64,
}

#[derive(Clone, Debug)]
struct Called {
    label: Label,
    calls: u64,
    cycles: u64,
    macs: u64,
}

impl Account {
    pub(crate) fn new(spaces: usize) -> Account {
        Account {
            read: vec![0; spaces],
            written: vec![0; spaces],
            ..Account::default()
        }
    }

    /// Counts what came since `before` as often again; no cause and no label is new since then.
    pub(crate) fn repeat(&mut self, before: &Account, times: u64) {
        again(&mut self.thread_cycles, before.thread_cycles, times);
        again(&mut self.waiting, before.waiting, times);
        again(&mut self.queue_full, before.queue_full, times);
        for (now, before) in self.read.iter_mut().zip(&before.read) {
            again(now, *before, times);
        }
        for (now, before) in self.written.iter_mut().zip(&before.written) {
            again(now, *before, times);
        }
        for (now, before) in self.causes.iter_mut().zip(&before.causes) {
            again(&mut now.bytes, before.bytes, times);
            again(&mut now.transfers, before.transfers, times);
        }
        for (now, before) in self.labels.iter_mut().zip(&before.labels) {
            again(&mut now.calls, before.calls, times);
            again(&mut now.cycles, before.cycles, times);
            again(&mut now.macs, before.macs, times);
        }
    }
}

impl QueueAccount {
    /// Counts what came since `before` as often again, but for times.
    pub(crate) fn repeat(&mut self, before: &QueueAccount, times: u64) {
        again(&mut self.calls, before.calls, times);
        again(&mut self.busy, before.busy, times);
        again(&mut self.shared, before.shared, times);
        again(&mut self.stall, before.stall, times);
        again(&mut self.held, before.held, times);
        again(&mut self.longer, before.longer, times);
        again(&mut self.bytes, before.bytes, times);
        again(&mut self.macs, before.macs, times);
        again(&mut self.useful, before.useful, times);
    }
}

fn again(now: &mut u64, before: u64, times: u64) {
    *now = now.saturating_add((*now - before).saturating_mul(times));
}

impl Machine<'_> {
    /// Counts a piece of work.
    pub(crate) fn count(&mut self, q: usize, work: &Work, times: Times) {
        let Times {
            free,
            ready,
            begin,
            end,
            ideal,
            longer,
        } = times;
        let (queue, all) = (&mut self.queues[q], &mut self.account);
        let a = &mut queue.account;
        let busy = end - begin;
        a.calls += 1;
        a.busy += busy;
        a.shared += busy.saturating_sub(ideal.saturating_add(longer));
        a.stall += ready - free;
        a.held += begin - ready;
        a.longer = a.longer.saturating_add(longer);
        a.macs = a.macs.saturating_add(work.macs);
        a.end = a.end.max(end);
        if !work.overhead {
            a.useful += busy;
        }
        if let (Cost::Transfer { bytes, .. }, Some(e)) = (work.cost, queue.engine) {
            a.bytes = a.bytes.saturating_add(bytes);
            let same = |m: &Moved| (m.cause, m.from, m.to) == (work.cause, e.from, e.to);
            let at = all.causes.iter().position(same).unwrap_or_else(|| {
                let (cause, from, to) = (work.cause, e.from, e.to);
                all.causes.push(Moved {
                    cause,
                    from,
                    to,
                    bytes: 0,
                    transfers: 0,
                });
                all.causes.len() - 1
            });
            let moved = &mut all.causes[at];
            moved.bytes = moved.bytes.saturating_add(bytes);
            moved.transfers += 1;
            for (space, n) in [(e.from, &mut all.read), (e.to, &mut all.written)] {
                n[space as usize] = n[space as usize].saturating_add(bytes);
            }
        }
        if let Some(label) = work.label {
            let at = all
                .labels
                .iter()
                .position(|l| l.label == label)
                .unwrap_or_else(|| {
                    all.labels.push(Called {
                        label,
                        calls: 0,
                        cycles: 0,
                        macs: 0,
                    });
                    all.labels.len() - 1
                });
            let called = &mut all.labels[at];
            called.calls += 1;
            called.cycles = called.cycles.saturating_add(busy);
            called.macs = called.macs.saturating_add(work.macs);
        }
    }

    /// The account so far.
    pub fn report(&self) -> Report {
        let cycles = self
            .queues
            .iter()
            .map(|q| q.account.end)
            .fold(self.now, u64::max)
            .saturating_add(self.left_out);
        let label = |l: Label| self.labels[l.0 as usize].clone();
        let queues = self.queues.iter().map(|q| {
            let a = &q.account;
            QueueReport {
                name: q.name.clone(),
                engine: q.engine.is_some(),
                calls: a.calls,
                busy: a.busy,
                shared: a.shared,
                stall: a.stall,
                conflict: a.held.saturating_add(a.longer),
                idle: cycles - a.busy - a.stall - a.held,
                bytes: a.bytes,
                macs: a.macs,
            }
        });
        let spaces = self
            .spec
            .spaces
            .iter()
            .enumerate()
            .map(|(i, s)| SpaceReport {
                name: s.name.clone(),
                capacity: s.bytes,
                peak_live: self.buffers.peak_live[i],
                peak_extent: self.buffers.peak_extent[i],
                read: self.account.read[i],
                written: self.account.written[i],
            });
        let causes = self.account.causes.iter().map(|m| CauseReport {
            cause: m.cause.map_or("other".to_string(), label),
            from: self.space_name(m.from).to_string(),
            to: self.space_name(m.to).to_string(),
            bytes: m.bytes,
            transfers: m.transfers,
        });
        let labels = self.account.labels.iter().map(|l| LabelReport {
            name: label(l.label),
            calls: l.calls,
            cycles: l.cycles,
            macs: l.macs,
        });
        Report {
            cycles,
            clock_mhz: self.spec.clock_mhz,
            thread: ThreadReport {
                busy: self.account.thread_cycles,
                waiting: self.account.waiting,
                queue_full: self.account.queue_full,
            },
            queues: queues.collect(),
            spaces: spaces.collect(),
            causes: causes.collect(),
            labels: labels.collect(),
            layers: self.layer_reports(),
            bounds: self.bounds(),
        }
    }

    fn bounds(&self) -> Vec<Bound> {
        let queues = self.queues.iter().map(|q| {
            let (a, name) = (&q.account, q.name.clone());
            let cycles = q.engine.map_or(a.useful, |e| a.bytes.div_ceil(e.rate));
            Bound { name, cycles }
        });
        let spaces = self.spec.spaces.iter().enumerate().map(|(i, s)| {
            let bytes = self.account.read[i].saturating_add(self.account.written[i]);
            Bound {
                name: s.name.clone(),
                cycles: bytes.div_ceil(s.bytes_per_cycle),
            }
        });
        queues.chain(spaces).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let share = |n: u64| 100.0 * n as f64 / self.cycles.max(1) as f64;
        write!(f, "{} cycles", self.cycles)?;
        if self.clock_mhz > 0 {
            write!(
                f,
                " ({:.1} us at {} MHz)",
                self.cycles as f64 / self.clock_mhz as f64,
                self.clock_mhz
            )?;
        }
        writeln!(f, ", roofline {}", self.roofline())?;
        writeln!(
            f,
            "{:12} {:>9} {:>11} {:>7} {:>7} {:>12}",
            "queue", "calls", "busy", "busy %", "stall %", "bytes"
        )?;
        for q in &self.queues {
            let (busy, stall) = (share(q.busy), share(q.stall));
            writeln!(
                f,
                "{:12} {:>9} {:>11} {busy:>7.1} {stall:>7.1} {:>12}",
                q.name, q.calls, q.busy, q.bytes
            )?;
        }
        for q in self.queues.iter().filter(|q| q.conflict > 0) {
            writeln!(f, "{}: {} cycles of conflicts in banks", q.name, q.conflict)?;
        }
        writeln!(
            f,
            "{:12} {:>12} {:>12} {:>12} {:>12}",
            "space", "peak", "of", "read", "written"
        )?;
        for s in &self.spaces {
            writeln!(
                f,
                "{:12} {:>12} {:>12} {:>12} {:>12}",
                s.name, s.peak_extent, s.capacity, s.read, s.written
            )?;
        }
        for c in &self.causes {
            writeln!(
                f,
                "{} bytes {} to {} in {} transfers ({})",
                c.bytes, c.from, c.to, c.transfers, c.cause
            )?;
        }
        for l in &self.labels {
            writeln!(
                f,
                "{} calls of {}: {} cycles, {} multiply-adds",
                l.calls, l.name, l.cycles, l.macs
            )?;
        }
        Ok(())
    }
}
