//! What each layer of a program cost.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tir::grouped;
use tir_accel::eval::Layer;
use tir_machine::LayerReport;

/// What a layer cost: the part of a program that came from one place of the source. Times in
/// cycles, sizes in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct LayerSummary {
    /// Names of its operators, or its place.
    pub name: String,
    /// Places of its operators.
    pub at: Vec<String>,
    /// The cycle in which the first of it began.
    pub start: u64,
    /// From there to the end of the last of it; spans of layers overlap where queues run ahead.
    pub cycles: u64,
    /// Engines that load were busy: those that move away from far memory.
    pub load: u64,
    /// Engines that store were busy: those that move towards far memory.
    pub store: u64,
    /// Units were busy.
    pub unit: u64,
    /// Each of them, by name.
    pub units: BTreeMap<String, u64>,
    /// The thread's own work.
    pub thread: u64,
    /// The thread waited for tokens.
    pub waiting: u64,
    /// The thread waited for a full queue.
    pub queue_full: u64,
    /// Queues waited for tokens.
    pub stall: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes moved from or to far memory.
    pub far: u64,
    /// Bytes moved by cause.
    pub causes: BTreeMap<String, u64>,
    /// Multiply-adds on units, padding included.
    pub macs: u64,
    /// Useful multiply-adds, if the program carries its workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub useful_macs: Option<u64>,
    /// Bytes of each near space that its buffers lie in, by name: each byte once.
    pub near: BTreeMap<String, u64>,
}

/// Most characters of a name in a table.
pub(crate) const WIDEST: usize = 40;

/// The end of a name that is wider than a column: names of layers differ in what stands last.
pub(crate) fn tail(name: &str, width: usize) -> String {
    match name.char_indices().nth_back(width - 1) {
        Some((from, _)) if from > 0 => {
            let mut tail = name[from..].chars();
            tail.next();
            format!("…{}", tail.as_str())
        }
        _ => name.to_string(),
    }
}

/// The layers that take most cycles, in the order of the program: a table with a line for each.
pub struct Costliest<'a> {
    all: &'a [LayerSummary],
    shown: Vec<&'a LayerSummary>,
}

impl<'a> Costliest<'a> {
    /// At most so many of these.
    pub fn new(all: &'a [LayerSummary], most: usize) -> Self {
        let mut ranked: Vec<usize> = (0..all.len()).collect();
        ranked.sort_by_key(|at| std::cmp::Reverse(all[*at].cycles));
        ranked.truncate(most);
        ranked.sort_unstable();
        let shown = ranked.into_iter().map(|at| &all[at]).collect();
        Self { all, shown }
    }
}

impl fmt::Display for Costliest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shown.is_empty() {
            return Ok(());
        }
        let (shown, all) = (self.shown.len(), self.all.len());
        writeln!(f, "\n  the {shown} costliest of {all} layers:")?;
        LayerSummary::show(self.shown.iter().copied(), f)
    }
}

impl LayerSummary {
    /// The layers of a report, with what is known of them from the source.
    pub(crate) fn all(reports: &[LayerReport], known: &[Layer]) -> Vec<Self> {
        let one = |r: &LayerReport| {
            let layer = known.iter().find(|layer| layer.name == r.name);
            let mut causes = BTreeMap::new();
            for cause in &r.causes {
                *causes.entry(cause.cause.clone()).or_default() += cause.bytes;
            }
            Self {
                name: r.name.clone(),
                at: layer.map_or(Vec::new(), |layer| layer.at.clone()),
                start: r.start,
                cycles: r.end - r.start,
                load: r.load,
                store: r.store,
                unit: r.unit,
                units: r.units.clone(),
                thread: r.thread,
                waiting: r.waiting,
                queue_full: r.queue_full,
                stall: r.stall,
                bytes: r.bytes,
                far: r.far,
                causes,
                macs: r.macs,
                useful_macs: layer.and_then(|layer| layer.macs),
                near: r.near.clone(),
            }
        };
        // What computes for another one ends before it; it may begin behind that, whose constants may be loaded early.
        let mut reports: Vec<&LayerReport> = reports.iter().collect();
        reports.sort_by_key(|r| (r.end, r.start));
        reports.into_iter().map(one).collect()
    }

    /// The table of some layers: a line for each.
    pub(crate) fn show<'a>(
        layers: impl Iterator<Item = &'a Self> + Clone,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let width = layers.clone().map(|l| l.name.chars().count());
        let width = width.max().unwrap_or(0).clamp(5, WIDEST);
        writeln!(
            f,
            "\n  {:width$} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>12} {:>12} {:>7}  near bytes",
            "layer",
            "from",
            "cycles",
            "load",
            "store",
            "unit",
            "thread",
            "waits",
            "stalls",
            "bytes",
            "compulsory",
            "useful"
        )?;
        for l in layers {
            let name = tail(&l.name, width);
            let compulsory = l.causes.get("compulsory").copied().unwrap_or(0);
            let useful = match l.useful_macs {
                Some(useful) if l.macs > 0 => {
                    format!("{:.1} %", 100.0 * useful as f64 / l.macs as f64)
                }
                _ => String::new(),
            };
            let numbers = [
                l.start,
                l.cycles,
                l.load,
                l.store,
                l.unit,
                l.thread,
                l.waiting + l.queue_full,
                l.stall,
            ];
            write!(f, "  {name:width$}")?;
            for n in numbers {
                write!(f, " {:>11}", grouped(n))?;
            }
            let near = l
                .near
                .iter()
                .map(|(space, n)| format!("{} {space}", grouped(*n)));
            let near = near.collect::<Vec<_>>().join(", ");
            let (bytes, compulsory) = (grouped(l.bytes), grouped(compulsory));
            let line = format!(" {bytes:>12} {compulsory:>12} {useful:>7}  {near}");
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
