//! Makes a counterexample smaller: dimensions, ranks, attributes, then values.

use tir::{Attr, Data, Name, Type};

use crate::draw::{Number, data, values};
use crate::instance::{Fault, Outcome, Subject};
use crate::plan::{Node, Plan};
use crate::sample::ints;

/// Instances that are tried at most.
const TRIES: usize = 6000;
/// Draws of values for each.
const DRAWS: u64 = 6;

/// A counterexample.
#[derive(Clone)]
pub(crate) struct Found {
    pub plan: Plan,
    pub values: Vec<Data>,
    pub constants: Vec<bool>,
    pub fault: Fault,
}

pub(crate) struct Shrinker<'a> {
    pub subject: &'a Subject<'a>,
    pub found: Found,
    left: usize,
}

impl<'a> Shrinker<'a> {
    pub(crate) fn new(subject: &'a Subject<'a>, found: Found) -> Self {
        Self {
            subject,
            found,
            left: TRIES,
        }
    }

    /// The smallest counterexample that it finds.
    pub(crate) fn run(mut self) -> Found {
        let mut before = None;
        while before != Some(self.found.plan.size()) && self.left > 0 {
            before = Some(self.found.plan.size());
            self.alike();
            self.ranks();
            self.single();
            self.pairs();
            self.attrs();
        }
        self.values();
        self.found
    }

    /// Takes a plan if it is smaller and wrong too.
    fn take(&mut self, plan: Plan) -> bool {
        if self.left == 0 || plan.size() >= self.found.plan.size() {
            return false;
        }
        self.left -= 1;
        for seed in 0..DRAWS {
            let Some(values) = values(&plan, self.subject.rule.class, seed) else {
                return false;
            };
            let constants = self.found.constants.clone();
            if let Outcome::Wrong(fault) = self.subject.outcome(&plan, &values, &constants) {
                self.found = Found {
                    plan,
                    values,
                    constants,
                    fault,
                };
                return true;
            }
        }
        false
    }

    /// With all dimensions of one size made another, in types and (or not) in attributes.
    fn alike(&mut self) {
        let dims = self.found.plan.types();
        let mut sizes: Vec<i64> = dims
            .iter()
            .filter_map(|t| t.shape())
            .flatten()
            .copied()
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes.into_iter().rev().filter(|size| *size != 1) {
            for smaller in 1..size.max(2) {
                let change = |dim: &i64| if *dim == size { smaller } else { *dim };
                let types = self.found.plan.types().into_iter();
                let types: Vec<Type> = types
                    .map(|ty| map(ty, |s| s.iter().map(change).collect()))
                    .collect();
                let plan = self.found.plan.with_types(&types);
                let mut both = plan.clone();
                for attr in both.attrs.iter_mut().flatten() {
                    if let Some(list) = ints(*attr) {
                        *attr = Attr::ints(&list.iter().map(change).collect::<Vec<_>>());
                    }
                }
                if self.take(plan) || self.take(both) {
                    break;
                }
            }
        }
    }

    /// With one dimension made smaller.
    fn single(&mut self) {
        for (at, d) in self.places() {
            let size = self.dim(at, d);
            for smaller in [1, size - 1] {
                if smaller != size && smaller >= 0 {
                    let plan = self.with_dims(&[(at, d)], smaller);
                    if self.take(plan) {
                        break;
                    }
                }
            }
        }
    }

    /// With two dimensions of one size made smaller.
    fn pairs(&mut self) {
        let places = self.places();
        for (i, a) in places.iter().enumerate() {
            for b in &places[i + 1..] {
                let size = self.dim(a.0, a.1);
                if size != self.dim(b.0, b.1) || size < 2 {
                    continue;
                }
                for smaller in [1, size - 1] {
                    let plan = self.with_dims(&[*a, *b], smaller);
                    if self.take(plan) {
                        break;
                    }
                }
            }
        }
    }

    /// Without one dimension: of all types of a rank and their attributes, or of one type.
    fn ranks(&mut self) {
        for rank in (1..8).rev() {
            for d in 0..rank {
                let cut = |ty: &Type| match ty.shape() {
                    Some(s) if s.len() == rank => map(*ty, |s| without(s, d)),
                    _ => *ty,
                };
                let types = self.found.plan.types();
                let cuts: Vec<Type> = types.iter().map(cut).collect();
                let plan = self.found.plan.with_types(&cuts);
                let mut both = plan.clone();
                for attr in both.attrs.iter_mut().flatten() {
                    if let Some(list) = ints(*attr).filter(|list| list.len() == rank) {
                        *attr = Attr::ints(&fewer(&list, d));
                    }
                }
                let mut lower = both.clone();
                for attr in lower.attrs.iter_mut().flatten() {
                    if let Some(axis) = attr.as_int().filter(|axis| *axis > d as i64) {
                        *attr = Attr::i64(axis - 1);
                    }
                }
                let _ = self.take(plan) || self.take(both) || self.take(lower);
                for i in 0..types.len() {
                    let mut one = self.found.plan.types();
                    if one[i].shape().is_some_and(|s| s.len() == rank) {
                        one[i] = map(one[i], |s| without(s, d));
                        let plan = self.found.plan.with_types(&one);
                        self.take(plan);
                    }
                }
            }
        }
    }

    /// With attributes that are absent, the default, or nearer to 0.
    fn attrs(&mut self) {
        let slots: Vec<(Name, Name, usize)> = self
            .found
            .plan
            .nodes
            .iter()
            .flat_map(|Node { name, attrs, .. }| attrs.iter().map(|(a, slot)| (*name, *a, *slot)))
            .collect();
        for (op, name, slot) in slots {
            let field = op.info().and_then(|info| info.field(&name));
            let default = field.and_then(|f| f.default);
            let current = self.found.plan.attrs[slot];
            if current != default {
                self.set(slot, default);
            }
            let Some(attr) = self.found.plan.attrs[slot] else {
                continue;
            };
            if let Some(list) = ints(attr) {
                for i in 0..list.len() {
                    let now = self.found.plan.attrs[slot]
                        .and_then(ints)
                        .unwrap_or_default();
                    for n in [0, 1] {
                        let mut list = now.clone();
                        if list.get(i).is_some_and(|was| was.abs() > n) {
                            list[i] = n;
                            self.set(slot, Some(Attr::ints(&list)));
                        }
                    }
                }
            } else if let Some(n) = attr.as_int() {
                for smaller in 0..n.min(4) {
                    self.set(slot, attr.type_of().map(|ty| Attr::int(smaller, ty)));
                }
            }
        }
    }

    fn set(&mut self, slot: usize, attr: Option<Attr>) {
        let mut plan = self.found.plan.clone();
        plan.attrs[slot] = attr;
        // Another attribute of the same size is worth nothing; fewer numbers are.
        self.take(plan);
    }

    /// Sets numbers to 0 or 1 as long as both sides differ.
    fn values(&mut self) {
        if matches!(self.found.fault, Fault::Types(_) | Fault::Measure(_)) {
            return;
        }
        for leaf in 0..self.found.values.len() {
            let ty = self.found.plan.leaves[leaf].ty;
            let count = ty.elements().unwrap_or(1);
            for n in [0, 1] {
                if self.take_values(leaf, &vec![Number::whole(n); count]) {
                    break;
                }
            }
            if count > 32 {
                continue;
            }
            for i in 0..count {
                let Ok(array) = self.found.values[leaf].to_array() else {
                    break;
                };
                let now: Vec<Number> = (0..count).map(|at| Number::of(&array, at)).collect();
                for n in [0, 1] {
                    let mut numbers = now.clone();
                    if !now[i].is(n) && !now[i].is(0) {
                        numbers[i] = Number::whole(n);
                        if self.take_values(leaf, &numbers) {
                            break;
                        }
                    }
                }
            }
        }
    }

    fn take_values(&mut self, leaf: usize, numbers: &[Number]) -> bool {
        let plan = &self.found.plan;
        let Some(value) = data(plan.leaves[leaf].ty, numbers) else {
            return false;
        };
        let mut values = self.found.values.clone();
        values[leaf] = value;
        match self.subject.outcome(plan, &values, &self.found.constants) {
            Outcome::Wrong(fault) => {
                (self.found.values, self.found.fault) = (values, fault);
                true
            }
            _ => false,
        }
    }

    fn places(&self) -> Vec<(usize, usize)> {
        let types = self.found.plan.types();
        let dims = |(i, ty): (usize, &Type)| {
            let rank = ty.shape().map_or(0, <[i64]>::len);
            (0..rank).map(move |d| (i, d))
        };
        types.iter().enumerate().flat_map(dims).collect()
    }
    fn dim(&self, at: usize, d: usize) -> i64 {
        self.found.plan.types()[at].shape().map_or(0, |s| s[d])
    }
    fn with_dims(&self, places: &[(usize, usize)], size: i64) -> Plan {
        let mut types = self.found.plan.types();
        for (at, d) in places {
            types[*at] = map(types[*at], |s| {
                let mut shape = s.to_vec();
                shape[*d] = size;
                shape
            });
        }
        self.found.plan.with_types(&types)
    }
}

fn map(ty: Type, change: impl FnOnce(&[i64]) -> Vec<i64>) -> Type {
    match ty.shape() {
        Some(shape) => Type::tensor(change(shape), ty.elem()),
        None => ty,
    }
}

fn without(shape: &[i64], d: usize) -> Vec<i64> {
    let mut shape = shape.to_vec();
    shape.remove(d);
    shape
}

/// A list for dimensions without one of them: an order stays one.
fn fewer(list: &[i64], d: usize) -> Vec<i64> {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..list.len() as i64) {
        return without(list, d);
    }
    let d = d as i64;
    let kept = list.iter().filter(|n| **n != d);
    kept.map(|n| if *n > d { n - 1 } else { *n }).collect()
}
