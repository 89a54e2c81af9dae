//! Indices as linear forms of other values: which values they take, how they grow with a loop, and
//! whether a tile lies inside of its source.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use tir::{Interval, Ir, LinearExpr, OpId, Type, Value};
use tir_arith::{
    AddI, AndI, CmpI, CmpIPredicate, DivUI, MaxSI, MinSI, MulI, OpFoldResult, OrI, RemUI, SubI,
};
use tir_loop::If;

use crate::index::Counter;

/// A linear form of values: iterator `i` of the form is the leaf `i`.
struct Form {
    leaves: Vec<Value>,
    expr: LinearExpr,
}

impl Form {
    /// Sums, differences and products with numbers are followed; anything else is a leaf. `None`
    /// if a number leaves 64 bits.
    fn of(ir: &Ir, value: Value) -> Option<Self> {
        let mut leaves = Vec::new();
        let expr = linear(ir, value, &mut leaves)?;
        Some(Self { leaves, expr })
    }
    /// Leaves with a part in the form, and their coefficients.
    fn terms(&self) -> impl Iterator<Item = (Value, i64)> {
        self.expr.terms().map(|(d, c)| (self.leaves[d], c))
    }
}

/// Whether sums of a type may wrap where those of indices do not: it has few bits.
pub(crate) fn is_narrow(ty: Type) -> bool {
    !ty.is_index() && ty.bits().is_none_or(|bits| bits < 64)
}

/// What a value is in a linear form.
enum Part {
    Number(i64),
    /// The sum of the first one and so many times the second one.
    Sum(Value, Value, i64),
    Times(i64, Value),
    Leaf,
}

impl Part {
    fn of(ir: &Ir, value: Value) -> Self {
        if let Some(n) = ir.constant_int(value) {
            return Part::Number(n);
        }
        if is_narrow(ir.ty(value)) {
            return Part::Leaf;
        }
        if let Some(sum) = ir.def::<AddI>(value) {
            return Part::Sum(sum.lhs, sum.rhs, 1);
        }
        if let Some(sum) = ir.def::<SubI>(value) {
            return Part::Sum(sum.lhs, sum.rhs, -1);
        }
        let product = ir.def::<MulI>(value);
        let factors = product.map_or([None; 2], |p| [Some((p.lhs, p.rhs)), Some((p.rhs, p.lhs))]);
        let mut factors = factors.into_iter().flatten();
        let times = factors.find_map(|(n, other)| Some(Part::Times(ir.constant_int(n)?, other)));
        times.unwrap_or(Part::Leaf)
    }

    /// The values that it is made of.
    fn operands(&self) -> impl DoubleEndedIterator<Item = Value> {
        let two = match *self {
            Part::Sum(a, b, _) => [Some(a), Some(b)],
            Part::Times(_, a) => [Some(a), None],
            Part::Number(_) | Part::Leaf => [None; 2],
        };
        two.into_iter().flatten()
    }
}

/// The linear form of a value, whose new leaves come behind those that are there. However often a value is used, and however
/// long a sum is, each part is looked at once.
pub(crate) fn linear(ir: &Ir, value: Value, leaves: &mut Vec<Value>) -> Option<LinearExpr> {
    // What a value is made of stands behind it, once the order is reversed.
    let mut order: Vec<(Value, Part)> = Vec::new();
    let mut seen = HashSet::new();
    let mut work = vec![(value, None)];
    while let Some((value, left)) = work.pop() {
        if let Some(part) = left {
            order.push((value, part));
            continue;
        }
        if !seen.insert(value) {
            continue;
        }
        let part = Part::of(ir, value);
        let parts: Vec<Value> = part.operands().rev().collect();
        work.push((value, Some(part)));
        work.extend(parts.into_iter().map(|v| (v, None)));
    }
    // Leaves in the order in which they are read.
    for (value, part) in &order {
        if matches!(part, Part::Leaf) && !leaves.contains(value) {
            leaves.push(*value);
        }
    }
    let mut counts: HashMap<Value, i64> = HashMap::from([(value, 1)]);
    let mut found = LinearExpr::number(0);
    for (value, part) in order.into_iter().rev() {
        let count = counts.get(&value).copied().unwrap_or(0);
        let mut add = |value: Value, n: i64| {
            let all = counts.entry(value).or_insert(0);
            *all = all.checked_add(count.checked_mul(n)?)?;
            Some(())
        };
        match part {
            Part::Number(n) => found = found.plus(&LinearExpr::number(n), count)?,
            Part::Sum(a, b, n) => {
                add(a, 1)?;
                add(b, n)?;
            }
            Part::Times(n, other) => add(other, n)?,
            Part::Leaf => {
                let leaf = leaves.iter().position(|leaf| *leaf == value)?;
                found = found.plus(&LinearExpr::dim(leaf), count)?;
            }
        }
    }
    Some(found)
}

/// What the branches around an op say of indices there: sums of values that lie in an interval.
#[derive(Clone, Debug, Default)]
pub struct Facts(Vec<Fact>);

/// A sum of values with coefficients, and what bounds it.
#[derive(Clone, Debug)]
struct Fact {
    terms: Vec<(Value, i64)>,
    range: Bounds,
}

/// The lowest and the highest value, as far as each is known.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    low: Option<i64>,
    high: Option<i64>,
}

impl Bounds {
    fn point(n: i64) -> Self {
        Interval::point(n).into()
    }
    fn plus(self, other: Self) -> Self {
        let sum = |a: Option<i64>, b: Option<i64>| a?.checked_add(b?);
        Self {
            low: sum(self.low, other.low),
            high: sum(self.high, other.high),
        }
    }
    fn times(self, n: i64) -> Self {
        let (a, b) = match n {
            0 => return Self::point(0),
            n if n > 0 => (self.low, self.high),
            _ => (self.high, self.low),
        };
        Self {
            low: a.and_then(|a| a.checked_mul(n)),
            high: b.and_then(|b| b.checked_mul(n)),
        }
    }
    /// What lies in both.
    fn and(self, other: Self) -> Self {
        let both = |a: Option<i64>, b: Option<i64>, tight: fn(i64, i64) -> i64| match (a, b) {
            (Some(a), Some(b)) => Some(tight(a, b)),
            (a, b) => a.or(b),
        };
        Self {
            low: both(self.low, other.low, i64::max),
            high: both(self.high, other.high, i64::min),
        }
    }
    /// The numbers whose products with `n` lie in it.
    fn over(self, n: i64) -> Self {
        let (low, high) = match n {
            n if n > 0 => (self.low, self.high),
            _ => (
                self.high.and_then(i64::checked_neg),
                self.low.and_then(i64::checked_neg),
            ),
        };
        let n = n.saturating_abs().max(1);
        Self {
            low: low.map(|l| l.div_euclid(n) + i64::from(l.rem_euclid(n) != 0)),
            high: high.map(|h| h.div_euclid(n)),
        }
    }
    fn interval(self) -> Option<Interval> {
        let (low, high) = (self.low?, self.high?);
        (low <= high).then_some(Interval { low, high })
    }
}

impl From<Interval> for Bounds {
    fn from(all: Interval) -> Self {
        Self {
            low: Some(all.low),
            high: Some(all.high),
        }
    }
}

impl Facts {
    /// What holds where an op stands.
    pub fn at(ir: &Ir, op: OpId) -> Self {
        let mut facts = Self::default();
        let mut inner = op;
        while let Some(holder) = ir.parent(inner) {
            if let Some(branch) = ir.get::<If>(holder) {
                let region = ir.block_of(inner).and_then(|b| ir.region_of(b));
                let taken = region == Some(branch.then_region);
                facts.add(ir, branch.condition, taken);
            }
            inner = holder;
        }
        facts
    }

    /// Adds that a value is a number.
    pub(crate) fn say(&mut self, value: Value, n: i64) {
        self.0.push(Fact {
            terms: vec![(value, 1)],
            range: Bounds::point(n),
        });
    }

    /// Whether a condition holds; `None` if that depends on more.
    pub(crate) fn holds(&self, ir: &Ir, condition: Value) -> Option<bool> {
        // What both ends of `and` and `or` say is found before they are.
        let mut known: HashMap<Value, Option<bool>> = HashMap::new();
        let mut work = vec![condition];
        while let Some(value) = work.last().copied() {
            let (parts, decides) = match (ir.def::<AndI>(value), ir.def::<OrI>(value)) {
                (Some(both), _) => ([both.lhs, both.rhs], false),
                (_, Some(either)) => ([either.lhs, either.rhs], true),
                _ => {
                    known.insert(value, self.compares(ir, value));
                    work.pop();
                    continue;
                }
            };
            let missing = parts
                .iter()
                .copied()
                .filter(|part| !known.contains_key(part));
            let missing: Vec<Value> = missing.collect();
            if missing.is_empty() {
                let all = parts.map(|part| known[&part]);
                let same = all[0].filter(|_| all[0] == all[1]);
                let decided = all.contains(&Some(decides)).then_some(decides);
                known.insert(value, decided.or(same));
                work.pop();
            } else {
                work.extend(missing);
            }
        }
        known.get(&condition).copied().flatten()
    }

    /// Whether a comparison holds.
    fn compares(&self, ir: &Ir, condition: Value) -> Option<bool> {
        use CmpIPredicate as P;
        let compared = ir.def::<CmpI>(condition)?;
        let (a, b) = (self.range(ir, compared.lhs)?, self.range(ir, compared.rhs)?);
        // Whether the first one is less, as large, or more.
        let order = match (a.low, a.high) {
            _ if a.high < b.low => std::cmp::Ordering::Less,
            _ if a.low > b.high => std::cmp::Ordering::Greater,
            (low, high) if low == high && b.low == b.high => std::cmp::Ordering::Equal,
            _ => return None,
        };
        let natural = a.low >= 0 && b.low >= 0;
        match compared.predicate {
            P::Eq => Some(order.is_eq()),
            P::Ne => Some(order.is_ne()),
            P::Slt => Some(order.is_lt()),
            P::Sle => Some(order.is_le()),
            P::Sgt => Some(order.is_gt()),
            P::Sge => Some(order.is_ge()),
            P::Ult if natural => Some(order.is_lt()),
            P::Ule if natural => Some(order.is_le()),
            P::Ugt if natural => Some(order.is_gt()),
            P::Uge if natural => Some(order.is_ge()),
            _ => None,
        }
    }

    /// Adds that a condition holds, or that it does not.
    fn add(&mut self, ir: &Ir, condition: Value, holds: bool) {
        let (mut seen, mut work) = (HashSet::from([condition]), vec![condition]);
        while let Some(condition) = work.pop() {
            let both = ir.def::<AndI>(condition).filter(|_| holds);
            let neither = ir.def::<OrI>(condition).filter(|_| !holds);
            let parts = both.map(|op| [op.rhs, op.lhs]);
            let parts = parts.or_else(|| neither.map(|op| [op.rhs, op.lhs]));
            if let Some(parts) = parts {
                work.extend(parts.into_iter().filter(|part| seen.insert(*part)));
            } else if let Some(compared) = ir.def::<CmpI>(condition) {
                self.compared(ir, &compared, holds);
            }
        }
    }

    fn compared(&mut self, ir: &Ir, compared: &CmpI, holds: bool) -> Option<()> {
        use CmpIPredicate as P;
        let mut leaves = Vec::new();
        let lhs = linear(ir, compared.lhs, &mut leaves)?;
        let rhs = linear(ir, compared.rhs, &mut leaves)?;
        let difference = lhs.plus(&rhs, -1)?;
        // The difference without its constant is compared with this.
        let n = difference.constant.checked_neg()?;
        let (low, high) = match (compared.predicate, holds) {
            (P::Eq, true) | (P::Ne, false) => (Some(n), Some(n)),
            (P::Slt, true) | (P::Sge, false) => (None, n.checked_sub(1)),
            (P::Sle, true) | (P::Sgt, false) => (None, Some(n)),
            (P::Sgt, true) | (P::Sle, false) => (n.checked_add(1), None),
            (P::Sge, true) | (P::Slt, false) => (Some(n), None),
            _ => return None,
        };
        let terms = difference.terms().map(|(d, c)| (leaves[d], c));
        self.0.push(Fact {
            terms: terms.collect(),
            range: Bounds { low, high },
        });
        Some(())
    }

    /// The values of an index, as far as loops, arithmetic and these facts say. Where they
    /// contradict each other, the place is never reached, and nothing is said.
    pub fn range(&self, ir: &Ir, value: Value) -> Option<Interval> {
        let facts = self;
        let known = RefCell::default();
        Look { ir, facts, known }.of(value)?.interval()
    }

    /// The values of a number or an index.
    pub fn of(&self, ir: &Ir, index: OpFoldResult) -> Option<Interval> {
        match index {
            OpFoldResult::Number(n) => Some(Interval::point(n)),
            OpFoldResult::Value(value) => self.range(ir, value),
        }
    }
}

/// How many values made of one another are looked through for the range of one; nothing is known of what stands deeper.
const DEEPEST: usize = 200;

/// One question for the values of an index: each leaf is looked at once.
struct Look<'a> {
    ir: &'a Ir,
    facts: &'a Facts,
    known: RefCell<Known>,
}

/// What is known of leaves by now, and how deep the one that is looked at stands.
#[derive(Default)]
struct Known {
    of: HashMap<Value, Bounds>,
    depth: usize,
}

impl Look<'_> {
    /// Bounds of a sum: those of its terms, and for each fact those of the sum as a multiple of
    /// the fact's and a rest.
    fn bounds(&self, terms: &[(Value, i64)]) -> Bounds {
        let mut all = self.by_terms(terms);
        for fact in &self.facts.0 {
            for (leaf, c) in &fact.terms {
                let Some(n) = terms.iter().find(|(v, _)| v == leaf).map(|(_, n)| *n) else {
                    continue;
                };
                if n % c != 0 {
                    continue;
                }
                let times = n / c;
                let mut rest = terms.to_vec();
                for (v, c) in &fact.terms {
                    match rest.iter_mut().find(|(w, _)| w == v) {
                        Some((_, n)) => *n = n.saturating_sub(c.saturating_mul(times)),
                        None => rest.push((*v, c.saturating_mul(times).saturating_neg())),
                    }
                }
                rest.retain(|(_, n)| *n != 0);
                let rest = self.by_terms(&rest);
                all = all.and(fact.range.times(times).plus(rest));
            }
        }
        all
    }

    fn by_terms(&self, terms: &[(Value, i64)]) -> Bounds {
        terms.iter().fold(Bounds::point(0), |sum, (leaf, c)| {
            sum.plus(self.leaf(*leaf).times(*c))
        })
    }

    /// The values of a leaf; nothing of what stands deeper than [`DEEPEST`].
    fn leaf(&self, value: Value) -> Bounds {
        let deep = {
            let mut known = self.known.borrow_mut();
            if let Some(found) = known.of.get(&value) {
                return *found;
            }
            known.depth += 1;
            known.depth > DEEPEST
        };
        let found = if deep {
            Bounds::default()
        } else {
            self.found(value)
        };
        let mut known = self.known.borrow_mut();
        known.depth -= 1;
        if !deep {
            known.of.insert(value, found);
        }
        found
    }

    fn found(&self, value: Value) -> Bounds {
        let clamped = self.clamped(value).unwrap_or_default();
        let known = self.leaf_range(value).map_or(clamped, Bounds::from);
        let alone = self.facts.0.iter().filter_map(|fact| match fact.terms[..] {
            [(v, c)] if v == value => Some(fact.range.over(c)),
            _ => None,
        });
        alone.fold(known, Bounds::and)
    }

    /// The values of an index.
    fn of(&self, value: Value) -> Option<Bounds> {
        let form = Form::of(self.ir, value)?;
        let terms: Vec<(Value, i64)> = form.terms().collect();
        let sum = self.bounds(&terms);
        Some(sum.plus(Bounds::point(form.expr.constant)))
    }

    /// What is known of the larger or smaller of two values.
    fn clamped(&self, value: Value) -> Option<Bounds> {
        let ir = self.ir;
        let op = ir.owner(value)?;
        let of = |value: Value| self.of(value);
        // The one bound is that of both, the other that of either.
        let both = |a: Option<i64>, b: Option<i64>, pick: fn(i64, i64) -> i64| Some(pick(a?, b?));
        let either = |a: Option<i64>, b: Option<i64>, pick: fn(i64, i64) -> i64| {
            both(a, b, pick).or(a).or(b)
        };
        if let Some(max) = ir.get::<MaxSI>(op) {
            let (a, b) = (of(max.lhs)?, of(max.rhs)?);
            return Some(Bounds {
                low: either(a.low, b.low, i64::max),
                high: both(a.high, b.high, i64::max),
            });
        }
        let min = ir.get::<MinSI>(op)?;
        let (a, b) = (of(min.lhs)?, of(min.rhs)?);
        Some(Bounds {
            low: both(a.low, b.low, i64::min),
            high: either(a.high, b.high, i64::min),
        })
    }

    fn leaf_range(&self, value: Value) -> Option<Interval> {
        let ir = self.ir;
        let range = |value: Value| self.of(value)?.interval();
        let Some(op) = ir.owner(value) else {
            let holder = ir.value_block(value).and_then(|b| ir.block_parent(b))?;
            let counter = Counter::of(ir, holder).filter(|c| c.iv == value && c.trips > 0)?;
            let steps = LinearExpr::term(0, counter.step).with_constant(counter.low);
            return steps.range(&[counter.trips]);
        };
        if let Some(rest) = ir.get::<RemUI>(op) {
            let n = ir.constant_int(rest.rhs).filter(|n| *n > 0)?;
            // Between two multiples the rest grows with what it is of.
            let all = range(rest.lhs).filter(|a| a.low >= 0 && a.low / n == a.high / n);
            let all = all.map(|a| Interval::new(a.low % n, a.high % n));
            return Some(all.unwrap_or(Interval::new(0, n - 1)));
        }
        if let Some(quotient) = ir.get::<DivUI>(op) {
            let n = ir.constant_int(quotient.rhs).filter(|n| *n > 0)?;
            let a = range(quotient.lhs).filter(|a| a.low >= 0)?;
            return Some(Interval::new(a.low / n, a.high / n));
        }
        let product: MulI = ir.get(op)?;
        range(product.lhs)?.times(range(product.rhs)?)
    }
}

/// How much a value grows with each step of an index by one, all else in `scope` standing still.
pub fn growth(ir: &Ir, value: Value, iv: Value, scope: OpId) -> Option<i64> {
    grows(ir, value, (iv, scope), &mut Still::default())
}

/// Which values stand still, as far as that is known, and how deep it is looked.
#[derive(Default)]
struct Still {
    of: HashMap<Value, bool>,
    depth: usize,
}

fn grows(ir: &Ir, value: Value, around: (Value, OpId), known: &mut Still) -> Option<i64> {
    let mut grows = 0;
    for (leaf, c) in Form::of(ir, value)?.terms() {
        if leaf == around.0 {
            grows = c;
        } else if !stands_still(ir, leaf, around, known) {
            return None;
        }
    }
    Some(grows)
}

fn stands_still(ir: &Ir, value: Value, around: (Value, OpId), known: &mut Still) -> bool {
    let (_, scope) = around;
    if let Some(still) = known.of.get(&value) {
        return *still;
    }
    let still = match ir.owner(value) {
        Some(op) if ir.is_below(op, scope) => {
            known.depth += 1;
            let still = known.depth <= DEEPEST
                && ir.is_pure(op)
                && ir
                    .operands(op)
                    .all(|v| grows(ir, v, around, known) == Some(0));
            known.depth -= 1;
            still
        }
        Some(_) => true,
        // An argument of an inner region is none that stands still.
        None => {
            let holder = ir.value_block(value).and_then(|b| ir.block_parent(b));
            !holder.is_some_and(|holder| ir.is_below(holder, scope))
        }
    };
    known.of.insert(value, still);
    still
}

/// Whether positions along one dimension of a large buffer, which has `size`, all lie inside of it:
/// an offset, and a linear form of the positions of a tile.
pub fn inside(
    ir: &Ir,
    facts: &Facts,
    offset: OpFoldResult,
    form: &LinearExpr,
    tile: &[i64],
    size: i64,
) -> bool {
    let reach = facts.of(ir, offset);
    let all = reach.and_then(|offset| offset.plus(form.range(tile)?));
    all.is_some_and(|all| all.is_inside(size))
}
