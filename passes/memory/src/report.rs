//! Why a space is as full as it is, and what would help.
//!
//! *Terms.* The *moment* is the time at which most bytes of a space are live; its *holders* are the buffers that live then,
//! each for a reason ([`Why`]). A *change* is something that could be done about a holder. Changes are not guessed: each is
//! made to the live ranges or the sizes, and the space is planned anew; that which leaves the lowest plan is told, then the
//! next one with that made, until the rest fits or nothing helps any more.
//!
//! A holder that no op uses at the moment has a *gap* there: the times from the op that used it last to the one that uses
//! it next, round the loop if there is none behind. In the gap it could lie in far memory.

mod moment;
mod text;

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use tir::{Access, Diagnostic, Ir, MemRefType, Name, OpId, Value};
use tir_accel::{DEPTH, MachineInfo};
use tir_memref::alias::{Origin, accesses, accesses_others, origins};
use tir_packing::{Algorithm, Options, Solution, solve};

use moment::Moment;

use crate::far::{Given, room};
use crate::liveness::{Buffer, liveness};
use crate::plan_memory::problem;

/// Holders that are tried, the largest ones.
pub const TRIED: usize = 16;
/// Changes that are told at most.
pub const CHANGES: usize = 3;
/// Steps of the search for a plan with a change.
pub const STEPS: u64 = 2_000;

/// What fills a space.
#[derive(Clone, Debug)]
pub struct Report {
    /// The space.
    pub space: Name,
    /// Its bytes.
    pub capacity: u64,
    /// Bytes of the lowest plan that was found.
    pub height: u64,
    /// Bytes that no plan is lower than.
    pub bound: u64,
    /// The op at which most bytes are live.
    pub op: OpId,
    /// Bytes that live then.
    pub live: u64,
    /// Bytes that these take at the least as they are aligned.
    pub aligned: u64,
    /// Bytes of arguments and constants as they are aligned, of far memory: from there nothing can go farther away.
    pub given: Option<u64>,
    /// The buffers that live then, the largest first.
    pub holders: Vec<Holder>,
    /// What would help, each with those before it.
    pub changes: Vec<Change>,
}

/// A buffer that lives at the moment.
#[derive(Clone, Debug)]
pub struct Holder {
    /// Its allocation.
    pub op: OpId,
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// How many tiles of a loop lie in it beside each other, or one.
    pub slots: i64,
    /// What it holds.
    pub of: Content,
    /// Why it lives.
    pub why: Why,
}

/// What a buffer holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A part of buffers of other spaces, by name.
    Copy(Vec<String>),
    /// What an op computes.
    Computed(OpId),
}

/// Why a buffer lives at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The op of the moment uses it.
    Used,
    /// It holds what an op behind uses.
    For(OpId),
    /// It holds what an op uses when the loop around runs another time.
    Again(OpId),
}

/// Something that lowers the plan.
#[derive(Clone, Debug)]
pub struct Change {
    /// The buffer.
    pub name: String,
    /// Its allocation.
    pub op: OpId,
    /// What is done.
    pub what: What,
    /// Bytes of the plan with this and the changes before it.
    pub height: u64,
}

/// What is done to a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// It gets so many slots.
    Slots(i64),
    /// It lies in far memory between two ops: bytes that are moved for it.
    Gap {
        /// The op that used it last.
        from: OpId,
        /// The op that uses it next.
        to: OpId,
        /// Whether far memory has its content, so that nothing is to be stored.
        clean: bool,
        /// Bytes that are moved, all iterations together; `None` if it is not known how often.
        moved: Option<u64>,
    },
}

/// A report of each space that has buffers, far memory last.
///
/// Errors: live ranges are not known ([`liveness`]), or a space is none of the machine's.
pub fn reports(ir: &Ir, machine: &MachineInfo) -> Result<Vec<Report>, Diagnostic> {
    let far = machine.far().map(|s| s.name);
    let mut reports = Vec::new();
    let (last, spaces): (Vec<_>, Vec<_>) = liveness(ir, machine)?
        .into_iter()
        .partition(|(space, _)| Some(*space) == far);
    for (space, buffers) in spaces.into_iter().chain(last) {
        let capacity = machine.space(space).map(|s| room(ir, machine, s));
        let capacity = capacity.ok_or_else(|| {
            Diagnostic::error(format!(
                "has buffers in \"{space}\", which the machine has not"
            ))
        })?;
        let height = planned(&buffers)?.plan.height;
        if Some(space) == far {
            // There is no memory farther away.
            let found = full(ir, (space, capacity), &buffers, height)?;
            let all = machine
                .far()
                .map(|far| Given::of(ir, machine, far).with(height));
            let given = all.map(|all| all.saturating_sub(height));
            reports.extend(found.map(|found| Report { given, ..found }));
        } else {
            reports.extend(report(ir, (space, capacity), &buffers, height)?);
        }
    }
    Ok(reports)
}

/// The report of a space of which the lowest plan is known; `None` if nothing ever lives there.
pub(crate) fn report(
    ir: &Ir,
    space: (Name, u64),
    buffers: &[Buffer],
    height: u64,
) -> Result<Option<Report>, Diagnostic> {
    let Some(mut found) = full(ir, space, buffers, height)? else {
        return Ok(None);
    };
    found.changes = changes(ir, buffers, found.capacity, height)?;
    Ok(Some(found))
}

/// The same without what would help.
fn full(
    ir: &Ir,
    (space, capacity): (Name, u64),
    buffers: &[Buffer],
    height: u64,
) -> Result<Option<Report>, Diagnostic> {
    let bound = planned(buffers)?.plan;
    let Some(moment) = Moment::of(ir, buffers)? else {
        return Ok(None);
    };
    let holders = moment.members.iter().map(|i| {
        let buffer = &buffers[*i];
        let bytes = buffer.bytes;
        Holder {
            op: buffer.op,
            name: buffer.name.clone(),
            bytes,
            slots: slots(ir, buffer),
            of: content(ir, buffer, &moment),
            why: moment.why(ir, buffer),
        }
    });
    Ok(Some(Report {
        space,
        capacity,
        height,
        bound: bound.proved.max(bound.lower_bound.bytes),
        op: moment.op,
        live: moment.bytes,
        aligned: moment.aligned,
        given: None,
        holders: holders.collect(),
        changes: Vec::new(),
    }))
}

fn planned(buffers: &[Buffer]) -> Result<Solution, Diagnostic> {
    let problem = problem(buffers).map_err(|e| *e)?;
    let options = Options {
        steps: STEPS,
        algorithm: Algorithm::Auto,
        ..Options::default()
    };
    Ok(solve(&problem, &options))
}

/// Slots of a buffer that `multi-buffer` made, along its first dimension.
fn slots(ir: &Ir, buffer: &Buffer) -> i64 {
    let said = ir.attr(buffer.op, DEPTH).and_then(tir::Attr::as_int);
    let shape = ir.ty(ir.result(buffer.op, 0)).shape();
    let first = shape.and_then(|shape| shape.first().copied());
    said.filter(|n| first == Some(*n)).unwrap_or(1).max(1)
}

/// What an op that fills a buffer reads: memrefs of other spaces; `None` if it computes.
fn moved_from(ir: &Ir, op: OpId, space: Option<Name>) -> Option<Vec<Value>> {
    let all = accesses(ir, op);
    let other = |v: &Value| {
        let ty = ir.ty(*v).get::<MemRefType>();
        ty.and_then(MemRefType::space_name) != space
    };
    let read = all.iter().filter(|(access, _)| *access == Access::Read);
    let read: Vec<Value> = read.map(|(_, v)| *v).collect();
    (!read.is_empty() && read.iter().all(other)).then_some(read)
}

fn space_of(ir: &Ir, buffer: &Buffer) -> Option<Name> {
    let ty = ir.ty(ir.result(buffer.op, 0)).get::<MemRefType>();
    ty.and_then(MemRefType::space_name)
}

/// The ops that write a buffer.
fn writers<'a>(ir: &'a Ir, buffer: &'a Buffer) -> impl Iterator<Item = OpId> + 'a {
    let own = Origin::Allocated(ir.result(buffer.op, 0));
    buffer.uses.iter().copied().filter(move |op| {
        let mut all = accesses(ir, *op).into_iter();
        all.any(|(access, v)| access == Access::Write && origins(ir, v).contains(&own))
    })
}

/// What a buffer holds at a moment: what is computed there, if something is.
fn content(ir: &Ir, buffer: &Buffer, moment: &Moment) -> Content {
    let space = space_of(ir, buffer);
    let mut names: Vec<String> = Vec::new();
    for op in writers(ir, buffer).filter(|op| moment.is_behind(ir, *op)) {
        let Some(from) = moved_from(ir, op, space) else {
            return Content::Computed(op);
        };
        for origin in from.into_iter().flat_map(|value| origins(ir, value)) {
            let name = match origin {
                Origin::Allocated(v) | Origin::Argument(v) | Origin::Unknown(v) => ir.hint(v),
                Origin::Global(name) => Some(name),
            };
            let name = name.map(|name| name.to_string());
            names.extend(name.filter(|name| !names.contains(name)));
        }
    }
    Content::Copy(names)
}

/// What would help, each change with those before it.
fn changes(
    ir: &Ir,
    buffers: &[Buffer],
    capacity: u64,
    height: u64,
) -> Result<Vec<Change>, Diagnostic> {
    // What is written can differ when it is loaded again.
    let ops = ir.walk_ids();
    let all = ops.iter().flat_map(|op| accesses(ir, *op));
    let written = all.filter(|(access, _)| *access == Access::Write);
    let written: HashSet<Origin> = written.flat_map(|(_, v)| origins(ir, v)).collect();
    let reached = ops
        .iter()
        .any(|op| *op != ir.root() && accesses_others(ir, *op));
    let stays = |origin: &Origin| {
        let own = matches!(origin, Origin::Allocated(_));
        !written.contains(origin) && (own || !reached)
    };
    let (mut now, mut height) = (buffers.to_vec(), height);
    let mut found: Vec<Change> = Vec::new();
    let fits = height <= capacity;
    while found.len() < CHANGES && (fits || height > capacity) {
        let Some(moment) = Moment::of(ir, &now)? else {
            break;
        };
        let mut best: Option<([u64; 3], Change, Vec<Buffer>)> = None;
        for (what, i, trial) in trials(ir, &now, &moment, &stays) {
            let lower = planned(&trial)?.plan.height;
            let moved = match what {
                What::Gap { moved, .. } => moved.unwrap_or(u64::MAX),
                What::Slots(_) => 0,
            };
            // Of what makes the space do, the mildest; else what takes most away.
            let enough = if fits { 0 } else { capacity };
            let given_up = now[i].bytes.saturating_sub(trial[i].bytes);
            let key = [lower.max(enough), moved, given_up];
            if best.as_ref().is_none_or(|(known, ..)| key < *known) {
                let change = Change {
                    name: now[i].name.clone(),
                    op: now[i].op,
                    what,
                    height: lower,
                };
                best = Some((key, change, trial));
            }
        }
        let Some((_, change, trial)) = best.filter(|(_, change, _)| change.height < height) else {
            break;
        };
        (now, height) = (trial, change.height);
        found.push(change);
    }
    Ok(found)
}

/// All changes of the largest holders, with the buffers as they are then.
fn trials(
    ir: &Ir,
    now: &[Buffer],
    moment: &Moment,
    stays: &dyn Fn(&Origin) -> bool,
) -> Vec<(What, usize, Vec<Buffer>)> {
    let mut all = Vec::new();
    for i in moment.members.iter().take(TRIED).copied() {
        let buffer = &now[i];
        let slots = slots(ir, buffer);
        // Fewer than the text says where a change has taken some.
        let whole = ir.ty(ir.result(buffer.op, 0));
        let whole = whole.elements().zip(whole.bytes()).map(|(n, b)| n * b);
        let count = usize::try_from(slots).unwrap_or(1);
        let one = whole.and_then(|bytes| u64::try_from(bytes / count).ok());
        // One less, half of them, one alone.
        let one = one.filter(|one| slots > 1 && *one > 0);
        let there = one.map_or(1, |one| buffer.bytes / one);
        let fewer: BTreeSet<u64> = [1, there / 2, there.saturating_sub(1)].into();
        for left in fewer.into_iter().filter(|left| (1..there).contains(left)) {
            let Some(one) = one else { break };
            let mut trial = now.to_vec();
            trial[i].bytes = left * one;
            let left = i64::try_from(left).unwrap_or(1);
            all.push((What::Slots(left), i, trial));
        }
        if let Some(gap) = moment.gap(ir, buffer) {
            let space = space_of(ir, buffer);
            let same = |v: Value| origins(ir, v).iter().all(stays);
            let clean = writers(ir, buffer).all(|op| {
                if !moment.is_behind(ir, op) {
                    return true;
                }
                let from = moved_from(ir, op, space);
                from.is_some_and(|from| from.into_iter().all(same))
            });
            let stores = if clean { Some(0) } else { gap.stores };
            let times = gap.loads.zip(stores).and_then(|(a, b)| a.checked_add(b));
            let moved = times.and_then(|n| n.checked_mul(buffer.bytes));
            let mut trial = now.to_vec();
            trial[i].live = without(&buffer.live, &gap.ranges);
            let (from, to) = (gap.from, gap.to);
            let what = What::Gap {
                from,
                to,
                clean,
                moved,
            };
            all.push((what, i, trial));
        }
    }
    all
}

/// Ranges without what lies in others.
fn without(live: &[Range<u64>], gaps: &[Range<u64>]) -> Vec<Range<u64>> {
    gaps.iter().fold(live.to_vec(), |live, gap| {
        let parts = live.iter().flat_map(|range| {
            let (start, end) = (gap.start.max(range.start), gap.end.min(range.end));
            if start >= end {
                return [range.clone(), 0..0];
            }
            [range.start..start, end..range.end]
        });
        parts.filter(|part| !part.is_empty()).collect()
    })
}
