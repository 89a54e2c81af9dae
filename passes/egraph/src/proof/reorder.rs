//! Order in a block after values were replaced: definitions before uses, nothing unused.

use rustc_hash::FxHashSet;
use tir::{At, BlockId, Ir, OpId, Value};

use crate::build::is_inside;
use crate::region::captures;

/// Moves ops without effects before those that use them, where they are not, and erases those that
/// nothing uses.
pub(super) fn reorder(ir: &mut Ir, block: BlockId) {
    let ops: Vec<OpId> = ir.ops_in(block).collect();
    let mut done = FxHashSet::default();
    for op in &ops {
        if !is_inside(ir, *op) {
            for value in needed(ir, *op) {
                ensure(ir, block, value, *op, &mut done);
            }
        }
    }
    if let Some(end) = ir.last(block).filter(|op| !is_inside(ir, *op)) {
        for op in &ops {
            let used = |op: &OpId| ir.results(*op).any(|v| !ir.is_unused(v));
            if is_inside(ir, *op) && used(op) {
                let result = ir.result(*op, 0);
                ensure(ir, block, result, end, &mut done);
            }
        }
    }
    let ops: Vec<OpId> = ir.ops_in(block).collect();
    for op in ops.into_iter().rev() {
        if is_inside(ir, op) && ir.results(op).all(|v| ir.is_unused(v)) {
            ir.erase(op);
        }
    }
}

/// The operands of an op, and what its regions use from outside.
fn needed(ir: &Ir, op: OpId) -> Vec<Value> {
    let mut values: Vec<Value> = ir.operands(op).collect();
    if ir.regions(op).len() > 0 {
        values.extend(captures(ir, op));
    }
    values
}

/// Makes sure that a value is computed before an op, and its operands before it.
fn ensure(ir: &mut Ir, block: BlockId, value: Value, before: OpId, done: &mut FxHashSet<OpId>) {
    let owner = ir.owner(value).filter(|op| ir.block_of(*op) == Some(block));
    let Some(op) = owner.filter(|op| is_inside(ir, *op)) else {
        return;
    };
    if !done.insert(op) {
        return;
    }
    let operands = needed(ir, op);
    for operand in &operands {
        ensure(ir, block, *operand, before, done);
    }
    let there = |value: &Value| match ir.owner(*value) {
        Some(owner) if ir.block_of(owner) == Some(block) => ir.is_before(owner, op),
        _ => true,
    };
    if !ir.is_before(op, before) || !operands.iter().all(there) {
        ir.move_op(op, At::Before(before));
    }
}
