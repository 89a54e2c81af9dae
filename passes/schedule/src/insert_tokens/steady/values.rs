//! What is known of a value by the iteration of a loop, all other loops standing still.
//!
//! *Terms.* A **sum** is a number for each iteration and a part that does not depend on it, its **rest**: a linear form of values that
//! stand still, where that is known. A value is **periodic** if it is the same a period later, but across **breaks**. A sum that takes
//! the same numbers again is periodic, too.
//!
//! *Invariants.* What is said holds for all values that the rest can take: a comparison or a quotient breaks wherever it may change for
//! one of them. `None` is what is not known; numbers that leave 64 bits are not.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tir::{Definition, Interval, Ir, OpId, Value};
use tir_arith::{AddI, CmpI, CmpIPredicate, DivUI, MulI, RemUI, SubI};

use crate::index::Counter;
use crate::range::is_narrow;

/// The longest period.
const MAX_PERIOD: i64 = 64;
/// The most breaks that one value may have.
const MAX_BREAKS: usize = 8;
/// The most values of what does not depend on the iteration that a test is tried for.
const MOST_PARTS: usize = 32;

/// What is known of the values in a loop.
pub(super) struct Values<'a> {
    ir: &'a Ir,
    counter: &'a Counter,
    /// What the index of each loop takes.
    ranges: &'a HashMap<Value, Interval>,
    /// Of the results of the ops that were looked at.
    known: HashMap<Value, Option<Known>>,
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

impl<'a> Values<'a> {
    /// Of the values in a loop, where the indices of all loops lie in `ranges`.
    pub(super) fn new(
        ir: &'a Ir,
        counter: &'a Counter,
        ranges: &'a HashMap<Value, Interval>,
    ) -> Self {
        let known = HashMap::new();
        Self {
            ir,
            counter,
            ranges,
            known,
        }
    }

    /// Looks at a pure op without regions in the loop; those that it takes values of come before it.
    pub(super) fn look_at(&mut self, op: OpId) {
        for value in self.ir.results(op) {
            self.known.insert(value, self.result(op));
        }
    }

    /// The period of a value, and its breaks: a break at `n` parts `n - 1` from `n`.
    pub(super) fn periodic(&self, value: Value) -> Option<(i64, BTreeSet<i64>)> {
        self.known(value)?.periodic()
    }

    fn known(&self, value: Value) -> Option<Known> {
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
        if let Some(found) = self.known.get(&value) {
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
    fn result(&self, op: OpId) -> Option<Known> {
        let ir = self.ir;
        let operands: Vec<Known> = ir
            .operands(op)
            .map(|v| self.known(v))
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
        // Numbers of few bits wrap.
        if ir.operands(op).any(|v| is_narrow(ir.ty(v))) {
            return None;
        }
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
pub(super) fn lcm(a: i64, b: i64) -> Option<i64> {
    let out = a / gcd(a, b).max(1) * b;
    (out <= MAX_PERIOD).then_some(out)
}
