//! What happened when, and as a file for Perfetto.

use serde_json::{Value, json};

use tir_data::{BufferId, StridedBox};

use crate::fault::Site;
use crate::machine::Machine;
use crate::spec::{QueueId, SpaceId};
use crate::work::Label;

/// A piece of work that ran, or the thread that waits or computes. Times in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where; `None` is the thread.
    pub queue: Option<QueueId>,
    /// First cycle.
    pub start: u64,
    /// The cycle after the last.
    pub end: u64,
    /// The operation; of the thread's own work the first.
    pub site: Site,
    /// What it is counted under.
    pub label: Option<Label>,
    /// Bytes moved.
    pub bytes: u64,
    /// Whether the thread computes.
    pub computes: bool,
    /// What its queue waited for last, if it waited.
    pub waited: Option<Waited>,
}

/// What a piece of work waited for with its queue free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// For so many cycles.
    pub cycles: u64,
    /// The work that ended last of those waited for.
    pub site: Site,
}

/// A buffer from its first access to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The buffer.
    pub buffer: BufferId,
    /// The cycle in which its first access begins, and the operation.
    pub first: (u64, Site),
    /// The cycle in which its last access ends, and the operation.
    pub last: (u64, Site),
}

/// Bytes of live buffers in a space from a cycle on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The cycle.
    pub at: u64,
    /// The space.
    pub space: SpaceId,
    /// The bytes.
    pub bytes: u64,
}

impl Machine<'_> {
    /// All events so far in the order in which they were ordered; empty without
    /// [`Options::trace`](crate::Options::trace).
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How much memory was held when, in order; empty without
    /// [`Options::trace`](crate::Options::trace).
    pub fn held(&self) -> &[Held] {
        &self.memory_events
    }

    /// The lives of all buffers that were accessed, in the order of their first access; empty without
    /// [`Options::trace`](crate::Options::trace).
    pub fn lives(&self) -> Vec<Life> {
        let mut lives: Vec<Life> = self.lives.iter().flatten().copied().collect();
        lives.sort_by_key(|life| (life.first.0, life.buffer.0));
        lives
    }

    /// Name, space, address and bytes of a buffer.
    pub fn buffer(&self, buffer: BufferId) -> Option<(&str, SpaceId, u64, u64)> {
        let b = self.buffers.list.get(buffer.0 as usize)?;
        Some((&b.name, SpaceId(b.space), b.address, b.bytes))
    }

    /// The name of an operation, its place, and its layer if it is in one.
    pub fn describe(&self, site: Site) -> (&str, &str, Option<&str>) {
        let (op, at) = self.sites.parts(site);
        let layer = self.sites.layer(site).map(|label| self.label_text(label));
        (op, at, layer)
    }

    /// The text of a label.
    pub fn label_text(&self, label: Label) -> &str {
        &self.labels[label.0 as usize]
    }

    /// Keeps that buffers are accessed from a cycle to another one.
    pub(crate) fn trace_accesses<'a>(
        &mut self,
        accesses: impl Iterator<Item = &'a StridedBox>,
        site: Site,
        (begin, end): (u64, u64),
    ) {
        for access in accesses {
            let at = access.buffer.0 as usize;
            if self.lives.len() <= at {
                self.lives.resize(at + 1, None);
            }
            let life = self.lives[at].get_or_insert(Life {
                buffer: access.buffer,
                first: (begin, site),
                last: (end, site),
            });
            if begin < life.first.0 {
                life.first = (begin, site);
            }
            if end > life.last.0 {
                life.last = (end, site);
            }
        }
    }

    /// Keeps what a space holds now.
    pub(crate) fn trace_memory(&mut self) {
        if !self.options.trace {
            return;
        }
        let all = self.buffers.live_bytes.iter().zip(&mut self.memory_held);
        for (i, (bytes, last)) in all.enumerate() {
            if bytes != last {
                *last = *bytes;
                self.memory_events.push(Held {
                    at: self.now,
                    space: SpaceId(i as u32),
                    bytes: *bytes,
                });
            }
        }
    }

    /// Keeps the thread's own work, joined with that before it if nothing came between.
    pub(crate) fn trace_thread(&mut self, site: Site, until: u64) {
        if !self.options.trace || until == self.now {
            return;
        }
        let layer = self.sites.layer(site);
        if let Some(last) = self.events.last_mut()
            && last.computes
            && last.end == self.now
            && self.sites.layer(last.site) == layer
        {
            last.end = until;
            return;
        }
        self.events.push(Event {
            queue: None,
            start: self.now,
            end: until,
            site,
            label: None,
            bytes: 0,
            computes: true,
            waited: None,
        });
    }
}

/// The events in Chrome's trace format, which Perfetto reads: one row for the thread and each
/// queue, a counter for the bytes that each space holds, one microsecond shown for each cycle. An
/// event says its operation, its place, its layer and its bytes. A line for each event.
pub fn chrome_trace(machine: &Machine) -> String {
    let queues = machine.queues.iter().map(|q| q.name.as_str());
    let rows = std::iter::once("thread").chain(queues).enumerate();
    let meta = |tid: usize, what: &str, args: Value| json!({"ph": "M", "pid": 0, "tid": tid, "name": what, "args": args});
    let process = meta(0, "process_name", json!({"name": machine.spec.name}));
    let rows = rows.flat_map(|(tid, name)| {
        [
            meta(tid, "thread_name", json!({"name": name})),
            meta(tid, "thread_sort_index", json!({"sort_index": tid})),
        ]
    });
    let held = machine.memory_events.iter().map(|h| {
        let name = format!("bytes in {}", machine.space_name(h.space.0));
        json!({"ph": "C", "pid": 0, "ts": h.at, "name": name, "args": {"live": h.bytes}})
    });
    let events = machine.events.iter().map(|e| {
        let (op, at) = machine.sites.parts(e.site);
        let text = |l: Label| machine.label_text(l);
        let name = match (e.label, e.queue) {
            (Some(label), _) => text(label),
            (None, None) if e.computes => "compute",
            _ => op,
        };
        let mut args = json!({"op": op, "at": at});
        if let Some(layer) = machine.sites.layer(e.site) {
            args["layer"] = text(layer).into();
        }
        if e.bytes > 0 {
            args["bytes"] = e.bytes.into();
        }
        if let Some(waited) = e.waited {
            let (op, at) = machine.sites.parts(waited.site);
            args["waited"] = waited.cycles.into();
            args["waited for"] = format!("{op} at {at}").into();
        }
        json!({
            "ph": "X",
            "pid": 0,
            "tid": e.queue.map_or(0, |q| q.0 + 1),
            "ts": e.start,
            "dur": e.end - e.start,
            "name": name,
            "args": args,
        })
    });
    let all = std::iter::once(process)
        .chain(rows)
        .chain(held)
        .chain(events);
    let lines: Vec<String> = all.map(|line| line.to_string()).collect();
    let lines = lines.join(",\n");
    format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{lines}\n]}}\n")
}
