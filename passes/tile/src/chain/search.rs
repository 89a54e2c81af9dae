//! The quickest way to run some groups as one nest: divisions of the root, and for each what the others
//! then are.

use std::fmt::{self, Display};
use std::rc::Rc;

use tir::Name;
use tir_accel::machine::SpaceInfo;

use super::filling::fill;
use super::pipeline::{Work, compute, pipelines, run};
use super::stage::{Around, Context, No};
use super::{Made, Segment, Stage};
use crate::group::{Group, Input};
use crate::plan::listing::line;
use crate::plan::{Cost, Excess, Hold, Holder, Plan, excess, fit, hold};

/// One in so many cycles is added to what a chain takes.
pub(super) const MARGIN: i64 = 12;

/// A chain and what it costs.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The root, with all that compute for it.
    pub(super) stage: Stage,
    /// Cycles by the estimate.
    pub(super) cycles: i64,
    /// The estimate as text: cycles by cause, near memory, tiles and loops of the root.
    pub(super) text: String,
    /// The plan of the root as it was before the others were known.
    pub(super) plan: Plan,
}

/// Why there is no chain.
#[derive(Clone, Debug)]
pub(super) enum Refused {
    /// Stages do not lie in one another's tiles.
    Never(String),
    /// Tiles do not fit.
    TooLarge(Excess),
}

impl Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never(text) => f.write_str(text),
            Self::TooLarge(Excess {
                space,
                needed,
                free,
            }) => write!(
                f,
                "its tiles need {needed} bytes of \"{space}\", {free} are free"
            ),
        }
    }
}

/// The quickest chain that ends in a group, of which others compute operands; or why there is none: of what
/// does not fit what needs the least. With a plan, that one is taken for the root. What takes more than
/// `most` cycles is no chain.
pub(super) fn chain(
    cx: &Context<'_>,
    root: &Group,
    plan: Option<&Plan>,
    most: i64,
) -> Result<Found, Refused> {
    let mut root = root.clone();
    for operand in &mut root.operands {
        operand.made = cx.makers.contains_key(&operand.source);
    }
    let plans = match plan {
        Some(plan) => Rc::new(vec![plan.clone()]),
        None => cx.plans(&root),
    };
    let text = "no unit computes it where others do in near memory";
    let mut why = Refused::Never(text.to_string());
    let mut best: Option<Found> = None;
    for plan in plans.iter().filter(|plan| cx.suits(&root, plan)).cloned() {
        // The root alone is a part of what a chain takes.
        let most = best.as_ref().map_or(most, |best| best.cycles - 1);
        if plan.cycles > most {
            if best.is_none() && matches!(why, Refused::Never(_)) {
                why = Refused::Never("the last stage alone takes too long".to_string());
            }
            break;
        }
        match complete(cx, &root, plan) {
            Err(other) => {
                let better = match (&why, &other) {
                    (Refused::TooLarge(least), Refused::TooLarge(other)) => {
                        other.needed < least.needed
                    }
                    (Refused::TooLarge(_), Refused::Never(_)) => false,
                    _ => true,
                };
                if better {
                    why = other;
                }
            }
            Ok(found) => {
                if best.as_ref().is_none_or(|best| found.cycles < best.cycles) {
                    best = Some(found);
                }
            }
        }
    }
    best.ok_or(why)
}

/// An estimate as text: the root, and how the others run.
fn described(cx: &Context<'_>, stage: &Stage) -> String {
    let how = match stage.turns > 1 {
        true => "stages beside each other",
        false => "stages one after the other",
    };
    let root = line(&stage.group, cx.target, &stage.plan);
    format!("{how}, {root}")
}

/// A chain whose root has a plan, its loops cut where parts begin.
fn complete(cx: &Context<'_>, root: &Group, plan: Plan) -> Result<Found, Refused> {
    let mut cuts: Vec<i64> = Vec::new();
    let mut level = None;
    let first = plan.clone();
    let mut stage = loop {
        match segments(cx, root, &plan, level, &cuts) {
            Ok(segments) => {
                break Stage {
                    group: root.clone(),
                    plan,
                    cut: level,
                    turns: 1,
                    across: None,
                    segments,
                };
            }
            Err(No::Never(text)) => return Err(Refused::Never(text.to_string())),
            Err(No::Cut { level: at, trip }) => {
                let all = plan.space.trips(plan.order[at]);
                let again = level.is_some_and(|level| level != at) || cuts.contains(&trip);
                if again || trip <= 0 || trip >= all {
                    let text = "parts begin inside of a tile".to_string();
                    return Err(Refused::Never(text));
                }
                level = Some(at);
                cuts.push(trip);
                cuts.sort_unstable();
            }
        }
    };
    each(&mut stage, &mut widen);
    let others = pipelines(cx, &stage);
    let mut best = cost(cx, &mut stage);
    for mut other in others {
        let Ok(beside) = cost(cx, &mut other) else {
            continue;
        };
        if best
            .as_ref()
            .map_or(true, |best| beside.total(1) < best.total(1))
        {
            (stage, best) = (other, Ok(beside));
        }
    }
    let mut cost = best?;
    let thread = i64::try_from(cx.target.info.thread_cycles(1)).unwrap_or(i64::MAX);
    keep(cx, &mut stage, &mut cost, None);
    let cycles = cost.total(thread);
    // A chain fills near memory, so less of the next nest's loads start early: what is as good is no gain.
    let cycles = cycles.saturating_add(cycles / MARGIN);
    stage.plan.cycles = cycles;
    stage.plan.cost = cost;
    Ok(Found {
        text: described(cx, &stage),
        stage,
        cycles,
        plan: first,
    })
}

/// What is computed for the root in each segment of a loop.
fn segments(
    cx: &Context<'_>,
    root: &Group,
    plan: &Plan,
    level: Option<usize>,
    cuts: &[i64],
) -> Result<Vec<Segment>, No> {
    let loops: Vec<Around> = plan
        .order
        .iter()
        .map(|d| Around {
            iterator: *d,
            start: 0,
            trips: plan.space.trips(*d),
        })
        .collect();
    let all = level.map_or(1, |level| loops[level].trips);
    let starts: Vec<i64> = std::iter::once(0).chain(cuts.iter().copied()).collect();
    let mut segments: Vec<Segment> = Vec::new();
    for (i, start) in starts.iter().enumerate() {
        let end = starts.get(i + 1).copied().unwrap_or(all);
        let mut here = loops.clone();
        if let Some(level) = level {
            (here[level].start, here[level].trips) = (*start, end - start);
        }
        let stage = cx.complete(root.clone(), plan.clone(), &here)?;
        let mut made: Vec<Made> = stage.segments.into_iter().flat_map(|s| s.made).collect();
        if i > 0 {
            // What stands outside of the cut loop is computed once.
            made.retain(|made| level.is_some_and(|level| made.level > level));
        }
        segments.push(Segment {
            start: *start,
            trips: end - start,
            made,
        });
    }
    Ok(segments)
}

/// Cycles of a plan's points that no intrinsic computes: those of the thread, which starts all else.
pub(super) fn by_thread(plan: &Plan) -> i64 {
    let main = plan.busy.first().map_or(0, |(_, cycles)| *cycles);
    plan.cost.compute.saturating_sub(main).max(0)
}

/// What a nest of one stage costs: its units work beside each other.
fn beside(plan: &Plan) -> Cost {
    let longest = plan.busy.iter().map(|(_, cycles)| *cycles).max();
    let mut cost = plan.cost.clone();
    let longest = longest.map(|longest| longest.saturating_add(by_thread(plan)));
    cost.compute = cost.compute.max(longest.unwrap_or(0));
    cost
}

/// What a stage costs where each waits for the one before: its units work one after the other.
fn serial(plan: &Plan) -> Cost {
    let all = plan.busy.iter().map(|(_, cycles)| *cycles);
    let mut cost = plan.cost.clone();
    cost.compute = all.fold(by_thread(plan), i64::saturating_add);
    cost
}

/// Cycles of a nest of one stage, by the same measure: its units work beside each other.
pub(super) fn alone(plan: &Plan, thread: i64) -> i64 {
    beside(plan).total(thread)
}

/// Does something with a stage and all that compute for it, in a fixed order.
pub(super) fn each(stage: &mut Stage, work: &mut dyn FnMut(&mut Stage)) {
    work(stage);
    let made = stage.segments.iter_mut().flat_map(|s| &mut s.made);
    for part in made.flat_map(|made| &mut made.parts) {
        each(part, work);
    }
}

/// Makes the tiles that others compute as large as what is written into them.
pub(super) fn widen(stage: &mut Stage) {
    let Stage { plan, segments, .. } = stage;
    let mut tiles = plan.tiles.to_vec();
    for made in segments.iter().flat_map(|segment| &segment.made) {
        let dims = &mut tiles[made.operand].dims;
        let before: i64 = dims.iter().map(|dim| dim.size).product();
        for part in &made.parts {
            let space = &part.plan.space;
            let Some(slot) = &part.group.into else {
                continue;
            };
            for (t, dim) in dims.iter_mut().enumerate() {
                let d = part.group.outer + t;
                let end = slot.at[t] + space.covered(d) * space.block[d];
                dim.size = dim.size.max(slot.shape[t]).max(end);
            }
        }
        let after: i64 = dims.iter().map(|dim| dim.size).product();
        let holder = &mut plan.holders[made.operand];
        for bytes in [&mut holder.bytes, &mut holder.one] {
            *bytes = (*bytes / before.max(1) + 1).saturating_mul(after);
        }
    }
    plan.tiles = tiles.into();
}

/// Cycles to fill the borders of what is computed for a stage; what is filled before is so once in so many trips.
fn fills(cx: &Context<'_>, made: &Made, run: i64) -> i64 {
    let Some(part) = made.parts.first() else {
        return 0;
    };
    let unit = part.plan.unit.as_ref();
    let cycles = unit.map_or(0, |unit| cx.target.info.intrinsics[unit.intrinsic].cycles);
    let space = &part.plan.space;
    let outer = part.group.outer;
    let trips = part.group.domain[..outer].iter().copied();
    let trips = trips.fold(1, i64::saturating_mul);
    let once = (trips + run - 1) / run.max(1);
    let before = made.before.iter().filter(|_| made.filled().is_none());
    let before = before.map(|fill| (fill, once));
    let behind = made.behind.iter();
    let behind = behind.map(|fill| (fill, if fill.rows.is_some() { 1 } else { trips }));
    let blocks = before.chain(behind).map(|(fill, steps)| {
        let sizes = fill.sizes.iter().enumerate();
        // A pipeline's tiles have a dimension more.
        let more = fill.sizes.len().saturating_sub(part.plan.out.forms.len());
        let blocks = sizes.map(|(t, size)| {
            let block = t.checked_sub(more).map_or(1, |t| space.block[outer + t]);
            (size + block - 1) / block.max(1)
        });
        blocks.fold(steps, i64::saturating_mul)
    });
    let blocks = blocks.fold(0, i64::saturating_add);
    blocks.saturating_mul(cycles)
}

/// Bytes of a space that the tiles of a stage and of all that compute for it take.
pub(super) fn used(stage: &Stage, space: Name) -> i64 {
    let plan = &stage.plan;
    let operands = plan.single.len();
    let own = plan.holders.iter().enumerate().filter(|(i, _)| {
        let name = plan.spaces.get(*i).unwrap_or(&plan.held);
        *name == space
    });
    let own = own.map(|(i, holder)| {
        let single = plan.single.get(i).copied();
        let single = single.unwrap_or(i == operands && plan.single_result);
        if single || i > operands {
            holder.one
        } else {
            holder.bytes
        }
    });
    let parts = stage.made().flat_map(|made| &made.parts);
    let parts = parts.map(|part| used(part, space));
    own.chain(parts).fold(0, i64::saturating_add)
}

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
        cost.exposed = cost.exposed.saturating_sub(exposed);
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

/// What a chain costs; decides which tiles have one slot so that all fit, or says what does not.
///
/// All tiles of all stages fit at the same time, so there is a place for each however long it lives, at the latest
/// where transfers are scheduled with one slot for each: no chain is refused later that is taken here.
fn cost(cx: &Context<'_>, root: &mut Stage) -> Result<Cost, Refused> {
    fill(root, cx.target);
    let mut holders: Vec<Holder> = Vec::new();
    let mut spaces: Vec<&SpaceInfo> = Vec::new();
    let mut cost = Cost::default();
    let mut known = true;
    let mut work: Vec<Work> = Vec::new();
    let trips = run(root);
    let several = root.depth() > 0;
    each(root, &mut |stage| {
        let plan = &stage.plan;
        let names = (0..plan.holders.len()).map(|i| plan.spaces.get(i).unwrap_or(&plan.held));
        for (holder, name) in plan.holders.iter().zip(names) {
            match cx.target.info.space(*name) {
                Some(space) => spaces.push(space),
                None => known = false,
            }
            holders.push(*holder);
        }
        cost.add(&if several { serial(plan) } else { beside(plan) });
        let mut own = Work::of(stage);
        own.units.push((None, by_thread(plan)));
        let made = stage.segments.iter().flat_map(|segment| &segment.made);
        for made in made {
            let filled = fills(cx, made, trips);
            cost.compute = cost.compute.saturating_add(filled);
            let part = made.parts.first();
            let resets = part.and_then(|part| part.plan.resets);
            own.units.push((resets.map(|(unit, _)| unit), filled));
        }
        work.push(own);
    });
    if root.turns > 1 {
        let engines = cx.target.info.engines.iter();
        let loads = engines.filter(|engine| engine.from == cx.target.far.name);
        let latency = loads.map(|engine| engine.latency).max().unwrap_or(0);
        cost.compute = compute(root, &work, latency);
    }
    if !known {
        return Err(Refused::Never("a space is not known".to_string()));
    }
    cost.exposed = 0;
    let single = fit(&holders, &spaces, |bytes| excess(&spaces, bytes, cx.budget));
    let bytes: Vec<i64> = holders
        .iter()
        .zip(&single)
        .map(|(holder, single)| if *single { holder.one } else { holder.bytes })
        .collect();
    if let Some(over) = excess(&spaces, &bytes, cx.budget) {
        return Err(Refused::TooLarge(over));
    }
    let mut next = 0;
    each(root, &mut |stage| {
        let plan = &mut stage.plan;
        let operands = plan.single.len();
        let own = &single[next..next + plan.holders.len()];
        plan.single = own[..operands].to_vec();
        plan.single_result = own[operands];
        for (holder, single) in plan.holders.iter().zip(own) {
            if *single {
                cost.exposed = cost.exposed.saturating_add(holder.exposed);
            }
        }
        next += plan.holders.len();
    });
    root.plan.bytes = bytes.iter().copied().fold(0, i64::saturating_add);
    Ok(cost)
}
