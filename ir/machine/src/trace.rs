//! What happened when, and as a file for Perfetto.

use std::fmt::Write;

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
/// queue, one microsecond shown for each cycle.
pub fn chrome_trace(machine: &Machine) -> String {
    let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    let queues = machine.queues.iter().map(|q| q.name.as_str());
    for (tid, name) in std::iter::once("thread").chain(queues).enumerate() {
        let comma = if tid > 0 { ",\n" } else { "" };
        let _ = write!(
            out,
            "{comma}{{\"ph\":\"M\",\"pid\":0,\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}}",
            quote(name)
        );
    }
    for e in &machine.events {
        let (op, at) = machine.sites.parts(e.site);
        let name = e
            .label
            .map_or(op, |l| machine.labels[l.0 as usize].as_str());
        let tid = e.queue.map_or(0, |q| q.0 + 1);
        let _ = write!(
            out,
            ",\n{{\"ph\":\"X\",\"pid\":0,\"tid\":{tid},\"ts\":{},\"dur\":{},\"name\":{},\"args\":{{\"op\":{},\"at\":{}}}}}",
            e.start,
            e.end - e.start,
            quote(name),
            quote(op),
            quote(at)
        );
    }
    out.push_str("\n]}\n");
    out
}

/// A JSON string.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn strings_are_escaped() {
        assert_eq!(super::quote("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
