//! `tile`: cuts every group into tiles that fit the near space of the attached machine.

use std::collections::{HashMap, HashSet};

use tir::{At, Builder, Diagnostic, Ir, OpId, Traits};
use tir_graph::{Fused, Yield as GraphYield};
use tir_tensor::Generic;

use crate::emit::emit;
use crate::group::{Group, Scope};
use crate::plan::{Budget, Plan, Target, TooLarge, plan};

/// Tiles all groups of a function. What is left over untiled is only what moves no data.
pub fn tile(func: &mut Ir, target: &Target<'_>, budget: Budget) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut group = HashMap::new();
    for (number, op) in func.walk_ids().into_iter().enumerate() {
        if func.contains(op) && func.is::<Fused>(op) {
            for inner in open(func, op) {
                group.insert(inner, number);
            }
        }
    }
    crate::widen::widen(func, target, &mut group);
    crate::settle::settle(func, &mut group);
    let mut generics: Vec<OpId> = func.walk_ids();
    generics.retain(|op| {
        func.is::<Generic>(*op) && top_level(func, *op) && !crate::settle::is_near(func, *op)
    });
    let scope = Scope::new(generics, group);
    // From the last generic to the first: an elementwise step takes the reduction before it in.
    let mut done = HashSet::new();
    for op in scope.generics.iter().rev().copied() {
        if done.contains(&op) || !func.contains(op) || is_dead(func, op) {
            continue;
        }
        match planned(func, op, &scope, target, budget) {
            None => {}
            Some((group, Ok(plan))) => {
                let mut b = Builder::new(func, At::Before(op));
                let values = emit(&mut b, &group, &plan, target.near.name);
                let inside: HashSet<OpId> = group.ops.iter().copied().collect();
                for ((_, old), new) in group.outs.iter().zip(values) {
                    func.replace_uses_if(*old, new, |_, u| !inside.contains(&u.op));
                }
                done.extend(inside);
            }
            Some((group, Err(large))) => {
                done.extend(&group.ops);
                errors.push(too_large(func, op, &group, &large, target, budget));
            }
        }
    }
    erase_dead(func);
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// The group that ends in a generic, and its plan: with values computed in near memory, unless
/// that does not fit or keeps the group from a unit.
fn planned(
    func: &Ir,
    op: OpId,
    scope: &Scope,
    target: &Target<'_>,
    budget: Budget,
) -> Option<(Group, Result<Plan, TooLarge>)> {
    let group = Group::ending_in(func, op, scope, true)?;
    let found = plan(func, &group, target, budget);
    if !group.has_inner() || matches!(&found, Ok(plan) if plan.unit.is_some() || plan.quicker) {
        return Some((group, found));
    }
    let smaller = Group::ending_in(func, op, scope, false)?;
    let other = plan(func, &smaller, target, budget);
    let better = match (&found, &other) {
        (Ok(_), Ok(other)) => other.unit.is_some(),
        (Err(_), _) => true,
        _ => false,
    };
    Some(if better {
        (smaller, other)
    } else {
        (group, found)
    })
}

/// Whether an op stands in no loop and no group.
fn top_level(ir: &Ir, op: OpId) -> bool {
    ir.parent(op) == Some(ir.root())
}

fn is_dead(ir: &Ir, op: OpId) -> bool {
    ir.results(op).all(|value| ir.is_unused(value))
}

/// Takes the ops of a group out of it; gives them.
fn open(ir: &mut Ir, op: OpId) -> Vec<OpId> {
    let Some(block) = ir.body_block(op, 0) else {
        return Vec::new();
    };
    let Some(end) = ir.last(block) else {
        return Vec::new();
    };
    let Some(GraphYield { values }) = ir.get(end) else {
        return Vec::new();
    };
    ir.erase(end);
    let ops: Vec<OpId> = ir.ops_in(block).collect();
    for inner in &ops {
        ir.move_op(*inner, At::Before(op));
    }
    ir.replace(op, &values);
    ops
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
        let what = match (group.operands.get(i), group.result()) {
            (Some(operand), _) => format!("operand {i}, a {}", ir.ty(operand.source)),
            (None, Some(ty)) if i == group.operands.len() => format!("the result, a {ty}"),
            _ => "what is accumulated".to_string(),
        };
        error = error.note(format!("{bytes} bytes for {what}"));
    }
    error.note(format!(
        "with {} slots for every buffer of a loop",
        budget.depth
    ))
}
