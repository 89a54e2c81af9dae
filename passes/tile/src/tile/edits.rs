//! Nests in the place of groups, and what goes before and after.

use std::collections::HashSet;

use tir::{At, Builder, Ir, OpId, Traits, Value};
use tir_tensor::Generic;

use crate::chain::{Resident, Stage, only_for};
use crate::emit::{emit, resident};
use crate::plan::Target;

/// A generic without points leaves its outputs as they are: a reduction over nothing is what it
/// starts from.
pub(super) fn drop_empty(func: &mut Ir) {
    for op in func.walk_ids() {
        // With an op that is replaced goes what is in its region.
        let Some(generic) = func.contains(op).then(|| func.get::<Generic>(op)).flatten() else {
            continue;
        };
        if let Some(values) = generic.if_empty(func, op) {
            func.replace(op, &values);
        }
    }
}

/// Writes a stage and what computes for it before an op, and puts its results in the place of the group's. Gives the
/// generics on its tiles, if another level tiles these.
pub(super) fn replace(func: &mut Ir, op: OpId, stage: &Stage, target: &Target<'_>) -> Vec<OpId> {
    let mut before: HashSet<OpId> = HashSet::new();
    if target.inner.is_some() {
        before.extend(siblings(func, op));
    }
    let mut b = Builder::new(func, At::Before(op));
    b.loc = b.ir.loc(stage.group.named);
    let values = emit(&mut b, stage, target);
    for (out, new) in stage.group.outs.iter().zip(values) {
        func.replace_uses_if(out.value, new, |_, u| !stage.group.ops.contains(&u.op));
        behind(func, op, new);
    }
    if target.inner.is_none() {
        return Vec::new();
    }
    let new = siblings(func, op).filter(|op| !before.contains(op));
    let all = new.flat_map(|op| std::iter::once(op).chain(func.walk_below(op)));
    all.filter(|op| func.is::<Generic>(*op)).collect()
}

/// Moves what reads a value and stands before it right before an op behind it, with all between that reads that in turn: views of
/// one result of a group may stand before the group's last step.
pub(crate) fn behind(func: &mut Ir, op: OpId, value: Value) {
    let (Some(made), Some(block)) = (func.owner(value), func.block_of(op)) else {
        return;
    };
    let early: HashSet<OpId> = siblings(func, op).take_while(|o| *o != made).collect();
    let until: HashSet<OpId> = siblings(func, op).take_while(|o| *o != op).collect();
    let readers = |func: &Ir, value: Value, among: &HashSet<OpId>| -> Vec<OpId> {
        let users = func
            .uses(value)
            .filter_map(|u| func.ancestor_in(u.op, block));
        users.filter(|user| among.contains(user)).collect()
    };
    let mut work = readers(func, value, &early);
    let mut late: HashSet<OpId> = HashSet::new();
    while let Some(user) = work.pop() {
        if late.insert(user) {
            // What stands behind the value may read what is moved.
            let results: Vec<Value> = func.results(user).collect();
            let next = results
                .into_iter()
                .flat_map(|result| readers(func, result, &until));
            work.extend(next);
        }
    }
    let late: Vec<OpId> = siblings(func, op).filter(|o| late.contains(o)).collect();
    for user in late {
        func.move_op(user, At::Before(op));
    }
}

/// A part of a tensor that stays, which nests read by themselves that are not written yet, and the home that it lies in behind each
/// that writes into it.
pub(super) struct Pending<'a> {
    stays: &'a Resident,
    value: Value,
    at: &'a [i64],
    homes: Vec<Value>,
}

/// Lets who reads parts of tensors that stay by themselves read them there: all nests are written.
pub(super) fn read_parts(func: &mut Ir, pending: &[Pending<'_>]) {
    for part in pending {
        resident::read(func, part.stays, &part.homes, Some((part.value, part.at)));
    }
}

/// Writes the nests that compute a tensor that stays, and lets its readers, which are written, read it there. Gives the parts of it that
/// others read, which may stand before nests that compute other parts.
pub(super) fn settle_in<'a>(
    func: &mut Ir,
    stays: &'a Resident,
    target: &Target<'_>,
    done: &mut HashSet<OpId>,
) -> Vec<Pending<'a>> {
    let far = read_before(func, stays, done);
    // What is only brought here is there in far memory, too: who reads it there need not wait until it is brought.
    let copies = far.is_some() && stays.writers.is_empty();
    let written = resident::write(func, stays, target, far.filter(|_| !copies));
    for (.., ops) in &stays.writers {
        done.extend(ops);
    }
    let homes = written.unwrap_or_default();
    let whole = homes.last().copied();
    resident::read(func, stays, whole.as_slice(), None);
    if copies {
        return Vec::new();
    }
    done.extend(&stays.copied);
    // What else reads it, reads it in far memory.
    if !only_for(func, stays.value, done) {
        resident::store(func, stays, whole, done);
    }
    let parts = stays.shared.iter().filter_map(|(value, at, writers)| {
        Some(Pending {
            stays,
            value: *value,
            at,
            homes: homes.get(writers.checked_sub(1)?..)?.to_vec(),
        })
    });
    parts.collect()
}

/// The first op that reads a tensor in far memory, if it stands before the first nest that reads it near.
fn read_before(func: &Ir, stays: &Resident, done: &HashSet<OpId>) -> Option<OpId> {
    if stays.brought.is_empty() {
        return None;
    }
    let (first, block) = (resident::first_reader(func, stays)?, stays.block?);
    let reads = |op: OpId| {
        let mut results = func.results(op);
        let no_view = func.is::<Generic>(op);
        !done.contains(&op) && (no_view || !results.all(|value| only_for(func, value, done)))
    };
    let far = func.uses(stays.value).map(|u| u.op).filter(|op| reads(*op));
    let far: HashSet<OpId> = far.filter_map(|op| func.ancestor_in(op, block)).collect();
    let mut early = func.ops_in(block).take_while(|op| *op != first);
    early.find(|op| far.contains(op))
}

/// Loads a tensor once for all nests that read it near, which are written.
pub(super) fn load_once(func: &mut Ir, stays: &Resident) {
    let home = resident::load(func, stays);
    resident::read(func, stays, home.as_slice(), None);
}

/// Erases what nobody uses any more: producers that were taken into tiles.
pub(super) fn erase_dead(ir: &mut Ir) {
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

/// The ops of the block of an op.
fn siblings(ir: &Ir, op: OpId) -> impl Iterator<Item = OpId> + '_ {
    let block = ir.block_of(op);
    block.into_iter().flat_map(|block| ir.ops_in(block))
}

fn is_dead(ir: &Ir, op: OpId) -> bool {
    ir.results(op).all(|value| ir.is_unused(value))
}
