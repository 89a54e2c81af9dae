//! Chosen groups in the block.

use egg::Id;
use rustc_hash::FxHashMap;
use tir::{At, Ir, Mapping, OpId, Value};
use tir_graph::fusion::group;

/// Puts the ops of groups, given by their classes, operands first, into `graph.fused`; what others need too is computed
/// again.
pub fn outline(ir: &mut Ir, groups: &[Vec<Id>], values: &FxHashMap<Id, Vec<Value>>) {
    for classes in groups {
        let op = |class: &Id| match values.get(class).map(Vec::as_slice) {
            Some([value]) => ir.owner(*value),
            _ => None,
        };
        let ops: Option<Vec<OpId>> = classes.iter().map(op).collect();
        let Some((top, inner)) = ops.as_deref().and_then(|ops| ops.split_last()) else {
            continue;
        };
        let block = ir.block_of(*top);
        if inner.iter().any(|op| ir.block_of(*op) != block) {
            continue;
        }
        let mut members = vec![*top];
        for op in inner.iter().rev() {
            let old = ir.result(*op, 0);
            if ir.uses(old).all(|u| members.contains(&u.op)) {
                members.push(*op);
                continue;
            }
            let copy = ir.duplicate(*op, At::Before(*top), &mut Mapping::default());
            let new = ir.result(copy, 0);
            ir.replace_uses_if(old, new, |_, u| members.contains(&u.op));
            members.push(copy);
        }
        members.reverse();
        group(ir, &members);
    }
}
