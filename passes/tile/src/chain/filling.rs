//! Which accumulators of a chain an engine fills instead of the units: those of the busiest queue first, as long
//! as that one has less to do then; and which boxes behind the units.

use tir::{Attr, Name, Type};

use super::pipeline::{BESIDE, FILLED};
use super::stage::Context;
use super::{Fill, Made, Stage};
use crate::group::{Group, Input, StepRef};
use crate::layout::{Axis, Tile};
use crate::plan::{Plan, Target, boxes};

/// What all accumulators of a tile begin with, if all of the tile is accumulated.
fn start(group: &Group, plan: &Plan) -> Option<Attr> {
    let (_, _, start) = group.reduce.as_ref()?;
    let out = group.outs.first()?.step == StepRef::Reduced;
    (out || plan.in_place == Some(Input::Reduced)).then_some(*start)
}

impl Context<'_> {
    /// The engine that fills a box of a space at once behind the units, if one can and no vector unit does: a transfer of
    /// nothing but padding, or a few of them for what stays, which is filled once.
    pub(super) fn fills_behind(
        &self,
        space: Name,
        elem: Type,
        sizes: &[i64],
        stays: bool,
    ) -> Option<Name> {
        if boxes(self.target, space, elem, sizes).is_some() {
            return None;
        }
        let elements = sizes.iter().copied().fold(1, i64::saturating_mul);
        let engine = self.target.info.fills(space, elements)?;
        let (mut dims, along) = Fill::pieces(sizes);
        if stays && along.is_some() {
            dims -= 1;
        }
        let fills = dims as i64 <= engine.dims;
        if let Some(seen) = self.seen.filter(|_| fills) {
            seen.fills.set(true);
        }
        (fills && self.engines).then_some(engine.name)
    }

    /// The fills of what stays as transfers that engines take.
    pub(super) fn in_pieces(&self, fills: &[Fill]) -> Vec<Fill> {
        let pieces = |fill: &Fill| {
            let engine = fill.by.and_then(|by| self.target.info.engine(by));
            let (dims, along) = Fill::pieces(&fill.sizes);
            let more = engine.is_some_and(|engine| dims as i64 > engine.dims);
            let Some(t) = along.filter(|_| more) else {
                return vec![fill.clone()];
            };
            let piece = |i| {
                let mut piece = fill.clone();
                (piece.start[t], piece.sizes[t]) = (fill.start[t] + i, 1);
                piece
            };
            (0..fill.sizes[t]).map(piece).collect()
        };
        fills.iter().flat_map(pieces).collect()
    }
}

impl Made {
    /// What the tile is filled with before its producers accumulate in it, if all of them do, and its border is
    /// the same.
    fn start(&self) -> Option<Attr> {
        let mut starts = self.parts.iter().map(|part| start(&part.group, &part.plan));
        let first = starts.next()??;
        let same = starts.all(|start| start == Some(first));
        let border = self.before.iter().all(|fill| fill.value == first);
        // What a block that is moved back computes again is no sum any more.
        let mut parts = self.parts.iter();
        let once = parts.all(|part| part.plan.space.shifted.is_none());
        (same && border && once).then_some(first)
    }

    /// What an engine fills of a tile whose rows stay, before a producer's trip: the new rows, one by one.
    pub fn filled_rows(&self, tile: &Tile) -> Option<Fill> {
        let ring = self.ring.as_ref()?;
        let (engine, value) = self.filled()?;
        let mut start = vec![0; tile.dims.len()];
        let mut sizes: Vec<i64> = tile.dims.iter().map(|dim| dim.size).collect();
        let mut rows = tile.dims.iter();
        let rows = rows.position(|dim| matches!(dim.axis, Axis::Ring(..)))?;
        (start[rows], sizes[rows]) = (ring.window - ring.step, ring.step);
        if matches!(tile.dims[0].axis, Axis::Trip(..)) {
            sizes[0] = 1;
        }
        Some(Fill {
            value,
            start,
            sizes,
            rows: None,
            by: Some(engine),
        })
    }

    /// Whether rows that stay are not read any more when those of the next trip take their place, in a pipeline with so
    /// many loops and so many trips of the innermost one.
    fn is_past(&self, loops: usize, trips: i64) -> bool {
        let outer = self.ring.is_some_and(|ring| ring.level + 1 < loops);
        !outer || trips > self.lag() + 1
    }

    /// The engine that fills the tile before its producers accumulate in it, if one does, and with what.
    pub fn filled(&self) -> Option<(Name, Attr)> {
        let mut engines = self.parts.iter().map(|part| part.plan.filled);
        let first = engines.next()??;
        let all = engines.all(|engine| engine == Some(first));
        Some((first, self.start().filter(|_| all)?))
    }

    /// The engine to fill the tile, and its cycles each time, if it can.
    fn cycles(&self, target: &Target<'_>) -> Option<(Name, i64)> {
        self.start()?;
        let each = |part: &Stage| part.plan.fill_cycles(&part.group, target);
        let all: Option<Vec<(Name, i64)>> = self.parts.iter().map(each).collect();
        let (engine, cycles) = *all?.first()?;
        let rows = self.ring.map_or(1, |ring| ring.step);
        Some((
            engine,
            cycles.saturating_mul(self.times()).saturating_mul(rows),
        ))
    }
}

/// What may be filled by an engine: cycles of it, and of the units that would do it else.
struct Candidate {
    number: usize,
    engine: Name,
    cycles: i64,
    resets: Vec<(Name, i64)>,
}

/// Calls `work` for all that is computed in a chain, in a fixed order.
fn each<'a>(stage: &'a mut Stage, work: &mut dyn FnMut(&mut Made)) {
    for made in stage.segments.iter_mut().flat_map(|s| &mut s.made) {
        work(made);
        for part in &mut made.parts {
            each(part, work);
        }
    }
}

/// The same where stages wait for one another: a tile in which sums are computed in parts. The loads of its first parts
/// stand before the fill, and units wait no longer than it takes to start.
fn fill_parts(root: &mut Stage, target: &Target<'_>) -> i64 {
    let mut engines = 0i64;
    each(root, &mut |made| {
        let mut parts = made.parts.iter();
        let several = parts.all(|part| part.plan.splits_reduction(&part.group));
        let Some((engine, cycles)) = made
            .cycles(target)
            .filter(|_| several && made.ring.is_none())
        else {
            return;
        };
        let resets = made.parts.iter().filter_map(|part| part.plan.resets);
        let freed = resets.fold(0, |sum: i64, (_, cycles)| sum.saturating_add(cycles));
        if cycles >= freed {
            return;
        }
        engines = engines.saturating_add(cycles);
        for (i, part) in made.parts.iter_mut().enumerate() {
            part.plan
                .fill_by_engine(engine, if i == 0 { cycles } else { 0 });
        }
    });
    engines
}

/// Lets an engine fill what it pays for, beside so many cycles of loads if that is known; gives its cycles.
pub(super) fn fill(root: &mut Stage, target: &Target<'_>, loads: Option<i64>) -> i64 {
    // Where stages wait for one another, and where a tile is read until it is filled again, units would wait for
    // the engine.
    let turns = root.turns;
    if turns < 2 {
        return fill_parts(root, target);
    }
    let loops = root.plan.order.len();
    let trips = root.plan.order.last().map(|d| root.plan.space.trips(*d));
    let trips = trips.unwrap_or(1);
    let (mut units, mut load): (Vec<(Name, i64)>, i64) = (Vec::new(), 0);
    let mut candidates = Vec::new();
    let mut add = |plan: &Plan| {
        for (unit, cycles) in &plan.busy {
            match units.iter_mut().find(|(name, _)| name == unit) {
                Some((_, sum)) => *sum = sum.saturating_add(*cycles),
                None => units.push((*unit, *cycles)),
            }
        }
        load = load.saturating_add(plan.cost.load);
    };
    add(&root.plan);
    let mut engines = 0i64;
    // Between two rows of a pipeline units would wait for loads that stand before the fill.
    let rows = root.across.is_some() && root.plan.splits_reduction(&root.group);
    let each_tile = root.plan.fill_cycles(&root.group, target);
    // One fill is of all of a tile.
    let own = root.group.into.is_none() && turns >= FILLED;
    if let Some((engine, each)) = each_tile.filter(|_| !rows && own) {
        let tiles = root.plan.order[..root.plan.parallel(&root.group)].iter();
        let tiles = tiles.map(|d| root.plan.space.trips(*d));
        candidates.push(Candidate {
            number: 0,
            engine,
            cycles: tiles.fold(each, i64::saturating_mul),
            resets: root.plan.resets.into_iter().collect(),
        });
    }
    let mut number = 0;
    each(root, &mut |made| {
        number += 1;
        made.parts.iter().for_each(|part| add(&part.plan));
        // One more takes turns with the one that is filled, or rows that stay have room for more.
        let room = match made.ring {
            Some(_) => made.is_past(loops, trips),
            None => turns > made.lag() + 1,
        };
        if let Some((engine, cycles)) = made.cycles(target).filter(|_| room) {
            let resets = made.parts.iter().filter_map(|part| part.plan.resets);
            candidates.push(Candidate {
                number,
                engine,
                cycles,
                resets: resets.collect(),
            });
        }
    });
    let mut load = loads.unwrap_or(load);
    // Those first that free the most for what they take.
    let gain = |c: &Candidate| {
        let freed: i64 = c.resets.iter().map(|(_, cycles)| *cycles).sum();
        std::cmp::Reverse(freed.saturating_mul(1 << 10) / c.cycles.max(1))
    };
    candidates.sort_by_key(|c| (gain(c), c.number));
    let mut chosen: Vec<(usize, Name, i64)> = Vec::new();
    // The busiest queue hides the others but for a part.
    let takes = |units: &[(Name, i64)], load: i64| {
        let all = units.iter().map(|(_, cycles)| *cycles).chain([load]);
        let longest = all.clone().max().unwrap_or(0);
        let rest = all.fold(0, i64::saturating_add).saturating_sub(longest);
        longest.saturating_add(rest / BESIDE)
    };
    for candidate in candidates {
        let mut then = units.clone();
        for (unit, cycles) in &candidate.resets {
            for (name, sum) in &mut then {
                if name == unit {
                    *sum -= cycles;
                }
            }
        }
        let loads = load.saturating_add(candidate.cycles);
        if takes(&then, loads) < takes(&units, load) {
            (units, load) = (then, loads);
            engines = engines.saturating_add(candidate.cycles);
            chosen.push((candidate.number, candidate.engine, candidate.cycles));
        }
    }
    let cycles = |number: usize| {
        let found = chosen.iter().find(|(n, ..)| *n == number);
        found.map(|(_, engine, cycles)| (*engine, *cycles))
    };
    if let Some((engine, cycles)) = cycles(0) {
        root.plan.fill_by_engine(engine, cycles);
    }
    let mut number = 0;
    each(root, &mut |made| {
        number += 1;
        let Some((engine, cycles)) = cycles(number) else {
            return;
        };
        // One transfer for all parts.
        for (i, part) in made.parts.iter_mut().enumerate() {
            part.plan
                .fill_by_engine(engine, if i == 0 { cycles } else { 0 });
        }
    });
    engines
}
