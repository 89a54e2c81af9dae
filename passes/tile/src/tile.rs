//! `tile`: cuts every group into tiles that fit the near space of the attached machine.

use std::collections::HashSet;

use tir::{At, Builder, Diagnostic, Ir, OpId, Traits, Value};
use tir_graph::{Fused, Yield as GraphYield};
use tir_tensor::Generic;

use crate::emit::emit;
use crate::group::Group;
use crate::plan::{Budget, Target, TooLarge, plan};

/// Tiles all groups of a function. What is left over untiled is only what moves no data.
pub fn tile(func: &mut Ir, target: &Target<'_>, budget: Budget) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    for op in func.walk_ids() {
        if func.contains(op) && func.is::<Fused>(op) {
            open(func, op);
        }
    }
    // From the last generic to the first: an elementwise step takes the reduction before it in.
    let mut generics: Vec<OpId> = func.walk_ids();
    generics.retain(|op| func.is::<Generic>(*op) && top_level(func, *op));
    let mut done = HashSet::new();
    for op in generics.into_iter().rev() {
        if done.contains(&op) || !func.contains(op) || is_dead(func, op) {
            continue;
        }
        let inner = |value: Value| func.has_one_use(value);
        let Some(group) = Group::ending_in(func, op, &inner) else {
            continue;
        };
        match plan(func, &group, target, budget) {
            Ok(plan) => {
                let mut b = Builder::new(func, At::Before(op));
                let result = emit(&mut b, &group, &plan, target.near.name);
                func.replace(op, &[result]);
                done.insert(op);
            }
            Err(large) => errors.push(too_large(func, op, &group, &large, target, budget)),
        }
    }
    erase_dead(func);
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// Whether an op stands in no loop and no group.
fn top_level(ir: &Ir, op: OpId) -> bool {
    ir.parent(op) == Some(ir.root())
}

fn is_dead(ir: &Ir, op: OpId) -> bool {
    ir.results(op).all(|value| ir.is_unused(value))
}

/// Takes the ops of a group out of it: the generics in it are fused by structure.
fn open(ir: &mut Ir, op: OpId) {
    let Some(block) = ir.body_block(op, 0) else {
        return;
    };
    let Some(end) = ir.last(block) else {
        return;
    };
    let Some(GraphYield { values }) = ir.get(end) else {
        return;
    };
    ir.erase(end);
    let ops: Vec<OpId> = ir.ops_in(block).collect();
    for inner in ops {
        ir.move_op(inner, At::Before(op));
    }
    ir.replace(op, &values);
}

/// Erases what nobody uses any more: producers that were taken into tiles.
fn erase_dead(ir: &mut Ir) {
    for op in ir.walk_ids().into_iter().rev() {
        if ir.contains(op)
            && ir.is_removable(op)
            && is_dead(ir, op)
            && !ir.has(op, Traits::Terminator)
        {
            ir.erase(op);
        }
    }
}

fn too_large(
    ir: &Ir,
    op: OpId,
    group: &Group,
    large: &TooLarge,
    target: &Target<'_>,
    budget: Budget,
) -> Diagnostic {
    let space = target.near.name;
    let mut error = Diagnostic::error(format!(
        "'{}' does not fit \"{space}\": the smallest tiles need {} bytes, {} are free",
        ir.name(op),
        large.bytes,
        budget.bytes
    ))
    .at(ir.loc(op));
    for (i, bytes) in large.holders.iter().enumerate() {
        let what = match group.operands.get(i) {
            Some(operand) => format!("operand {i}, a {}", ir.ty(operand.source)),
            None if i == group.operands.len() => format!("the result, a {}", group.result),
            None => "what is accumulated".to_string(),
        };
        error = error.note(format!("{bytes} bytes for {what}"));
    }
    error.note(format!(
        "with {} slots for every buffer of a loop",
        budget.depth
    ))
}
