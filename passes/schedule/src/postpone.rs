//! Loads of a function's own block that start later: where memory is full, what is used much later need not be in it yet.
//!
//! A load that stands before work that does not need it hides its latency, and holds memory meanwhile. Each step moves such a
//! load behind the next work only, so it still runs beside as much of it as memory allows.

use std::collections::HashSet;

use tir::{Access, At, Ir, OpId};
use tir_memref::alias::{aliases, origins};
use tir_memref::{Alloc, TransferRead};

use crate::index::writes;
use crate::preload::done;

/// A load that may start later.
struct Later {
    read: OpId,
    alloc: OpId,
    /// What stands right behind the next work.
    behind: OpId,
    /// The number in the block of what needs it first.
    needed: usize,
}

/// Moves loads that fill these buffers each behind the next work that does not need it: all of them, or the one that is needed
/// last. Gives the buffers of those that moved. A load stays where something before it fills the buffer too, or where what it
/// reads is written meanwhile.
pub(crate) fn postpone(ir: &mut Ir, allocs: &HashSet<OpId>, all: bool) -> Vec<OpId> {
    let root = ir.root();
    let blocks: Vec<_> = ir.regions(root).flat_map(|r| ir.blocks(r)).collect();
    let mut moved = Vec::new();
    for block in blocks {
        let ops: Vec<OpId> = ir.ops_in(block).collect();
        // All are found before one moves, so those behind the same work keep their order.
        let places = 0..ops.len();
        let mut found: Vec<Later> = places
            .filter_map(|at| later(ir, &ops, at, allocs))
            .collect();
        if !all && let Some(last) = found.iter().map(|later| later.needed).max() {
            found.retain(|later| later.needed == last);
            found.truncate(1);
        }
        for later in found {
            ir.move_op(later.read, At::Before(later.behind));
            moved.push(later.alloc);
        }
    }
    moved
}

/// The load that an op of a block is, if it may start later.
fn later(ir: &Ir, ops: &[OpId], at: usize, allocs: &HashSet<OpId>) -> Option<Later> {
    let read = ops[at];
    let alloc = filled(ir, read).filter(|alloc| allocs.contains(alloc))?;
    let source = origins(ir, ir.get::<TransferRead>(read)?.source);
    let own = aliases(ir, ir.result(alloc, 0));
    let needs = |op: &OpId| {
        let mut all = done(ir, *op).into_iter();
        all.any(|op| !ir.is_pure(op) && ir.operands(op).any(|value| own.contains(&value)))
    };
    let needed = at + 1 + ops[at + 1..].iter().position(needs)?;
    let work = at + 1 + ops[at + 1..needed].iter().position(|op| works(ir, *op))?;
    let passed = ops[at + 1..=work].iter().flat_map(|op| done(ir, *op));
    let free = passed.into_iter().all(|op| !writes(ir, op, &source));
    free.then(|| Later {
        read,
        alloc,
        behind: ops[work + 1],
        needed,
    })
}

/// The buffer of the block that a transfer is the first to write.
fn filled(ir: &Ir, read: OpId) -> Option<OpId> {
    let tile = ir.get::<TransferRead>(read)?.tile;
    let alloc = ir.owner(tile).filter(|op| ir.is::<Alloc>(*op))?;
    let block = ir.block_of(read)?;
    let first = aliases(ir, tile).into_iter().all(|value| {
        let mut uses = ir.uses(value);
        uses.all(|u| {
            let at = ir.ancestor_in(u.op, block);
            u.op == read || ir.is_pure(u.op) || at.is_some_and(|at| ir.is_before(read, at))
        })
    });
    (first && ir.block_of(alloc) == Some(block)).then_some(alloc)
}

/// Whether an op does more than load, or say where buffers begin and end.
fn works(ir: &Ir, op: OpId) -> bool {
    let marks = |access: Access| matches!(access, Access::Allocate | Access::Free);
    let idle = ir
        .effects(op)
        .is_some_and(|e| e.iter().all(|e| marks(e.access)));
    !idle && !ir.is::<TransferRead>(op)
}
