//! What each layer of a program cost: the part of it that came from one place of the source.
//!
//! *Terms.* A **layer** is a label that the caller gives to operations
//! ([`Machine::put_in_layer`]). Its **span** is from its first piece of work to its last.
//!
//! *Invariant.* Cycles, bytes and products of all layers, and of what is in none, add up to those
//! of the run; spans may overlap, and they do where queues run ahead.

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::Site;
use crate::machine::Machine;
use crate::report::{CauseReport, Times};
use crate::work::{Cost, Label, Work};

/// What a layer cost. Times in cycles, sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerReport {
    /// Its label.
    pub name: String,
    /// The cycle in which the first of it began.
    pub start: u64,
    /// The cycle after the last of it.
    pub end: u64,
    /// Held engines that write a space no nearer to the first one than what they read: loads.
    pub load: u64,
    /// Held engines that write a space nearer to the first one, in the order of spaces, than what they read: stores.
    pub store: u64,
    /// Held units.
    pub unit: u64,
    /// Each unit that it held, by name.
    pub units: BTreeMap<String, u64>,
    /// The thread's own work.
    pub thread: u64,
    /// The thread waited for tokens.
    pub waiting: u64,
    /// The thread waited for a slot of a full queue.
    pub queue_full: u64,
    /// Queues waited for tokens of its work.
    pub stall: u64,
    /// Its work waited for ports of banks, or took longer for want of them.
    pub conflict: u64,
    /// Bytes that engines moved.
    pub bytes: u64,
    /// Those of them that were moved from or to the first space.
    pub far: u64,
    /// Multiply-adds on units.
    pub macs: u64,
    /// Bytes of each space but the first in which buffers lie that its work reads or writes, by name: each byte once,
    /// however many buffers lie there one after the other.
    pub near: BTreeMap<String, u64>,
    /// Bytes by cause, if the caller counts them.
    pub causes: Vec<CauseReport>,
}

/// Layers in the order of their first work, and the layer of each label.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    reports: Vec<(Label, LayerReport)>,
    /// The space, the first byte and the one behind the last of each buffer that the work of a report uses.
    used: Vec<BTreeSet<(u32, u64, u64)>>,
    /// By label.
    at: Vec<Option<usize>>,
}

/// Bytes of each space in some ranges of bytes, which are sorted.
fn covered(ranges: &BTreeSet<(u32, u64, u64)>) -> BTreeMap<u32, u64> {
    let mut sums = BTreeMap::new();
    let (mut space, mut end) = (0, 0);
    for &(of, from, to) in ranges {
        if of != space {
            (space, end) = (of, 0);
        }
        let from = from.max(end);
        *sums.entry(of).or_insert(0) += to.saturating_sub(from);
        end = end.max(to);
    }
    sums
}

impl Layers {
    /// Whether anything is counted by layer.
    pub(crate) fn any(&self) -> bool {
        !self.reports.is_empty()
    }

    /// The report of a layer in which something happens from `start` to `end`.
    fn touch(&mut self, label: Label, start: u64, end: u64) -> &mut LayerReport {
        let key = label.0 as usize;
        if self.at.len() <= key {
            self.at.resize(key + 1, None);
        }
        let at = *self.at[key].get_or_insert_with(|| {
            let report = LayerReport {
                start,
                ..LayerReport::default()
            };
            self.reports.push((label, report));
            self.used.push(BTreeSet::new());
            self.reports.len() - 1
        });
        let report = &mut self.reports[at].1;
        report.start = report.start.min(start);
        report.end = report.end.max(end);
        report
    }
}

impl Layers {
    /// Notes that the work of a layer uses some bytes of a space.
    fn uses(&mut self, label: Label, range: (u32, u64, u64)) {
        let at = self.at.get(label.0 as usize).copied().flatten();
        if let Some(used) = at.and_then(|at| self.used.get_mut(at)) {
            used.insert(range);
        }
    }
}

impl Machine<'_> {
    /// Counts what an operation does to a layer from now on.
    pub fn put_in_layer(&mut self, site: Site, layer: Label) {
        self.sites.put_in_layer(site, layer);
    }

    /// Counts a piece of work to its layer.
    pub(crate) fn count_layer(&mut self, q: usize, work: &Work, times: Times) {
        let Some(label) = self.sites.layer(work.site) else {
            return;
        };
        let Times {
            free,
            ready,
            begin,
            end,
            longer,
            ..
        } = times;
        let layer = self.layers.touch(label, begin, end);
        let busy = match self.queues[q].engine {
            Some(engine) if engine.to < engine.from => &mut layer.store,
            Some(_) => &mut layer.load,
            None => &mut layer.unit,
        };
        *busy += end - begin;
        if self.queues[q].engine.is_none() {
            let name = &self.queues[q].name;
            match layer.units.get_mut(name) {
                Some(busy) => *busy += end - begin,
                None => {
                    layer.units.insert(name.clone(), end - begin);
                }
            }
        }
        layer.stall += ready - free;
        layer.conflict += (begin - ready).saturating_add(longer);
        layer.macs = layer.macs.saturating_add(work.macs);
        if let Cost::Transfer { bytes, .. } = work.cost {
            layer.bytes = layer.bytes.saturating_add(bytes);
            let engine = self.queues[q].engine;
            if engine.is_some_and(|engine| engine.from == 0 || engine.to == 0) {
                layer.far = layer.far.saturating_add(bytes);
            }
        }
        for access in work.reads.iter().chain(work.writes) {
            let buffer = self.buffers.get(access.buffer);
            if buffer.space > 0 {
                let end = buffer.address.saturating_add(buffer.bytes);
                self.layers.uses(label, (buffer.space, buffer.address, end));
            }
        }
    }

    /// Counts the thread's own work from now on, or its waiting, to a layer.
    pub(crate) fn count_layer_thread(&mut self, site: Site, until: u64, what: Thread) {
        let Some(label) = self.sites.layer(site) else {
            return;
        };
        let layer = self.layers.touch(label, self.now, until);
        let counter = match what {
            Thread::Busy => &mut layer.thread,
            Thread::Waiting => &mut layer.waiting,
            Thread::QueueFull => &mut layer.queue_full,
        };
        *counter += until - self.now;
    }

    pub(crate) fn layer_reports(&self) -> Vec<LayerReport> {
        let spaces = &self.spec().spaces;
        let reports = self.layers.reports.iter().zip(&self.layers.used);
        let reports = reports.map(|((label, report), used)| {
            let name = self.labels[label.0 as usize].clone();
            let near = covered(used).into_iter();
            let near = near.filter_map(|(space, bytes)| {
                Some((spaces.get(space as usize)?.name.clone(), bytes))
            });
            LayerReport {
                name,
                near: near.collect(),
                ..report.clone()
            }
        });
        reports.collect()
    }
}

/// What the thread does with its time.
#[derive(Clone, Copy)]
pub(crate) enum Thread {
    Busy,
    Waiting,
    QueueFull,
}
