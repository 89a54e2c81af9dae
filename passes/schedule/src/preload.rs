//! Loads of the next nest: started while the nest before it still computes.
//!
//! A *nest* is a loop of a function's own block with the loops in it. Its first tiles and what it
//! loads once stand before it; since queues are in order, and the thread runs only a few starts
//! ahead of a unit, those loads begin when the nest before is almost done. Here they move *into*
//! that nest, behind its own last loads: a branch in its innermost loop that loads is taken in one
//! iteration. Before that nest they would stand in front of its own first tiles.
//!
//! A load may move if
//! - nothing from the nest to the load may write what it reads,
//! - its buffer is allocated in the same block, and nothing before the load uses that buffer but
//!   loads that move too, which keep their order,
//! - what its operands are computed by can be computed there.
//!
//! The buffers live longer then: the caller drops loads where memory does not suffice.

use std::collections::{BTreeMap, HashSet};

use tir::{At, Diagnostic, Ir, Mapping, OpId, Value};
use tir_accel::MachineInfo;
use tir_arith::CmpIPredicate;
use tir_memory::liveness::{Buffer, liveness};
use tir_memref::alias::{Origin, aliases, origins};
use tir_memref::{Alloc, TransferRead};

use crate::index::{Counter, copy, guard, linear, total, writes};
use crate::insert_dma::filled;
use crate::multi_buffer::BUFFER;
use crate::prefetch::first_behind_loads;
use crate::staging::space;

/// How many iterations before the last of the loop that loads last they are started: in that one
/// the nest starts its own last loads, but for tiles that it fills when it comes to them.
const LEAD: i64 = 1;

/// Iterations of a nest that takes no loads, if the one before it has more: it is what that one left to do.
const REST: i64 = 2;

/// Says of a load that it is that of a first tile of a later nest, and whether it may move; others use other slots of
/// its buffer.
pub(crate) const FIRST: &str = "accel.first";

/// Whether a nest takes loads of what follows, and does not leave them to the one before.
pub(crate) fn takes_before(ir: &Ir, op: OpId) -> bool {
    site_of(ir, op).is_some_and(|site| total(&site.nest) > REST)
}

/// Where loads of what follows go in a nest.
pub(crate) struct Site {
    /// Its loops down to the one that loads last, outermost first.
    pub(crate) nest: Vec<Counter>,
    /// What may write memory, from the nest on.
    pub(crate) since: Vec<OpId>,
    /// The end of the branch, once there is one.
    end: Option<OpId>,
    /// Reads that were moved here.
    moved: HashSet<OpId>,
}

/// Moves loads of each nest of the function at the root of an arena into the nest before it,
/// but for those into a buffer with one of these numbers ([`BUFFER`]). Gives the numbers of the
/// buffers whose loads were moved.
pub(crate) fn preload(ir: &mut Ir, machine: &MachineInfo, without: &HashSet<i64>) -> Vec<i64> {
    let mut out = Vec::new();
    let root = ir.root();
    let blocks: Vec<_> = ir.regions(root).flat_map(|r| ir.blocks(r)).collect();
    for block in blocks {
        let mut site: Option<Site> = None;
        for op in ir.ops_in(block).collect::<Vec<_>>() {
            if ir.is::<TransferRead>(op)
                && ir.attr(op, FIRST) != Some(tir::Attr::bool(false))
                && let Some(site) = &mut site
                && let Some(plan) = Move::of(ir, op, site)
                && plan.buffer.is_none_or(|n| !without.contains(&n))
            {
                plan.apply(ir, machine, op, site);
                out.extend(plan.buffer);
                continue;
            }
            match site_of(ir, op) {
                // What a nest leaves to do in a few iterations takes none.
                Some(new) => match &mut site {
                    Some(site)
                        if total(&new.nest) <= REST
                            && total(&site.nest) > REST
                            && goes_on(ir, machine, &new.since, &site.since) =>
                    {
                        site.since.extend(new.since);
                    }
                    _ => site = Some(new),
                },
                None => {
                    if let Some(site) = &mut site {
                        site.since.extend(done(ir, op));
                    }
                }
            }
        }
    }
    for op in ir.walk_ids() {
        if ir.is::<TransferRead>(op) {
            ir.remove_attr(op, FIRST);
        }
    }
    out
}

/// Whether ops use near buffers of others: they go on with what those left there.
fn goes_on(ir: &Ir, machine: &MachineInfo, ops: &[OpId], others: &[OpId]) -> bool {
    let used = |ops: &[OpId]| {
        let mut all = HashSet::new();
        for op in ops {
            for effect in ir.effects(*op).iter().flatten() {
                for origin in effect.on.iter().flat_map(|value| origins(ir, *value)) {
                    if let Origin::Allocated(memref) = origin {
                        all.insert(memref);
                    }
                }
            }
        }
        all
    };
    let far = machine.far().map(|far| far.name);
    let near = |memref: &Value| space(ir, machine, *memref) != far;
    let before = used(others);
    used(ops)
        .iter()
        .any(|memref| near(memref) && before.contains(memref))
}

/// The place in the nest of a loop, if it and the loops in it that load last have known counts and
/// are run at all.
pub(crate) fn site_of(ir: &Ir, op: OpId) -> Option<Site> {
    let loads = |op: &OpId| {
        let below = ir.walk_below(*op);
        below.iter().any(|op| ir.is::<TransferRead>(*op))
    };
    let mut nest = vec![Counter::of(ir, op)?];
    while let Some(last) = nest.last() {
        let body = ir.body_block(last.op, 0)?;
        let inner = ir.ops_in(body).filter(|op| ir.is::<tir_loop::For>(*op));
        match inner.filter(loads).last() {
            Some(inner) => nest.push(Counter::of(ir, inner)?),
            None => break,
        }
    }
    if total(&nest) < 1 {
        return None;
    }
    Some(Site {
        nest,
        since: done(ir, op),
        end: None,
        moved: HashSet::new(),
    })
}

/// Whether an op does nothing but what the ops in it do.
pub(crate) fn is_around(ir: &Ir, op: OpId) -> bool {
    ir.has(op, tir::Traits::RecursiveEffects) && ir.own_effects(op).is_some_and(|e| e.is_empty())
}

/// What an op and those in it do: what a loop or a branch does is done by the ops in it.
pub(crate) fn done(ir: &Ir, op: OpId) -> Vec<OpId> {
    let plain = |op: &OpId| !is_around(ir, *op) && !ir.has(*op, tir::Traits::Terminator);
    let all = std::iter::once(op).chain(ir.walk_below(op));
    all.filter(plain).collect()
}

/// What moves with a load.
struct Move {
    /// The allocation of its buffer, if that stands behind the nest.
    alloc: Option<OpId>,
    /// The number of the buffer.
    buffer: Option<i64>,
    /// What computes its operands, behind the nest.
    computed: Vec<OpId>,
}

impl Move {
    fn of(ir: &Ir, read: OpId, site: &Site) -> Option<Self> {
        let record = ir.get::<TransferRead>(read)?;
        let block = ir.block_of(read)?;
        let nest = site.nest.first()?.op;
        let [Origin::Allocated(memref)] = origins(ir, record.tile)[..] else {
            return None;
        };
        let alloc = ir.owner(memref)?;
        if !ir.is::<Alloc>(alloc) || ir.block_of(alloc) != Some(block) {
            return None;
        }
        for value in aliases(ir, memref) {
            for u in ir.uses(value) {
                let at = ir.ancestor_in(u.op, block)?;
                let early = !ir.is_before(read, at) && at != read && !site.moved.contains(&u.op);
                if early && !ir.is_pure(u.op) && ir.attr(u.op, FIRST).is_none() {
                    return None;
                }
            }
        }
        let source = origins(ir, record.source);
        if site.since.iter().any(|op| writes(ir, *op, &source)) {
            return None;
        }
        let computed = computed_behind(ir, ir.operands(read), nest, alloc)?;
        Some(Self {
            alloc: ir.is_before(nest, alloc).then_some(alloc),
            buffer: ir.attr(alloc, BUFFER).and_then(tir::Attr::as_int),
            computed,
        })
    }

    fn apply(&self, ir: &mut Ir, machine: &MachineInfo, read: OpId, site: &mut Site) {
        if let Some(alloc) = self.alloc {
            ir.move_op(alloc, At::Before(site.nest[0].op));
        }
        let end = match site.end {
            Some(end) => end,
            None => {
                let Some(end) = branch(ir, machine, &site.nest) else {
                    return;
                };
                *site.end.insert(end)
            }
        };
        let mut map = Mapping::default();
        copy(&mut ir.at(At::Before(end)), &self.computed, &mut map);
        let operands: Vec<Value> = ir.operands(read).map(|v| map.get(v)).collect();
        ir.set_operands(read, &operands);
        ir.move_op(read, At::Before(end));
        site.moved.insert(read);
    }
}

/// What computes values from an op of a block on, in order; `None` if that does more than compute. The allocation
/// of a buffer may stand there.
pub(crate) fn computed_behind(
    ir: &Ir,
    values: impl Iterator<Item = Value>,
    nest: OpId,
    alloc: OpId,
) -> Option<Vec<OpId>> {
    let block = ir.block_of(nest)?;
    let mut computed = HashSet::new();
    let mut work: Vec<Value> = values.collect();
    while let Some(value) = work.pop() {
        let behind = |op: &OpId| ir.block_of(*op) == Some(block) && !ir.is_before(*op, nest);
        let Some(op) = ir.owner(value).filter(behind) else {
            continue;
        };
        if op == alloc {
            continue;
        }
        if !ir.is_pure(op) || ir.regions(op).len() > 0 {
            return None;
        }
        if computed.insert(op) {
            work.extend(ir.operands(op));
        }
    }
    let mut computed: Vec<OpId> = computed.into_iter().collect();
    computed.sort_by(|a, b| match ir.is_before(*a, *b) {
        true => std::cmp::Ordering::Less,
        false => std::cmp::Ordering::Greater,
    });
    Some(computed)
}

/// A branch behind the loads of the innermost loop of a nest, taken in the last iteration but
/// [`LEAD`]; gives its end.
fn branch(ir: &mut Ir, machine: &MachineInfo, nest: &[Counter]) -> Option<OpId> {
    let block = ir.body_block(nest.last()?.op, 0)?;
    // What fills a tile in an iteration is the last load of that one.
    let fills = ir.ops_in(block).any(|op| filled(ir, machine, op).is_some());
    let mut b = ir.at(At::Before(first_behind_loads(ir, block)?));
    let now = linear(&mut b, nest);
    let lead = if fills { 0 } else { LEAD };
    let taken = (total(nest) - 1 - lead).max(0);
    let condition = now.compare(&mut b, CmpIPredicate::Eq, taken);
    match guard(&mut b, condition) {
        At::Before(end) => Some(end),
        _ => None,
    }
}

/// Of the buffers with these numbers those without which the near spaces hold all that lives at
/// any time, the largest first; empty if they do.
pub(crate) fn too_much(
    ir: &Ir,
    machine: &MachineInfo,
    loaded: &HashSet<i64>,
) -> Result<HashSet<i64>, Diagnostic> {
    let number = |b: &Buffer| {
        let n = ir.attr(b.op, BUFFER).and_then(tir::Attr::as_int);
        n.filter(|n| loaded.contains(n))
    };
    let mut out = HashSet::new();
    for (space, buffers) in liveness(ir, machine)? {
        let capacity = machine.space(space).map_or(0, |s| s.bytes);
        let capacity = u64::try_from(capacity).unwrap_or(0);
        let size = |i: usize| buffers[i].bytes.next_multiple_of(buffers[i].align.max(1));
        // What starts and ends at a time; ranges are half-open, so what ends goes first.
        let mut events: BTreeMap<u64, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (i, buffer) in buffers.iter().enumerate() {
            for range in &buffer.live {
                events.entry(range.start).or_default().0.push(i);
                events.entry(range.end).or_default().1.push(i);
            }
        }
        let mut live: HashSet<usize> = HashSet::new();
        let mut bytes = 0;
        for (starts, ends) in events.values() {
            for i in ends {
                bytes -= if live.remove(i) { size(*i) } else { 0 };
            }
            for i in starts {
                let dropped = number(&buffers[*i]).is_some_and(|n| out.contains(&n));
                if !dropped && live.insert(*i) {
                    bytes += size(*i);
                }
            }
            while bytes > capacity {
                let movable = live
                    .iter()
                    .copied()
                    .filter(|i| number(&buffers[*i]).is_some());
                // Of equal ones the one that is allocated last: the result is that of every run.
                let Some(i) = movable.max_by_key(|i| (size(*i), buffers[*i].made)) else {
                    break;
                };
                live.remove(&i);
                bytes -= size(i);
                out.extend(number(&buffers[i]));
            }
        }
    }
    Ok(out)
}
