//! Which scalar operations are work: those on data, not those that steer.
//!
//! *Terms.* An op **computes** if it is an operation on an element, or on a vector of them: what a processor has to
//! issue for each of them. An op **steers** if it only makes indices and conditions on indices:
//! addresses, bounds and guards, which loops with counters and address generators give for nothing.
//!
//! *Invariant.* Whether an op computes is seen from its types and from what it is made of, never
//! from its name or its place: so the price of a region is the same in a `tensor.generic` and in
//! the loops that it becomes.

use std::collections::HashSet;

use tir_core::{BlockId, Ir, OpId, Traits, Type, Value, VectorType};

/// Whether an op is a scalar operation on data: without effects or regions, from scalars to
/// scalars of which some are neither indices nor conditions made of indices. Constants are none.
pub fn computes(ir: &Ir, op: OpId) -> bool {
    let Some(info) = ir.info(op) else {
        return false;
    };
    let other = [Traits::ConstantLike, Traits::Terminator];
    if other.into_iter().any(|t| info.has(t)) || ir.regions(op).next().is_some() {
        return false;
    }
    let scalar = |v: Value| {
        let ty: Type = ir.ty(v);
        let ty = if ty.is::<VectorType>() { ty.elem() } else { ty };
        ty.is_float() || ty.is_int() || ty.is_index()
    };
    let mut all = ir.results(op).chain(ir.operands(op));
    if ir.results(op).len() == 0 || !all.all(scalar) || !ir.is_pure(op) {
        return false;
    }
    let mut seen = HashSet::new();
    !ir.results(op).all(|v| steers(ir, v, &mut seen))
        || !ir.operands(op).all(|v| steers(ir, v, &mut seen))
}

/// Whether a value is an index, or a condition made of nothing but indices.
fn steers(ir: &Ir, value: Value, seen: &mut HashSet<Value>) -> bool {
    if ir.ty(value).is_index() || !seen.insert(value) {
        return true;
    }
    if ir.ty(value) != Type::int(1) {
        return false;
    }
    let Some(op) = ir.owner(value) else {
        return false;
    };
    ir.regions(op).next().is_none() && ir.operands(op).all(|v| steers(ir, v, seen))
}

/// What a thread does at one point of an index expression: it loads the arguments of the region
/// that are used, does its operations on data, and stores the results; a combiner is a load and
/// an operation more.
pub fn point_work(ir: &Ir, body: BlockId, outputs: usize, combines: bool) -> u64 {
    let loads = ir.args(body).filter(|v| ir.uses(*v).len() > 0).count();
    let inside = ir.ops_in(body).filter(|op| computes(ir, *op)).count();
    (loads + inside + outputs * if combines { 3 } else { 1 }) as u64
}
