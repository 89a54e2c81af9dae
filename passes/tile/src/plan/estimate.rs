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
use tir_accel::machine::SpaceInfo;

use super::lanes::{Lanes, shared};
use super::places::{Excess, Places};
use super::strip::Strip;
use super::traffic::{Fixed, Holder, Moved, bytes, round_up};
use super::vectors::Vectors;
use super::{Budget, Peel, Plan, Strips, Target, UnitChoice, Way, out_order, reset};
use crate::group::{Group, Input, Operand, Out, StepRef};
use crate::layout::{Space, Tile};

/// Of the cycles of what runs beside the longest, one in this many is not hidden.
const HIDDEN: i64 = 16;

/// The tile of each operand: in the order that the unit wants for what the core reads, as a box
/// else. `None` if one cannot be such a tile, or what is computed is at no linear place in it.
fn tiles(
    group: &Group,
    target: &Target<'_>,
    way: &Way,
    space: &Space,
    unit_out: &[Vec<usize>],
) -> Option<Vec<Tile>> {
    let mut tiles: Vec<Option<Tile>> = vec![None; group.operands.len()];
    // Dimensions of the unit's operand that an operand of the core is: as the first step wants it
    // that reads it on a unit, or those of the result that it has.
    let unit_dims = |i: usize, choice: &UnitChoice| -> Option<Vec<Vec<usize>>> {
        let main = group.main()?;
        let steps = group.maps.iter().zip(&choice.maps);
        let steps = steps.filter_map(|(step, way)| Some((step, way.as_ref()?)));
        let mut all = std::iter::once((main, &*choice.assignment)).chain(steps);
        let wanted = all.find_map(|(step, way)| {
            let reads = |input: &Input| *input == Input::Operand(i);
            Some((step.inputs.iter().position(reads)?, way))
        });
        if let Some((at, way)) = wanted {
            return Some(way.operand_dims(&target.called(way)?.places[way.inputs[at]]));
        }
        let map = &group.operands[i].map;
        let used = |d: &usize| map.exprs.iter().any(|e| e.uses(*d));
        // Of iterators that are one dimension it has all or none.
        let has = |dims: &Vec<usize>| {
            let count = dims.iter().filter(|d| used(d)).count();
            (count == 0 || count == dims.len()).then_some(count > 0)
        };
        let mut kept = Vec::new();
        for dims in unit_out.iter().filter(|dims| !dims.is_empty()) {
            if has(dims)? {
                kept.push(dims.clone());
            }
        }
        Some(kept)
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
                let tile = Tile::new(space, &operand.map, &unit_dims(i, choice)?)?;
                // Where what is computed for a sum ends, zeros follow right behind.
                let rounded = |d: &usize| space.extent(*d) * space.trips(*d) != space.domain[*d];
                let mut ends = group.iterators(true).filter(rounded);
                match ends.find(|d| operand.made && operand.map.exprs.iter().any(|e| e.uses(*d))) {
                    Some(d) => tile.in_one(space, d),
                    None => tile,
                }
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
    tiles: &'a Tiles<'a>,
    places: &'a Places<'a>,
    budget: Budget,
    vectors: &'a Vectors,
    /// Cycles of all points, where they are computed a level further in.
    staged: Option<i64>,
    lanes: Lanes,
    plan: Plan,
}

/// Estimated cycles by cause.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Of the engine that loads.
    pub load: i64,
    /// Of the engine that stores.
    pub store: i64,
    /// Before anything is computed.
    pub first: i64,
    /// After everything is.
    pub last: i64,
    /// Of units, and of the thread that computes elements.
    pub compute: i64,
    /// Transfers that the thread starts.
    pub starts: i64,
    /// Of the thread, to start transfers and calls.
    pub issue: i64,
    /// Transfers that wait for a tile to be used, and the reverse.
    pub exposed: i64,
}

impl Cost {
    /// Adds what another nest costs that runs with this one, one after the other.
    pub fn add(&mut self, other: &Cost) {
        let pairs = [
            (&mut self.load, other.load),
            (&mut self.store, other.store),
            (&mut self.first, other.first),
            (&mut self.last, other.last),
            (&mut self.compute, other.compute),
            (&mut self.issue, other.issue),
            (&mut self.starts, other.starts),
            (&mut self.exposed, other.exposed),
        ];
        for (sum, cycles) in pairs {
            *sum = sum.saturating_add(cycles);
        }
    }

    /// Until all is done. What runs beside the longest is hidden but for a part: queues fill, and
    /// share the spaces. So of divisions that the unit binds, the one that moves less is taken.
    pub fn total(&self, scalar: i64) -> i64 {
        // The thread that starts transfers does not compute meanwhile: many small tiles are no gain.
        let starts = self.starts.saturating_mul(scalar);
        let parts = [starts, self.first, self.last, self.exposed];
        parts.into_iter().fold(self.work(), i64::saturating_add)
    }

    /// The part of it that does not come from waits and starts.
    pub(super) fn work(&self) -> i64 {
        let longest = self.compute.max(self.load).max(self.store).max(self.issue);
        let moved = self
            .load
            .saturating_add(self.store)
            .saturating_add(self.issue);
        let beside = self.compute.saturating_add(moved).saturating_sub(longest);
        longest.saturating_add(beside / HIDDEN)
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
        space: Rc::clone(&tiles.space),
        unit: unit.map(|c| Rc::clone(&c.assignment)),
        order,
        strips: tiles.strips.clone(),
        spaces: Rc::clone(&tiles.spaces),
        held: tiles.places.held.name,
        tiles: Rc::clone(&tiles.operands),
        out: Rc::clone(&tiles.out),
        results: Rc::clone(&tiles.results),
        unit_out: Rc::clone(&tiles.unit_out),
        moves: matches!(way, Way::Moved(_)),
        quicker: false,
        helps: false,
        in_place: None,
        peel: unit.map_or_else(Peel::default, |choice| choice.peel),
        own_accumulator: true,
        hold: vec![None; group.operands.len()],
        single: Vec::new(),
        single_result: false,
        holders: Vec::new(),
        bytes: 0,
        cycles: 0,
        cost: Cost::default(),
        busy: Vec::new(),
        thread: 0,
        resets: None,
        filled: None,
        listed: Vec::new(),
        nearest: None,
    };
    let mut estimate = Estimate {
        group,
        target,
        unit,
        tiles,
        places: tiles.places,
        budget,
        vectors,
        lanes: Lanes::of(target, way, tiles.places.held.name),
        staged: match way {
            Way::Staged(cycles) => Some(*cycles),
            _ => None,
        },
        plan,
    };
    let mut cycles = Cost::default();
    let mut holders = estimate.operands(&mut cycles);
    holders.push(estimate.results(&mut cycles)?);
    holders.push(estimate.held());
    let points = estimate.points();
    cycles.issue = cycles.issue.saturating_add(estimate.issued());
    cycles.compute = cycles.compute.saturating_add(points);
    cycles.exposed = cycles.exposed.saturating_add(estimate.waits(&cycles));
    cycles.last = cycles.last.saturating_add(estimate.tail());
    estimate.share(&mut cycles);
    let all = holders.clone();
    let places = &tiles.places;
    let single = fit(&holders, &places.spaces(holders.len()), |bytes| {
        places.excess(bytes, budget)
    });
    for (holder, single) in holders.iter_mut().zip(&single) {
        if *single {
            holder.bytes = holder.one;
            cycles.exposed = cycles.exposed.saturating_add(holder.exposed);
        }
    }
    estimate.plan.holders = all;
    let operands = group.operands.len();
    estimate.plan.single = single[..operands].to_vec();
    estimate.plan.single_result = single[operands];
    let held = &holders[operands + 1];
    estimate.plan.own_accumulator = held.bytes > held.one;
    let bytes: Vec<i64> = holders.iter().map(|holder| holder.bytes).collect();
    estimate.plan.bytes = bytes.iter().copied().fold(0, i64::saturating_add);
    estimate.plan.cycles = cycles.total(estimate.thread(1));
    estimate.plan.cost = cycles;
    estimate.plan.busy = estimate.busy();
    estimate.plan.thread = estimate.steps_by_thread();
    estimate.plan.resets = estimate.resets();
    Some((estimate.plan, bytes))
}

/// Which holders get one slot so that all fit: those that expose the fewest cycles for the bytes they give,
/// where one is not enough.
pub fn fit(
    holders: &[Holder],
    spaces: &[&SpaceInfo],
    excess: impl Fn(&[i64]) -> Option<Excess>,
) -> Vec<bool> {
    let mut single = vec![false; holders.len()];
    let mut bytes: Vec<i64> = holders.iter().map(|holder| holder.bytes).collect();
    while let Some(excess) = excess(&bytes) {
        let over = excess.needed - excess.free;
        let gain = |i: usize| holders[i].bytes - holders[i].one;
        let here = |i: &usize| spaces[*i].name == excess.space;
        let left = (0..holders.len()).filter(|i| !single[*i] && gain(*i) > 0);
        // More than what is over is no use.
        let price = |i: &usize| {
            let cycles = holders[*i].exposed.saturating_mul(1 << 10);
            (cycles / gain(*i).min(over), std::cmp::Reverse(gain(*i)))
        };
        let Some(next) = left.filter(here).min_by_key(price) else {
            break;
        };
        single[next] = true;
        bytes[next] = holders[next].one;
    }
    // What a later one made needless, those that expose the most first.
    let mut given: Vec<usize> = (0..holders.len()).filter(|i| single[*i]).collect();
    given.sort_by_key(|i| (std::cmp::Reverse(holders[*i].exposed), *i));
    for i in given {
        bytes[i] = holders[i].bytes;
        single[i] = excess(&bytes).is_some();
        if single[i] {
            bytes[i] = holders[i].one;
        }
    }
    single
}

impl Estimate<'_> {
    /// Cycles of the thread for so many scalar operations.
    fn thread(&self, ops: u64) -> i64 {
        i64::try_from(self.target.info.thread_cycles(ops)).unwrap_or(i64::MAX)
    }
    /// Cycles of the unit for one trip of all loops.
    fn trip(&self) -> i64 {
        let trips = self.plan.order.iter().map(|d| self.plan.space.trips(*d));
        let unit = self.busy().first().map_or(0, |(_, cycles)| *cycles);
        unit / trips.fold(1, i64::saturating_mul).max(1)
    }
    /// Cycles of the steps behind the strips of the last tile that no product is computed beside.
    fn tail(&self) -> i64 {
        if self.plan.strips.is_none() {
            return 0;
        }
        let tiles = self.plan.order[..self.plan.parallel(self.group)].iter();
        let tiles = tiles.map(|d| self.plan.space.trips(*d));
        let tiles = tiles.fold(1, i64::saturating_mul).max(1);
        let others = self.busy().into_iter().skip(1);
        let others = others.map(|(_, cycles)| cycles).max().unwrap_or(0);
        let (on_vectors, by_thread) = self.unit.map_or((0, 0), |choice| self.behind(choice));
        let behind = others.max(on_vectors).saturating_add(by_thread) / tiles;
        (behind - self.trip()).max(0)
    }
    /// Cycles that the units wait for the operands of a strip, where they stand behind those of the next tile in
    /// the engine's queue.
    fn waits(&self, cycles: &Cost) -> i64 {
        let Some(strips) = &self.plan.strips else {
            return 0;
        };
        let (space, inner) = (&self.plan.space, self.plan.order.len());
        let (mut piece, mut each) = (0i64, 0i64);
        for (i, fixed) in self.tiles.loads.iter().enumerate() {
            let level = self.plan.level(i);
            let Some(engine) = self.places.operands[i].load.filter(|_| level >= inner) else {
                continue;
            };
            if level > inner {
                each = each.saturating_add(fixed.cycles);
            } else {
                let pieces = engine.pieces(fixed.cycles, strips.count);
                piece = piece.saturating_add(fixed.cycles / pieces);
            }
        }
        let trips = self.plan.order.iter().map(|d| space.trips(*d));
        let trips = trips.fold(1, i64::saturating_mul);
        let compute = self.trip() / strips.count;
        let wait = piece.saturating_add(each).saturating_sub(compute);
        let waits = wait.max(0).saturating_mul(trips);
        let longest = cycles.compute.max(cycles.load);
        (cycles.compute.saturating_add(waits) - longest).max(0)
    }
    /// Divides among cores what each does for itself. What all of them load is loaded by each, and all
    /// share the far space.
    fn share(&self, cycles: &mut Cost) {
        let parallel = self.plan.parallel(self.group);
        let (space, order) = (&self.plan.space, &self.plan.order[..parallel]);
        let Some((split, gain)) = self
            .lanes
            .split(space, order)
            .filter(|_| self.staged.is_none())
        else {
            return;
        };
        let cores = self.lanes.cores;
        let (mut all, mut own) = (0i64, 0i64);
        for (i, tile) in self.plan.tiles.iter().enumerate() {
            let Some(engine) = self.places.operands[i].load else {
                continue;
            };
            let moves = tile.moves_with(space, split);
            let level = order[..self.plan.level(i).min(parallel)].iter();
            let count = level.fold(1, |n: i64, d| n.saturating_mul(space.trips(*d)));
            let once = self.tiles.loads[i].cycles.saturating_mul(count);
            let moved = once.saturating_mul(engine.bytes_per_cycle);
            own = own.saturating_add(if moves { shared(once, gain) } else { once });
            // What all of them load is loaded once where it can be passed on.
            let passed = self.target.info.passes_on(self.plan.spaces[i]);
            let times = if moves || passed { 1 } else { cores };
            all = all.saturating_add(moved.saturating_mul(times));
        }
        let stored = cycles
            .store
            .saturating_mul(self.places.store.bytes_per_cycle);
        let all = all.saturating_add(stored) / self.target.far.bytes_per_cycle.max(1);
        cycles.load = shared(cycles.load, gain).max(own).max(all);
        cycles.store = shared(cycles.store, gain);
        cycles.compute = shared(cycles.compute, gain);
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
    fn operands(&self, cycles: &mut Cost) -> Vec<Holder> {
        let mut holders = Vec::new();
        for (i, operand) in self.group.operands.iter().enumerate() {
            let strips = self.plan.strips.as_ref();
            let strips = strips.filter(|strips| strips.operands[i]);
            let moved = Moved {
                tile: &self.plan.tiles[i],
                fixed: &self.tiles.loads[i],
                space: &self.plan.space,
                order: &self.plan.order,
                level: self.plan.level(i).min(self.plan.order.len()),
                times: strips.map_or(1, |strips| strips.count),
                elem: bytes(self.tiles.elems[i]),
                shape: &operand.shape,
                engine: self.places.operands[i].load.unwrap_or(self.places.store),
                align: self.places.operands[i].space.align.max(1),
                depth: self.budget.depth,
                // What is cut once more is read in parts that are no rows of a ring.
                slides: operand.map.dims > 0 && self.unit.is_some(),
            };
            if let Some(inner) = &operand.inner {
                let ranges = inner.reductions.iter().map(|d| self.group.domain[*d]);
                let each = self.thread(inner.work);
                let by_thread = ranges
                    .chain([each])
                    .fold(moved.tile.elements(), i64::saturating_mul);
                let on_vectors = self.vectors();
                let on_vectors =
                    on_vectors.and_then(|v| v.inner(self.group, self.target, &self.plan, i));
                let once = on_vectors.unwrap_or(by_thread);
                let work = match self.staged {
                    Some(_) => 0,
                    None => once.saturating_mul(moved.count()),
                };
                cycles.compute = cycles.compute.saturating_add(work);
                holders.push(Holder {
                    bytes: moved.near(),
                    one: moved.fixed.one,
                    exposed: work,
                });
                continue;
            }
            // What lies in near memory was counted when it was put there.
            if operand.near {
                holders.push(Holder::default());
                continue;
            }
            // What another nest computes is counted there.
            if operand.made {
                holders.push(Holder {
                    bytes: moved.near(),
                    one: moved.fixed.one,
                    exposed: 0,
                });
                continue;
            }
            let t = moved.traffic();
            cycles.load = cycles.load.saturating_add(t.cycles);
            cycles.first = cycles.first.saturating_add(t.first);
            cycles.starts = cycles.starts.saturating_add(t.starts);
            let issue = moved.engine.issue.saturating_mul(t.starts);
            cycles.issue = cycles.issue.saturating_add(issue);
            holders.push(Holder {
                bytes: t.near,
                one: t.one,
                exposed: t.cycles - t.first,
            });
        }
        holders
    }

    /// Bytes of the results' tiles; adds what storing them takes.
    fn results(&self, cycles: &mut Cost) -> Option<Holder> {
        let parallel = self.plan.parallel(self.group);
        let (mut near, mut one, mut exposed) = (0i64, 0i64, 0i64);
        if self.group.into.is_some() {
            // It lies in the tile that the other nest reads.
            return Some(Holder {
                bytes: 0,
                one: 0,
                exposed: 0,
            });
        }
        let tiles = self.plan.results.iter().zip(&self.tiles.stores);
        for (out, (tile, fixed)) in self.group.outs.iter().zip(tiles) {
            let ty = self.group.ty(out.step)?;
            let t = Moved {
                tile,
                fixed,
                space: &self.plan.space,
                order: &self.plan.order,
                level: parallel,
                times: 1,
                elem: bytes(ty.elem()),
                shape: ty.shape()?,
                engine: self.places.store,
                align: self.align(),
                depth: self.budget.depth,
                slides: false,
            }
            .traffic();
            near = near.saturating_add(t.near);
            one = one.saturating_add(t.one);
            // Strips are stored while the last trip computes others.
            let shown = match &self.plan.strips {
                Some(strips) => (t.first - self.trip()).max(t.first / strips.count),
                None => t.first,
            };
            let tiles = t.cycles / t.first.max(1);
            exposed = exposed.saturating_add(shown.saturating_mul(tiles - 1));
            cycles.store = cycles.store.saturating_add(t.cycles);
            cycles.last = cycles.last.saturating_add(shown);
            cycles.starts = cycles.starts.saturating_add(t.starts);
            let issue = self.places.store.issue.saturating_mul(t.starts);
            cycles.issue = cycles.issue.saturating_add(issue);
        }
        // What is moved is stored from where it was loaded.
        let moves = self.plan.moves;
        Some(Holder {
            bytes: if moves { 0 } else { near },
            one: if moves { 0 } else { one },
            exposed,
        })
    }

    /// Bytes of accumulators and of steps between, where they are not results themselves.
    fn held(&self) -> Holder {
        let over = self.unit.and_then(|choice| choice.over);
        // Where the result takes the place of the accumulators, a tile is not begun before the result
        // of an earlier one is stored; in a tile of many blocks no block waits for an earlier one.
        let (space, parallel) = (&self.plan.space, self.plan.parallel(self.group));
        let blocks = self.group.iterators(false).map(|d| space.tile[d]);
        let blocks = blocks.fold(1, i64::saturating_mul);
        let few = blocks <= self.budget.depth && !self.plan.splits_reduction(self.group);
        // What the thread computes behind the unit keeps it waiting longer.
        let apart = few || self.unit.is_some_and(|choice| !choice.others.is_empty());
        let tiles = self.plan.order[..parallel].iter();
        let tiles = tiles.map(|d| space.trips(*d));
        Holder {
            bytes: self.held_bytes(over.is_none_or(|over| apart && !over.only)),
            one: self.held_bytes(over.is_none()),
            exposed: tiles.fold(self.places.store.latency, i64::saturating_mul),
        }
    }

    fn held_bytes(&self, own: bool) -> i64 {
        // A level further in there is one nest, and nothing lies here between its steps.
        if self.plan.moves || self.staged.is_some() {
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
        let accumulates = group.reduce.is_some() && own && !self.is_result(StepRef::Reduced);
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

    /// Cycles of the thread to compute all steps of the group at all their points.
    fn by_thread(&self) -> i64 {
        let group = self.group;
        let reduce = group.reduce.iter().map(|(step, ..)| step);
        let reduced = reduce.map(|s| self.thread(s.work).saturating_mul(group.points()));
        let points = group.iterators(false).map(|d| group.domain[d]);
        let points = points.fold(1, i64::saturating_mul);
        let mapped = group.maps.iter();
        let mapped = mapped.map(|s| self.thread(s.work).saturating_mul(points));
        reduced.chain(mapped).fold(0, i64::saturating_add)
    }

    /// Cycles of each unit.
    fn busy(&self) -> Vec<(Name, i64)> {
        let (group, space) = (self.group, &self.plan.space);
        let Some(choice) = self.unit else {
            return Vec::new();
        };
        let count = |dims: &mut dyn Iterator<Item = usize>| {
            dims.fold(1, |n: i64, d| n.saturating_mul(space.covered(d)))
        };
        let (calls, blocks) = (
            count(&mut (0..group.core)),
            count(&mut group.iterators(false)),
        );
        let Some(called) = self.target.called(&choice.assignment) else {
            return Vec::new();
        };
        let mut busy = vec![(called.unit, calls.saturating_mul(called.cycles))];
        let beside = match self.plan.splits_reduction(group) {
            true => &choice.beside,
            false => &choice.beside_whole,
        };
        let vectors = self.steps_on_vectors();
        for (unit, cycles) in beside.iter().chain(&vectors) {
            let cycles = blocks.saturating_mul(*cycles);
            match busy.iter_mut().find(|(name, _)| name == unit) {
                Some((_, sum)) => *sum = sum.saturating_add(cycles),
                None => busy.push((*unit, cycles)),
            }
        }
        busy
    }

    /// Of the cycles of units those of fills, and their unit.
    fn resets(&self) -> Option<(Name, i64)> {
        let choice = self.unit?;
        if choice.peel.first.is_some() && !self.plan.splits_reduction(self.group) {
            // One call fills and begins to add: there is no fill to do otherwise.
            return None;
        }
        let (unit, cycles) = choice.reset?;
        let blocks = self
            .group
            .iterators(false)
            .map(|d| self.plan.space.covered(d));
        Some((unit, blocks.fold(cycles, i64::saturating_mul)))
    }

    /// Cycles of the thread to start the calls of the unit.
    fn issued(&self) -> i64 {
        let Some(choice) = self.unit else {
            return 0;
        };
        let (group, info) = (self.group, self.target.info);
        let called = self.target.called(&choice.assignment);
        let unit = called.and_then(|called| info.unit(called.unit));
        let each = unit.map_or(0, |unit| unit.issue);
        let blocks = (0..group.core).map(|d| self.plan.space.covered(d));
        blocks.fold(each, i64::saturating_mul)
    }

    /// Cycles of vector units, and of the thread, for the steps behind that no intrinsic computes.
    fn behind(&self, choice: &UnitChoice) -> (i64, i64) {
        let (group, space) = (self.group, &self.plan.space);
        // All of a block is computed, also what lies beyond the range.
        let blocks = group.iterators(false).map(|d| space.covered(d));
        let blocks = blocks.fold(1, i64::saturating_mul);
        let size = |dims: &Vec<usize>| dims.iter().map(|d| space.block[*d]).product();
        let sizes: Vec<i64> = self.plan.unit_out.iter().map(size).collect();
        let points = sizes.iter().copied().fold(blocks, i64::saturating_mul);
        let near = self.target.near.name;
        let (mut on_vectors, mut by_thread) = (0i64, 0i64);
        for step in &choice.others {
            let here = self.places.step_in(&group.maps[*step], near);
            let vectors = here.then_some(self.vectors);
            match vectors.and_then(|v| v.block(group, self.target, &self.plan, *step, &sizes)) {
                Some((_, cycles)) => {
                    on_vectors = on_vectors.saturating_add(cycles.saturating_mul(blocks))
                }
                None => {
                    let each = self.thread(group.maps[*step].work);
                    by_thread = by_thread.saturating_add(points.saturating_mul(each));
                }
            }
        }
        (on_vectors, by_thread)
    }

    /// Cycles to compute all points.
    fn points(&self) -> i64 {
        let (group, space) = (self.group, &self.plan.space);
        if let Some(cycles) = self.staged {
            return cycles;
        }
        let Some(choice) = self.unit else {
            let moves = self.plan.moves;
            let whole = || self.vectors()?.whole(group, self.target, &self.plan);
            return if moves {
                0
            } else {
                whole().unwrap_or_else(|| self.by_thread())
            };
        };
        let calls = (0..group.core).map(|d| space.covered(d));
        let calls = calls.fold(1, i64::saturating_mul);
        let Some(called) = self.target.called(&choice.assignment) else {
            return 0;
        };
        let each = called.cycles;
        // All of a block is computed, also what lies beyond the range.
        let parallel = group.iterators(false);
        let blocks = parallel.map(|d| space.covered(d));
        let blocks = blocks.fold(1, i64::saturating_mul);
        let split = self.plan.splits_reduction(group);
        let last = choice.peel.last.filter(|_| !split);
        let on_vectors = self.steps_on_vectors().into_iter();
        let on_vectors = on_vectors.fold(0, |sum: i64, (_, cycles)| sum.saturating_add(cycles));
        let on_vectors = on_vectors.saturating_mul(blocks);
        let blocks_at_once = self.lanes.blocks(group, space);
        let on_vectors = shared(on_vectors, blocks_at_once);
        // Where one call fills and multiplies, a reduction in several tiles takes longer: its accumulators
        // are filled by themselves.
        let first = match (choice.peel.first, split) {
            (Some(_), true) => reset(group, self.target, &choice.assignment).map_or(0, |(_, c)| c),
            (first, _) => first.map_or(0, |cycles| cycles - each),
        };
        let ends = first + last.map_or(0, |cycles| cycles - each);
        let on_unit = calls.saturating_mul(each);
        let on_unit = on_unit.saturating_add(ends.saturating_mul(blocks)).max(0);
        let on_unit = shared(on_unit, blocks_at_once);
        // Two units work beside each other, and one alone at both.
        let shared = (self.target.vectors.iter()).any(|vector| vector.unit == called.unit);
        let both = match shared {
            true => on_unit.saturating_add(on_vectors),
            false => on_unit
                .max(on_vectors)
                .saturating_add(on_unit.min(on_vectors) / HIDDEN),
        };
        both.saturating_add(self.steps_by_thread())
    }

    /// The steps behind the unit that no intrinsic computes, on a block: where a vector unit does, that unit and its
    /// cycles.
    fn steps_on_blocks(&self) -> impl Iterator<Item = (usize, Option<(Name, i64)>)> + '_ {
        let (group, space) = (self.group, &self.plan.space);
        let block = |dims: &Vec<usize>| dims.iter().map(|d| space.block[*d]).product();
        let sizes: Vec<i64> = self.plan.unit_out.iter().map(block).collect();
        let near = self.target.near.name;
        // One call does the last trip with all steps behind.
        let whole = !self.plan.splits_reduction(group);
        let left = self.unit.filter(|c| c.peel.last.is_none() || !whole);
        let steps = left.into_iter().flat_map(|choice| choice.others.iter());
        steps.map(move |step| {
            let here = self.places.step_in(&group.maps[*step], near);
            let vectors = here.then_some(self.vectors);
            let taken =
                vectors.and_then(|v| v.block(group, self.target, &self.plan, *step, &sizes));
            (*step, taken)
        })
    }

    /// Cycles of vector units for those steps of a block.
    fn steps_on_vectors(&self) -> Vec<(Name, i64)> {
        let steps = self.steps_on_blocks();
        steps.filter_map(|(_, taken)| taken).collect()
    }

    /// Cycles of the thread for those steps of all blocks.
    fn steps_by_thread(&self) -> i64 {
        let (group, space) = (self.group, &self.plan.space);
        // All of a block is computed, also what lies beyond the range.
        let points = group.iterators(false).map(|d| {
            let size = space.block[d];
            space.covered(d).saturating_mul(size)
        });
        let points = points.fold(1, i64::saturating_mul);
        let left = self.steps_on_blocks().filter(|(_, taken)| taken.is_none());
        let each = left.map(|(step, _)| self.thread(group.maps[step].work));
        each.map(|each| points.saturating_mul(each))
            .fold(0, i64::saturating_add)
    }
}

/// The least cycles to compute the points of a division, whatever the order of its loops: those of the calls
/// of a unit.
pub(super) fn calls(group: &Group, target: &Target<'_>, way: &Way, space: &Space) -> i64 {
    let Way::Unit(choice) = way else {
        return 0;
    };
    let calls = (0..group.core).map(|d| space.covered(d));
    let calls = calls.fold(1, i64::saturating_mul);
    let Some(called) = target.called(&choice.assignment) else {
        return 0;
    };
    Lanes::of(target, way, called.held()).least(calls.saturating_mul(called.cycles))
}

/// The tile of what each step computes, and the same as part of each result.
fn computed(
    group: &Group,
    way: &Way,
    space: &Space,
    unit_out: &[Vec<usize>],
) -> Option<(Tile, Rc<[Tile]>)> {
    // Sums that two blocks share would be added to in both.
    if !space.is_distinct(&group.out) {
        return None;
    }
    let out = match way {
        Way::Unit(_) if group.into.is_some() => {
            Tile::slot(space, &group.out, unit_out, group.into.as_ref()?)?
        }
        Way::Whole | Way::Staged(_) => Tile::plain(space, &group.out)?,
        Way::Moved(order) => Tile::moved(space, &group.out, order)?,
        Way::Unit(_) => Tile::new(space, &group.out, unit_out)?,
    };
    let results = group.outs.iter().map(|out_of| match way {
        // What is moved has one result, and its tile may be in the order of the source.
        Way::Moved(_) => Some(out.clone()),
        _ if out_of.map == group.out => Some(out.clone()),
        _ => out.part_of(&out_of.map),
    });
    let results = results.collect::<Option<_>>()?;
    Some((out, results))
}

/// The tiles of a division, whatever the order of its loops.
pub(super) struct Tiles<'a> {
    space: Rc<Space>,
    strips: Option<Rc<Strips>>,
    places: &'a Places<'a>,
    /// The near space of each operand.
    spaces: Rc<[Name]>,
    operands: Rc<[Tile]>,
    out: Rc<Tile>,
    /// The same tile as part of each result.
    results: Rc<[Tile]>,
    unit_out: Rc<[Vec<usize>]>,
    /// Element types of the operands.
    elems: Vec<Type>,
    loads: Vec<Fixed>,
    stores: Vec<Fixed>,
    /// Cores that load at the same time.
    lanes: Lanes,
}

impl<'a> Tiles<'a> {
    pub(super) fn new(
        group: &Group,
        target: &Target<'_>,
        way: &Way,
        space: &Space,
        strip: Option<Strip>,
        elems: &[Type],
        places: &'a Places<'a>,
    ) -> Option<Self> {
        let unit = way.unit();
        let unit_out = unit
            .and_then(|c| out_order(target, &c.assignment))
            .unwrap_or_default();
        let (out, results) = computed(group, way, space, &unit_out)?;
        let mut operands = tiles(group, target, way, space, &unit_out)?;
        let mut strips = None;
        if let Some(strip) = strip {
            let inside = strip.space(space);
            let short = tiles(group, target, way, &inside, &unit_out)?;
            for (i, short) in short.into_iter().enumerate() {
                if strip.divides(group, i) {
                    operands[i] = short;
                }
            }
            let (out, results) = computed(group, way, &inside, &unit_out)?;
            strips = Some(Rc::new(Strips::new(group, space, strip, out, results)));
        }
        let load = |(((i, operand), tile), elem): (((usize, &Operand), &Tile), &Type)| {
            let place = &places.operands[i];
            let engine = place.load.unwrap_or(places.store);
            let align = place.space.align.max(1);
            Fixed::new(tile, bytes(*elem), &operand.shape, engine, align)
        };
        let store = |(out, tile): (&Out, &Tile)| {
            let ty = group.ty(out.step)?;
            let elem = bytes(ty.elem());
            let align = places.held.align.max(1);
            Some(Fixed::new(tile, elem, ty.shape()?, places.store, align))
        };
        let (far, outs) = (group.operands.iter(), group.outs.iter());
        Some(Self {
            loads: far
                .enumerate()
                .zip(&operands)
                .zip(elems)
                .map(load)
                .collect(),
            stores: outs.zip(&*results).map(store).collect::<Option<_>>()?,
            space: Rc::new(space.clone()),
            strips,
            lanes: Lanes {
                units: 1,
                ..Lanes::of(target, way, places.held.name)
            },
            places,
            spaces: places.names().into(),
            operands: operands.into(),
            results,
            out: Rc::new(out),
            unit_out: unit_out.into(),
            elems: elems.to_vec(),
        })
    }

    /// The least that loading takes whatever the order of the loops, in cycles, and the least bytes of
    /// near memory for each operand.
    pub(super) fn least(&self, group: &Group) -> (i64, Vec<i64>) {
        let space = &*self.space;
        let (mut cycles, mut near) = (0i64, Vec::new());
        let operands = group.operands.iter().zip(&*self.operands);
        for ((i, (operand, tile)), fixed) in operands.enumerate().zip(&self.loads) {
            near.push(if operand.near { 0 } else { fixed.one });
            if operand.inner.is_some() || operand.made || operand.near {
                continue;
            }
            // A window that slides may load less than a tile each time, and the last tile as well.
            let moving = (0..group.core).filter(|d| tile.moves_with(space, *d));
            let whole = |d: &usize| !super::slides(group, *d) && !space.is_ragged(*d);
            let counts = moving.filter(whole).map(|d| space.trips(d));
            let strips = self.strips.as_ref();
            let strips = strips.filter(|strips| strips.operands[i]);
            let times = strips.map_or(1, |strips| strips.count);
            let count = counts.fold(times, i64::saturating_mul);
            cycles = cycles.saturating_add(fixed.cycles.saturating_mul(count));
        }
        (self.lanes.least(cycles), near)
    }
}
