//! Tiles whose reduction is divided, and that are computed strip by strip.

use std::rc::Rc;

use tir::{Builder, Ret, Type, Value};
use tir_arith::{CmpIPredicate, OpFoldResult, dispatch_values};
use tir_tensor::{ExtractSlice, InsertSlice};

use super::pipeline::when;
use super::{At, Emit, counted};
use crate::plan::{Plan, Strips};

/// A strip of the sums of a tile: all offsets, those that are values, and sizes.
struct Part {
    offsets: Vec<Value>,
    static_offsets: Vec<i64>,
    static_sizes: Vec<i64>,
    ty: Type,
}

impl Emit<'_> {
    /// Computes a tile and writes it into the results: each strip is begun in the first trip of the loops of
    /// the reduction, and leaves in the last one.
    pub(super) fn strips(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        strips: &Strips,
        dests: Vec<Value>,
    ) -> Vec<Value> {
        let Some((step, _, start)) = &self.group.reduce else {
            return dests;
        };
        let plan = Plan {
            space: Rc::clone(&strips.space),
            out: Rc::clone(&strips.out),
            results: Rc::clone(&strips.results),
            ..self.plan.clone()
        };
        let inside = Emit {
            plan: &plan,
            ..*self
        };
        let shape = plan.out.unit_shape();
        let long = [&[strips.count], &shape[..]].concat();
        let sums = self.empty(b, long, step.ty.elem());
        self.slots(b, sums, self.plan.single_result);
        super::hint(b, sums, "out");
        let level = self.parallel();
        let carried = [&[sums], &dests[..]].concat();
        let sum = &mut |b: &mut Builder<'_>, at: &At, carried: Vec<Value>| {
            let trip = self.trip(b, at);
            let first = trip.compare(b, CmpIPredicate::Eq, 0);
            let last = trip.compare(b, CmpIPredicate::Eq, self.reduction_trips() - 1);
            counted(
                b,
                strips.count,
                false,
                carried,
                &mut |b, iv, mut carried| {
                    let dests = carried.split_off(1);
                    let mut at = at.clone();
                    at.strip = OpFoldResult::Value(iv);
                    let before = at.tile[strips.iterator].times(b, strips.count);
                    at.tile[strips.iterator] = before.plus(b, iv);
                    inside.loads(b, self.plan.order.len() + 1, &mut at);
                    let part = Part::of(b, iv, &shape, carried[0]);
                    let strip = part.take(b, carried[0]);
                    let begun = when(b, first, vec![strip], &mut |b, strip| {
                        vec![inside.begun(b, &at, strip[0], *start)]
                    });
                    let strip = inside.sum_blocks(b, &at, begun[0]);
                    let values = [&[strip], &dests[..]].concat();
                    let mut left = when(b, last, values, &mut |b, mut values| {
                        let dests = values.split_off(1);
                        let done = inside.finished(b, &at, values[0]);
                        // In place the sums become the result.
                        let over = done.iter().find(|v| b.ir.ty(**v) == part.ty).copied();
                        let over = over.filter(|_| self.plan.in_place.is_some());
                        let kept = over.unwrap_or(values[0]);
                        [vec![kept], inside.write(b, &at, done, dests)].concat()
                    });
                    left[0] = part.put(b, left[0], carried[0]);
                    left
                },
            )
        };
        self.reduction_tiles(b, level, at.clone(), carried, sum)
            .split_off(1)
    }

    /// Trips of the loops of a reduction.
    fn reduction_trips(&self) -> i64 {
        let order = self.plan.order[self.parallel()..].iter();
        order.map(|d| self.plan.space.trips(*d)).product()
    }

    /// Which of these trips it is.
    fn trip(&self, b: &mut Builder<'_>, at: &At) -> OpFoldResult {
        let mut trip = OpFoldResult::Number(0);
        for d in &self.plan.order[self.parallel()..] {
            let before = trip.times(b, self.plan.space.trips(*d));
            trip = before.plus(b, at.tile[*d]);
        }
        trip
    }
}

impl Part {
    fn of(b: &mut Builder<'_>, strip: Value, shape: &[i64], sums: Value) -> Self {
        let mut offsets = vec![OpFoldResult::Value(strip)];
        offsets.resize(shape.len() + 1, OpFoldResult::Number(0));
        let (offsets, static_offsets) = dispatch_values(&offsets);
        Self {
            offsets,
            static_offsets,
            static_sizes: [&[1], shape].concat(),
            ty: Type::tensor(shape.to_vec(), b.ty(sums).elem()),
        }
    }

    fn take(&self, b: &mut Builder<'_>, sums: Value) -> Value {
        b.add(ExtractSlice {
            source: sums,
            offsets: self.offsets.clone(),
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets: self.static_offsets.clone(),
            static_sizes: self.static_sizes.clone(),
            static_strides: vec![1; self.static_sizes.len()],
            result: Ret(self.ty),
        })
    }

    fn put(&self, b: &mut Builder<'_>, strip: Value, sums: Value) -> Value {
        let result = Ret(b.ty(sums));
        b.add(InsertSlice {
            source: strip,
            dest: sums,
            offsets: self.offsets.clone(),
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets: self.static_offsets.clone(),
            static_sizes: self.static_sizes.clone(),
            static_strides: vec![1; self.static_sizes.len()],
            result,
        })
    }
}
