//! The moment at which most bytes of a space live, and why buffers do.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use tir::interfaces::Loop;
use tir::{Diagnostic, Ir, OpId};

use super::{Why, writers};
use crate::liveness::{Buffer, timeline};
use crate::plan_memory::problem;

/// When most bytes of a space live.
pub(super) struct Moment {
    pub(super) op: OpId,
    pub(super) bytes: u64,
    pub(super) aligned: u64,
    pub(super) members: Vec<usize>,
    /// When each op begins, and the time behind it and what is in its regions.
    times: HashMap<OpId, Range<u64>>,
}

impl Moment {
    /// Errors: live ranges that are none.
    pub(super) fn of(ir: &Ir, buffers: &[Buffer]) -> Result<Option<Self>, Diagnostic> {
        let problem = problem(buffers).map_err(|e| *e)?;
        let set = problem.largest_live_set();
        let ops = timeline(ir);
        let Some(time) = set.time else {
            return Ok(None);
        };
        // Of the ops while all of them live, one that works with one of them tells most.
        let lives = |i: &usize, time: u64| buffers[*i].live.iter().any(|r| r.contains(&time));
        let all = (time..).take_while(|time| set.members.iter().all(|i| lives(i, *time)));
        let all = all.filter_map(|time| ops.get(usize::try_from(time).ok()?).copied());
        let works = |op: &OpId| {
            let used = set.members.iter().any(|i| buffers[*i].uses.contains(op));
            used && ir.regions(*op).len() == 0
        };
        let mut all = all.take(ops.len()).peekable();
        let first = all.peek().copied();
        let Some(op) = all.find(works).or(first) else {
            return Ok(None);
        };
        // What is inside of an op stands behind it.
        let mut times: HashMap<OpId, Range<u64>> = HashMap::new();
        for (at, op) in (0u64..).zip(&ops) {
            times.insert(*op, at..at + 1);
            let around = std::iter::successors(ir.parent(*op), |op| ir.parent(*op));
            for holder in around {
                if let Some(range) = times.get_mut(&holder) {
                    range.end = at + 1;
                }
            }
        }
        Ok(Some(Self {
            op,
            bytes: set.bytes,
            aligned: set.height,
            members: set.members.clone(),
            times,
        }))
    }

    /// Whether the moment may come behind an op: that stands before it in the text, or in a loop around both.
    pub(super) fn is_behind(&self, ir: &Ir, op: OpId) -> bool {
        let begin = |op: OpId| self.times.get(&op).map(|range| range.start);
        begin(op) <= begin(self.op) || {
            let mut around = std::iter::successors(ir.parent(op), |op| ir.parent(*op));
            around.any(|holder| is_loop(ir, holder) && ir.is_below(self.op, holder))
        }
    }

    /// Why a buffer lives at the moment.
    pub(super) fn why(&self, ir: &Ir, buffer: &Buffer) -> Why {
        match self.gap(ir, buffer) {
            None => Why::Used,
            Some(gap) if gap.round => Why::Again(gap.to),
            Some(gap) => Why::For(gap.to),
        }
    }

    /// The gap of a buffer at the moment, unless it is used then.
    pub(super) fn gap(&self, ir: &Ir, buffer: &Buffer) -> Option<Gap> {
        // Ops that use it, and those that ops are in which use it.
        let mut touched: HashSet<OpId> = HashSet::new();
        for op in &buffer.uses {
            let around = std::iter::successors(Some(*op), |op| ir.parent(*op));
            for op in around {
                if !touched.insert(op) {
                    break;
                }
            }
        }
        if touched.contains(&self.op) && buffer.uses.contains(&self.op) {
            return None;
        }
        let mut op = self.op;
        if touched.contains(&op) {
            // An op with regions of which one uses it.
            return None;
        }
        while let Some(holder) = ir.parent(op).filter(|holder| !touched.contains(holder)) {
            op = holder;
        }
        let uses = |op: &&OpId| touched.contains(*op);
        let end = |op: OpId| self.times.get(&op).map(|range| range.end);
        let begin = |op: OpId| self.times.get(&op).map(|range| range.start);
        let (mut before, mut behind): (Option<OpId>, Option<OpId>) = (None, None);
        // Outwards, as long as nothing runs again.
        let mut at = op;
        let (ranges, from, to, round) = loop {
            let all: Vec<OpId> = ir.ops_in(ir.block_of(at)?).collect();
            let place = all.iter().position(|other| *other == at)?;
            before = before.or_else(|| all[..place].iter().rev().find(uses).copied());
            behind = behind.or_else(|| all[place + 1..].iter().find(uses).copied());
            if let (Some(before), Some(behind)) = (before, behind) {
                let between = end(before)?..begin(behind)?;
                break (vec![between], before, behind, false);
            }
            let holder = ir.parent(at)?;
            if !is_loop(ir, holder) && holder != ir.root() {
                at = holder;
                continue;
            }
            let last = *all.last()?;
            let first = all.iter().find(uses).copied();
            let final_use = all.iter().rev().find(uses).copied();
            let (from, to) = match (before, behind) {
                (Some(before), _) => (before, first?),
                (None, behind) => (final_use?, behind?),
            };
            let ranges = vec![begin(all[0])?..begin(to)?, end(from)?..end(last)?];
            break (ranges, from, to, before.is_some());
        };
        // The op itself that uses it, where it is in another one.
        let inside = |of: OpId, op: &&OpId| {
            let mut around = std::iter::successors(Some(**op), |op| ir.parent(*op));
            around.any(|op| op == of)
        };
        let mut uses = buffer.uses.iter();
        let to = uses.find(|op| inside(to, op)).copied().unwrap_or(to);
        let mut uses = buffer.uses.iter().rev();
        let from = uses.find(|op| inside(from, op)).copied().unwrap_or(from);
        // What nothing writes in a loop is stored before it.
        let written: HashSet<OpId> = writers(ir, buffer)
            .flat_map(|op| std::iter::successors(Some(op), |op| ir.parent(*op)))
            .collect();
        let around = std::iter::successors(ir.parent(op), |op| ir.parent(*op));
        let (mut loads, mut stores) = (Some(1u64), Some(1u64));
        for holder in around.filter(|holder| *holder != ir.root()) {
            let looped = ir.info(holder).and_then(|i| i.interface::<dyn Loop>());
            let Some(looped) = looped else { continue };
            let trips = looped.trip_count(ir, holder);
            let trips = trips.and_then(|n| u64::try_from(n).ok());
            let times = |all: Option<u64>| all.zip(trips).and_then(|(a, b)| a.checked_mul(b));
            loads = times(loads);
            if written.contains(&holder) {
                stores = times(stores);
            }
        }
        Some(Gap {
            ranges,
            from,
            to,
            round,
            loads,
            stores,
        })
    }
}

fn is_loop(ir: &Ir, op: OpId) -> bool {
    let info = ir.info(op);
    info.is_some_and(|info| info.interface::<dyn Loop>().is_some())
}

/// Times at which a buffer only lies there.
pub(super) struct Gap {
    pub(super) ranges: Vec<Range<u64>>,
    pub(super) from: OpId,
    pub(super) to: OpId,
    /// Whether it is used next when a loop runs another time.
    round: bool,
    /// How often its content is to be loaded, if it is known.
    pub(super) loads: Option<u64>,
    /// How often it is to be stored, if far memory does not have it.
    pub(super) stores: Option<u64>,
}
