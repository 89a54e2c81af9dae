//! What is read in steps, computed with all that lies between.
//!
//! A unit takes rows of a tile that lie one behind the other. A window that moves in steps of two wants every second
//! pixel there, so what it reads lies in near memory as interleaved sequences, which nobody can compute as such whose
//! own rows do not lie so. Where a row of results is shorter than a block of the unit, the results between
//! come for nothing: the window moves in steps of one, and every second of its results is of use. Whatever reads these
//! reads them in steps, and is computed in the same way, as far as that goes: values with so many elements along a
//! dimension have `(n - 1) · step + 1`, and element `i` is what was element `i / step` before.
//!
//! A sum over such a dimension with a constant, an average, has zeros in the constant between the numbers: as for what
//! is joined elsewhere, an infinity between two elements makes such a sum NaN.

use std::collections::HashMap;

use tir::{
    At, Attr, DYNAMIC, DenseElements, Ir, LinearExpr, LinearMap, OpId, Ret, Rets, Type, Value,
};
use tir_arith::MulF;
use tir_graph::Constant;
use tir_tensor::{Combine, Empty, Generic, TransferRead, Yield};

use crate::emit::copy_body;
use crate::plan::Target;

/// What is read in steps, and what becomes of all that is computed from it.
pub(crate) struct Strides {
    /// Changed ops, in order.
    changes: Vec<(OpId, Change)>,
}

/// What becomes of an op.
enum Change {
    /// A read of a value with elements between: the dimension of the value, and their distance.
    Read(usize, i64),
    Generic(Box<Step>),
}

/// What becomes of a generic.
struct Step {
    maps: Vec<LinearMap>,
    domain: Vec<i64>,
    /// The dimension of the result that has elements between, and their distance.
    result: Option<(usize, i64)>,
    /// Inputs that get zeros between their elements: the dimension, and the distance.
    constants: Vec<(usize, usize, i64)>,
}

/// The longest row of results of a unit.
fn longest(target: &Target<'_>) -> i64 {
    let behaviours = target.behaviours.iter().flatten();
    let rows = behaviours.filter_map(|behaviour| {
        let place = behaviour.places.last()?.first()?;
        Some(behaviour.domain[place.dim?])
    });
    rows.max().unwrap_or(0)
}

/// What may be computed so in a function, in the order of what is read. Nothing where one processor moves and computes: it
/// needs no other order.
pub(crate) fn candidates(func: &Ir, target: &Target<'_>) -> Vec<Strides> {
    let most = longest(target);
    if target.info.in_order || most < 2 {
        return Vec::new();
    }
    let all = func.walk_ids().into_iter();
    let all = all.filter(|op| func.is::<Generic>(*op) && func.parent(*op) == Some(func.root()));
    all.filter_map(|op| candidate(func, op, most)).collect()
}

/// A read of a whole tensor, perhaps with a border.
fn plain(ir: &Ir, op: OpId) -> Option<TransferRead> {
    let read: TransferRead = ir.get(op)?;
    let still = read.space.is_none() && !read.static_offsets.contains(&DYNAMIC);
    (still && read.access.is_identity() && ir.ty(read.source).shape().is_some()).then_some(read)
}

/// The distance of the elements of a value that a generic reads, in which dimension, and the iterator: of those that
/// are no reductions the last dimension with such an iterator.
fn steps(ir: &Ir, generic: &Generic, input: usize) -> Option<(usize, i64, usize)> {
    let (forms, reductions) = (generic.indexing_maps[input].linear()?, generic.reductions());
    let domain = generic.domain(ir).ok()?;
    let step = |s: usize| {
        let mut counts = forms[s].terms().filter(|(d, _)| !reductions[*d]);
        let (d, step) = counts.next()?;
        (counts.next().is_none() && domain[d] > 1).then_some((s, step, d))
    };
    let found = (0..forms.len()).rev().find_map(step)?;
    (found.1 > 1).then_some(found)
}

fn candidate(func: &Ir, op: OpId, most: i64) -> Option<Strides> {
    let results: Vec<Value> = func.results(op).collect();
    let [value] = results[..] else { return None };
    // The value, and reads of it.
    let mut sources = vec![value];
    for u in func.uses(value) {
        if plain(func, u.op).is_some() {
            sources.extend(func.results(u.op));
        }
    }
    let seed = |generic: &Generic| {
        let mut inputs = generic.inputs.iter();
        let input = inputs.position(|input| sources.contains(input))?;
        steps(func, generic, input)
    };
    let mut readers = sources.iter().flat_map(|value| func.uses(*value));
    if !readers.any(|u| {
        func.get::<Generic>(u.op)
            .is_some_and(|g| seed(&g).is_some())
    }) {
        return None;
    }
    let block = func.block_of(op)?;
    let mut between: HashMap<Value, (usize, i64)> = HashMap::new();
    let mut changes = Vec::new();
    for op in func.ops_in(block) {
        let reads = func.operands(op).any(|v| between.contains_key(&v));
        let first = func.operands(op).any(|v| sources.contains(&v));
        if !reads && !first {
            continue;
        }
        if let Some(read) = plain(func, op) {
            if let Some((s, step)) = between.get(&read.source).copied() {
                between.insert(func.result(op, 0), (s, step));
                changes.push((op, Change::Read(s, step)));
            }
            continue;
        }
        let Some(generic) = func.get::<Generic>(op) else {
            // Another reader of the value itself is no matter.
            if reads {
                return None;
            }
            continue;
        };
        let seed = seed(&generic);
        if !reads && seed.is_none() {
            continue;
        }
        let step = step(func, &generic, &between, seed, most)?;
        if let Some(result) = step.result {
            between.insert(func.result(op, 0), result);
        }
        changes.push((op, Change::Generic(Box::new(step))));
    }
    // What is in another block is not looked at.
    let here = |value: &Value| {
        func.uses(*value)
            .all(|u| func.block_of(u.op) == Some(block))
    };
    let found = !between.is_empty() && between.keys().all(here);
    found.then_some(Strides { changes })
}

/// What becomes of a generic that reads values with elements between, or a value in steps; `None` if it cannot be.
fn step(
    func: &Ir,
    generic: &Generic,
    between: &HashMap<Value, (usize, i64)>,
    seed: Option<(usize, i64, usize)>,
    most: i64,
) -> Option<Step> {
    let (reductions, mut domain) = (generic.reductions(), generic.domain(func).ok()?);
    let mut maps = Vec::new();
    for map in &generic.indexing_maps {
        maps.push(map.linear()?);
    }
    // Iterators that move in steps, and how far.
    let mut moving: Vec<(usize, i64)> = Vec::new();
    moving.extend(seed.map(|(_, step, d)| (d, step)));
    for (input, forms) in generic.inputs.iter().zip(&mut maps) {
        let Some((s, step)) = between.get(input).copied() else {
            continue;
        };
        forms[s] = LinearExpr::default().plus(&forms[s], step)?;
        for (d, by) in forms[s].terms() {
            if !reductions[d] {
                moving.push((d, by));
            }
        }
    }
    let mut found = Step {
        maps,
        domain: Vec::new(),
        result: None,
        constants: Vec::new(),
    };
    let output = found.maps.len() - 1;
    if generic.outputs.len() != 1 || generic.inputs.len() != output {
        return None;
    }
    match moving.first().copied() {
        Some((d, step)) => {
            // One iterator, in steps that all inputs have.
            if moving.iter().any(|(other, _)| *other != d) {
                return None;
            }
            let mut places =
                (0..found.maps[output].len()).filter(|p| found.maps[output][*p].at(d) != 0);
            let place = places.next()?;
            if places.next().is_some() || found.maps[output][place].as_dim() != Some(d) {
                return None;
            }
            domain[d] = (domain[d] - 1).checked_mul(step)?.checked_add(1)?;
            if step < 2 || domain[d] > most {
                return None;
            }
            for forms in &mut found.maps[..output] {
                for form in forms.iter_mut() {
                    divide(form, d, step)?;
                }
            }
            let start = func.owner(generic.outputs[0])?;
            let filled = crate::group::filled(func, generic.outputs[0]).is_some();
            if !filled && !func.is::<Empty>(start) {
                return None;
            }
            found.result = Some((place, step));
        }
        None => sparse(func, generic, between, &mut found, &mut domain)?,
    }
    found.domain = domain;
    Some(found)
}

/// A form of an iterator that counts in steps, with that counted one by one.
fn divide(form: &mut LinearExpr, d: usize, step: i64) -> Option<()> {
    let by = form.at(d);
    if by % step != 0 {
        return None;
    }
    *form = form.plus(&LinearExpr::term(d, by / step - by), 1)?;
    Some(())
}

/// A sum over elements in steps with a constant: the constant gets zeros between. Anything else reads in steps.
fn sparse(
    func: &Ir,
    generic: &Generic,
    between: &HashMap<Value, (usize, i64)>,
    found: &mut Step,
    domain: &mut [i64],
) -> Option<()> {
    let read = |i: &usize| between.contains_key(&generic.inputs[*i]);
    let [one, other] = [0, 1].map(|i| (i < generic.inputs.len()).then_some(i));
    let (Some(one), Some(other)) = (one, other) else {
        return Some(());
    };
    let (values, constant) = match (read(&one), read(&other)) {
        (true, false) => (one, other),
        (false, true) => (other, one),
        _ => return Some(()),
    };
    let product = || {
        let block = func.entry(generic.body)?;
        let end: Yield = func.get(func.last(block)?)?;
        let product: MulF = func.def(*end.values.first()?)?;
        let args: Vec<Value> = func.args(block).collect();
        let both = [args[one], args[other]];
        let same = [product.lhs, product.rhs] == both || [product.rhs, product.lhs] == both;
        (generic.combine == Some(Combine::Add) && generic.inputs.len() == 2 && same).then_some(())
    };
    let dense = |value: Value| func.constant(value)?.get::<DenseElements>().map(|_| ());
    if product().is_none() || dense(generic.inputs[constant]).is_none() {
        return Some(());
    }
    let Some((s, step)) = between.get(&generic.inputs[values]).copied() else {
        return Some(());
    };
    let form = found.maps[values][s].clone();
    let mut terms = form.terms();
    let (Some((d, by)), None) = (terms.next(), terms.next()) else {
        return Some(());
    };
    let places: Vec<usize> = (0..found.maps[constant].len())
        .filter(|p| found.maps[constant][*p].at(d) != 0)
        .collect();
    let [place] = places[..] else {
        return Some(());
    };
    let counted = found.maps[constant][place].as_dim() == Some(d) && by == step;
    let elsewhere =
        (0..found.maps[values].len()).any(|t| t != s && found.maps[values][t].at(d) != 0);
    if counted && !elsewhere {
        divide(&mut found.maps[values][s], d, step)?;
        domain[d] = (domain[d] - 1).checked_mul(step)?.checked_add(1)?;
        found.constants.push((constant, place, step));
    }
    Some(())
}

/// The shape of a value with elements between.
fn longer(shape: &[i64], s: usize, step: i64) -> Vec<i64> {
    let mut shape = shape.to_vec();
    shape[s] = (shape[s] - 1) * step + 1;
    shape
}

/// A constant with zeros between its elements in a dimension.
fn with_zeros(value: &Attr, s: usize, by: i64) -> Option<Attr> {
    let dense = value.get::<DenseElements>()?;
    let (shape, elem) = (dense.ty.shape()?, dense.ty.elem());
    let size = elem.bytes()?;
    let count = usize::try_from(shape.iter().product::<i64>()).ok()?;
    let inner = usize::try_from(shape[s + 1..].iter().product::<i64>()).ok()?;
    let (n, step) = (usize::try_from(shape[s]).ok()?, usize::try_from(by).ok()?);
    let long = (n - 1) * step + 1;
    let all = Type::tensor(longer(shape, s, by), elem);
    let mut data = vec![0; count / n * long * size];
    let splat = dense.data.len() == size;
    for i in 0..count {
        let (outer, at, rest) = (i / inner / n, i / inner % n, i % inner);
        let to = ((outer * long + at * step) * inner + rest) * size;
        let from = if splat { 0 } else { i * size };
        data.get_mut(to..to + size)?
            .copy_from_slice(dense.data.get(from..from + size)?);
    }
    let data = data.into();
    Some(Attr::new(DenseElements { ty: all, data }))
}

/// Computes values with elements between. `group` says which fused group generics are in.
pub(crate) fn apply(func: &mut Ir, strides: &Strides, group: &mut HashMap<OpId, usize>) {
    let mut known: HashMap<Value, Value> = HashMap::new();
    let mut gone = Vec::new();
    for (op, change) in &strides.changes {
        let made = match change {
            Change::Read(s, step) => read(func, *op, (*s, *step), &known),
            Change::Generic(step) => generic(func, *op, step, &known),
        };
        let Some(made) = made else { continue };
        if let Some(number) = group.remove(op)
            && let Some(made) = func.owner(made)
        {
            group.insert(made, number);
        }
        let between = match change {
            Change::Read(..) => true,
            Change::Generic(step) => step.result.is_some(),
        };
        gone.push(*op);
        if let Some(generic) = func.get::<Generic>(*op) {
            gone.extend(generic.outputs.iter().filter_map(|out| func.owner(*out)));
        }
        let old = func.result(*op, 0);
        match between {
            true => {
                known.insert(old, made);
            }
            false => func.replace_uses_if(old, made, |_, _| true),
        }
    }
    for op in gone.into_iter().rev() {
        let dead = func.contains(op) && func.results(op).all(|value| func.is_unused(value));
        if !dead {
            continue;
        }
        let outputs = func.get::<Generic>(op).map(|generic| generic.outputs);
        group.remove(&op);
        func.erase(op);
        // What it began with, and the place of that.
        for value in outputs.into_iter().flatten() {
            let mut next = func.owner(value);
            while let Some(op) = next.take() {
                if !func.results(op).all(|value| func.is_unused(value)) {
                    break;
                }
                let filled = func.get::<Generic>(op);
                next = filled.and_then(|of| func.owner(*of.outputs.first()?));
                group.remove(&op);
                func.erase(op);
            }
        }
    }
}

/// A read of a value with elements between, before an op that reads the value without.
fn read(
    func: &mut Ir,
    op: OpId,
    (s, step): (usize, i64),
    known: &HashMap<Value, Value>,
) -> Option<Value> {
    let mut read: TransferRead = func.get(op)?;
    read.source = *known.get(&read.source)?;
    read.static_offsets[s] *= step;
    let shape = longer(read.result.0.shape()?, s, step);
    read.result = Ret(Type::tensor(shape, read.result.0.elem()));
    let loc = func.loc(op);
    let mut b = func.at(At::Before(op));
    b.loc = loc;
    Some(b.add(read))
}

/// A generic on values with elements between, before that on values without.
fn generic(func: &mut Ir, op: OpId, step: &Step, known: &HashMap<Value, Value>) -> Option<Value> {
    let mut generic: Generic = func.get(op)?;
    let loc = func.loc(op);
    for (input, s, by) in &step.constants {
        let value = func.constant(generic.inputs[*input])?;
        let value = with_zeros(&value, *s, *by)?;
        let mut b = func.at(At::Before(op));
        b.loc = loc;
        generic.inputs[*input] = b.add(Constant { value });
    }
    for input in &mut generic.inputs {
        *input = known.get(input).copied().unwrap_or(*input);
    }
    if let Some((s, by)) = step.result {
        let old = generic.outputs[0];
        let shape = longer(func.ty(old).shape()?, s, by);
        let ty = Type::tensor(shape, func.ty(old).elem());
        let start = func.def::<Generic>(old);
        let mut b = func.at(At::Before(op));
        b.loc = loc;
        let empty = b.add(Empty {
            dynamic_sizes: Vec::new(),
            space: None,
            result: Ret(ty),
        });
        generic.outputs = vec![empty];
        generic.results = Rets(vec![ty]);
        if let Some(start) = start {
            let body = copy_body(&mut b, start.body);
            let filled = b.add(Generic {
                outputs: vec![empty],
                body,
                results: Rets(vec![ty]),
                ..start
            });
            generic.outputs = filled;
        }
    }
    let rank = step.domain.len();
    let maps = step.maps.iter().map(|forms| forms.affine(rank));
    generic.indexing_maps = maps.collect();
    generic.sizes = None;
    let known = generic
        .domain(func)
        .is_ok_and(|domain| domain == step.domain);
    generic.sizes = (!known).then(|| step.domain.clone());
    let mut b = func.at(At::Before(op));
    b.loc = loc;
    generic.body = copy_body(&mut b, generic.body);
    b.add(generic).first().copied()
}
