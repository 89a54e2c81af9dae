//! Whether two scalar regions compute the same.
//!
//! They do if they are the same expression, up to the order of operands of commutative ops and an
//! assignment of their arguments. An *immediate* of an intrinsic, a scalar operand, stands for any constant
//! of its type, for the same one wherever it is used.

use std::collections::BTreeMap;

use tir::{Attr, Definition, Ir, OpId, RegionId, TensorType, Traits, Value};
use tir_arith::ExtF;
use tir_tensor::Yield;

/// The constants that immediates stand for, by their number among an intrinsic's scalar operands.
pub type Immediates = BTreeMap<usize, Attr>;

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
    /// The number of an immediate: an argument of the region around this one that is no tensor.
    fn immediate(&self, value: Value) -> Option<usize> {
        match self.ir.definition(value) {
            Definition::Argument(block, index) if Some(block) != self.ir.entry(self.body) => {
                let before = self.ir.args(block).take(index);
                Some(
                    before
                        .filter(|v| !self.ir.ty(*v).is::<TensorType>())
                        .count(),
                )
            }
            _ => None,
        }
    }
}

/// Whether `a`, of a program, computes what `b` does, argument `i` of `a` being argument `order[i]` of `b`,
/// with the immediates of `b` that are found.
pub fn same_scalar(
    a: Scalar<'_>,
    b: Scalar<'_>,
    order: &[usize],
    immediates: &mut Immediates,
) -> bool {
    let (Some(x), Some(y)) = (a.results(), b.results()) else {
        return false;
    };
    x.len() == y.len()
        && x.iter()
            .zip(&y)
            .all(|(x, y)| same_value(a, b, order, (*x, *y), immediates, 64))
}

fn same_value(
    a: Scalar<'_>,
    b: Scalar<'_>,
    order: &[usize],
    (x, y): (Value, Value),
    immediates: &mut Immediates,
    fuel: u32,
) -> bool {
    if a.ir.ty(x) != b.ir.ty(y) || fuel == 0 {
        return false;
    }
    let (x, y) = (a.through(x), b.through(y));
    if let Some(number) = b.immediate(y) {
        let value = a.ir.constant(x);
        return value.is_some_and(|value| *immediates.entry(number).or_insert(value) == value);
    }
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
    let mut ys: Vec<Value> = b.ir.operands(q).collect();
    let mut pairwise = |ys: &[Value]| {
        // What a failed attempt found out of immediates does not hold.
        let before = immediates.clone();
        let mut pairs = xs.iter().zip(ys);
        let same = pairs.all(|(x, y)| same_value(a, b, order, (*x, *y), immediates, fuel - 1));
        if !same {
            *immediates = before;
        }
        same
    };
    if pairwise(&ys) {
        return true;
    }
    ys.reverse();
    ys.len() == 2 && a.ir.has(p, Traits::Commutative) && pairwise(&ys)
}
