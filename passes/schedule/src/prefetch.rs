//! Loads of iterations to come: started ahead of the iteration that uses them, the first ones perhaps in nests
//! before ([`crate::early`]).

use tir::{At, BlockId, Builder, Definition, Ir, Mapping, OpId, Value};
use tir_accel::{Direction, DmaStart, MachineInfo};
use tir_loop::{For, If};
use tir_memref::alias::origins;
use tir_memref::{Alloc, TransferRead};

use crate::early::{Early, Streamed};
use crate::index::{Counter, copy, guard, indices, linear, slice, total, writes};
use crate::multi_buffer::{AHEAD, nest_of};
use crate::preload::is_around;
use tir_arith::{CmpIPredicate, OpFoldResult};

/// Marks the branch of loads for a later iteration, until the transfers in it are known.
pub(crate) const EARLY: &str = "accel.early";

/// Moves every `memref.transfer_read` that says so as many iterations ahead as it says: copies
/// for the first iterations stand before the loops, and each iteration starts the one for an
/// iteration to come, if there is one. Those for the first iterations that `early` names stand in nests before. Gives
/// what else could.
pub(crate) fn prefetch(ir: &mut Ir, machine: &MachineInfo, early: &[Early]) -> Vec<Streamed> {
    let mut out = Vec::new();
    let reads: Vec<OpId> = ir
        .walk_ids()
        .into_iter()
        .filter(|op| ir.is::<TransferRead>(*op))
        .collect();
    for read in reads {
        let Some(ahead) = ir.remove_attr(read, AHEAD).and_then(tir::Attr::as_int) else {
            continue;
        };
        if let Some((nest, ops)) = chain(ir, read) {
            let ahead = ahead.min(total(&nest));
            let streamed = Streamed::of(ir, machine, read, ahead, (&nest, &ops));
            let mut first = 0;
            if let Some(streamed) = streamed {
                let said = early.iter().find(|early| early.buffer == streamed.buffer);
                if let Some(said) = said {
                    first = said.place(ir, &streamed);
                }
                out.push(streamed);
            }
            hoist(ir, read, first, ahead, &nest, &ops);
        }
    }
    out
}

/// The outermost nest around a read that it can be started ahead in, and what its operands are
/// computed by there: loops directly in each other, in which its source is not written.
fn chain(ir: &Ir, read: OpId) -> Option<(Vec<Counter>, Vec<OpId>)> {
    let nest = nest_of(ir, read)?;
    let record = ir.get::<TransferRead>(read)?;
    let operands: Vec<Value> = ir.operands(read).collect();
    let mut best = None;
    let mut inner = read;
    for (depth, counter) in nest.iter().enumerate().rev() {
        if ir.parent(inner) != Some(counter.op) || writes_besides(ir, counter.op, read, &record) {
            break;
        }
        let Some(ops) = slice(ir, &operands, counter.op) else {
            break;
        };
        // What an iteration hands to the next one is not known ahead.
        let read = operands.iter().copied();
        let mut read = read.chain(ops.iter().flat_map(|op| ir.operands(*op)));
        if read.any(|value| is_handed_on(ir, value, &nest[depth..])) {
            break;
        }
        best = Some((nest[depth..].to_vec(), ops));
        inner = counter.op;
    }
    best
}

/// Whether a value is what an iteration of one of these loops is given by the one before.
fn is_handed_on(ir: &Ir, value: Value, nest: &[Counter]) -> bool {
    let Definition::Argument(block, _) = ir.definition(value) else {
        return false;
    };
    let of = ir.block_parent(block);
    let mut loops = nest.iter();
    loops.any(|counter| Some(counter.op) == of && counter.iv != value)
}

/// Whether anything in a loop writes the source of a read.
fn writes_besides(ir: &Ir, scope: OpId, read: OpId, record: &TransferRead) -> bool {
    let source = origins(ir, record.source);
    let below = ir.walk_below(scope);
    // What a loop or a branch does is done by the ops in it.
    let plain = below
        .into_iter()
        .filter(|op| *op != read && !is_around(ir, *op));
    plain
        .filter(|op| !ir.has(*op, tir::Traits::Terminator))
        .any(|op| writes(ir, op, &source))
}

/// Copies a read of a nest with what its operands are computed by, as in an iteration counted through.
pub(crate) fn place(
    b: &mut Builder<'_>,
    (nest, ops, read): (&[Counter], &[OpId], OpId),
    mut map: Mapping,
    n: OpFoldResult,
) {
    for (counter, index) in nest.iter().zip(indices(b, nest, n)) {
        let index = index.value(b);
        map.map(counter.iv, index);
    }
    copy(b, ops, &mut map);
    copy(b, &[read], &mut map);
}

/// Starts a read `ahead` iterations early: before the nest those of its first iterations from `first` on, and in each
/// iteration the one of one to come.
fn hoist(ir: &mut Ir, read: OpId, first: i64, ahead: i64, nest: &[Counter], ops: &[OpId]) {
    let total = total(nest);
    let place = |b: &mut Builder<'_>, n: OpFoldResult| {
        place(b, (nest, ops, read), Mapping::default(), n);
    };
    let mut b = ir.at(At::Before(nest[0].op));
    for n in first..ahead {
        place(&mut b, OpFoldResult::Number(n));
    }
    let first = ir
        .block_of(read)
        .and_then(|block| first_behind_loads(ir, block));
    let mut b = ir.at(At::Before(first.unwrap_or(read)));
    if total > ahead {
        let now = linear(&mut b, nest);
        let target = now.plus(&mut b, ahead);
        let condition = target.compare(&mut b, CmpIPredicate::Slt, total);
        let at = early_branch(&mut b, condition);
        let mut inner = Builder {
            ir: &mut *b.ir,
            at,
            loc: b.loc,
        };
        place(&mut inner, target);
    }
    ir.erase(read);
}

/// A branch around loads for later; gives its end.
pub(crate) fn early_branch(b: &mut Builder<'_>, condition: Value) -> At {
    let at = guard(b, condition);
    if let At::Before(end) = at
        && let Some(branch) = b.ir.parent(end)
    {
        b.ir.set_attr(branch, EARLY, tir::Attr::unit());
    }
    at
}

/// What stands before everything else of an iteration, behind the loads for later that stand there already.
pub(crate) fn first_behind_loads(ir: &Ir, block: BlockId) -> Option<OpId> {
    let mut ops = ir.ops_in(block);
    ops.find(|op| !ir.has(*op, tir::Traits::Pure) && !only_loads(ir, *op, &|_| false))
}

/// Whether an op does nothing but load: a branch, which is around loads for later, a load for now into a buffer of which `now`
/// says so, or a loop of both, as of rows that are filled.
pub(crate) fn only_loads(ir: &Ir, op: OpId, now: &dyn Fn(Value) -> bool) -> bool {
    let read = ir.get::<TransferRead>(op).map(|read| read.tile);
    let start = ir.get::<DmaStart>(op);
    let start = start.filter(|start| start.direction == Direction::Read);
    if let Some(tile) = read.or(start.map(|start| start.tile)) {
        return now(tile);
    }
    let later = ir.is::<If>(op);
    let now = match later {
        true => &|_| true,
        false => now,
    };
    let quiet = |op: OpId| ir.is_pure(op) || ir.has(op, tir::Traits::Terminator);
    let mut blocks = ir.regions(op).flat_map(|region| ir.blocks(region));
    (later || ir.is::<For>(op))
        && blocks.all(|block| {
            ir.ops_in(block)
                .all(|op| quiet(op) || only_loads(ir, op, now))
        })
}

/// Whether a buffer is one by itself, not a slot of several: a load into it waits for its last use.
pub(crate) fn is_single(ir: &Ir, tile: Value) -> bool {
    ir.def::<Alloc>(tile).is_some()
}
