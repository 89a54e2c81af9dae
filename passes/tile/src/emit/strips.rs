//! Tiles whose reduction is divided, and that are computed strip by strip.

use std::sync::Arc;

use tir::{Builder, Value};
use tir_arith::{CmpIPredicate, OpFoldResult};

use super::flow::{counted, when};
use super::slice::Slice;
use super::{At, Emit};
use crate::plan::{Plan, Strips};

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
            space: Arc::clone(&strips.space),
            out: Arc::clone(&strips.out),
            results: Arc::clone(&strips.results),
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
            counted(b, strips.count, false, carried, &mut |b, iv, carried| {
                let mut at = at.clone();
                at.strip = OpFoldResult::Value(iv);
                let before = at.tile[strips.iterator].times(b, strips.count);
                at.tile[strips.iterator] = before.plus(b, iv);
                inside.loads(b, self.plan.order.len() + 1, &mut at);
                let part = Slice::numbered(at.strip, &shape);
                part.update_at(b, 0, carried, &mut |b, mut carried| {
                    let begun = when(b, first, vec![carried[0]], &mut |b, strip| {
                        vec![inside.begun(b, &at, strip[0], *start)]
                    });
                    carried[0] = inside.sum_blocks(b, &at, begun[0]);
                    when(b, last, carried, &mut |b, mut carried| {
                        let dests = carried.split_off(1);
                        let strip = carried[0];
                        let done = inside.finished(b, &at, strip);
                        // In place the sums become the result.
                        let over = done.iter().find(|v| b.ty(**v) == b.ty(strip)).copied();
                        let over = over.filter(|_| self.plan.in_place.is_some());
                        let kept = over.unwrap_or(strip);
                        [vec![kept], inside.write(b, &at, done, dests)].concat()
                    })
                })
            })
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
