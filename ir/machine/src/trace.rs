//! What happened when, and as a file for Perfetto.

use serde_json::json;

use crate::fault::Site;
use crate::machine::Machine;
use crate::spec::QueueId;
use crate::work::Label;

/// A piece of work that ran, or the thread waiting. Times in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where; `None` is the thread, which waits.
    pub queue: Option<QueueId>,
    /// First cycle.
    pub start: u64,
    /// The cycle after the last.
    pub end: u64,
    /// The operation.
    pub site: Site,
    /// What it is counted under.
    pub label: Option<Label>,
}

impl Machine<'_> {
    /// All events so far in the order in which they were ordered; empty without
    /// [`Options::trace`](crate::Options::trace).
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}

/// The events in Chrome's trace format, which Perfetto reads: one row for the thread and each
/// queue, one microsecond shown for each cycle. A line for each event.
pub fn chrome_trace(machine: &Machine) -> String {
    let queues = machine.queues.iter().map(|q| q.name.as_str());
    let rows = std::iter::once("thread").chain(queues).enumerate();
    let rows = rows.map(|(tid, name)| {
        json!({"ph": "M", "pid": 0, "tid": tid, "name": "thread_name", "args": {"name": name}})
    });
    let events = machine.events.iter().map(|e| {
        let (op, at) = machine.sites.parts(e.site);
        let name = e
            .label
            .map_or(op, |l| machine.labels[l.0 as usize].as_str());
        json!({
            "ph": "X",
            "pid": 0,
            "tid": e.queue.map_or(0, |q| q.0 + 1),
            "ts": e.start,
            "dur": e.end - e.start,
            "name": name,
            "args": {"op": op, "at": at},
        })
    });
    let lines: Vec<String> = rows.chain(events).map(|line| line.to_string()).collect();
    let lines = lines.join(",\n");
    format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{lines}\n]}}\n")
}
