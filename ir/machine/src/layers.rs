//! What each layer of a program cost: the part of it that came from one place of the source.
//!
//! *Terms.* A **layer** is a label that the caller gives to operations
//! ([`Machine::put_in_layer`]). Its **span** is from its first piece of work to its last.
//!
//! *Invariant.* Cycles, bytes and products of all layers, and of what is in none, add up to those
//! of the run; spans may overlap, and they do where queues run ahead.

use std::collections::BTreeMap;

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
    /// Held engines that do not write the first space: loads.
    pub load: u64,
    /// Held engines that write the first space: stores.
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
    /// Multiply-adds on units.
    pub macs: u64,
    /// Most bytes that live buffers of all spaces but the first held when work of it began.
    pub peak: u64,
    /// Bytes by cause, if the caller counts them.
    pub causes: Vec<CauseReport>,
}

/// Layers in the order of their first work, and the layer of each label.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    reports: Vec<(Label, LayerReport)>,
    /// By label.
    at: Vec<Option<usize>>,
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
            self.reports.len() - 1
        });
        let report = &mut self.reports[at].1;
        report.start = report.start.min(start);
        report.end = report.end.max(end);
        report
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
        let near = self.buffers.live_bytes.iter().skip(1);
        let near = near.fold(0, |all, n| u64::saturating_add(all, *n));
        let layer = self.layers.touch(label, begin, end);
        let busy = match self.queues[q].engine {
            Some(engine) if engine.to == 0 => &mut layer.store,
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
        layer.peak = layer.peak.max(near);
        if let Cost::Transfer { bytes, .. } = work.cost {
            layer.bytes = layer.bytes.saturating_add(bytes);
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
        let reports = self.layers.reports.iter().map(|(label, report)| {
            let name = self.labels[label.0 as usize].clone();
            LayerReport {
                name,
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
