//! Which buffers are used at the same time: what conflicts in the banks of a space.
//!
//! Operands of one call are, and what a transfer moves is used beside what calls in the same loop work on.
//! Two buffers conflict where a bank has fewer ports than both take, one for each time that an op reads or
//! writes them. The inner loop counts more: eight times for each loop around.

use std::collections::{BTreeMap, HashMap};

use tir::{BlockId, Ir, OpId, Value};
use tir_accel::{Apply, Call, DmaStart};
use tir_memref::alias::{Origin, origins};
use tir_packing::Conflicts;

use crate::liveness::Buffer;

/// The ports that buffers take.
type Ports = BTreeMap<usize, i64>;

/// What is used in a loop's body and below.
#[derive(Default)]
struct Used {
    moved: Ports,
    worked: Ports,
}

/// The conflicts of the buffers of a space whose banks have so many ports.
pub(crate) fn conflicts(ir: &Ir, buffers: &[Buffer], ports: i64) -> Conflicts {
    let number = buffers.iter().enumerate();
    let number: HashMap<Value, usize> = number.map(|(i, b)| (ir.result(b.op, 0), i)).collect();
    let of = |value: Value| {
        let from = origins(ir, value).into_iter();
        from.filter_map(|origin| match origin {
            Origin::Allocated(value) => number.get(&value).copied(),
            _ => None,
        })
    };
    let mut conflicts = Conflicts::new();
    let mut loops: BTreeMap<BlockId, (usize, Used)> = BTreeMap::new();
    for op in ir.walk_ids() {
        let moves = ir.is::<DmaStart>(op);
        if !moves && !ir.is::<Call>(op) && !ir.is::<Apply>(op) {
            continue;
        }
        let mut used = Ports::new();
        let effects = ir.effects(op).unwrap_or_default();
        for value in effects.iter().filter_map(|effect| effect.on) {
            for buffer in of(value) {
                *used.entry(buffer).or_default() += 1;
            }
        }
        let around = bodies(ir, op);
        add(&mut conflicts, [&used, &used], ports, around.len());
        for (at, block) in around.iter().enumerate() {
            let entry = loops.entry(*block);
            let (_, all) = entry.or_insert((around.len() - at, Used::default()));
            let all = if moves {
                &mut all.moved
            } else {
                &mut all.worked
            };
            for (buffer, count) in &used {
                let most = all.entry(*buffer).or_default();
                *most = (*most).max(*count);
            }
        }
    }
    for (depth, used) in loops.values() {
        add(&mut conflicts, [&used.moved, &used.worked], ports, *depth);
    }
    conflicts
}

/// The bodies of loops and branches around an op, the innermost first.
fn bodies(ir: &Ir, op: OpId) -> Vec<BlockId> {
    let mut found = Vec::new();
    let mut at = op;
    while let (Some(block), Some(parent)) = (ir.block_of(at), ir.parent(at)) {
        if parent == ir.root() {
            break;
        }
        found.push(block);
        at = parent;
    }
    found
}

/// Adds pairs of one of the first and one of the second that take more ports than there are; those of one op
/// with itself once.
fn add(conflicts: &mut Conflicts, [first, second]: [&Ports; 2], ports: i64, depth: usize) {
    let cost = 1u64 << (3 * depth.min(16));
    let same = std::ptr::eq(first, second);
    for (a, more) in first {
        for (b, count) in second {
            if more + count > ports && (!same || a < b) {
                let sum = conflicts.entry((*a.min(b), *a.max(b))).or_default();
                *sum = sum.saturating_add(cost);
            }
        }
    }
}
