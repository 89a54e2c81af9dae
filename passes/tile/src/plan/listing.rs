//! Candidates of a group beside each other, as text.

use super::search::Search;
use super::{Excess, Plan, Target};
use crate::group::Group;

/// The quickest candidates, first the one that is taken, and of those that would be quicker than all of them the one that
/// needs the least near memory.
pub(super) fn listing(group: &Group, target: &Target<'_>, search: &Search<'_>) -> Vec<String> {
    let count = search.budget.listed;
    let mut plans: Vec<&(Plan, Option<Excess>)> = search.kept.iter().collect();
    plans.sort_by_key(|(plan, _)| (plan.cycles, plan.bytes));
    let good = plans.iter().filter(|(_, excess)| excess.is_none());
    let mut good: Vec<&Plan> = good.map(|(plan, _)| plan).collect();
    let best = good.first().map_or(i64::MAX, |plan| plan.cycles);
    good.sort_by_key(|plan| match search.is_close(plan, best) {
        true => (plan.moved(), plan.cycles),
        false => (i64::MAX, plan.cycles),
    });
    let shown = &good[..count.min(good.len())];
    let lines = shown.iter().map(|plan| line(group, target, plan));
    let mut lines: Vec<String> = lines.collect();
    let large = plans
        .iter()
        .filter_map(|(plan, excess)| Some((plan, (*excess)?)));
    let quicker = large.filter(|(plan, _)| plan.cycles < best);
    if let Some((plan, excess)) = quicker.min_by_key(|(plan, _)| (plan.bytes, plan.cycles)) {
        let text = line(group, target, plan);
        let (space, needed, free) = (excess.space, excess.needed, excess.free);
        lines.push(format!(
            "does not fit: needs {needed} of {free} bytes of \"{space}\": {text}"
        ));
    }
    lines
}

/// A candidate: estimate, near memory, who computes, tiles, loops.
pub(crate) fn line(group: &Group, target: &Target<'_>, plan: &Plan) -> String {
    let cost = &plan.cost;
    let by = match &plan.unit {
        Some(unit) => target
            .called(unit)
            .map_or_else(String::new, |called| format!("@{}", called.name)),
        None if plan.moves => "no unit".to_string(),
        None => match &target.inner {
            Some(inner) if plan.helps => format!("cut once more for \"{}\"", inner.near.name),
            _ => "the thread".to_string(),
        },
    };
    let space = &plan.space;
    let several = |d: &usize| space.domain[*d] > 1;
    let tiles = (0..group.core).filter(several).map(|d| {
        let (extent, block) = (space.extent(d), space.block[d]);
        let blocks = if block > 1 && extent > block {
            format!(" by {block}")
        } else {
            String::new()
        };
        format!("d{d} {extent}{blocks} of {}", space.domain[d])
    });
    let tiles: Vec<String> = tiles.collect();
    let loops: Vec<String> = plan.order.iter().map(|d| format!("d{d}")).collect();
    let joined = plan.unit.iter().flat_map(|unit| &unit.unit_dims);
    let joined = joined.filter(|dims| dims.len() > 1).map(|dims| {
        let parts = dims.iter().map(|(d, size)| format!("{size} of d{d}"));
        format!("; joined {}", parts.collect::<Vec<_>>().join(" and "))
    });
    let joined: String = joined.collect();
    let single = plan
        .single
        .iter()
        .enumerate()
        .filter(|(_, single)| **single);
    let mut slots: Vec<String> = single.map(|(i, _)| format!("operand {i}")).collect();
    if plan.single_result {
        slots.push("the result".to_string());
    }
    let slots = match slots.is_empty() {
        true => String::new(),
        false => format!("; one slot for {}", slots.join(", ")),
    };
    let strips = plan.strips.as_ref().map_or(String::new(), |strips| {
        format!(
            "; strips of {} blocks of d{}",
            strips.blocks, strips.iterator
        )
    });
    format!(
        "{} cycles (compute {}, load {}, store {}, not hidden {}), {} bytes: {by}, tiles {}; loops {}{joined}{strips}{slots}",
        plan.cycles,
        cost.compute,
        cost.load,
        cost.store,
        cost.first + cost.last + cost.exposed,
        plan.bytes,
        tiles.join(", "),
        if loops.is_empty() {
            "none".to_string()
        } else {
            loops.join(", ")
        },
    )
}
