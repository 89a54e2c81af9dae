//! What must come before what: a run of a stream as instances of work, the hazards between them,
//! and which of those some edges fulfil.
//!
//! Two uses of a byte of which one is a write must be ordered: by the thread's program order, by
//! the order of a queue, or by tokens. Since queues complete in order, what an instance needs of
//! another queue is one number: how many pieces of its work must be complete.

mod record;
mod shadow_memory;
mod vector_clocks;

pub use record::{Instance, Record, TokenId};
pub use vector_clocks::VectorClocks;
use vector_clocks::{End, Reach};

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
pub fn needs(record: &Record) -> (Vec<Need>, VectorClocks) {
    let mut out = Vec::new();
    let queues = record.queues;
    let mut clocks = VectorClocks::new(record);
    clocks.run(record, 0, None, |id, run, base, clocks| {
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
        let counted = record.counted(id);
        for r in kept.iter().filter(|r| counted[**r] > base[**r]) {
            let count = counted[*r];
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
    (out, clocks)
}

/// Edges, and which of them count.
struct Edges<'a> {
    record: &'a Record,
    edges: &'a [Edge],
    by_site: Vec<Vec<usize>>,
    keep: Vec<bool>,
}

impl<'a> Edges<'a> {
    fn new(record: &'a Record, edges: &'a [Edge]) -> Self {
        let mut by_site: Vec<Vec<usize>> = vec![Vec::new(); record.by_site.len()];
        for (i, edge) in edges.iter().enumerate() {
            by_site[edge.site].push(i);
        }
        Self {
            record,
            edges,
            by_site,
            keep: vec![true; edges.len()],
        }
    }
    /// Computes the clocks from an instance on, up to the first one with a hazard that the order with these
    /// edges does not fulfil.
    fn race(&self, clocks: &mut VectorClocks, from: u32, reach: Option<Reach<'_>>) -> End {
        let record = self.record;
        clocks.run(record, from, reach, |id, run, base, clocks| {
            let site = record.instances[id as usize].site as usize;
            for i in self.by_site[site].iter().filter(|i| self.keep[**i]) {
                let edge = &self.edges[*i];
                clocks.wait(record, edge.queue, edge.values[run], base);
            }
            // No more than that: what far memory holds must be ordered by an edge.
            for (queue, near) in record.assumed(id).into_iter().flatten().enumerate() {
                clocks.wait(record, queue, *near, base);
            }
            let needed = record.counted(id);
            needed.iter().zip(&*base).all(|(need, known)| need <= known)
        })
    }

    /// For each instance, the last one whose clock is computed from that one's, with all edges.
    fn uses(&self) -> Vec<u32> {
        let record = self.record;
        let mut uses: Vec<u32> = (0..record.instances.len() as u32).collect();
        let mut used = |id: Option<u32>, by: u32| {
            if let Some(id) = id {
                uses[id as usize] = uses[id as usize].max(by);
            }
        };
        for edge in self.edges {
            for (value, id) in edge.values.iter().zip(&record.by_site[edge.site]) {
                used(record.nth(edge.queue, *value), *id);
            }
        }
        for id in 0..record.instances.len() as u32 {
            for (queue, near) in record.assumed(id).into_iter().flatten().enumerate() {
                used(record.nth(queue, *near), id);
            }
            if let Some(queue) = record.actor(id) {
                let before = record.instances[id as usize].index - 1;
                used(record.nth(queue, before), id);
            }
            // All that is started before the thread's next own work comes after its last.
            used(record.on_thread_before(id), id);
        }
        uses
    }
}

/// Takes out edges without which the order still fulfils all hazards, the last first. Fails on
/// nothing: where the order is not enough to begin with, nothing is taken out.
///
/// What comes before the first run of an edge's site does not depend on the edge, so each is
/// tried from there on, and no further than to where what follows does not depend on it either: most edges matter
/// in their nest alone, so the time is that of the stream and not of its square.
pub fn prune(record: &Record, edges: &[Edge]) -> Vec<bool> {
    let mut chosen = Edges::new(record, edges);
    let mut clocks = VectorClocks::new(record);
    if let End::Refused(_) = chosen.race(&mut clocks, 0, None) {
        return chosen.keep;
    }
    let uses = chosen.uses();
    let mut tried = clocks.clone();
    for (i, edge) in edges.iter().enumerate().rev() {
        chosen.keep[i] = false;
        let runs = &record.by_site[edge.site];
        let (Some(from), Some(last)) = (runs.first().copied(), runs.last().copied()) else {
            continue;
        };
        let reach = Reach { last, uses: &uses };
        match chosen.race(&mut tried, from, Some(reach)) {
            End::All => clocks.take(&tried, from, None),
            End::Same(end) => clocks.take(&tried, from, Some(end)),
            End::Refused(stop) => {
                chosen.keep[i] = true;
                tried.take(&clocks, from, Some(stop));
            }
        }
    }
    chosen.keep
}
