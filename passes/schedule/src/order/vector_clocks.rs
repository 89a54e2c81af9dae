//! Vector clocks: what each instance is known to come after (happens-before, Lamport 1978, kept
//! as Fidge and Mattern do).
//!
//! *Invariant.* Queues complete in order, so of each queue one number says all: how many pieces of
//! its work are complete. The clock of an instance is the join of those of its predecessors: what
//! the thread had done at its start, the work before it on its queue, and what its edges wait for.

use super::Record;

/// How a run ended.
pub enum End {
    /// With the last instance.
    All,
    /// Before an instance that was refused.
    Refused(u32),
    /// Before an instance from which on all clocks are those of before.
    Same(u32),
}

/// How far a change reaches.
pub struct Reach<'a> {
    /// The last instance that is computed otherwise than before.
    pub last: u32,
    /// For each instance, the last one whose clock is computed from that one's.
    pub uses: &'a [u32],
}

/// How far each instance is known to come after the work of each queue.
///
/// The clock of an instance says for every queue how many pieces of its work are complete when
/// the instance is.
#[derive(Clone)]
pub struct VectorClocks {
    pub(super) queues: usize,
    pub(super) clock: Vec<u32>,
}

impl VectorClocks {
    /// Clocks in which nothing is known yet.
    pub fn new(record: &Record) -> Self {
        Self {
            queues: record.queues,
            clock: vec![0; record.instances.len() * record.queues],
        }
    }
    /// The clock of an instance.
    pub fn of(&self, id: u32) -> &[u32] {
        let at = id as usize * self.queues;
        &self.clock[at..at + self.queues]
    }
    /// Adds what is known once the first `count` pieces of work of a queue are complete.
    pub fn wait(&self, record: &Record, queue: usize, count: u32, base: &mut [u32]) {
        if let Some(id) = record.nth(queue, count) {
            join(base, self.of(id));
        }
    }

    /// Computes the clocks from an instance on; those before it stand.
    ///
    /// Calls `visit` with each instance, its position among those of its site, and what it is
    /// known to come after; `visit` may add to that, and stops the run with `false`. Where it is known how far
    /// a change reaches, the run ends as soon as the clocks that follow are those of before.
    pub fn run(
        &mut self,
        record: &Record,
        from: u32,
        reach: Option<Reach<'_>>,
        mut visit: impl FnMut(u32, usize, &mut [u32], &VectorClocks) -> bool,
    ) -> End {
        let queues = self.queues;
        let mut last = reach.as_ref().map_or(u32::MAX, |reach| reach.last);
        let mut thread = vec![0; queues];
        if let Some(id) = record.on_thread_before(from) {
            thread.copy_from_slice(self.of(id));
        }
        let before = |ids: &Vec<u32>| ids.partition_point(|id| *id < from);
        let mut runs: Vec<usize> = record.by_site.iter().map(before).collect();
        let mut base = vec![0; queues];
        for id in from..record.instances.len() as u32 {
            if id > last {
                return End::Same(id);
            }
            let instance = record.instances[id as usize];
            base.copy_from_slice(&thread);
            let actor = record.actor(id);
            if let Some(q) = actor
                && let Some(before) = record.nth(q, instance.index - 1)
            {
                join(&mut base, self.of(before));
            }
            let run = &mut runs[instance.site as usize];
            if !visit(id, *run, &mut base, self) {
                return End::Refused(id);
            }
            *run += 1;
            match actor {
                Some(q) => base[q] = instance.index,
                None => thread.copy_from_slice(&base),
            }
            let at = id as usize * queues;
            let clock = &mut self.clock[at..at + queues];
            if let Some(reach) = reach.as_ref().filter(|_| *clock != *base) {
                last = last.max(reach.uses[id as usize]);
            }
            clock.copy_from_slice(&base);
        }
        End::All
    }

    /// Takes over the clocks of the instances from `from` on, up to `to`.
    pub fn take(&mut self, other: &VectorClocks, from: u32, to: Option<u32>) {
        let end = to.map_or(self.clock.len(), |to| to as usize * self.queues);
        let range = from as usize * self.queues..end;
        self.clock[range.clone()].copy_from_slice(&other.clock[range]);
    }
}

fn join(into: &mut [u32], other: &[u32]) {
    for (a, b) in into.iter_mut().zip(other) {
        *a = (*a).max(*b);
    }
}
