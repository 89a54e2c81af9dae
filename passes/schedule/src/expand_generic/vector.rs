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
//! and read nothing that they write, by a vector that overlaps with the one before.

pub(super) mod around;
mod bytes;

use std::collections::HashMap;

use tir::{Builder, Failure, Ir, LinearMap, Mapping, MemRefType, Traits, Value};
use tir_arith::{OpFoldResult, constant_index};
use tir_loop::{Bounds, For, Yield};
use tir_memref::Alloc;
use tir_tensor::Generic;
use tir_vector::{Broadcast, Load, Store};

use super::transpose::{FARTHEST, SMALLEST, apart, side, transposed};
use super::{Region, carrying, nest, place};
use around::Around;
use bytes::{Dot, GROUP, grouped};

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

impl Part {
    /// Its number of blocks.
    fn blocks(&self) -> i64 {
        (self.end - self.start) / (self.count * self.step)
    }
}

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
    courses: Vec<Course>,
    /// Of each operand, whether it depends on each iterator of the rows.
    by_row: Vec<Vec<bool>>,
    /// How products of integers are summed up, if several at a time are.
    dot: Option<Dot>,
}

/// A part of a range: blocks of `count` times `step` from `start` to `end`.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: i64,
    end: i64,
    /// Rows or vectors of a block.
    count: i64,
    /// Points of each.
    step: i64,
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
        let parallel: Vec<usize> = parallel.collect();
        let courses = courses.map(|(value, map)| {
            let beside = course(ir, *value, map, lanes);
            let beside = beside.or_else(|| grouped(ir, *value, map, lanes));
            beside.or_else(|| across(ir, *value, map, &parallel))
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
            if generic.combine.is_some() || side < SMALLEST || across.clone().any(|o| o != d) {
                return None;
            }
            let by_row = maps.iter().map(|map| vec![depends(map, d)]).collect();
            return Some(Self {
                dot: None,
                generic,
                region,
                domain,
                lanes,
                width: side,
                rows: vec![(d, side)],
                vectors: 1,
                unroll: registers.unroll,
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
            generic,
            region,
            domain,
            lanes,
            width,
            rows,
            vectors,
            unroll: registers.unroll,
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
            if self.courses.iter().any(|course| course.across().is_some()) {
                return self.squares(b, &at, around);
            }
            let size = self.domain[self.lanes];
            let lanes = match around.is_repeatable() {
                true => overlapping(size, self.vectors, self.width),
                false => parts(size, self.vectors, self.width, 1),
            };
            self.rows(b, &[vec![]], &mut |b, rows| {
                for part in lanes.iter().copied() {
                    blocks(b, part, &mut |b, lane| {
                        let block = Block {
                            plan: self,
                            rows: rows.to_vec(),
                            lanes: places(b, lane, part),
                            width: part.step,
                        };
                        block.emit(b, &at, &reduced, around)
                    })?;
                }
                Ok(())
            })
        })
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
                        };
                        block.emit(b, at, &[], around)
                    })
                })?;
            }
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

/// Whether a buffer was made here, with at most so many bytes.
fn is_held(ir: &Ir, value: Value, bytes: i64) -> bool {
    let made = ir.owner(value).is_some_and(|op| ir.is::<Alloc>(op));
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

/// A range of `size` points in blocks of `count` times `step`, then in smaller ones: fewer at a time, then of fewer points
/// each.
fn parts(size: i64, count: i64, step: i64, least: i64) -> Vec<Part> {
    let (mut all, mut start) = (Vec::new(), 0);
    let (mut count, mut step) = (count.max(1), step);
    while start < size {
        let one = count * step;
        let end = start + (size - start) / one * one;
        if end > start {
            all.push(Part {
                start,
                end,
                count,
                step,
            });
            start = end;
        }
        // What is left is less than a block.
        let left = (size - start) / step.max(1);
        match left {
            0 => (count, step) = (1, (step / 2).max(least)),
            left => count = left.min(count),
        }
    }
    all
}

/// A range of `size` points in blocks as [`parts`] has them, but for what is less than a vector: that is one more vector which ends
/// with the range, and some points are in two.
fn overlapping(size: i64, count: i64, step: i64) -> Vec<Part> {
    let mut start = size / step * step;
    let mut all = parts(start, count, step, 1);
    while start < size {
        let left = size - start;
        let round = (left as u64).next_power_of_two() as i64;
        let step = if round > size { round / 2 } else { round };
        let begin = start.min(size - step);
        all.push(Part {
            start: begin,
            end: begin + step,
            count: 1,
            step,
        });
        start = begin + step;
    }
    all
}

/// Loops over the blocks of a part, or one block alone.
fn blocks(
    b: &mut Builder<'_>,
    part: Part,
    fill: &mut dyn FnMut(&mut Builder<'_>, Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let step = part.count * part.step;
    if part.end - part.start <= step {
        let start = constant_index(b, part.start);
        return fill(b, start);
    }
    let mut done = Ok(());
    let body = b.body(&[tir::Type::index()], |b, args| {
        done = fill(b, args[0]);
        b.add(Yield { values: vec![] });
    });
    let bounds = [part.start, part.end, step].map(Bounds::Static);
    b.add(For::new(bounds, vec![], body, vec![]));
    done
}

/// A row of `size` elements by vectors of up to `width`: `fill` is given where each begins, and its length.
pub(super) fn row(
    b: &mut Builder<'_>,
    size: i64,
    width: i64,
    fill: &mut dyn FnMut(&mut Builder<'_>, Value, i64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for part in parts(size, 1, width.max(1), 1) {
        blocks(b, part, &mut |b, first| fill(b, first, part.step))?;
    }
    Ok(())
}

/// Where the rows or vectors of a block begin.
fn places(b: &mut Builder<'_>, first: Value, part: Part) -> Vec<Value> {
    let place = |k: i64| {
        let at = OpFoldResult::Value(first).plus(b, k * part.step);
        at.value(b)
    };
    (0..part.count).map(place).collect()
}

/// A block of results.
struct Block<'a> {
    plan: &'a Plan<'a>,
    /// The number and place of each row along the iterators of rows.
    rows: Vec<Vec<(usize, Value)>>,
    /// Where its vectors begin.
    lanes: Vec<Value>,
    /// Elements of its vectors.
    width: i64,
}

impl Block<'_> {
    /// The points of the block: row and vector.
    fn points(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.rows.len()).flat_map(|j| (0..self.lanes.len()).map(move |i| (j, i)))
    }

    fn at(&self, at: &[Option<Value>], (j, i): (usize, usize)) -> Vec<Option<Value>> {
        let mut at = at.to_vec();
        at[self.plan.lanes] = Some(self.lanes[i]);
        for ((d, _), (_, place)) in self.plan.rows.iter().zip(&self.rows[j]) {
            at[*d] = Some(*place);
        }
        at
    }

    /// A number of what an operand is in a row: the same for rows along whose iterators it does not change.
    fn row(&self, operand: usize, j: usize) -> usize {
        let places = self.plan.by_row[operand].iter().zip(&self.rows[j]);
        let places = places.zip(&self.plan.rows);
        places.fold(0, |number, ((changes, (place, _)), (_, points))| {
            number * *points as usize + if *changes { *place } else { 0 }
        })
    }

    fn emit(
        &self,
        b: &mut Builder<'_>,
        at: &[Option<Value>],
        reduced: &[usize],
        around: &Around<'_>,
    ) -> Result<(), Failure> {
        let (plan, region) = (self.plan, self.plan.region);
        let outputs = &plan.generic.outputs;
        let mut places = Vec::new();
        for point in self.points() {
            places.push(region.places(b, &self.at(at, point))?);
        }
        if plan.generic.combine.is_none() {
            // All is read before anything is written.
            let (mut known, mut all) = (self.across(b, at)?, Vec::new());
            for point in self.points() {
                all.push(self.values(b, &self.at(at, point), point, &mut known)?);
            }
            for (values, places) in all.iter().zip(&places) {
                for ((value, output), place) in values.iter().zip(outputs).zip(places) {
                    store(b, *value, *output, place);
                }
            }
            return Ok(());
        }
        let init = match around.first(b, self, at)? {
            Some(init) => init,
            None => {
                let mut init = Vec::new();
                for places in &places {
                    for (output, place) in outputs.iter().zip(places) {
                        init.push(self.load(b, *output, place));
                    }
                }
                init
            }
        };
        let sizes = reduced.iter().map(|d| plan.domain[*d] / plan.group(*d));
        let sizes: Vec<i64> = sizes.collect();
        // A short loop waits at its end, as where it ends is guessed late.
        let written = |size: &&i64| **size * init.len() as i64 <= plan.unroll;
        let written = sizes.last().filter(written).copied();
        let (looped, inner) = match written {
            Some(steps) => (&sizes[..sizes.len() - 1], Some(steps)),
            None => (&sizes[..], None),
        };
        let sums = carrying(
            b,
            looped,
            &mut Vec::new(),
            &init,
            &mut |b, outside, sums| {
                let mut sums = sums.to_vec();
                for step in 0..inner.unwrap_or(1) {
                    let mut inside = outside.to_vec();
                    if inner.is_some() {
                        inside.push(constant_index(b, step));
                    }
                    sums = self.step(b, at, reduced, &inside, &sums)?;
                }
                Ok(sums)
            },
        )?;
        if around.last(b, self, at, &sums)? {
            return Ok(());
        }
        for (places, sums) in places.iter().zip(sums.chunks(outputs.len())) {
            for ((output, place), sum) in outputs.iter().zip(places).zip(sums) {
                store(b, *sum, *output, place);
            }
        }
        Ok(())
    }

    /// The vectors of inputs that are contiguous along the rows: as [`Block::values`] knows them.
    fn across(
        &self,
        b: &mut Builder<'_>,
        at: &[Option<Value>],
    ) -> Result<HashMap<[usize; 3], Value>, Failure> {
        let mut known = HashMap::new();
        let inputs = self.plan.generic.inputs.iter();
        let inputs = inputs.zip(&self.plan.generic.indexing_maps).enumerate();
        for (k, (input, access)) in inputs {
            if self.plan.courses[k].across().is_none() {
                continue;
            }
            let mut rows = Vec::new();
            for lane in 0..self.width {
                let mut at = self.at(at, (0, 0));
                let first = OpFoldResult::Value(self.lanes[0]);
                at[self.plan.lanes] = Some(first.plus(b, lane).value(b));
                let at: Vec<Value> = at.into_iter().flatten().collect();
                let at = place(b, access, &at)?;
                rows.push(self.load(b, *input, &at));
            }
            for (j, value) in transposed(b, rows).into_iter().enumerate() {
                known.insert([k, self.row(k, j), 0], value);
            }
        }
        Ok(known)
    }

    /// The sums after a step of the reduction, or a group of steps: `inside` are its indices.
    fn step(
        &self,
        b: &mut Builder<'_>,
        at: &[Option<Value>],
        reduced: &[usize],
        inside: &[Value],
        sums: &[Value],
    ) -> Result<Vec<Value>, Failure> {
        let (plan, region) = (self.plan, self.plan.region);
        let mut at = at.to_vec();
        for (d, value) in reduced.iter().zip(inside) {
            let first = OpFoldResult::Value(*value).times(b, plan.group(*d));
            at[*d] = Some(first.value(b));
        }
        let (mut known, mut next) = (HashMap::new(), Vec::new());
        if let Some(dot) = &plan.dot {
            for (point, sum) in self.points().zip(sums) {
                let at = self.at(&at, point);
                next.push(self.dot(b, dot, &at, point, *sum, &mut known)?);
            }
            return Ok(next);
        }
        for (point, sums) in self.points().zip(sums.chunks(plan.generic.outputs.len())) {
            let values = self.values(b, &self.at(&at, point), point, &mut known)?;
            next.extend(region.combine(b, sums, &values));
        }
        Ok(next)
    }

    fn load(&self, b: &mut Builder<'_>, memref: Value, at: &[Value]) -> Value {
        self::load(b, memref, at, self.width)
    }

    fn broadcast(&self, b: &mut Builder<'_>, source: Value) -> Value {
        broadcast(b, source, self.width)
    }

    /// What the region yields for the vector at a point; `known` are vectors that were loaded for others.
    fn values(
        &self,
        b: &mut Builder<'_>,
        at: &[Option<Value>],
        (j, i): (usize, usize),
        known: &mut HashMap<[usize; 3], Value>,
    ) -> Result<Vec<Value>, Failure> {
        let (plan, region) = (self.plan, self.plan.region);
        let at: Vec<Value> = at.iter().copied().flatten().collect();
        let mut map = Mapping::default();
        let inputs = plan.generic.inputs.iter().zip(&plan.generic.indexing_maps);
        for (k, (arg, (input, access))) in region.args.iter().zip(inputs).enumerate() {
            let course = plan.courses[k];
            let row = self.row(k, j);
            let lane = match course {
                Course::Contiguous | Course::Apart(_) => i,
                Course::Constant | Course::Grouped | Course::Across(_) => 0,
            };
            let value = match known.get(&[k, row, lane]) {
                Some(value) => *value,
                None => {
                    let at = place(b, access, &at)?;
                    let value = match course {
                        Course::Contiguous => self.load(b, *input, &at),
                        Course::Apart(step) => apart(b, self.width, step, &mut |b, shift| {
                            let mut at = at.clone();
                            if let Some(last) = at.last_mut() {
                                *last = OpFoldResult::Value(*last).plus(b, shift).value(b);
                            }
                            Ok(self.load(b, *input, &at))
                        })?,
                        Course::Grouped => {
                            return Err("reads groups, but sums up single steps".into());
                        }
                        Course::Across(_) => {
                            return Err("internal error: a square that is not there".into());
                        }
                        Course::Constant => {
                            let scalar = super::load(b, *input, &at);
                            self.broadcast(b, scalar)
                        }
                    };
                    known.insert([k, row, lane], value);
                    value
                }
            };
            map.map(*arg, value);
        }
        for op in &region.ops {
            let operands: Vec<Value> = b.ir.operands(*op).collect();
            for operand in operands {
                if map.get(operand) == operand {
                    // From outside of the region.
                    let value = self.broadcast(b, operand);
                    map.map(operand, value);
                }
            }
            crate::index::copy(b, &[*op], &mut map);
            let results: Vec<Value> = b.ir.results(*op).collect();
            for result in results {
                let made = map.get(result);
                if b.ir.has(*op, Traits::ConstantLike) {
                    let value = self.broadcast(b, made);
                    map.map(result, value);
                } else {
                    let ty = tir_vector::of(self.width, b.ty(made));
                    b.ir.set_type(made, ty);
                }
            }
        }
        let mut yields = Vec::new();
        for value in &region.yields {
            let made = map.get(*value);
            yields.push(match made == *value {
                true => self.broadcast(b, made),
                false => made,
            });
        }
        Ok(yields)
    }
}

/// Loads a vector of so many elements.
pub(super) fn load(b: &mut Builder<'_>, base: Value, at: &[Value], length: i64) -> Value {
    let elem = b.ty(base).elem();
    b.add(Load {
        base,
        indices: at.to_vec(),
        result: tir::Ret(tir_vector::of(length, elem)),
    })
}

/// A vector of so many equal elements.
pub(super) fn broadcast(b: &mut Builder<'_>, source: Value, length: i64) -> Value {
    let result = tir::Ret(tir_vector::of(length, b.ty(source)));
    b.add(Broadcast { source, result })
}

pub(super) fn store(b: &mut Builder<'_>, value: Value, base: Value, at: &[Value]) {
    b.add(Store {
        value,
        base,
        indices: at.to_vec(),
    });
}
