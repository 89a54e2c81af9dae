//! `plan-memory`: gives every buffer an offset in one allocation of its space.

use std::collections::{BTreeMap, HashMap, HashSet};

use tir::{At, BlockId, Diagnostic, Failure, Ir, MemRefType, Name, OpId, Ret, Traits, Type, Value};
use tir_accel::MachineInfo;
use tir_accel::machine::SpaceInfo;
use tir_arith::constant_index;
use tir_memref::alias::{Origin, origins};
use tir_memref::{Alloc, Dealloc, View};
use tir_packing::{Buffer as Packed, DoesNotFit, Effort, Plan, Problem, apart, plan_with};

use crate::banks::conflicts;
use crate::far::room;
use crate::liveness::{Buffer, Spaces, liveness, timeline, with_holes};

/// What was planned for a space.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The space.
    pub space: Name,
    /// Names and sizes, in the order of the offsets.
    pub buffers: Vec<(String, u64)>,
    /// Offsets, height, and what no plan can be lower than.
    pub plan: Plan,
}

/// Why there is no plan.
#[derive(Clone, Debug)]
pub enum NoPlan {
    /// The buffers of a space do not fit.
    TooLarge {
        /// The space.
        space: Name,
        /// Peak and holders.
        report: Box<DoesNotFit>,
        /// The allocations that hold the peak, largest first.
        holders: Vec<OpId>,
    },
    /// Something else is wrong.
    Other(Failure),
}

impl NoPlan {
    /// As an error that names the buffers, says why each lives, and what would help.
    pub fn diagnostic(&self, ir: &Ir, machine: &MachineInfo) -> Diagnostic {
        match self {
            NoPlan::Other(failure) => (**failure).clone(),
            NoPlan::TooLarge { space, report, .. } => {
                let (needed, capacity) = (report.needed, report.capacity);
                let text = format!(
                    "the buffers of \"{space}\" do not fit: {needed} bytes needed, {capacity} available"
                );
                let mut error = Diagnostic::error(text).at(ir.loc(ir.root()));
                let all = machine.space(*space).map_or(0, |space| space.bytes);
                let constants = u64::try_from(all).map_or(0, |all| all.saturating_sub(capacity));
                if constants > 0 {
                    error = error.note(format!(
                        "constants in it take {constants} of its {all} bytes"
                    ));
                }
                let why = with_holes(ir, machine).and_then(|spaces| {
                    let buffers = spaces.get(space).map_or(&[][..], Vec::as_slice);
                    crate::report::report(ir, (*space, capacity), buffers, needed)
                });
                match why {
                    Ok(Some(why)) => why.explain(ir, error),
                    _ => error,
                }
            }
        }
    }
}

/// The packing problem of the buffers of a space.
pub fn problem(buffers: &[Buffer]) -> Result<Problem, Failure> {
    let packed = buffers.iter().map(|b| Packed {
        align: b.align,
        ..Packed::new(&b.name, b.bytes)
    });
    let lives = buffers.iter().map(|b| b.live.clone());
    Problem::from_lives(packed.collect(), lives.collect()).map_err(|e| e.to_string().into())
}

/// The buffers of a function, and a plan of each space.
#[derive(Clone, Debug)]
pub struct Plans {
    /// The buffers.
    pub spaces: Spaces,
    /// A plan for each space, in their order.
    pub planned: Vec<Planned>,
}

impl Plans {
    /// The same for a clone of the function.
    pub fn twin(&self, clone: &Ir, ir: &Ir) -> Plans {
        let mut plans = self.clone();
        for buffer in plans.spaces.values_mut().flatten() {
            buffer.op = clone.twin(buffer.op, ir);
            let uses = buffer.uses.iter_mut();
            uses.for_each(|op| *op = clone.twin(*op, ir));
        }
        plans
    }

    /// Makes the allocations places in one allocation of each space.
    ///
    /// # Errors
    /// If the function cannot be rewritten.
    pub fn apply(&self, ir: &mut Ir, machine: &MachineInfo) -> Result<(), Failure> {
        rewrite(ir, machine, &self.spaces, &self.planned)
    }
}

/// Plans every space of the function at the root of an arena, and rewrites its allocations. On
/// failure nothing is changed.
pub fn plan_memory(ir: &mut Ir, machine: &MachineInfo) -> Result<Vec<Planned>, NoPlan> {
    let plans = plans(ir, machine)?;
    plans.apply(ir, machine).map_err(NoPlan::Other)?;
    Ok(plans.planned)
}

/// Plans every space of the function at the root of an arena, which stays as it is. A space whose buffers do not fit is
/// planned with the holes of their live ranges.
///
/// # Errors
/// If the buffers of a space do not fit, or a place is not enough for one; see [`liveness`].
pub fn plans(ir: &Ir, machine: &MachineInfo) -> Result<Plans, NoPlan> {
    plans_of(ir, machine, true, Effort::Whole)
}

/// The same; holes are used only if that is allowed, and plans are looked for as long as is said.
///
/// # Errors
/// As [`plans`].
pub fn plans_of(
    ir: &Ir,
    machine: &MachineInfo,
    holes: bool,
    effort: Effort,
) -> Result<Plans, NoPlan> {
    let other = |e| NoPlan::Other(Box::new(e));
    let mut spaces = liveness(ir, machine).map_err(other)?;
    let mut planned = Vec::new();
    for (space, buffers) in &mut spaces {
        let plan = match planned_space(ir, machine, *space, buffers, effort) {
            Err(NoPlan::TooLarge { .. }) if holes => {
                let mut all = with_holes(ir, machine).map_err(other)?;
                *buffers = all.remove(space).unwrap_or_default();
                planned_space(ir, machine, *space, buffers, effort)
            }
            plan => plan,
        };
        let names = buffers.iter().map(|b| (b.name.clone(), b.bytes)).collect();
        planned.push(Planned {
            space: *space,
            buffers: names,
            plan: plan?,
        });
    }
    Ok(Plans { spaces, planned })
}

fn planned_space(
    ir: &Ir,
    machine: &MachineInfo,
    space: Name,
    buffers: &[Buffer],
    effort: Effort,
) -> Result<Plan, NoPlan> {
    let info = machine.space(space).ok_or_else(|| {
        NoPlan::Other(format!("has buffers in \"{space}\", which the machine has not").into())
    })?;
    let problem = problem(buffers).map_err(NoPlan::Other)?;
    let capacity = room(ir, machine, info);
    let plan = plan_with(&problem, capacity, effort).map_err(|report| {
        let peak = &problem.largest_live_set().members;
        let holders = peak.iter().map(|i| buffers[*i].op).collect();
        NoPlan::TooLarge {
            space,
            report,
            holders,
        }
    })?;
    Ok(fewer_conflicts(
        ir,
        buffers,
        &problem,
        (info, capacity),
        plan,
    ))
}

/// A plan with fewer conflicts in the banks of a space, where these are counted and there is room for one.
fn fewer_conflicts(
    ir: &Ir,
    buffers: &[Buffer],
    problem: &Problem,
    (space, capacity): (&SpaceInfo, u64),
    plan: Plan,
) -> Plan {
    if space.ports == 0 || space.banks < 2 {
        return plan;
    }
    let bank = u64::try_from(space.bytes / space.banks).map_or(1, |bytes| bytes.max(1));
    let conflicts = conflicts(ir, buffers, space.ports);
    apart(problem, &plan, capacity, bank, &conflicts)
}

fn rewrite(
    ir: &mut Ir,
    machine: &MachineInfo,
    spaces: &Spaces,
    planned: &[Planned],
) -> Result<(), Failure> {
    let body = ir.body_block(ir.root(), 0);
    // By what stands in the function now.
    let times = Times::of(ir);
    let parts = spaces.iter().map(|(space, buffers)| {
        let parts = body.map(|body| between_calls(ir, &times, body, buffers));
        (*space, parts.unwrap_or_default())
    });
    let mut all_parts: BTreeMap<Name, Vec<Part>> = parts.collect();
    // What was planned ends with the function.
    let all: HashSet<Value> = spaces
        .values()
        .flatten()
        .map(|b| ir.result(b.op, 0))
        .collect();
    for op in ir.walk_ids() {
        let Some(Dealloc { memref }) = ir.get(op) else {
            continue;
        };
        let planned = |o: &Origin| matches!(o, Origin::Allocated(value) if all.contains(value));
        if origins(ir, memref).iter().any(planned) {
            ir.erase(op);
        }
    }
    let plans: BTreeMap<Name, &Plan> = planned.iter().map(|p| (p.space, &p.plan)).collect();
    for (space, buffers) in spaces.iter().rev() {
        let Some(plan) = plans.get(space) else {
            continue;
        };
        let said = buffers
            .iter()
            .find_map(|b| ir.ty(ir.result(b.op, 0)).get::<MemRefType>());
        let attr = said.and_then(|ty| ty.space);
        let align = buffers.iter().map(|b| b.align).max().unwrap_or(1);
        let own = machine.space(*space).map_or(1, |s| s.align.max(1));
        let arena = |ir: &mut Ir, at: At, bytes: u64| {
            let all = Type::memref(vec![bytes as i64], Type::int(8), attr);
            let alloc = Alloc {
                alignment: Some(own.max(align as i64)),
                ..Alloc::new(all)
            };
            let arena = ir.add(at, alloc);
            ir.set_hint(arena, Some(*space));
            arena
        };
        let parts = all_parts.remove(space).unwrap_or_default();
        let mut arenas = Vec::new();
        for part in &parts {
            let own = buffers.iter().zip(&plan.offsets).zip(&part.of);
            let ends = own.filter_map(|((b, offset), own)| own.then_some(offset + b.bytes));
            let bytes = if parts.len() == 1 {
                plan.height
            } else {
                ends.max().unwrap_or(0)
            };
            let made = arena(ir, part.begin, bytes);
            let own = buffers.iter().zip(&part.of).filter(|(_, own)| **own);
            let own: Vec<Value> = own.map(|(b, _)| ir.result(b.op, 0)).collect();
            let ends = match part.end {
                Some(end) => vec![end],
                // Who is handed a buffer has it from then on.
                None if is_returned(ir, &own) => Vec::new(),
                None => returns(ir),
            };
            for end in ends {
                ir.add(At::Before(end), Dealloc { memref: made });
            }
            arenas.push(made);
        }
        for (i, (b, offset)) in buffers.iter().zip(&plan.offsets).enumerate() {
            let Some(part) = parts.iter().position(|part| part.of[i]) else {
                continue;
            };
            let arena = arenas[part];
            let ty = ir.ty(ir.result(b.op, 0));
            let hint = ir.hint(ir.result(b.op, 0));
            let mut at = ir.at(At::Before(b.op));
            let byte_shift = constant_index(&mut at, *offset as i64);
            let view = at.add(View {
                source: arena,
                byte_shift,
                sizes: vec![],
                result: Ret(ty),
            });
            ir.set_hint(view, hint.or(Some(Name::new(&b.name))));
            ir.replace(b.op, &[view]);
        }
    }
    Ok(())
}

/// The ops that leave a function, where what it holds is free again: whoever calls it may call it again.
fn returns(ir: &Ir) -> Vec<OpId> {
    let blocks = ir.regions(ir.root()).flat_map(|region| ir.blocks(region));
    let ends = blocks.filter_map(|block| ir.last(block));
    let leaves = |op: &OpId| ir.has(*op, Traits::ReturnLike) && ir.successors(*op).len() == 0;
    ends.filter(leaves).collect()
}

/// Whether what a function returns may lie in one of some buffers.
fn is_returned(ir: &Ir, buffers: &[Value]) -> bool {
    let memref = |value: &Value| ir.ty(*value).is::<MemRefType>();
    let mut handed = returns(ir)
        .into_iter()
        .flat_map(|op| ir.operands(op))
        .filter(memref);
    let own = |origin: &Origin| matches!(origin, Origin::Allocated(v) if buffers.contains(v));
    handed.any(|value| origins(ir, value).iter().any(own))
}

/// A part of a function, between ops that may take any memory: which buffers live in it, where it begins, and the op before which it
/// ends, if it ends before the function.
struct Part {
    of: Vec<bool>,
    begin: At,
    end: Option<OpId>,
}

/// The ops of a function by their times, and the times of ops.
struct Times {
    ops: Vec<OpId>,
    at: HashMap<OpId, u64>,
}

impl Times {
    fn of(ir: &Ir) -> Self {
        let ops = timeline(ir);
        let at = ops.iter().copied().zip(0..).collect();
        Self { ops, at }
    }
    fn op(&self, time: u64) -> Option<OpId> {
        self.ops.get(usize::try_from(time).ok()?).copied()
    }
}

/// The parts of a function between calls, where buffers live in one of them each: what is called has all of a space to itself then.
/// A call in a loop ends the parts of the loop's body.
fn between_calls(ir: &Ir, times: &Times, body: BlockId, buffers: &[Buffer]) -> Vec<Part> {
    let all: Vec<usize> = (0..buffers.len()).collect();
    let parts = parts_of_block(ir, times, (body, None), buffers, &all);
    parts.unwrap_or_else(|| {
        vec![Part {
            of: vec![true; buffers.len()],
            begin: At::Start(body),
            end: None,
        }]
    })
}

/// The same of a block, which ends at an op, for some buffers that live in it; `None` where nothing is called between them.
fn parts_of_block(
    ir: &Ir,
    times: &Times,
    (block, end): (BlockId, Option<OpId>),
    buffers: &[Buffer],
    own: &[usize],
) -> Option<Vec<Part>> {
    let ops: Vec<OpId> = ir.ops_in(block).collect();
    let places: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, op)| (*op, i)).collect();
    // From the first to the last op of the block that uses each, or waits for who does.
    let mut lives = Vec::new();
    // Ops in whose blocks buffers live from one time to the next.
    let mut around: HashSet<usize> = HashSet::new();
    for i in own {
        let buffer = &buffers[*i];
        let ends = buffer.live.iter();
        let ends = ends.flat_map(|live| [live.start, live.end.saturating_sub(1)]);
        let users = std::iter::once(buffer.op).chain(buffer.uses.iter().copied());
        let users = users.map(Some).chain(ends.map(|time| times.op(time)));
        let users = users.map(|op| places.get(&ir.ancestor_in(op?, block)?).copied());
        let users: Vec<usize> = users.collect::<Option<_>>()?;
        let (first, last) = (*users.iter().min()?, *users.iter().max()?);
        lives.push((first, last));
        let time = times.at.get(&ops[first]);
        let is_live = |time: &u64| buffer.live.iter().any(|live| live.contains(time));
        if ops[first] != buffer.op && time.is_some_and(is_live) {
            around.insert(first);
        }
    }
    // What is not known to leave the space alone, and beside which nothing lives.
    let anything = |op: &OpId| !ir.has(*op, Traits::Terminator) && ir.effects(*op).is_none();
    let beside = |at: usize| {
        let mut lives = lives.iter();
        around.contains(&at)
            || lives.any(|(first, last)| (*first..=*last).contains(&at) && first < last)
    };
    let calls = ops.iter().enumerate();
    let calls = calls.filter(|(at, op)| anything(op) && !beside(*at));
    let calls: Vec<usize> = calls.map(|(at, _)| at).collect();
    if calls.is_empty() {
        return None;
    }
    let part = |holds: &dyn Fn(&(usize, usize)) -> bool, begin: At, end: Option<OpId>| {
        let mut of = vec![false; buffers.len()];
        for (i, _) in own.iter().zip(&lives).filter(|(_, life)| holds(life)) {
            of[*i] = true;
        }
        of.contains(&true).then_some(Part { of, begin, end })
    };
    let mut parts = Vec::new();
    let starts = std::iter::once(None).chain(calls.iter().copied().map(Some));
    let ends = calls.iter().copied().map(Some).chain([None]);
    for (start, stop) in starts.zip(ends) {
        let inside = |(first, last): &(usize, usize)| {
            start.is_none_or(|start| start < *first) && stop.is_none_or(|stop| *last < stop)
        };
        let begin = start.map_or(At::Start(block), |start| At::After(ops[start]));
        parts.extend(part(&inside, begin, stop.map(|stop| ops[stop]).or(end)));
    }
    for at in calls {
        let inner = ir.regions(ops[at]).flat_map(|region| ir.blocks(region));
        for inner in inner.collect::<Vec<BlockId>>() {
            let there = |i: &usize| ir.ancestor_in(buffers[*i].op, inner).is_some();
            let there: Vec<usize> = own.iter().copied().filter(there).collect();
            if there.is_empty() {
                continue;
            }
            let end = ir.last(inner);
            match parts_of_block(ir, times, (inner, end), buffers, &there) {
                Some(more) => parts.extend(more),
                None => {
                    let mut of = vec![false; buffers.len()];
                    there.iter().for_each(|i| of[*i] = true);
                    let begin = At::Start(inner);
                    parts.push(Part { of, begin, end });
                }
            }
        }
    }
    Some(parts)
}

/// The summary of a plan: height, bound, and each buffer with its offset.
pub fn text(planned: &[Planned]) -> String {
    let mut out = String::new();
    for p in planned {
        let bound = &p.plan.lower_bound;
        let exact = match p.plan.is_optimal() {
            true if p.plan.height > bound.bytes => "optimal: proved that no plan takes less",
            true => "optimal",
            false => "not known to be optimal",
        };
        out += &format!(
            "@{}: {} bytes by {}, largest live set {} bytes ({exact})\n",
            p.space, p.plan.height, p.plan.method, bound.bytes
        );
        for ((name, bytes), offset) in p.buffers.iter().zip(&p.plan.offsets) {
            out += &format!("  {offset:>10} {name} ({bytes} B)\n");
        }
    }
    out
}
