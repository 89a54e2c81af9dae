//! Operands of a chain that stay in near memory where it is free, instead of being loaded again.

use tir::Name;
use tir_accel::machine::SpaceInfo;

use super::Stage;
use super::cost::{Loaded, each, segments_in_turn, used};
use super::stage::Context;
use crate::group::Input;
use crate::plan::{Cost, Hold, Holder, hold};

/// An operand that may stay.
struct Candidate {
    /// The number of its stage, and its own.
    place: (usize, usize),
    /// How it is loaded now, and how it would be.
    old: Hold,
    new: Hold,
    /// Whether it has one slot now.
    single: bool,
    /// What it would be that is loaded before all loops, if it is then.
    loaded: Option<Loaded>,
    space: Name,
}

/// Keeps operands in near memory that is free: those that save the most cycles for their bytes. With `most`, those
/// that save the most loads as long as all takes no more cycles than these. What several operands load before all loops
/// is loaded once, so they are kept at the same time.
pub(super) fn keep(cx: &Context<'_>, root: &mut Stage, cost: &mut Cost, most: Option<i64>) {
    let thread = i64::try_from(cx.target.info.thread_cycles(1)).unwrap_or(i64::MAX);
    // What is loaded before all loops as it is, and what may stay: what is kept changes nothing of the others.
    let mut there: Vec<Loaded> = Vec::new();
    let mut all: Vec<Candidate> = Vec::new();
    let mut number = 0;
    each(root, &mut |stage| {
        for operand in 0..stage.group.operands.len() {
            there.extend(Loaded::of(stage, operand));
            let found = kept(cx, stage, operand).into_iter();
            all.extend(found.map(|(old, new)| Candidate {
                place: (number, operand),
                loaded: Loaded::with(stage, operand, &new.tile).filter(|_| new.level == 0),
                old,
                new,
                single: stage.plan.single[operand],
                space: stage.plan.spaces[operand],
            }));
        }
        number += 1;
    });
    while !all.is_empty() {
        let spaces = cx.target.info.spaces.iter();
        let left = |space: &SpaceInfo| cx.budget.free(space).saturating_sub(used(root, space.name));
        let left: Vec<(Name, i64)> = spaces.map(|space| (space.name, left(space))).collect();
        let free = |name: Name| {
            let space = left.iter().find(|(space, _)| *space == name);
            space.map_or(0, |(_, bytes)| *bytes)
        };
        let mut best: Option<(i64, Vec<usize>, Cost)> = None;
        for (i, own) in all.iter().enumerate() {
            let same = |j: &usize| *j == i || own.loaded.is_some() && all[*j].loaded == own.loaded;
            let twins: Vec<usize> = (0..all.len()).filter(same).collect();
            if twins[0] != i {
                continue;
            }
            let (mut then, mut more, mut saved) = (cost.clone(), 0i64, 0i64);
            let mut loaded = own.loaded.as_ref().is_some_and(|own| there.contains(own));
            for j in &twins {
                let Candidate {
                    old, new, single, ..
                } = &all[*j];
                let bytes = |hold: &Hold| match single {
                    true => hold.holder.one,
                    false => hold.holder.bytes,
                };
                let once = match loaded {
                    true => Hold {
                        load: 0,
                        first: 0,
                        starts: 0,
                        holder: Holder {
                            bytes: 0,
                            one: 0,
                            ..new.holder
                        },
                        ..new.clone()
                    },
                    false => new.clone(),
                };
                then = replaced(&then, old, &once, *single);
                more = more.saturating_add(bytes(&once) - bytes(old));
                saved = saved.saturating_add(old.load - once.load);
                loaded = true;
            }
            let engine = cx.target.info.engine_between(cx.target.far.name, own.space);
            let latency = engine.map_or(0, |engine| engine.latency);
            let moved = |hold: &Hold| hold.load - hold.starts.saturating_mul(latency);
            let total = then.total(thread);
            let saved = match most {
                None => cost.total(thread).saturating_sub(total),
                // Fewer bytes, not fewer transfers alone.
                Some(most) if total <= most && moved(&own.new) < moved(&own.old) => saved,
                Some(_) => 0,
            };
            if saved <= 0 || more > free(own.space) {
                continue;
            }
            let gain = saved.saturating_mul(1 << 10) / more.max(1);
            if best.as_ref().is_none_or(|best| gain > best.0) {
                best = Some((gain, twins, then));
            }
        }
        let Some((_, chosen, then)) = best else {
            return;
        };
        let mut number = 0;
        each(root, &mut |stage| {
            let own = chosen.iter().map(|j| &all[*j]);
            for Candidate { place, new, .. } in own.filter(|own| own.place.0 == number) {
                stage.plan.single[place.1] &= new.level > 0;
                stage.plan.keep(place.1, new.clone());
                there.extend(Loaded::of(stage, place.1));
            }
            number += 1;
        });
        let places: Vec<(usize, usize)> = chosen.iter().map(|j| all[*j].place).collect();
        all.retain(|own| !places.contains(&own.place));
        *cost = then;
        if !cost.in_order {
            cost.apart = segments_in_turn(cx, root);
        }
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

/// How an operand of a stage is loaded, and how it would be if it stayed for all trips of some loops: one for each
/// number of loops around it.
fn kept(cx: &Context<'_>, stage: &Stage, operand: usize) -> Vec<(Hold, Hold)> {
    let (group, plan) = (&stage.group, &stage.plan);
    let level = plan.level(operand);
    let far = &group.operands[operand];
    let fits = |outer: &usize| stage.may_load(operand, *outer);
    let written = plan.in_place == Some(Input::Operand(operand));
    if far.made || far.near || far.inner.is_some() || written || plan.hold[operand].is_some() {
        return Vec::new();
    }
    let with = (cx.ir.ty(far.source).elem(), cx.budget);
    let at = |level| hold(group, cx.target, plan, operand, level, with);
    let Some(now) = at(level) else {
        return Vec::new();
    };
    let others = (0..level).filter(fits).filter_map(at);
    others.map(|other| (now.clone(), other)).collect()
}
