//! Tensors that stay in near memory: written by the nests that compute them, read where they lie.

use std::collections::HashSet;

use tir::{At as Place, Builder, Ir, Name, OpId, Ret, Type, Value};
use tir_arith::{Constant, OpFoldResult};
use tir_tensor::{CollapseShape, Empty, ExpandShape, ExtractSlice, TransferRead, TransferWrite};

use super::slice::Slice;
use super::transfers::{before, reassociation};
use super::{At, Emit, Marks};
use crate::chain::{Brought, Resident, Stage, zero};
use crate::placed::{Part, Placed};
use crate::plan::Target;

/// Writes all nests that compute a tensor into its home, each where it stands, and what loads other parts of it, before an op or the
/// first nest that reads it near; gives the home behind each writer and, if something is loaded, behind that: the last one is whole.
pub(crate) fn write(
    func: &mut Ir,
    stays: &Resident,
    target: &Target<'_>,
    at_latest: Option<OpId>,
) -> Option<Vec<Value>> {
    let emit = Emit::new(&stays.home);
    let made = stays.home.made().next()?;
    let at = At::start(&stays.home);
    let (mut home, mut behind) = (None, Vec::new());
    for (i, (op, parts, _)) in stays.writers.iter().enumerate() {
        let mut b = Builder::new(func, Place::Before(*op));
        b.loc = b.ir.loc(*op);
        let mut whole = match home {
            Some(home) => home,
            None => emit.made_tile(&mut b, made, &at),
        };
        for part in parts {
            let part = &made.parts[*part];
            b.loc = b.ir.loc(part.group.named);
            let emit = Emit {
                marks: Marks::of(part, target),
                before: before(&b),
                ..Emit::new(part)
            };
            whole = in_parts(&mut b, part, whole, &mut |b, whole| {
                emit.around(b, 0, At::start(part), vec![whole])[0]
            });
        }
        // Who reads a part by itself finds there what lies behind all.
        let read = stays.shared.iter().any(|(.., writers)| *writers == i + 1);
        if read || i + 1 == stays.writers.len() {
            whole = emit.fill_all(&mut b, made, &made.behind, &at, whole);
        }
        home = Some(whole);
        behind.push(whole);
    }
    if stays.brought.is_empty() {
        return Some(behind);
    }
    let first = at_latest.or_else(|| first_reader(func, stays))?;
    let mut b = Builder::new(func, Place::Before(first));
    b.loc = b.ir.loc(first);
    let mut whole = home.unwrap_or_else(|| {
        let whole = emit.made_tile(&mut b, made, &at);
        emit.fill_all(&mut b, made, &made.behind, &at, whole)
    });
    let space = stays.home.plan.spaces[made.operand];
    for brought in &stays.brought {
        whole = bring(&mut b, brought, whole, space);
    }
    behind.push(whole);
    Some(behind)
}

/// Work on a home by a stage that computes some of it, with those dimensions in several of which the stage's result has several.
fn in_parts(
    b: &mut Builder<'_>,
    part: &Stage,
    whole: Value,
    work: &mut dyn FnMut(&mut Builder<'_>, Value) -> Value,
) -> Value {
    let cut = part.group.into.as_ref().map_or(&[][..], |slot| &slot.cut);
    let sizes = b.ty(whole).shape().unwrap_or(&[]).to_vec();
    if cut.is_empty() {
        return work(b, whole);
    }
    let boxes = cut.iter().zip(&sizes);
    let boxes = boxes.map(|(cut, size)| match cut.sizes.is_empty() {
        true => (0, vec![*size]),
        false => (cut.start, cut.sizes.clone()),
    });
    let (starts, split): (Vec<i64>, Vec<Vec<i64>>) = boxes.unzip();
    let start: Vec<OpFoldResult> = starts.into_iter().map(OpFoldResult::Number).collect();
    let own: Vec<i64> = split.iter().map(|sizes| sizes.iter().product()).collect();
    let slice = Slice::new(&start, own.clone(), own);
    slice.update(b, whole, &mut |b, part| in_dims(b, part, &split, work))
}

/// Work on a tile with each dimension as several of these sizes.
fn in_dims(
    b: &mut Builder<'_>,
    tile: Value,
    split: &[Vec<i64>],
    work: &mut dyn FnMut(&mut Builder<'_>, Value) -> Value,
) -> Value {
    let (shape, ty) = (split.concat(), b.ty(tile));
    if shape.len() == split.len() {
        return work(b, tile);
    }
    let mut numbers = 0..shape.len();
    let groups = split.iter();
    let groups = groups.map(|of| numbers.by_ref().take(of.len()).collect());
    let groups: Vec<Vec<usize>> = groups.collect();
    let split = b.add(ExpandShape {
        src: tile,
        reassociation: reassociation(&groups),
        static_output_shape: None,
        result: Ret(Type::tensor(shape, ty.elem())),
    });
    let done = work(b, split);
    b.add(CollapseShape {
        src: done,
        reassociation: reassociation(&groups),
        result: Ret(ty),
    })
}

/// Loads a box of a home.
fn bring(b: &mut Builder<'_>, brought: &Brought, whole: Value, space: Name) -> Value {
    let start = brought.start.iter().map(|at| OpFoldResult::Number(*at));
    let start: Vec<OpFoldResult> = start.collect();
    let slice = Slice::new(&start, brought.sizes.clone(), brought.sizes.clone());
    slice.update(b, whole, &mut |b, part| {
        in_dims(b, part, &brought.split, &mut |b, into| {
            let shape = brought.shape();
            let ty = Type::tensor(shape.clone(), b.ty(part).elem());
            b.add(TransferRead {
                source: brought.source,
                offsets: Vec::new(),
                padding: None,
                into: Some(into),
                static_offsets: brought.offsets.clone(),
                access: brought.access.affine(shape.len()),
                space: Some(space.to_string()),
                result: Ret(ty),
            })
        })
    })
}

/// The first nest that reads a tensor near.
pub(crate) fn first_reader(func: &Ir, stays: &Resident) -> Option<OpId> {
    let block = stays.block?;
    let near = |op: &OpId| {
        let read = func.get::<TransferRead>(*op);
        read.is_some_and(|read| read.space.is_some() && read.into.is_none())
    };
    let readers = func.uses(stays.value).map(|u| u.op).filter(near);
    let nests: HashSet<OpId> = readers
        .filter_map(|op| func.ancestor_in(op, block))
        .collect();
    func.ops_in(block).find(|op| nests.contains(op))
}

/// Loads a tensor as a whole before the first nest that reads it near; gives its home.
pub(crate) fn load(func: &mut Ir, stays: &Resident) -> Option<Value> {
    let made = stays.home.made().next()?;
    let first = first_reader(func, stays)?;
    let tile = &stays.home.plan.tiles[made.operand];
    let operand = &stays.home.group.operands[made.operand];
    let (placed, ty) = (Placed::of(tile), func.ty(stays.value));
    let mut b = Builder::new(func, Place::Before(first));
    b.loc = b.ir.loc(first);
    let leaves = placed.leaves(ty.shape()?);
    let nothing = zero(ty.elem()).filter(|_| leaves && operand.padding.is_none());
    let nothing = nothing.map(|value| b.add(Constant { value }));
    Some(b.add(TransferRead {
        source: stays.value,
        offsets: Vec::new(),
        padding: operand.padding.or(nothing),
        into: None,
        static_offsets: placed.start,
        access: tile.access(),
        space: Some(stays.home.plan.spaces[made.operand].to_string()),
        result: Ret(Type::tensor(tile.shape(), ty.elem())),
    }))
}

/// Lets what loads a part of a tensor that lies in near memory take it from there; of a tensor that is a part of it and begins at a
/// place, if one is given. Of the homes behind all that writes into it each reads the last one before it: what stands there of its own
/// is the same in all of them, and none is kept for it.
pub(crate) fn read(func: &mut Ir, stays: &Resident, homes: &[Value], of: Option<(Value, &[i64])>) {
    let (Some(first), Some(made)) = (homes.first(), stays.home.made().next()) else {
        return;
    };
    let before = |func: &Ir, op: OpId| {
        let mut homes = homes.iter().rev();
        let found = homes.find(|home| {
            let block = func.owner(**home).and_then(|owner| func.block_of(owner));
            let reader = block.and_then(|block| func.ancestor_in(op, block));
            let both = func.owner(**home).zip(reader);
            both.is_some_and(|(owner, reader)| func.is_before(owner, reader))
        });
        *found.unwrap_or(first)
    };
    let placed = Placed::of(&stays.home.plan.tiles[made.operand]);
    let (value, placed) = match of {
        Some((value, at)) => {
            let back: Vec<i64> = at.iter().map(|at| -at).collect();
            (value, placed.moved(&back))
        }
        None => (stays.value, placed),
    };
    let readers = func.uses(value).map(|u| u.op);
    for op in readers.collect::<Vec<OpId>>() {
        if homes.iter().any(|home| func.owner(*home) == Some(op)) {
            continue;
        }
        // What is loaded into the home of another tensor comes from far memory.
        let near = |read: &TransferRead| read.space.is_some() && read.into.is_none();
        let Some(read) = func.get::<TransferRead>(op).filter(near) else {
            continue;
        };
        if let Some(part) = part(func, &placed, &read) {
            let home = before(func, op);
            let mut b = Builder::new(func, Place::Before(op));
            b.loc = b.ir.loc(op);
            let value = b.add(ExtractSlice {
                source: home,
                offsets: Vec::new(),
                sizes: Vec::new(),
                strides: Vec::new(),
                static_offsets: part.offsets,
                static_sizes: part.sizes,
                static_strides: part.strides,
                result: Ret(read.result.0),
            });
            func.replace(op, &[value]);
        }
    }
}

/// Stores a tensor that lies in near memory as a whole, behind the last nest that computes it, for all that nests do
/// not read there.
pub(crate) fn store(func: &mut Ir, stays: &Resident, home: Option<Value>, done: &HashSet<OpId>) {
    let (Some(home), Some(made)) = (home, stays.home.made().next()) else {
        return;
    };
    let Some(last) = func.owner(home) else { return };
    let tile = &stays.home.plan.tiles[made.operand];
    let ty = func.ty(stays.value);
    let mut b = Builder::new(func, Place::After(last));
    b.loc = b.ir.loc(last);
    let dest = b.add(Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(ty),
    });
    let stored = b.add(TransferWrite {
        source: home,
        dest,
        offsets: Vec::new(),
        static_offsets: Placed::of(tile).start,
        access: tile.access(),
        result: Ret(ty),
    });
    func.replace_uses_if(stays.value, stored, |_, u| !done.contains(&u.op));
}

/// Where in a home is what a transfer loads: where as many of the last dimensions as may be are the same.
fn part(ir: &Ir, home: &Placed, read: &TransferRead) -> Option<Part> {
    let placed = Placed::of_read(ir, read)?;
    let dense = (0..=placed.dims.len()).rev();
    dense
        .into_iter()
        .find_map(|dense| home.find(&placed, dense))
}
