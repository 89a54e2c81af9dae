//! Matching by declared behaviour: a generic against what an intrinsic computes.
//!
//! Two scalar regions are equal if they compute the same expression, up to the order of operands
//! of commutative ops and an assignment of their arguments.

use tir::{AffineMap, Definition, Ir, OpId, RegionId, Traits, Type, Value};
use tir_accel::machine::IntrinsicInfo;
use tir_accel::{Intrinsic, Yield as AccelYield};
use tir_arith::ExtF;
use tir_tensor::{Combine, Generic, Yield};

/// What an intrinsic computes, where it is one generic on its operands.
pub struct Behaviour<'a> {
    /// The machine's arena.
    pub ir: &'a Ir,
    /// The generic.
    pub generic: Generic,
    /// Which operand of the intrinsic each input of the generic is.
    pub inputs: Vec<usize>,
    /// The range of each iterator.
    pub domain: Vec<i64>,
}

impl<'a> Behaviour<'a> {
    /// The behaviour of an intrinsic with one result; `None` if it is more than one generic.
    pub fn of(machine: &'a Ir, info: &IntrinsicInfo) -> Option<Self> {
        let record: Intrinsic = machine.get(info.op)?;
        let block = machine.entry(record.body)?;
        let end: AccelYield = machine.get(machine.last(block)?)?;
        let [result] = end.values[..] else {
            return None;
        };
        let generic: Generic = machine.def(result)?;
        let argument = |value: &Value| match machine.definition(*value) {
            Definition::Argument(of, index) if of == block => Some(index),
            _ => None,
        };
        let inputs = generic.inputs.iter().map(argument);
        let inputs: Vec<usize> = inputs.collect::<Option<_>>()?;
        if generic.outputs.iter().map(argument).collect::<Vec<_>>() != [Some(0)] {
            return None;
        }
        let domain = generic.domain(machine).ok()?;
        Some(Self {
            ir: machine,
            generic,
            inputs,
            domain,
        })
    }
}

/// The scalar computation of a generic.
#[derive(Clone, Copy)]
pub struct Scalar<'a> {
    /// The arena.
    pub ir: &'a Ir,
    /// The region.
    pub body: RegionId,
    /// Whether its arguments are taken as extended already: an extension of one is the argument.
    pub extended: bool,
}

impl Scalar<'_> {
    fn results(&self) -> Option<Vec<Value>> {
        let block = self.ir.entry(self.body)?;
        Some(self.ir.get::<Yield>(self.ir.last(block)?)?.values)
    }
    /// What an extension of an argument stands for, where they are made before.
    fn through(&self, value: Value) -> Value {
        match self.ir.def::<ExtF>(value) {
            Some(ext) if self.extended && self.argument(ext.input).is_some() => ext.input,
            _ => value,
        }
    }
    fn argument(&self, value: Value) -> Option<usize> {
        match self.ir.definition(value) {
            Definition::Argument(block, index) if Some(block) == self.ir.entry(self.body) => {
                Some(index)
            }
            _ => None,
        }
    }
}

/// Whether both compute the same, argument `i` of `a` being argument `order[i]` of `b`.
pub fn same_scalar(a: Scalar<'_>, b: Scalar<'_>, order: &[usize]) -> bool {
    let (Some(x), Some(y)) = (a.results(), b.results()) else {
        return false;
    };
    x.len() == y.len()
        && x.iter()
            .zip(&y)
            .all(|(x, y)| same_value(a, b, order, *x, *y, 64))
}

fn same_value(
    a: Scalar<'_>,
    b: Scalar<'_>,
    order: &[usize],
    x: Value,
    y: Value,
    fuel: u32,
) -> bool {
    if a.ir.ty(x) != b.ir.ty(y) || fuel == 0 {
        return false;
    }
    let (x, y) = (a.through(x), b.through(y));
    if let (Some(p), Some(q)) = (a.ir.constant(x), b.ir.constant(y)) {
        return p == q;
    }
    match (a.argument(x), b.argument(y)) {
        (Some(i), Some(j)) => return order.get(i) == Some(&j),
        (None, None) => {}
        _ => return false,
    }
    let (Definition::Result(p, i), Definition::Result(q, j)) =
        (a.ir.definition(x), b.ir.definition(y))
    else {
        return false;
    };
    let shape = |ir: &Ir, op: OpId| {
        (
            ir.name(op),
            ir.attrs(op).to_vec(),
            ir.operands(op).len(),
            ir.regions(op).len(),
        )
    };
    if i != j || shape(a.ir, p) != shape(b.ir, q) || a.ir.regions(p).len() > 0 {
        return false;
    }
    let xs: Vec<Value> = a.ir.operands(p).collect();
    let ys: Vec<Value> = b.ir.operands(q).collect();
    let pairwise = |ys: &[Value]| {
        let mut pairs = xs.iter().zip(ys);
        pairs.all(|(x, y)| same_value(a, b, order, *x, *y, fuel - 1))
    };
    if pairwise(&ys) {
        return true;
    }
    let swapped: Vec<Value> = ys.iter().rev().copied().collect();
    ys.len() == 2 && a.ir.has(p, Traits::Commutative) && pairwise(&swapped)
}

/// All orders of `0..n`, the identity first. Small `n` only: more than 6 give the identity alone.
pub fn orders(n: usize) -> Vec<Vec<usize>> {
    if n > 6 {
        return vec![(0..n).collect()];
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..n {
        let longer = |order: &Vec<usize>| {
            let free = (0..n).filter(|i| !order.contains(i));
            free.map(|i| [&order[..], &[i]].concat())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// A generic on tiles that is exactly what an intrinsic computes.
pub struct Exact {
    /// Which input of the generic each input of the intrinsic's generic is.
    pub inputs: Vec<usize>,
}

/// Matches a generic with one output: the same scalar computation, combiner, iterator kinds and
/// ranges, and the same maps up to an order of the iterators and of the inputs.
pub fn match_exact(ir: &Ir, generic: &Generic, intrinsic: &Behaviour<'_>) -> Option<Exact> {
    let other = &intrinsic.generic;
    if generic.combine != other.combine
        || generic.inputs.len() != other.inputs.len()
        || generic.outputs.len() != 1
        || ir.ty(generic.outputs[0]) != intrinsic.ir.ty(other.outputs[0])
    {
        return None;
    }
    let domain = generic.domain(ir).ok()?;
    if domain.len() != intrinsic.domain.len() {
        return None;
    }
    let mine = Scalar {
        ir,
        body: generic.body,
        extended: false,
    };
    let theirs = Scalar {
        ir: intrinsic.ir,
        body: other.body,
        extended: false,
    };
    for order in orders(generic.inputs.len()) {
        // Input `i` of the generic is input `order[i]` of the intrinsic's.
        let types = order
            .iter()
            .enumerate()
            .all(|(i, j)| ir.ty(generic.inputs[i]) == intrinsic.ir.ty(other.inputs[*j]));
        if !types || !same_scalar(mine, theirs, &order) {
            continue;
        }
        let mut maps: Vec<(&AffineMap, &AffineMap)> = order
            .iter()
            .enumerate()
            .map(|(i, j)| (&generic.indexing_maps[i], &other.indexing_maps[*j]))
            .collect();
        maps.push((generic.indexing_maps.last()?, other.indexing_maps.last()?));
        let iterators = orders(domain.len()).into_iter().any(|iterators| {
            // Iterator `d` of the generic is `iterators[d]` of the intrinsic's.
            let kinds = (0..domain.len()).all(|d| {
                let e = iterators[d];
                domain[d] == intrinsic.domain[e]
                    && generic.iterator_types[d] == other.iterator_types[e]
            });
            kinds
                && maps
                    .iter()
                    .all(|(a, b)| a.compose(&renaming(&iterators)).exprs == b.exprs)
        });
        if iterators {
            let mut inputs = vec![0; order.len()];
            for (i, j) in order.iter().enumerate() {
                inputs[*j] = i;
            }
            return Some(Exact { inputs });
        }
    }
    None
}

/// The map that renames dimension `d` to `to[d]`.
fn renaming(to: &[usize]) -> AffineMap {
    AffineMap::project(to.len(), to)
}

/// An assignment of a generic's iterators to those of an intrinsic: unit dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Index of the intrinsic in the machine.
    pub intrinsic: usize,
    /// For each iterator of the intrinsic, the iterator of the generic.
    pub unit_dims: Vec<usize>,
    /// For each input of the generic, the input of the intrinsic's generic.
    pub inputs: Vec<usize>,
}

/// What a generic has to say for an assignment.
pub struct Candidate<'a> {
    /// The scalar computation.
    pub scalar: Scalar<'a>,
    /// The combiner.
    pub combine: Option<Combine>,
    /// Element types of the inputs, then of the output.
    pub elems: Vec<Type>,
    /// Maps of the inputs, then of the output.
    pub maps: &'a [AffineMap],
    /// Which iterators are reductions.
    pub reductions: &'a [bool],
    /// Ranges.
    pub domain: &'a [i64],
}

/// All ways to run the points of a generic on an intrinsic, `limit` at most: the scalar
/// computation is equal, and a unit dimension appears in the map of an operand exactly where the
/// iterator that it is assigned to does. The other iterators become loops.
pub fn assignments(
    candidate: &Candidate<'_>,
    index: usize,
    intrinsic: &Behaviour<'_>,
    limit: usize,
) -> Vec<Assignment> {
    let other = &intrinsic.generic;
    let count = candidate.maps.len() - 1;
    let elems = |v: Value| intrinsic.ir.ty(v).elem();
    if candidate.combine != other.combine
        || other.inputs.len() != count
        || other.outputs.len() != 1
        || candidate.elems[count] != elems(other.outputs[0])
        || other
            .indexing_maps
            .iter()
            .any(|m| m.as_projection().is_none())
    {
        return Vec::new();
    }
    let theirs = Scalar {
        ir: intrinsic.ir,
        body: other.body,
        extended: false,
    };
    let reductions = other.reductions();
    let mut found = Vec::new();
    for order in orders(count) {
        let types = order
            .iter()
            .enumerate()
            .all(|(i, j)| candidate.elems[i] == elems(other.inputs[*j]));
        if !types || !same_scalar(candidate.scalar, theirs, &order) {
            continue;
        }
        let pairs: Vec<(&AffineMap, &AffineMap)> = (0..=count)
            .map(|i| {
                let j = if i < count { order[i] } else { count };
                (&candidate.maps[i], &other.indexing_maps[j])
            })
            .collect();
        let fits = |unit: usize, dim: usize| {
            reductions[unit] == candidate.reductions[dim]
                && pairs.iter().all(|(mine, theirs)| {
                    let here = mine.exprs.iter().any(|e| e.uses(dim));
                    here == theirs.exprs.iter().any(|e| e.uses(unit))
                })
        };
        let mut partial: Vec<Vec<usize>> = vec![Vec::new()];
        for unit in 0..intrinsic.domain.len() {
            let mut longer = Vec::new();
            for chosen in &partial {
                // Later iterators first: they run along contiguous elements.
                for dim in (0..candidate.domain.len()).rev() {
                    if !chosen.contains(&dim) && fits(unit, dim) {
                        longer.push([&chosen[..], &[dim]].concat());
                    }
                }
            }
            partial = longer;
        }
        for unit_dims in partial {
            if found.len() < limit {
                found.push(Assignment {
                    intrinsic: index,
                    unit_dims,
                    inputs: order.clone(),
                });
            }
        }
    }
    found
}
