//! What a division of a group's iterators takes: bytes of near memory, cycles of units and engines.

use tir::Type;
use tir_accel::machine::EngineInfo;

use super::{Budget, Plan, Target, Way, out_order};
use crate::group::{Group, Input, Leaves};
use crate::layout::{Axis, Space, Tile};

fn bytes(value_elem: Type) -> i64 {
    value_elem.bytes().unwrap_or(1) as i64
}

fn round_up(n: i64, to: i64) -> i64 {
    (n + to - 1) / to.max(1) * to.max(1)
}

/// Of the cycles of what runs beside the longest, one in this many is not hidden.
const HIDDEN: i64 = 16;

/// What a tile costs in near memory and on the engine.
struct Traffic {
    near: i64,
    cycles: i64,
    first: i64,
    /// Transfers that the thread starts.
    starts: i64,
}

/// Where a tile stands in the loops, and what moves it.
struct Moved<'a> {
    tile: &'a Tile,
    space: &'a Space,
    order: &'a [usize],
    level: usize,
    /// Bytes of an element.
    elem: i64,
    /// Shape of the far tensor.
    shape: &'a [i64],
    engine: &'a EngineInfo,
    align: i64,
    depth: i64,
    /// Whether a window that slides may be a ring.
    slides: bool,
}

impl Moved<'_> {
    /// Bytes of near memory.
    fn near(&self) -> i64 {
        let slots = if self.level > 0 { self.depth } else { 1 };
        round_up(self.tile.elements() * self.elem, self.align) * slots
    }
    /// How often the tile is another one.
    fn count(&self) -> i64 {
        let around = &self.order[..self.level];
        around.iter().map(|d| self.space.trips(*d)).product()
    }

    fn traffic(&self) -> Traffic {
        let Self {
            tile,
            space,
            order,
            level,
            elem,
            shape,
            engine,
            align,
            depth,
            ..
        } = *self;
        let size = tile.elements() * elem;
        // What of the tile lies inside the source.
        let inside = |skip: Option<usize>| -> i64 {
            let mut extents = vec![1i64; shape.len()];
            for (i, dim) in tile.dims.iter().enumerate() {
                if Some(i) != skip {
                    extents[dim.source.0] *= dim.size;
                }
            }
            let inside = extents.iter().zip(shape).map(|(e, s)| (*e).min(*s));
            inside.product::<i64>() * elem
        };
        let run = tile.run(shape) * elem;
        let starts = tile.starts(shape, elem, engine.dims);
        let cost = |moved: i64| -> i64 {
            let moved = if engine.granule > run {
                moved / run.max(1) * engine.granule
            } else {
                moved
            };
            let cycles = (moved + engine.bytes_per_cycle - 1) / engine.bytes_per_cycle.max(1);
            engine.latency * starts + cycles
        };
        let count = self.count();
        let whole = cost(inside(None));
        let mut near = self.near();
        let mut cycles = whole * count;
        if self.slides && level > 0 {
            let d = order[level - 1];
            let steps = tile.step(space, d);
            let moving: Vec<usize> = (0..steps.len()).filter(|s| steps[*s] != 0).collect();
            if let [s] = moving[..]
                && let Some(i) = tile.dims.iter().position(|dim| {
                    let window = matches!(dim.axis, Axis::Window(_));
                    dim.source == (s, 1) && window && steps[s] > 0 && dim.size > steps[s]
                })
            {
                let (window, step) = (tile.dims[i].size, steps[s]);
                let rows = round_up(window + step * (depth - 1), step);
                near = round_up(size / window * rows, align);
                let again = cost(inside(Some(i)) * step);
                let restarts = count / space.trips(d);
                cycles = restarts * whole + (count - restarts) * again;
            }
        }
        Traffic {
            near,
            cycles,
            first: whole,
            starts: starts * count,
        }
    }
}

/// The tile of each operand: in the order that the unit wants for what the core reads, as a box
/// else. `None` if one cannot be such a tile, or what is computed is at no linear place in it.
fn tiles(
    group: &Group,
    target: &Target<'_>,
    way: &Way,
    space: &Space,
    unit_out: &[usize],
) -> Option<Vec<Tile>> {
    let mut tiles: Vec<Option<Tile>> = vec![None; group.operands.len()];
    let main = group.main()?;
    // Dimensions of the unit's operand that an operand of the core is.
    let unit_dims = |i: usize, choice: &super::UnitChoice| -> Option<Vec<usize>> {
        let at = main
            .inputs
            .iter()
            .position(|input| *input == Input::Operand(i));
        if let Some(at) = at {
            let behaviour = target.behaviours[choice.assignment.intrinsic].as_ref()?;
            let j = choice.assignment.inputs[at];
            let dims = behaviour.generic.indexing_maps[j].as_projection()?;
            return Some(
                dims.into_iter()
                    .map(|d| choice.assignment.unit_dims[d])
                    .collect(),
            );
        }
        let map = &group.operands[i].map;
        let used = |d: &usize| map.exprs.iter().any(|e| e.uses(*d));
        Some(unit_out.iter().copied().filter(used).collect())
    };
    let in_core = |i: usize| {
        let mut steps = group.reduce.iter().map(|(s, ..)| s).chain(&group.maps);
        steps.any(|s| s.inputs.contains(&Input::Operand(i)))
    };
    for i in (0..tiles.len()).rev() {
        let operand = &group.operands[i];
        let tile = match (tiles[i].take(), way) {
            (Some(tile), _) => tile,
            (None, Way::Moved(order)) => Tile::moved(space, &operand.map, order)?,
            (None, Way::Unit(choice)) if in_core(i) => {
                Tile::new(space, &operand.map, &unit_dims(i, choice)?)?
            }
            (None, _) => Tile::plain(space, &operand.map)?,
        };
        if let Some(inner) = &operand.inner {
            for (input, rows) in inner.inputs.iter().zip(&inner.rows) {
                let far = &group.operands[*input];
                let straight = rows.is_identity() && rows.len() == operand.shape.len();
                if tiles[*input].is_none() && !in_core(*input) && straight && far.map == operand.map
                {
                    tiles[*input] = Some(tile.clone());
                }
            }
        }
        tiles[i] = Some(tile);
    }
    let tiles: Vec<Tile> = tiles.into_iter().collect::<Option<_>>()?;
    for (operand, tile) in group.operands.iter().zip(&tiles) {
        if let Some(inner) = &operand.inner {
            let ranges: Vec<i64> = inner.reductions.iter().map(|d| group.domain[*d]).collect();
            for (input, rows) in inner.inputs.iter().zip(&inner.rows) {
                tile.relative(&tiles[*input], rows, &ranges)?;
            }
        }
    }
    Some(tiles)
}

/// The plan of a division, and the bytes of each operand's tile, of the results and of what is
/// accumulated.
pub(super) fn estimate(
    group: &Group,
    target: &Target<'_>,
    way: &Way,
    space: &Space,
    tiles: &Tiles,
    order: Vec<usize>,
    budget: Budget,
) -> Option<(Plan, Vec<i64>)> {
    let unit = way.unit();
    let mut plan = Plan {
        space: space.clone(),
        unit: unit.map(|c| c.assignment.clone()),
        order,
        tiles: tiles.operands.clone(),
        out: tiles.out.clone(),
        unit_out: tiles.unit_out.clone(),
        moves: matches!(way, Way::Moved(_)),
        quicker: false,
        bytes: 0,
        cycles: 0,
    };
    let align = target.near.align.max(1);
    let scalar = target.info.scalar_cycles.max(1);
    let (mut load, mut first, mut starts, mut inner_cycles) = (0, 0, 0, 0i64);
    let mut holders = Vec::new();
    for (i, operand) in group.operands.iter().enumerate() {
        let moved = Moved {
            tile: &plan.tiles[i],
            space,
            order: &plan.order,
            level: plan.level(i),
            elem: bytes(tiles.elems[i]),
            shape: &operand.shape,
            engine: target.load,
            align,
            depth: budget.depth,
            slides: operand.map.dims > 0,
        };
        if let Some(inner) = &operand.inner {
            let reduced: i64 = inner.reductions.iter().map(|d| group.domain[*d]).product();
            let each = (inner.inputs.len() as i64 + 1) * scalar;
            let points = moved.tile.elements().saturating_mul(reduced);
            inner_cycles += points.saturating_mul(each).saturating_mul(moved.count());
            holders.push(moved.near());
            continue;
        }
        let t = moved.traffic();
        load += t.cycles;
        first += t.first;
        starts += t.starts;
        holders.push(t.near);
    }
    let parallel = plan
        .order
        .iter()
        .take_while(|d| !group.reductions[**d])
        .count();
    let depth = if parallel > 0 { budget.depth } else { 1 };
    let (mut store, mut last, mut results) = (0, 0, 0);
    // What is held between steps is as large as the largest of them.
    let steps = group.reduce.iter().map(|(s, ..)| s).chain(&group.maps);
    let held_elem = steps.map(|s| bytes(s.ty.elem())).max().unwrap_or(1);
    for (out, _) in &group.outs {
        let ty = group.ty(*out)?;
        let elem = bytes(ty.elem());
        let t = Moved {
            tile: &plan.out,
            space,
            order: &plan.order,
            level: parallel,
            elem,
            shape: ty.shape()?,
            engine: target.store,
            align,
            depth: budget.depth,
            slides: false,
        }
        .traffic();
        results += t.near;
        store += t.cycles;
        last += t.first;
        starts += t.starts;
    }
    holders.push(if plan.moves { 0 } else { results });
    // Accumulators and steps between, where they are not results themselves.
    let leaves = |what: Leaves| group.outs.iter().any(|(out, _)| *out == what);
    let tile_of = |count: i64| round_up(plan.out.elements() * held_elem, align) * depth * count;
    let mut temporaries = (0..group.maps.len())
        .filter(|i| !leaves(Leaves::Mapped(*i)))
        .count() as i64;
    let accumulates = group.reduce.is_some() && !leaves(Leaves::Reduced);
    let held = if plan.moves {
        0
    } else if unit.is_none() || plan.splits_reduction(group) {
        // All of the tile, or blocks of it where elementwise steps follow block by block.
        tile_of(i64::from(accumulates) + if unit.is_none() { temporaries } else { 0 })
    } else {
        temporaries += i64::from(accumulates);
        let unit_tile: i64 = plan
            .unit_out
            .iter()
            .map(|d| space.block[*d])
            .product::<i64>()
            * held_elem;
        let inside = group
            .iterators(false)
            .any(|d| space.tile[d] * space.trips(d) > 1);
        round_up(unit_tile, align) * if inside { budget.depth } else { 1 } * temporaries
    };
    let blocks = if unit.is_some() && plan.splits_reduction(group) {
        let unit_tile: i64 = plan
            .unit_out
            .iter()
            .map(|d| space.block[*d])
            .product::<i64>()
            * held_elem;
        round_up(unit_tile, align) * budget.depth * temporaries
    } else {
        0
    };
    holders.push(held + blocks);
    plan.bytes = holders.iter().sum();
    let compute = match unit {
        Some(choice) => {
            let calls: i64 = (0..group.core).map(|d| space.blocks(d)).product();
            let cycles = target.info.intrinsics[choice.assignment.intrinsic].cycles;
            // The thread computes all of a block, also what lies beyond the range.
            let outputs: i64 = group
                .iterators(false)
                .map(|d| space.blocks(d) * space.block[d])
                .product();
            let tail = outputs.saturating_mul(6 * scalar * choice.scalar_steps);
            calls.saturating_mul(cycles).saturating_add(tail)
        }
        None if plan.moves => 0,
        None => group.points().saturating_mul(6 * scalar),
    };
    let compute = compute.saturating_add(inner_cycles);
    // What runs beside the longest is hidden but for a part: queues fill, and share the spaces. So
    // of divisions that the unit binds, the one that moves less is taken.
    let longest = compute.max(load).max(store);
    let beside = compute.saturating_add(load + store) - longest;
    // The thread that starts transfers does not compute meanwhile: many small tiles are no gain.
    plan.cycles = longest
        .saturating_add(beside / HIDDEN)
        .saturating_add(starts * scalar)
        .saturating_add(first)
        .saturating_add(last);
    Some((plan, holders))
}

/// The tiles of a division, whatever the order of its loops.
pub(super) struct Tiles {
    operands: Vec<Tile>,
    out: Tile,
    unit_out: Vec<usize>,
    /// Element types of the operands.
    elems: Vec<Type>,
}

impl Tiles {
    pub(super) fn new(
        group: &Group,
        target: &Target<'_>,
        way: &Way,
        space: &Space,
        elems: &[Type],
    ) -> Option<Self> {
        let unit = way.unit();
        let unit_out = unit
            .and_then(|c| out_order(target, &c.assignment))
            .unwrap_or_default();
        let out = match way {
            Way::Scalar => Tile::plain(space, &group.out)?,
            Way::Moved(order) => Tile::moved(space, &group.out, order)?,
            Way::Unit(_) => Tile::new(space, &group.out, &unit_out)?,
        };
        Some(Self {
            operands: tiles(group, target, way, space, &unit_out)?,
            out,
            unit_out,
            elems: elems.to_vec(),
        })
    }
}
