//! A block of results, which registers hold.

use std::collections::HashMap;

use tir::{Builder, Failure, Mapping, Traits, Value};
use tir_arith::{OpFoldResult, constant_index};

use super::super::transpose::{apart, transposed};
use super::super::{carrying, place};
use super::around::Around;
use super::{Course, Plan, broadcast, load_first, store_first};

/// What is in the loops of a sum: the sums behind it, for where all iterators are and the sums before.
type Step<'a> =
    dyn FnMut(&mut Builder<'_>, &[Option<Value>], &[Value]) -> Result<Vec<Value>, Failure> + 'a;

/// A block of results.
pub(super) struct Block<'a> {
    pub(super) plan: &'a Plan<'a>,
    /// The number and place of each row along the iterators of rows.
    pub(super) rows: Vec<Vec<(usize, Value)>>,
    /// Where its vectors begin.
    pub(super) lanes: Vec<Value>,
    /// Elements of its vectors.
    pub(super) width: i64,
    /// Elements of them that are points.
    pub(super) held: i64,
}

impl Block<'_> {
    /// The points of the block: row and vector.
    pub(super) fn points(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.rows.len()).flat_map(|j| (0..self.lanes.len()).map(move |i| (j, i)))
    }

    pub(super) fn at(&self, at: &[Option<Value>], (j, i): (usize, usize)) -> Vec<Option<Value>> {
        let mut at = at.to_vec();
        at[self.plan.lanes] = Some(self.lanes[i]);
        for ((d, _), (_, place)) in self.plan.rows.iter().zip(&self.rows[j]) {
            at[*d] = Some(*place);
        }
        at
    }

    /// A number of what an operand is in a row: the same for rows along whose iterators it does not change.
    pub(super) fn row(&self, operand: usize, j: usize) -> usize {
        let places = self.plan.by_row[operand].iter().zip(&self.rows[j]);
        let places = places.zip(&self.plan.rows);
        places.fold(0, |number, ((changes, (place, _)), (_, points))| {
            number * *points as usize + if *changes { *place } else { 0 }
        })
    }

    pub(super) fn emit(
        &self,
        b: &mut Builder<'_>,
        at: &[Option<Value>],
        reduced: &[usize],
        around: &Around<'_>,
    ) -> Result<(), Failure> {
        let (plan, region) = (self.plan, self.plan.region);
        let outputs = &plan.generic.outputs;
        if plan.generic.combine.is_none() {
            let mut places = Vec::new();
            for point in self.points() {
                places.push(region.places(b, &self.at(at, point))?);
            }
            // All is read before anything is written.
            let (mut known, mut all) = (self.across(b, at)?, Vec::new());
            for point in self.points() {
                all.push(self.values(b, &self.at(at, point), point, &mut known)?);
            }
            for (values, places) in all.iter().zip(&places) {
                for ((value, output), place) in values.iter().zip(outputs).zip(places) {
                    self.store(b, *value, *output, place);
                }
            }
            return Ok(());
        }
        let sizes = reduced.iter().map(|d| plan.domain[*d] / plan.group(*d));
        let sizes: Vec<i64> = sizes.collect();
        // A short loop waits at its end, as where it ends is guessed late.
        let sums = self.points().count() * outputs.len();
        let written = |size: &&i64| **size * sums as i64 <= plan.unroll;
        let written = sizes.last().filter(written).copied();
        let (looped, inner) = match written {
            Some(steps) => (&reduced[..reduced.len() - 1], Some(steps)),
            None => (reduced, None),
        };
        self.sum(b, at, looped, around, &mut |b, at, sums| {
            let mut sums = sums.to_vec();
            for step in 0..inner.unwrap_or(1) {
                let mut at = at.to_vec();
                if let (Some(_), Some(d)) = (inner, reduced.last()) {
                    let step = constant_index(b, step * plan.group(*d));
                    at[*d] = Some(step);
                }
                sums = self.step(b, &at, &sums)?;
            }
            Ok(sums)
        })
    }

    /// Sums of a block, from what they begin with to what becomes of them: `step` is what is in the loops of `reduced`, and gives the
    /// sums behind it.
    pub(super) fn sum(
        &self,
        b: &mut Builder<'_>,
        at: &[Option<Value>],
        reduced: &[usize],
        around: &Around<'_>,
        step: &mut Step<'_>,
    ) -> Result<(), Failure> {
        let plan = self.plan;
        let outputs = &plan.generic.outputs;
        let mut places = Vec::new();
        for point in self.points() {
            places.push(plan.region.places(b, &self.at(at, point))?);
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
        let sums = carrying(b, &sizes, &mut Vec::new(), &init, &mut |b, inside, sums| {
            let mut at = at.to_vec();
            for (d, value) in reduced.iter().zip(inside) {
                let first = OpFoldResult::Value(*value).times(b, plan.group(*d));
                at[*d] = Some(first.value(b));
            }
            step(b, &at, sums)
        })?;
        if around.last(b, self, at, &sums)? {
            return Ok(());
        }
        for (places, sums) in places.iter().zip(sums.chunks(outputs.len())) {
            for ((output, place), sum) in outputs.iter().zip(places).zip(sums) {
                self.store(b, *sum, *output, place);
            }
        }
        Ok(())
    }

    /// The sums after the columns of a square from one on.
    pub(super) fn columns(
        &self,
        b: &mut Builder<'_>,
        at: &[Option<Value>],
        from: usize,
        sums: &[Value],
    ) -> Result<Vec<Value>, Failure> {
        let mut known = self.across(b, at)?;
        let mut sums = sums.to_vec();
        for j in from..self.rows.len() {
            let values = self.values(b, &self.at(at, (j, 0)), (j, 0), &mut known)?;
            sums = self.plan.region.combine(b, &sums, &values);
        }
        Ok(sums)
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

    /// The sums after a step of the reduction, or a group of steps.
    fn step(
        &self,
        b: &mut Builder<'_>,
        at: &[Option<Value>],
        sums: &[Value],
    ) -> Result<Vec<Value>, Failure> {
        let (plan, region) = (self.plan, self.plan.region);
        let (mut known, mut next) = (HashMap::new(), Vec::new());
        if let Some(dot) = &plan.dot {
            for (point, sum) in self.points().zip(sums) {
                let at = self.at(at, point);
                next.push(self.dot(b, dot, &at, point, *sum, &mut known)?);
            }
            return Ok(next);
        }
        for (point, sums) in self.points().zip(sums.chunks(plan.generic.outputs.len())) {
            let values = self.values(b, &self.at(at, point), point, &mut known)?;
            next.extend(region.combine(b, sums, &values));
        }
        Ok(next)
    }

    pub(super) fn load(&self, b: &mut Builder<'_>, memref: Value, at: &[Value]) -> Value {
        load_first(b, memref, at, self.width, self.held)
    }

    pub(super) fn store(&self, b: &mut Builder<'_>, value: Value, memref: Value, at: &[Value]) {
        store_first(b, value, memref, at, self.held);
    }

    fn broadcast(&self, b: &mut Builder<'_>, source: Value) -> Value {
        broadcast(b, source, self.width)
    }

    /// What the region yields for the vector at a point; `known` are vectors that were loaded for others.
    pub(super) fn values(
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
                            // Up to the last element that is a point.
                            let held = match self.held < self.width {
                                true => step * (self.held - 1) + 1 - shift,
                                false => self.width,
                            };
                            Ok(load_first(b, *input, &at, self.width, held))
                        })?,
                        Course::Grouped => {
                            return Err("reads groups, but sums up single steps".into());
                        }
                        Course::Across(_) => {
                            return Err("internal error: a square that is not there".into());
                        }
                        Course::Constant => {
                            let scalar = super::super::load(b, *input, &at);
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
