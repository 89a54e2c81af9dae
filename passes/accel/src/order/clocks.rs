//! What each instance is known to come after.

use super::Record;

/// How far each instance is known to come after the work of each queue.
///
/// The clock of an instance says for every queue how many pieces of its work are complete when
/// the instance is.
#[derive(Clone)]
pub struct Clocks {
    pub(super) queues: usize,
    pub(super) clock: Vec<u32>,
    pub(super) thread: Vec<u32>,
}

/// Calls `visit` with each instance, its position among those of its site, and what it is known
/// to come after; `visit` may add to that.
pub fn propagate(
    record: &Record,
    mut visit: impl FnMut(u32, usize, &mut [u32], &Clocks) -> bool,
) -> Option<Clocks> {
    let queues = record.queues;
    let mut clocks = Clocks {
        queues,
        clock: vec![0; record.instances.len() * queues],
        thread: vec![0; queues],
    };
    let mut runs = vec![0usize; record.by_site.len()];
    let mut base = vec![0; queues];
    for id in 0..record.instances.len() as u32 {
        let instance = record.instances[id as usize];
        base.copy_from_slice(&clocks.thread);
        let actor = record.actor(id);
        if let Some(q) = actor
            && let Some(before) = record.nth(q, instance.index - 1)
        {
            join(&mut base, clocks.of(before));
        }
        let run = &mut runs[instance.site as usize];
        if !visit(id, *run, &mut base, &clocks) {
            return None;
        }
        *run += 1;
        match actor {
            Some(q) => base[q] = instance.index,
            None => clocks.thread.copy_from_slice(&base),
        }
        let at = id as usize * queues;
        clocks.clock[at..at + queues].copy_from_slice(&base);
    }
    Some(clocks)
}

impl Clocks {
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
}

fn join(into: &mut [u32], other: &[u32]) {
    for (a, b) in into.iter_mut().zip(other) {
        *a = (*a).max(*b);
    }
}
