//! The quickest way to run some groups as one nest: divisions of the root, and for each what the others
//! then are.

use std::fmt::{self, Display};
use std::sync::Arc;

use tir::AffineExpr;

use super::cores::Cores;
use super::cost::{cost, each, fill_again, serial, used, widen};
use super::keep::keep;
use super::least::Others;
use super::pipeline::pipelines;
use super::resident::{PLENTY, SLACK};
use super::ring::{Rows, turn};
use super::stage::{Around, Context, No, Seen};
use super::told::{self, Bounded};
use super::{Made, Segment, Stage};
use crate::group::{Group, Operand};
use crate::layout::Axis;
use crate::plan::listing::line;
use crate::plan::{Cost, Excess, Plan};

/// One in so many cycles is added to what a chain takes.
pub(super) const MARGIN: i64 = 12;

/// Rows that stay are no gain by more than so many times.
const RINGS: i64 = 2;

/// So many times the divisions that are estimated in full may bring nothing, one after the other, where a chain is quicker than its
/// groups apart; one in so many of them where none is yet.
const PATIENCE: usize = 2;

/// A chain and what it costs.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The root, with all that compute for it.
    pub(super) stage: Stage,
    /// Cycles by the estimate.
    pub(super) cycles: i64,
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
///
/// Interleaved sequences that are read are computed one by one; where near memory is plenty, as one if that is about
/// as quick with less to move, unless `joint` says what is to be tried.
pub(super) fn chain(
    cx: &Context<'_>,
    root: &Group,
    plan: Option<&Plan>,
    apart: i64,
) -> Result<Found, Refused> {
    // What is far slower is no gain however many groups follow.
    let most = apart.saturating_mul(2).saturating_add(1);
    let with = |joint: bool, most: i64| {
        let cx = Context {
            joint: Some(joint),
            ..*cx
        };
        // A plan is that of sequences one by one.
        chain_as(&cx, root, plan.filter(|_| !joint), apart, most)
    };
    if let Some(joint) = cx.joint {
        return with(joint, most);
    }
    let found = with(false, most);
    // What computes several of them for another nest does so anyway.
    let joint = root.operands.iter().any(|operand| operand.joint);
    if joint || !strided(cx, root) {
        return found;
    }
    let near = cx.target.near;
    let plenty = |found: &Found| used(&found.stage, near.name) <= near.bytes / PLENTY;
    let moved = |found: &Found| {
        let cost = &found.stage.plan.cost;
        cost.load.saturating_add(cost.store)
    };
    match found {
        // Elsewhere units would wait for what is filled behind the last element of the shorter ones; where bytes decide that
        // is what it is worth.
        Ok(found) if plenty(&found) || cx.budget.worth > 0 => {
            let most = found.cycles.saturating_add(found.cycles / SLACK);
            let joint = with(true, most).ok();
            let joint = joint.filter(|joint| moved(joint) < moved(&found));
            Ok(joint.unwrap_or(found))
        }
        found => found,
    }
}

/// Whether something that others compute is read in steps.
fn strided(cx: &Context<'_>, root: &Group) -> bool {
    let makers = cx.makers.values().flatten().map(|maker| maker.group);
    let mut operands = std::iter::once(root)
        .chain(makers)
        .flat_map(|group| &group.operands);
    operands.any(|operand| {
        let made = cx.makers.contains_key(&operand.source);
        let forms = operand.map.linear().filter(|_| made);
        let mut forms = forms.iter().flat_map(|forms| forms.iter());
        forms.any(|form| form.terms().any(|(_, step)| step > 1))
    })
}

/// The same with interleaved sequences one by one, or as one; what takes more than `most` cycles is no chain.
fn chain_as(
    cx: &Context<'_>,
    root: &Group,
    plan: Option<&Plan>,
    apart: i64,
    most: i64,
) -> Result<Found, Refused> {
    let mut root = root.clone();
    cx.mark(&mut root);
    let plans = match plan {
        Some(plan) => Arc::new(vec![plan.clone()]),
        None => cx.plans_of_root(&root),
    };
    let overlap = overlap(cx, &root);
    // With a plan for the root there is nothing to choose.
    let others = plan.is_none().then(|| Others::of(cx, &root));
    // Of what does not fit what needs the least, or else why the quickest division is none.
    let mut why: Option<Refused> = None;
    let never = |text: &str| Refused::Never(text.to_string());
    let mut best: Option<Found> = None;
    // Plans of stages are those of one core.
    let cores = Cores::most(cx);
    // Those first that take the least by their bounds: what is found early decides how many others are looked at. What the root
    // takes alone is no bound, but what is far above is not looked at.
    let suits = plans.iter().filter(|plan| cx.suits(&root, plan));
    let mut bounded: Vec<(i64, &Plan)> = suits
        .map(|plan| {
            let least = others.as_ref().map_or(0, |others| others.least(plan)) / cores;
            (least.saturating_add(least / MARGIN), plan)
        })
        .collect();
    bounded.sort_by_key(|(least, plan)| (plan.cycles / cores).max(*least));
    // How many are found in a row that bring nothing.
    let mut idle = 0;
    for (least, plan) in bounded {
        let most = best.as_ref().map_or(most, |best| best.cycles - 1);
        if plan.cycles / cores > most {
            why.get_or_insert_with(|| never("the last stage alone takes too long"));
            continue;
        }
        if least > most && !told::asked() {
            why.get_or_insert_with(|| never("its stages take too long"));
            continue;
        }
        let plan = plan.clone();
        let division = (Arc::clone(&plan.space), plan.order.clone());
        match parts(cx, &root, plan, most, most.min(apart), overlap) {
            Err(other) => {
                let better = match (&why, &other) {
                    (Some(Refused::TooLarge(least)), Refused::TooLarge(other)) => {
                        other.needed < least.needed
                    }
                    (Some(_), Refused::Never(_)) => false,
                    _ => true,
                };
                if better {
                    why = Some(other);
                }
            }
            Ok(found) => {
                told::tell(|| Bounded {
                    least,
                    found: found.cycles,
                    in_order: cx.target.info.in_order,
                    division: format!("tiles {:?} in loops {:?}", division.0.tile, division.1),
                });
                idle += 1;
                if best.as_ref().is_none_or(|best| found.cycles < best.cycles) {
                    best = Some(found);
                    idle = 0;
                }
                let gains = best.as_ref().is_some_and(|best| best.cycles < apart);
                let patience = match gains {
                    true => cx.budget.limit.saturating_mul(PATIENCE),
                    false => cx.budget.limit / PATIENCE,
                };
                if idle >= patience.max(1) && !told::asked() {
                    break;
                }
            }
        }
    }
    best.ok_or_else(|| {
        why.unwrap_or_else(|| never("no unit computes it where others do in near memory"))
    })
}

impl Found {
    /// The estimate as text: how the stages run, and of the root cycles by cause, near memory, tiles and loops.
    pub(super) fn text(&self, cx: &Context<'_>) -> String {
        let stage = &self.stage;
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
}

/// How often producers compute their sums in smaller parts at most.
const PARTS: usize = 8;

/// What producers do that compute their sums at once.
#[derive(Default)]
struct Whole {
    /// Bytes that each loads for a tile.
    loads: Vec<i64>,
    /// Bytes of these that are as many where rows of windows stay: weights.
    rowless: i64,
    /// Bytes of the tiles that they compute for one another.
    between: i64,
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
    let Whole {
        mut loads, serial, ..
    } = whole;
    // Stages that compute in parts wait for one another, and load no less.
    let least = Cost {
        exposed: 0,
        starts: 0,
        first: 0,
        ..serial
    };
    let least = least.total(0) / Cores::most(&cx);
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
/// its producers do without. What takes far more than `most` cycles without rings, or more bytes than rings can
/// free, is not looked at again.
fn complete(
    cx: &Context<'_>,
    root: &Group,
    plan: &Plan,
    most: i64,
    overlap: bool,
    producers: &mut Whole,
) -> Result<Found, Refused> {
    let parts = has_parts(cx);
    // The same stages again where there is nothing that engines could fill, or no rows that could stay, are passed over.
    let seen = Seen::default();
    let with = |rows: Rows, engines: bool, shares: bool, producers: &mut Whole| {
        let cx = Context {
            rows,
            engines,
            shares,
            seen: Some(&seen),
            ..*cx
        };
        made(&cx, root, plan.clone(), producers)
    };
    let mut best = with(Rows::Anew, false, false, producers);
    let hopeless = match &best {
        Ok(found) => found.cycles / RINGS > most,
        // What rows and fills change is what producers load of rows and compute for one another: the root reads the same.
        Err(Refused::TooLarge(Excess { needed, free, .. })) => {
            let less = producers
                .loads
                .iter()
                .fold(producers.between, |sum, own| sum.saturating_add(*own));
            let less = less.saturating_sub(producers.rowless);
            needed.saturating_sub(less) > *free
        }
        Err(Refused::Never(_)) => true,
    };
    if hopeless {
        return best;
    }
    let better = |best: &Result<Found, Refused>, found: &Found| {
        best.as_ref()
            .map_or(true, |best| found.cycles < best.cycles)
    };
    let shared = Cores::of(cx).is_some();
    for shares in [false, true] {
        if shares && (!parts || shared) {
            break;
        }
        let engines = overlap && (shares || seen.fills.get());
        if (shares || engines)
            && let Ok(found) = with(Rows::Anew, engines, shares, &mut Whole::default())
            && better(&best, &found)
        {
            best = Ok(found);
        }
        for again in [false, true] {
            // By now stages were made whose borders are filled as they are here.
            if !overlap || shared || !seen.rows.get() {
                break;
            }
            let rows = Rows::Stay { again };
            let Ok(found) = with(rows, true, shares, &mut Whole::default()) else {
                continue;
            };
            let sticks = found.stage.sticks();
            if better(&best, &found) {
                best = Ok(found);
            }
            if !sticks {
                break;
            }
        }
    }
    best
}

/// Whether something that stages of a chain read is put together from parts.
fn has_parts(cx: &Context<'_>) -> bool {
    cx.makers.values().any(|makers| makers.len() > 1)
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
                    share: None,
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
    if cx.shares && !stage.shares() {
        return Err(Refused::Never("no part has trips of its own".to_string()));
    }
    each(&mut stage, &mut |stage| widen(cx.ir, cx.target, stage));
    each(&mut stage, &mut |stage| {
        let Whole {
            loads,
            between,
            serial: sum,
            ..
        } = &mut *producers;
        sum.add(&serial(stage));
        if stage.group.into.is_some() {
            loads.push(stage.plan.loaded(&stage.group));
            let made = stage
                .made()
                .map(|made| stage.plan.holders[made.operand].one);
            *between = made.fold(*between, i64::saturating_add);
        }
    });
    producers.rowless = rowless(&stage, &vec![false; root.domain.len()]);
    each(&mut stage, &mut |stage| turn(cx, stage));
    let others = pipelines(cx, &stage);
    let mut best = match rings || cx.shares || stage.is_running() {
        // Where stages wait for one another, each computes all rows that it is asked for.
        // So does what goes on from one tile to the next; and a loop is cut where another part begins.
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
    let cores = Cores::of(cx);
    if cores.is_some() && !Cores::take(&stage) {
        let text = "cores share the trips of a loop, and these go on from one to the next";
        return Err(Refused::Never(text.to_string()));
    }
    let thread = i64::try_from(cx.target.info.thread_cycles(1)).unwrap_or(i64::MAX);
    keep(cx, &mut stage, &mut cost, None);
    fill_again(cx, &mut stage, &mut cost);
    if let Some(cores) = cores {
        cores.share(cx, &stage, &mut cost);
    }
    let cycles = cost.total(thread);
    // A chain fills near memory, so less of the next nest's loads start early: what is as good is no gain.
    let cycles = cycles.saturating_add(cycles / MARGIN);
    stage.plan.cycles = cycles;
    stage.plan.cost = cost;
    Ok(Found {
        stage,
        cycles,
        plan: first,
    })
}

/// Bytes that the producers of a stage load for a tile whichever rows of windows they compute, given which iterators of the stage
/// count fewer points where such rows stay.
fn rowless(stage: &Stage, fewer: &[bool]) -> i64 {
    let of = |made: &Made| {
        let tile = &stage.plan.tiles[made.operand];
        let rows = tile.dims.iter().map(|dim| {
            // A source of one number has no dimensions.
            let moves = |d: usize| dim.axis != Axis::One && tile.forms[dim.source.0].at(d) != 0;
            let counts = (0..fewer.len()).any(|d| fewer[d] && moves(d));
            counts || matches!(dim.axis, Axis::Window(_))
        });
        let rows: Vec<bool> = rows.collect();
        let parts = made.parts.iter().map(|part| {
            let group = &part.group;
            let mut fewer = vec![made.between.is_some(); group.domain.len()];
            let own = fewer.iter_mut().skip(group.outer).zip(&rows);
            own.for_each(|(fewer, rows)| *fewer |= rows);
            let still = |operand: &Operand| {
                let exprs = &operand.map.exprs;
                let mut used = (0..fewer.len()).filter(|d| exprs.iter().any(|at| at.uses(*d)));
                !operand.made && !used.any(|d| fewer[d])
            };
            let operands = group.operands.iter().zip(&part.plan.holders);
            let loaded = operands.filter(|(operand, _)| still(operand));
            let loaded = loaded.fold(0, |sum: i64, (_, holder)| sum.saturating_add(holder.one));
            loaded.saturating_add(rowless(part, &fewer))
        });
        parts.fold(0, i64::saturating_add)
    };
    stage.made().map(of).fold(0, i64::saturating_add)
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
