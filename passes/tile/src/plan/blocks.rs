//! Blocks of vector units: what a vector capability computes of a step at a time, where no intrinsic does.
//!
//! A block has two parallel iterators of the step at most. The inner one runs along the lanes, so tiles keep it
//! last and dense; the outer one makes the nest long enough for its start. To planner, layouts and chains a block is an
//! intrinsic of that size; `tensorize` makes it an `accel.apply`, as any nest that the unit computes. Sizes are
//! those of which the step takes the fewest cycles: a vector unit takes any, so rows of 14 points are blocks of 14.

use std::collections::BTreeSet;
use std::sync::Arc;

use tir::{Ir, MemRefType, Name, Type};
use tir_accel::vector::{NestShape, RegionCost, Stream, VectorInfo};

use super::Target;
use super::unit::{elems, step_assignments};
use crate::group::{Group, Step};
use crate::matching::{Assignment, By, Joined, Place};

/// Points of an outer iterator in a block at most.
const ROWS: i64 = 64;
/// The same for what is computed inside of another nest.
const TURNS: i64 = 16;
/// Vectors along an inner iterator in a block at most.
const VECTORS: i64 = 4;
/// Cycles that a block takes at least, but where another nest's tile asks for it: shorter calls fill queues, and a nest
/// over a whole tile is as quick.
const SHORT: i64 = 7;
/// How many ways to cut a step into blocks are tried for a capability.
const WAYS: usize = 4;

/// What a vector unit computes of a step at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The capability.
    pub name: Name,
    /// The unit.
    pub unit: Name,
    /// Where all operands lie.
    pub space: Name,
    /// Cycles of a block.
    pub cycles: i64,
    /// Cycles to fill a block of the result.
    pub fill: i64,
    /// Points of its iterators.
    pub domain: Vec<i64>,
    /// For each input of the step and then the output, which of them count its dimensions.
    pub places: Vec<Vec<Place>>,
}

/// A nest on dense blocks: which of its iterators each operand has, and the bytes of its elements.
fn nest(domain: &[i64], operands: &[(Vec<usize>, i64)]) -> NestShape {
    let stream = |(dims, bytes): &(Vec<usize>, i64)| {
        let shape: Vec<i64> = dims.iter().map(|d| domain[*d]).collect();
        let mut strides = vec![0; domain.len()];
        for (d, stride) in dims.iter().zip(MemRefType::dense_strides(&shape)) {
            strides[*d] = stride;
        }
        Stream {
            strides,
            bytes: *bytes,
        }
    };
    NestShape {
        domain: domain.to_vec(),
        reductions: vec![false; domain.len()],
        operands: operands.iter().map(stream).collect(),
    }
}

/// Cycles to fill a dense block of so many points.
fn fill(vector: &VectorInfo, shape: &[i64], bytes: i64) -> i64 {
    let region = RegionCost {
        vector: 1,
        fold: None,
    };
    let all = (0..shape.len()).collect();
    vector.cycles(region, &nest(shape, &[(all, bytes)]))
}

/// A step that is cut into blocks.
struct Cut<'a> {
    group: &'a Group,
    step: &'a Step,
    vector: &'a VectorInfo,
    region: RegionCost,
    /// Bytes of the elements of the inputs, then of the output.
    bytes: Vec<i64>,
    /// Sizes that results of intrinsics have.
    usual: &'a BTreeSet<i64>,
}

impl Cut<'_> {
    /// Sizes of a block along an iterator; `inner` ones lie along the lanes.
    fn sizes(&self, d: usize, inner: bool) -> Vec<i64> {
        let range = self.group.domain[d];
        if let (Some(slot), Some(places)) = (&self.group.into, self.group.out.as_projection()) {
            // What another nest reads is written whole along the last dimensions, and no more: others fill what lies
            // outside of the tensor.
            let place = places.iter().position(|p| *p == d);
            if let (Some(s), true) = (place, inner) {
                return vec![slot.shape[s].min(range)];
            }
            if place.is_some() && place == slot.turns {
                return vec![1];
            }
            if slot.rows > 1 {
                return vec![slot.rows];
            }
            // No row but those that are there; blocks of several stages take turns.
            let most = range.min(TURNS);
            return (1..=most).filter(|size| range % size == 0).collect();
        }
        let most = match inner {
            true => self.vector.lanes.saturating_mul(VECTORS),
            false => ROWS,
        };
        let divisors = (2..=most.min(range)).filter(|size| range % size == 0);
        let mut sizes: BTreeSet<i64> = divisors.collect();
        if inner {
            sizes.extend(
                self.usual
                    .iter()
                    .filter(|size| **size > 1 && **size <= most),
            );
            sizes.insert(self.vector.lanes.max(2));
        } else {
            let parts = (range + ROWS - 1) / ROWS;
            sizes.insert((range + parts - 1) / parts);
            sizes.insert(16.min(range));
        }
        // Neither much more than there is, nor so small that calls are many.
        sizes.retain(|size| *size <= range.max(self.vector.lanes));
        sizes.into_iter().collect()
    }

    /// The block of some iterators, outermost first, if it takes fewer cycles for all of the step than `most`: those
    /// cycles, the sizes, and the block.
    fn block(&self, dims: &[usize]) -> Option<(i64, Vec<i64>, Block)> {
        let uses = |map: &tir::AffineMap| -> Vec<usize> {
            let used = |i: &usize| map.exprs.iter().any(|e| e.uses(dims[*i]));
            (0..dims.len()).filter(used).collect()
        };
        let maps = self.step.maps.iter().chain([&self.group.out]);
        let operands: Vec<(Vec<usize>, i64)> =
            maps.map(uses).zip(self.bytes.iter().copied()).collect();
        let all: Vec<Vec<i64>> = (dims.iter().enumerate())
            .map(|(i, d)| self.sizes(*d, i + 1 == dims.len()))
            .collect();
        let mut best: Option<((i64, i64, i64), Vec<i64>)> = None;
        let rest =
            self.group.points() / dims.iter().map(|d| self.group.domain[*d]).product::<i64>();
        let count = |d: usize, size: i64| (self.group.domain[d] + size - 1) / size;
        let mut consider = |sizes: Vec<i64>| {
            let each = self.vector.cycles(self.region, &nest(&sizes, &operands));
            if each < SHORT && sizes.len() == 1 && self.group.into.is_none() {
                return;
            }
            let blocks = dims.iter().zip(&sizes).map(|(d, size)| count(*d, *size));
            let blocks = blocks.fold(rest, i64::saturating_mul);
            let last = sizes.last().copied().unwrap_or(1);
            let unusual = i64::from(!self.usual.contains(&last));
            let key = (blocks.saturating_mul(each), unusual, blocks);
            if best.as_ref().is_none_or(|(least, _)| key < *least) {
                best = Some((key, sizes));
            }
        };
        match &all[..] {
            [inner] => inner.iter().for_each(|n| consider(vec![*n])),
            [outer, inner] => {
                for m in outer {
                    inner.iter().for_each(|n| consider(vec![*m, *n]));
                }
            }
            _ => {}
        }
        let ((total, ..), sizes) = best?;
        let place = |d: usize| Place {
            dim: Some(d),
            window: Vec::new(),
        };
        let places = operands
            .iter()
            .map(|(dims, _)| dims.iter().map(|d| place(*d)).collect());
        let block = Block {
            name: self.vector.name,
            unit: self.vector.unit,
            space: self.vector.space,
            cycles: self.vector.cycles(self.region, &nest(&sizes, &operands)),
            fill: fill(self.vector, &sizes, self.bytes.last().copied().unwrap_or(1)),
            places: places.collect(),
            domain: sizes.clone(),
        };
        Some((total, sizes, block))
    }
}

/// The vector unit that fills boxes of any size in a space, and its cycles for one.
pub fn boxes(target: &Target<'_>, space: Name, elem: Type, shape: &[i64]) -> Option<(Name, i64)> {
    let bytes = elem.bytes().unwrap_or(1) as i64;
    let here = |v: &&&VectorInfo| v.space == space && v.types.contains(&elem);
    let vectors = target.vectors.iter().filter(here);
    let cycles = vectors.map(|v| (v.unit, fill(v, shape, bytes)));
    cycles.min_by_key(|(_, cycles)| *cycles)
}

/// The ranks of the results of intrinsics that take the points of a group, and their first sizes.
pub fn rows(ir: &Ir, group: &Group, target: &Target<'_>) -> Vec<(usize, i64)> {
    let ways = group
        .main()
        .map(|main| step_assignments(ir, group, main, target, &[]));
    let result = |way: &Assignment| {
        let result = target.called(way)?.result();
        Some((result.len(), *result.first()?))
    };
    let ways = ways.iter().flat_map(|found| &found.0);
    ways.filter_map(result).collect()
}

/// The sizes of blocks of results beside those of their rows that intrinsics which take the points of a group write.
pub fn columns(ir: &Ir, group: &Group, target: &Target<'_>) -> Vec<i64> {
    let ways = group
        .main()
        .map(|main| step_assignments(ir, group, main, target, &[]));
    let ways = ways.iter().flat_map(|found| &found.0);
    let results = ways.filter_map(|way| Some(target.called(way)?.result()));
    let sizes = results.flat_map(|result| result.into_iter().skip(1));
    sizes.collect::<BTreeSet<i64>>().into_iter().collect()
}

/// Whether vector units compute blocks of any number of rows of a group: no intrinsic takes its points.
pub fn takes_any_rows(ir: &Ir, group: &Group, target: &Target<'_>) -> bool {
    let taken = |main| !step_assignments(ir, group, main, target, &[]).0.is_empty();
    !target.vectors.is_empty() && group.main().is_some_and(|main| !taken(main))
}

/// The ways to cut the step that decides the tiles of a group into blocks of vector units, those that take the fewest
/// cycles first.
pub(super) fn blocks(ir: &Ir, group: &Group, step: &Step, target: &Target<'_>) -> Vec<Assignment> {
    let Some(mut elems) = elems(ir, group, step) else {
        return Vec::new();
    };
    elems.push(step.ty.elem());
    let combine = match &group.reduce {
        Some((main, combine, _)) if std::ptr::eq(main, step) => Some(*combine),
        _ => None,
    };
    let results = target.behaviours.iter().flatten().flat_map(|behaviour| {
        let places = behaviour.places.last().into_iter().flatten();
        places.filter_map(|place| Some(behaviour.domain[place.dim?]))
    });
    let usual: BTreeSet<i64> = results.collect();
    let bytes: Vec<i64> = elems
        .iter()
        .map(|ty| ty.bytes().unwrap_or(1) as i64)
        .collect();
    let mut found = Vec::new();
    for vector in &target.vectors {
        let Ok(region) = vector.covers(ir, step.body, combine, &elems) else {
            continue;
        };
        let cut = Cut {
            group,
            step,
            vector,
            region,
            bytes: bytes.clone(),
            usual: &usual,
        };
        let free: Vec<usize> = (group.outer..group.core)
            .filter(|d| !group.reductions[*d] && group.domain[*d] > 1)
            .collect();
        let pairs = free.iter().flat_map(|n| {
            let others = free.iter().filter(move |m| *m != n);
            others.map(|m| vec![*m, *n]).chain([vec![*n]])
        });
        let mut here: Vec<_> = pairs
            .filter_map(|dims| Some((cut.block(&dims)?, dims)))
            .collect();
        here.sort_by_key(|((total, ..), dims)| (*total, 2 - dims.len()));
        // One iterator alone makes more calls: only where that takes fewer cycles.
        let pair = here.iter().find(|(_, dims)| dims.len() == 2);
        let most = pair.map_or(i64::MAX, |((total, ..), _)| *total);
        here.retain(|((total, ..), dims)| dims.len() == 2 || *total < most);
        found.extend(here.into_iter().take(WAYS));
    }
    found.sort_by_key(|((total, ..), _)| *total);
    let assignment = |((_, sizes, block), dims): ((i64, Vec<i64>, Block), Vec<usize>)| {
        let one = |(d, size)| -> Joined { vec![(d, size)] };
        Assignment {
            by: By::Vector(Arc::new(block)),
            unit_dims: dims.into_iter().zip(sizes).map(one).collect(),
            inputs: (0..step.inputs.len()).collect(),
        }
    };
    found.into_iter().map(assignment).collect()
}
