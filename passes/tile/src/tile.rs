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
//! those tiles are far memory; each keeps the group that it was in.

use std::collections::{HashMap, HashSet};

use tir::remarks::{FAR_TENSOR, NO_UNIT, SINGLE_NEST};
use tir::{At, Builder, Diagnostic, Ir, OpId, TensorType, Traits, Type, Value};
use tir_graph::{Fused, Yield as GraphYield};
use tir_tensor::Generic;

use crate::chain::{Chains, Limits, Resident, Single, Stage, only_for, partition};
use crate::emit::{emit, resident};
use crate::group::{Freedom, Group, Scope, filled};
use crate::near::{is_in, is_near};
use crate::plan::{Budget, Excess, Nearest, Plan, Target, TooLarge, nearest, plan};

/// An operator that no unit computes.
#[derive(Debug)]
pub struct Unmatched {
    /// Its place and what it is.
    at: Diagnostic,
    /// Whether that is usual: units multiply and add, other work is the thread's.
    pub expected: bool,
    nearest: Option<Nearest>,
}

impl Unmatched {
    /// As a remark.
    pub fn remark(self) -> Diagnostic {
        match self.nearest {
            Some(Nearest {
                kind,
                name,
                mismatch,
            }) => self
                .at
                .note(format!("the nearest {kind} is @{name}: {mismatch}")),
            None => self.at,
        }
    }
}

/// What there is to report of a function that was tiled.
#[derive(Default, Debug)]
pub struct Tiled {
    /// The operators that no unit computes.
    pub unmatched: Vec<Unmatched>,
    /// The quickest candidates of each group, where they were asked for.
    pub candidates: Vec<Diagnostic>,
    /// Why there are no nests of several stages, or no longer ones.
    pub apart: Vec<Diagnostic>,
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
) -> Result<Tiled, Vec<Diagnostic>> {
    let errors = oversized(func, target);
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut group = HashMap::new();
    for (number, op) in func.walk_ids().into_iter().enumerate() {
        if func.contains(op) && func.is::<Fused>(op) {
            for inner in open(func, op) {
                group.insert(inner, number);
            }
        }
    }
    crate::widen::widen(func, target, &mut group);
    if limits.is_some() && without_chains(target).is_none() {
        crate::sums::sums(func, target, &mut group);
    }
    crate::settle::settle(func, &mut group);
    drop_empty(func);
    let mut generics: Vec<OpId> = func.walk_ids();
    generics.retain(|op| func.is::<Generic>(*op) && !is_near(func, *op));
    let mut tiled = Tiled::default();
    let (mut target, mut scope) = (target, Scope::new(generics, group));
    loop {
        let why = limits.and_then(|_| without_chains(target));
        if let Some((reason, help)) = &why
            && scope.generics.len() > 1
        {
            let text = format!("each nest has one stage: {reason}");
            let remark = Diagnostic::remark(text).category(SINGLE_NEST);
            let remark = remark.at(func.loc(func.root())).note(*help);
            tiled.apart.push(remark);
        }
        let limits = limits.filter(|_| why.is_none());
        let made = level(func, target, (budget, limits), &scope, &mut tiled)?;
        let Some(inner) = &target.inner else {
            return Ok(tiled);
        };
        // What is left to compute works on the tiles of this level.
        target = inner;
        let mut generics = func.walk_ids();
        generics.retain(|op| func.is::<Generic>(*op) && is_in(func, *op, target.far.name));
        scope = Scope::new(generics, made);
    }
}

/// Why stages behind one another are not one nest on a level of a machine's memory, if they are not, and what would
/// help.
fn without_chains(target: &Target<'_>) -> Option<(String, &'static str)> {
    let info = target.info;
    let (far, near) = (target.far.name, target.near.name);
    if target.inner.is_some() {
        let text =
            format!("no engine joins \"{far}\" with what computes, tiles go through \"{near}\"");
        return Some((text, "stages are put together where one level is tiled"));
    }
    if target.stage().is_some() {
        let text = format!("\"{far}\" holds tiles of another level, each of one nest");
        return Some((text, "stages are put together where one level is tiled"));
    }
    let joined = |from, to| info.engine_between(from, to).is_some();
    if !joined(far, near) || !joined(target.held.name, far) {
        let text = format!("loads or stores go through other spaces than \"{near}\"");
        return Some((text, "an engine for each direction would help"));
    }
    let equal = || "units of a kind or cores share the work of a nest".to_string();
    info.has_equal_units().then(|| {
        (
            equal(),
            "stages are put together where there is one of each",
        )
    })
}

/// Tiles all groups of a scope for one level of memory. Gives which group each generic on the tiles is of;
/// what is to be reported is added to `tiled`.
fn level(
    func: &mut Ir,
    target: &Target<'_>,
    (budget, limits): (Budget, Option<Limits>),
    scope: &Scope,
    tiled: &mut Tiled,
) -> Result<HashMap<OpId, usize>, Vec<Diagnostic>> {
    let mut plans = Plans {
        target,
        budget,
        known: HashMap::new(),
    };
    let chains = match limits {
        Some(limits) => match singles(func, scope, &mut plans) {
            Some(singles) => partition(func, &singles, target, budget, limits),
            None => Chains::default(),
        },
        None => Chains::default(),
    };
    for (op, stages, excess) in &chains.too_large {
        if !chains.several.contains(op) {
            tiled.apart.push(no_room(func, *op, *stages, excess));
        }
    }
    for (op, why) in &chains.far {
        tiled.apart.push(to_far(func, *op, why));
    }
    // From the last generic to the first: an elementwise step takes the reduction before it in.
    let mut done = HashSet::new();
    let (mut unmatched, mut candidates) = (Vec::new(), Vec::new());
    let (mut errors, mut made) = (Vec::new(), HashMap::new());
    for op in scope.generics.iter().rev().copied() {
        if done.contains(&op) || !func.contains(op) || !is_needed(func, op, &done) {
            continue;
        }
        let written = |resident: &&Resident| resident.writers.iter().any(|(last, ..)| *last == op);
        if let Some(resident) = chains.residents.iter().find(written) {
            settle_in(func, resident, &mut done);
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
        let found = planned(func, op, scope, &mut plans);
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
                if let Some(nearest) = plan.nearest.clone() {
                    unmatched.push(without_unit(func, &group, nearest, target));
                }
                candidates.extend(listed_chains(func, op, &group, &chains));
                candidates.extend(listed(func, op, &group, &plan));
                let mut before: HashSet<OpId> = HashSet::new();
                if target.inner.is_some() {
                    before.extend(siblings(func, op));
                }
                let stage = Stage::alone(group, plan);
                replace(func, op, &stage, target);
                if target.inner.is_some() {
                    for new in siblings(func, op).filter(|op| !before.contains(op)) {
                        let inside = std::iter::once(new).chain(func.walk_below(new));
                        let inside = inside.filter(|op| func.is::<Generic>(*op));
                        made.extend(inside.map(|nest| (nest, done.len())));
                    }
                }
                done.extend(&stage.group.ops);
            }
            Some((group, Err(large))) => {
                done.extend(&group.ops);
                errors.push(too_large(func, op, &group, &large));
            }
        }
    }
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

/// The ops of the block of an op.
fn siblings(ir: &Ir, op: OpId) -> impl Iterator<Item = OpId> + '_ {
    let block = ir.block_of(op);
    block.into_iter().flat_map(|block| ir.ops_in(block))
}

/// Writes a stage and what computes for it before an op, and puts its results in the place of the group's.
fn replace(func: &mut Ir, op: OpId, stage: &Stage, target: &Target<'_>) {
    let mut b = Builder::new(func, At::Before(op));
    b.loc = b.ir.loc(stage.group.named);
    let values = emit(&mut b, stage, target);
    for (out, new) in stage.group.outs.iter().zip(values) {
        func.replace_uses_if(out.value, new, |_, u| !stage.group.ops.contains(&u.op));
        behind(func, op, new);
    }
}

/// Moves what reads a value and stands before it right before an op behind it, with all that reads that in turn: views of
/// one result of a group may stand before the group's last step.
fn behind(func: &mut Ir, op: OpId, value: Value) {
    let Some(made) = func.owner(value) else {
        return;
    };
    let before: HashSet<OpId> = siblings(func, op).take_while(|o| *o != made).collect();
    let (mut late, mut work) = (HashSet::new(), vec![value]);
    while let Some(value) = work.pop() {
        let users: Vec<OpId> = func.uses(value).map(|u| u.op).collect();
        for user in users {
            if before.contains(&user) && late.insert(user) {
                work.extend(func.results(user));
            }
        }
    }
    let late: Vec<OpId> = siblings(func, op).filter(|o| late.contains(o)).collect();
    for user in late {
        func.move_op(user, At::Before(op));
    }
}

/// Writes the nests that compute a tensor that stays, and lets its readers, which are written, read it there.
fn settle_in(func: &mut Ir, stays: &Resident, done: &mut HashSet<OpId>) {
    let home = resident::write(func, stays);
    for (.., ops) in &stays.writers {
        done.extend(ops);
    }
    resident::read(func, stays, home);
    // What else reads it, reads it in far memory.
    if !only_for(func, stays.value, done) {
        resident::store(func, stays, home, done);
    }
}

/// The groups that would run one behind the other, the last one first; `None` if one does not fit.
fn singles(func: &Ir, scope: &Scope, plans: &mut Plans<'_>) -> Option<Vec<Single>> {
    let (mut found, mut done) = (Vec::new(), HashSet::new());
    // What groups read of far memory, they need.
    let mut read: HashSet<Value> = HashSet::new();
    for op in scope.generics.iter().rev().copied() {
        let needed = is_needed(func, op, &done) || func.results(op).any(|v| read.contains(&v));
        if done.contains(&op) || !needed {
            continue;
        }
        if let Some((group, plan)) = planned(func, op, scope, plans) {
            let plan = plan.ok()?;
            let loaded = group.operands.iter().filter(|o| o.inner.is_none());
            read.extend(loaded.map(|operand| operand.source));
            done.extend(&group.ops);
            found.push(Single { op, group, plan });
        }
    }
    Some(found)
}

/// An error for each value that is larger than far memory, before anything is planned for it.
fn oversized(func: &Ir, target: &Target<'_>) -> Vec<Diagnostic> {
    let far = target.far;
    let too_large = |ty: Type| -> Option<String> {
        let tensor = ty.get::<TensorType>()?;
        let size = i64::try_from(ty.elem().bytes().unwrap_or(1)).ok()?;
        let mut extents = tensor.shape.iter();
        let bytes = extents.try_fold(size, |n, extent| n.checked_mul(*extent));
        if tensor.shape.contains(&0) || bytes.is_some_and(|bytes| bytes <= far.bytes) {
            return None;
        }
        let bytes = bytes.map_or("over 2^63".to_string(), |bytes| bytes.to_string());
        let (space, free) = (far.name, far.bytes);
        Some(format!("a {ty} has {bytes} bytes, \"{space}\" has {free}"))
    };
    let mut errors = Vec::new();
    let arguments = func.regions(func.root()).filter_map(|r| func.entry(r));
    for argument in arguments.flat_map(|block| func.args(block)) {
        let text = too_large(func.ty(argument));
        errors.extend(text.map(|text| Diagnostic::error(text).at(func.loc(func.root()))));
    }
    for op in func.walk_ids() {
        let text = func.results(op).find_map(|value| too_large(func.ty(value)));
        errors.extend(text.map(|text| Diagnostic::error(text).at(func.loc(op))));
    }
    errors
}

/// A generic without points leaves its outputs as they are: a reduction over nothing is what it
/// starts from.
fn drop_empty(func: &mut Ir) {
    for op in func.walk_ids() {
        // With an op that is replaced goes what is in its region.
        let Some(generic) = func.contains(op).then(|| func.get::<Generic>(op)).flatten() else {
            continue;
        };
        if generic.domain(func).is_ok_and(|domain| domain.contains(&0)) {
            func.replace(op, &generic.outputs);
        }
    }
}

/// Plans by the signature of the group: equal layers are planned once.
struct Plans<'a> {
    target: &'a Target<'a>,
    budget: Budget,
    known: HashMap<String, Result<Plan, TooLarge>>,
}

impl Plans<'_> {
    fn of(&mut self, func: &Ir, group: &Group) -> Result<Plan, TooLarge> {
        let make = || plan(func, group, self.target, self.budget);
        let found = self.known.entry(group.signature(func));
        found.or_insert_with(make).clone()
    }
}

/// The group that ends in a generic, and its plan: with values computed in near memory, unless
/// that does not fit or keeps the group from a unit; and read through other shapes, unless the
/// box around what is read does not fit.
fn planned(
    func: &Ir,
    op: OpId,
    scope: &Scope,
    plans: &mut Plans<'_>,
) -> Option<(Group, Result<Plan, TooLarge>)> {
    let mut attempt = |inner: bool, reshapes: bool| {
        let group = Group::ending_in(func, op, scope, Freedom { inner, reshapes })?;
        let found = plans.of(func, &group);
        Some((group, found))
    };
    let (group, found) = attempt(true, true)?;
    let on_unit = |plan: &Plan| plan.unit.is_some() || plan.quicker;
    let mut best = (group, found);
    if best.0.has_inner() && !best.1.as_ref().is_ok_and(on_unit) {
        let smaller = attempt(false, true)?;
        let better = match (&best.1, &smaller.1) {
            (Ok(_), Ok(other)) => other.unit.is_some(),
            (Err(_), _) => true,
            _ => false,
        };
        if better {
            best = smaller;
        }
    }
    if best.1.is_err()
        && let Some(apart) = attempt(false, false)
        && apart.1.is_ok()
    {
        best = apart;
    }
    if let (group, Ok(plan)) = &best
        && let Some(quicker) = halves(func, group, plan, plans)
    {
        best = quicker;
    }
    Some(best)
}

/// The group with an iterator as two, so that each is a dimension of a unit, where that is quicker: one of
/// the unit's dimensions has nothing else to run through.
fn halves(
    func: &Ir,
    group: &Group,
    plan: &Plan,
    plans: &mut Plans<'_>,
) -> Option<(Group, Result<Plan, TooLarge>)> {
    let unit = plan.unit.as_ref()?;
    let called = plans.target.called(unit)?;
    let idle = unit
        .unit_dims
        .iter()
        .zip(called.domain)
        .any(|(dims, points)| {
            let mut alone = dims.iter();
            *points > 1 && alone.all(|(d, _)| group.domain[*d] == 1 && !group.reductions[*d])
        });
    let mut best: Option<(Group, Plan)> = None;
    for (d, size) in unit.unit_dims.iter().flatten().filter(|_| idle) {
        if group.domain[*d] <= *size {
            continue;
        }
        let Some(other) = group.split(*d, *size) else {
            continue;
        };
        let Ok(found) = plans.of(func, &other) else {
            continue;
        };
        let least = best.as_ref().map_or(plan.cycles, |(_, best)| best.cycles);
        if found.unit.is_some() && found.cycles < least {
            best = Some((other, found));
        }
    }
    best.map(|(group, plan)| (group, Ok(plan)))
}

/// Whether anything reads what an op computes but nests that are done: they compute it, if at all.
fn is_needed(ir: &Ir, op: OpId, done: &HashSet<OpId>) -> bool {
    let mut readers = ir.results(op).flat_map(|value| ir.uses(value));
    readers.any(|u| !done.contains(&u.op))
}

fn is_dead(ir: &Ir, op: OpId) -> bool {
    ir.results(op).all(|value| ir.is_unused(value))
}

/// Takes the ops of a group out of it; gives them.
fn open(ir: &mut Ir, op: OpId) -> Vec<OpId> {
    let Some(block) = ir.body_block(op, 0) else {
        return Vec::new();
    };
    let Some(end) = ir.last(block) else {
        return Vec::new();
    };
    let Some(GraphYield { values }) = ir.get(end) else {
        return Vec::new();
    };
    ir.erase(end);
    let ops: Vec<OpId> = ir.ops_in(block).collect();
    for inner in &ops {
        ir.move_op(*inner, At::Before(op));
    }
    ir.replace(op, &values);
    ops
}

/// Erases what nobody uses any more: producers that were taken into tiles.
fn erase_dead(ir: &mut Ir) {
    for op in ir.walk_ids().into_iter().rev() {
        if ir.contains(op)
            && ir.is_removable(op)
            && is_dead(ir, op)
            && !ir.has(op, Traits::Terminator)
        {
            ir.erase(op);
        }
    }
}

/// The candidates of a group, if they are listed.
fn listed(ir: &Ir, op: OpId, group: &Group, plan: &Plan) -> Option<Diagnostic> {
    if plan.listed.is_empty() {
        return None;
    }
    let text = format!("candidates for tiles of this '{}'", ir.name(op));
    let remark = Diagnostic::remark(text).at(ir.loc(group.named));
    Some(plan.listed.iter().fold(remark, Diagnostic::note))
}

/// The chains of groups that end in one, if they are listed.
fn listed_chains(ir: &Ir, op: OpId, group: &Group, chains: &Chains) -> Option<Diagnostic> {
    let mut candidates = chains.candidates.iter();
    let (_, notes) = candidates.find(|(root, _)| *root == op)?;
    let text = format!("nests of several stages that end in this '{}'", ir.name(op));
    let remark = Diagnostic::remark(text).at(ir.loc(group.named));
    Some(notes.iter().fold(remark, Diagnostic::note))
}

/// A tensor between two nests that does not stay in near memory.
fn to_far(ir: &Ir, op: OpId, why: &str) -> Diagnostic {
    let name = ir.name(op);
    let text = format!("what this '{name}' computes goes to far memory and back: {why}");
    let remark = Diagnostic::remark(text).category(FAR_TENSOR);
    remark.at(ir.loc(op))
}

/// A chain that does not fit near memory.
fn no_room(ir: &Ir, op: OpId, stages: usize, excess: &Excess) -> Diagnostic {
    let Excess {
        space,
        needed,
        free,
    } = excess;
    let text = format!(
        "the {stages} stages that end in this '{}' are not one nest: their tiles need {needed} bytes of \
         \"{space}\", {free} are free",
        ir.name(op)
    );
    let over = needed - free;
    let help = format!("{over} bytes more would do, or fewer slots (depth) for each tile");
    let remark = Diagnostic::remark(text).category(SINGLE_NEST);
    remark.at(ir.loc(op)).note(help)
}

/// A group that no unit computes.
fn without_unit(ir: &Ir, group: &Group, nearest: Nearest, target: &Target<'_>) -> Unmatched {
    let op = group.named;
    let points = u64::try_from(group.points()).unwrap_or(0);
    let steps = group.reduce.iter().map(|(step, ..)| step).take(1);
    let work: u64 = match group.reduce {
        Some(_) => steps.map(|step| step.work).sum(),
        None => group.maps.iter().map(|step| step.work).sum(),
    };
    let cycles = target.info.thread_cycles(points.saturating_mul(work));
    // A contraction is what units are for.
    let reduce = group.reduce.as_ref();
    let product = reduce.is_some_and(|(step, ..)| step.inputs.len() > 1);
    Unmatched {
        at: Diagnostic::remark(format!("no unit computes this '{}'", ir.name(op)))
            .category(NO_UNIT)
            .cycles(cycles)
            .at(ir.loc(op)),
        expected: !product,
        nearest: Some(nearest),
    }
}

/// A generic that is the end of no group, and why.
fn left_over(ir: &Ir, op: OpId, target: &Target<'_>) -> Option<Unmatched> {
    let generic: Generic = ir.get(op)?;
    let (name, far) = (ir.name(op), target.far.name);
    let text = format!("the thread computes this '{name}' element by element in \"{far}\"");
    let mut maps = generic.indexing_maps.iter();
    let why = if generic.outputs.len() != 1 {
        format!("it has {} results", generic.outputs.len())
    } else if let Some(map) = maps.find(|map| map.linear().is_none()) {
        format!("it reads at {map}, which is not linear")
    } else if generic.combine.is_some() && filled(ir, generic.outputs[0]).is_none() {
        "it reduces into a tensor that is not filled with a constant".to_string()
    } else {
        "it is no part of a loop nest that can be tiled".to_string()
    };
    let points = generic.domain(ir).unwrap_or_default();
    let points = points.iter().map(|n| u64::try_from(*n).unwrap_or(0));
    let points = points.fold(generic.point_work(ir), u64::saturating_mul);
    Some(Unmatched {
        at: Diagnostic::remark(text)
            .category(NO_UNIT)
            .cycles(target.info.thread_cycles(points))
            .at(ir.loc(op))
            .note(why),
        expected: false,
        nearest: nearest(ir, &generic, target),
    })
}

fn too_large(ir: &Ir, op: OpId, group: &Group, large: &TooLarge) -> Diagnostic {
    let Excess {
        space,
        needed,
        free,
    } = large.excess;
    let mut error = Diagnostic::error(format!(
        "'{}' does not fit \"{space}\": the smallest tiles need {needed} bytes, {free} are free",
        ir.name(op)
    ))
    .at(ir.loc(op));
    for (i, bytes) in large.holders.iter().enumerate() {
        let what = match (group.operands.get(i), group.result()) {
            (Some(operand), _) => format!("operand {i}, a {}", ir.ty(operand.source)),
            (None, Some(ty)) if i == group.operands.len() => format!("the result, a {ty}"),
            _ => "what is accumulated".to_string(),
        };
        error = error.note(format!("{bytes} bytes for {what}"));
    }
    error
}
