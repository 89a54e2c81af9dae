//! Types and attributes to try: random ones, and ones like what is there and what fitted before, which is the corpus.
//!
//! *Terms.* **Around** is the other operands of an op.
//!
//! *Invariants.* The same seed and the same corpus give the same instance. What is tried need not
//! verify; the sampler asks the verifier and adds to the corpus what does.

use std::sync::Arc;

use tir::data::Random;
use tir::rewrite::{AttrTerm, Call, Literal, Rule};
use tir::{Attr, AttrValue, Constraint, FieldInfo, FloatAttr, FloatType, Name, OpInfo, Role, Type};

use crate::corpus::{Corpus, Known};
use crate::draw;
use crate::sample::ints;

/// Most elements of a value.
const ELEMENTS: usize = 4096;

/// The largest dimension that is drawn of a number in a guard.
const LARGEST: i64 = 512;

/// The whole numbers above one that the guards of a rule name.
fn named(rule: &Rule) -> Vec<i64> {
    let mut all = Vec::new();
    let mut work: Vec<&Call> = rule.guards.iter().collect();
    while let Some(call) = work.pop() {
        for arg in &call.args {
            match arg {
                AttrTerm::Call(call) => work.push(call),
                AttrTerm::Literal(Literal::Int(n)) if *n > 1 && !all.contains(n) => all.push(*n),
                AttrTerm::Literal(_) | AttrTerm::Var(_) => {}
            }
        }
    }
    all
}

/// What an instance is like: chosen once for each.
pub(crate) struct InstanceStyle {
    /// Element types to draw besides those that are built in.
    types: Arc<[Type]>,
    /// The element type of nearly everything.
    pub elem: Type,
    /// Dimensions are below this.
    bound: usize,
    /// Whether dimensions may be 0.
    empty: bool,
    /// Whether everything may be a scalar.
    rank_zero: bool,
    /// Numbers that the guards of the rule name.
    named: Vec<i64>,
}

impl InstanceStyle {
    pub(crate) fn new(rule: &Rule, corpus: &Corpus, random: &mut Random) -> Self {
        let types = corpus.types.clone();
        let mut elem = draw::elem(&types, random);
        for _ in 0..4 {
            if corpus.takes(elem) || random.percent(10) {
                break;
            }
            elem = draw::elem(&types, random);
        }
        Self {
            types,
            elem,
            bound: 3 + random.below(5),
            empty: random.percent(25),
            rank_zero: random.percent(15),
            named: named(rule),
        }
    }
    fn dim(&self, random: &mut Random) -> i64 {
        if self.empty && random.percent(20) {
            return 0;
        }
        // A guard holds for these, or for multiples of them, and not beside.
        if !self.named.is_empty() && random.percent(40) {
            let near = [0, 0, 0, 1, -1];
            let times = [1, 1, 2, 3];
            let picked = random.pick(&self.named).zip(random.pick(&times));
            let picked = picked.zip(random.pick(&near));
            let dim = picked.map(|((n, times), near)| n.saturating_mul(times) + near);
            if let Some(dim) = dim.filter(|dim| (1..=LARGEST).contains(dim)) {
                return dim;
            }
        }
        match random.percent(25) {
            true => 1,
            false => 1 + random.below(self.bound) as i64,
        }
    }
    fn elem(&self, random: &mut Random) -> Type {
        if random.percent(95) {
            self.elem
        } else {
            draw::elem(&self.types, random)
        }
    }
}

/// The declared constraint of an operand, by its number among those that are there alone.
fn constraint(op: &OpInfo, index: usize) -> Option<&'static Constraint> {
    let operands = op.fields.iter().filter(|f| {
        let roles = [Role::Operand, Role::OptionalOperand, Role::Operands];
        roles.contains(&f.role)
    });
    let mut operands = operands.take_while(|f| f.role != Role::Operands);
    operands.nth(index)?.constraint
}

/// A tensor type, if it is not too large.
fn tensor(shape: Vec<i64>, elem: Type) -> Option<Type> {
    let ty = Type::tensor(shape, elem);
    ty.elements().is_some_and(|n| n <= ELEMENTS).then_some(ty)
}

/// A type for an operand: `near` are the types of the other operands of the op, `alike` those of
/// the same operand of ops of this name, `all` all types so far.
pub(crate) struct Around<'a> {
    pub near: &'a [Type],
    pub alike: &'a [Type],
    pub all: &'a [Type],
}

impl InstanceStyle {
    /// The type, with another element if the declared constraint of the operand asks for it.
    pub(crate) fn constrained(
        &self,
        ty: Type,
        op: &OpInfo,
        index: usize,
        random: &mut Random,
    ) -> Type {
        let Some(constraint) = constraint(op, index).filter(|c| !c.holds(ty)) else {
            return ty;
        };
        let others = [
            self.elem,
            Type::int(1),
            Type::int(8),
            Type::int(16),
            Type::int(32),
            Type::int(64),
            Type::f32(),
        ];
        let others = others.map(|elem| ty.with_elem(elem));
        let fit: Vec<Type> = others
            .into_iter()
            .filter(|t| constraint.holds(*t))
            .collect();
        random.pick(&fit).unwrap_or(ty)
    }

    pub(crate) fn operand(
        &self,
        op: Name,
        index: usize,
        around: &Around<'_>,
        corpus: &Corpus,
        random: &mut Random,
    ) -> Option<Type> {
        match random.below(100) {
            0..30 if !around.near.is_empty() => {
                let ty = random.pick(around.near)?;
                return self.like(ty, around, random);
            }
            30..60 if !around.alike.is_empty() => {
                let ty = random.pick(around.alike)?;
                return self.like(ty, around, random);
            }
            _ => {}
        }
        let known = corpus.ranks_of(op, index);
        let rank = match random.pick(&known) {
            Some(rank) if random.percent(85) => rank,
            _ if random.percent(10) => None,
            _ => Some(random.below(6)),
        };
        let elem = match (around.near.first(), random.percent(80)) {
            (Some(ty), true) => ty.elem(),
            _ => self.elem(random),
        };
        match rank {
            None => Some(elem),
            Some(0) if !self.rank_zero && random.percent(80) => None,
            Some(rank) => {
                let pool = match random.percent(60) {
                    true => around.near,
                    false => around.all,
                };
                let pool: Vec<i64> = pool
                    .iter()
                    .filter_map(|t| t.shape())
                    .flatten()
                    .copied()
                    .collect();
                let dim = |_| match random.pick(&pool) {
                    Some(dim) if random.percent(45) => dim,
                    // Several times as much, or a part of it.
                    Some(dim) if random.percent(10) => match random.below(4) {
                        n @ 2.. if dim % n as i64 == 0 => dim / n as i64,
                        n => dim * (n as i64 % 2 + 2),
                    },
                    _ => self.dim(random),
                };
                tensor((0..rank).map(dim).collect(), elem)
            }
        }
    }

    /// The type itself or one a little different: broadcast, permuted, with another dimension.
    fn like(&self, ty: Type, around: &Around<'_>, random: &mut Random) -> Option<Type> {
        let Some(mut shape) = ty.shape().map(<[i64]>::to_vec) else {
            return Some(ty);
        };
        match random.below(10) {
            0..5 => return Some(ty),
            5 => {
                let drop = random.below(shape.len() + 1);
                shape.drain(..drop);
            }
            6 => {
                for dim in &mut shape {
                    if random.percent(50) {
                        *dim = 1;
                    }
                }
                let drop = random.below(shape.len() + 1);
                if random.percent(30) {
                    shape.drain(..drop);
                }
            }
            7 => random.shuffle(&mut shape),
            _ => {
                if !shape.is_empty() {
                    let at = random.below(shape.len());
                    let pool: Vec<i64> = around
                        .all
                        .iter()
                        .filter_map(|t| t.shape())
                        .flatten()
                        .copied()
                        .collect();
                    shape[at] = match random.pick(&pool) {
                        Some(dim) if random.percent(40) => dim,
                        _ => self.dim(random),
                    };
                }
            }
        }
        tensor(shape, ty.elem())
    }

    /// Result types for an op that does not infer them.
    pub(crate) fn results(
        &self,
        op: Name,
        many: Option<usize>,
        near: &[Type],
        corpus: &Corpus,
        random: &mut Random,
    ) -> Option<Vec<Type>> {
        if many == Some(1)
            && random.percent(40)
            && let Some(first) = near.first()
            && let Some(shape) = first.shape()
        {
            return Some(vec![tensor(self.repeated(shape, random), first.elem())?]);
        }
        // As it was like the first operand before: of its shape, of its elements, or of neither.
        let known = corpus.results_of(op);
        if many == Some(1)
            && random.percent(70)
            && let (Some(likeness), Some(first)) = (random.pick(&known), near.first())
            && let Some(shape) = first.shape()
        {
            let shape = match likeness.shape {
                true => Some(shape.to_vec()),
                false => random.percent(40).then(|| self.resized(shape, random)),
            };
            if let Some(shape) = shape {
                let elem = match likeness.elem && random.percent(80) {
                    true => first.elem(),
                    false => self.other_elem(near, random),
                };
                return Some(vec![tensor(shape, elem)?]);
            }
        }
        let from = random.pick(near).unwrap_or(self.elem);
        let Some(count) = many else {
            // Parts of an operand along one of its dimensions.
            let shape = from.shape()?.to_vec();
            let at = random.below(shape.len().max(1));
            let parts = partition(*shape.get(at)?, 1 + random.below(3), random);
            let part = |size: i64| {
                let mut shape = shape.clone();
                shape[at] = size;
                tensor(shape, from.elem())
            };
            return parts.into_iter().map(part).collect();
        };
        let one = |random: &mut Random| match (from.shape(), random.below(10)) {
            (Some(shape), 0..6) => tensor(self.reshaped(shape, random), from.elem()),
            (Some(shape), 6..8) => {
                let mut to: Vec<i64> = shape.to_vec();
                for dim in &mut to {
                    if *dim == 1 {
                        *dim = self.dim(random);
                    }
                }
                (0..random.below(3)).for_each(|_| to.insert(0, self.dim(random)));
                tensor(to, from.elem())
            }
            (Some(_), 8) => Some(from.with_elem(self.other_elem(near, random))),
            (None, 0..6) => Some(draw::elem(&self.types, random)),
            _ => Some(from),
        };
        (0..count).map(|_| one(random)).collect()
    }

    /// A shape of that rank, some of whose dimensions are larger or smaller.
    fn resized(&self, shape: &[i64], random: &mut Random) -> Vec<i64> {
        let mut one = |dim: &i64| match random.below(6) {
            0 => dim * 2,
            1 => (dim / 2).max(1),
            2 => self.dim(random),
            _ => *dim,
        };
        shape.iter().map(&mut one).collect()
    }

    /// A shape in which some dimensions are two, the inner of which is 1, or those of 1 are larger, or some that follow each
    /// other are one: the three steps in which elements are repeated.
    fn repeated(&self, shape: &[i64], random: &mut Random) -> Vec<i64> {
        let mut to = Vec::new();
        // What has dimensions of 1 already is rather in the midst of it.
        let step = match (shape.contains(&1), random.percent(50)) {
            (true, first) => 1 + usize::from(first),
            (false, first) => 2 * usize::from(first),
        };
        let mut dims = shape.iter().copied().peekable();
        while let Some(dim) = dims.next() {
            match step {
                0 => {
                    to.push(dim);
                    to.extend(random.percent(60).then_some(1));
                }
                1 if dim == 1 && random.percent(85) => to.push(2 + random.below(3) as i64),
                2 if random.percent(50) => to.push(dim.saturating_mul(dims.next().unwrap_or(1))),
                _ => to.push(dim),
            }
        }
        to.truncate(7);
        to
    }

    /// An element type for a result that changes it: one of the other operands', or any; all alike.
    fn other_elem(&self, near: &[Type], random: &mut Random) -> Type {
        let others = near.iter().skip(1).map(|ty| ty.elem());
        let others: Vec<Type> = others.collect();
        let all = [1, 8, 16, 32, 64].map(Type::int);
        match (random.pick(&others), random.below(10)) {
            (Some(elem), 0..5) => elem,
            (_, 5) => draw::elem(&self.types, random),
            (_, 6) => Type::f32(),
            (_, 7) => Type::new(FloatType::F64),
            _ => random.pick(&all).unwrap_or(self.elem),
        }
    }

    /// A shape of as many elements: dimensions merged, divided, moved, of size 1 added or removed.
    fn reshaped(&self, shape: &[i64], random: &mut Random) -> Vec<i64> {
        let mut to = shape.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(to.len().max(1));
            match random.below(5) {
                0 if at + 1 < to.len() => {
                    let next = to.remove(at + 1);
                    to[at] *= next;
                }
                1 if at < to.len() => {
                    let factors: Vec<i64> = (2..=to[at]).filter(|f| to[at] % f == 0).collect();
                    if let Some(factor) = random.pick(&factors) {
                        to[at] /= factor;
                        to.insert(at + random.below(2), factor);
                    }
                }
                2 => to.insert(random.below(to.len() + 1), 1),
                3 if to.get(at) == Some(&1) => {
                    to.remove(at);
                }
                _ => {
                    if random.percent(20) {
                        random.shuffle(&mut to);
                    }
                }
            }
        }
        to.truncate(7);
        to
    }

    /// An attribute for a field: `near` are the types of the operands, the first first.
    pub(crate) fn attr(
        &self,
        op: Name,
        field: &FieldInfo,
        near: &[Type],
        corpus: &Corpus,
        random: &mut Random,
    ) -> Option<Attr> {
        let (what, optional) = match field.role {
            Role::Attribute(what) => (what, false),
            Role::OptionalAttribute(what) => (what, true),
            _ => return None,
        };
        if optional && random.percent(40) {
            return None;
        }
        if field.default.is_some() && random.percent(40) {
            return field.default;
        }
        let known = corpus.attrs_of(op, field.name);
        let first = near.first().and_then(|ty| ty.shape()).unwrap_or(&[]);
        // Of lists those as long as the shape, if there are any.
        let is_long = |(_, list): &&Known| list.as_ref().is_some_and(|l| l.len() == first.len());
        let mut from: Vec<Attr> = known.iter().filter(is_long).filter_map(|k| k.0).collect();
        let long = !from.is_empty();
        if random.percent(if long { 50 } else { 25 }) {
            if !long {
                from = known.iter().filter_map(|k| k.0).collect();
            }
            if let Some(attr) = random.pick(&from) {
                return Some(attr);
            }
        }
        if let Some(words) = field.keywords {
            return (words.parse)(random.pick(words.all)?);
        }
        let elem = near.first().map_or(self.elem, |ty| ty.elem());
        Some(match what {
            <bool as AttrValue>::WHAT => Attr::bool(random.percent(50)),
            <i64 as AttrValue>::WHAT => {
                let n = match random.below(10) {
                    0 => -1,
                    1 => random.pick(first).unwrap_or(1),
                    2..5 => times(near, random).unwrap_or(1),
                    _ => random.below(4) as i64,
                };
                Literal::Int(n).attr(Some(field))?
            }
            <Vec<i64> as AttrValue>::WHAT => {
                let lengths = known
                    .iter()
                    .filter_map(|(_, list)| Some(list.as_ref()?.len()));
                let default = field.default.and_then(ints).map(|list| list.len());
                let lengths: Vec<usize> = lengths.chain(default).collect();
                let len = match random.pick(&lengths) {
                    Some(len) if random.percent(50) => len,
                    _ if random.percent(80) => first.len(),
                    _ => random.below(5),
                };
                Attr::ints(&self.list(len, first, random))
            }
            <tir::Flag as AttrValue>::WHAT => Attr::unit(),
            <Type as AttrValue>::WHAT => Attr::ty(random.pick(&[self.elem, elem]).unwrap_or(elem)),
            <Attr as AttrValue>::WHAT => number(elem, random)?,
            "a number" => number(Type::new(FloatType::F64), random)?,
            "an array" => {
                let one = |_| number(Type::new(FloatType::F64), random);
                let all: Option<Vec<Attr>> = (0..first.len()).map(one).collect();
                Attr::array(all?)
            }
            _ => match field.default.and_then(|a| a.get::<FloatAttr>()) {
                Some(float) => number(float.ty, random)?,
                None => field.default.or_else(|| random.pick(known)?.0)?,
            },
        })
    }

    /// A number for one dimension of an operand beside others.
    pub(crate) fn place(&self, dim: i64, random: &mut Random) -> i64 {
        match random.below(10) {
            0 | 1 => 1,
            2 => 0,
            3 | 4 => -1,
            5 => random.pick(&[2, -2, 3]).unwrap_or(2),
            6 => dim,
            7 | 8 => dim - 1,
            _ => random.below(dim.max(0) as usize + 1) as i64,
        }
    }

    /// Integers for the dimensions of a shape: an order, places, sizes, parts, small numbers.
    fn list(&self, len: usize, shape: &[i64], random: &mut Random) -> Vec<i64> {
        let n = len as i64;
        let dim = |i: usize| shape.get(i).copied().unwrap_or(2);
        match random.below(15) {
            12 => {
                let fixed = random.below(len + 1);
                let mut one = |i| if i < fixed { 0 } else { random.below(3) as i64 };
                (0..len).map(&mut one).collect()
            }
            // The last place of some dimensions, and steps backwards.
            13 => {
                let mut end = |i| if random.percent(50) { dim(i) - 1 } else { 0 };
                (0..len).map(&mut end).collect()
            }
            14 => {
                let mut step = |_| if random.percent(50) { -1 } else { 1 };
                (0..len).map(&mut step).collect()
            }
            0..3 => {
                let mut order: Vec<i64> = (0..n).collect();
                random.shuffle(&mut order);
                order
            }
            3 => (0..len)
                .map(|i| random.below(dim(i).max(0) as usize + 1) as i64)
                .collect(),
            4 => (0..len).map(dim).collect(),
            5 => partition(dim(random.below(shape.len().max(1))), len, random),
            6 => (0..shape.len() as i64)
                .filter(|_| random.percent(40))
                .collect(),
            7 | 8 => vec![1; len],
            9 => vec![0; len],
            10 => {
                let at = random.below(len.max(1));
                let low = random.below(2) as i64;
                let mut list = vec![low; len];
                if let Some(one) = list.get_mut(at) {
                    *one = random.below(4) as i64;
                }
                list
            }
            _ => {
                let low = random.below(2) as i64;
                (0..len).map(|_| low + random.below(3) as i64).collect()
            }
        }
    }
}

/// How often a dimension of the second operand is in the one at its place in the first.
fn times(near: &[Type], random: &mut Random) -> Option<i64> {
    let (first, second) = (near.first()?.shape()?, near.get(1)?.shape()?);
    let pairs = first.iter().zip(second);
    let pairs = pairs.filter(|(a, b)| **b > 0 && **a > 0 && **a % **b == 0);
    random.pick(&pairs.map(|(a, b)| a / b).collect::<Vec<_>>())
}

/// So many numbers that add up to `whole`.
fn partition(whole: i64, parts: usize, random: &mut Random) -> Vec<i64> {
    let mut cuts: Vec<i64> = (1..parts)
        .map(|_| random.below(whole.max(0) as usize + 1) as i64)
        .collect();
    cuts.extend([0, whole]);
    cuts.sort_unstable();
    cuts.windows(2).map(|w| w[1] - w[0]).collect()
}

fn number(ty: Type, random: &mut Random) -> Option<Attr> {
    let n = random.pick(&[0.0, 1.0, -1.0, 2.0, 3.0, 0.5, -2.0, 4.0])?;
    match ty.is::<FloatType>() {
        true => Some(Attr::float(n, ty)),
        false if ty.is_int() || ty.is_index() => Some(Attr::int(n as i64, ty)),
        false => None,
    }
}
