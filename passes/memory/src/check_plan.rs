//! `check-plan`: buffers of a planned function that live at the same time do not overlap.
//!
//! This shares nothing with the planner: no analysis of aliases, of the control-flow graph or of
//! liveness, only the interfaces of ops. Where the planner asks what may be used later, this runs
//! the function forwards on an abstract memory.
//!
//! A *buffer* here is a `memref.view` of a byte allocation; it begins anew, without content, each
//! time control comes to that op. The state at a point of the program says of each buffer whether
//! it may have been *written*, and whether another buffer that shares bytes with it may have been
//! written since: then it is *lost* to that one, until it begins anew. A read of a buffer that is
//! lost is an error, and so is an op that writes one buffer and accesses another at the same bytes.
//! A buffer that an op writes as a whole is lost no longer.
//! States join where ways meet, and ops run again until nothing changes: loops, branches and
//! nested regions are all edges of one graph.
//!
//! Which buffers a memref may be a view of follows from what ops hand on: to results, through
//! regions, to blocks. A memref result of an op that says nothing is a view of all its memref
//! operands.
//!
//! Work in flight is followed apart from this (`waits`): what is not reported there may still be wrong, as bytes may be used by
//! parts, and buffers chosen when the program runs.

mod bits;
mod moved;
mod places;
mod reachable;
mod waits;

use std::collections::{BTreeSet, HashMap};

use tir::interfaces::{
    RegionEdge, RegionPoint, overwritten, region_edges, successor_edges, taken_edges,
};
use tir::{Access, Diagnostic, Effect, Ir, MemRefType, OpId, Traits, Type, Value};
use tir_accel::MachineInfo;
use tir_memref::alias::ViewFlow;

use places::{Placed, places, together};

/// All that is wrong with the plan of the function at the root of an arena.
pub fn check_plan(ir: &Ir, machine: &MachineInfo) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    let all = places(ir, machine, &mut out);
    out.extend(together(ir, machine, &all));
    let (pairs, early) = conflicts(ir, machine, &all);
    for (a, b) in pairs {
        let (x, y) = (&all[a], &all[b]);
        let name = |p: &Placed| {
            ir.hint(p.view)
                .map_or("a buffer".to_string(), |h| format!("%{h}"))
        };
        let (from, to) = (x.from.max(y.from), x.to.min(y.to));
        let text = format!(
            "{} and {} live at the same time and share bytes {from} to {to}",
            name(x),
            name(y)
        );
        out.push(
            Diagnostic::error(text)
                .at(ir.loc(y.op))
                .note_at(ir.loc(x.op), "the other is here"),
        );
    }
    for one in early {
        let (buffer, user) = (&all[one.buffer], one.user);
        let name = ir.hint(buffer.view);
        let name = name.map_or("a buffer".to_string(), |h| format!("%{h}"));
        let (from, to) = (buffer.from, buffer.to);
        let text = format!(
            "uses bytes of {name}, at {from} to {to}, before the work on it has ended: no wait, token or queue comes between"
        );
        let started = Diagnostic::error(text).at(ir.loc(user));
        out.push(started.note_at(ir.loc(one.work), "the work is started here"));
    }
    out
}

/// What is known of the bytes of each buffer at a point of the program.
#[derive(Clone, PartialEq, Eq)]
struct State {
    /// Whether it may have been written since it began.
    written: Vec<bool>,
    /// A buffer that may have been written over it since; the one of the smallest number.
    lost_to: Vec<Option<usize>>,
}

impl State {
    /// Takes in what is known on another way to the same point; whether that was new.
    fn join(&mut self, other: &State) -> bool {
        let before = self.clone();
        for (mine, theirs) in self.written.iter_mut().zip(&other.written) {
            *mine |= theirs;
        }
        for (mine, theirs) in self.lost_to.iter_mut().zip(&other.lost_to) {
            *mine = match (*mine, *theirs) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        *self != before
    }
}

/// Pairs of buffers that live at the same time and share bytes, in the order of the text; and ops that use bytes of work in flight.
fn conflicts(
    ir: &Ir,
    machine: &MachineInfo,
    all: &[Placed],
) -> (BTreeSet<(usize, usize)>, BTreeSet<waits::TooEarly>) {
    let ops = ir.walk_ids();
    let order: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, op)| (*op, i)).collect();
    let mut run = Checker {
        ir,
        all,
        begins: all.iter().enumerate().map(|(i, p)| (p.op, i)).collect(),
        behind: points_to(ir, all, &ops),
        bad: BTreeSet::new(),
    };
    let entry = ir.body_block(ir.root(), 0).and_then(|b| ir.first(b));
    let Some(entry) = entry else {
        return (run.bad, BTreeSet::new());
    };
    let start = State {
        written: vec![false; all.len()],
        lost_to: vec![None; all.len()],
    };
    let mut states: HashMap<OpId, State> = HashMap::from([(entry, start)]);
    let mut work = BTreeSet::from([(order[&entry], entry)]);
    while let Some((_, first)) = work.pop_first() {
        let (mut op, mut state) = (first, states[&first].clone());
        loop {
            run.op(op, &mut state);
            let next = successors(ir, op);
            // Nothing else leads to what stands behind an op without regions.
            if let [one] = next[..]
                && ir.prev(one) == Some(op)
                && ir.regions(op).len() == 0
            {
                op = one;
                continue;
            }
            for one in next {
                let new = match states.get_mut(&one) {
                    Some(known) => known.join(&state),
                    None => {
                        states.insert(one, state.clone());
                        true
                    }
                };
                if new {
                    work.insert((order[&one], one));
                }
            }
            break;
        }
    }
    let early = waits::too_early(&run, machine, &ops);
    (run.bad, early)
}

/// The ops that may run next.
fn successors(ir: &Ir, op: OpId) -> Vec<OpId> {
    let mut out = Vec::new();
    if ir.regions(op).len() > 0 {
        leave(ir, op, RegionPoint::Parent, &mut out);
    } else if ir.successors(op).len() > 0 {
        out.extend(ir.successors(op).filter_map(|block| ir.first(block)));
    } else {
        behind(ir, op, &mut out);
    }
    out
}

/// What runs when an op is done.
fn behind(ir: &Ir, op: OpId, out: &mut Vec<OpId>) {
    if let Some(next) = ir.next(op) {
        out.push(next);
        return;
    }
    let region = ir.block_of(op).and_then(|block| ir.region_of(block));
    let holder = ir.parent(op).filter(|holder| *holder != ir.root());
    if let (Some(region), Some(holder)) = (region, holder) {
        let index = ir.regions(holder).position(|r| r == region);
        let index = index.unwrap_or_default();
        leave(ir, holder, RegionPoint::Region(index), out);
    }
}

/// What runs when control is at a point of an op with regions.
fn leave(ir: &Ir, op: OpId, from: RegionPoint, out: &mut Vec<OpId>) {
    for edge in taken_edges(ir, op, &|_| false) {
        if edge.from != from {
            continue;
        }
        match edge.to {
            RegionPoint::Parent => behind(ir, op, out),
            RegionPoint::Region(index) => {
                let region = ir.regions(op).nth(index);
                let entry = region.and_then(|region| ir.entry(region));
                out.extend(entry.and_then(|block| ir.first(block)));
            }
        }
    }
}

/// The planned buffers that each memref may be a view of.
fn points_to(ir: &Ir, all: &[Placed], ops: &[OpId]) -> HashMap<Value, BTreeSet<usize>> {
    let mut out: HashMap<Value, BTreeSet<usize>> = HashMap::new();
    for (index, placed) in all.iter().enumerate() {
        out.insert(placed.view, BTreeSet::from([index]));
    }
    hand_on(&mut out, &handed(ir, ops));
    out
}

/// Pairs of memrefs of which the first may be handed on as the second.
fn handed(ir: &Ir, ops: &[OpId]) -> Vec<(Value, Value)> {
    let memref = |ty: Type| ty.is::<MemRefType>();
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    for op in ops {
        for edge in region_edges_of(ir, *op) {
            pairs.extend(edge.values);
        }
        for (_, values) in successor_edges(ir, *op, &memref) {
            pairs.extend(values);
        }
        let known = ir.info(*op).and_then(|i| i.interface::<dyn ViewFlow>());
        if let Some(own) = known.and_then(|known| known.aliases(ir, *op)) {
            pairs.extend(own);
        } else if ir.regions(*op).len() == 0 {
            let operands = ir.operands(*op).filter(|v| memref(ir.ty(*v)));
            for operand in operands {
                let results = ir.results(*op).filter(|v| memref(ir.ty(*v)));
                pairs.extend(results.map(|result| (operand, result)));
            }
        }
    }
    pairs
}

/// Adds what values stand for to all that they are handed on to, until nothing is new.
fn hand_on<T: Ord + Clone>(known: &mut HashMap<Value, BTreeSet<T>>, pairs: &[(Value, Value)]) {
    let mut changed = true;
    while changed {
        changed = false;
        for (from, to) in pairs {
            let Some(given) = known.get(from).cloned() else {
                continue;
            };
            let taken = known.entry(*to).or_default();
            let before = taken.len();
            taken.extend(given);
            changed |= taken.len() != before;
        }
    }
}

fn region_edges_of(ir: &Ir, op: OpId) -> Vec<RegionEdge> {
    match ir.regions(op).len() {
        0 => Vec::new(),
        _ => region_edges(ir, op, &|ty| ty.is::<MemRefType>()),
    }
}

/// The run over all states.
struct Checker<'a> {
    ir: &'a Ir,
    all: &'a [Placed],
    begins: HashMap<OpId, usize>,
    behind: HashMap<Value, BTreeSet<usize>>,
    bad: BTreeSet<(usize, usize)>,
}

impl Checker<'_> {
    /// What an op reads and writes itself: operands, by their number.
    fn touches(&self, op: OpId) -> Vec<(Value, bool, bool)> {
        let ir = self.ir;
        let all = |read, write| {
            let operands = ir.operands(op).filter(|v| self.behind.contains_key(v));
            operands.map(|v| (v, read, write)).collect()
        };
        let returns = ir.has(op, Traits::ReturnLike) && ir.parent(op) == Some(ir.root());
        if returns {
            return all(true, false);
        }
        match ir.own_effects(op) {
            Some(effects) if effects.iter().all(|e| e.on.is_some()) => {
                let one = |e: &Effect| {
                    let (read, write) = (e.access == Access::Read, e.access == Access::Write);
                    Some((e.on?, read, write)).filter(|_| read || write)
                };
                effects.iter().filter_map(one).collect()
            }
            _ => all(true, true),
        }
    }

    fn op(&mut self, op: OpId, state: &mut State) {
        if let Some(new) = self.begins.get(&op) {
            state.written[*new] = false;
            state.lost_to[*new] = None;
            return;
        }
        let none = BTreeSet::new();
        let touches = self.touches(op);
        let behind = |value: &Value| self.behind.get(value).unwrap_or(&none);
        let mut bad = Vec::new();
        // An op does not say in which order it accesses its operands.
        for (i, (a, _, write_a)) in touches.iter().enumerate() {
            for (b, _, write_b) in &touches[i + 1..] {
                if a == b || !(*write_a || *write_b) {
                    continue;
                }
                for x in behind(a) {
                    let over = behind(b).iter().filter(|y| self.overlap(*x, **y));
                    bad.extend(over.map(|y| (*x, *y)));
                }
            }
        }
        for (value, read, _) in &touches {
            if *read {
                let lost = behind(value).iter();
                bad.extend(lost.filter_map(|x| Some((*x, state.lost_to[*x]?))));
            }
        }
        for (value, _, write) in &touches {
            if !write {
                continue;
            }
            for x in behind(value) {
                for y in 0..self.all.len() {
                    if state.written[y] && self.overlap(*x, y) {
                        let other = state.lost_to[y].map_or(*x, |z| z.min(*x));
                        state.lost_to[y] = Some(other);
                    }
                }
            }
            behind(value).iter().for_each(|x| state.written[*x] = true);
        }
        for value in overwritten(self.ir, op) {
            // The buffer itself and no part of it.
            let owner = self.ir.owner(value);
            if let Some(whole) = owner.and_then(|op| self.begins.get(&op)) {
                state.lost_to[*whole] = None;
            }
        }
        let sorted = bad.into_iter().map(|(x, y)| (x.min(y), x.max(y)));
        self.bad.extend(sorted);
    }

    fn overlap(&self, x: usize, y: usize) -> bool {
        let (a, b) = (&self.all[x], &self.all[y]);
        x != y && a.arena == b.arena && a.from < b.to && b.from < a.to
    }
}
