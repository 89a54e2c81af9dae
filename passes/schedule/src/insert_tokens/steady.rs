//! Iterations of a loop that are as the ones before them: a run that leaves their work out.
//!
//! *Terms.* A value in a loop is **periodic** in it if, all other loops standing still, it is the
//! same `period` iterations later, but across some iterations, its **breaks** (a branch of the
//! first or last iteration). A loop is **steady** between two breaks if all that its units and its
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

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tir::{Access, At, Definition, Interval, Ir, MemRefType, Name, OpId, Traits, Value};
use tir_accel::{DmaStart, MachineInfo, Ready};
use tir_arith::{AddI, CmpI, CmpIPredicate, DivUI, MulI, OpFoldResult, OrI, RemUI, SubI};
use tir_loop::{For, If};
use tir_memref::alias::{Origin, accesses, origins};

use crate::index::{Counter, guard};

/// How many iterations beyond a period run before hazards count again: an edge that looks back
/// further finds older work than it will, and may not be taken.
const HISTORY: i64 = 3;
/// The longest period.
const MAX_PERIOD: i64 = 64;
/// The most iterations of a loop that are looked at.
const MAX_TRIPS: i64 = 1 << 14;
/// The most breaks that one value may have.
const MAX_BREAKS: usize = 8;
/// The most values of what does not depend on the iteration that a test is tried for.
const MOST_PARTS: usize = 32;
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

/// What is known of a value by the iteration of a loop, all other loops standing still.
#[derive(Clone, Debug)]
enum Known {
    /// A sum: for each iteration a number, and a part that does not depend on it.
    Sum(Sum),
    /// The same a period later, but across breaks: a break at `n` parts `n - 1` from `n`.
    Periodic(i64, BTreeSet<i64>),
}

#[derive(Clone, Debug)]
struct Sum {
    own: Vec<i64>,
    /// The part that does not depend on the iteration, as a linear form; `None` if it is none.
    rest: Option<BTreeMap<Value, i64>>,
    /// Where the whole lies.
    range: Option<Interval>,
}

impl Sum {
    /// The difference of neighbours, if it is always the same.
    fn slope(&self) -> Option<i64> {
        let mut steps = self.own.windows(2).map(|w| w[1].checked_sub(w[0]));
        let first = steps.next().unwrap_or(Some(0))?;
        steps.all(|step| step == Some(first)).then_some(first)
    }
    fn is_constant(&self) -> bool {
        self.slope() == Some(0)
    }
    fn is_not_negative(&self) -> bool {
        self.range.is_some_and(|r| r.low >= 0)
    }
    /// Whether the part that does not depend on the iteration is a multiple of a number.
    fn rest_divides(&self, by: i64) -> bool {
        let terms = self.rest.as_ref();
        terms.is_some_and(|terms| terms.values().all(|c| c % by == 0))
    }
}

/// Iterations at which the values of a list change.
fn changes<T: PartialEq>(values: &[T]) -> BTreeSet<i64> {
    let at = (1..values.len()).filter(|i| values[*i] != values[i - 1]);
    at.map(|i| i as i64).collect()
}

impl Known {
    fn periodic(self) -> Option<(i64, BTreeSet<i64>)> {
        let sum = match self {
            Known::Periodic(period, breaks) => return Some((period, breaks)),
            Known::Sum(sum) => sum,
        };
        let breaks = changes(&sum.own);
        if breaks.len() <= MAX_BREAKS {
            return Some((1, breaks));
        }
        let own = &sum.own;
        let repeats = |p: &i64| own[*p as usize..].iter().zip(own).all(|(a, b)| a == b);
        let most = MAX_PERIOD.min(own.len() as i64 / 2);
        let period = (2..=most).find(repeats)?;
        Some((period, BTreeSet::new()))
    }
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
        let mut known: HashMap<Value, Option<Known>> = HashMap::new();
        let (mut period, mut breaks) = (1, BTreeSet::new());
        for op in ir.walk_below(self.counter.op) {
            let inner = ir.regions(op).len() > 0;
            if ir.is_pure(op) && !inner {
                for value in ir.results(op) {
                    known.insert(value, self.result(op, &known));
                }
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
                let (p, b) = self.known(value, &known)?.periodic()?;
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

    fn known(&self, value: Value, known: &HashMap<Value, Option<Known>>) -> Option<Known> {
        let trips = self.counter.trips;
        let all = |n: i64| vec![n; trips as usize];
        if value == self.counter.iv {
            let index = |n: i64| Some(self.counter.low + self.counter.step.checked_mul(n)?);
            return Some(Known::Sum(Sum {
                own: (0..trips).map(index).collect::<Option<_>>()?,
                rest: Some(BTreeMap::new()),
                range: self.ranges.get(&value).copied(),
            }));
        }
        if let Some(n) = self.ir.constant_int(value) {
            return Some(Known::Sum(Sum {
                own: all(n),
                rest: Some(BTreeMap::new()),
                range: Some(Interval::point(n)),
            }));
        }
        if let Some(found) = known.get(&value) {
            return found.clone();
        }
        // From outside, or the index of a loop in this one: it stands still.
        let outside = match self.ir.definition(value) {
            Definition::Result(op, _) => !self.ir.is_below(op, self.counter.op),
            Definition::Argument(block, _) => {
                let by = self.ir.block_parent(block);
                let own = by == Some(self.counter.op);
                let inside = by.is_some_and(|by| self.ir.is_below(by, self.counter.op));
                !own && (!inside || self.ranges.contains_key(&value))
            }
        };
        outside.then(|| {
            Known::Sum(Sum {
                own: all(0),
                rest: Some(BTreeMap::from([(value, 1)])),
                range: self.ranges.get(&value).copied(),
            })
        })
    }

    /// What is known of the result of a pure op.
    fn result(&self, op: OpId, known: &HashMap<Value, Option<Known>>) -> Option<Known> {
        let ir = self.ir;
        let operands: Vec<Known> = ir
            .operands(op)
            .map(|v| self.known(v, known))
            .collect::<Option<_>>()?;
        let still = |k: &Known| matches!(k, Known::Sum(sum) if sum.is_constant());
        if let [Known::Sum(a), Known::Sum(b)] = &operands[..]
            && let Some(sum) = self.arithmetic(op, a, b)
        {
            return Some(sum);
        }
        // Any function of values that stand still, or are periodic, is so too.
        if operands.iter().all(still) && ir.results(op).len() == 1 {
            return Some(Known::Sum(Sum {
                own: vec![0; self.counter.trips as usize],
                rest: Some(BTreeMap::from([(ir.result(op, 0), 1)])),
                range: None,
            }));
        }
        let (mut period, mut breaks) = (1, BTreeSet::new());
        for operand in operands {
            let (p, b) = operand.periodic()?;
            period = lcm(period, p)?;
            breaks.extend(b);
        }
        Some(Known::Periodic(period, breaks))
    }

    /// What is known of an operation on integers, as a sum or as what its form makes periodic.
    fn arithmetic(&self, op: OpId, a: &Sum, b: &Sum) -> Option<Known> {
        let ir = self.ir;
        let number = |sum: &Sum| {
            let alone = sum.rest.as_ref().is_some_and(BTreeMap::is_empty);
            sum.own
                .first()
                .copied()
                .filter(|_| alone && sum.is_constant())
        };
        if ir.is::<AddI>(op) {
            return Some(Known::Sum(combine(a, b, 1)?));
        } else if ir.is::<SubI>(op) {
            return Some(Known::Sum(combine(a, b, -1)?));
        } else if ir.is::<MulI>(op) {
            let (sum, n) = number(b).map(|n| (a, n)).or(number(a).map(|n| (b, n)))?;
            let own = sum.own.iter().map(|x| x.checked_mul(n));
            return Some(Known::Sum(Sum {
                own: own.collect::<Option<_>>()?,
                rest: scaled(&sum.rest, |c| c.checked_mul(n)),
                range: sum.range.and_then(|r| r.times(Interval::point(n))),
            }));
        } else if let Some(cmp) = ir.get::<CmpI>(op) {
            return self.comparison(cmp.predicate, &combine(a, b, -1)?, a, b);
        }
        let by = number(b).filter(|n| *n > 0 && a.is_not_negative())?;
        if ir.is::<DivUI>(op) {
            let range = a.range.map(|r| Interval::new(r.low / by, r.high / by));
            if a.rest_divides(by) {
                return Some(Known::Sum(Sum {
                    own: a.own.iter().map(|x| x.div_euclid(by)).collect(),
                    rest: scaled(&a.rest, |c| Some(c / by)),
                    range,
                }));
            }
            let Some(slope) = a.slope().filter(|slope| slope % by == 0) else {
                return self.quotient(a, by);
            };
            let own = (0..self.counter.trips).map(|n| (slope / by).checked_mul(n));
            Some(Known::Sum(Sum {
                own: own.collect::<Option<_>>()?,
                rest: None,
                range,
            }))
        } else if ir.is::<RemUI>(op) {
            if a.rest_divides(by) {
                return Some(Known::Sum(Sum {
                    own: a.own.iter().map(|x| x.rem_euclid(by)).collect(),
                    rest: Some(BTreeMap::new()),
                    range: Some(Interval::new(0, by - 1)),
                }));
            }
            let slope = a.slope()?;
            Some(Known::Periodic(by / gcd(by, slope), BTreeSet::new()))
        } else {
            None
        }
    }

    /// A comparison of two sums, by their difference: where it changes for any value of the part
    /// that does not depend on the iteration.
    fn comparison(
        &self,
        predicate: CmpIPredicate,
        difference: &Sum,
        a: &Sum,
        b: &Sum,
    ) -> Option<Known> {
        use CmpIPredicate as P;
        let unsigned = matches!(predicate, P::Ult | P::Ule | P::Ugt | P::Uge);
        if unsigned && !(a.is_not_negative() && b.is_not_negative()) {
            return None;
        }
        let holds = |d: i64| match predicate {
            P::Eq => d == 0,
            P::Ne => d != 0,
            P::Slt | P::Ult => d < 0,
            P::Sle | P::Ule => d <= 0,
            P::Sgt | P::Ugt => d > 0,
            P::Sge | P::Uge => d >= 0,
        };
        let breaks = self.signs(difference, holds)?;
        Some(Known::Periodic(1, breaks))
    }

    /// What is known of the quotient of a sum that takes few values: it changes where the sum reaches a multiple.
    fn quotient(&self, sum: &Sum, by: i64) -> Option<Known> {
        let range = sum.range?;
        let (least, most) = (range.low / by, range.high / by);
        if most - least > MAX_BREAKS as i64 {
            return None;
        }
        let mut breaks = BTreeSet::new();
        for multiple in least + 1..=most {
            let mut beyond = sum.clone();
            for own in &mut beyond.own {
                *own = own.checked_sub(multiple * by)?;
            }
            breaks.extend(self.signs(&beyond, |d| d >= 0)?);
        }
        (breaks.len() <= MAX_BREAKS).then_some(Known::Periodic(1, breaks))
    }

    /// Where the outcome of a test, which depends on the sign of a sum alone, changes for any value of the part that does
    /// not depend on the iteration; `None` if in too many places.
    fn signs(&self, sum: &Sum, holds: impl Fn(i64) -> bool + Copy) -> Option<BTreeSet<i64>> {
        // The part takes values between two, that many apart.
        let (mut low, mut high, mut apart) = (0i64, 0i64, 0i64);
        for (value, factor) in sum.rest.as_ref()? {
            let range = self.ranges.get(value)?;
            let step = self.step_of(*value)?;
            let ends = [
                range.low.checked_mul(*factor)?,
                range.high.checked_mul(*factor)?,
            ];
            low = low.checked_add(ends[0].min(ends[1]))?;
            high = high.checked_add(ends[0].max(ends[1]))?;
            apart = gcd(apart, step.checked_mul(*factor)?);
        }
        let (least, most) = (sum.own.iter().min()?, sum.own.iter().max()?);
        let mut breaks = BTreeSet::new();
        let mut part = low;
        let apart = apart.max(1);
        // Only where the sum may be about zero does the outcome depend on the iteration.
        let from = most.checked_neg()?.checked_sub(1)?;
        if part < from {
            part += (from - part).div_euclid(apart) * apart;
        }
        let mut seen = 0;
        while part <= high && part <= least.checked_neg()?.checked_add(1)? {
            seen += 1;
            if seen > MOST_PARTS {
                return None;
            }
            let outcome: Vec<bool> = sum
                .own
                .iter()
                .map(|d| d.checked_add(part).map(holds))
                .collect::<Option<_>>()?;
            breaks.extend(changes(&outcome));
            part = part.checked_add(apart)?;
        }
        (breaks.len() <= MAX_BREAKS).then_some(breaks)
    }

    fn step_of(&self, iv: Value) -> Option<i64> {
        let Definition::Argument(block, 0) = self.ir.definition(iv) else {
            return None;
        };
        Counter::of(self.ir, self.ir.block_parent(block)?).map(|c| c.step)
    }
}

/// `a + sign * b`.
fn combine(a: &Sum, b: &Sum, sign: i64) -> Option<Sum> {
    let one = |(x, y): (&i64, &i64)| x.checked_add(y.checked_mul(sign)?);
    let own = a.own.iter().zip(&b.own).map(one).collect::<Option<_>>()?;
    let rest = match (&a.rest, &b.rest) {
        (Some(x), Some(y)) => {
            let mut rest = x.clone();
            for (value, factor) in y {
                let sum = rest.entry(*value).or_default();
                *sum = sum.checked_add(factor.checked_mul(sign)?)?;
            }
            rest.retain(|_, factor| *factor != 0);
            Some(rest)
        }
        _ => None,
    };
    let range = match (a.range, b.range) {
        (Some(x), Some(y)) if sign > 0 => x.plus(y),
        (Some(x), Some(y)) => x.minus(y),
        _ => None,
    };
    Some(Sum { own, rest, range })
}

fn scaled(
    rest: &Option<BTreeMap<Value, i64>>,
    scale: impl Fn(i64) -> Option<i64>,
) -> Option<BTreeMap<Value, i64>> {
    let terms = rest.as_ref()?.iter();
    terms.map(|(value, c)| Some((*value, scale(*c)?))).collect()
}

fn gcd(a: i64, b: i64) -> i64 {
    i64::try_from(tir_machine::gcd(a.unsigned_abs(), b.unsigned_abs())).unwrap_or(1)
}

/// The least common multiple, if it is no longer than a period may be.
fn lcm(a: i64, b: i64) -> Option<i64> {
    let out = a / gcd(a, b).max(1) * b;
    (out <= MAX_PERIOD).then_some(out)
}
