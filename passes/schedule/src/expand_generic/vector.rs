//! Generics on buffers as loops of vector operations.
//!
//! *Form.* The **lanes** of a vector are neighbours along the iterator of an output's last dimension; each input is
//! contiguous along it, does not depend on it and is broadcast, or has its elements a few places apart. Where an input is contiguous
//! along another iterator, squares of it are transposed in registers. Of a reduction a block of results is computed at once,
//! which registers hold while it runs: some vectors side by side, and some **rows**, points of other parallel iterators for
//! which an input's vectors are the same. So each loaded vector is used for all rows, and each broadcast one for all
//! vectors. (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008, section 4.)
//!
//! A nest without reduction is one block where it works on a buffer that registers hold: what goes into a block of sums and
//! what becomes of it then meet it at the same places, and `promote-memory` finds that the buffer is not needed.
//!
//! What does not fill a block or a vector is computed by smaller ones, of half the size each time; of sums that begin with a fill
//! and read nothing that they write, by a vector that overlaps with the one before. Rows that are shorter than a vector are one
//! vector, of which a mask moves what there is, on processors that have masks.

mod access;
pub(super) mod around;
mod block;
mod bytes;
mod ranges;

use tir::{Builder, Failure, Ir, LinearMap, MemRefType, Traits, Value};
use tir_arith::{OpFoldResult, constant_index};
use tir_memref::{Alloc, SubView};
use tir_tensor::Generic;

use super::transpose::{FARTHEST, SMALLEST, side};
use super::{Region, carrying, nest};
use around::Around;
use block::Block;
use bytes::{Dot, GROUP, grouped};
use ranges::{Part, blocks, overlapping, parts, places};

pub(super) use access::{broadcast, load, load_first, store, store_first};
pub(super) use ranges::{begins, masked, pieces};

/// The registers that hold vectors.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// Bytes of each.
    pub bytes: i64,
    /// How many there are.
    pub count: i64,
    /// Bytes of the smallest elements that are loaded and stored by masks; 0: none are.
    pub masked: i64,
    /// The innermost loop of a block's sums is written out if that takes at most so many steps of sums.
    pub unroll: i64,
}

/// Bytes of a cache line of processors as they are today.
const LINE: i64 = 64;

/// How an operand goes on along the lanes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Contiguous,
    Constant,
    /// In groups of steps of a sum, which lie beside each other for each lane.
    Grouped,
    /// So many elements apart.
    Apart(i64),
    /// Anywhere, but contiguous along this iterator.
    Across(usize),
}

impl Course {
    /// The iterator along which it is contiguous, where that is not the one of the lanes.
    fn across(&self) -> Option<usize> {
        match self {
            Self::Across(d) => Some(*d),
            _ => None,
        }
    }
}

/// What a nest becomes.
pub(super) struct Plan<'a> {
    generic: &'a Generic,
    region: &'a Region<'a>,
    domain: &'a [i64],
    /// The iterator of the lanes.
    lanes: usize,
    /// Elements of the longest vectors.
    width: i64,
    /// The iterators of the rows, outermost first, each with its points in a block.
    rows: Vec<(usize, i64)>,
    /// Vectors of a block.
    vectors: i64,
    /// Steps of sums that are written out at most.
    unroll: i64,
    /// Whether vectors may be masked, and bytes of the smallest elements that can be.
    masks: bool,
    masked: i64,
    /// Elements of half of a cache line: two vectors that long are loaded as quickly as one of a whole line, which nearly always
    /// lies in two.
    half_line: i64,
    courses: Vec<Course>,
    /// Of each operand, whether it depends on each iterator of the rows.
    by_row: Vec<Vec<bool>>,
    /// How products of integers are summed up, if several at a time are.
    dot: Option<Dot>,
    /// Whether the rows are steps of a sum, which lie beside each other in memory.
    folds: bool,
}

impl<'a> Plan<'a> {
    /// The plan of a nest; none if it is computed element by element.
    pub(super) fn of(
        ir: &Ir,
        generic: &'a Generic,
        region: &'a Region<'a>,
        domain: &'a [i64],
        registers: Registers,
    ) -> Option<Self> {
        if domain.contains(&0) || !region.ops.iter().all(|op| is_elementwise(ir, *op)) {
            return None;
        }
        let maps = generic.indexing_maps.iter().map(|map| map.linear());
        let maps: Vec<LinearMap> = maps.collect::<Option<_>>()?;
        let reductions = generic.reductions();
        let (_, outputs) = maps.split_at(generic.inputs.len());
        // That of the last dimension of the outputs.
        let last = outputs.first()?.last()?;
        let lanes = (0..domain.len()).find(|d| last.at(*d) == 1 && !reductions[*d])?;
        let operands: Vec<Value> = generic.operands().collect();
        let courses = operands.iter().zip(&maps);
        let parallel = (0..domain.len()).filter(|d| *d != lanes && !reductions[*d]);
        // Of a reduction the last iterator: its steps follow one another in each sum.
        let last_step = (0..domain.len()).filter(|d| reductions[*d] && domain[*d] > 1);
        let along: Vec<usize> = match generic.combine {
            Some(_) => last_step.max().into_iter().collect(),
            None => parallel.collect(),
        };
        let courses = courses.map(|(value, map)| {
            let beside = course(ir, *value, map, lanes);
            let beside = beside.or_else(|| grouped(ir, *value, map, lanes));
            beside.or_else(|| across(ir, *value, map, &along))
        });
        let courses: Vec<Course> = courses.collect::<Option<_>>()?;
        let (_, given) = courses.split_at(generic.inputs.len());
        if given.iter().any(|course| *course != Course::Contiguous) {
            return None;
        }
        if !operands.iter().all(|value| has_bytes(ir.ty(*value))) {
            return None;
        }
        let bytes = region.largest(ir, &operands)?;
        let width = registers.bytes / bytes;
        if width < 2 || domain[lanes] < 2 {
            return None;
        }
        let depends = |map: &LinearMap, d: usize| map.iter().any(|row| row.at(d) != 0);
        let across = courses.iter().filter_map(Course::across);
        if let Some(d) = across.clone().next() {
            let side = side(registers, bytes, domain[d].min(domain[lanes]));
            if side < SMALLEST || across.clone().any(|o| o != d) {
                return None;
            }
            let by_row = maps.iter().map(|map| vec![depends(map, d)]).collect();
            return Some(Self {
                dot: None,
                folds: generic.combine.is_some(),
                generic,
                region,
                domain,
                lanes,
                width: side,
                rows: vec![(d, side)],
                vectors: 1,
                unroll: registers.unroll,
                masks: false,
                masked: registers.masked,
                half_line: 0,
                by_row,
                courses,
            });
        }
        let (rows, vectors) = match generic.combine.is_some() {
            true => {
                let shared = |d: usize| {
                    let inputs = maps.iter().take(generic.inputs.len());
                    let mut inputs = inputs.filter(|map| depends(map, lanes));
                    inputs.any(|map| !depends(map, d))
                };
                let rows = (0..domain.len())
                    .filter(|d| *d != lanes && !reductions[*d] && domain[*d] > 1 && shared(*d));
                let rows: Vec<(usize, i64)> = rows.map(|d| (d, domain[d])).collect();
                sums(
                    &rows,
                    domain[lanes] / width,
                    outputs.len() as i64,
                    registers.count,
                )
            }
            false => {
                let others = (0..domain.len()).filter(|d| *d != lanes && domain[*d] > 1);
                let others: Vec<(usize, i64)> = others.map(|d| (d, domain[d])).collect();
                let vectors = (domain[lanes] + width - 1) / width;
                let all = others.iter().map(|(_, points)| points).product::<i64>() * vectors;
                let held = registers.count * registers.bytes;
                let near = operands.iter().any(|value| is_held(ir, *value, held));
                match near && all <= registers.count {
                    true => (others, domain[lanes] / width),
                    false => (Vec::new(), 1),
                }
            }
        };
        let by_row = maps.iter().map(|map| {
            let rows = rows.iter().map(|(d, _)| depends(map, *d));
            rows.collect()
        });
        let by_row: Vec<Vec<bool>> = by_row.collect();
        let dot = Dot::of(ir, generic, &maps, &courses, domain);
        if dot.is_none() && courses.contains(&Course::Grouped) {
            return None;
        }
        Some(Self {
            dot,
            folds: false,
            generic,
            region,
            domain,
            lanes,
            width,
            rows,
            vectors,
            unroll: registers.unroll,
            masks: region.is_masked(ir, &operands, registers.masked),
            masked: registers.masked,
            half_line: width.min(LINE / 2 / bytes),
            by_row,
            courses,
        })
    }

    /// Makes the loops, with what surrounds the nest.
    pub(super) fn emit(&self, b: &mut Builder<'_>, around: &Around<'_>) -> Result<(), Failure> {
        let reductions = self.generic.reductions();
        let is_row = |d: &usize| self.rows.iter().any(|(row, _)| row == d);
        let iterators = (0..self.domain.len()).filter(|d| *d != self.lanes && !is_row(d));
        let (reduced, outer): (Vec<usize>, Vec<usize>) = iterators.partition(|d| reductions[*d]);
        let sizes: Vec<i64> = outer.iter().map(|d| self.domain[*d]).collect();
        nest(b, &sizes, &mut Vec::new(), &mut |b, outside| {
            let mut at = vec![None; self.domain.len()];
            for (d, value) in outer.iter().zip(outside) {
                at[*d] = Some(*value);
            }
            if self.folds {
                return self.folded(b, &at, &reduced, around);
            }
            if self.courses.iter().any(|course| course.across().is_some()) {
                return self.squares(b, &at, around);
            }
            let lanes = self.lanes(around);
            self.rows(b, &[vec![]], &mut |b, rows| {
                for part in lanes.iter().copied() {
                    blocks(b, part, &mut |b, lane| {
                        let block = Block {
                            plan: self,
                            rows: rows.to_vec(),
                            lanes: places(b, lane, part),
                            width: part.step,
                            held: part.step.min(self.domain[self.lanes]),
                        };
                        block.emit(b, &at, &reduced, around)
                    })?;
                }
                Ok(())
            })
        })
    }

    /// The vectors of a row.
    fn lanes(&self, around: &Around<'_>) -> Vec<Part> {
        let size = self.domain[self.lanes];
        // Sums that go on with what lies in memory, and blocks that meet others in registers, move whole vectors: those are
        // the places where `promote-memory` finds values.
        let repeatable = around.is_repeatable();
        let alone = self.generic.combine.is_none() && self.rows.is_empty();
        let masks = self.masks && around.masks() && (repeatable || alone);
        if let Some(length) = masked(size, self.half_line).filter(|_| masks) {
            return vec![Part {
                start: 0,
                end: length,
                count: 1,
                step: length,
            }];
        }
        match repeatable {
            true => overlapping(size, self.vectors, self.width),
            false => parts(size, self.vectors, self.width, 1),
        }
    }

    /// Blocks of as many rows as their vectors have elements.
    fn squares(
        &self,
        b: &mut Builder<'_>,
        at: &[Option<Value>],
        around: &Around<'_>,
    ) -> Result<(), Failure> {
        let (d, _) = *self.rows.first().ok_or("has no rows")?;
        for lanes in parts(self.domain[self.lanes], 1, self.width, 1) {
            for rows in parts(self.domain[d], 1, self.width, 1) {
                let side = rows.step.min(lanes.step);
                let [lanes, rows] = [lanes, rows].map(|part| Part { step: side, ..part });
                let each = Part {
                    count: side,
                    step: 1,
                    ..rows
                };
                blocks(b, lanes, &mut |b, lane| {
                    blocks(b, rows, &mut |b, row| {
                        let places = places(b, row, each).into_iter().enumerate();
                        let block = Block {
                            plan: self,
                            rows: places.map(|place| vec![place]).collect(),
                            lanes: vec![lane],
                            width: side,
                            held: side,
                        };
                        block.emit(b, at, &[], around)
                    })
                })?;
            }
        }
        Ok(())
    }

    /// Sums of elements that lie beside each other along their last iterator, a vector of them at a time: squares of what is
    /// added up are transposed.
    fn folded(
        &self,
        b: &mut Builder<'_>,
        at: &[Option<Value>],
        reduced: &[usize],
        around: &Around<'_>,
    ) -> Result<(), Failure> {
        let (d, _) = *self.rows.first().ok_or("has no rows")?;
        let size = self.domain[self.lanes];
        let lanes = match around.is_repeatable() {
            true => overlapping(size, 1, self.width),
            false => parts(size, 1, self.width, 1),
        };
        for part in lanes {
            blocks(b, part, &mut |b, lane| {
                let block = |rows: Vec<Vec<(usize, Value)>>| Block {
                    plan: self,
                    rows,
                    lanes: vec![lane],
                    width: part.step,
                    held: part.step,
                };
                // The sums, which are in no row.
                let sums = block(vec![vec![]]);
                sums.sum(b, at, reduced, around, &mut |b, at, before| {
                    let steps = self.domain[d] / part.step;
                    let square = |b: &mut Builder<'_>, first, from: i64, sums: &[Value]| {
                        let first = OpFoldResult::Value(first);
                        let mut rows = Vec::new();
                        for k in 0..part.step {
                            rows.push(vec![(k as usize, first.plus(b, k).value(b))]);
                        }
                        block(rows).columns(b, at, from as usize, sums)
                    };
                    let done = carrying(b, &[steps], &mut Vec::new(), before, &mut |b, ix, s| {
                        let first = OpFoldResult::Value(ix[0]).times(b, part.step).value(b);
                        square(b, first, 0, s)
                    })?;
                    // The last square ends where the steps do, and begins in the one before.
                    match self.domain[d] % part.step {
                        0 => Ok(done),
                        left => {
                            let first = constant_index(b, self.domain[d] - part.step);
                            square(b, first, part.step - left, &done)
                        }
                    }
                })
            })?;
        }
        Ok(())
    }

    /// Steps of an iterator of the reduction that are one iteration.
    fn group(&self, iterator: usize) -> i64 {
        match &self.dot {
            Some(dot) if dot.steps == iterator => GROUP,
            _ => 1,
        }
    }

    /// Loops over blocks of rows; `fill` is given where each row of a block is, along the iterators of the rows.
    fn rows(
        &self,
        b: &mut Builder<'_>,
        rows: &[Vec<(usize, Value)>],
        fill: &mut FillRows<'_>,
    ) -> Result<(), Failure> {
        let known = rows.first().map_or(0, Vec::len);
        let Some((iterator, points)) = self.rows.get(known) else {
            return fill(b, rows);
        };
        for part in parts(self.domain[*iterator], *points, 1, 1) {
            blocks(b, part, &mut |b, first| {
                let places = places(b, first, part);
                let mut longer = Vec::new();
                for row in rows {
                    for place in places.iter().enumerate().map(|(k, at)| (k, *at)) {
                        longer.push([&row[..], &[place]].concat());
                    }
                }
                self.rows(b, &longer, fill)
            })?;
        }
        Ok(())
    }
}

/// Makes what is inside of a block of rows: for each, its number and place along each iterator of the rows.
type FillRows<'a> = dyn FnMut(&mut Builder<'_>, &[Vec<(usize, Value)>]) -> Result<(), Failure> + 'a;

/// Whether a buffer, or a part of one, was made here, with at most so many bytes.
fn is_held(ir: &Ir, value: Value, bytes: i64) -> bool {
    let mut made = ir.owner(value);
    while let Some(view) = made.and_then(|op| ir.get::<SubView>(op)) {
        made = ir.owner(view.source);
    }
    let made = made.is_some_and(|op| ir.is::<Alloc>(op));
    let ty = ir.ty(value);
    let points = ty.shape().map(|shape| shape.iter().product::<i64>());
    let size = points
        .zip(ty.elem().bytes())
        .map(|(n, one)| n.saturating_mul(one as i64));
    made && size.is_some_and(|size| size <= bytes)
}

/// The rows and vectors of a block of sums. What is the best for one iterator of rows is taken; if all of its points are in
/// a block, and registers hold several such blocks, then so many points of another one.
fn sums(
    rows: &[(usize, i64)],
    vectors: i64,
    outputs: i64,
    registers: i64,
) -> (Vec<(usize, i64)>, i64) {
    let inner = rows
        .iter()
        .max_by_key(|(d, points)| ((*points).min(registers), *d));
    let [taken, vectors] = block(
        inner.map_or(1, |(_, points)| *points),
        vectors.max(1),
        outputs,
        registers,
    );
    let Some((inner, points)) = inner else {
        return (Vec::new(), vectors);
    };
    let more = (registers - vectors - 1) / (taken * vectors * outputs);
    let others = rows.iter().filter(|(d, _)| d != inner && taken == *points);
    let outer = others.max_by_key(|(d, points)| ((*points).min(more), *d));
    let outer = outer.map(|(d, points)| (*d, (*points).min(more)));
    let outer = outer.filter(|(_, points)| *points > 1);
    (
        outer.into_iter().chain([(*inner, taken)]).collect(),
        vectors,
    )
}

/// Cycles of a step of a block of sums on a processor as they are today: two multiply-adds and two loads in a cycle, each
/// sum four cycles after its last step.
fn step_cycles(rows: i64, vectors: i64, outputs: i64) -> f64 {
    let sums = rows * vectors * outputs;
    (sums.max(rows + vectors) as f64 / 2.0).max(4.0)
}

/// Whether elements in memory are whole bytes: a vector of `i1` is of bits, while each element of a buffer has a byte.
pub(super) fn has_bytes(ty: tir::Type) -> bool {
    let elem = ty.elem();
    elem.bits()
        .is_some_and(|bits| bits % 8 == 0 && elem.bytes() == Some(bits as usize / 8))
}

/// Whether an op of a region computes vectors as it computes scalars.
fn is_elementwise(ir: &Ir, op: tir::OpId) -> bool {
    let same = ir.has(op, Traits::Elementwise) || ir.has(op, Traits::ConstantLike);
    same && ir.regions(op).len() == 0 && ir.is_pure(op)
}

/// How an operand goes on along an iterator: none if its elements lie apart.
fn course(ir: &Ir, value: Value, map: &LinearMap, lanes: usize) -> Option<Course> {
    let memref: &MemRefType = ir.ty(value).get()?;
    if map.iter().all(|row| row.at(lanes) == 0) {
        return Some(Course::Constant);
    }
    let (last, others) = map.split_last()?;
    let strides = memref.strides()?.0;
    if strides.last() != Some(&1) || others.iter().any(|row| row.at(lanes) != 0) {
        return None;
    }
    match last.at(lanes) {
        1 => Some(Course::Contiguous),
        step @ 2..=FARTHEST => Some(Course::Apart(step)),
        _ => None,
    }
}

/// Whether an operand's elements lie beside each other along one of these iterators.
fn across(ir: &Ir, value: Value, map: &LinearMap, iterators: &[usize]) -> Option<Course> {
    let mut all = iterators.iter();
    let along = all.find(|d| course(ir, value, map, **d) == Some(Course::Contiguous))?;
    Some(Course::Across(*along))
}

/// Rows and vectors of a block: what takes the fewest cycles for a step of all rows and vectors, smaller blocks for what is
/// left over included, and of that the fewest loads. Registers hold its sums, the vectors and a factor of a row.
fn block(rows: i64, vectors: i64, outputs: i64, registers: i64) -> [i64; 2] {
    let mut best = ([1, 1], (f64::INFINITY, i64::MAX));
    for v in 1..=vectors.min(4) {
        for u in 1..=rows {
            if u * v * outputs + v + 1 > registers && u * v > 1 {
                break;
            }
            let (mut cycles, mut loads) = (0.0, 0);
            for row in parts(rows, u, 1, 1) {
                for lane in parts(vectors, v, 1, 1) {
                    let blocks = row.blocks() * lane.blocks();
                    cycles += blocks as f64 * step_cycles(row.count, lane.count, outputs);
                    loads += blocks * (row.count + lane.count);
                }
            }
            if (cycles, loads) < best.1 {
                best = ([u, v], (cycles, loads));
            }
        }
    }
    best.0
}
