//! Results in the place of what they are computed from.

use tir::Ir;

use super::unit::step_assignments;
use super::{Plan, Target};
use crate::group::{Group, Input, StepRef};
use crate::matching::Assignment;

/// What the only elementwise step of a group may write over.
#[derive(Clone, Copy)]
pub(super) struct Over {
    pub(super) input: Input,
    /// Whether the intrinsics that compute the step can do nothing else.
    pub(super) only: bool,
}

/// What the only elementwise step of a group may write over, if no other step and no result needs it: what
/// was accumulated, where each intrinsic that computes the step reads it element by element, or an operand
/// that all of them write.
pub(super) fn written_over(ir: &Ir, group: &Group, target: &Target<'_>) -> Option<Over> {
    let ([step], [out]) = (&group.maps[..], &group.outs[..]) else {
        return None;
    };
    if out.step == StepRef::Reduced {
        return None;
    }
    let found = step_assignments(ir, group, step, target, &[]);
    let ways = &found.0;
    // The operand of a way's intrinsic that an input of the step is.
    let operand = |way: &Assignment, input: usize| {
        let behaviour = target.behaviour(way)?;
        Some(behaviour.inputs[way.inputs[input]])
    };
    let inputs = || 0..step.inputs.len();
    let mut written = ways
        .iter()
        .map(|way| inputs().find(|i| operand(way, *i) == Some(0)));
    let over = |way: &Assignment, i: usize| {
        let elementwise = |o: usize| {
            let index = way.intrinsic();
            index.is_some_and(|index| target.info.intrinsics[index].elementwise[o])
        };
        operand(way, i).is_some_and(|o| o == 0 || elementwise(o))
    };
    let reduced = inputs().find(|i| step.inputs[*i] == Input::Reduced);
    let free = reduced.filter(|read| {
        let others = written.clone().flatten();
        ways.iter().all(|way| over(way, *read)) && others.into_iter().all(|i| i == *read)
    });
    let read = match free {
        Some(read) => read,
        None => {
            let read = written.next()??;
            let same = written.all(|other| other == Some(read));
            same.then_some(read)?
        }
    };
    let input = step.inputs[read];
    if step.inputs.iter().filter(|other| **other == input).count() > 1 {
        return None;
    }
    let elem = match input {
        Input::Reduced => group.reduce.as_ref()?.0.ty.elem(),
        Input::Operand(i) if group.reduce.is_none() => ir.ty(group.operands[i].source).elem(),
        _ => return None,
    };
    let only = ways.iter().any(|way| operand(way, read) == Some(0));
    (elem == step.ty.elem()).then_some(Over { input, only })
}

/// Whether a plan has a unit and what is written over is not needed for another tile: of an operand,
/// the tile is loaded for this one of the result, lies as it does, and is read by no other.
pub(super) fn fits_in_place(group: &Group, input: Input, plan: &Plan) -> bool {
    let Input::Operand(i) = input else {
        return plan.unit.is_some();
    };
    let here = plan.level(i) == plan.parallel(group) && !plan.splits_reduction(group);
    let mut others = group.operands.iter().flat_map(|o| &o.inner);
    let shared = others.any(|inner| inner.inputs.contains(&i));
    let once = plan.space.shifted.is_none();
    plan.unit.is_some() && once && here && !shared && plan.tiles[i].dims == plan.out.dims
}
