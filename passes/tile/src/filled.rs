//! Tiles of constants that engines fill in place of loading them: no byte of them comes from far memory.
//!
//! An engine that pads writes one value into a box of a tile, in steps too. So a constant of one value takes one transfer that reads
//! nothing, and one of two values two where the elements of one of them are a box in steps: the weights of a mean over
//! an image whose pixels lie apart from one another in near memory, with zeros between. A box may be filled again where another value
//! lies in it: how many pixels windows with a border around the image have takes three, all as along the edges, the box inside, and
//! the corners.
//!
//! Only where bytes decide: prices of groups count loads, and two fills take the engine's latency twice.

use std::collections::BTreeSet;

use tir::interp::{Kind, Scalar, constant, evaluate_op};
use tir::{At, Attr, Builder, Ir, Name, OpId, Ret, Type};
use tir_tensor::{Empty, ExtractSlice, InsertSlice, TransferRead};

use crate::emit::fill_by;
use crate::plan::Target;

/// Elements of a tile that is looked at, at most.
const ELEMENTS: usize = 1 << 16;

/// Boxes that are filled after all of a tile is, at most.
const BOXES: usize = 3;

/// Bytes that are not loaded for each fill of several, at least: each takes the engine's latency.
const LEAST: usize = 32;

/// Elements of a tile in steps: where the first one lies, how many there are, and how far apart, in each dimension.
#[derive(Default)]
struct Steps {
    offsets: Vec<i64>,
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

/// What a tile is filled with: with one value everywhere, then with others in steps, in order.
struct Fills {
    all: Attr,
    then: Vec<(Attr, Steps)>,
}

/// Fills tiles of constants in place of loading them, where engines can.
pub(crate) fn fill_constants(func: &mut Ir, target: &Target<'_>) {
    for op in func.walk_ids() {
        let Some(read) = func.get::<TransferRead>(op) else {
            continue;
        };
        let Some(with) = filling(&read, target) else {
            continue;
        };
        let source = func.ty(read.source);
        let bytes = source.elem().bytes().zip(source.elements());
        let bytes = bytes.map_or(0, |(size, elements)| size * elements);
        let worth =
            |fills: &Fills| fills.then.is_empty() || bytes >= LEAST * (1 + fills.then.len());
        if let Some(fills) = contents(func, op).filter(worth) {
            write(func, op, &read, with, fills);
        }
    }
}

/// The space that a tile is loaded to, and the engine, if it pads.
fn filling(read: &TransferRead, target: &Target<'_>) -> Option<(Name, Name)> {
    let space = Name::new(read.space.as_ref()?);
    let engine = target.info.engine_between(target.far.name, space)?;
    engine.pad.then_some((space, engine.name))
}

/// What fills the tile that a transfer reads of a constant.
fn contents(func: &Ir, op: OpId) -> Option<Fills> {
    let result = func.result(op, 0);
    let (shape, elem) = (func.ty(result).shape()?, func.ty(result).elem());
    let count = func.ty(result).elements().filter(|n| *n <= ELEMENTS)?;
    let inputs = func.operands(op).map(|value| {
        let attr = func.constant(value)?;
        constant(attr, func.ty(value)).ok()
    });
    let inputs: Vec<_> = inputs.collect::<Option<_>>()?;
    let tile = evaluate_op(func.op(op), &inputs)?.ok()?.pop()?;
    let tile = tile.as_tensor().ok()?;
    let kind = Kind::of(elem)?;
    let elements: Vec<&[u8]> = tile.bytes().chunks_exact(kind.bytes()).collect();
    if elements.len() != count {
        return None;
    }
    let value = |element: &[u8]| {
        let bits = kind.read(element)?;
        Some(Scalar { kind, bits }.to_attr(elem))
    };
    // From the last box that is filled to the first: what is filled later may be anything before.
    let mut left: Vec<Option<&[u8]>> = elements.into_iter().map(Some).collect();
    let mut then = Vec::new();
    loop {
        let mut counts: Vec<(&[u8], usize)> = Vec::new();
        for element in left.iter().flatten() {
            match counts.iter().position(|(value, _)| value == element) {
                Some(known) => counts[known].1 += 1,
                None if counts.len() > BOXES => return None,
                None => counts.push((*element, 1)),
            }
        }
        if let [(all, _)] = counts[..] {
            let all = value(all)?;
            then.reverse();
            return Some(Fills { all, then });
        }
        // The fewest elements first, of as many those that come last.
        counts.reverse();
        counts.sort_by_key(|(_, count)| *count);
        let mut boxes = counts.iter().filter_map(|(element, _)| {
            let own = |at: &usize| left[*at] == Some(*element);
            let other = |at: usize| left[at].is_some_and(|other| other != *element);
            let steps = in_steps(shape, (0..left.len()).filter(own), &other)?;
            Some((*element, steps))
        });
        let (element, steps) = boxes.next()?;
        then.push((value(element)?, steps));
        let own = left.iter_mut().filter(|left| **left == Some(element));
        own.for_each(|left| *left = None);
    }
}

/// The box in steps that these elements of a tile are, or that holds no others but these and what is not `other`.
fn in_steps(
    shape: &[i64],
    elements: impl Iterator<Item = usize>,
    other: &dyn Fn(usize) -> bool,
) -> Option<Steps> {
    let mut places = vec![BTreeSet::new(); shape.len()];
    for element in elements {
        let mut rest = i64::try_from(element).ok()?;
        for (places, size) in places.iter_mut().zip(shape).rev() {
            places.insert(rest % size);
            rest /= size;
        }
    }
    let inside = |element: usize| {
        let mut rest = i64::try_from(element).unwrap_or(-1);
        let mut dims = places.iter().zip(shape).rev();
        dims.all(|(places, size)| {
            let own = places.contains(&(rest % size));
            rest /= size;
            own
        })
    };
    let count = shape.iter().product::<i64>();
    if (0..usize::try_from(count).ok()?).any(|element| other(element) && inside(element)) {
        return None;
    }
    let mut steps = Steps::default();
    for places in places {
        let places: Vec<i64> = places.into_iter().collect();
        let stride = places.get(1).map_or(1, |second| second - places[0]);
        if places.windows(2).any(|pair| pair[1] - pair[0] != stride) {
            return None;
        }
        steps.offsets.push(*places.first()?);
        steps.sizes.push(places.len() as i64);
        steps.strides.push(stride);
    }
    Some(steps)
}

/// Puts fills in the place of a transfer.
fn write(
    func: &mut Ir,
    op: OpId,
    read: &TransferRead,
    (space, engine): (Name, Name),
    fills: Fills,
) {
    let mut b = Builder::new(func, At::Before(op));
    b.loc = b.ir.loc(op);
    let ty = read.result.0;
    let place = read.into.unwrap_or_else(|| {
        b.add(Empty {
            dynamic_sizes: Vec::new(),
            space: Some(space.to_string()),
            result: Ret(ty),
        })
    });
    let mut tile = fill_by(&mut b, engine, place, fills.all);
    for (value, steps) in fills.then {
        let Steps {
            offsets,
            sizes,
            strides,
        } = steps;
        let part = b.add(ExtractSlice {
            source: tile,
            offsets: Vec::new(),
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets: offsets.clone(),
            static_sizes: sizes.clone(),
            static_strides: strides.clone(),
            result: Ret(Type::tensor(sizes.clone(), ty.elem())),
        });
        let source = fill_by(&mut b, engine, part, value);
        tile = b.add(InsertSlice {
            source,
            dest: tile,
            offsets: Vec::new(),
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets: offsets,
            static_sizes: sizes,
            static_strides: strides,
            result: Ret(ty),
        });
    }
    func.replace(op, &[tile]);
}
