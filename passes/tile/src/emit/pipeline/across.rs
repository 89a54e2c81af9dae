//! Pipelines across two loops: no stage waits for the others at the end of a *row*, a trip of the outer loop.
//!
//! The root is still at a row when its producers begin the next one, so the accumulators of two rows are carried
//! and take turns: before the first trip of a row those of the row before are finished and written, and its own
//! begin anew. Where rows of a tile stay for later trips, producers are whole rows early; the loop has as many trips
//! more. What is left at the end, less than a row, *drains* in a loop of its own.

use tir::{Attr, Builder, Value};
use tir_arith::{CmpIPredicate, OpFoldResult};

use super::super::flow::{counted, when};
use super::super::slice::Slice;
use super::super::{At, Emit, hint};
use super::Pipe;
use crate::group::Input;

/// Accumulators of a root that a pipeline carries.
struct Sums {
    /// Those of several rows, which take turns.
    whole: Value,
    /// Shape of those of one row.
    shape: Vec<i64>,
    turns: i64,
    /// How many rows before the first one there are at most.
    before: i64,
    /// What they begin with.
    start: Attr,
}

impl Sums {
    /// Where those of a row are, which may be one before the first.
    fn of_row(&self, b: &mut Builder<'_>, row: OpFoldResult) -> Slice {
        let row = row.plus(b, self.turns * self.before);
        Slice::numbered(row.modulo(b, self.turns), &self.shape)
    }
}

impl Emit<'_> {
    /// The two innermost loops of a chain as one pipeline.
    pub(in crate::emit) fn pipeline_across(
        &self,
        b: &mut Builder<'_>,
        level: usize,
        at: &At,
        dests: Vec<Value>,
    ) -> Vec<Value> {
        let (outer, inner) = (self.plan.order[level], self.plan.order[level + 1]);
        let [rows, trips] = [outer, inner].map(|d| self.plan.space.trips(d));
        let mut at = at.clone();
        at.segment = Some(0);
        let start = at.clone();
        let mut pipe = Pipe::new(self, b, at, level + 1, (0, rows * trips), Some(trips));
        // Rows before the root's first one, in which the first rows that stay are computed.
        let (early, lag) = (pipe.lag / trips, pipe.lag % trips);
        let rows = rows + early;
        let sums = self.sums(b, early + 1);
        let results = dests.len();
        let whole = sums.as_ref().map(|sums| sums.whole);
        let init = dests
            .into_iter()
            .chain(whole)
            .chain(pipe.values())
            .collect();
        let done = counted(b, rows, false, init, &mut |b, row, carried| {
            let row = OpFoldResult::Value(row);
            for node in pipe.nodes.iter_mut().filter(|node| node.lag % trips == 0) {
                node.at.tile[node.emit.plan.order[level]] = row.plus(b, -(node.lag / trips));
                node.emit.far_loads(b, level + 1, &mut node.at);
            }
            // What the root reads behind its sums is that of the row before.
            let mut root = start.clone();
            root.tile[outer] = row.plus(b, -1 - early);
            if sums.is_some() {
                self.far_loads(b, level + 1, &mut root);
            }
            let first = row.times(b, trips);
            counted(b, trips, false, carried, &mut |b, column, carried| {
                let index = OpFoldResult::Value(column).plus(b, first);
                let Some(sums) = &sums else {
                    let (dests, tiles) = carried.split_at(results);
                    return pipe.trip(b, index, dests, tiles.to_vec(), None);
                };
                let carried = self.between(b, &pipe, sums, &root, index, carried);
                pipe.summed(b, sums, index, results, carried, None)
            })
        });
        let drains = Some(rows * trips);
        let mut done = counted(b, lag, false, done, &mut |b, iv, carried| {
            let index = OpFoldResult::Value(iv).plus(b, rows * trips);
            let Some(sums) = &sums else {
                let (dests, tiles) = carried.split_at(results);
                return pipe.trip(b, index, dests, tiles.to_vec(), drains);
            };
            pipe.summed(b, sums, index, results, carried, drains)
        });
        if let Some(sums) = &sums {
            let mut root = start;
            root.tile[outer] = OpFoldResult::Number(rows - early - 1);
            self.far_loads(b, level + 1, &mut root);
            done = self.end_row(b, sums, &root, done);
        }
        done.truncate(results);
        done
    }

    /// Accumulators of the root that a pipeline across two loops carries, if it accumulates.
    fn sums(&self, b: &mut Builder<'_>, before: i64) -> Option<Sums> {
        let (step, _, start) = self.group.reduce.as_ref()?;
        if !self.plan.splits_reduction(self.group) {
            return None;
        }
        let turns = if self.plan.single_result { 1 } else { 2 };
        let shape = self.plan.out.unit_shape();
        let whole = self.empty(b, [&[turns], &shape[..]].concat(), step.ty.elem());
        hint(b, whole, "out");
        Some(Sums {
            whole,
            shape,
            turns,
            before,
            start: *start,
        })
    }

    /// Before the first trip of a row of the root: the row before is written, and the accumulators begin anew.
    fn between(
        &self,
        b: &mut Builder<'_>,
        pipe: &Pipe<'_>,
        sums: &Sums,
        root: &At,
        index: OpFoldResult,
        carried: Vec<Value>,
    ) -> Vec<Value> {
        let own = index.plus(b, -pipe.lag);
        let (row, column) = pipe.place(b, own);
        let begins = column.compare(b, CmpIPredicate::Eq, 0);
        when(b, begins, carried, &mut |b, carried| {
            let later = row.compare(b, CmpIPredicate::Sge, 1);
            let mut carried = when(b, later, carried, &mut |b, carried| {
                self.end_row(b, sums, root, carried)
            });
            let results = self.group.outs.len();
            let own = sums.of_row(b, row);
            carried[results] = own.update(b, carried[results], &mut |b, acc| {
                self.begun(b, root, acc, sums.start)
            });
            carried
        })
    }

    /// Writes what leaves a row of the root's tiles.
    fn end_row(
        &self,
        b: &mut Builder<'_>,
        sums: &Sums,
        root: &At,
        carried: Vec<Value>,
    ) -> Vec<Value> {
        let results = self.group.outs.len();
        let outer = self.plan.order[self.parallel() - 1];
        let own = sums.of_row(b, root.tile[outer]);
        own.update_at(b, results, carried, &mut |b, mut carried| {
            let acc = carried[results];
            let sources = self.finished(b, root, acc);
            // The result may be in the place of the accumulators.
            if self.plan.in_place == Some(Input::Reduced) {
                carried[results] = sources[0];
            }
            let dests = carried[..results].to_vec();
            let dests = self.write(b, root, sources, dests);
            carried.splice(..results, dests);
            carried
        })
    }
}

impl Pipe<'_> {
    /// A trip into the accumulators of the root: behind the results, before the tiles that are handed on.
    fn summed(
        &self,
        b: &mut Builder<'_>,
        sums: &Sums,
        index: OpFoldResult,
        results: usize,
        carried: Vec<Value>,
        drains: Option<i64>,
    ) -> Vec<Value> {
        let own = index.plus(b, -self.lag);
        let (row, _) = self.place(b, own);
        let sums = sums.of_row(b, row);
        sums.update_at(b, results, carried, &mut |b, mut carried| {
            let tiles = carried.split_off(results + 1);
            let done = self.trip(b, index, &carried[results..], tiles, drains);
            carried.splice(results.., done);
            carried
        })
    }
}
