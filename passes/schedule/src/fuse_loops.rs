//! `fuse-loops`: loops that hand buffers on, iteration by iteration, become one.
//!
//! A tile that is loaded, computed and stored by three loops over its rows is in no cache when it is stored, and threads
//! can share none of its rows, as each loop alone would be shared. As one loop, a row is stored when it has been computed.
//!
//! *Invariant.* Loops become one only where iterations at different counts are independent of one another, of both loops:
//! then every order of these is right, and at one count the first loop's comes first.

use std::collections::HashSet;

use tir::{Access, At, BlockId, Ir, OpId, Traits};
use tir_loop::For;
use tir_memref::Alloc;
use tir_memref::alias::{Origin, accesses, ended, origins};

use crate::independent::are_independent;
use crate::index::Counter;

/// Fuses loops of a function; gives how many became part of another one.
pub(crate) fn fuse(ir: &mut Ir) -> usize {
    let regions = ir.regions(ir.root()).flat_map(|region| ir.blocks(region));
    let mut work: Vec<BlockId> = regions.collect();
    let mut fused = 0;
    while let Some(block) = work.pop() {
        let mut last: Option<OpId> = None;
        let ops: Vec<OpId> = ir.ops_in(block).collect();
        for op in ops {
            if !ir.is::<For>(op) {
                continue;
            }
            match last.filter(|first| may_fuse(ir, *first, op)) {
                Some(first) => {
                    join(ir, first, op);
                    fused += 1;
                }
                None => last = Some(op),
            }
        }
        let inside = ir.ops_in(block).flat_map(|op| ir.regions(op));
        work.extend(inside.flat_map(|region| ir.blocks(region)));
    }
    fused
}

/// Whether a loop may become part of one before it, which hands a buffer on to it.
fn may_fuse(ir: &Ir, first: OpId, second: OpId) -> bool {
    let Some(loops) = [first, second]
        .map(|op| plain(ir, op))
        .into_iter()
        .collect::<Option<Vec<Counter>>>()
    else {
        return false;
    };
    let same = |a: &Counter, b: &Counter| (a.low, a.step, a.trips) == (b.low, b.step, b.trips);
    loops[0].trips > 1
        && same(&loops[0], &loops[1])
        && between(ir, first, second).is_some()
        && hands_on(ir, first, second)
        && are_independent(ir, &loops)
}

/// The counter of a loop that carries no values.
fn plain(ir: &Ir, op: OpId) -> Option<Counter> {
    ir.get::<For>(op).filter(|looped| looped.init.is_empty())?;
    Counter::of(ir, op)
}

/// The ops between two loops, if none has to stay there: indices and buffers may be made before both, and buffers end behind
/// both.
fn between(ir: &Ir, first: OpId, second: OpId) -> Option<Vec<OpId>> {
    let (mut ops, mut next) = (Vec::new(), ir.next(first));
    while let Some(op) = next.filter(|op| *op != second) {
        let made = ir.is::<Alloc>(op) || ir.is_pure(op) && ir.regions(op).len() == 0;
        if !made && ended(ir, op).is_none() {
            return None;
        }
        ops.push(op);
        next = ir.next(op);
    }
    next.map(|_| ops)
}

/// Whether one loop writes what the other one reads.
fn hands_on(ir: &Ir, first: OpId, second: OpId) -> bool {
    let touched = |op: OpId, wanted: Access| {
        let mut found = HashSet::<Origin>::new();
        for below in ir.walk_below(op) {
            for (access, memref) in accesses(ir, below) {
                if access == wanted {
                    found.extend(origins(ir, memref));
                }
            }
        }
        found
    };
    let written = touched(first, Access::Write);
    touched(second, Access::Read)
        .iter()
        .any(|read| written.contains(read))
}

/// Makes a loop a part of one before it.
fn join(ir: &mut Ir, first: OpId, second: OpId) {
    for op in between(ir, first, second).unwrap_or_default() {
        match ended(ir, op).is_some() {
            true => ir.move_op(op, At::After(second)),
            false => ir.move_op(op, At::Before(first)),
        }
    }
    let counters = [first, second].map(|op| plain(ir, op));
    let bodies = [first, second].map(|op| ir.get::<For>(op).and_then(|l| ir.entry(l.body)));
    let ([Some(one), Some(other)], [Some(into), Some(from)]) = (counters, bodies) else {
        unreachable!("loops that were looked at have counters and bodies");
    };
    ir.replace_uses(other.iv, one.iv);
    let end = ir.ops_in(into).find(|op| ir.has(*op, Traits::Terminator));
    let at = end.map_or(At::End(into), At::Before);
    for op in ir.ops_in(from).collect::<Vec<_>>() {
        if !ir.has(op, Traits::Terminator) {
            ir.move_op(op, at);
        }
    }
    ir.erase(second);
}
