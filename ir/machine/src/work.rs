//! Pieces of work, tokens, and the clocks that order them.

use crate::fault::Site;
use tir_data::StridedBox;

/// The end of a piece of work, or of nothing. Tokens may be used any number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub(crate) u32);

/// A counting semaphore from one queue (or the thread) to one queue (or the thread).
/// The k-th acquire is after the k-th release, initial units counted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Semaphore(pub(crate) u32);

/// A name to count by: an intrinsic, or a cause of traffic ("compulsory", "reload", "spill").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub(crate) u32);

/// How long a piece of work holds its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// A call on a unit: cycles.
    Cycles(u64),
    /// A transfer on an engine: bytes moved, in this many rows contiguous on both sides.
    /// [`Machine::transfer_cost`](crate::Machine::transfer_cost) makes it of two accesses.
    Transfer {
        /// Bytes moved.
        bytes: u64,
        /// Contiguous rows.
        rows: u64,
    },
}

/// What is started on a queue.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The operation.
    pub site: Site,
    /// How long it takes.
    pub cost: Cost,
    /// Bytes read. A call that accumulates reads what it writes.
    pub reads: &'a [StridedBox],
    /// Bytes written, all of them.
    pub writes: &'a [StridedBox],
    /// It begins after these.
    pub after: &'a [Token],
    /// It begins after a unit of each of these has been released.
    pub acquire: &'a [Semaphore],
    /// Its end releases a unit of each of these.
    pub release: &'a [Semaphore],
    /// What it is counted under: the intrinsic.
    pub label: Option<Label>,
    /// What the bytes of a transfer are counted under.
    pub cause: Option<Label>,
    /// Multiply-adds (or whatever the caller counts) done by this call.
    pub macs: u64,
    /// Whether its cycles are left out of the roofline (a reset form, say).
    pub overhead: bool,
}

impl Work<'_> {
    /// Work that touches nothing, waits for nothing, and counts for nothing but time.
    pub fn new(site: Site, cost: Cost) -> Self {
        Work {
            site,
            cost,
            reads: &[],
            writes: &[],
            after: &[],
            acquire: &[],
            release: &[],
            label: None,
            cause: None,
            macs: 0,
            overhead: false,
        }
    }
}

/// The thread as an actor; queue `q` is actor `q + 1`.
pub(crate) const THREAD: usize = 0;

/// What is known of a piece of work: an entry per start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub site: Site,
    /// Who did it.
    pub actor: u32,
    /// Its number on that actor, from 1.
    pub index: u32,
    /// The cycle of its end; meaningful once `done`.
    pub end: u64,
    /// Whether its order and end are known.
    pub done: bool,
}

/// All work started so far. Work `0` stands for "nothing, complete".
///
/// The clock of a piece of work says, for every actor, how many pieces of its work are complete
/// when this one ends (itself included).
#[derive(Clone, Debug)]
pub(crate) struct Works {
    actors: usize,
    records: Vec<Record>,
    clocks: Vec<u32>,
    /// Work ids of each actor in order.
    by_actor: Vec<Vec<u32>>,
}

impl Works {
    pub(crate) fn new(actors: usize) -> Works {
        let nothing = Record {
            site: Site(0),
            actor: 0,
            index: 0,
            end: 0,
            done: true,
        };
        Works {
            actors,
            records: vec![nothing],
            clocks: vec![0; actors],
            by_actor: vec![Vec::new(); actors],
        }
    }

    /// The next piece of work of `actor`, not yet ordered. `None` when there are too many.
    pub(crate) fn add(&mut self, actor: usize, site: Site) -> Option<u32> {
        let id = u32::try_from(self.records.len())
            .ok()
            .filter(|&id| id < WRITER_THREAD)?;
        self.by_actor[actor].push(id);
        let index = self.by_actor[actor].len() as u32;
        self.records.push(Record {
            site,
            actor: actor as u32,
            index,
            end: 0,
            done: false,
        });
        self.clocks.resize(self.clocks.len() + self.actors, 0);
        Some(id)
    }

    /// Fixes the order and the end of a piece of work.
    pub(crate) fn complete(&mut self, id: u32, clock: &[u32], end: u64) {
        let at = id as usize * self.actors;
        self.clocks[at..at + self.actors].copy_from_slice(clock);
        let r = &mut self.records[id as usize];
        (r.end, r.done) = (end, true);
    }

    pub(crate) fn get(&self, id: u32) -> &Record {
        &self.records[id as usize]
    }

    pub(crate) fn clock(&self, id: u32) -> &[u32] {
        let at = id as usize * self.actors;
        &self.clocks[at..at + self.actors]
    }

    /// Whether a piece of work is complete in a clock.
    pub(crate) fn ordered(&self, id: u32, clock: &[u32]) -> bool {
        let r = self.get(id);
        clock[r.actor as usize] >= r.index
    }

    /// The `index`-th work of an actor (from 1); 0 for index 0.
    pub(crate) fn nth(&self, actor: usize, index: u32) -> u32 {
        match index {
            0 => 0,
            i => self.by_actor[actor][i as usize - 1],
        }
    }

    /// Number of pieces of work of an actor.
    pub(crate) fn count(&self, actor: usize) -> u32 {
        self.by_actor[actor].len() as u32
    }

    /// The last work of an actor, 0 if it has none.
    pub(crate) fn last(&self, actor: usize) -> u32 {
        self.by_actor[actor].last().copied().unwrap_or(0)
    }
}

/// Joins a clock into another.
pub(crate) fn join(into: &mut [u32], other: &[u32]) {
    for (a, b) in into.iter_mut().zip(other) {
        *a = (*a).max(*b);
    }
}

/// In a writer code: the site of a write by the thread rather than a work id.
/// Such a write is complete before anything that comes later.
pub(crate) const WRITER_THREAD: u32 = 1 << 31;
