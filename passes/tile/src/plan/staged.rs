//! Plans of groups whose points are computed a level further in: tiles that are cut once more.
//!
//! A division is judged by what it moves at this level and by the plan of one of its tiles at the next,
//! taken as a group of its own. That plan is made only for the divisions that move least: what one takes
//! is at least what it moves, and what the group would take if nothing were moved at this level.

use std::sync::Arc;

use tir::{AffineMap, Ir, LinearMap, Type};

use super::estimate::Estimate;
use super::places::Places;
use super::search::{Search, divisions};
use super::shapes::Shapes;
use super::sizes::{Choices, divisors, loop_orders, sizes};
use super::unit::Way;
use super::{Budget, Plan, Target, plan};
use crate::group::{Group, Input, Step, StepRef};
use crate::layout::{Space, Tile, storage_order};

/// Divisions for which a tile is planned.
const PLANNED: usize = 32;
/// Divisions of such a tile that are estimated at most.
const INNER: usize = 512;

/// Looks for the quickest plan of a group through this level, or to its end where elements are only moved
/// or nothing further in computes them.
pub(super) fn staged(
    ir: &Ir,
    group: &Group,
    target: &Target<'_>,
    inner: &Target<'_>,
    elems: &[Type],
    search: &mut Search<'_>,
) {
    if group.moves(ir) {
        for map in [&group.operands[0].map, &group.out] {
            let order = storage_order(map, group.domain.len());
            if let Some(order) = order {
                divisions(group, target, &Way::Moved(order), elems, search);
            }
        }
        if let Some(best) = &mut search.best {
            best.helps = true;
            return;
        }
    }
    let budget = Budget {
        limit: search.budget.limit.min(INNER),
        listed: 0,
        ..search.budget
    };
    // Were all of it a tile: what no level further in computes, the thread does here.
    let whole = plan(ir, group, inner, budget);
    let helped = |plan: &Plan| plan.helps;
    let Some(whole) = whole.ok().filter(helped) else {
        divisions(group, target, &Way::Whole, elems, search);
        return;
    };
    // What a unit computes of what sticks out is dropped, as elsewhere.
    let ragged = whole.unit.is_some() && group.into.is_none();
    let further = Further {
        cycles: whole.cycles,
        block: &whole.space.block,
        ragged,
    };
    let mut all = candidates(group, target, &further, elems, search);
    all.sort_by_key(|plan| (plan.cycles, plan.bytes));
    let mut looked = 0;
    for candidate in all {
        let least = search.best.as_ref().map_or(i64::MAX, |best| best.cycles);
        if looked >= PLANNED {
            break;
        }
        if candidate.cost.load.max(candidate.cost.store) > least {
            continue;
        }
        let Some(part) = part(group, &candidate) else {
            continue;
        };
        looked += 1;
        let Ok(tile) = plan(ir, &part, inner, budget) else {
            continue;
        };
        let trips = (0..group.core).map(|d| candidate.space.trips(d));
        let trips = trips.fold(1, i64::saturating_mul);
        let mut cost = candidate.cost.clone();
        // Queues that fill and drain for one tile do so beside those of its neighbours.
        let ends = tile.cost.first.saturating_add(tile.cost.last);
        let each = tile.cycles.saturating_sub(ends);
        cost.compute = each.saturating_mul(trips).saturating_add(ends);
        let found = Plan {
            cycles: cost.total(target.info.scalar_cycles),
            cost,
            quicker: tile.unit.is_some() || tile.quicker,
            helps: tile.helps,
            ..candidate
        };
        search.consider(found);
    }
    if search.best.is_none() {
        divisions(group, target, &Way::Whole, elems, search);
    }
}

/// What is known of a group further in.
struct Further<'a> {
    /// Cycles of all of it.
    cycles: i64,
    /// Points of each iterator in a block of a unit.
    block: &'a [i64],
    /// Whether tiles may stick out, where engines pad.
    ragged: bool,
}

impl Further<'_> {
    /// The same cycles in tiles: of a block of a unit that a tile does not fill the rest is computed, too.
    fn in_tiles(&self, space: &Space) -> i64 {
        let blocks = self.block.iter().enumerate().map(|(d, block)| {
            let of = |points: i64| (points + block - 1) / block.max(&1);
            let tiles = space.trips(d).saturating_mul(of(space.extent(d)));
            tiles as f64 / of(space.domain[d]).max(1) as f64
        });
        (self.cycles as f64 * blocks.product::<f64>()) as i64
    }
}

/// The largest step from one divisor of an iterator to the next that tiles do with: of others they stick out.
const SPARSE: i64 = 4;

/// Sizes of the tiles of an iterator.
fn tiles(all: i64, ragged: bool) -> Vec<i64> {
    let even = divisors(all);
    let sparse = even.windows(2).any(|two| two[1] > two[0] * SPARSE);
    match ragged && sparse {
        true => sizes(all),
        false => even,
    }
}

/// Every division that fits, in its best order.
fn candidates(
    group: &Group,
    target: &Target<'_>,
    further: &Further<'_>,
    elems: &[Type],
    search: &mut Search<'_>,
) -> Vec<Plan> {
    let (way, budget) = (Way::Staged(further.cycles), search.budget);
    let Ok(places) = Places::new(group, target, &way) else {
        return Vec::new();
    };
    let rank = group.domain.len();
    let mut space = Space {
        domain: group.domain.clone(),
        tile: vec![1; rank],
        block: vec![1; rank],
        unit: Vec::new(),
        shifted: None,
    };
    let options: Vec<Vec<i64>> = (0..rank)
        .map(|d| {
            let whole = d >= group.core || group.reductions[d] || group.whole.contains(&d);
            match whole {
                true => vec![group.domain[d].max(1)],
                false => tiles(group.domain[d].max(1), further.ragged && places.pad()),
            }
        })
        .collect();
    let mut found = Vec::new();
    let vectors = Arc::clone(&search.vectors);
    let with = (group, target, &way);
    let mut shapes = Shapes::new(with, elems, &places, &vectors, &space.block, budget);
    for tile in Choices::new(options, budget.limit).every(1) {
        space.tile = tile;
        let operands = shapes.operands(&space, None);
        let parts = operands.and_then(|operands| shapes.parts(&space, None, operands));
        let Some(parts) = parts else {
            continue;
        };
        let tiles = shapes.tiles(&space, parts);
        let mut estimate = Estimate::new(group, target, &way, &tiles, budget, &vectors);
        let mut best: Option<Plan> = None;
        for order in loop_orders(group, &space) {
            let Some(made) = estimate.ordered(order, i64::MAX) else {
                continue;
            };
            if let Some(excess) = places.excess(&made.bytes, budget) {
                search.too_large(excess, &made.bytes);
                continue;
            }
            let better = |best: &Plan| (made.cycles(), made.in_all()) < (best.cycles, best.bytes);
            if best.as_ref().is_none_or(better) {
                best = Some(estimate.plan(made));
            }
        }
        found.extend(best.map(|mut plan| {
            let more = further.in_tiles(&space).saturating_sub(further.cycles);
            plan.cost.compute = plan.cost.compute.saturating_add(more.max(0));
            plan.cycles = plan.cycles.saturating_add(more.max(0));
            plan
        }));
    }
    found
}

/// One tile of a division as a group of its own, whose operands and results are the tiles.
fn part(group: &Group, plan: &Plan) -> Option<Group> {
    let (core, dims) = (group.core, group.domain.len());
    let near = |tile: &Tile, dims: usize| -> AffineMap {
        let places = tile.forms.iter().zip(&tile.low);
        let places: LinearMap = places.map(|(form, low)| form.with_constant(-low)).collect();
        places.affine(dims)
    };
    let mut part = group.clone();
    part.domain = (0..dims).map(|d| plan.space.extent(d)).collect();
    for (i, operand) in part.operands.iter_mut().enumerate() {
        let tile = &plan.tiles[i];
        operand.map = near(tile, dims);
        operand.shape = tile.shape();
        operand.padding = None;
        operand.cut = false;
        if let Some(inner) = &mut operand.inner {
            let ranges = inner.reductions.iter().map(|d| group.domain[*d]);
            let ranges: Vec<i64> = ranges.collect();
            let rows = inner.inputs.iter().zip(&inner.rows);
            let rows = rows.map(|(input, rows)| tile.relative(&plan.tiles[*input], rows, &ranges));
            inner.rows = rows.collect::<Option<_>>()?;
        }
    }
    let out = near(&plan.out, core);
    let shape = plan.out.shape();
    let moved = |step: &mut Step| {
        let inputs = step.inputs.iter();
        let map = |input: &Input| match input {
            Input::Operand(i) => near(&plan.tiles[*i], core),
            _ => out.clone(),
        };
        step.maps = inputs.map(map).collect();
        step.ty = Type::tensor(shape.clone(), step.ty.elem());
    };
    let steps = part.reduce.iter_mut().map(|(step, ..)| step);
    steps.chain(&mut part.maps).for_each(moved);
    for (out, tile) in group.outs.iter().zip(plan.results.iter()) {
        let step = match out.step {
            StepRef::Reduced => part.reduce.as_mut().map(|(step, ..)| step),
            StepRef::Mapped(i) => part.maps.get_mut(i),
        };
        let step = step?;
        step.ty = Type::tensor(tile.shape(), step.ty.elem());
    }
    Some(part)
}
