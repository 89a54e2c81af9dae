//! Iterators of few divisors, computed in two parts: the first of many divisors, and the rest.
//!
//! The thread and vector units compute whole tiles: those of an iterator of 100,003 points, which is a prime, have all of them or one.
//! Where all do not fit near memory each element would be a transfer. So a generic that no unit of products takes is computed in two
//! parts there, of 99,328 points and of 675: each has tiles that fit. What one gives the next one reads part by part; a tensor is put
//! together for others alone. Of a reduction both parts are combined.

use std::collections::HashMap;

use tir::{AffineExpr, AffineMap, At, Builder, Ir, Mapping, OpId, Ret, Rets, Type, Value};
use tir_tensor::{Combine, Empty, ExtractSlice, Generic, InsertSlice};

use crate::near::is_near;
use crate::plan::{Choices, Target, divisors};
use crate::widen::{each_element, takes};

/// Tiles of one in so many bytes of near memory have room beside one another, in two slots each.
const ROOM: i64 = 4;

/// The largest tile that fits is one in so many of these bytes at least, or the iterator has too few divisors.
const LEAST: i64 = 16;

/// The first part is a multiple of so many points, where it is several of them.
const POINTS: i64 = 1024;

/// Divisions that are looked at, at most.
const DIVISIONS: usize = 1 << 16;

/// Where a generic is cut: an iterator, and how many points its first part has.
#[derive(Clone, Copy)]
struct Cut {
    iterator: usize,
    at: i64,
}

/// A tensor in two parts along a dimension.
struct Parts {
    dim: usize,
    at: i64,
    parts: [Value; 2],
}

/// Computes such generics of a function in two parts. Parts of a fused group are two groups.
pub(crate) fn split(func: &mut Ir, target: &Target<'_>, group: &mut HashMap<OpId, usize>) {
    let inner = target.innermost();
    let cap = inner.near.bytes / ROOM;
    let mut parts: HashMap<Value, Parts> = HashMap::new();
    let mut rests: HashMap<usize, usize> = HashMap::new();
    let mut old: Vec<OpId> = Vec::new();
    for op in func.walk_ids() {
        if !func.contains(op) || func.parent(op) != Some(func.root()) || is_near(func, op) {
            continue;
        }
        let Some(generic) = func.get::<Generic>(op) else {
            continue;
        };
        let Some(cut) = cut(func, &generic, cap) else {
            continue;
        };
        // What units of products take may stick out of a tensor; so may what is computed on their tiles.
        let number = group.get(&op).copied();
        let peers = group.iter().filter(|(_, own)| number == Some(**own));
        let mut peers = peers.map(|(op, _)| *op).chain([op]);
        let on_unit = |op: OpId| {
            let generic = func.get::<Generic>(op);
            generic.is_some_and(|generic| takes(func, &generic, inner))
        };
        if peers.any(on_unit) {
            continue;
        }
        let Some(made) = in_parts(func, op, &generic, cut, &parts) else {
            continue;
        };
        if let Some(number) = number {
            // Numbers of groups are places of ops, so none is used by another group.
            let most = group.values().copied().max().unwrap_or(0);
            let next = most.max(func.walk_ids().len()) + 1;
            let rest = *rests.entry(number).or_insert(next);
            let [first, second] = made.ops;
            group.insert(first, number);
            group.insert(second, rest);
            group.extend(made.combined.map(|op| (op, number)));
        }
        let result = func.result(op, 0);
        match made.combined {
            Some(combined) => func.replace(op, &[func.result(combined, 0)]),
            None => {
                let whole = made.ops.map(|op| func.result(op, 0));
                parts.insert(
                    result,
                    Parts {
                        dim: made.dim,
                        at: cut.at,
                        parts: whole,
                    },
                );
                old.push(op);
            }
        }
        group.remove(&op);
    }
    for op in old.into_iter().rev() {
        let result = func.result(op, 0);
        let Some(of) = parts.get(&result) else {
            continue;
        };
        if func.uses(result).next().is_none() {
            func.erase(op);
            continue;
        }
        let whole = put_together(func, op, of);
        func.replace(op, &[whole]);
    }
}

/// Where a generic is cut, if it has to be.
fn cut(ir: &Ir, generic: &Generic, cap: i64) -> Option<Cut> {
    let ([_], None) = (&generic.outputs[..], &generic.sizes) else {
        return None;
    };
    let domain = generic.domain(ir).ok()?;
    let maps = generic.indexing_maps.iter().map(AffineMap::linear);
    let maps: Vec<_> = maps.collect::<Option<_>>()?;
    let elems = generic.operands().map(|v| ir.ty(v).elem().bytes());
    let elems: Vec<i64> = elems
        .map(|bytes| Some(bytes? as i64))
        .collect::<Option<_>>()?;
    let bytes = |tile: &[i64]| {
        let each = maps.iter().zip(&elems).map(|(map, elem)| {
            let extents = map.iter().map(|form| {
                let terms = form
                    .terms()
                    .map(|(d, by)| by.abs().saturating_mul(tile[d] - 1));
                terms.fold(1, i64::saturating_add)
            });
            extents.fold(*elem, i64::saturating_mul)
        });
        each.fold(0, i64::saturating_add)
    };
    if domain.iter().any(|n| *n < 1) || bytes(&domain) <= cap {
        return None;
    }
    let plain = |d: &usize| {
        let mut maps = generic.indexing_maps.iter();
        maps.all(|map| {
            let mut used = map.exprs.iter().filter(|e| e.uses(*d));
            let plain = used.next().is_none_or(|e| *e == AffineExpr::Dim(*d));
            plain && used.next().is_none()
        })
    };
    let iterator = (0..domain.len()).filter(plain).max_by_key(|d| domain[*d])?;
    let all = domain[iterator];
    let sizes = domain.iter().map(|n| divisors(*n)).collect();
    let choices = Choices::new(sizes, DIVISIONS);
    let tiles = choices.every(1).map(|tile| bytes(&tile));
    let most = tiles.filter(|bytes| *bytes <= cap).max().unwrap_or(0);
    if most.saturating_mul(LEAST) >= cap {
        return None;
    }
    let mut points = POINTS;
    while points > 1 && points.saturating_mul(8) > all {
        points /= 2;
    }
    let at = all - all % points;
    (points > 1 && at < all).then_some(Cut { iterator, at })
}

/// A generic in two parts: their ops, the dimension of the result that they are parts of, and what combines them if it is none.
struct Made {
    ops: [OpId; 2],
    dim: usize,
    combined: Option<OpId>,
}

fn in_parts(
    func: &mut Ir,
    op: OpId,
    generic: &Generic,
    cut: Cut,
    known: &HashMap<Value, Parts>,
) -> Option<Made> {
    let all = generic.domain(func).ok()?[cut.iterator];
    let place = |map: &AffineMap| {
        let mut exprs = map.exprs.iter();
        exprs.position(|e| *e == AffineExpr::Dim(cut.iterator))
    };
    let dim = place(generic.indexing_maps.last()?);
    let init = *generic.outputs.first()?;
    if dim.is_none() && !combines(func, generic.combine?, init) {
        return None;
    }
    let ranges = [(0, cut.at), (cut.at, all - cut.at)];
    let mut ops = Vec::new();
    for (part, range) in ranges.into_iter().enumerate() {
        let operands: Vec<Value> = generic.operands().collect();
        let taken = operands
            .iter()
            .zip(&generic.indexing_maps)
            .map(|(value, map)| {
                let Some(s) = place(map) else { return *value };
                match known.get(value) {
                    Some(of) if (of.dim, of.at) == (s, cut.at) => of.parts[part],
                    _ => slice(func, op, *value, s, range),
                }
            });
        let taken: Vec<Value> = taken.collect();
        let (output, inputs) = taken.split_last()?;
        let body = func.new_region();
        func.duplicate_region(generic.body, body, &mut Mapping::default());
        let (loc, ty) = (func.loc(op), func.ty(*output));
        let mut b = func.at(At::Before(op));
        b.loc = loc;
        let results = b.add(Generic {
            inputs: inputs.to_vec(),
            outputs: vec![*output],
            indexing_maps: generic.indexing_maps.clone(),
            iterator_types: generic.iterator_types.clone(),
            combine: generic.combine,
            sizes: None,
            body,
            results: Rets(vec![ty]),
        });
        ops.push(func.owner(*results.first()?)?);
    }
    let ops = [*ops.first()?, *ops.get(1)?];
    let combined = match dim {
        Some(_) => None,
        None => Some(combined(func, op, generic.combine?, ops)?),
    };
    Some(Made {
        ops,
        dim: dim.unwrap_or(0),
        combined,
    })
}

/// Whether two reductions that begin with a value may be combined: it adds nothing, or may be there twice.
fn combines(ir: &Ir, combine: Combine, init: Value) -> bool {
    let fill = ir.owner(init).and_then(|op| ir.get::<Generic>(op));
    let Some(start) = fill.and_then(|fill| fill.constant(ir)) else {
        return false;
    };
    match combine {
        Combine::Max | Combine::Min => true,
        Combine::Add => start.as_float() == Some(0.0) || start.as_int() == Some(0),
        Combine::Mul => false,
    }
}

/// Some points of a tensor along a dimension, before an op.
fn slice(func: &mut Ir, op: OpId, value: Value, dim: usize, (from, count): (i64, i64)) -> Value {
    let ty = func.ty(value);
    let mut shape = ty.shape().unwrap_or(&[]).to_vec();
    let mut offsets = vec![0; shape.len()];
    (offsets[dim], shape[dim]) = (from, count);
    let result = Type::tensor(shape.clone(), ty.elem());
    let empty = func.owner(value).is_some_and(|op| func.is::<Empty>(op));
    let loc = func.loc(op);
    let mut b = func.at(At::Before(op));
    b.loc = loc;
    if empty {
        return b.add(Empty {
            dynamic_sizes: Vec::new(),
            space: None,
            result: Ret(result),
        });
    }
    b.add(ExtractSlice {
        source: value,
        offsets: Vec::new(),
        sizes: Vec::new(),
        strides: Vec::new(),
        static_offsets: offsets,
        static_strides: vec![1; shape.len()],
        static_sizes: shape,
        result: Ret(result),
    })
}

/// What combines the results of two parts of a reduction, before an op.
fn combined(func: &mut Ir, op: OpId, combine: Combine, parts: [OpId; 2]) -> Option<OpId> {
    let parts = parts.map(|op| func.result(op, 0));
    let ty = func.ty(parts[0]);
    let both = |b: &mut Builder<'_>, args: &[Value]| combine.build(b, args[0], args[1]);
    let made = each_element(func, op, &parts, ty, &both);
    func.owner(made)
}

/// A tensor of its parts, before an op.
fn put_together(func: &mut Ir, op: OpId, of: &Parts) -> Value {
    let ty = func.ty(func.result(op, 0));
    let rank = ty.shape().map_or(0, <[i64]>::len);
    let sizes = of
        .parts
        .map(|part| func.ty(part).shape().unwrap_or(&[]).to_vec());
    let loc = func.loc(op);
    let mut b = func.at(At::Before(op));
    b.loc = loc;
    let mut whole = b.add(Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(ty),
    });
    for ((part, sizes), from) in of.parts.iter().zip(sizes).zip([0, of.at]) {
        let mut offsets = vec![0; rank];
        offsets[of.dim] = from;
        whole = b.add(InsertSlice {
            source: *part,
            dest: whole,
            offsets: Vec::new(),
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets: offsets,
            static_sizes: sizes,
            static_strides: vec![1; rank],
            result: Ret(ty),
        });
    }
    whole
}
