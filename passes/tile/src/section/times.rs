//! When what a section loads is loaded, and how long the section takes.

use std::ops::Range;

use tir_accel::machine::EngineInfo;

use super::tensors::{Needs, Read};
use crate::plan::Target;

/// One in so many bytes of memory stays free: tensors of different sizes leave gaps.
const SPARE: i64 = 16;

/// The engines between far memory and that of a level.
pub(super) struct Link<'a> {
    load: &'a EngineInfo,
    store: &'a EngineInfo,
    /// Bytes for the tensors, and what each is a multiple of.
    bytes: i64,
    align: i64,
    /// Cycles of the thread to start a transfer.
    thread: i64,
}

impl<'a> Link<'a> {
    pub(super) fn of(target: &Target<'a>, thread: i64) -> Option<Self> {
        let (far, near) = (target.far, target.near);
        Some(Self {
            load: target.info.engine_between(far.name, near.name)?,
            store: target.info.engine_between(near.name, far.name)?,
            bytes: near.bytes - near.bytes / SPARE,
            align: near.align.max(1),
            thread,
        })
    }
    fn round(&self, bytes: i64) -> i64 {
        bytes.saturating_add(self.align - 1) / self.align * self.align
    }
}

/// Cycles of an engine for so many bytes in a row.
fn cycles(engine: &EngineInfo, bytes: i64) -> i64 {
    engine.cycles(bytes, 0, 1)
}

/// A tensor that is loaded.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) read: Read,
    /// Before which nest.
    pub(super) at: usize,
    /// When it is there.
    arrives: i64,
    /// The nest that uses it first.
    first: usize,
}

/// How a section runs.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    pub(super) cycles: i64,
    /// In the order in which they are started.
    pub(super) loads: Vec<Load>,
}

/// The section of nests that take so many cycles, each load started before the first nest from which on memory has room for
/// it, and as many at a time as the engine's queue takes; `None` if memory does not hold what it needs.
pub(super) fn run(nests: &[i64], needs: &Needs, link: &Link<'_>) -> Option<Runs> {
    let mut used = vec![0i64; nests.len() + 1];
    let add = |used: &mut Vec<i64>, bytes: i64, range: Range<usize>| {
        let end = range.end.min(used.len());
        for at in &mut used[range.start..end] {
            *at = at.saturating_add(link.round(bytes));
        }
    };
    for (_, bytes, range) in &needs.inside {
        add(&mut used, *bytes, range.clone());
    }
    for (_, bytes, range) in &needs.loads {
        add(&mut used, *bytes, range.clone());
    }
    if used.iter().any(|used| *used > link.bytes) {
        return None;
    }
    // What stands in the queue while the thread goes on.
    let most = usize::try_from(link.load.queue - 1).unwrap_or(1).max(1);
    let (mut now, mut loads, mut next) = (0i64, Vec::<Load>::new(), 0);
    let (mut loaded, mut stored) = (0i64, 0i64);
    for (i, nest) in nests.iter().enumerate() {
        while let Some((read, bytes, range)) = needs.loads.get(next) {
            let ahead = used[i..range.start].iter();
            let fits = ahead
                .clone()
                .all(|used| used + link.round(*bytes) <= link.bytes);
            let waiting = loads.iter().filter(|load| load.arrives > now).count();
            if range.start > i && (!fits || waiting >= most) {
                break;
            }
            add(&mut used, *bytes, i..range.start);
            now = now.saturating_add(link.thread);
            loaded = loaded.max(now).saturating_add(cycles(link.load, *bytes));
            loads.push(Load {
                read: *read,
                at: i,
                arrives: loaded,
                first: range.start,
            });
            next += 1;
        }
        let own = loads.iter().filter(|load| load.first == i);
        let start = own.fold(now, |start, load| start.max(load.arrives));
        now = start.saturating_add(*nest);
        for (_, bytes, _) in needs.stores.iter().filter(|(.., last)| *last == i) {
            stored = stored.max(now).saturating_add(cycles(link.store, *bytes));
        }
    }
    Some(Runs {
        cycles: now.max(stored),
        loads,
    })
}
