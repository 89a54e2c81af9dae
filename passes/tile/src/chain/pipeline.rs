//! Chains as pipelines: which may be one, and what units then take.
//!
//! In a pipeline all stages compute in each trip of the innermost loop, a producer one trip before its reader, so the
//! units of different stages work at the same time; a tile between two stages has several places, which take *turns*.
//! In the first and the last trips only some stages have work: a stage *lags* by as many trips as stages stand one
//! before the other before it. *Across* the two innermost loops, that is so once for both loops instead of once in each
//! row. How it is written is `emit::pipeline`.

use std::sync::Arc;

use tir::Name;

use super::cost::{by_thread, each};
use super::stage::Context;
use super::{Across, Made, Stage};
use crate::group::Input;
use crate::layout::{Axis, Dim};

/// Of what runs beside the longest unit of a pipeline, one cycle in this many is not hidden.
pub(super) const BESIDE: i64 = 16;

/// All ways to run a chain as a pipeline.
pub(super) fn pipelines(cx: &Context<'_>, root: &Stage) -> Vec<Stage> {
    let mut all = Vec::new();
    let rings = root.rings().next().is_some();
    // One processor that does all has nothing to do beside a stage; equal units share the blocks of one stage.
    let info = cx.target.info;
    let turns = !info.in_order && !info.has_equal_units();
    if !turns || root.depth() == 0 || rings && root.segments.len() != 1 {
        return all;
    }
    let settles = i64::from(root.settles());
    // Of those that take as long the one with more places: what is written waits for no reader of the trip before.
    for turns in [FILLED, TURNS] {
        all.extend(pipelined(cx, root, turns + settles));
    }
    let mut across: Vec<Stage> = all.iter().filter_map(across).collect();
    // Rows that stay along a loop do so in a pipeline that counts it.
    let loops = root.plan.order.len();
    let along = |level: usize| root.rings().all(|ring| ring.level + level == loops);
    if !along(1) {
        all.clear();
    }
    if rings && !along(2) {
        across.clear();
    }
    all.extend(across);
    all
}

/// The same pipeline across the two innermost loops, if what stages load allows it.
fn across(pipe: &Stage) -> Option<Stage> {
    let mut stage = pipe.clone();
    let plan = &stage.plan;
    let level = plan.order.len().checked_sub(1).filter(|level| *level > 0)?;
    let [rows, trips] = [level - 1, level].map(|level| plan.space.trips(plan.order[level]));
    let lag = stage.depth();
    let behind = i64::try_from(lag).unwrap_or(i64::MAX);
    let loops = plan.order.len();
    let one = !plan.splits_reduction(&stage.group) || plan.parallel(&stage.group) == level;
    // Sums of two rows take turns: they are no part of a tile that lies there for good.
    let own = stage.group.into.is_none() && !stage.is_running();
    if stage.cut.is_some()
        || stage.segments.len() != 1
        || rows < 2
        || trips <= behind
        || !one
        || !own
    {
        return None;
    }
    let root = true;
    stage.mark(Across { level, lag, root });
    let mut fits = true;
    each(&mut stage, &mut |stage| {
        let operands = 0..stage.group.operands.len();
        let mut loaded = operands.filter(|i| !stage.group.operands[*i].made);
        fits &= stage.plan.order.len() == loops;
        // Counted through, two loops do not show how far a window moves: all of it would be loaded in each trip.
        let slides = |i: usize| {
            let (plan, d) = (&stage.plan, stage.plan.order[level]);
            plan.level(i) == loops && plan.tiles[i].ring(&plan.space, d).is_some()
        };
        fits &= loaded.all(|i| stage.may_load(i, stage.plan.level(i)) && !slides(i));
    });
    fits.then_some(stage)
}

impl Stage {
    /// Marks this stage and all that compute for it as stages of a pipeline across two loops.
    fn mark(&mut self, place: Across) {
        self.across = Some(place);
        for made in self.segments.iter_mut().flat_map(|s| &mut s.made) {
            let lag = usize::try_from(made.lag()).unwrap_or(1);
            for part in &mut made.parts {
                part.mark(Across {
                    lag: place.lag - lag,
                    root: false,
                    ..place
                });
            }
        }
    }

    /// Whether a tile of an operand may be loaded inside of so many loops. In a pipeline across two of them, a
    /// stage behind others is still in the row before when the tile is loaded: only what the root reads behind its
    /// sums may be.
    pub(super) fn may_load(&self, operand: usize, level: usize) -> bool {
        let Some(place) = self.across.filter(|place| place.level == level) else {
            return true;
        };
        let mut summed = self.group.reduce.iter().flat_map(|(step, ..)| &step.inputs);
        let behind = !summed.any(|input| *input == Input::Operand(operand));
        let sums = self.plan.splits_reduction(&self.group);
        place.lag == 0 || place.root && sums && behind
    }
}

/// What a stage does in all trips: cycles of units, and of none for the thread.
pub(super) struct Work {
    /// How many trips it is behind the first stages.
    lag: usize,
    pub(super) units: Vec<(Option<Name>, i64)>,
}

impl Work {
    /// What a unit does beside the stages, so many trips behind the first ones.
    pub(super) fn beside(lag: usize, unit: Name, cycles: i64) -> Self {
        Self {
            lag,
            units: vec![(Some(unit), cycles)],
        }
    }

    /// That of a stage's own units, which is so many stages above the first ones.
    pub(super) fn of(stage: &Stage) -> Self {
        let units = stage.plan.busy.iter();
        Self {
            lag: stage.depth(),
            units: units.map(|(name, cycles)| (Some(*name), *cycles)).collect(),
        }
    }
}

/// Trips of a pipeline until it drains; one where stages wait for one another.
pub(super) fn run(root: &Stage) -> i64 {
    let plan = &root.plan;
    let loops = match (root.turns > 1, root.across) {
        (false, _) => 0,
        (true, None) => 1,
        (true, Some(_)) => 2,
    };
    let inner = plan.order.iter().rev().take(loops);
    let trips = inner.map(|d| plan.space.trips(*d));
    trips.fold(1, i64::saturating_mul)
}

/// Cycles of the units of a pipeline: in each trip, the busiest of them hides the others but for a part. In the
/// first trips and the last only some of the stages work, and each stage waits so long for what it loads first.
pub(super) fn compute(root: &Stage, work: &[Work], latency: i64) -> i64 {
    let run = run(root);
    // Cycles of as many trips as there are, if these stages work in each.
    let trip = |works: &dyn Fn(i64) -> bool| {
        let mut sums: Vec<(Option<Name>, i64)> = Vec::new();
        for stage in work {
            let lag = i64::try_from(stage.lag).unwrap_or(i64::MAX);
            for (unit, cycles) in stage.units.iter().filter(|_| works(lag)) {
                match sums.iter_mut().find(|(name, _)| name == unit) {
                    Some((_, sum)) => *sum = sum.saturating_add(*cycles),
                    None => sums.push((*unit, *cycles)),
                }
            }
        }
        let thread = sums.iter().find(|(unit, _)| unit.is_none());
        let thread = thread.map_or(0, |(_, cycles)| *cycles);
        let units = sums.iter().filter(|(unit, _)| unit.is_some());
        let longest = units.clone().map(|(_, cycles)| *cycles).max().unwrap_or(0);
        let sum = units.fold(0, |sum: i64, (_, cycles)| sum.saturating_add(*cycles));
        longest
            .saturating_add((sum - longest) / BESIDE)
            .saturating_add(thread)
    };
    let last = i64::try_from(root.depth()).unwrap_or(i64::MAX);
    let full = trip(&|_| true);
    let begins = (0..last).map(|k| trip(&|lag| lag <= k));
    let ends = (0..last).map(|k| trip(&|lag| lag > k));
    let partial = begins.chain(ends).fold(0, i64::saturating_add);
    // Runs of so many trips, of which the first and the last are partial.
    let whole = full.saturating_mul((run - last).max(0));
    let plan = &root.plan;
    let all = plan.order.iter().map(|d| plan.space.trips(*d));
    let runs = all.fold(1, i64::saturating_mul) / run.max(1);
    let waits = last.saturating_mul(2 * latency).saturating_mul(runs);
    (whole.saturating_add(partial) / run.max(1)).saturating_add(waits)
}

/// The same chain as a pipeline with so many tiles between stages, if all tiles between its stages are computed in the innermost loop.
fn pipelined(cx: &Context<'_>, root: &Stage, turns: i64) -> Option<Stage> {
    let mut stage = root.clone();
    let level = stage.plan.order.len();
    let innermost = *stage.plan.order.last()?;
    // Before a stage's first trip and behind its last one, what is loaded lies outside of its tensors.
    let pads = cx.target.loads().all(|engine| engine.pad);
    let over = matches!(stage.plan.in_place, Some(Input::Operand(_)));
    if !pads || over || stage.plan.space.trips(innermost) < 2 {
        return None;
    }
    stage.turns = turns;
    let mut same = true;
    each(&mut stage, &mut |stage| {
        let Stage { plan, segments, .. } = stage;
        // What the thread computes, all stages wait for; and a stage with loops of its own is computed at once.
        same &= by_thread(plan) == 0 && plan.order.len() == level;
        let mut tiles = plan.tiles.to_vec();
        let made = segments.iter_mut().flat_map(|segment| &mut segment.made);
        for made in made {
            same &= made.level == level && made.parts_apart();
            let dims = &mut Arc::make_mut(&mut tiles[made.operand]).dims;
            if made.ring.is_some() {
                continue;
            }
            if dims.first().is_none_or(|dim| dim.axis != Axis::Turn) {
                dims.insert(0, turn(turns));
                let holder = &mut plan.holders[made.operand];
                holder.one = holder.one.saturating_mul(turns);
                holder.bytes = holder.one;
            }
            for fill in &mut made.before {
                fill.start.insert(0, 0);
                fill.sizes.insert(0, turns);
            }
            for fill in &mut made.behind {
                fill.start.insert(0, 0);
                fill.sizes.insert(0, 1);
                fill.rows = fill.rows.map(|(t, s, size)| (t + 1, s, size));
            }
            for part in &mut made.parts {
                let mut out = (*part.plan.out).clone();
                out.dims.insert(0, turn(turns));
                part.plan.out = Arc::new(out);
            }
        }
        plan.tiles = tiles.into();
    });
    same.then_some(stage)
}

impl Made {
    /// Whether no block of one part lies in another part. Where one does, the part behind is computed later; in a
    /// pipeline their blocks take turns.
    fn parts_apart(&self) -> bool {
        let boxes = self.parts.iter().filter_map(|part| {
            let share = part.share;
            let slot = part.group.into.as_ref()?;
            let (space, outer) = (&part.plan.space, part.group.outer);
            let ends = slot.at.iter().enumerate().map(|(t, start)| {
                let d = outer + t;
                (
                    *start,
                    start + space.extent(d).saturating_mul(space.trips(d)),
                )
            });
            Some((share, ends.collect::<Vec<_>>()))
        });
        let boxes: Vec<_> = boxes.collect();
        let meet = |a: &[(i64, i64)], b: &[(i64, i64)]| {
            let mut dims = a.iter().zip(b);
            dims.all(|((low, high), (start, end))| low < end && start < high)
        };
        let mut pairs = boxes.iter().enumerate();
        pairs.all(|(i, (share, a))| {
            let mut others = boxes[i + 1..].iter().filter(|(other, _)| other == share);
            others.all(|(_, b)| !meet(a, b))
        })
    }
}

/// The dimension of a tile that takes turns with others.
fn turn(turns: i64) -> Dim {
    Dim {
        axis: Axis::Turn,
        size: turns,
        source: (0, 0),
    }
}

/// How many tiles take turns between two stages of a pipeline; one more where something is done to one in between.
const TURNS: i64 = 2;

/// How many do where an engine fills one while the others are written and read.
pub(super) const FILLED: i64 = 3;
