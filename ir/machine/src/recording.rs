//! A command stream as it was issued: what a machine that records keeps instead of running it.
//!
//! *Terms.* A **step** is what the thread does once: an access of its own, a start, a wait, a
//! buffer made or released, the end. A **touch** is a strided box of bytes that a step reads or
//! writes. A **form** is the shape of touches without their place; steps of one op mostly have
//! the same, so each is kept once. A **note** is a number that the issuer puts between steps.
//!
//! *Invariants.* Touches lie inside live buffers and start on the spaces of their engine: that is
//! checked as they are recorded. Tokens are numbers of starts, from 1; 0 is complete. Nothing else
//! is checked: a machine judges when the stream is run (`replay`).

mod replay;

pub use replay::Verdict;

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::alloc::{Alloc, Placement};
use crate::fault::{Fault, FaultKind, Result, Site, Sites};
use crate::spec::{MachineSpec, QueueId, SpaceId};
use crate::work::{Cost, Label, Semaphore, Token, Work};
use tir_data::BufferId;
use tir_data::{Footprint, StridedBox};

/// What the thread does once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Accesses of the thread itself by one op, in a row, and its cycles for them and for what it
    /// computes until its next step.
    Thread(u64),
    /// Starts work on a queue.
    Start(QueueId),
    /// Waits for tokens.
    Wait,
    /// Makes a buffer.
    Alloc(BufferId),
    /// Releases a buffer, and those that lie in it.
    Dealloc(BufferId),
    /// The thread releases a unit of a semaphore.
    Release(Semaphore),
    /// The thread takes a unit of a semaphore.
    Acquire(Semaphore),
    /// The issuer's note.
    Note(u32),
    /// A period begins whose accesses are watched: the first of two that are alike, or the second.
    Period(bool),
    /// So many periods are left out, which are as the last one.
    LeftOut(u64),
    /// The end of the program.
    Finish,
}

/// A strided box of bytes that a step reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The buffer.
    pub buffer: BufferId,
    /// Whether it is written.
    pub write: bool,
    /// The number of its form; see [`Recording::form`].
    pub form: u32,
    /// Byte offset of the first element in the buffer.
    pub offset: i64,
}

/// A step with all that belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// What is done.
    pub step: Step,
    /// The operation.
    pub site: Site,
    /// What it reads and writes: of a start all reads first.
    pub touches: &'a [Touch],
    /// What it waits for, in the order of its operands.
    pub tokens: &'a [Token],
}

#[derive(Clone, Copy)]
struct Entry {
    step: Step,
    site: Site,
    /// Which of `kinds`, for a start.
    kind: u32,
    touches: u32,
    tokens: u32,
}

/// What work is beside its touches and tokens.
#[derive(Clone, PartialEq)]
struct Kind {
    cost: Cost,
    label: Option<Label>,
    cause: Option<Label>,
    macs: u64,
    overhead: bool,
    acquire: SmallVec<[Semaphore; 1]>,
    release: SmallVec<[Semaphore; 1]>,
}

/// A request for a buffer.
struct Wanted {
    space: SpaceId,
    name: String,
    bytes: u64,
    align: u64,
    placement: Placement,
    site: Site,
}

/// What was last recorded of a site, which its next step mostly repeats.
#[derive(Clone, Default)]
struct Last {
    kind: u32,
    forms: SmallVec<[u32; 4]>,
}

/// A command stream as it was issued.
pub struct Recording {
    spec: MachineSpec,
    sites: Sites,
    labels: Vec<String>,
    semaphores: Vec<(String, u32)>,
    buffers: Vec<Wanted>,
    entries: Vec<Entry>,
    touches: Vec<Touch>,
    tokens: Vec<Token>,
    kinds: Vec<Kind>,
    /// At offset 0 of no buffer.
    forms: Vec<StridedBox>,
    form_of: HashMap<StridedBox, u32>,
    last: Vec<Last>,
    /// Queue and number on it of each start.
    started: Vec<(QueueId, u32)>,
    /// Of each queue: the last start, and how many.
    queues: Vec<(u32, u32)>,
    limit: u64,
    full: bool,
}

impl Recording {
    pub(crate) fn new(spec: &MachineSpec, queues: usize, limit: u64) -> Self {
        Self {
            spec: spec.clone(),
            sites: Sites::default(),
            labels: Vec::new(),
            semaphores: Vec::new(),
            buffers: Vec::new(),
            entries: Vec::new(),
            touches: Vec::new(),
            tokens: Vec::new(),
            kinds: Vec::new(),
            forms: Vec::new(),
            form_of: HashMap::new(),
            last: Vec::new(),
            started: Vec::new(),
            queues: vec![(0, 0); queues],
            limit,
            full: false,
        }
    }

    /// The number of queues: engines, then units.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }
    /// Whether recording ended at the limit of steps.
    pub fn is_full(&self) -> bool {
        self.full
    }
    /// The queue of a start and its number there, from 1; `None` for a token that is complete
    /// from the beginning.
    pub fn start_of(&self, token: Token) -> Option<(QueueId, u32)> {
        self.started.get(token.0.checked_sub(1)? as usize).copied()
    }
    /// The bytes of a form at offset 0.
    pub fn form(&self, form: u32) -> Footprint {
        let form = &self.forms[form as usize];
        match form.is_empty() {
            false => form.footprint(0),
            true => Footprint::EMPTY,
        }
    }
    /// The number of forms.
    pub fn form_count(&self) -> usize {
        self.forms.len()
    }
    /// For each buffer the outermost one that it lies in, the byte offset there, and its size.
    pub fn places(&self) -> Vec<(BufferId, u64, u64)> {
        let mut out: Vec<(BufferId, u64, u64)> = Vec::with_capacity(self.buffers.len());
        for (i, wanted) in self.buffers.iter().enumerate() {
            out.push(match wanted.placement {
                Placement::Within(outer, offset) => {
                    let (root, base, _) = out[outer.0 as usize];
                    (root, base + offset, wanted.bytes)
                }
                _ => (BufferId(i as u32), 0, wanted.bytes),
            });
        }
        out
    }
    /// The name of the space of each buffer.
    pub fn spaces(&self) -> impl Iterator<Item = &str> {
        let name = |wanted: &Wanted| self.spec.spaces[wanted.space.0 as usize].name.as_str();
        self.buffers.iter().map(name)
    }
    /// All steps in the order of the thread.
    pub fn steps(&self) -> impl Iterator<Item = Recorded<'_>> {
        let (mut touch, mut token) = (0, 0);
        self.entries.iter().map(move |e| {
            let (touches, tokens) = (touch..e.touches as usize, token..e.tokens as usize);
            (touch, token) = (touches.end, tokens.end);
            Recorded {
                step: e.step,
                site: e.site,
                touches: &self.touches[touches],
                tokens: &self.tokens[tokens],
            }
        })
    }

    fn push(&mut self, step: Step, site: Site, kind: u32) -> Result<()> {
        if self.entries.len() as u64 >= self.limit {
            self.full = true;
            let text = format!("the command stream has more than {} steps", self.limit);
            return Err(Fault::new(FaultKind::Limit, Some(site), text));
        }
        self.entries.push(Entry {
            step,
            site,
            kind,
            touches: self.touches.len() as u32,
            tokens: self.tokens.len() as u32,
        });
        Ok(())
    }

    fn last_of(&mut self, site: Site) -> &mut Last {
        let at = site.0 as usize;
        if self.last.len() <= at {
            self.last.resize(at + 1, Last::default());
        }
        &mut self.last[at]
    }

    /// Adds a touch, the `nth` of its step.
    fn touch(&mut self, site: Site, nth: usize, access: &StridedBox, write: bool) {
        let same = |form: &u32| {
            let form = &self.forms[*form as usize];
            form.elem == access.elem && form.shape == access.shape && form.strides == access.strides
        };
        let last = self
            .last
            .get(site.0 as usize)
            .and_then(|l| l.forms.get(nth));
        let form = match last.filter(|form| same(form)) {
            Some(form) => *form,
            None => {
                let key = placed(access, BufferId::NONE, 0);
                let new = self.forms.len() as u32;
                let form = *self.form_of.entry(key).or_insert_with_key(|key| {
                    self.forms.push(key.clone());
                    new
                });
                let last = self.last_of(site);
                if nth < 8 {
                    last.forms.resize(last.forms.len().max(nth + 1), form);
                    last.forms[nth] = form;
                }
                form
            }
        };
        self.touches.push(Touch {
            buffer: access.buffer,
            write,
            form,
            offset: access.offset,
        });
    }

    pub(crate) fn thread(&mut self, site: Site, access: &StridedBox, write: bool) -> Result<()> {
        let last = self.entries.last();
        let more =
            last.is_some_and(|last| matches!(last.step, Step::Thread(_)) && last.site == site);
        if !more {
            self.push(Step::Thread(0), site, 0)?;
        }
        self.touch(site, usize::from(write), access, write);
        if let Some(entry) = self.entries.last_mut() {
            entry.touches = self.touches.len() as u32;
        }
        Ok(())
    }

    /// Adds cycles of the thread: to its step before, whatever op that is of, or as a step that
    /// touches nothing.
    pub(crate) fn cycles(&mut self, site: Site, more: u64) -> Result<()> {
        if let Some(Entry {
            step: Step::Thread(cycles),
            ..
        }) = self.entries.last_mut()
        {
            *cycles = cycles.saturating_add(more);
            return Ok(());
        }
        self.push(Step::Thread(more), site, 0)
    }

    pub(crate) fn start(&mut self, queue: QueueId, work: &Work) -> Result<Token> {
        let last = self.last_of(work.site).kind;
        let same = |k: &Kind| {
            (k.cost, k.label, k.cause, k.macs, k.overhead)
                == (work.cost, work.label, work.cause, work.macs, work.overhead)
                && *k.acquire == *work.acquire
                && *k.release == *work.release
        };
        let kind = match self.kinds.get(last as usize).is_some_and(same) {
            true => last,
            false => {
                self.kinds.push(Kind {
                    cost: work.cost,
                    label: work.label,
                    cause: work.cause,
                    macs: work.macs,
                    overhead: work.overhead,
                    acquire: work.acquire.into(),
                    release: work.release.into(),
                });
                self.kinds.len() as u32 - 1
            }
        };
        self.last_of(work.site).kind = kind;
        let reads = work.reads.iter().map(|a| (a, false));
        let all = reads.chain(work.writes.iter().map(|a| (a, true)));
        for (nth, (access, write)) in all.enumerate() {
            self.touch(work.site, nth, access, write);
        }
        self.tokens.extend(work.after);
        self.push(Step::Start(queue), work.site, kind)?;
        let (last, count) = &mut self.queues[queue.0 as usize];
        *count += 1;
        self.started.push((queue, *count));
        *last = self.started.len() as u32;
        Ok(Token(*last))
    }

    pub(crate) fn mark(&self, queue: QueueId) -> Token {
        Token(self.queues[queue.0 as usize].0)
    }

    pub(crate) fn wait(&mut self, site: Site, tokens: &[Token]) -> Result<()> {
        self.tokens.extend(tokens);
        self.push(Step::Wait, site, 0)
    }

    pub(crate) fn plain(&mut self, step: Step, site: Site) -> Result<()> {
        self.push(step, site, 0)
    }

    pub(crate) fn alloc(&mut self, space: SpaceId, want: &Alloc<'_>) -> Result<()> {
        self.buffers.push(Wanted {
            space,
            name: want.name.to_string(),
            bytes: want.bytes,
            align: want.align,
            placement: want.placement,
            site: want.site,
        });
        let id = BufferId(self.buffers.len() as u32 - 1);
        self.push(Step::Alloc(id), want.site, 0)
    }

    pub(crate) fn rounds(&mut self, step: Step, site: Site, tokens: &[Token]) -> Result<()> {
        self.tokens.extend(tokens);
        self.push(step, site, 0)
    }

    pub(crate) fn semaphore(&mut self, name: &str, initial: u32) {
        self.semaphores.push((name.to_string(), initial));
    }

    /// Takes over the names of operations and labels.
    pub(crate) fn name(&mut self, sites: Sites, labels: Vec<String>) {
        (self.sites, self.labels) = (sites, labels);
    }

    fn access(&self, touch: &Touch) -> StridedBox {
        placed(&self.forms[touch.form as usize], touch.buffer, touch.offset)
    }
}

/// A box of the same form somewhere else.
fn placed(form: &StridedBox, buffer: BufferId, offset: i64) -> StridedBox {
    StridedBox {
        buffer,
        offset,
        ..form.clone()
    }
}
