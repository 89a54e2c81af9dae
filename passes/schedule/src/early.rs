//! Tiles of nests that are loaded for longer than they compute: the first ones are loaded in nests before.
//!
//! A nest whose loads take longer than its units keeps those waiting, while in a nest before it that computes for
//! longer than it loads the engine has nothing to do. Tiles of what nobody writes, weights that is, can be loaded
//! there, as many as near memory holds until they are used: their buffer gets as many slots more, and each of the
//! first iterations finds its tile there.
//!
//! *Terms.* What is **streamed** is a buffer of which each iteration of a nest uses another tile, in turn, each loaded
//! some iterations ahead (`prefetch`). A **nest** is a loop of the function's own block with the loops in it, and has the
//! number that it has among those. Its **time** is that of the queue that works longest in it (`busy`), or of the thread
//! where that computes for longer, as queues go on with what was started before. The **slack** of an engine is what is left of
//! that, its **excess** what it works longer than all others.
//!
//! How many tiles of which buffer go where is decided here from these times and from the memory that is free while
//! each nest runs; whether that fits is for `plan-memory` to say.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use tir::{At, Attr, Ir, Mapping, Name, OpId, Value};
use tir_accel::MachineInfo;
use tir_arith::{CmpIPredicate, OpFoldResult};
use tir_loop::For;
use tir_memory::liveness::{Buffer, liveness};
use tir_memref::alias::{Origin, ended, origins};
use tir_memref::{Alloc, TransferRead, TransferWrite};

use crate::index::{Counter, copy, guard, linear, total, writes};
use crate::insert_dma::filled;
use crate::multi_buffer::BUFFER;
use crate::prefetch::{early_branch, first_behind_loads, place};
use crate::preload::{FIRST, computed_behind, done, site_of, takes_before};
use crate::staging::space;
use crate::work::{Branches, Busy, Works, busy};

/// The nests before its own at most that tiles of a nest are loaded in: one of `tile` is several where borders are filled or pipelines drain.
const REACH: usize = 32;

/// Nothing is done that saves less than one in so many cycles: with other places in near memory, other loads wait.
const LEAST: i64 = 300;

/// Tiles of a buffer at most that are loaded in nests before.
const MOST: i64 = 64;

/// Tiles of a buffer that are loaded in nests before its own.
#[derive(Clone, Debug)]
pub(crate) struct Early {
    /// The number of the buffer.
    pub buffer: i64,
    /// Bytes of a tile.
    pub bytes: i64,
    /// How many where, in order.
    pub tiles: Vec<(Place, i64)>,
}

/// Where tiles of a later nest are loaded; those of smaller ones are loaded first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Place {
    /// Before the first load of a nest that waits for what the one before it stores.
    Before(usize),
    /// Evenly over the iterations of a nest.
    In(usize),
}

/// A buffer that is streamed.
#[derive(Clone, Debug)]
pub(crate) struct Streamed {
    /// Its number.
    pub buffer: i64,
    /// The read, and its loops from the function's block on.
    read: OpId,
    nest: Vec<Counter>,
    /// What computes the read's operands in these loops.
    ops: Vec<OpId>,
    /// The allocation of all slots.
    alloc: OpId,
    /// What is read.
    source: Vec<Origin>,
    /// How many iterations ahead.
    ahead: i64,
    /// The engine of a tile's load, and its cycles.
    load: (Works, i64),
    /// What the read takes from outside of its loops.
    outer: Vec<Value>,
}

impl Streamed {
    /// Of a read that is started ahead in all loops around it.
    pub(crate) fn of(
        ir: &Ir,
        machine: &MachineInfo,
        read: OpId,
        ahead: i64,
        (nest, ops): (&[Counter], &[OpId]),
    ) -> Option<Self> {
        let outer = nest.first()?.op;
        if ir.parent(outer) != Some(ir.root()) {
            return None;
        }
        let record = ir.get::<TransferRead>(read)?;
        let [Origin::Allocated(memref)] = origins(ir, record.tile)[..] else {
            return None;
        };
        let alloc = ir.owner(memref).filter(|op| ir.is::<Alloc>(*op))?;
        let below: HashSet<OpId> = ir.walk_below(outer).into_iter().collect();
        let used = ops.iter().chain([&read]);
        let used = used.flat_map(|op| ir.operands(*op));
        let outside = |value: &Value| {
            let counts = nest.iter().any(|counter| counter.iv == *value);
            !counts && ir.owner(*value).is_none_or(|op| !below.contains(&op))
        };
        let load = busy(ir, machine, read, Branches::Often).pop_first();
        Some(Self {
            load: load.filter(|(_, cycles)| *cycles > 0)?,
            outer: used.filter(outside).collect(),
            buffer: ir.attr(alloc, BUFFER).and_then(Attr::as_int)?,
            read,
            nest: nest.to_vec(),
            ops: ops.to_vec(),
            alloc,
            source: origins(ir, record.source),
            ahead,
        })
    }
    /// The space of its slots, and the bytes of one.
    fn slot(&self, ir: &Ir, machine: &MachineInfo) -> Option<(Name, i64)> {
        let memref = ir.result(self.alloc, 0);
        let ty = ir.ty(memref);
        let slots = *ty.shape()?.first().filter(|slots| **slots > 0)?;
        let bytes = i64::try_from(ty.elements()?.saturating_mul(ty.bytes()?)).ok()?;
        Some((space(ir, machine, memref)?, (bytes / slots).max(1)))
    }
    /// Whether tiles may be loaded in a nest before: nothing from there on writes what is read.
    fn may_go(&self, ir: &Ir, before: &[Nest]) -> bool {
        let Some(site) = before.first().map(|nest| nest.op) else {
            return false;
        };
        let written = |op: &OpId| writes(ir, *op, &self.source);
        let mut since = before.iter().flat_map(|nest| &nest.since);
        let outer = self.outer.iter().copied();
        !since.any(written) && computed_behind(ir, outer, site, self.alloc).is_some()
    }
}

impl Early {
    /// Loads the tiles of what is streamed, and gives how many.
    pub(crate) fn place(&self, ir: &mut Ir, streamed: &Streamed) -> i64 {
        let loops: Vec<OpId> = nests(ir);
        let mut first = 0;
        for (place, tiles) in &self.tiles {
            let all = first..first + tiles;
            let placed = match place {
                Place::Before(nest) => streamed.before(ir, &loops, *nest, all),
                Place::In(nest) => streamed.within(ir, &loops, *nest, all),
            };
            if placed.is_none() {
                break;
            }
            first += tiles;
        }
        first
    }
    /// How many in all.
    pub(crate) fn count(&self) -> i64 {
        self.tiles.iter().map(|(_, n)| n).sum()
    }
    /// Fewer tiles, so that the buffer has at least so many bytes less: those that are loaded first.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut gone = (bytes.saturating_add(self.bytes - 1) / self.bytes).max(1);
        for (_, n) in &mut self.tiles {
            let less = gone.min(*n);
            gone -= less;
            *n -= less;
        }
        self.tiles.retain(|(_, n)| *n > 0);
    }
}

impl Streamed {
    /// Loads some tiles before the first load of a nest that waits.
    fn before(&self, ir: &mut Ir, loops: &[OpId], nest: usize, tiles: Range<i64>) -> Option<()> {
        let from = loops.get(nest.checked_sub(1)?)?;
        let at = waiting(ir, *from, *loops.get(nest)?)?;
        // What moves into the nest before need not wait for what stands between.
        let moves = takes_before(ir, *from);
        let block = ir.block_of(at)?;
        let behind = ir.ops_in(block).skip_while(|op| op != from).nth(1);
        let at = behind.filter(|_| moves).unwrap_or(at);
        let computed = self.reach(ir, at)?;
        ir.set_attr(self.read, FIRST, Attr::bool(moves));
        for n in tiles {
            let mut b = ir.at(At::Before(at));
            let mut map = Mapping::default();
            copy(&mut b, &computed, &mut map);
            let read = (&self.nest[..], &self.ops[..], self.read);
            place(&mut b, read, map, OpFoldResult::Number(n));
        }
        ir.remove_attr(self.read, FIRST);
        Some(())
    }
    /// Loads some tiles evenly over the iterations of a nest.
    fn within(&self, ir: &mut Ir, loops: &[OpId], nest: usize, tiles: Range<i64>) -> Option<()> {
        let nest = site_of(ir, *loops.get(nest)?)?.nest;
        let body = ir.body_block(nest.last()?.op, 0)?;
        let behind = first_behind_loads(ir, body)?;
        let computed = self.reach(ir, nest[0].op)?;
        let (all, count) = (total(&nest).max(1), tiles.end - tiles.start);
        let each = (count + all - 1) / all;
        let turns = (count + each - 1) / each;
        let every = (all / turns).max(1);
        ir.set_attr(self.read, FIRST, Attr::bool(false));
        for i in 0..each {
            let mut b = ir.at(At::Before(behind));
            let now = linear(&mut b, &nest);
            let turn = now.floor_div(&mut b, every);
            let n = turn.times(&mut b, each).plus(&mut b, i);
            let some = n.compare(&mut b, CmpIPredicate::Slt, count);
            b.at = early_branch(&mut b, some);
            if every > 1 {
                let now = now.modulo(&mut b, every);
                let due = now.compare(&mut b, CmpIPredicate::Eq, 0);
                b.at = guard(&mut b, due);
            }
            let mut map = Mapping::default();
            copy(&mut b, &computed, &mut map);
            let n = n.plus(&mut b, tiles.start);
            let read = (&self.nest[..], &self.ops[..], self.read);
            place(&mut b, read, map, n);
        }
        ir.remove_attr(self.read, FIRST);
        Some(())
    }
    /// What computes what the read needs behind a place in the function's block; its slots are allocated before that.
    fn reach(&self, ir: &mut Ir, at: OpId) -> Option<Vec<OpId>> {
        let outer = self.outer.iter().copied();
        let computed = computed_behind(ir, outer, at, self.alloc)?;
        if ir.is_before(at, self.alloc) {
            ir.move_op(self.alloc, At::Before(at));
        }
        Some(computed)
    }
}

/// The first load between two nests of what is stored in the first one, or behind it.
fn waiting(ir: &Ir, from: OpId, to: OpId) -> Option<OpId> {
    let block = ir.block_of(to)?;
    let ops = ir.ops_in(block).filter(|op| !ir.is_before(*op, from));
    let ops: Vec<OpId> = ops.take_while(|op| *op != to).collect();
    let mut written = Vec::new();
    for op in &ops {
        if let Some(read) = ir.get::<TransferRead>(*op) {
            let source = origins(ir, read.source);
            if written.iter().any(|op| writes(ir, *op, &source)) {
                return Some(*op);
            }
        }
        written.extend(done(ir, *op));
    }
    None
}

/// The nests of a function, in order.
fn nests(ir: &Ir) -> Vec<OpId> {
    let ops = top(ir).into_iter();
    ops.filter(|op| ir.is::<For>(*op)).collect()
}

/// The ops of a function's own blocks.
fn top(ir: &Ir) -> Vec<OpId> {
    let blocks = ir.regions(ir.root()).flat_map(|region| ir.blocks(region));
    blocks.flat_map(|block| ir.ops_in(block)).collect()
}

/// A nest, with what stands between it and the one before.
struct Nest {
    op: OpId,
    /// What may write memory.
    since: Vec<OpId>,
    /// Cycles of its queues and of the thread, its first loads included.
    busy: Busy,
    /// Whether loads of others can be started in it.
    takes: bool,
    /// Whether the loads behind it move into it.
    moves: bool,
    /// Cycles that its first load waits for what the nest before it stores.
    wait: i64,
    /// Bytes that are free while it runs, by space.
    free: BTreeMap<Name, i64>,
}

impl Nest {
    /// Cycles that an engine has for others while it runs.
    fn within(&self, engine: Works) -> i64 {
        let time = self.busy.values().copied().max().unwrap_or(0);
        match self.takes {
            true => time - self.busy.get(&engine).copied().unwrap_or(0),
            false => 0,
        }
    }
    /// How many loads of so many cycles fill the time before its first load, more or less.
    fn before(&self, cycles: i64) -> i64 {
        ((self.wait + cycles / 2) / cycles).max(0)
    }
    /// Cycles from its last load until all is stored: of what it computes in the last iterations, and of a store in it
    /// or of those behind it.
    fn drain(&self, ir: &Ir, machine: &MachineInfo, behind: &[OpId]) -> i64 {
        let all = site_of(ir, self.op).map_or(1, |site| total(&site.nest).max(1));
        let units = machine.units.iter().map(|unit| Works::Queue(unit.name));
        let units = units.chain([Works::Thread]);
        let units = units.filter_map(|unit| self.busy.get(&unit));
        let computed = units.copied().max().unwrap_or(0) * 2.min(all) / all;
        let stored = |ops: &[OpId]| {
            let of = |op: &OpId| busy(ir, machine, *op, Branches::Often);
            let stores = ops.iter().filter(|op| ir.is::<TransferWrite>(**op)).map(of);
            stores.flat_map(Busy::into_values).max().unwrap_or(0)
        };
        let inside = ir.walk_below(self.op);
        computed + stored(&inside).max(stored(behind))
    }
    fn excess(&self, engine: Works) -> i64 {
        let others = self.busy.iter().filter(|(queue, _)| **queue != engine);
        let others = others.map(|(_, cycles)| *cycles).max().unwrap_or(0);
        self.busy.get(&engine).copied().unwrap_or(0) - others
    }
}

/// Which tiles of what is streamed are loaded in nests before theirs: for each nest that an engine works longest in, as
/// many as shorten it, have time in the nests before and find place from there on.
pub(crate) fn choose(ir: &Ir, machine: &MachineInfo, streamed: &[Streamed]) -> Vec<Early> {
    let mut out = Vec::new();
    let Some(mut nests) = account(ir, machine) else {
        return out;
    };
    let all: i64 = nests
        .iter()
        .filter_map(|nest| nest.busy.values().max())
        .sum();
    let mut gain = 0;
    for streamed in streamed {
        let Some(own) = nests.iter().position(|n| n.op == streamed.nest[0].op) else {
            continue;
        };
        let (engine, cycles) = streamed.load;
        let Some((space, bytes)) = streamed.slot(ir, machine) else {
            continue;
        };
        let wanted = nests[own].excess(engine) / cycles;
        let wanted = wanted.min(total(&streamed.nest) - streamed.ahead).min(MOST);
        let free = |nest: &Nest| nest.free.get(&space).copied().unwrap_or(0) / bytes;
        let mut room = wanted.min(free(&nests[own]));
        let (mut time, mut best) = (0, (0, own));
        for first in (own.saturating_sub(REACH)..own).rev() {
            let nest = &nests[first];
            room = room.min(free(nest));
            let before = match first.checked_sub(1) {
                Some(before) if nests[before].moves => free(&nests[before]).min(room),
                _ => room,
            };
            let before = nest.before(cycles).min(before);
            if room <= best.0 || !streamed.may_go(ir, &nests[first..=own]) {
                break;
            }
            time += nest.within(engine) / cycles + before;
            if time.min(room) > best.0 {
                best = (time.min(room), first);
            }
        }
        let (mut left, first) = best;
        let from = match first.checked_sub(1) {
            Some(before) if nests[before].moves => before,
            _ => first,
        };
        for nest in &mut nests[from..=own] {
            *nest.free.entry(space).or_default() -= best.0 * bytes;
        }
        let mut tiles = Vec::new();
        // Those nearest to their own take what they can: the others have room for nests between.
        for i in (first..own).rev().filter(|_| best.0 > 0) {
            let most = match i.checked_sub(1) {
                Some(before) if nests[before].moves => free(&nests[before]) + best.0,
                _ => i64::MAX,
            };
            let nest = &mut nests[i];
            let within = (nest.within(engine) / cycles).min(left);
            let before = nest.before(cycles).min(left - within).min(most).max(0);
            left -= within + before;
            *nest.busy.entry(engine).or_default() += within * cycles;
            nest.wait -= before * cycles;
            tiles.extend([(Place::In(i), within), (Place::Before(i), before)]);
        }
        tiles.retain(|(_, n)| *n > 0);
        tiles.sort();
        if !tiles.is_empty() {
            *nests[own].busy.entry(engine).or_default() -= (best.0 - left) * cycles;
            gain += (best.0 - left) * cycles;
            let buffer = streamed.buffer;
            out.push(Early {
                buffer,
                bytes,
                tiles,
            });
        }
    }
    if gain * LEAST < all {
        out.clear();
    }
    out
}

/// The nests of a function, with what is free beside its buffers; `None` if that cannot be told, as with
/// branches between blocks, or something in one is done by no queue and is no computation of the thread's.
fn account(ir: &Ir, machine: &MachineInfo) -> Option<Vec<Nest>> {
    let mut blocks = ir.regions(ir.root()).flat_map(|region| ir.blocks(region));
    if blocks.next().is_none() || blocks.next().is_some() {
        return None;
    }
    let spaces = liveness(ir, machine).ok()?;
    let mut out = Vec::new();
    let (mut since, mut before) = (Vec::new(), Busy::new());
    for op in top(ir) {
        let looped = ir.is::<For>(op);
        since.extend(done(ir, op));
        for (queue, cycles) in busy(ir, machine, op, Branches::Often) {
            *before.entry(queue).or_default() += cycles;
        }
        if !looped {
            continue;
        }
        if !is_known(ir, machine, op) {
            return None;
        }
        let wait = out.last().map_or(0, |last: &Nest| {
            let waits = waiting(ir, last.op, op).is_some();
            if waits {
                last.drain(ir, machine, &since)
            } else {
                0
            }
        });
        let free = spaces.iter().map(|(space, buffers)| {
            let bytes = machine.space(*space).map_or(0, |space| space.bytes);
            let lives = |buffer: &&Buffer| buffer.ends().is_some_and(|ends| spans(ir, ends, op));
            let used = buffers.iter().filter(lives).map(|buffer| buffer.bytes);
            (
                *space,
                bytes - i64::try_from(used.sum::<u64>()).unwrap_or(bytes),
            )
        });
        out.push(Nest {
            op,
            since: std::mem::take(&mut since),
            busy: std::mem::take(&mut before),
            wait,
            takes: site_of(ir, op).is_some(),
            moves: takes_before(ir, op),
            free: free.collect(),
        });
    }
    Some(out)
}

/// Whether queues do all that a nest does, or the thread computes it.
fn is_known(ir: &Ir, machine: &MachineInfo, nest: OpId) -> bool {
    done(ir, nest).into_iter().all(|op| {
        let free = ir.is_pure(op) || ir.is::<Alloc>(op) || ended(ir, op).is_some();
        // What an engine fills is a transfer, too.
        let fills = || filled(ir, machine, op).is_some();
        free || fills() || !busy(ir, machine, op, Branches::Often).is_empty()
    })
}

/// Whether a nest is, or lies between, the first and the last op of some.
fn spans(ir: &Ir, (first, last): (OpId, OpId), nest: OpId) -> bool {
    let Some(block) = ir.block_of(nest) else {
        return true;
    };
    let at = |op| ir.ancestor_in(op, block);
    let (Some(first), Some(last)) = (at(first), at(last)) else {
        return true;
    };
    !ir.is_before(nest, first) && !ir.is_before(last, nest)
}
