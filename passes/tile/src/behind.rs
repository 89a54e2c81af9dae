//! What is done to each element before a maximum over windows, done behind it.
//!
//! Rounding keeps an order: where numbers rise with those that they are computed from, the greatest of them is computed
//! from the greatest, and so for the least. So what is added to each element by channel, say, is added to what is left of a
//! window, of which there are fewer. With the steps that follow it is one step.

use std::collections::HashMap;

use tir::{AffineMap, At, BlockId, Ir, Mapping, OpId, Ret, Rets, Value};
use tir_arith::{AddF, MaximumF, MinimumF};
use tir_tensor::generic::iterators;
use tir_tensor::{Combine, Empty, Generic, Yield};

use crate::group::reduction;

/// A maximum or minimum over windows, and the step before it.
pub(crate) struct Behind {
    op: OpId,
    step: OpId,
    /// What else the step reads, over the dimensions of the result.
    maps: Vec<AffineMap>,
    /// The elementwise step that follows, if that is all that reads the result.
    next: Option<OpId>,
}

/// Whether a number rises with an argument of a block, or stays, whatever else it is computed from.
fn rises(ir: &Ir, value: Value, arg: Value) -> bool {
    if value == arg {
        return true;
    }
    let [a, b] = match ir.owner(value) {
        None => return false,
        Some(op) => {
            if let Some(AddF { lhs, rhs, .. }) = ir.get(op) {
                [lhs, rhs]
            } else if let Some(MaximumF { lhs, rhs, .. }) = ir.get(op) {
                [lhs, rhs]
            } else if let Some(MinimumF { lhs, rhs, .. }) = ir.get(op) {
                [lhs, rhs]
            } else {
                return false;
            }
        }
    };
    rises(ir, a, arg) && !depends(ir, b, arg) || rises(ir, b, arg) && !depends(ir, a, arg)
}

/// Whether a value is computed from another one.
fn depends(ir: &Ir, value: Value, on: Value) -> bool {
    let from = ir.owner(value).into_iter().flat_map(|op| ir.operands(op));
    value == on || from.into_iter().any(|value| depends(ir, value, on))
}

/// What a block of a generic yields, if that is one value.
fn yielded(ir: &Ir, generic: &Generic) -> Option<(BlockId, Value)> {
    let block = ir.entry(generic.body)?;
    let end: Yield = ir.get(ir.last(block)?)?;
    let [value] = end.values[..] else { return None };
    Some((block, value))
}

/// The only op that reads a value.
fn reader(ir: &Ir, value: Value) -> Option<OpId> {
    let mut uses = ir.uses(value);
    let one = uses.next()?.op;
    uses.next().is_none().then_some(one)
}

/// An elementwise generic with one result whose elements it reads where they are.
fn elementwise(ir: &Ir, op: OpId) -> Option<Generic> {
    let generic: Generic = ir.get(op)?;
    let plain = generic.combine.is_none()
        && generic.outputs.len() == 1
        && generic.indexing_maps.last()?.is_identity()
        && generic.reductions().iter().all(|reduction| !reduction);
    plain.then_some(generic)
}

/// The maxima and minima of a function behind which a step may be done, in order.
pub(crate) fn candidates(func: &Ir) -> Vec<Behind> {
    let all = func.walk_ids().into_iter();
    all.filter_map(|op| candidate(func, op)).collect()
}

fn candidate(func: &Ir, op: OpId) -> Option<Behind> {
    let (generic, source, _) = reduction(func, op)?;
    if !matches!(generic.combine?, Combine::Max | Combine::Min) {
        return None;
    }
    let (block, value) = yielded(func, &generic)?;
    let same = func.args(block).next() == Some(value);
    if !same || reader(func, source) != Some(op) {
        return None;
    }
    let step = func.owner(source)?;
    let before = elementwise(func, step)?;
    let (block, value) = yielded(func, &before)?;
    let (of, maps) = (before.inputs.first()?, &before.indexing_maps);
    let arg = func.args(block).next()?;
    let here = func.block_of(step) == func.block_of(op)
        && func
            .def::<Generic>(*of)
            .is_some_and(|made| made.combine.is_some())
        && func.ty(*of) == func.ty(source)
        && maps[0].is_identity()
        && rises(func, value, arg);
    if !here {
        return None;
    }
    // What else it reads, it reads at what the windows do not move along.
    let [from, to] = &generic.indexing_maps[..] else {
        return None;
    };
    let (from, to) = (from.linear()?, to.as_projection()?);
    let kept: Vec<Option<usize>> = from
        .iter()
        .map(|form| to.iter().position(|d| Some(*d) == form.as_dim()))
        .collect();
    let moved = |map: &AffineMap| -> Option<AffineMap> {
        let places = map.as_projection()?;
        let places = places
            .iter()
            .map(|s| kept[*s])
            .collect::<Option<Vec<usize>>>()?;
        Some(AffineMap::project(to.len(), &places))
    };
    let others = &maps[1..before.inputs.len()];
    let maps = others.iter().map(moved).collect::<Option<Vec<_>>>()?;
    let result = func.result(op, 0);
    let next = reader(func, result).filter(|next| {
        let follows = elementwise(func, *next).is_some_and(|step| {
            let at = step.inputs.iter().position(|input| *input == result);
            at.is_some_and(|at| step.indexing_maps[at].is_identity())
                && func.ty(step.outputs[0]).shape() == func.ty(result).shape()
        });
        follows && func.block_of(*next) == func.block_of(op)
    });
    Some(Behind {
        op,
        step,
        maps,
        next,
    })
}

/// Does the step behind the maximum, as one with what follows.
pub(crate) fn apply(func: &mut Ir, behind: &Behind, group: &mut HashMap<OpId, usize>) {
    let Some(before) = func.get::<Generic>(behind.step) else {
        return;
    };
    let result = func.result(behind.op, 0);
    func.set_operand(behind.op, 0, before.inputs[0]);
    let rank = func.ty(result).shape().map_or(0, <[i64]>::len);
    let follows = behind.next.and_then(|next| func.get::<Generic>(next));
    let (mut inputs, mut maps) = (vec![result], vec![AffineMap::identity(rank)]);
    inputs.extend(&before.inputs[1..]);
    maps.extend(behind.maps.iter().cloned());
    let ty = follows
        .as_ref()
        .map_or(func.ty(result), |of| func.ty(of.outputs[0]));
    // The regions of both, one behind the other.
    let body = func.new_region();
    let block = func.new_block(body);
    let mut known = Mapping::default();
    let Some((first, value)) = yielded(func, &before) else {
        return;
    };
    for arg in func
        .args(first)
        .collect::<Vec<Value>>()
        .into_iter()
        .take(inputs.len())
    {
        let made = func.add_arg(block, func.ty(arg));
        known.map(arg, made);
    }
    copy(func, first, block, &mut known);
    let mut value = known.get(value);
    if let Some(of) = &follows
        && let Some((second, last)) = yielded(func, of)
    {
        let args: Vec<Value> = func.args(second).collect();
        for ((input, map), arg) in of.inputs.iter().zip(&of.indexing_maps).zip(args) {
            let made = match *input == result {
                true => value,
                false => {
                    inputs.push(*input);
                    maps.push(map.clone());
                    func.add_arg(block, func.ty(arg))
                }
            };
            known.map(arg, made);
        }
        copy(func, second, block, &mut known);
        value = known.get(last);
    }
    let mut b = func.at(At::End(block));
    b.add(Yield {
        values: vec![value],
    });
    maps.push(AffineMap::identity(rank));
    let place = behind.next.unwrap_or(behind.op);
    let at = match behind.next {
        Some(next) => At::Before(next),
        None => func
            .next(behind.op)
            .map_or(At::After(behind.op), At::Before),
    };
    let loc = func.loc(if behind.next.is_some() {
        place
    } else {
        behind.step
    });
    let users: Vec<_> = func.uses(result).map(|u| u.op).collect();
    let mut b = func.at(at);
    b.loc = loc;
    let empty = b.add(Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(ty),
    });
    let results = b.add(Generic {
        inputs,
        outputs: vec![empty],
        indexing_maps: maps,
        iterator_types: iterators(rank, 0),
        combine: None,
        sizes: None,
        body,
        results: Rets(vec![ty]),
    });
    let made = results[0];
    let number = behind.next.and_then(|next| group.remove(&next));
    let number = number.or_else(|| group.get(&behind.op).copied());
    if let (Some(number), Some(op)) = (number, func.owner(made)) {
        group.insert(op, number);
    }
    match behind.next {
        Some(next) => func.replace(next, &[made]),
        None => func.replace_uses_if(result, made, |_, u| users.contains(&u.op)),
    }
    group.remove(&behind.step);
    func.erase(behind.step);
}

/// Copies the ops of a block but for its end.
fn copy(func: &mut Ir, from: BlockId, to: BlockId, known: &mut Mapping) {
    let end = func.last(from);
    let ops: Vec<OpId> = func.ops_in(from).filter(|op| Some(*op) != end).collect();
    for op in ops {
        func.duplicate(op, At::End(to), known);
    }
}
