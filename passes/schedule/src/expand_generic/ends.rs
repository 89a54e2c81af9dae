//! Buffers without the dimensions of one element that they end with.
//!
//! The lanes of a vector lie along the last dimension of what a nest writes. Where that has one element, as a mean of each channel
//! or the sum of each row, the dimension before it is the last one as far as memory is concerned: nests are given such
//! buffers without the ends, and lose the iterators that counted nothing else.

use std::collections::HashMap;

use tir::{AffineExpr, AffineMap, At, Definition, Failure, Ir, MemRefType, OpId, Ret, Type, Value};
use tir_memref::alias::ended;
use tir_memref::{Alloc, CollapseShape, collapsed_type};
use tir_tensor::{Generic, reassociation};

use super::located;

/// Gives nests the buffers that they write without ends of one element each, wherever nests read or write them.
pub(super) fn without(ir: &mut Ir) -> Result<(), Failure> {
    let ops: Vec<OpId> = ir.walk_ids();
    // On buffers, as those below are.
    let nests = ops.into_iter().filter(|op| {
        let nest = ir.get::<Generic>(*op);
        nest.is_some_and(|nest| nest.outputs.iter().all(|v| ir.ty(*v).is::<MemRefType>()))
    });
    let nests: Vec<OpId> = nests.collect();
    let mut ranges = Vec::new();
    for op in nests {
        let nest = ir.get::<Generic>(op).ok_or("is no nest")?;
        let domain = nest.domain(ir);
        ranges.push((op, domain.map_err(|error| located(ir, op, *error))?));
    }
    let mut shorter: HashMap<Value, Value> = HashMap::new();
    for (op, _) in &ranges {
        let outputs = ir.get::<Generic>(*op).map_or(vec![], |nest| nest.outputs);
        for value in outputs {
            if !shorter.contains_key(&value)
                && let Some(view) = shortened(ir, value)
            {
                shorter.insert(value, view);
            }
        }
    }
    for (op, domain) in ranges {
        if let Some(nest) = ir.get::<Generic>(op)
            && nest.operands().any(|value| shorter.contains_key(&value))
        {
            shorten(ir, op, nest, &domain, &shorter)?;
        }
    }
    Ok(())
}

/// How many dimensions of a shape are left without its ends, if it has any.
fn kept(shape: &[i64]) -> Option<usize> {
    let last = shape.iter().rposition(|n| *n != 1)?;
    (last + 1 < shape.len()).then_some(last + 1)
}

/// A buffer without its ends: it itself with another type, if nothing but nests knows it, else a view of it.
fn shortened(ir: &mut Ir, value: Value) -> Option<Value> {
    let memref: &MemRefType = ir.ty(value).get()?;
    let kept = kept(&memref.shape)?;
    let shape = memref.shape[..kept].to_vec();
    let dim = |d: usize| i64::try_from(d).unwrap_or(i64::MAX);
    let mut groups: Vec<Vec<i64>> = (0..kept).map(|d| vec![dim(d)]).collect();
    groups
        .last_mut()?
        .extend((kept..memref.shape.len()).map(dim));
    let reassociation = reassociation(&groups);
    let ty: Type = collapsed_type(memref, &shape, &reassociation)?;
    let made = ir.owner(value);
    let own = made.is_some_and(|op| ir.is::<Alloc>(op))
        && ir
            .uses(value)
            .all(|used| ir.is::<Generic>(used.op) || ended(ir, used.op).is_some());
    if own {
        ir.set_type(value, ty);
        return Some(value);
    }
    let at = match ir.definition(value) {
        Definition::Result(op, _) => At::After(op),
        Definition::Argument(block, _) => At::Start(block),
    };
    let mut b = ir.at(at);
    Some(b.add(CollapseShape {
        src: value,
        reassociation,
        result: Ret(ty),
    }))
}

/// Makes a nest work on shorter buffers, without the iterators of one point that counted their ends.
fn shorten(
    ir: &mut Ir,
    op: OpId,
    nest: Generic,
    domain: &[i64],
    shorter: &HashMap<Value, Value>,
) -> Result<(), Failure> {
    let rank = domain.len();
    let mut maps = nest.indexing_maps.clone();
    let mut gone = vec![false; rank];
    for (value, map) in nest.operands().zip(&mut maps) {
        let Some(view) = shorter.get(&value) else {
            continue;
        };
        let left = ir.ty(*view).shape().map_or(0, <[i64]>::len);
        for expr in map.exprs.drain(left..) {
            (0..rank).for_each(|d| gone[d] |= expr.uses(d));
        }
    }
    // One that a dimension beyond its end names is gone with it, if it has one point.
    let left: Vec<usize> = (0..rank).filter(|d| !gone[*d] || domain[*d] != 1).collect();
    let place = |d: usize| left.iter().position(|kept| *kept == d);
    let places: Vec<AffineExpr> = (0..rank)
        .map(|d| place(d).map_or(AffineExpr::Const(0), AffineExpr::Dim))
        .collect();
    let renamed = |map: &AffineMap| {
        let exprs = map.exprs.iter().map(|e| e.replace(&places));
        AffineMap::new(left.len(), exprs.collect())
    };
    let given = |values: &[Value]| -> Vec<Value> {
        let views = values.iter().map(|v| shorter.get(v).unwrap_or(v));
        views.copied().collect()
    };
    let of_left = |d: &usize| nest.iterator_types[*d];
    let made = Generic {
        inputs: given(&nest.inputs),
        outputs: given(&nest.outputs),
        indexing_maps: maps.iter().map(renamed).collect(),
        iterator_types: left.iter().map(of_left).collect(),
        // What an iterator that is gone moved may be longer than what is left of it.
        sizes: (nest.sizes.is_some() || left.len() < rank)
            .then(|| left.iter().map(|d| domain[*d]).collect()),
        ..nest
    };
    ir.detach_region(made.body);
    let loc = ir.loc(op);
    let mut b = ir.at(At::Before(op));
    b.loc = loc;
    b.add(made);
    ir.erase(op);
    Ok(())
}
