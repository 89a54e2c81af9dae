//! Families of intrinsics: one description for several sizes of a unit's operands.
//!
//! *Terms.* An intrinsic with `family {d0 = array<i64: 14, 7>}` stands for one with each of these sizes of dimension 0 of its first
//! operand. What is of that size with it (a dimension of another operand, of a value inside) is so because a generic's
//! iterator runs along both. Cycles are the formula at the sizes. The member of the declared sizes comes first; each has the
//! family's name and its sizes behind it: `@more14`, `@more7`.

use std::collections::{BTreeSet, HashSet, VecDeque};

use tir::{
    AffineExpr, AffineMap, At, Attr, AttrValue, Diagnostic, DictAttr, Failure, Ir, Mapping, OpId,
    Type, Value,
};
use tir_tensor::Generic;

use crate::Intrinsic;

/// The attribute of a family.
const FAMILY: &str = "family";

/// The largest size of a dimension.
const LARGEST: i64 = 65_536;

/// The most members of a family.
const MEMBERS: usize = 1024;

/// A dimension of the first operand and the sizes that it may have.
type Sizes = (usize, Vec<i64>);

/// What a family's attribute says; `shape` is that of the first operand.
///
/// # Errors
/// If it is no dictionary of lists of different sizes by dimensions (`d0`, `d1`, …) of the operand, or there are too many.
pub(crate) fn sizes(attr: Attr, shape: &[i64]) -> Result<Vec<Sizes>, Failure> {
    let wanted = "expected sizes of dimensions of its first operand, as {d0 = array<i64: 14, 7>}";
    let dict = attr.get::<DictAttr>();
    let dict = dict.ok_or_else(|| format!("has the family {attr}, {wanted}"))?;
    let mut all = Vec::new();
    for (name, value) in dict.entries() {
        let dim = name.as_str().strip_prefix('d');
        let dim: Option<usize> = dim.and_then(|d| d.parse().ok());
        let dim = dim.filter(|d| *d < shape.len());
        let dim = dim.ok_or_else(|| format!("has a family of '{name}', {wanted}"))?;
        let list = Vec::<i64>::from_attr(*value);
        let list = list.filter(|list| !list.is_empty() && list.iter().all(|size| *size > 0));
        let list = list.ok_or_else(|| format!("has a family of {name} = {value}, {wanted}"))?;
        let twice = |(i, size): (usize, &i64)| list[..i].contains(size).then_some(*size);
        if let Some(size) = list.iter().enumerate().find_map(twice) {
            return Err(format!("has a family of {name} = {value}, with {size} twice").into());
        }
        if let Some(size) = list.iter().find(|size| **size > LARGEST) {
            return Err(
                format!("has a family of {name} = {size}, expected at most {LARGEST}").into(),
            );
        }
        all.push((dim, list));
    }
    all.sort();
    // The declared size is a member, too, whether the list has it or not.
    let others = |dim: usize, list: &[i64]| list.iter().filter(|size| **size != shape[dim]).count();
    let members = all.iter().map(|(dim, list)| others(*dim, list) + 1);
    let members = members.fold(1, usize::saturating_mul);
    if members > MEMBERS {
        return Err(
            format!("has a family of {members} members, expected at most {MEMBERS}").into(),
        );
    }
    Ok(all)
}

/// The dimensions of values in an intrinsic that have the size of a dimension of its first operand.
///
/// # Errors
/// If one of them slides along a dimension together with others, or goes through an op that is no generic.
pub(crate) fn tied(
    ir: &Ir,
    record: &Intrinsic,
    dim: usize,
) -> Result<HashSet<(Value, usize)>, Failure> {
    let block = ir.entry(record.body).ok_or("has an empty region")?;
    let mut found = HashSet::new();
    let mut next: VecDeque<(Value, usize)> = [(ir.arg(block, 0), dim)].into();
    while let Some((value, dim)) = next.pop_front() {
        if !found.insert((value, dim)) {
            continue;
        }
        let users = ir.uses(value).map(|used| used.op);
        for op in users.chain(ir.owner(value)) {
            let Some(nest) = ir.get::<Generic>(op) else {
                // What holds a value and what ends the region say no sizes of their own.
                if ir.owner(value) == Some(op) && ir.operands(op).next().is_none()
                    || ir.last(block) == Some(op)
                {
                    continue;
                }
                let name = ir.name(op);
                return Err(
                    format!("is a family, but '{name}' ties sizes as no generic does").into(),
                );
            };
            next.extend(along(ir, op, &nest, (value, dim))?);
        }
    }
    Ok(found)
}

/// The dimensions that an iterator runs along which runs along this one.
fn along(
    ir: &Ir,
    op: OpId,
    nest: &Generic,
    (value, dim): (Value, usize),
) -> Result<Vec<(Value, usize)>, Failure> {
    let results = nest.inputs.len()..;
    let outputs = ir.results(op).zip(&nest.indexing_maps[results]);
    let all: Vec<(Value, &AffineMap)> = nest
        .operands()
        .zip(&nest.indexing_maps)
        .chain(outputs)
        .collect();
    let mut iterators = BTreeSet::new();
    for (_, map) in all.iter().filter(|(operand, _)| *operand == value) {
        match map.exprs.get(dim) {
            Some(AffineExpr::Dim(d)) => iterators.insert(*d),
            _ => return Err("is a family, but a size of it is that of a window".into()),
        };
    }
    let mut found = Vec::new();
    for (operand, map) in all {
        for (k, expr) in map.exprs.iter().enumerate() {
            match expr {
                AffineExpr::Dim(d) if iterators.contains(d) => found.push((operand, k)),
                AffineExpr::Dim(_) => {}
                expr if iterators.iter().any(|d| expr.uses(*d)) => {
                    return Err("is a family, but a size of it slides in a window".into());
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Puts the members of each family of a machine in its place; gives how many families there were.
///
/// # Errors
/// If one cannot be followed, or a member is no right intrinsic.
pub fn expand(machine: &mut Ir) -> Result<usize, Failure> {
    let families: Vec<OpId> = machine
        .walk_ids()
        .into_iter()
        .filter(|op| machine.is::<Intrinsic>(*op) && machine.attr(*op, FAMILY).is_some())
        .collect();
    for op in &families {
        members(machine, *op).map_err(|error| Box::new((*error).or_at(machine.loc(*op))))?;
    }
    Ok(families.len())
}

fn members(machine: &mut Ir, op: OpId) -> Result<(), Failure> {
    let record: Intrinsic = machine.get(op).ok_or("is no intrinsic")?;
    let block = machine.entry(record.body).ok_or("has an empty region")?;
    let first = machine.ty(machine.arg(block, 0));
    let shape = first.shape().unwrap_or(&[]).to_vec();
    let attr = machine.attr(op, FAMILY).ok_or("is no family")?;
    let sizes = sizes(attr, &shape)?;
    // The declared member first, then in the order of the lists.
    let mut all: Vec<Vec<i64>> = vec![vec![]];
    for (dim, list) in &sizes {
        let declared = shape[*dim];
        let others = list.iter().copied().filter(|size| *size != declared);
        let list: Vec<i64> = std::iter::once(declared).chain(others).collect();
        let longer = |some: &Vec<i64>| {
            let with = |size: &i64| [&some[..], &[*size]].concat();
            list.iter().map(with).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    let mut last = op;
    for member in all {
        let copy = machine.duplicate(op, At::After(last), &mut Mapping::default());
        last = copy;
        machine.remove_attr(copy, FAMILY);
        let text: Vec<String> = member.iter().map(i64::to_string).collect();
        let name = format!("{}{}", record.sym_name, text.join("x"));
        let taken =
            |other: &OpId| machine.attr(*other, "sym_name").and_then(Attr::as_str) == Some(&name);
        if let Some(other) = machine.walk_ids().into_iter().find(taken) {
            let error = Diagnostic::error(format!("has a member @{name}, but that name is taken"));
            let error = error.at(machine.loc(op));
            return Err(Box::new(error.note_at(machine.loc(other), "by this")));
        }
        machine.set_attr(copy, "sym_name", Attr::str(&name));
        let record: Intrinsic = machine.get(copy).ok_or("is no intrinsic")?;
        for ((dim, _), size) in sizes.iter().zip(&member) {
            for (value, dim) in tied(machine, &record, *dim)? {
                let ty = machine.ty(value);
                let mut shape = ty.shape().unwrap_or(&[]).to_vec();
                shape[dim] = *size;
                machine.set_type(value, resized(ty, &shape));
            }
        }
        let args = machine.args(machine.entry(record.body).ok_or("has an empty region")?);
        if let Some(large) = args
            .map(|v| machine.ty(v))
            .find(|ty| ty.elements().is_none())
        {
            return Err(
                format!("has a member @{name} that takes a {large}, which is too large").into(),
            );
        }
    }
    machine.erase(op);
    Ok(())
}

fn resized(ty: Type, shape: &[i64]) -> Type {
    Type::tensor(shape, ty.elem())
}
