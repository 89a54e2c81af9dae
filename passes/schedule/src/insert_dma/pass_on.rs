//! What several cores load alike is loaded by one and passed on from core to core, where links lead there and
//! take no longer than each load does at its share of far memory.
//!
//! Loads of all lanes of a split loop stand beside each other. Each that follows one of the same tile reads
//! that tile instead, from the core with the fewest links behind it. Branches of loads for a later iteration
//! are one branch where they have one condition.

use tir::{AffineMap, BlockId, Ir, MemRefType, OpId, Type, Value};
use tir_accel::MachineInfo;
use tir_loop::If;
use tir_memref::TransferRead;
use tir_memref::alias::origins;

use crate::index::writes;
use crate::prefetch::EARLY;
use crate::staging::space;

/// Reads from tiles of other cores instead of from far memory. Gives how many.
pub(crate) fn pass_on(ir: &mut Ir, machine: &MachineInfo) -> usize {
    if !machine.spaces.iter().any(|s| machine.passes_on(s.name)) {
        return 0;
    }
    for op in std::iter::once(ir.root()).chain(ir.walk_ids()) {
        if !ir.contains(op) {
            continue;
        }
        let blocks = ir.regions(op).flat_map(|region| ir.blocks(region));
        for block in blocks.collect::<Vec<BlockId>>() {
            merge(ir, block);
        }
    }
    let all: Vec<OpId> = ir.walk_ids();
    let reads = all.into_iter().filter(|op| ir.is::<TransferRead>(*op));
    let mut by_block: Vec<(BlockId, Vec<OpId>)> = Vec::new();
    for read in reads {
        let Some(block) = ir.block_of(read) else {
            continue;
        };
        match by_block.iter_mut().find(|(other, _)| *other == block) {
            Some((_, reads)) => reads.push(read),
            None => by_block.push((block, vec![read])),
        }
    }
    by_block
        .into_iter()
        .map(|(_, reads)| in_block(ir, machine, &reads))
        .sum()
}

/// A read of a block: the op that fills its tile now, what it loads, and over how many links that comes.
struct Filled {
    op: OpId,
    read: TransferRead,
    links: usize,
}

/// Passes on what the reads of a block load.
fn in_block(ir: &mut Ir, machine: &MachineInfo, reads: &[OpId]) -> usize {
    let mut filled: Vec<Filled> = Vec::new();
    for op in reads {
        let Some(read) = ir.get::<TransferRead>(*op) else {
            continue;
        };
        let (mut op, mut links) = (*op, 0);
        let before = filled.iter().filter(|other| {
            alike(ir, &other.read, &read)
                && undisturbed(ir, other, op, &read)
                && quick(ir, machine, &other.read, &read)
        });
        if let Some(from) = before.min_by_key(|other| other.links) {
            let rank = ir.ty(from.read.tile).shape().map_or(0, <[i64]>::len);
            let passed = TransferRead {
                source: from.read.tile,
                tile: read.tile,
                offsets: Vec::new(),
                padding: None,
                static_offsets: vec![0; rank],
                access: AffineMap::identity(rank),
            };
            links = from.links + 1;
            let mut b = ir.at(tir::At::Before(op));
            b.loc = b.ir.loc(op);
            b.add(passed);
            let made = ir.prev(op);
            ir.erase(op);
            op = made.unwrap_or(op);
        }
        filled.push(Filled { op, read, links });
    }
    filled.iter().filter(|read| read.links > 0).count()
}

/// Whether two reads load the same elements into tiles of one shape.
fn alike(ir: &Ir, a: &TransferRead, b: &TransferRead) -> bool {
    let plain = |value: Value| {
        let ty = ir.ty(value).get::<MemRefType>()?;
        let space = None;
        Some(Type::new(MemRefType {
            space,
            ..ty.clone()
        }))
    };
    let pairs = |a: &[Value], b: &[Value]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(ir, *a, *b, 64))
    };
    let padding = |read: &TransferRead| read.padding.into_iter().collect::<Vec<_>>();
    a.tile != b.tile
        && plain(a.tile).is_some_and(|ty| Some(ty) == plain(b.tile))
        && a.static_offsets == b.static_offsets
        && a.access == b.access
        && same(ir, a.source, b.source, 64)
        && pairs(&a.offsets, &b.offsets)
        && pairs(&padding(a), &padding(b))
}

/// Whether two values are computed in the same way, from the same values.
fn same(ir: &Ir, a: Value, b: Value, fuel: u32) -> bool {
    if a == b {
        return true;
    }
    let (Some(p), Some(q)) = (ir.owner(a), ir.owner(b)) else {
        return false;
    };
    let plain = |op: OpId| ir.is_pure(op) && ir.regions(op).len() == 0 && ir.results(op).len() == 1;
    fuel > 0
        && plain(p)
        && plain(q)
        && ir.name(p) == ir.name(q)
        && ir.attrs(p) == ir.attrs(q)
        && ir.ty(a) == ir.ty(b)
        && ir.operands(p).len() == ir.operands(q).len()
        && ir
            .operands(p)
            .zip(ir.operands(q))
            .all(|(x, y)| same(ir, x, y, fuel - 1))
}

/// Whether nothing between two reads may write what they load, or the tile of the first.
fn undisturbed(ir: &Ir, first: &Filled, second: OpId, read: &TransferRead) -> bool {
    let mut kept = origins(ir, read.source);
    kept.extend(origins(ir, first.read.tile));
    let mut between = Vec::new();
    let mut at = ir.prev(second);
    while let Some(op) = at.filter(|op| *op != first.op) {
        between.push(op);
        at = ir.prev(op);
    }
    at.is_some() && between.iter().all(|op| !writes(ir, *op, &kept))
}

/// Whether a link leads from the tile of one read to that of another, and takes no longer than to load it.
fn quick(ir: &Ir, machine: &MachineInfo, from: &TransferRead, to: &TransferRead) -> bool {
    let ends = [to.source, from.tile, to.tile].map(|v| space(ir, machine, v));
    let [Some(source), Some(here), Some(there)] = ends else {
        return false;
    };
    let of = |name| machine.space(name).map(|s| s.of);
    let Some(link) = machine
        .engine_between(here, there)
        .filter(|_| of(here) == of(there))
    else {
        return false;
    };
    let far = machine.space(source).map_or(1, |s| s.bytes_per_cycle);
    let cores = machine.cores_with(there) as i64;
    let load = machine.engine_between(source, there);
    load.is_none_or(|load| {
        let share = load.bytes_per_cycle.min(far / cores);
        link.latency <= load.latency && link.bytes_per_cycle >= share
    })
}

/// Makes branches of early loads one where they have one condition and only what computes stands between.
fn merge(ir: &mut Ir, block: BlockId) {
    let mut last: Option<OpId> = None;
    let mut computed: Vec<OpId> = Vec::new();
    let ops: Vec<OpId> = ir.ops_in(block).collect();
    for op in ops {
        let early = ir.is::<If>(op) && ir.attr(op, EARLY).is_some();
        let pure = ir.is_pure(op) && ir.regions(op).len() == 0;
        match (last, early) {
            (_, false) if pure => computed.push(op),
            (_, false) => last = None,
            (Some(first), true) if joined(ir, first, op, &computed) => {}
            (_, true) => {
                last = Some(op);
                computed.clear();
            }
        }
    }
}

/// Moves what a branch does to the end of another one before it, and what is computed between before both;
/// whether that could be done.
fn joined(ir: &mut Ir, first: OpId, second: OpId, computed: &[OpId]) -> bool {
    let (Some(a), Some(b)) = (ir.get::<If>(first), ir.get::<If>(second)) else {
        return false;
    };
    let ends = [a.then_region, b.then_region].map(|region| ir.entry(region));
    let empty = [a.else_region, b.else_region].iter().all(|region| {
        ir.blocks(*region)
            .all(|block| ir.ops_in(block).count() <= 1)
    });
    let ([Some(target), Some(source)], true) = (ends, empty) else {
        return false;
    };
    let Some(end) = ir
        .last(target)
        .filter(|_| same(ir, a.condition, b.condition, 64))
    else {
        return false;
    };
    for op in computed {
        if ir.contains(*op) && ir.is_before(first, *op) {
            ir.move_op(*op, tir::At::Before(first));
        }
    }
    let moved: Vec<OpId> = ir.ops_in(source).collect();
    for op in moved {
        if !ir.has(op, tir::Traits::Terminator) {
            ir.move_op(op, tir::At::Before(end));
        }
    }
    ir.erase(second);
    true
}
