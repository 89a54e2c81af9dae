//! What a division of a group's iterators takes: bytes of near memory, cycles of units and engines.
//!
//! A tile is loaded at a *level*: inside of so many of the loops, the innermost that moves it. Where
//! that is none it has one slot, else `depth` of them, for transfers run ahead. *Holders* are what
//! lies in near memory at once: a tile of each operand, of each result, and what is held between
//! steps. Cycles are those of the busiest of loading, storing and computing, and a part of the
//! others; the model of a transfer is the machine's: latency, rows shorter than the engine's granule
//! cost a whole one, and dimensions beyond the engine's are transfers of their own.
//!
//! The estimate only orders divisions. All arithmetic saturates: what is too large is never chosen.

use std::rc::Rc;

use tir::{Name, Type};
use tir_accel::machine::EngineInfo;

use super::places::Places;
use super::vectors::Vectors;
use super::{Budget, Plan, Target, UnitChoice, Way, out_order};
use crate::group::{Group, Input, StepRef};
use crate::layout::{Axis, Space, Tile};

fn bytes(value_elem: Type) -> i64 {
    value_elem.bytes().unwrap_or(1) as i64
}

fn round_up(n: i64, to: i64) -> i64 {
    let to = to.max(1);
    (n.saturating_add(to - 1) / to).saturating_mul(to)
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
        let size = self.tile.elements().saturating_mul(self.elem);
        round_up(size, self.align).saturating_mul(slots)
    }
    /// How often the tile is another one.
    fn count(&self) -> i64 {
        let around = &self.order[..self.level];
        let trips = around.iter().map(|d| self.space.trips(*d));
        trips.fold(1, i64::saturating_mul)
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
        let size = tile.elements().saturating_mul(elem);
        // What of the tile lies inside the source.
        let inside = |skip: Option<usize>| -> i64 {
            let mut extents = vec![1i64; shape.len()];
            for (i, dim) in tile.dims.iter().enumerate() {
                if Some(i) != skip && dim.size > 1 {
                    let extent = &mut extents[dim.source.0];
                    *extent = extent.saturating_mul(dim.size);
                }
            }
            let inside = extents.iter().zip(shape).map(|(e, s)| (*e).min(*s));
            inside.fold(elem, i64::saturating_mul)
        };
        let run = tile.run(shape) * elem;
        let starts = tile.starts(shape, elem, engine.dims);
        let cost = |moved: i64| -> i64 {
            let moved = if engine.granule > run {
                (moved / run.max(1)).saturating_mul(engine.granule)
            } else {
                moved
            };
            let rate = engine.bytes_per_cycle.max(1);
            let cycles = moved.saturating_add(rate - 1) / rate;
            engine.latency.saturating_mul(starts).saturating_add(cycles)
        };
        let count = self.count();
        let whole = cost(inside(None));
        let mut near = self.near();
        let mut cycles = whole.saturating_mul(count);
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
                let rows = round_up(window.saturating_add(step.saturating_mul(depth - 1)), step);
                near = round_up((size / window).saturating_mul(rows), align);
                let again = cost(inside(Some(i)).saturating_mul(step));
                let restarts = count / space.trips(d);
                let more = (count - restarts).saturating_mul(again);
                cycles = restarts.saturating_mul(whole).saturating_add(more);
            }
        }
        Traffic {
            near,
            cycles,
            first: whole,
            starts: starts.saturating_mul(count),
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
    unit_out: &[Option<usize>],
) -> Option<Vec<Tile>> {
    let mut tiles: Vec<Option<Tile>> = vec![None; group.operands.len()];
    // Dimensions of the unit's operand that an operand of the core is: as the first step wants it
    // that reads it on a unit, or those of the result that it has.
    let unit_dims = |i: usize, choice: &UnitChoice| -> Option<Vec<Option<usize>>> {
        let main = group.main()?;
        let steps = group.maps.iter().zip(&choice.maps);
        let steps = steps.filter_map(|(step, way)| Some((step, way.as_ref()?)));
        let mut all = std::iter::once((main, &choice.assignment)).chain(steps);
        let wanted = all.find_map(|(step, way)| {
            let reads = |input: &Input| *input == Input::Operand(i);
            Some((step.inputs.iter().position(reads)?, way))
        });
        if let Some((at, way)) = wanted {
            let behaviour = target.behaviour(way)?;
            return Some(way.operand_dims(behaviour, way.inputs[at]));
        }
        let map = &group.operands[i].map;
        let used = |d: &usize| map.exprs.iter().any(|e| e.uses(*d));
        let kept = unit_out.iter().flatten().copied().filter(used);
        Some(kept.map(Some).collect())
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

/// A division of a group being estimated.
struct Estimate<'a> {
    group: &'a Group,
    target: &'a Target<'a>,
    unit: Option<&'a UnitChoice>,
    elems: &'a [Type],
    places: &'a Places<'a>,
    budget: Budget,
    vectors: &'a Vectors,
    plan: Plan,
}

/// Cycles by cause.
#[derive(Default)]
struct Cycles {
    /// Of the engine that loads and of the one that stores.
    load: i64,
    store: i64,
    /// Before anything is computed, and after everything is.
    first: i64,
    last: i64,
    /// Of units, and of the thread that computes elements.
    compute: i64,
    /// Transfers that the thread starts.
    starts: i64,
}

impl Cycles {
    /// Until all is done. What runs beside the longest is hidden but for a part: queues fill, and
    /// share the spaces. So of divisions that the unit binds, the one that moves less is taken.
    fn total(&self, scalar: i64) -> i64 {
        let longest = self.compute.max(self.load).max(self.store);
        let moved = self.load.saturating_add(self.store);
        let beside = self.compute.saturating_add(moved).saturating_sub(longest);
        // The thread that starts transfers does not compute meanwhile: many small tiles are no gain.
        let starts = self.starts.saturating_mul(scalar);
        let parts = [beside / HIDDEN, starts, self.first, self.last];
        parts.into_iter().fold(longest, i64::saturating_add)
    }
}

/// The plan of a division, and the bytes of each operand's tile, of the results and of what is
/// accumulated.
pub(super) fn estimate(
    group: &Group,
    target: &Target<'_>,
    way: &Way,
    tiles: &Tiles<'_>,
    order: Vec<usize>,
    budget: Budget,
    vectors: &Vectors,
) -> Option<(Plan, Vec<i64>)> {
    let unit = way.unit();
    let plan = Plan {
        space: tiles.space.clone(),
        unit: unit.map(|c| c.assignment.clone()),
        order,
        spaces: tiles.spaces.clone(),
        held: tiles.places.held.name,
        tiles: tiles.operands.clone(),
        out: tiles.out.clone(),
        results: tiles.results.clone(),
        unit_out: tiles.unit_out.clone(),
        moves: matches!(way, Way::Moved(_)),
        quicker: false,
        in_place: None,
        bytes: 0,
        cycles: 0,
        nearest: None,
    };
    let mut estimate = Estimate {
        group,
        target,
        unit,
        elems: &tiles.elems,
        places: tiles.places,
        budget,
        vectors,
        plan,
    };
    let mut cycles = Cycles::default();
    let mut holders = estimate.operands(&mut cycles);
    holders.push(estimate.results(&mut cycles)?);
    holders.push(estimate.held());
    cycles.compute = cycles.compute.saturating_add(estimate.points());
    estimate.plan.bytes = holders.iter().copied().fold(0, i64::saturating_add);
    estimate.plan.cycles = cycles.total(estimate.scalar());
    Some((estimate.plan, holders))
}

impl Estimate<'_> {
    /// Cycles of the thread for an op on an element.
    fn scalar(&self) -> i64 {
        self.target.info.scalar_cycles.max(1)
    }
    /// Alignment of what is computed.
    fn align(&self) -> i64 {
        self.places.held.align.max(1)
    }
    /// The vector units, where all tiles lie where they work.
    fn vectors(&self) -> Option<&Vectors> {
        let here = self.places.all_in(self.target.near.name);
        here.then_some(self.vectors)
    }
    fn is_result(&self, step: StepRef) -> bool {
        self.group.outs.iter().any(|out| out.step == step)
    }

    /// Bytes of each operand's tiles; adds what loading or computing them takes.
    fn operands(&self, cycles: &mut Cycles) -> Vec<i64> {
        let mut holders = Vec::new();
        for (i, operand) in self.group.operands.iter().enumerate() {
            let moved = Moved {
                tile: &self.plan.tiles[i],
                space: &self.plan.space,
                order: &self.plan.order,
                level: self.plan.level(i),
                elem: bytes(self.elems[i]),
                shape: &operand.shape,
                engine: self.places.operands[i].load.unwrap_or(self.places.store),
                align: self.places.operands[i].space.align.max(1),
                depth: self.budget.depth,
                slides: operand.map.dims > 0,
            };
            if let Some(inner) = &operand.inner {
                let ranges = inner.reductions.iter().map(|d| self.group.domain[*d]);
                let each = (inner.inputs.len() as i64 + 1) * self.scalar();
                let by_thread = ranges
                    .chain([each])
                    .fold(moved.tile.elements(), i64::saturating_mul);
                let on_vectors = self.vectors();
                let on_vectors =
                    on_vectors.and_then(|v| v.inner(self.group, self.target, &self.plan, i));
                let once = on_vectors.unwrap_or(by_thread);
                let work = once.saturating_mul(moved.count());
                cycles.compute = cycles.compute.saturating_add(work);
                holders.push(moved.near());
                continue;
            }
            let t = moved.traffic();
            cycles.load = cycles.load.saturating_add(t.cycles);
            cycles.first = cycles.first.saturating_add(t.first);
            cycles.starts = cycles.starts.saturating_add(t.starts);
            holders.push(t.near);
        }
        holders
    }

    /// Bytes of the results' tiles; adds what storing them takes.
    fn results(&self, cycles: &mut Cycles) -> Option<i64> {
        let parallel = self.plan.parallel(self.group);
        let mut near = 0i64;
        for (out, tile) in self.group.outs.iter().zip(self.plan.results.iter()) {
            let ty = self.group.ty(out.step)?;
            let t = Moved {
                tile,
                space: &self.plan.space,
                order: &self.plan.order,
                level: parallel,
                elem: bytes(ty.elem()),
                shape: ty.shape()?,
                engine: self.places.store,
                align: self.align(),
                depth: self.budget.depth,
                slides: false,
            }
            .traffic();
            near = near.saturating_add(t.near);
            cycles.store = cycles.store.saturating_add(t.cycles);
            cycles.last = cycles.last.saturating_add(t.first);
            cycles.starts = cycles.starts.saturating_add(t.starts);
        }
        Some(if self.plan.moves { 0 } else { near })
    }

    /// Bytes of accumulators and of steps between, where they are not results themselves.
    fn held(&self) -> i64 {
        if self.plan.moves {
            return 0;
        }
        let (group, plan, depth) = (self.group, &self.plan, self.budget.depth);
        // What is held between steps is as large as the largest of them.
        let steps = group.reduce.iter().map(|(s, ..)| s).chain(&group.maps);
        let elem = steps.map(|s| bytes(s.ty.elem())).max().unwrap_or(1);
        let size = |elements: i64| round_up(elements.saturating_mul(elem), self.align());
        let tile = size(plan.out.elements());
        let between = |i: &usize| !self.is_result(StepRef::Mapped(*i));
        let steps = (0..group.maps.len()).filter(between).count() as i64;
        let in_place = self.unit.is_some_and(|choice| choice.in_place);
        let result = in_place || self.is_result(StepRef::Reduced);
        let accumulates = group.reduce.is_some() && !result;
        let accumulators = i64::from(accumulates);
        // Without a loop around it, what is held for a tile is there once.
        let around = plan.parallel(group) > 0;
        let tile = tile.saturating_mul(if around { depth } else { 1 });
        if self.unit.is_none() {
            return tile.saturating_mul(accumulators + steps);
        }
        let block = plan.unit_out.iter().flatten().map(|d| plan.space.block[*d]);
        let block = size(block.fold(1, i64::saturating_mul));
        if plan.splits_reduction(group) {
            // An accumulator for all of the tile; elementwise steps follow block by block.
            let blocks = block.saturating_mul(depth * steps);
            return tile.saturating_mul(accumulators).saturating_add(blocks);
        }
        let several = |d: usize| plan.space.tile[d] > 1 || plan.space.trips(d) > 1;
        let inside = group.iterators(false).any(several);
        block.saturating_mul(if inside { depth } else { 1 } * (accumulators + steps))
    }

    /// Cycles to compute all points.
    fn points(&self) -> i64 {
        let (group, space) = (self.group, &self.plan.space);
        // A load, an op and a store, as the thread runs them.
        let element = 6 * self.scalar();
        let Some(choice) = self.unit else {
            let moves = self.plan.moves;
            let whole = || {
                self.vectors()?
                    .whole(group, self.target, &self.plan, element)
            };
            return if moves {
                0
            } else {
                whole().unwrap_or(group.points().saturating_mul(element))
            };
        };
        let calls = (0..group.core).map(|d| space.blocks(d));
        let calls = calls.fold(1, i64::saturating_mul);
        let each = self.target.info.intrinsics[choice.assignment.intrinsic].cycles;
        // All of a block is computed, also what lies beyond the range.
        let parallel = group.iterators(false);
        let blocks = parallel.map(|d| space.blocks(d));
        let blocks = blocks.fold(1, i64::saturating_mul);
        let sizes: Vec<i64> = self
            .plan
            .unit_out
            .iter()
            .map(|d| d.map_or(1, |d| space.block[d]))
            .collect();
        let points = sizes.iter().copied().fold(1, i64::saturating_mul);
        let near = self.target.near.name;
        let (mut on_vectors, mut by_thread) = (0i64, 0i64);
        for step in &choice.others {
            let here = self.places.step_in(&group.maps[*step], near);
            let vectors = here.then_some(self.vectors);
            match vectors.and_then(|v| v.block(group, self.target, &self.plan, *step, &sizes)) {
                Some(cycles) => on_vectors = on_vectors.saturating_add(cycles),
                None => by_thread = by_thread.saturating_add(points.saturating_mul(element)),
            }
        }
        let on_vectors = on_vectors.saturating_mul(blocks);
        let on_unit = calls.saturating_mul(each);
        // Two units work beside each other, and one alone at both.
        let unit = self.target.info.intrinsics[choice.assignment.intrinsic].unit;
        let shared = self.target.vectors.iter().any(|vector| vector.unit == unit);
        let both = match shared {
            true => on_unit.saturating_add(on_vectors),
            false => on_unit
                .max(on_vectors)
                .saturating_add(on_unit.min(on_vectors) / HIDDEN),
        };
        both.saturating_add(by_thread.saturating_mul(blocks))
    }
}

/// The tiles of a division, whatever the order of its loops.
pub(super) struct Tiles<'a> {
    space: Space,
    places: &'a Places<'a>,
    /// The near space of each operand.
    spaces: Rc<[Name]>,
    operands: Rc<[Tile]>,
    out: Rc<Tile>,
    /// The same tile as part of each result.
    results: Rc<[Tile]>,
    unit_out: Vec<Option<usize>>,
    /// Element types of the operands.
    elems: Vec<Type>,
}

impl<'a> Tiles<'a> {
    pub(super) fn new(
        group: &Group,
        target: &Target<'_>,
        way: &Way,
        space: &Space,
        elems: &[Type],
        places: &'a Places<'a>,
    ) -> Option<Self> {
        let unit = way.unit();
        let unit_out = unit
            .and_then(|c| out_order(target, &c.assignment))
            .unwrap_or_default();
        let out = match way {
            Way::Whole => Tile::plain(space, &group.out)?,
            Way::Moved(order) => Tile::moved(space, &group.out, order)?,
            Way::Unit(_) => Tile::new(space, &group.out, &unit_out)?,
        };
        let results = group.outs.iter().map(|out_of| match way {
            // What is moved has one result, and its tile may be in the order of the source.
            Way::Moved(_) => Some(out.clone()),
            _ => out.part_of(&out_of.map),
        });
        Some(Self {
            space: space.clone(),
            places,
            spaces: places.names().into(),
            operands: tiles(group, target, way, space, &unit_out)?.into(),
            results: results.collect::<Option<_>>()?,
            out: Rc::new(out),
            unit_out,
            elems: elems.to_vec(),
        })
    }
}
