//! The quickest way to run some groups as one nest: divisions of the root, and for each what the others
//! then are.

use std::fmt::{self, Display};
use std::rc::Rc;

use tir::{AffineExpr, AffineMap, Ir, Name, Type, Value};
use tir_accel::machine::SpaceInfo;

use super::filling::fill;
use super::pipeline::{Work, compute, pipelines, run};
use super::ring::{Rows, turn};
use super::stage::{Around, Context, No};
use super::{Made, Segment, Stage};
use crate::group::{Group, Input};
use crate::plan::listing::line;
use crate::plan::{Cost, Excess, Hold, Holder, Plan, Target, boxes, excess, fit, hold, near_bytes};

/// One in so many cycles is added to what a chain takes.
pub(super) const MARGIN: i64 = 12;

/// Rows that stay are no gain by more than so many times.
const RINGS: i64 = 2;

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
/// does not fit what needs the least. With a plan, that one is taken for the root. What takes more than twice
/// as many cycles as the groups take `apart` is no chain.
pub(super) fn chain(
    cx: &Context<'_>,
    root: &Group,
    plan: Option<&Plan>,
    apart: i64,
) -> Result<Found, Refused> {
    // What is far slower is no gain however many groups follow.
    let most = apart.saturating_mul(2).saturating_add(1);
    let mut root = root.clone();
    for operand in &mut root.operands {
        operand.made = cx.makers.contains_key(&operand.source);
    }
    let plans = match plan {
        Some(plan) => Rc::new(vec![plan.clone()]),
        None => cx.plans(&root),
    };
    let overlap = overlap(cx, &root);
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
        match parts(cx, &root, plan, most, most.min(apart), overlap) {
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
    let how = match (stage.turns > 1, stage.rings().next()) {
        (true, None) => "stages beside each other",
        (true, Some(_)) => "stages beside each other, rows of windows stay",
        (false, _) => "stages one after the other",
    };
    let parts = if stage.sums_in_parts() {
        ", sums in parts"
    } else {
        ""
    };
    let root = line(&stage.group, cx.target, &stage.plan);
    format!("{how}{parts}, {root}")
}

/// How often producers compute their sums in smaller parts at most.
const PARTS: usize = 8;

/// What producers do that compute their sums at once.
#[derive(Default)]
struct Whole {
    /// Bytes that each loads for a tile.
    loads: Vec<i64>,
    /// What all stages take one after the other.
    serial: Cost,
}

/// A chain whose root has a plan. Where it does not fit with producers that compute their sums at once, the one
/// that loads the most for a tile does so in parts, and so on; of all such chains that fit the quickest. What
/// takes more than `most` cycles is not tried in parts.
fn parts(
    cx: &Context<'_>,
    root: &Group,
    plan: Plan,
    slowest: i64,
    most: i64,
    overlap: bool,
) -> Result<Found, Refused> {
    let mut cx = *cx;
    let mut whole = Whole::default();
    let first = complete(&cx, root, &plan, slowest, overlap, &mut whole);
    let Whole { mut loads, serial } = whole;
    // Stages that compute in parts wait for one another, and load no less.
    let least = Cost {
        exposed: 0,
        starts: 0,
        first: 0,
        ..serial
    };
    let least = least.total(0);
    if least.saturating_add(least / MARGIN) > most {
        return first;
    }
    match &first {
        // What all of them load is all that can become less.
        Err(Refused::TooLarge(Excess { needed, free, .. })) => {
            let loaded = loads
                .iter()
                .fold(0, |sum: i64, own| sum.saturating_add(*own));
            if needed.saturating_sub(loaded) > *free {
                return first;
            }
        }
        // All has as many slots as it needs.
        Ok(found) if found.stage.plan.cost.exposed == 0 => return first,
        Err(Refused::Never(_)) => return first,
        Ok(_) => {}
    }
    let mut best = first;
    for _ in 0..PARTS {
        let larger = loads.iter().filter(|own| **own <= cx.most);
        let Some(largest) = larger.max() else { break };
        cx.most = largest - 1;
        let mut parts = Whole::default();
        match complete(&cx, root, &plan, slowest, overlap, &mut parts) {
            Ok(found) => {
                if best
                    .as_ref()
                    .map_or(true, |best| found.cycles < best.cycles)
                {
                    best = Ok(found);
                }
            }
            Err(Refused::TooLarge(_)) => {}
            Err(Refused::Never(_)) => break,
        }
        loads = parts.loads;
    }
    best
}

/// A chain whose root has a plan: with rows of windows that stay where that is quicker, if windows overlap, and what
/// its producers do without. What takes far more than `most` cycles without rings is not looked at again.
fn complete(
    cx: &Context<'_>,
    root: &Group,
    plan: &Plan,
    most: i64,
    overlap: bool,
    producers: &mut Whole,
) -> Result<Found, Refused> {
    let with = |rows: Rows, producers: &mut Whole| {
        made(&Context { rows, ..*cx }, root, plan.clone(), producers)
    };
    let anew = with(Rows::Anew, producers);
    let hopeless = match &anew {
        Ok(found) => found.cycles / RINGS > most,
        Err(Refused::TooLarge(_)) => false,
        Err(Refused::Never(_)) => true,
    };
    if hopeless || !overlap {
        return anew;
    }
    let mut best = anew;
    for again in [false, true] {
        let Ok(found) = with(Rows::Stay { again }, &mut Whole::default()) else {
            continue;
        };
        let sticks = found.stage.sticks();
        if best
            .as_ref()
            .map_or(true, |best| found.cycles < best.cycles)
        {
            best = Ok(found);
        }
        if !sticks {
            break;
        }
    }
    best
}

/// Whether windows overlap in what others compute for stages of a chain.
fn overlap(cx: &Context<'_>, root: &Group) -> bool {
    let makers = cx.makers.values().flatten().map(|maker| maker.group);
    let mut operands = std::iter::once(root)
        .chain(makers)
        .flat_map(|group| &group.operands);
    operands.any(|operand| {
        let mut places = operand.map.exprs.iter();
        let slides = places.any(|at| !matches!(at, AffineExpr::Dim(_) | AffineExpr::Const(_)));
        slides && cx.makers.contains_key(&operand.source)
    })
}

/// A chain whose root has a plan, its loops cut where parts begin, and what its producers do.
fn made(
    cx: &Context<'_>,
    root: &Group,
    plan: Plan,
    producers: &mut Whole,
) -> Result<Found, Refused> {
    let rings = cx.rows != Rows::Anew;
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
    if rings && stage.rings().next().is_none() {
        return Err(Refused::Never("no rows stay".to_string()));
    }
    each(&mut stage, &mut |stage| widen(cx.ir, cx.target, stage));
    each(&mut stage, &mut |stage| {
        let Whole { loads, serial: sum } = &mut *producers;
        sum.add(&serial(&stage.plan));
        if stage.group.into.is_some() {
            loads.push(stage.plan.loaded(&stage.group));
        }
    });
    each(&mut stage, &mut |stage| turn(cx, stage));
    let others = pipelines(cx, &stage);
    let mut best = match rings {
        // Where stages wait for one another, each computes all rows that it is asked for.
        true => Err(Refused::Never("no pipeline keeps rows".to_string())),
        false => cost(cx, &mut stage),
    };
    for mut other in others {
        let beside = match cost(cx, &mut other) {
            Ok(beside) => beside,
            Err(why) => {
                best = best.or(Err(why));
                continue;
            }
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

/// Cycles of a plan's points that no unit computes: those of the thread, which starts all else.
pub(super) fn by_thread(plan: &Plan) -> i64 {
    match plan.unit {
        Some(_) => plan.thread,
        None => plan.cost.compute,
    }
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

/// Counts the bytes of the tile of an operand again.
pub(super) fn resize(ir: &Ir, target: &Target<'_>, stage: &mut Stage, operand: usize) {
    let plan = &mut stage.plan;
    let elem = ir.ty(stage.group.operands[operand].source).elem();
    let align = target
        .info
        .space(plan.spaces[operand])
        .map_or(1, |s| s.align);
    let holder = &mut plan.holders[operand];
    let slots = (holder.bytes / holder.one.max(1)).max(1);
    holder.one = near_bytes(&plan.tiles[operand], elem, align);
    holder.bytes = holder.one.saturating_mul(slots);
}

/// Makes the tiles that others compute as large as what is written into them.
pub(super) fn widen(ir: &Ir, target: &Target<'_>, stage: &mut Stage) {
    let Stage { plan, segments, .. } = stage;
    let mut tiles = plan.tiles.to_vec();
    for made in segments.iter().flat_map(|segment| &segment.made) {
        let dims = &mut Rc::make_mut(&mut tiles[made.operand]).dims;
        for part in &made.parts {
            let space = &part.plan.space;
            let Some(slot) = &part.group.into else {
                continue;
            };
            for (t, dim) in dims.iter_mut().enumerate() {
                let d = part.group.outer + t;
                let end = slot.at[t] + space.extent(d) * space.trips(d);
                dim.size = dim.size.max(slot.shape[t]).max(end);
            }
            // What is filled behind is not shifted over what was computed.
            let units = &part.plan.unit_out;
            for (i, of) in units.iter().enumerate() {
                let t = dims.len() - units.len() + i;
                let block: i64 = of.iter().map(|d| space.block[*d]).product();
                for fill in made.behind.iter().filter(|fill| fill.start[t] > 0) {
                    let end = fill.start[t] + fill.sizes[t].max(block);
                    dims[t].size = dims[t].size.max(end);
                }
            }
        }
    }
    plan.tiles = tiles.into();
    let made = stage.made().map(|made| made.operand);
    for operand in made.collect::<Vec<_>>() {
        resize(ir, target, stage, operand);
    }
}

/// The unit that fills the borders of what is computed for a stage, none for the thread, and its cycles; what is filled
/// before is so once in so many trips.
fn fills(cx: &Context<'_>, made: &Made, space: Name, run: i64) -> (Option<Name>, i64) {
    let Some(part) = made.parts.first() else {
        return (None, 0);
    };
    let unit = part.plan.unit.as_ref();
    let called = unit.and_then(|unit| cx.target.called(unit));
    let cycles = called.map_or(0, |called| called.cycles);
    let elem = part.group.result().map_or(Type::f32(), Type::elem);
    let boxed = |sizes: &[i64]| boxes(cx.target, space, elem, sizes);
    let cut = &part.plan.space;
    let outer = part.group.outer;
    let trips = part.group.domain[..outer].iter().copied();
    let trips = trips.fold(1, i64::saturating_mul);
    let once = (trips + run - 1) / run.max(1);
    let before = made.before.iter().filter(|_| made.filled().is_none());
    let before = before.map(|fill| (fill, once));
    let behind = made.behind.iter();
    let behind = behind.map(|fill| (fill, if fill.rows.is_some() { 1 } else { trips }));
    let blocks = before.chain(behind).map(|(fill, steps)| {
        if let Some((_, cycles)) = boxed(&fill.sizes).filter(|_| made.boxes.is_some()) {
            return cycles.saturating_mul(steps);
        }
        let sizes = fill.sizes.iter().enumerate();
        // A pipeline's tiles have a dimension more.
        let more = fill.sizes.len().saturating_sub(part.plan.out.forms.len());
        let blocks = sizes.map(|(t, size)| {
            let block = t.checked_sub(more).map_or(1, |t| cut.block[outer + t]);
            (size + block - 1) / block.max(1)
        });
        let blocks = blocks.fold(steps, i64::saturating_mul);
        blocks.saturating_mul(cycles)
    });
    let resets = part.plan.resets.map(|(unit, _)| unit);
    (made.boxes.or(resets), blocks.fold(0, i64::saturating_add))
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

/// Counts tiles once that several stages load before all loops.
fn share(cx: &Context<'_>, root: &mut Stage, holders: &mut [Holder], cost: &mut Cost) {
    let mut known: Vec<Loaded> = Vec::new();
    let mut next = 0;
    each(root, &mut |stage| {
        for operand in 0..stage.group.operands.len() {
            let Some(loaded) = Loaded::of(stage, operand) else {
                continue;
            };
            if !known.contains(&loaded) {
                known.push(loaded);
                continue;
            }
            let with = (cx.ir.ty(loaded.source).elem(), cx.budget);
            let (group, plan) = (&stage.group, &mut stage.plan);
            let Some(once) = hold(group, cx.target, plan, operand, 0, with) else {
                continue;
            };
            cost.load = cost.load.saturating_sub(once.load);
            cost.first = cost.first.saturating_sub(once.first);
            cost.starts = cost.starts.saturating_sub(once.starts);
            let none = Holder {
                bytes: 0,
                one: 0,
                exposed: 0,
            };
            (holders[next + operand], plan.holders[operand]) = (none, none);
        }
        next += stage.plan.holders.len();
    });
}

/// A tile that is loaded before all loops.
#[derive(PartialEq)]
struct Loaded {
    source: Value,
    padding: Option<Value>,
    space: Name,
    shape: Vec<i64>,
    access: AffineMap,
    start: Vec<i64>,
}

impl Loaded {
    fn of(stage: &Stage, operand: usize) -> Option<Self> {
        let (far, plan) = (&stage.group.operands[operand], &stage.plan);
        let tile = &plan.tiles[operand];
        let written = plan.in_place == Some(Input::Operand(operand));
        let other = far.made || far.inner.is_some() || far.flat.is_some();
        let alone = other || written || plan.level(operand) > 0;
        (!alone).then(|| Self {
            source: far.source,
            padding: far.padding,
            space: plan.spaces[operand],
            shape: tile.shape(),
            access: tile.access(),
            start: (tile.forms.iter().zip(&tile.low))
                .map(|(form, low)| form.constant + low)
                .collect(),
        })
    }
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
            let (unit, filled) = fills(cx, made, plan.spaces[made.operand], trips);
            cost.compute = cost.compute.saturating_add(filled);
            own.units.push((unit, filled));
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
    share(cx, root, &mut holders, &mut cost);
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
        // With one slot for each buffer there is one for the result too.
        let result = &plan.holders[operands];
        plan.single_result = own[operands] || result.bytes == result.one;
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
