//! The account of a run on a machine.

use std::fmt;

use serde::Serialize;
use tir::{Name, grouped};
use tir_accel::MachineInfo;
use tir_accel::bounds::Bounds;
use tir_accel::eval::Layer;
use tir_machine::Report;

use crate::layers::LayerSummary;

/// What a run cost on the machine. Times in cycles, sizes in bytes, shares of the run from 0 to 1.
#[derive(Clone, Debug, Serialize)]
pub struct MachineSummary {
    /// Cycles of the run.
    pub cycles: u64,
    /// Millions of cycles a second; 0 if not said.
    pub clock_mhz: u64,
    /// The lower bound on the cycles by what must pass through each part of the machine.
    pub roofline: u64,
    /// The part that gives the roofline.
    pub bound_by: String,
    /// What the network takes at least, if the program carries its workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<BoundsSummary>,
    /// What the program thread did.
    pub thread: ThreadSummary,
    /// DMA engines and units.
    pub queues: Vec<QueueSummary>,
    /// Multiply-adds on units.
    pub macs: u64,
    /// Multiply-adds of the whole program, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_macs: Option<u64>,
    /// Transfers by cause.
    pub causes: Vec<CauseSummary>,
    /// Memory spaces.
    pub spaces: Vec<SpaceSummary>,
    /// Calls of intrinsics.
    pub calls: Vec<CallSummary>,
    /// Layers of the source, in the order of their first work.
    pub layers: Vec<LayerSummary>,
}

/// Lower bounds of the network, whatever its schedule, and what the schedule adds.
#[derive(Clone, Debug, Serialize)]
pub struct BoundsSummary {
    /// The largest of useful work at its peak and compulsory bytes over bandwidth, in cycles.
    pub cycles: u64,
    /// What gives it.
    pub by: String,
    /// Cycles of the run by that bound.
    pub ratio: f64,
    /// The bound that knows how much near memory holds, in cycles.
    pub window: u64,
    /// The layer that gives it; empty where it is the bound above.
    pub window_at: String,
    /// Cycles of the run by that bound.
    pub window_ratio: f64,
    /// Useful multiply-adds.
    pub useful_macs: u64,
    /// Bytes of arguments and constants that are used, once.
    pub bytes_in: u64,
    /// Bytes of results.
    pub bytes_out: u64,
}

/// What the program thread did with its time.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct ThreadSummary {
    pub busy: u64,
    pub waiting: u64,
    pub queue_full: u64,
}

/// What an engine or unit did with its time.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct QueueSummary {
    pub name: String,
    pub engine: bool,
    pub calls: u64,
    pub busy: u64,
    pub busy_share: f64,
    pub stall: u64,
    pub stall_share: f64,
    /// Waits for ports of banks, and what work took longer for want of them.
    pub conflict: u64,
    pub bytes: u64,
    pub macs: u64,
    /// The most that it does in a cycle, as its machine says: bytes of an engine, multiply-adds of a unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Whether it is an engine that loads from far memory or stores to it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub far: bool,
}

/// Bytes moved for one cause.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct CauseSummary {
    pub cause: String,
    pub from: String,
    pub to: String,
    pub bytes: u64,
    pub transfers: u64,
}

/// What a space held and moved.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct SpaceSummary {
    pub name: String,
    pub bytes: u64,
    pub peak_live: u64,
    pub peak_extent: u64,
    pub read: u64,
    pub written: u64,
}

/// Calls of one intrinsic.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct CallSummary {
    pub name: String,
    pub calls: u64,
    pub cycles: u64,
    pub macs: u64,
}

impl BoundsSummary {
    fn show(&self, f: &mut fmt::Formatter<'_>, macs: u64) -> fmt::Result {
        let (ratio, cycles, by) = (self.ratio, grouped(self.cycles), &self.by);
        write!(
            f,
            "  {ratio:.2} times the network's bound of {cycles} ({by})"
        )?;
        if self.window > self.cycles {
            let (ratio, cycles, at) = (self.window_ratio, grouped(self.window), &self.window_at);
            write!(
                f,
                ", {ratio:.2} times its window bound of {cycles} (at {at})"
            )?;
        }
        writeln!(f)?;
        let (bytes_in, bytes_out) = (grouped(self.bytes_in), grouped(self.bytes_out));
        write!(
            f,
            "  the network: {} multiply-adds",
            grouped(self.useful_macs)
        )?;
        if macs > self.useful_macs {
            write!(f, " (units did {} with padding)", grouped(macs))?;
        }
        writeln!(f, ", {bytes_in} bytes in, {bytes_out} out")
    }
}

impl MachineSummary {
    /// The same with what engines and units of the machine do in a cycle at most.
    #[must_use]
    pub fn with_rates(mut self, machine: &MachineInfo) -> Self {
        let far = machine.far().map(|far| far.name);
        for queue in &mut self.queues {
            // Equal ones have the name of the first, with a number behind.
            let number = queue.name.rsplit_once('.');
            let first = number.filter(|(_, n)| n.bytes().all(|b| b.is_ascii_digit()));
            let name = Name::new(first.map_or(&queue.name[..], |(first, _)| first));
            let engine = machine.engine(Name::new(&queue.name));
            let engine = engine.or_else(|| machine.engine(name));
            queue.far = engine.is_some_and(|e| [e.from, e.to].map(Some).contains(&far));
            let engine = engine.map(|e| e.bytes_per_cycle as f64);
            let own = machine.intrinsics.iter().filter(|i| i.unit == name);
            let most = own.filter(|i| i.macs > 0 && i.cycles > 0);
            let most = most.map(|i| i.macs as f64 / i.cycles as f64);
            // A vector unit multiplies and adds one pair in each lane.
            let vectors = machine.vectors.iter().filter(|v| v.unit == name);
            let lanes = vectors.map(|v| v.lanes as f64);
            queue.rate = engine.or_else(|| most.chain(lanes).reduce(f64::max));
        }
        self
    }

    /// What a report says; `all_macs` are the multiply-adds of the whole program, `bounds` those of
    /// its network, `layers` what is known of its layers.
    pub fn new(
        report: &Report,
        all_macs: Option<u64>,
        bounds: Option<&Bounds>,
        layers: &[Layer],
    ) -> Self {
        let share = |cycles: u64| cycles as f64 / report.cycles.max(1) as f64;
        let macs = report.queues.iter().map(|q| q.macs).sum::<u64>();
        // The first of equal bounds: a part before the space it uses.
        let bound = report.bounds.iter().rev().max_by_key(|b| b.cycles);
        Self {
            cycles: report.cycles,
            clock_mhz: report.clock_mhz,
            roofline: report.roofline(),
            bound_by: bound.map_or(String::new(), |b| b.name.clone()),
            bounds: bounds.map(|b| BoundsSummary {
                cycles: b.cycles,
                by: b.by.to_string(),
                ratio: report.cycles as f64 / b.cycles.max(1) as f64,
                window: b.window,
                window_at: b.at.clone(),
                window_ratio: report.cycles as f64 / b.window.max(1) as f64,
                useful_macs: b.macs,
                bytes_in: b.bytes_in,
                bytes_out: b.bytes_out,
            }),
            thread: ThreadSummary {
                busy: report.thread.busy,
                waiting: report.thread.waiting,
                queue_full: report.thread.queue_full,
            },
            queues: report
                .queues
                .iter()
                .map(|q| QueueSummary {
                    name: q.name.clone(),
                    engine: q.engine,
                    calls: q.calls,
                    busy: q.busy,
                    busy_share: share(q.busy),
                    stall: q.stall,
                    stall_share: share(q.stall),
                    conflict: q.conflict,
                    bytes: q.bytes,
                    macs: q.macs,
                    rate: None,
                    far: false,
                })
                .collect(),
            macs,
            all_macs,
            causes: report
                .causes
                .iter()
                .map(|c| CauseSummary {
                    cause: c.cause.clone(),
                    from: c.from.clone(),
                    to: c.to.clone(),
                    bytes: c.bytes,
                    transfers: c.transfers,
                })
                .collect(),
            spaces: report
                .spaces
                .iter()
                .map(|s| SpaceSummary {
                    name: s.name.clone(),
                    bytes: s.capacity,
                    peak_live: s.peak_live,
                    peak_extent: s.peak_extent,
                    read: s.read,
                    written: s.written,
                })
                .collect(),
            layers: LayerSummary::all(&report.layers, layers),
            calls: report
                .labels
                .iter()
                .map(|l| CallSummary {
                    name: l.name.clone(),
                    calls: l.calls,
                    cycles: l.cycles,
                    macs: l.macs,
                })
                .collect(),
        }
    }

    /// Bytes moved by cause, whatever the direction, in the order of the first transfer.
    fn by_cause(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> = Vec::new();
        for cause in &self.causes {
            match all.iter_mut().find(|(name, _)| *name == cause.cause) {
                Some((_, bytes)) => *bytes += cause.bytes,
                None => all.push((&cause.cause, cause.bytes)),
            }
        }
        all
    }

    /// The text of the summary: a few lines, or all there is.
    pub fn show(&self, f: &mut fmt::Formatter<'_>, all: bool) -> fmt::Result {
        write!(f, "  {} cycles", grouped(self.cycles))?;
        if self.clock_mhz > 0 {
            let us = self.cycles as f64 / self.clock_mhz as f64;
            write!(f, " = {us:.1} us at {} MHz", self.clock_mhz)?;
        }
        if self.roofline > 0 {
            let ratio = self.cycles as f64 / self.roofline as f64;
            let (bound, by) = (grouped(self.roofline), &self.bound_by);
            write!(f, "; {ratio:.2} times the roofline of {bound} ({by})")?;
        }
        writeln!(f)?;
        if let Some(bounds) = &self.bounds {
            bounds.show(f, self.macs)?;
        }
        if let Some(all) = self.all_macs.filter(|all| *all > 0) {
            let percent = 100.0 * self.macs as f64 / all as f64;
            let (on, all) = (grouped(self.macs), grouped(all));
            writeln!(
                f,
                "  {percent:.1} % of multiply-adds on units ({on} of {all})"
            )?;
        } else if self.macs > 0 {
            writeln!(f, "  {} multiply-adds on units", grouped(self.macs))?;
        }
        let total: u64 = self.causes.iter().map(|c| c.bytes).sum();
        let causes = self.by_cause();
        // What fills tiles moves nothing.
        let moved = causes.iter().filter(|(_, bytes)| *bytes > 0 || total == 0);
        let causes = moved.map(|(cause, bytes)| format!("{cause} {}", grouped(*bytes)));
        let causes = causes.collect::<Vec<_>>().join(", ");
        writeln!(f, "  {} bytes moved by DMA ({causes})", grouped(total))?;

        writeln!(
            f,
            "\n  {:12} {:>8} {:>7} {:>7} {:>13} {:>15}",
            "", "calls", "busy", "stalls", "bytes", "multiply-adds"
        )?;
        for q in &self.queues {
            let (busy, stall) = (100.0 * q.busy_share, 100.0 * q.stall_share);
            let number = |n: u64| if n == 0 { String::new() } else { grouped(n) };
            let (name, calls) = (&q.name, grouped(q.calls));
            let line = format!(
                "  {name:12} {calls:>8} {busy:>5.1} % {stall:>5.1} % {:>13} {:>15}",
                number(q.bytes),
                number(q.macs)
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        for q in self.queues.iter().filter(|q| q.conflict > 0) {
            let (name, cycles) = (&q.name, grouped(q.conflict));
            writeln!(f, "  {name:12} {cycles} cycles of conflicts in banks")?;
        }
        writeln!(f, "\n  {:12} {:>13} {:>15}", "", "peak bytes", "of")?;
        for s in &self.spaces {
            let percent = 100.0 * s.peak_extent as f64 / s.bytes.max(1) as f64;
            let (name, peak, of) = (&s.name, grouped(s.peak_extent), grouped(s.bytes));
            writeln!(f, "  {name:12} {peak:>13} {of:>15} {percent:>5.1} %")?;
        }
        if all {
            self.show_rest(f)?;
        }
        Ok(())
    }

    fn show_rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ThreadSummary {
            busy,
            waiting,
            queue_full,
        } = &self.thread;
        let (busy, waiting, full) = (grouped(*busy), grouped(*waiting), grouped(*queue_full));
        writeln!(
            f,
            "\n  thread: {busy} cycles busy, {waiting} waiting for tokens, {full} for queues"
        )?;
        writeln!(f)?;
        for c in &self.causes {
            let (bytes, n) = (grouped(c.bytes), grouped(c.transfers));
            writeln!(
                f,
                "  {:>13} bytes {} to {} in {n} transfers ({})",
                bytes, c.from, c.to, c.cause
            )?;
        }
        for s in &self.spaces {
            let (read, written) = (grouped(s.read), grouped(s.written));
            writeln!(
                f,
                "  {read:>13} bytes read from {} and {written} written to it by DMA",
                s.name
            )?;
        }
        for l in &self.calls {
            let (calls, cycles, macs) = (grouped(l.calls), grouped(l.cycles), grouped(l.macs));
            writeln!(
                f,
                "  {calls:>13} calls of {}: {cycles} cycles, {macs} multiply-adds",
                l.name
            )?;
        }
        if !self.layers.is_empty() {
            LayerSummary::show(self.layers.iter(), f)?;
        }
        Ok(())
    }
}
