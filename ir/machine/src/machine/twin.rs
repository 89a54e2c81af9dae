//! A machine in the state of another one.

use std::collections::VecDeque;

use super::{Machine, Queue};

impl Machine<'_> {
    /// A machine in the same state that keeps no data; `None` while work is held back, or if it records.
    pub(crate) fn fork(&self) -> Option<Machine<'static>> {
        if self.held > 0 || self.recording.is_some() || self.options.data {
            return None;
        }
        let queue = |queue: &Queue<'_>| Queue {
            name: queue.name.clone(),
            depth: queue.depth,
            engine: queue.engine,
            held: VecDeque::new(),
            account: queue.account.clone(),
        };
        Some(Machine {
            spec: self.spec.clone(),
            options: self.options,
            sites: self.sites.clone(),
            labels: self.labels.clone(),
            buffers: self.buffers.clone(),
            works: self.works.clone(),
            queues: self.queues.iter().map(queue).collect(),
            clock: self.clock.clone(),
            now: self.now,
            bandwidth: self.bandwidth.clone(),
            banks: self.banks.clone(),
            semaphores: self.semaphores.clone(),
            held: 0,
            account: self.account.clone(),
            layers: self.layers.clone(),
            events: self.events.clone(),
            memory_events: self.memory_events.clone(),
            lives: self.lives.clone(),
            memory_held: self.memory_held.clone(),
            recording: None,
            log: self.log.clone(),
            far_fault: self.far_fault,
            left_out: self.left_out,
        })
    }
}
