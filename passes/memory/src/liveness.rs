//! Which buffers of a function live when: dataflow on its control-flow graph.
//!
//! *Times* count the ops of the function in the order of the text; an op with regions has a time of
//! its own before those of the ops in them. *Pieces* of ops and the ways between them are the control-flow graph
//! (`pieces.rs`).
//!
//! A buffer is *used* by ops that access its memory through any memref that may lie in it
//! ([`tir_memref::alias`]). It *lives* at a time if a later op may use it (backward:
//! `in = (out - def) ∪ use`) and an earlier one may have (forward, the same with the edges turned);
//! `def` is its allocation, which makes its content undefined. So a buffer lives through a loop
//! that uses what was made before it, and at no time of a branch that nobody comes from or goes to
//! with its content.
//!
//! With *holes* ([`with_holes`]) an op that writes all of a buffer and reads nothing of it ends the range before it, as `def`: between
//! the last use of what it held and that op, others may have its bytes. A write of a part ends nothing.
//!
//! In a program that waits for tokens, asynchronous work uses its buffers until the wait that ends it (`in_flight.rs`).
//!
//! Trusted: one offset is enough for all buffers that an `alloc` makes. That is false where a
//! buffer is handed to a later iteration in which it is allocated again, or where work of an earlier iteration may still use it then;
//! [`liveness`] refuses both.
//! In a program without waits uses by asynchronous work count where it is started: that a later buffer at
//! the same place waits for it is for tokens to say, which are inserted on the bytes of the plan.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap as HashMap;
use smallvec::SmallVec;
use tir::interfaces::overwritten;
use tir::{Access, Diagnostic, Dominance, Ir, MemRefType, Name, OpId, Value};
use tir_accel::MachineInfo;
use tir_accel::transfer::strided;
use tir_memref::Alloc;
use tir_memref::alias::{accesses, aliases};

use crate::in_flight::{InFlight, may_order, orders};
use crate::pieces::{Piece, pieces};

/// A buffer to be placed.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its allocation.
    pub op: OpId,
    /// Its name: that of the text, or a number.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its alignment.
    pub align: u64,
    /// When it lives: half-open, rising, apart from each other.
    pub live: Vec<Range<u64>>,
    /// The time of its allocation.
    pub made: u64,
    /// The ops that use it, in the order of the text.
    pub uses: Vec<OpId>,
}

impl Buffer {
    /// The op of its first and of its last use in the text, if it has any.
    pub fn ends(&self) -> Option<(OpId, OpId)> {
        Some((*self.uses.first()?, *self.uses.last()?))
    }
}

/// The op of each time of a function.
pub fn timeline(ir: &Ir) -> Vec<OpId> {
    let all = ir.walk_ids().into_iter();
    all.filter(|op| *op != ir.root()).collect()
}

/// The buffers of each space, in the order of the text.
pub type Spaces = BTreeMap<Name, Vec<Buffer>>;

/// The buffers of static shape that a function allocates, by space.
///
/// Errors: a buffer that an earlier iteration allocated may still be used when it is allocated
/// again, so that one place does not do.
pub fn liveness(ir: &Ir, machine: &MachineInfo) -> Result<Spaces, Diagnostic> {
    lives(ir, machine, false)
}

/// The same with holes: a buffer that will be written as a whole before it is read lives no longer until then.
///
/// # Errors
/// As [`liveness`].
pub fn with_holes(ir: &Ir, machine: &MachineInfo) -> Result<Spaces, Diagnostic> {
    lives(ir, machine, true)
}

fn lives(ir: &Ir, machine: &MachineInfo, holes: bool) -> Result<Spaces, Diagnostic> {
    let mut buffers: Vec<(Name, Buffer)> = Vec::new();
    let mut names: HashMap<Name, usize> = HashMap::default();
    let mut counts: HashMap<Name, usize> = HashMap::default();
    let ops = timeline(ir);
    for op in ops.iter().copied() {
        let Some(alloc) = ir.get::<Alloc>(op) else {
            continue;
        };
        let memref = ir.result(op, 0);
        let ty = ir.ty(memref);
        let space = ty.get::<MemRefType>().and_then(MemRefType::space_name);
        let (Some(space), Ok(_)) = (space.or(machine.far().map(|s| s.name)), strided(ty)) else {
            continue;
        };
        let (Some(elements), Some(elem)) = (ty.elements(), ty.bytes()) else {
            continue;
        };
        let number = counts.entry(space).or_default();
        let plain = || Name::new(&format!("buffer{number}"));
        let plain = ir.hint(memref).unwrap_or_else(plain);
        *number += 1;
        let count = names.entry(plain).or_default();
        *count += 1;
        let name = match *count {
            1 => plain.as_str().to_string(),
            count => format!("{plain}.{count}"),
        };
        let own = machine.space(space).map_or(1, |s| s.align);
        let align = own.max(alloc.alignment.unwrap_or(1)).max(1) as u64;
        let buffer = Buffer {
            op,
            name,
            bytes: (elements * elem) as u64,
            align: align.next_power_of_two(),
            live: Vec::new(),
            made: 0,
            uses: Vec::new(),
        };
        buffers.push((space, buffer));
    }
    let mut flow = Flow::new(ir, &ops, &mut buffers, holes)?;
    flow.solve();
    let ordered = ops.iter().any(|op| orders(ir, *op));
    let in_flight = ordered.then(|| InFlight::of(ir, machine, &flow.pieces));
    let in_flight = in_flight.flatten();
    if let Some(in_flight) = &in_flight {
        flow.allocated_again(&buffers, in_flight)?;
    }
    flow.ranges(&mut buffers, in_flight.as_ref());
    let mut spaces: Spaces = BTreeMap::new();
    for (space, buffer) in buffers {
        spaces.entry(space).or_default().push(buffer);
    }
    Ok(spaces)
}

/// The asynchronous work that runs when a function of an ordered program returns, by what starts it: nothing if semaphores or who is
/// called may wait for it.
pub(crate) fn left_in_flight(ir: &Ir, machine: &MachineInfo) -> Vec<OpId> {
    if timeline(ir).iter().any(|op| may_order(ir, *op)) {
        return Vec::new();
    }
    let pieces = pieces(ir);
    let in_flight = InFlight::of(ir, machine, &pieces);
    in_flight.map_or_else(Vec::new, |all| all.left().into_iter().collect())
}

/// Sets of the buffers that pieces hand on, by their number among those, of a piece.
#[derive(Default)]
struct Sets {
    /// Buffers allocated in it.
    def: FixedBitSet,
    /// Those, and the ones that are written as a whole in it.
    ends: FixedBitSet,
    /// Buffers used in it with the content that they had at its begin.
    used_first: FixedBitSet,
    /// Buffers used in it whose content is there at its end.
    used_last: FixedBitSet,
    /// Buffers that may be used later, as of its end.
    live_out: FixedBitSet,
    /// Buffers that may have been used, as of its begin.
    seen_in: FixedBitSet,
}

/// A list for each time, one behind the other.
#[derive(Default)]
pub(crate) struct Lists {
    all: Vec<usize>,
    ends: Vec<usize>,
}

impl Lists {
    /// Ends the list of the next time, of what was added to all.
    fn end(&mut self) {
        self.ends.push(self.all.len());
    }

    pub(crate) fn at(&self, time: u64) -> &[usize] {
        let time = time as usize;
        let from = time.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[from..self.ends[time]]
    }
}

struct Flow<'a> {
    ir: &'a Ir,
    count: usize,
    /// Of buffers that are used in more than the piece that allocates them: their number among those.
    handed_on: Vec<Option<usize>>,
    /// By time: the buffers that the op uses.
    used: Lists,
    /// By time: the buffer that the op allocates.
    made: Vec<Option<usize>>,
    /// By time: the buffers that the op writes as a whole and reads nothing of.
    fresh: Lists,
    pieces: Vec<Piece>,
    /// Of each piece.
    sets: Vec<Sets>,
}

impl<'a> Flow<'a> {
    fn new(
        ir: &'a Ir,
        ops: &[OpId],
        buffers: &mut [(Name, Buffer)],
        holes: bool,
    ) -> Result<Self, Diagnostic> {
        let mut of: HashMap<Value, SmallVec<[usize; 2]>> = HashMap::default();
        let mut dominance = Dominance::default();
        for (index, (_, buffer)) in buffers.iter().enumerate() {
            let memref = ir.result(buffer.op, 0);
            for value in aliases(ir, memref) {
                // Seen at its own allocation it is a buffer of an earlier iteration.
                if value != memref && dominance.value_dominates(ir, value, buffer.op) {
                    let text = format!(
                        "{} is allocated again while the buffer of an earlier iteration may be in use; one place in memory is not enough",
                        buffer.name
                    );
                    let at = ir.owner(value).map_or(ir.loc(buffer.op), |op| ir.loc(op));
                    return Err(Diagnostic::error(text)
                        .at(ir.loc(buffer.op))
                        .note_at(at, "it is handed on here"));
                }
                of.entry(value).or_default().push(index);
            }
        }
        let made = buffers.iter().enumerate().map(|(i, (_, b))| (b.op, i));
        let made: HashMap<OpId, usize> = made.collect();
        let (mut used, mut fresh) = (Lists::default(), Lists::default());
        let (mut all, mut reads): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        let memref = |v| ir.ty(v).is::<MemRefType>();
        for op in ops {
            all.clear();
            reads.clear();
            // It has no part in any of them.
            if ir.regions(*op).len() == 0 && !ir.operands(*op).any(memref) {
                used.end();
                fresh.end();
                continue;
            }
            for (access, value) in accesses(ir, *op) {
                let Some(behind) = of.get(&value) else {
                    continue;
                };
                if matches!(access, Access::Read | Access::Write) {
                    all.extend(behind);
                }
                if holes && access == Access::Read {
                    reads.extend(behind);
                }
            }
            all.sort_unstable();
            all.dedup();
            all.iter()
                .for_each(|index| buffers[*index].1.uses.push(*op));
            if holes && !all.is_empty() {
                let whole = overwritten(ir, *op).into_iter();
                // A part of a buffer, or one of several, is no whole one.
                let whole = whole.filter_map(|value| made.get(&ir.owner(value)?).copied());
                fresh.all.extend(whole.filter(|i| !reads.contains(i)));
            }
            fresh.end();
            used.all.extend(&all);
            used.end();
        }
        let made = ops.iter().map(|op| match ir.is::<Alloc>(*op) {
            true => made.get(op).copied(),
            false => None,
        });
        let made = made.collect();
        Ok(Self {
            ir,
            count: buffers.len(),
            handed_on: Vec::new(),
            used,
            made,
            fresh,
            pieces: pieces(ir),
            sets: Vec::new(),
        })
    }

    /// Finds the buffers that pieces hand on: all but those whose first op in the one piece that they are in is their
    /// allocation.
    fn number(&mut self) -> usize {
        let mut only: Vec<Option<usize>> = vec![None; self.count];
        let mut more = vec![false; self.count];
        for (at, piece) in self.pieces.iter().enumerate() {
            for (time, _) in &piece.ops {
                for index in self.used.at(*time) {
                    more[*index] |= only[*index] != Some(at);
                }
                if let Some(index) = self.made[*time as usize] {
                    more[index] |= only[index].is_some();
                    only[index] = Some(at);
                }
            }
        }
        let mut count = 0;
        let numbers = more.into_iter().map(|more| {
            count += usize::from(more);
            more.then(|| count - 1)
        });
        self.handed_on = numbers.collect();
        count
    }

    fn solve(&mut self) {
        let count = self.number();
        let none = || FixedBitSet::with_capacity(count);
        let of = |index: usize| self.handed_on[index];
        let mut all = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let mut sets = Sets {
                def: none(),
                ends: none(),
                used_first: none(),
                used_last: none(),
                live_out: none(),
                seen_in: none(),
            };
            for (time, _) in piece.ops.iter().rev() {
                let at = *time as usize;
                for index in self.used.at(*time).iter().filter_map(|index| of(*index)) {
                    sets.used_first.insert(index);
                    if !sets.def.contains(index) {
                        sets.used_last.insert(index);
                    }
                }
                for index in self.fresh.at(*time).iter().filter_map(|index| of(*index)) {
                    sets.ends.insert(index);
                    sets.used_first.set(index, false);
                }
                if let Some(index) = self.made[at].and_then(of) {
                    sets.def.insert(index);
                    sets.ends.insert(index);
                    sets.used_first.set(index, false);
                }
            }
            all.push(sets);
        }
        self.sets = all;
        // in = (out - def) ∪ use, until nothing changes.
        let mut changed = true;
        while changed {
            changed = false;
            for at in (0..self.pieces.len()).rev() {
                let mut out = std::mem::take(&mut self.sets[at].live_out);
                let before = out.count_ones(..);
                for next in self.pieces[at].next.clone() {
                    // Round a piece of its own its set is the one taken out.
                    let mut into = if next == at {
                        out.clone()
                    } else {
                        self.sets[next].live_out.clone()
                    };
                    into.difference_with(&self.sets[next].ends);
                    into.union_with(&self.sets[next].used_first);
                    out.union_with(&into);
                }
                changed |= out.count_ones(..) != before;
                self.sets[at].live_out = out;
            }
        }
        let mut changed = true;
        while changed {
            changed = false;
            for at in 0..self.pieces.len() {
                let mut out = self.sets[at].seen_in.clone();
                out.difference_with(&self.sets[at].def);
                out.union_with(&self.sets[at].used_last);
                for next in self.pieces[at].next.clone() {
                    let into = &mut self.sets[next].seen_in;
                    changed |= !out.is_subset(into);
                    into.union_with(&out);
                }
            }
        }
    }

    /// An error if work of an earlier iteration may be on a buffer when one place for both is used again.
    fn allocated_again(
        &self,
        buffers: &[(Name, Buffer)],
        in_flight: &InFlight<'_>,
    ) -> Result<(), Diagnostic> {
        let ir = self.ir;
        let writes = |op: OpId, index: usize| {
            let own = aliases(ir, ir.result(buffers[index].1.op, 0));
            let all = accesses(ir, op);
            all.iter()
                .any(|(access, value)| *access == Access::Write && own.contains(value))
        };
        let Some(found) = in_flight.again(&self.used, &self.made, &writes) else {
            return Ok(());
        };
        let buffer = &buffers[found.buffer].1;
        let text = format!(
            "{} is allocated again while work of an earlier iteration may be on it; one place in memory is not enough",
            buffer.name
        );
        let error = Diagnostic::error(text).at(ir.loc(buffer.op));
        let error = error.note_at(ir.loc(found.work), "the work is started here");
        let error = error.note_at(
            ir.loc(found.user),
            "and this uses the buffer of a later iteration without waiting for it",
        );
        if !in_flight.follows() {
            return Err(error.note(
                "waits are not followed here: the function hands on too many tokens for that",
            ));
        }
        Err(error.note(
            "help: wait for the token of that work before, or start this after it: hand the token on to the next iteration",
        ))
    }

    fn ranges(&self, buffers: &mut [(Name, Buffer)], in_flight: Option<&InFlight<'_>>) {
        let mut live: Vec<Vec<Range<u64>>> = vec![Vec::new(); self.count];
        for (times, start) in in_flight.into_iter().flat_map(InFlight::times) {
            let used = self.used.at(start).iter();
            used.for_each(|index| live[*index].push(times.clone()));
        }
        let handed_on = self.handed_on.iter().enumerate();
        let handed_on: Vec<usize> = handed_on
            .filter_map(|(index, number)| number.map(|_| index))
            .collect();
        // Buffers, each with the times at which a piece does something to it.
        let mut touched: Vec<(usize, u64)> = Vec::new();
        for (piece, sets) in self.pieces.iter().zip(&self.sets) {
            let (Some((first, _)), Some((last, _))) = (piece.ops.first(), piece.ops.last()) else {
                continue;
            };
            touched.clear();
            for (time, _) in &piece.ops {
                let made = self.made[*time as usize].into_iter();
                let used = self.used.at(*time).iter().copied();
                touched.extend(made.chain(used).map(|index| (index, *time)));
            }
            touched.sort_unstable();
            touched.dedup();
            let mut through = sets.seen_in.clone();
            through.intersect_with(&sets.live_out);
            for of_one in touched.chunk_by(|a, b| a.0 == b.0) {
                let index = of_one[0].0;
                let number = self.handed_on[index];
                let is_in = |set: &FixedBitSet| number.is_some_and(|number| set.contains(number));
                let (mut from, mut seen) = (*first, is_in(&sets.seen_in));
                for (_, time) in of_one {
                    let has = |of: &Lists| of.at(*time).contains(&index);
                    let made = self.made[*time as usize] == Some(index);
                    let used = has(&self.used);
                    // What it holds until here is used here.
                    if seen && used && !made && !has(&self.fresh) && from < *time {
                        live[index].push(from..*time);
                    }
                    if made {
                        buffers[index].1.made = *time;
                    }
                    if used {
                        live[index].push(*time..*time + 1);
                    }
                    seen = used || seen && !made;
                    from = *time + 1;
                }
                if seen && is_in(&sets.live_out) && from <= *last {
                    live[index].push(from..*last + 1);
                }
                if let Some(number) = number {
                    through.set(number, false);
                }
            }
            for number in through.ones() {
                live[handed_on[number]].push(*first..*last + 1);
            }
        }
        for (mut ranges, (_, buffer)) in live.into_iter().zip(buffers) {
            ranges.sort_unstable_by_key(|range| range.start);
            ranges.dedup_by(|next, last| {
                let joined = last.end >= next.start;
                if joined {
                    last.end = last.end.max(next.end);
                }
                joined
            });
            buffer.live = ranges;
        }
    }
}

/// A table of the buffers of each space.
pub fn text(ir: &Ir, spaces: &Spaces) -> String {
    let mut out = String::new();
    let place = |op: OpId| {
        let at = ir
            .loc(op)
            .place()
            .map_or(String::new(), |(_, line, _)| format!(" line {line}"));
        format!("'{}'{at}", ir.name(op))
    };
    for (space, buffers) in spaces {
        let _ = writeln!(out, "@{space}: {} buffers", buffers.len());
        for b in buffers {
            let range = |r: &Range<u64>| format!("{}..{}", r.start, r.end);
            let mut ranges: Vec<String> = b.live.iter().map(range).collect();
            if ranges.is_empty() {
                ranges.push(range(&(b.made..b.made)));
            }
            let ranges = ranges.join(", ");
            let _ = write!(out, "  {} ({} B) lives {ranges}", b.name, b.bytes);
            let _ = match b.ends() {
                Some((first, last)) => writeln!(out, ", from {} to {}", place(first), place(last)),
                None => writeln!(out, ", never used"),
            };
        }
    }
    out
}
