//! Checks of accesses, and the words for what is wrong.

use crate::alloc::Buffers;
use crate::fault::{Fault, FaultKind, Result, Site};
use crate::machine::Machine;
use crate::region::{Hit, View, Why};
use crate::work::{THREAD, WRITER_THREAD, Work};
use tir_data::BufferId;
use tir_data::StridedBox;

impl Machine<'_> {
    /// A fault unless an access is inside its live buffer.
    pub(crate) fn in_bounds(&self, site: Site, access: &StridedBox) -> Result<()> {
        self.buffers.usable(&self.sites, access.buffer, site)?;
        let b = self.buffers.get(access.buffer);
        match access.extent() {
            Some((low, high)) if low < 0 || high > b.bytes.into() => {
                let op = self.sites.show(site);
                let text = format!(
                    "{op} uses bytes {low}..{high} of {}, which has {}",
                    b.name, b.bytes
                );
                Err(Fault::new(FaultKind::OutOfBounds, Some(site), text))
            }
            _ => Ok(()),
        }
    }

    /// A fault unless a buffer is in the space that an engine reads or writes.
    pub(crate) fn in_space(
        &self,
        site: Site,
        q: usize,
        buffer: BufferId,
        space: Option<u32>,
    ) -> Result<()> {
        let b = self.buffers.get(buffer);
        match space {
            Some(want) if want != b.space => {
                let (op, queue) = (self.sites.show(site), &self.queues[q].name);
                let (has, want) = (self.space_name(b.space), self.space_name(want));
                let text = format!(
                    "{op} uses {} in @{has}, but @{queue} reaches @{want} there",
                    b.name
                );
                Err(Fault::new(FaultKind::Transfer, Some(site), text))
            }
            _ => Ok(()),
        }
    }

    /// Checks the accesses of work that comes after `clock`, and records them.
    pub(crate) fn check_work(
        &mut self,
        actor: usize,
        id: u32,
        index: u32,
        work: &Work,
        clock: &[u32],
    ) -> Result<()> {
        for a in work.reads {
            self.check(a, work.site, false, id, clock)?;
            self.watch((actor, work.site), a, false, clock);
        }
        for a in work.writes {
            self.check(a, work.site, true, id, clock)?;
            self.record_write(a, id);
            self.watch((actor, work.site), a, true, clock);
        }
        for a in work.reads {
            self.record_read(a, actor, index);
        }
        Ok(())
    }

    /// Checks and records an access of the thread.
    ///
    /// It is complete before whatever is ordered later, so its reads need no record. That holds
    /// for work that is held back too: what frees it is started after this access, and it comes
    /// after that.
    pub(crate) fn check_thread(&mut self, site: Site, a: &StridedBox, write: bool) -> Result<()> {
        let code = WRITER_THREAD | site.0;
        let clock = std::mem::take(&mut self.clock);
        let checked = self.check(a, site, write, code, &clock);
        self.watch((THREAD, site), a, write, &clock);
        self.clock = clock;
        checked?;
        if write {
            self.record_write(a, code);
        }
        Ok(())
    }

    /// Notes an access of a period that is watched.
    fn watch(&mut self, who: (usize, Site), access: &StridedBox, write: bool, clock: &[u32]) {
        if let Some(mut log) = self.log.take() {
            log.note(who, access, write, (!self.is_far(access.buffer), clock));
            self.log = Some(log);
        }
    }

    fn check(
        &mut self,
        a: &StridedBox,
        site: Site,
        write: bool,
        code: u32,
        clock: &[u32],
    ) -> Result<()> {
        if a.is_empty() {
            return Ok(());
        }
        let f = a.footprint(self.buffers.place(a.buffer).offset);
        let f = self.buffers.region(a.buffer).cells(f);
        let Machine { buffers, works, .. } = self;
        let (list, buffer) = (std::mem::take(&mut buffers.list), a.buffer.0);
        let related = |owner: u32| Buffers::related(&list, owner, buffer);
        let view = View {
            works,
            clock,
            code,
            buffer,
            related: &related,
        };
        let region = buffers.region(a.buffer);
        let checked = if write {
            region.check_write(&f, &view)
        } else {
            region.check_read(&f, &view)
        };
        buffers.list = list;
        self.far_fault = checked.is_err() && self.is_far(a.buffer);
        checked.map_err(|hit| self.explain(hit, a.buffer, site, write, code))
    }

    pub(crate) fn record_write(&mut self, a: &StridedBox, code: u32) {
        if !a.is_empty() {
            let f = a.footprint(self.buffers.place(a.buffer).offset);
            let region = self.buffers.region(a.buffer);
            let f = region.cells(f);
            region.write(&f, code, a.buffer.0);
        }
    }

    fn record_read(&mut self, a: &StridedBox, actor: usize, index: u32) {
        if !a.is_empty() {
            let f = a.footprint(self.buffers.place(a.buffer).offset);
            let region = self.buffers.region(a.buffer);
            let f = region.cells(f);
            region.read(&f, actor, index);
        }
    }

    fn explain(
        &self,
        hit: Hit,
        buffer: BufferId,
        site: Site,
        write: bool,
        code: u32,
    ) -> Box<Fault> {
        let (b, place) = (self.buffers.get(buffer), self.buffers.place(buffer));
        let (from, to) = (hit.start - place.offset, hit.end - place.offset);
        let op = self.sites.show(site);
        let verb = if write { "writes" } else { "reads" };
        let what = format!("{op} {verb} bytes {from}..{to} of {}", b.name);
        let fault = |kind, rest: &str| Fault::new(kind, Some(site), format!("{what}, {rest}"));
        let (first, doing) = match hit.why {
            Why::Unwritten => {
                return fault(FaultKind::Uninitialised, "which nothing has written");
            }
            Why::Foreign { owner, code } => {
                let writer = self.writer(code);
                let name = &self.buffers.list[owner as usize].name;
                let by = self.sites.show(writer);
                let fault = fault(
                    FaultKind::Overlap,
                    &format!("which hold data of {name}: {by} wrote them"),
                );
                let fault = fault.note(Some(writer), format!("{by} wrote {name} over {}", b.name));
                return self.shared(fault, buffer, &hit);
            }
            Why::Writer(id) => (id, "writing"),
            Why::Reader(id) => (id, "reading"),
        };
        let r = self.works.get(first);
        let (other, on) = (self.sites.show(r.site), self.actor(r.actor as usize));
        let rest = format!(
            "which {other} on {on} may still be {doing}: no path from its end to this start"
        );
        let fault =
            fault(FaultKind::Race, &rest).note(Some(r.site), format!("{other} started here"));
        let mend = match code & WRITER_THREAD {
            0 => format!("start it after a token of {other} or of later work on {on}"),
            _ => format!("wait for a token of {other} or of later work on {on}"),
        };
        self.shared(fault.note(None, mend), buffer, &hit)
    }

    /// Adds a note when the bytes belong to several buffers.
    fn shared(&self, fault: Box<Fault>, buffer: BufferId, hit: &Hit) -> Box<Fault> {
        let place = self.buffers.place(buffer);
        let here = |id: &usize| {
            let p = self.buffers.memory.places[*id];
            p.region == place.region && p.offset < hit.end && hit.start < p.offset + p.bytes
        };
        let own = self.buffers.get(buffer).parent;
        let ids = (0..self.buffers.list.len())
            .filter(here)
            .filter(|&id| Some(id as u32) != own);
        let names: Vec<_> = ids.map(|id| self.buffers.list[id].name.as_str()).collect();
        if names.len() < 2 {
            return fault;
        }
        let (b, base) = (self.buffers.get(buffer), place.offset);
        let low = b.address + hit.start - base;
        let high = b.address + hit.end - base;
        let space = self.space_name(b.space);
        fault.note(
            None,
            format!(
                "{} lie at addresses {low}..{high} of @{space}",
                names.join(" and ")
            ),
        )
    }

    fn writer(&self, code: u32) -> Site {
        match code & WRITER_THREAD {
            0 => self.works.get(code).site,
            _ => Site(code & !WRITER_THREAD),
        }
    }

    pub(crate) fn space_name(&self, space: u32) -> &str {
        &self.spec.spaces[space as usize].name
    }

    pub(crate) fn actor(&self, actor: usize) -> String {
        match actor {
            THREAD => "the thread".to_string(),
            a => format!("@{}", self.queues[a - 1].name),
        }
    }

    pub(crate) fn effect(&self, site: Site, error: &str) -> Box<Fault> {
        let text = format!("{} fails: {error}", self.sites.show(site));
        Fault::new(FaultKind::Effect, Some(site), text)
    }

    pub(crate) fn freed_in_use(&self, buffer: BufferId, site: Site, first: u32) -> Box<Fault> {
        let r = self.works.get(first);
        let (op, other, name) = (
            self.sites.show(site),
            self.sites.show(r.site),
            &self.buffers.get(buffer).name,
        );
        let on = self.actor(r.actor as usize);
        let text = format!(
            "{op} releases {name}, which {other} on {on} may still use: nothing waited for it"
        );
        Fault::new(FaultKind::FreedInUse, Some(site), text)
            .note(Some(r.site), format!("{other} started here"))
    }

    pub(crate) fn not_waited(&self, site: Site, actor: usize, first: u32, n: u32) -> Box<Fault> {
        let first = self.works.get(first).site;
        let (op, other, on) = (
            self.sites.show(site),
            self.sites.show(first),
            self.actor(actor),
        );
        let more = if n > 1 {
            format!(" and {} more there", n - 1)
        } else {
            String::new()
        };
        let text =
            format!("{op} is reached while {other} on {on}{more} may still run: not waited for");
        Fault::new(FaultKind::NotWaited, Some(site), text)
            .note(Some(first), format!("{other} started here"))
    }
}
