//! `tile`: cuts every group into tiles that fit the near space of the attached machine.
//!
//! A *group* is what runs as one loop nest: a reduction, elementwise steps behind it, and values
//! that only they need. Groups are found from the last generic of a block to the first, each is
//! given the quickest plan that fits, and is replaced by loops around transfers and generics on
//! tiles, where it stands: a block of a loop or of a branch is tiled as that of the function is.
//!
//! Invariants: what is marked done is computed by a nest; all else is the end of a group of its
//! own, or is reported. No generic on far memory is left without a remark.
//!
//! Where memory has several levels, the generics on tiles of one are the groups of the next, for which
//! those tiles are far memory; each keeps the group that it was in. Groups whose tensors a level holds are not tiled
//! there, but computed in it as sections of the next level's nests (`section`).

mod edits;
mod forms;
mod plans;
mod report;

pub use report::{Tiled, Unmatched, on_tiles};

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use tir::pass::Memo;
use tir::remarks::SINGLE_NEST;
use tir::{Diagnostic, Ir, OpId, Value};
use tir_graph::Fused;
use tir_graph::fusion::ungroup;
use tir_tensor::{Generic, TransferRead};

use crate::chain::{Chains, Cuts, Limits, Resident, Single, Stage, partition};
use crate::filled::fill_constants;
use crate::group::{Group, Scope};
use crate::near::{is_in, is_near};
use crate::plan::{Budget, Plan, Price, Target, TooLarge, free_elements};
use crate::section::{self, Sections};
pub(crate) use edits::behind;
use edits::{Pending, drop_empty, erase_dead, load_once, read_parts, replace, settle_in};
use forms::{forms, in_steps, nests};
use plans::{KnownPlans, Plans};
use report::{
    joined, left_over, listed, listed_chains, no_room, outside, oversized, to_far, too_large,
    without_unit,
};

/// What all nests of a function take by the estimate that chooses tiles; `None` where a group does not fit.
///
/// The function is left as it is when its tiles are chosen.
pub fn price(
    func: &mut Ir,
    target: &Target<'_>,
    budget: Budget,
    limits: Option<Limits>,
    known: &Known,
) -> Option<Price> {
    let one = |cycles: i64| Price {
        cycles,
        weighed: cycles,
    };
    if !oversized(func, target).is_empty() {
        return None;
    }
    let all = limits;
    let (group, limits) = settled(func, target, budget, limits, false, known);
    if target.inner.is_some() {
        let scope = whole(func, group, target);
        return Some(one(
            sections(func, &scope, (target, budget, all), known)?.cycles
        ));
    }
    match limits {
        Some(limits) => {
            let limits = Limits {
                written: true,
                ..limits
            };
            nests(func, &group, (target, budget, limits), known)?.price
        }
        None => {
            let scope = whole(func, group, target);
            let plans = Plans::new(target, budget, &known.plans);
            let singles = singles(func, &scope, &plans);
            let thread = i64::try_from(target.info.thread_cycles(1)).unwrap_or(i64::MAX);
            let prices = singles?;
            let prices = prices.iter().map(|single| single.apart().1.cost.clone());
            let worth = budget.worth;
            Some(prices.fold(Price::default(), |sum, cost| {
                let cycles = cost.price(thread);
                let more = cost.moved().saturating_mul(worth);
                Price {
                    cycles: sum.cycles.saturating_add(cycles),
                    weighed: sum.weighed.saturating_add(cycles).saturating_add(more),
                }
            }))
        }
    }
}

/// Brings a function into the form that its tiles are chosen in: which fused group each generic is of, and the limits
/// of nests of several stages, if there are such. What is read in steps may be computed with what lies between so that it stays:
/// always where it is `tiled`; of one group that is priced alone nothing stays.
fn settled(
    func: &mut Ir,
    target: &Target<'_>,
    budget: Budget,
    limits: Option<Limits>,
    tiled: bool,
    known: &Known,
) -> (HashMap<OpId, usize>, Option<Limits>) {
    let mut group = HashMap::new();
    for (number, op) in func.walk_ids().into_iter().enumerate() {
        if func.contains(op) && func.is::<Fused>(op) {
            for inner in ungroup(func, op) {
                group.insert(inner, number);
            }
        }
    }
    crate::widen::widen(func, target, &mut group);
    crate::rests::split(func, target, &mut group);
    in_steps(func, &mut group, target, budget, known);
    let limits = limits.filter(|_| has_chains(target));
    if let Some(limits) = limits {
        crate::sums::sums(func, target, &mut group);
        let numbers: HashSet<usize> = group.values().copied().collect();
        let strides = tiled || numbers.len() > 1;
        forms(func, &mut group, (target, budget, limits), strides, known);
    }
    crate::settle::settle(func, &mut group);
    drop_empty(func);
    let mut scope = whole(func, group, target);
    let plans = Plans::new(target, budget, &known.plans);
    for _ in 0..APART {
        let large = too_large_groups(func, &scope, &plans);
        if large.is_empty() {
            break;
        }
        let mut group = scope.group;
        for (number, op) in scope.generics.iter().enumerate() {
            if group.get(op).is_some_and(|own| large.contains(own)) {
                group.insert(*op, usize::MAX - number);
            }
        }
        scope = whole(func, group, target);
    }
    (scope.group, limits)
}

/// How often groups are taken apart at most: what moved into another one may be too large for it.
const APART: usize = 4;

/// The fused groups of several generics that do not fit, as one.
fn too_large_groups(func: &Ir, scope: &Scope, plans: &Plans<'_>) -> HashSet<usize> {
    let mut large = HashSet::new();
    each_single(func, scope, plans, &mut |op, group, plan| {
        let number = scope.group.get(&op).filter(|_| group.ops.len() > 1);
        large.extend(number.filter(|_| plan.is_err()));
        Some(())
    });
    large
}

/// Tiles all groups of a function. What is left over untiled is only what moves no data, and what is
/// reported.
///
/// With limits, groups that lie behind one another become one nest where that is quicker.
pub fn tile(
    func: &mut Ir,
    target: &Target<'_>,
    budget: Budget,
    limits: Option<Limits>,
    known: &Known,
) -> Result<Tiled, Vec<Diagnostic>> {
    let errors = oversized(func, target);
    if !errors.is_empty() {
        return Err(errors);
    }
    // Not where groups are priced: what a group shows there is copied only where a function gives it.
    crate::settle::results(func);
    let (group, _) = settled(func, target, budget, limits, true, known);
    // Candidates are listed where they are estimated.
    let fresh = Known::default();
    let known = if budget.listed > 0 { &fresh } else { known };
    let mut tiled = Tiled::default();
    let (mut target, mut scope, mut known) = (target, whole(func, group, target), known);
    loop {
        let several = limits.filter(|_| target.inner.is_none());
        let why = several.and_then(|_| without_chains(target));
        if let Some((reason, help)) = &why
            && scope.generics.len() > 1
        {
            let text = format!("each nest has one stage: {reason}");
            let remark = Diagnostic::remark(text).category(SINGLE_NEST);
            let remark = remark.at(func.loc(func.root())).note(*help);
            tiled.apart.push(remark);
        }
        let (done, within) = written(func, &scope, (target, budget, limits), known, &mut tiled);
        let limits = several.filter(|_| why.is_none());
        let with = (budget, limits);
        let mut made = level(func, target, with, (&scope, done), known, &mut tiled)?;
        if budget.worth > 0 {
            fill_constants(func, target);
        }
        made.extend(within);
        let Some(inner) = &target.inner else {
            return Ok(tiled);
        };
        // What is left to compute works on the tiles of this level.
        target = inner;
        known = known.inner();
        let mut generics = func.walk_ids();
        generics.retain(|op| func.is::<Generic>(*op) && is_in(func, *op, target.far.name));
        scope = Scope::new(generics, made);
    }
}

/// What is known of groups and chains by their signatures, on one machine with one budget.
#[derive(Default)]
pub struct Known {
    plans: KnownPlans,
    cuts: Cuts,
    /// Cycles of whole functions with what stays between their nests, by their text and the limits: a program is priced
    /// before it is tiled.
    priced: Memo<String, i64>,
    /// The same of the next level.
    inner: OnceLock<Box<Known>>,
}

impl Known {
    fn inner(&self) -> &Known {
        self.inner.get_or_init(Box::default)
    }
}

/// All generics of a function that are not on tiles.
fn whole(func: &Ir, group: HashMap<OpId, usize>, target: &Target<'_>) -> Scope {
    let mut generics: Vec<OpId> = func.walk_ids();
    generics.retain(|op| func.is::<Generic>(*op) && !is_near(func, *op));
    Scope::new(generics, group).moving(free_elements(target))
}

/// Which groups of a level of memory are computed in sections, where there is another one further in; `None` where one does
/// not fit.
fn sections(
    func: &Ir,
    scope: &Scope,
    (target, budget, limits): (&Target<'_>, Budget, Option<Limits>),
    known: &Known,
) -> Option<Sections> {
    let inner = target.inner.as_deref()?;
    let budget = Budget {
        listed: 0,
        ..budget
    };
    let plans = Plans::new(target, budget, &known.plans);
    let outer = singles(func, scope, &plans);
    let (outer, known) = (outer?, known.inner());
    let limits = limits.filter(|limits| limits.resident);
    let plans = Plans::new(inner, budget, &known.plans);
    let further = limits.and_then(|_| singles(func, scope, &plans));
    let further = further.unwrap_or_default();
    let limits = limits.filter(|_| has_chains(inner));
    let found: Vec<(HashSet<OpId>, i64)> = match limits {
        Some(limits) => {
            let limits = Limits {
                written: false,
                ..limits
            };
            partition(func, &further, inner, budget, limits, &known.cuts).nests
        }
        None => {
            let own = further.iter();
            let own = own.map(|s| (s.group.ops.iter().copied().collect(), s.plan.cycles));
            own.collect()
        }
    };
    let nests = found.into_iter().rev().filter_map(|(ops, cycles)| {
        let own = further.iter().filter(|single| ops.contains(&single.op));
        let root = own.clone().map(|single| single.op).next()?;
        let helps = own.into_iter().all(|single| single.plan.helps);
        Some(section::Nest {
            root,
            ops,
            cycles,
            helps,
        })
    });
    let nests: Vec<section::Nest> = nests.collect();
    let thread = i64::try_from(inner.info.thread_cycles(1)).unwrap_or(i64::MAX);
    Some(section::choose(func, &outer, &nests, target, thread))
}

/// Writes the sections of a level. Gives what is done, and which group each generic of them is of.
fn written(
    func: &mut Ir,
    scope: &Scope,
    with: (&Target<'_>, Budget, Option<Limits>),
    known: &Known,
    tiled: &mut Tiled,
) -> (HashSet<OpId>, HashMap<OpId, usize>) {
    let (mut done, mut group) = (HashSet::new(), HashMap::new());
    let Some(found) = sections(func, scope, with, known) else {
        return (done, group);
    };
    let asked = with.2.is_some_and(|limits| limits.resident);
    tiled
        .apart
        .extend(outside(func, &found, with.0).filter(|_| asked));
    let Sections { sections, .. } = found;
    // Those of one number are of one group, each piece of a section for itself; others count from 0.
    let mut numbers: HashMap<(usize, usize), usize> = HashMap::new();
    let mut of = |op: &OpId, piece: usize| {
        let number = *scope.group.get(op)?;
        let next = usize::MAX - numbers.len();
        Some(*numbers.entry((number, piece)).or_insert(next))
    };
    // What a later one reads is stored by an earlier one.
    for section in sections.iter().rev() {
        let own = section::write(func, section, with.0.near.name).into_iter();
        group.extend(own.filter_map(|(new, op, piece)| Some((new, of(&op, piece)?))));
        done.extend(&section.ops);
    }
    (done, group)
}

/// Tiles all groups of a scope for one level of memory. Gives which group each generic on the tiles is of;
/// what is to be reported is added to `tiled`.
fn level(
    func: &mut Ir,
    target: &Target<'_>,
    (budget, limits): (Budget, Option<Limits>),
    (scope, mut done): (&Scope, HashSet<OpId>),
    known: &Known,
    tiled: &mut Tiled,
) -> Result<HashMap<OpId, usize>, Vec<Diagnostic>> {
    let Known { plans, cuts, .. } = known;
    let plans = Plans::new(target, budget, plans);
    let chains = limits.and_then(|limits| {
        let singles = singles(func, scope, &plans)?;
        Some(partition(func, &singles, target, budget, limits, cuts))
    });
    let chains: Chains = chains.unwrap_or_default();
    for (op, stages, excess) in &chains.too_large {
        if !chains.several.contains(op) {
            tiled.apart.push(no_room(func, *op, *stages, excess));
        }
    }
    for far in &chains.far {
        tiled.apart.push(to_far(func, far, target));
    }
    // From the last generic to the first: an elementwise step takes the reduction before it in.
    let (mut unmatched, mut candidates) = (Vec::new(), Vec::new());
    let (mut errors, mut made) = (Vec::new(), HashMap::new());
    let mut pending: Vec<Pending<'_>> = Vec::new();
    let mut loaded: Vec<&Resident> = chains.residents.iter().collect();
    // What is brought, or computed in the place of a copy, is written before nests that would copy it.
    loaded.retain(|resident| {
        resident.is_loaded() || !resident.copied.is_empty() || !resident.brought.is_empty()
    });
    for op in scope.generics.iter().rev().copied() {
        // All that reads it is written, what computes it is not.
        loaded.retain(|resident| {
            let read = done.contains(&resident.reader);
            if read && resident.is_loaded() {
                load_once(func, resident);
            } else if read {
                pending.extend(settle_in(func, resident, target, &mut done));
            }
            !read
        });
        if done.contains(&op) || !func.contains(op) || !is_needed(func, op, &done, &HashSet::new())
        {
            continue;
        }
        let written = |resident: &&Resident| resident.writers.iter().any(|(last, ..)| *last == op);
        if let Some(resident) = chains.residents.iter().find(written) {
            pending.extend(settle_in(func, resident, target, &mut done));
            continue;
        }
        if let Some((stage, others)) = chains.roots.get(&op) {
            candidates.extend(listed_chains(func, op, &stage.group, &chains));
            candidates.extend(listed(func, op, &stage.group, &stage.plan));
            replace(func, op, stage, target);
            done.extend(&stage.group.ops);
            done.extend(others);
            continue;
        }
        let found = plans.ending_in(func, op, scope);
        // What no level further in computes stays where its tiles are.
        let stays = |plan: &Result<Plan, TooLarge>| !plan.as_ref().is_ok_and(|plan| plan.helps);
        if target.stage().is_some()
            && let Some((group, plan)) = &found
            && stays(plan)
        {
            if let Ok(plan) = plan
                && let Some(nearest) = plan.nearest.clone()
            {
                unmatched.push(without_unit(func, group, nearest, target));
            } else {
                unmatched.extend(left_over(func, op, target));
            }
            done.insert(op);
            continue;
        }
        match found {
            None => unmatched.extend(left_over(func, op, target)),
            Some((group, Ok(plan))) => {
                let spread = plans.spread(func, &group, &plan);
                let (group, plan) = spread.unwrap_or((group, plan));
                if let Some(nearest) = plan.nearest.clone() {
                    unmatched.push(without_unit(func, &group, nearest, target));
                }
                candidates.extend(listed_chains(func, op, &group, &chains));
                candidates.extend(listed(func, op, &group, &plan));
                tiled.joined.extend(joined(func, &group));
                let stage = Stage::alone(group, plan);
                let inside = replace(func, op, &stage, target);
                made.extend(inside.into_iter().map(|generic| (generic, done.len())));
                done.extend(&stage.group.ops);
            }
            Some((group, Err(large))) => {
                done.extend(&group.ops);
                errors.push(too_large(func, op, &group, &large, target));
            }
        }
    }
    for resident in loaded {
        match resident.is_loaded() {
            true => load_once(func, resident),
            false => pending.extend(settle_in(func, resident, target, &mut done)),
        }
    }
    read_parts(func, &pending);
    erase_dead(func);
    unmatched.reverse();
    candidates.reverse();
    if errors.is_empty() {
        tiled.unmatched.extend(unmatched);
        tiled.candidates.extend(candidates);
        Ok(made)
    } else {
        Err(errors)
    }
}

/// The groups that would run one behind the other, the last one first; `None` if one does not fit.
fn singles(func: &Ir, scope: &Scope, plans: &Plans<'_>) -> Option<Vec<Single>> {
    let mut found = Vec::new();
    each_single(func, scope, plans, &mut |op, group, plan| {
        let plan = plan.ok()?;
        let spread = plans.spread(func, &group, &plan);
        found.push(Single {
            op,
            group,
            plan,
            spread,
        });
        Some(())
    })?;
    Some(found)
}

/// Calls `with` for each of these groups, as long as that gives something.
fn each_single(
    func: &Ir,
    scope: &Scope,
    plans: &Plans<'_>,
    with: &mut dyn FnMut(OpId, Group, Result<Plan, TooLarge>) -> Option<()>,
) -> Option<()> {
    let mut done = HashSet::new();
    // What groups read of far memory, they need.
    let mut read: HashSet<Value> = HashSet::new();
    for op in scope.generics.iter().rev().copied() {
        if done.contains(&op) || !is_needed(func, op, &done, &read) {
            continue;
        }
        if let Some((group, plan)) = plans.ending_in(func, op, scope) {
            let loaded = group.operands.iter().filter(|o| o.inner.is_none());
            read.extend(loaded.map(|operand| operand.source));
            done.extend(&group.ops);
            with(op, group, plan)?;
        }
    }
    Some(())
}

/// Whether anything reads what an op computes but nests that are done, which compute it, if at all, unless it is `read`.
/// What only shows it otherwise does not, unless that is.
fn is_needed(ir: &Ir, op: OpId, done: &HashSet<OpId>, read: &HashSet<Value>) -> bool {
    ir.results(op).any(|value| {
        read.contains(&value)
            || ir.uses(value).any(|reader| {
                let op = reader.op;
                let gives = ir.results(op).len() > 0 && ir.regions(op).len() == 0;
                // What sections load they read.
                let reads = ir.is::<Generic>(op) || ir.is::<TransferRead>(op);
                let shows = gives && !reads && ir.is_pure(op);
                !done.contains(&op) && (!shows || is_needed(ir, op, done, read))
            })
    })
}

/// Whether nests of a level of a machine's memory may have several stages: what computes is joined with it.
fn has_chains(target: &Target<'_>) -> bool {
    target.inner.is_none() && without_chains(target).is_none()
}

/// Why stages behind one another are not one nest on a level of a machine's memory, if they are not, and what would
/// help.
fn without_chains(target: &Target<'_>) -> Option<(String, &'static str)> {
    let info = target.info;
    let (far, near) = (target.far.name, target.near.name);
    let joined = |from, to| info.engine_between(from, to).is_some();
    if !joined(far, near) || !joined(target.held.name, far) {
        let text = format!("loads or stores go through other spaces than \"{near}\"");
        return Some((text, "an engine for each direction would help"));
    }
    None
}
