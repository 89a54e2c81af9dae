//! Who waits for whom, when nothing can go on.

use std::collections::BTreeSet;

use crate::fault::{Fault, FaultKind, Site};
use crate::machine::Machine;
use crate::pending::Blocked;
use crate::work::THREAD;

impl Machine<'_> {
    /// The thread at `site` needs `what`, which is held back for good, since only the thread
    /// could start something that frees it. Follows the chain of reasons to its end.
    pub(crate) fn deadlock(&self, site: Site, verb: &str, what: Blocked) -> Box<Fault> {
        let op = self.sites.show(site);
        let text = format!("deadlock: {op} {verb} {}", self.waited(what));
        let mut fault = Fault::new(FaultKind::Deadlock, Some(site), text);
        let mut seen = BTreeSet::new();
        let mut next = what;
        loop {
            let Some(id) = self.source(next) else {
                let who = "nothing that has been started releases it, and the thread cannot go on";
                return fault.note(None, who.to_string());
            };
            let r = self.works.get(id);
            let Some(q) = (r.actor as usize).checked_sub(THREAD + 1) else {
                return fault;
            };
            let Some(head) = self.queues[q].held.front() else {
                return fault;
            };
            let (first, queue) = (self.works.get(head.id).site, &self.queues[q].name);
            let name = self.sites.show(first);
            if head.id != id {
                let text = format!(
                    "{} stands behind {name} on @{queue}",
                    self.sites.show(r.site)
                );
                fault = fault.note(Some(r.site), text);
            }
            if !seen.insert(head.id) {
                return fault.note(
                    Some(first),
                    format!("{name} waits for itself: the circle is closed"),
                );
            }
            let Some(&dep) = head.deps.iter().find(|&&d| !self.settled(d)) else {
                return fault;
            };
            fault = fault.note(
                Some(first),
                format!("{name} on @{queue} waits for {}", self.waited(dep)),
            );
            next = dep;
        }
    }

    fn waited(&self, what: Blocked) -> String {
        let work = |id: u32| {
            let r = self.works.get(id);
            format!(
                "{} on {}",
                self.sites.show(r.site),
                self.actor(r.actor as usize)
            )
        };
        match what {
            Blocked::Work(id) => work(id),
            Blocked::Release(s, n) => {
                let by = self
                    .source(what)
                    .map_or(String::new(), |id| format!(", due from {}", work(id)));
                format!(
                    "release {} of semaphore {}{by}",
                    n + 1,
                    self.semaphores[s as usize].name
                )
            }
        }
    }
}
