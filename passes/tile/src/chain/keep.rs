//! Operands of a chain that stay in near memory where it is free, instead of being loaded again.

use tir::Name;
use tir_accel::machine::SpaceInfo;

use super::Stage;
use super::cost::{each, used};
use super::stage::Context;
use crate::group::Input;
use crate::plan::{Cost, Hold, hold};

/// Keeps operands in near memory that is free: those that save the most cycles for their bytes. With `most`, those
/// that save the most loads as long as all takes no more cycles than these.
pub(super) fn keep(cx: &Context<'_>, root: &mut Stage, cost: &mut Cost, most: Option<i64>) {
    loop {
        let spaces = cx.target.info.spaces.iter();
        let left = |space: &SpaceInfo| cx.budget.free(space).saturating_sub(used(root, space.name));
        let left: Vec<(Name, i64)> = spaces.map(|space| (space.name, left(space))).collect();
        let free = |name: Name| {
            let space = left.iter().find(|(space, _)| *space == name);
            space.map_or(0, |(_, bytes)| *bytes)
        };
        let mut best: Option<(i64, usize, usize, Hold, Hold)> = None;
        let mut number = 0;
        each(root, &mut |stage| {
            for operand in 0..stage.group.operands.len() {
                if let Some((gain, old, new)) = kept(cx, stage, operand, (cost, most), &free)
                    && best.as_ref().is_none_or(|best| gain > best.0)
                {
                    best = Some((gain, number, operand, old, new));
                }
            }
            number += 1;
        });
        let Some((_, chosen, operand, old, new)) = best else {
            return;
        };
        let mut single = false;
        let mut number = 0;
        each(root, &mut |stage| {
            if number == chosen {
                single = stage.plan.single[operand];
                stage.plan.single[operand] &= new.level > 0;
                stage.plan.keep(operand, new.clone());
            }
            number += 1;
        });
        *cost = replaced(cost, &old, &new, single);
    }
}

/// What a chain costs where an operand is loaded in another way.
fn replaced(cost: &Cost, old: &Hold, new: &Hold, single: bool) -> Cost {
    let mut cost = cost.clone();
    cost.load = cost.load.saturating_add(new.load - old.load);
    cost.first = cost.first.saturating_add(new.first - old.first);
    cost.starts = cost.starts.saturating_add(new.starts - old.starts);
    if single {
        let exposed = old.holder.exposed - new.holder.exposed;
        // Of a stage that computes late it is hidden already.
        cost.exposed = cost.exposed.saturating_sub(exposed).max(0);
    }
    cost
}

/// What an operand of a stage saves for its bytes where it stays, as it is loaded now, and as it would be.
fn kept(
    cx: &Context<'_>,
    stage: &Stage,
    operand: usize,
    (cost, most): (&Cost, Option<i64>),
    free: &dyn Fn(Name) -> i64,
) -> Option<(i64, Hold, Hold)> {
    let (group, plan) = (&stage.group, &stage.plan);
    let thread = i64::try_from(cx.target.info.thread_cycles(1)).unwrap_or(i64::MAX);
    let level = plan.level(operand);
    let far = &group.operands[operand];
    let fits = |outer: &usize| stage.may_load(operand, *outer);
    let written = plan.in_place == Some(Input::Operand(operand));
    if far.made || far.near || far.inner.is_some() || written || plan.hold[operand].is_some() {
        return None;
    }
    let with = (cx.ir.ty(far.source).elem(), cx.budget);
    let at = |level| hold(group, cx.target, plan, operand, level, with);
    let now = at(level)?;
    let engine = cx
        .target
        .info
        .engine_between(cx.target.far.name, plan.spaces[operand])?;
    let moved = |hold: &Hold| hold.load - hold.starts.saturating_mul(engine.latency);
    let bytes = |hold: &Hold| match plan.single[operand] {
        true => hold.holder.one,
        false => hold.holder.bytes,
    };
    let mut best: Option<(i64, Hold)> = None;
    for outer in (0..level).filter(fits) {
        let Some(other) = at(outer) else { continue };
        let then = replaced(cost, &now, &other, plan.single[operand]);
        let total = then.total(thread);
        let saved = match most {
            None => cost.total(thread).saturating_sub(total),
            // Fewer bytes, not fewer transfers alone.
            Some(most) if total <= most && moved(&other) < moved(&now) => {
                now.load.saturating_sub(other.load)
            }
            Some(_) => 0,
        };
        let more = bytes(&other).saturating_sub(bytes(&now));
        if saved <= 0 || more > free(plan.spaces[operand]) {
            continue;
        }
        let gain = saved.saturating_mul(1 << 10) / more.max(1);
        if best.as_ref().is_none_or(|best| gain > best.0) {
            best = Some((gain, other));
        }
    }
    best.map(|(gain, other)| (gain, now, other))
}
