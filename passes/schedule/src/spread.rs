//! Starts of loads for iterations to come, spread over the work of an iteration.
//!
//! The thread starts transfers and calls in the order of the program, and waits where a queue is
//! full. `prefetch` puts the loads for a later iteration before the work of this one. Where those are
//! more starts than the queue of their engine holds, the thread waits there, and the units have
//! nothing to do although all of their operands are near. So the starts move into the loop of calls
//! that follows: into each of its iterations a few, evenly, the first into the first one. So they do where that loop loads
//! on the same engine, as what it loads would wait for them.
//!
//! *Terms.* A **branch** holds loads for a later iteration: a `loop.if` that `prefetch` has marked
//! ([`EARLY`]). A **part** of it is an op that starts transfers, a **start** one iteration of the
//! loops in it. The **work** is the nest of loops that makes most calls.
//!
//! One load for a later iteration may keep the engine as long as several iterations of an inner loop take that
//! loads as well, and the units wait for what stands behind it. It is cut into **pieces**, one for each iteration
//! of that loop, and these are spread like other starts.
//!
//! *Why it is right.* What a branch loads is not read before a later iteration of the loop around, and
//! what it overwrites was last read in an earlier one: else it could not stand before the work. So it
//! may stand anywhere in the iteration. The order of the starts of an engine among themselves stays.

use std::collections::{BTreeMap, HashSet};

use tir::remarks::QUEUE_FULL;
use tir::{At, Attr, BlockId, Builder, Diagnostic, Ir, Mapping, Name, OpId, Traits, Value};
use tir_accel::machine::EngineInfo;
use tir_accel::transfer::Pattern;
use tir_accel::{Apply, Call, DmaStart, MachineInfo};
use tir_arith::{CmpIPredicate, OpFoldResult};
use tir_loop::{For, If, Yield};
use tir_memref::TransferRead;

use crate::index::{Counter, copy, guard, indices, linear, total};
use crate::insert_dma::each;
use crate::prefetch::{EARLY, is_single, only_loads};
use crate::staging::space;
use crate::work::{Branches, Works, busy};

/// Cycles of the units for the calls that an op always makes, or that are below it; 0 if that is not known.
fn units(ir: &Ir, machine: &MachineInfo, op: OpId) -> i64 {
    let all = busy(ir, machine, op, Branches::Least);
    let units = machine.units.iter();
    let units = units.filter_map(|unit| all.get(&Works::Queue(unit.name)));
    units.fold(0, |sum, cycles| sum.saturating_add(*cycles))
}

/// The dimension of its tile along which a load for a later iteration is cut, and the number of pieces: where
/// an inner loop of the iteration loads on the same engine. `starts` are those of the whole load.
pub(crate) fn pieces(
    ir: &Ir,
    load: OpId,
    pattern: &Pattern,
    machine: &MachineInfo,
    engine: &EngineInfo,
    starts: i64,
) -> Option<(usize, i64)> {
    let branch = ir.parent(load).filter(|op| ir.attr(*op, EARLY).is_some())?;
    let behind = ir.ops_in(ir.block_of(branch)?);
    let mut loops = behind.filter(|op| ir.is::<For>(*op) && ir.is_before(branch, *op));
    let rate = engine.bytes_per_cycle.max(1);
    let loads = |op: OpId| {
        let start = ir.get::<DmaStart>(op);
        let start = start.filter(|start| start.engine.0 == engine.name);
        let read = ir.get::<TransferRead>(op);
        let read = read.filter(|read| space(ir, machine, read.tile) == Some(engine.to));
        let tile = start.map(|start| start.tile);
        let ty = ir.ty(tile.or(read.map(|read| read.tile))?);
        let bytes = i64::try_from(ty.elem().bytes()?).ok()?;
        let bytes = ty
            .shape()?
            .iter()
            .fold(bytes, |n, size| n.saturating_mul(*size));
        Some(engine.latency.saturating_add(bytes / rate))
    };
    let found = loops.find_map(|op| loading(ir, op, &loads));
    let (inner, all, trips, each) = found?;
    let whole = pattern.tile_shape.iter();
    let cycles = whole.fold(pattern.elem, |n, size| n.saturating_mul(*size)) / rate;
    // Where an iteration of the inner loop has as much to load as to compute, the engine never waits, and the order
    // of its starts is no gain; nor where one takes as long as this load and its own.
    let compute = units(ir, machine, inner) / trips.max(1);
    if each >= compute || cycles.saturating_add(each) <= compute {
        return None;
    }
    // Along the shortest steps in the source rows would be short.
    let far = |t: usize| -> i64 {
        let terms = pattern.access.iter().zip(&pattern.far_strides);
        terms.map(|(form, stride)| form.at(t) * stride).sum()
    };
    let long = (0..pattern.tile_shape.len()).filter(|t| pattern.tile_shape[*t] > 1);
    let shortest = long.clone().map(far).min()?;
    let dim = long.filter(|t| far(*t) > shortest);
    let dim = dim.max_by_key(|t| (pattern.tile_shape[*t], std::cmp::Reverse(*t)))?;
    let count = engine.pieces(cycles, all) / starts.max(1);
    let count = count.min(pattern.tile_shape[dim]);
    (count > 1).then_some((dim, count))
}

/// The loop that loads for its own iterations to come, of one and those within it: with the iterations of all around it from that
/// one on, its own, and the cycles of these loads in each.
fn loading(
    ir: &Ir,
    op: OpId,
    loads: &dyn Fn(OpId) -> Option<i64>,
) -> Option<(OpId, i64, i64, i64)> {
    let body = ir.body_block(op, 0)?;
    let trips = Counter::of(ir, op)?.trips;
    let early = ir.ops_in(body).find(|op| ir.attr(*op, EARLY).is_some());
    if let Some(early) = early {
        let each = ir.walk_below(early).into_iter().filter_map(loads);
        let each = each.fold(0, i64::saturating_add);
        return (each > 0).then_some((op, trips, trips, each));
    }
    let mut within = ir.ops_in(body).filter(|op| ir.is::<For>(*op));
    let (inner, all, own, each) = within.find_map(|op| loading(ir, op, loads))?;
    Some((inner, all.saturating_mul(trips), own, each))
}

/// Says of the branch around a load that this is cut, and that the pieces belong into an inner loop.
pub(crate) fn mark_cut(ir: &mut Ir, load: OpId) {
    if let Some(branch) = ir.parent(load) {
        ir.set_attr(branch, EARLY, Attr::str(CUT));
    }
}

/// What is said of such a branch.
const CUT: &str = "cut";

/// Transfers that are started.
#[derive(Clone, Copy)]
pub(crate) struct Started {
    /// How many.
    pub(crate) count: i64,
    /// The first op that starts one.
    pub(crate) first: OpId,
}

/// Transfers that an op starts, or that are below it in loops of some kind, by engine, of both ways of a branch; `None` if that is
/// not known.
pub(crate) fn starts(
    ir: &Ir,
    op: OpId,
    within: &dyn Fn(OpId) -> bool,
) -> Option<BTreeMap<Name, Started>> {
    if let Some(start) = ir.get::<DmaStart>(op) {
        let one = Started {
            count: 1,
            first: op,
        };
        return Some(BTreeMap::from([(start.engine.0, one)]));
    }
    let mut sum: BTreeMap<Name, Started> = BTreeMap::new();
    let times = match ir.is::<For>(op) {
        true if !within(op) => return Some(sum),
        true => Counter::of(ir, op)?.trips,
        false => 1,
    };
    for block in ir.regions(op).flat_map(|region| ir.blocks(region)) {
        for op in ir.ops_in(block) {
            for (engine, found) in starts(ir, op, within)? {
                let none = Started { count: 0, ..found };
                let all = sum.entry(engine).or_insert(none);
                all.count = all.count.saturating_add(found.count.saturating_mul(times));
            }
        }
    }
    Some(sum)
}

/// Calls of units that an op makes, or that are below it; 0 if that is not known.
pub(crate) fn calls(ir: &Ir, op: OpId) -> i64 {
    if ir.is::<Call>(op) || ir.is::<Apply>(op) {
        return 1;
    }
    let times = match ir.is::<For>(op) {
        true => Counter::of(ir, op).map_or(0, |c| c.trips),
        false => 1,
    };
    let blocks = ir.regions(op).flat_map(|region| ir.blocks(region));
    let below = blocks.flat_map(|block| ir.ops_in(block));
    let sum = below.map(|op| calls(ir, op)).fold(0, i64::saturating_add);
    sum.saturating_mul(times)
}

/// The loops from one inwards, as long as one holds nothing else but what computes indices; and what
/// is computed on the way, in order.
fn perfect(ir: &Ir, op: OpId) -> Option<(Vec<Counter>, Vec<OpId>)> {
    let mut nest = vec![Counter::of(ir, op)?];
    let mut computed = Vec::new();
    loop {
        let body = ir.body_block(nest[nest.len() - 1].op, 0)?;
        let (mut pure, mut inner) = (Vec::new(), None);
        for op in ir.ops_in(body) {
            if ir.is::<Yield>(op) && ir.operands(op).len() == 0 {
                continue;
            }
            match (ir.is_pure(op) && ir.regions(op).len() == 0, inner) {
                (true, None) => pure.push(op),
                (false, None) if ir.is::<For>(op) => inner = Some(op),
                _ => return Some((nest, computed)),
            }
        }
        let Some(counter) = inner.and_then(|op| Counter::of(ir, op)) else {
            return Some((nest, computed));
        };
        computed.extend(pure);
        nest.push(counter);
    }
}

/// A part of a branch.
struct Part {
    /// The branch.
    branch: OpId,
    /// What is computed before it, in the branch and in its loops.
    computed: Vec<OpId>,
    /// Its loops; none if it starts one transfer.
    nest: Vec<Counter>,
    /// What one start does.
    body: Vec<OpId>,
    /// Its number of starts.
    count: i64,
}

/// The parts of a branch; `None` if anything but parts and what they are computed by stands there.
fn parts(ir: &Ir, branch: OpId) -> Option<Vec<Part>> {
    let mut regions = ir.regions(branch);
    let (taken, other) = (regions.next()?, regions.next()?);
    if ir.results(branch).len() > 0 || ir.blocks(other).any(|b| ir.ops_in(b).count() > 1) {
        return None;
    }
    let mut computed: Vec<OpId> = Vec::new();
    let mut out = Vec::new();
    for op in ir.ops_in(ir.entry(taken)?) {
        if ir.is::<Yield>(op) {
            continue;
        }
        if ir.is_pure(op) && ir.regions(op).len() == 0 {
            computed.push(op);
            continue;
        }
        let mut part = Part {
            branch,
            computed: computed.clone(),
            nest: Vec::new(),
            body: vec![op],
            count: 1,
        };
        if ir.is::<For>(op) {
            if ir.results(op).len() > 0 {
                return None;
            }
            let (nest, inner) = perfect(ir, op)?;
            let body = ir.body_block(nest[nest.len() - 1].op, 0)?;
            let ops = ir.ops_in(body).filter(|op| !ir.is::<Yield>(*op));
            part.computed.extend(inner);
            part.body = ops.collect();
            part.count = total(&nest);
            part.nest = nest;
        }
        out.push(part);
    }
    Some(out)
}

/// The loop among these that makes most calls, if one makes any.
fn most_calls(ir: &Ir, loops: impl Iterator<Item = OpId>) -> Option<OpId> {
    let most = loops.max_by_key(|op| (calls(ir, *op), std::cmp::Reverse(op.index())));
    most.filter(|op| calls(ir, *op) > 0)
}

/// The nest of loops of a block, behind an op, that makes most calls, and the place in it for starts on `engines`:
/// behind what an iteration loads for itself and for the next one; or why there is none.
///
/// Queues are in order: where a loop in an iteration of the nest starts transfers on these engines, too, as those of the rows
/// that it takes next, they would wait for all that the iteration is given. So the nest goes on with that loop.
fn work(
    ir: &Ir,
    block: BlockId,
    behind: OpId,
    engines: &BTreeMap<Name, i64>,
) -> Result<(Vec<Counter>, OpId), &'static str> {
    let loops = ir.ops_in(block);
    let loops = loops.filter(|op| ir.is::<For>(*op) && ir.is_before(behind, *op));
    let most = most_calls(ir, loops);
    let most = most.ok_or("no loop of calls follows them in the iteration")?;
    let unknown = "the loop of calls that follows has bounds that are not known";
    let (mut nest, _) = perfect(ir, most).ok_or(unknown)?;
    let innermost = |nest: &[Counter]| ir.body_block(nest[nest.len() - 1].op, 0);
    let shares = |op: &OpId| {
        let starts = starts(ir, *op, &|_| true).unwrap_or_default();
        starts.keys().any(|engine| engines.contains_key(engine))
    };
    while let Some(body) = innermost(&nest) {
        let loops = ir.ops_in(body).filter(|op| ir.is::<For>(*op));
        let inner = most_calls(ir, loops).filter(&shares);
        let Some((inner, _)) = inner.and_then(|op| perfect(ir, op)) else {
            break;
        };
        nest.extend(inner);
    }
    let now = |tile: Value| !is_single(ir, tile);
    // Branches hold what it loads next. What starts in the last iteration is waited for as soon as that: it goes first.
    let starts = engines.values().sum::<i64>();
    let last = starts >= total(&nest);
    let loads = |op: OpId| only_loads(ir, op, &now) && !(last && ir.is::<If>(op));
    let ahead = |op: &OpId| ir.has(*op, Traits::Pure) || loads(*op);
    let place = innermost(&nest).and_then(|body| ir.ops_in(body).find(|op| !ahead(op)));
    let place = place.filter(|_| total(&nest) > 1);
    Ok((
        nest,
        place.ok_or("the loop of calls that follows runs once")?,
    ))
}

/// Spreads the starts of the marked branches of a function where an iteration has more of them than
/// the queue of an engine holds, or loads on that engine besides, if that is wanted, and takes the marks away. Gives a remark for those that
/// stay together.
pub(crate) fn spread(ir: &mut Ir, machine: &MachineInfo, wanted: bool) -> Vec<Diagnostic> {
    let mut remarks = Vec::new();
    let all = ir.walk_ids().into_iter();
    let marked = all.filter_map(|op| Some((op, ir.remove_attr(op, EARLY)?)));
    let marked: Vec<(OpId, Attr)> = marked.collect();
    if !wanted {
        return remarks;
    }
    let mut blocks: Vec<(BlockId, Vec<OpId>)> = Vec::new();
    let mut cut: HashSet<BlockId> = HashSet::new();
    for (branch, mark) in marked {
        let Some(block) = ir.block_of(branch) else {
            continue;
        };
        if mark.as_str() == Some(CUT) {
            cut.insert(block);
        }
        match blocks.iter_mut().find(|(known, _)| *known == block) {
            Some((_, all)) => all.push(branch),
            None => blocks.push((block, vec![branch])),
        }
    }
    for (block, branches) in blocks {
        let mut all: BTreeMap<Name, i64> = BTreeMap::new();
        let known = branches.iter().try_for_each(|branch| {
            for (engine, started) in starts(ir, *branch, &|_| true)? {
                *all.entry(engine).or_default() += started.count;
            }
            Some(())
        });
        let (first, last) = (branches[0], branches[branches.len() - 1]);
        let mut together = |text: String, why: &str| {
            let remark = Diagnostic::remark(text).category(QUEUE_FULL);
            remarks.push(remark.at(ir.loc(first)).note(why));
        };
        if known.is_none() {
            let text =
                "loads for a later iteration are started at once, perhaps more than a queue holds";
            together(
                text.to_string(),
                "a loop that starts them has bounds that are not known",
            );
            continue;
        }
        let loops = ir
            .ops_in(block)
            .filter(|op| ir.is::<For>(*op) && ir.is_before(last, *op));
        let inner = loops.filter_map(|op| starts(ir, op, &|_| true));
        let inner: Vec<_> = inner.collect();
        let queue = |engine: &Name| {
            let mut engines = machine.engines.iter();
            engines.find(|e| e.name == *engine).map(|e| e.queue)
        };
        let too_many = |(engine, n): &(&Name, &i64)| queue(engine).is_some_and(|q| **n > q);
        let crowded = all.iter().find(too_many);
        // However few they are, what a loop behind them loads would wait for them.
        let shared = || {
            inner
                .iter()
                .flat_map(BTreeMap::keys)
                .any(|engine| all.contains_key(engine))
        };
        if crowded.is_none() && !cut.contains(&block) && !shared() {
            continue;
        }
        let found: Option<Vec<Vec<Part>>> = branches.iter().map(|b| parts(ir, *b)).collect();
        let found = found.ok_or("what starts them computes more than where they go");
        match found.and_then(|parts| Ok((parts, work(ir, block, last, &all)?))) {
            Ok((parts, (nest, place))) => {
                let parts: Vec<Part> = parts.into_iter().flatten().collect();
                move_into(ir, &parts, &nest, place);
                for branch in branches {
                    ir.erase(branch);
                }
            }
            Err(why) => {
                let Some((engine, count)) = crowded else {
                    continue;
                };
                let holds = queue(engine).unwrap_or(0);
                let text = format!(
                    "{count} loads for a later iteration are started at once, the queue of @{engine} holds \
                     {holds}: the thread waits before the units are given work"
                );
                let help = format!("{why}; a queue of {count} holds all, larger tiles are fewer");
                together(text, &help);
            }
        }
    }
    remarks
}

/// Starts all parts in the iterations of a nest.
fn move_into(ir: &mut Ir, parts: &[Part], nest: &[Counter], place: OpId) {
    let starts: i64 = parts.iter().map(|part| part.count).sum();
    let turns = total(nest);
    let mut b = ir.at(At::Before(place));
    let now = linear(&mut b, nest);
    // Several in each iteration, or one in each of several.
    let (several, every) = match starts > turns {
        true => ((starts + turns - 1) / turns, 1),
        // What starts in the last iteration comes when the next one waits for it already.
        false if starts > 1 => (1, ((turns - 2) / (starts - 1)).max(1)),
        false => (1, turns.max(1)),
    };
    if every > 1 {
        let rest = now.modulo(&mut b, every);
        let turn = rest.compare(&mut b, CmpIPredicate::Eq, 0);
        b.at = guard(&mut b, turn);
    }
    let first = now.floor_div(&mut b, every).times(&mut b, several);
    let one = |b: &mut Builder<'_>, number: OpFoldResult| {
        let mut from = 0;
        for part in parts {
            let end = b.at;
            let at = number.minus(b, from);
            // Numbers before the part are large ones without a sign.
            let is_here = at.compare(b, CmpIPredicate::Ult, part.count);
            b.at = guard(b, is_here);
            let condition = b.ir.get::<If>(part.branch).map(|branch| branch.condition);
            if let Some(condition) = condition {
                b.at = guard(b, condition);
            }
            let mut map = Mapping::default();
            for (counter, index) in part.nest.iter().zip(indices(b, &part.nest, at)) {
                let index = index.value(b);
                map.map(counter.iv, index);
            }
            copy(b, &part.computed, &mut map);
            copy(b, &part.body, &mut map);
            b.at = end;
            from += part.count;
        }
    };
    match several {
        1 => one(&mut b, first),
        _ => {
            let _ = each(&mut b, several, |b, i: Value| {
                let number = first.plus(b, i);
                one(b, number);
                Ok(())
            });
        }
    }
}
