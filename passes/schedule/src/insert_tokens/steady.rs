//! Iterations of a loop that are as the ones before them: a run that leaves their work out.
//!
//! *Terms.* A value in a loop is **periodic** in it if, all other loops standing still, it is the
//! same `period` iterations later, but across some iterations, its **breaks** (a branch of the
//! first or last iteration); `values` tells which are. A loop is **steady** between two breaks if all that its units and its
//! thread touch, and the near side of all its transfers, is periodic: rings and slots are. Then
//! two iterations a period apart order their work alike.
//!
//! *What is left out.* The iterations of a steady part fall into four pieces:
//!
//! | piece | work of units and thread, transfers of free buffers | other transfers | hazards in near memory |
//! |---|---|---|---|
//! | the first: one period until all slots are in use, one more that is steady, and one iteration | runs | run | count |
//! | the middle | left out | run | do not count |
//! | after it, a period and [`HISTORY`] | runs | run | do not count |
//! | the last, a period and one | runs | run | count |
//!
//! A buffer in far memory is **free** if nothing need wait for what is done to it: it is only read, or one engine alone
//! does it, in its order.
//!
//! *Invariants.* All transfers of other buffers run, so who used far memory is known at every byte. A hazard in
//! near memory that does not count has a twin a period before that does: the same sites, the same
//! bytes, as many runs apart. An edge of the text fulfils both or neither, as it names a point and
//! how many runs ago. Behind the third piece all that is used last was used by what ran.

mod values;

use std::collections::{BTreeSet, HashMap, HashSet};

use tir::{Access, At, Interval, Ir, MemRefType, Name, OpId, Traits, Value};
use tir_accel::{DmaStart, MachineInfo, Ready};
use tir_arith::{CmpIPredicate, OpFoldResult, OrI};
use tir_loop::{For, If};
use tir_memref::alias::{Origin, accesses, origins};

use crate::index::{Counter, guard};

use values::{Values, lcm};

/// How many iterations beyond a period run before hazards count again: an edge that looks back
/// further finds older work than it will, and may not be taken.
const HISTORY: i64 = 3;
/// The most iterations of a loop that are looked at.
const MAX_TRIPS: i64 = 1 << 14;
/// The least iterations that are worth leaving out.
const LEAST: i64 = 2;

/// A function whose run leaves out what is as before.
pub(super) struct Steady {
    /// The function.
    pub ir: Ir,
    /// Ops behind whose runs hazards in near memory do not count for one loop more (`true`) or
    /// less.
    pub markers: Vec<(OpId, bool)>,
}

/// The pieces of a loop, by their first iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pieces {
    /// The first that is left out.
    middle: i64,
    /// The first that runs again.
    after: i64,
    /// The first whose hazards count again.
    last: i64,
}

impl Steady {
    /// The function at the root of an arena with branches around the work that is left out; `None`
    /// if none is, or if the function takes no more than `full` steps.
    pub(super) fn of(ir: &Ir, machine: &MachineInfo, full: u64) -> Option<Self> {
        if steps(ir) <= full {
            return None;
        }
        let loops = ir.walk_ids().into_iter().filter(|op| ir.is::<For>(*op));
        let loops: Vec<Counter> = loops.filter_map(|op| Counter::of(ir, op)).collect();
        let ranges: HashMap<Value, Interval> = loops
            .iter()
            .map(|c| {
                (
                    c.iv,
                    Interval::new(c.low, c.low + c.step * (c.trips - 1).max(0)),
                )
            })
            .collect();
        let mut steady = Self {
            ir: ir.clone(),
            markers: Vec::new(),
        };
        let kept = ordered_transfers(ir).into_iter();
        let kept = kept.map(|op| steady.ir.twin(op, ir)).collect();
        for counter in &loops {
            let known = Loop {
                ir,
                machine,
                counter,
                ranges: &ranges,
            };
            if let Some(pieces) = known.pieces() {
                steady.leave_out(ir, counter, pieces, &kept);
            }
        }
        (!steady.markers.is_empty()).then_some(steady)
    }

    /// Puts the work of the middle into branches, but for the transfers that are `kept`.
    fn leave_out(
        &mut self,
        original: &Ir,
        counter: &Counter,
        pieces: Pieces,
        kept: &HashSet<OpId>,
    ) {
        let op = self.ir.twin(counter.op, original);
        let Some(block) = self.ir.body_block(op, 0) else {
            return;
        };
        let work: Vec<OpId> = self.ir.ops_in(block).collect();
        let iv = OpFoldResult::Value(self.ir.twin_value(counter.iv, original));
        let index = |n: i64| counter.low + counter.step * n;
        let mut b = self.ir.at(At::Start(block));
        for (iteration, starts) in [(pieces.middle, true), (pieces.last, false)] {
            let there = iv.compare(&mut b, CmpIPredicate::Eq, index(iteration));
            let inside = guard(&mut b, there);
            let ready = b.ir.at(inside).add(Ready {});
            self.markers
                .extend(b.ir.owner(ready).map(|op| (op, starts)));
        }
        let before = iv.compare(&mut b, CmpIPredicate::Slt, index(pieces.middle));
        let after = iv.compare(&mut b, CmpIPredicate::Sge, index(pieces.after));
        let runs = b.add(OrI {
            lhs: before,
            rhs: after,
        });
        for op in work {
            wrap(&mut self.ir, op, runs, kept);
        }
    }
}

/// How often ops that do something are executed, loops of an unknown number of iterations taken
/// as none.
fn steps(ir: &Ir) -> u64 {
    let times = |op: OpId| {
        let around = std::iter::successors(ir.parent(op), |op| ir.parent(*op));
        let trips = around.filter_map(|op| Counter::of(ir, op).map(|c| c.trips));
        trips.fold(1u64, |n, trips| n.saturating_mul(trips.unsigned_abs()))
    };
    let work = ir.walk_ids().into_iter().filter(|op| *op != ir.root());
    let work = work.filter(|op| ir.regions(*op).len() == 0 && !ir.is_pure(*op));
    work.map(times).fold(0, u64::saturating_add)
}

/// Puts what an op does into branches that are taken if `runs` holds, but for the transfers that are `kept`.
fn wrap(ir: &mut Ir, op: OpId, runs: Value, kept: &HashSet<OpId>) {
    if ir.is_pure(op) && ir.regions(op).len() == 0 || ir.has(op, Traits::Terminator) {
        return;
    }
    let mut all = ir.walk_below(op).into_iter().chain([op]);
    if !all.any(|op| kept.contains(&op)) {
        let inside = guard(&mut ir.at(At::Before(op)), runs);
        ir.move_op(op, inside);
    } else if ir.regions(op).len() > 0 {
        let blocks = ir.regions(op).flat_map(|r| ir.blocks(r));
        let below: Vec<OpId> = blocks.flat_map(|b| ir.ops_in(b)).collect();
        for op in below {
            wrap(ir, op, runs, kept);
        }
    }
}

/// Whether an op is a transfer, or holds one.
fn transfers(ir: &Ir, op: OpId) -> bool {
    let below = ir.walk_below(op).into_iter();
    below.chain([op]).any(|op| ir.is::<DmaStart>(op))
}

/// Who accesses a buffer.
#[derive(Clone, Copy)]
struct Users {
    written: bool,
    /// The engine that alone does; `None` if others do too.
    engine: Option<Name>,
}

/// The transfers of buffers in far memory that are not free.
fn ordered_transfers(ir: &Ir) -> HashSet<OpId> {
    let mut users: HashMap<Origin, Users> = HashMap::new();
    let mut far = Vec::new();
    for op in ir.walk_ids().into_iter().filter(|op| *op != ir.root()) {
        let start = ir.get::<DmaStart>(op);
        let engine = start.as_ref().map(|start| start.engine.0);
        for (access, memref) in accesses(ir, op) {
            let written = !matches!(access, Access::Read | Access::Fetch | Access::Allocate);
            for origin in origins(ir, memref) {
                let all = users.entry(origin).or_insert(Users { written, engine });
                all.written |= written;
                all.engine = all.engine.filter(|name| Some(*name) == engine);
                if start.as_ref().is_some_and(|start| start.far == memref) {
                    far.push((op, origin));
                }
            }
        }
    }
    // What is called may write all that it can reach.
    let mut calls = ir.walk_ids().into_iter();
    if calls
        .any(|op| op != ir.root() && ir.effects(op).is_none() && !ir.has(op, Traits::Terminator))
    {
        let (written, engine) = (true, None);
        let reached = users
            .iter_mut()
            .filter(|(at, _)| !matches!(at, Origin::Allocated(_)));
        reached.for_each(|(_, users)| *users = Users { written, engine });
    }
    let is_free = |origin: Origin| {
        let same = users.iter().filter(|(other, _)| origin.may_be(**other));
        let same: Vec<&Users> = same.map(|(_, users)| users).collect();
        let alone = same
            .iter()
            .map(|users| users.engine)
            .reduce(|a, b| a.filter(|_| a == b));
        !same.iter().any(|users| users.written) || alone.flatten().is_some()
    };
    let held: HashSet<Origin> = users.keys().copied().filter(|o| !is_free(*o)).collect();
    let kept = far.into_iter().filter(|(_, origin)| held.contains(origin));
    kept.map(|(op, _)| op).collect()
}

struct Loop<'a> {
    ir: &'a Ir,
    machine: &'a MachineInfo,
    counter: &'a Counter,
    /// What the index of each loop takes.
    ranges: &'a HashMap<Value, Interval>,
}

impl Loop<'_> {
    /// The pieces of this loop, if it has a steady part that is worth it.
    fn pieces(&self) -> Option<Pieces> {
        let (ir, trips) = (self.ir, self.counter.trips);
        if trips > MAX_TRIPS || !transfers(ir, self.counter.op) {
            return None;
        }
        let (period, breaks) = self.steady()?;
        let ends = breaks.iter().copied().chain([trips]);
        let starts = [0].into_iter().chain(breaks.iter().copied());
        let (start, end) = starts.zip(ends).max_by_key(|(start, end)| end - start)?;
        let last = end - period - 1;
        let pieces = Pieces {
            middle: start + 2 * period + 1,
            after: last - period - HISTORY,
            last,
        };
        (pieces.after - pieces.middle >= LEAST).then_some(pieces)
    }

    /// The period and the breaks of all that the loop touches near; `None` if it has none.
    fn steady(&self) -> Option<(i64, BTreeSet<i64>)> {
        let ir = self.ir;
        let mut values = Values::new(ir, self.counter, self.ranges);
        let (mut period, mut breaks) = (1, BTreeSet::new());
        for op in ir.walk_below(self.counter.op) {
            let inner = ir.regions(op).len() > 0;
            if ir.is_pure(op) && !inner {
                values.look_at(op);
                continue;
            }
            let carries = ir.results(op).len() > 0 && ir.results(op).any(|v| !ir.is_unused(v));
            let ends = |e: &tir::Effect| {
                e.on.is_some() && matches!(e.access, Access::Allocate | Access::Free)
            };
            let effects = ir.effects(op);
            let holds = effects.is_none_or(|effects| effects.iter().any(ends));
            if carries || holds && !inner {
                return None;
            }
            if ir.is::<For>(op) {
                Counter::of(ir, op)?;
            } else if inner && !ir.is::<If>(op) {
                return None;
            }
            let transfer = ir.is::<DmaStart>(op);
            for value in ir.operands(op) {
                let ty = ir.ty(value);
                if ty.is::<MemRefType>() {
                    match self.is_far(value) {
                        true if transfer => continue,
                        true => return None,
                        false => {}
                    }
                } else if transfer || !ty.is_index() && !ir.is::<If>(op) {
                    // Where the far side lies, and data.
                    continue;
                }
                let (p, b) = values.periodic(value)?;
                period = lcm(period, p)?;
                breaks.extend(b);
            }
        }
        Some((period, breaks))
    }

    fn is_far(&self, memref: Value) -> bool {
        let space = self.ir.ty(memref).get::<MemRefType>();
        let space = space.and_then(MemRefType::space_name);
        let far = self.machine.far().map(|s| s.name);
        space.is_none() || space == far
    }
}
