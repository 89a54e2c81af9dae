//! What must come before what: a run of a stream as instances of work, the hazards between them,
//! and which of those some edges fulfil.
//!
//! Two uses of a byte of which one is a write must be ordered: by the thread's program order, by
//! the order of a queue, or by tokens. Since queues complete in order, what an instance needs of
//! another queue is one number: how many pieces of its work must be complete.

mod clocks;
mod record;

use clocks::propagate;

pub use clocks::Clocks;
pub use record::{Instance, Record};

/// An edge: at runs of a site, the work of a queue that it waits for.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Which site.
    pub site: usize,
    /// Which queue is waited for.
    pub queue: usize,
    /// For each run of the site, how many pieces of that queue's work.
    pub values: Vec<u32>,
}

/// A hazard that no order fulfils.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// The instance.
    pub id: u32,
    /// Its position among those of its site.
    pub run: usize,
    /// The queue.
    pub queue: usize,
    /// How many pieces of its work must be complete.
    pub count: u32,
    /// How many are known to be.
    pub known: u32,
}

/// The hazards that no order fulfils, each counted as fulfilled from then on; those that others
/// imply are left out.
pub fn needs(record: &Record) -> (Vec<Need>, Clocks) {
    let mut out = Vec::new();
    let queues = record.queues;
    let clocks = propagate(record, |id, run, base, clocks| {
        let open: Vec<usize> = (0..queues)
            .filter(|r| record.hazard(id, *r) > base[*r])
            .collect();
        let covers = |a: usize, b: usize| {
            let other = record.nth(a, record.hazard(id, a));
            other.is_some_and(|o| clocks.of(o)[b] >= record.hazard(id, b))
        };
        let kept: Vec<usize> = open
            .iter()
            .copied()
            .filter(|b| !open.iter().any(|a| a != b && covers(*a, *b)))
            .collect();
        for r in &kept {
            let count = record.hazard(id, *r);
            out.push(Need {
                id,
                run,
                queue: *r,
                count,
                known: base[*r],
            });
        }
        for r in kept {
            clocks.wait(record, r, record.hazard(id, r), base);
        }
        true
    });
    let none = || Clocks {
        queues,
        clock: Vec::new(),
        thread: Vec::new(),
    };
    (out, clocks.unwrap_or_else(none))
}

/// The first instance with a hazard that the order with these edges does not fulfil.
pub fn first_race(record: &Record, edges: &[&Edge]) -> Option<(u32, usize)> {
    let mut by_site: Vec<Vec<&Edge>> = vec![Vec::new(); record.by_site.len()];
    for edge in edges {
        by_site[edge.site].push(edge);
    }
    let mut found = None;
    propagate(record, |id, run, base, clocks| {
        let site = record.instances[id as usize].site as usize;
        for edge in &by_site[site] {
            clocks.wait(record, edge.queue, edge.values[run], base);
        }
        let open = (0..record.queues).find(|r| record.hazard(id, *r) > base[*r]);
        found = open.map(|r| (id, r));
        found.is_none()
    });
    found
}

/// Takes out edges without which the order still fulfils all hazards, the last first. Fails on
/// nothing: where the order is not enough to begin with, nothing is taken out.
pub fn prune(record: &Record, edges: Vec<Edge>) -> Vec<bool> {
    let mut keep = vec![true; edges.len()];
    let chosen = |keep: &[bool]| -> Vec<&Edge> {
        edges
            .iter()
            .zip(keep)
            .filter(|(_, k)| **k)
            .map(|(e, _)| e)
            .collect()
    };
    if first_race(record, &chosen(&keep)).is_some() {
        return keep;
    }
    for i in (0..edges.len()).rev() {
        keep[i] = false;
        if first_race(record, &chosen(&keep)).is_some() {
            keep[i] = true;
        }
    }
    keep
}
