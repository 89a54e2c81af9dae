//! The stages of a chain beside each other: while one computes with a tile, its producer computes the next.
//!
//! In trip `i` of the loop a stage is at its trip `i - lag`, a producer one trip before its reader; a tile that is
//! handed on has several places, which take turns. The blocks of the stages are issued in turn, so that each
//! unit's queue has work of its own stage while another unit is behind. Where a stage is before its first trip
//! or behind its last one, it computes nothing; what it loads there lies outside of its tensors.
//!
//! The loop may be the two innermost ones counted through: then no stage waits at the end of a trip of the outer
//! one, a *row*. The root is still at a row when its producers begin the next, so its accumulators are carried,
//! those of two rows in turn.

use tir::{Attr, Builder, Value};
use tir_arith::{CmpI, CmpIPredicate, OpFoldResult};

use super::flow::{below, counted, several, when};
use super::slice::Slice;
use super::{At, Emit, fill_by, hint};
use crate::chain::Made;
use crate::group::Input;

/// A stage in a pipeline.
struct Node<'a> {
    emit: Emit<'a>,
    at: At,
    /// How many trips it is behind the loop.
    lag: i64,
    /// How many trips it has: more than the root where rows of its tile stay.
    trips: i64,
    /// The operands that producers compute, with the numbers of their tiles among those that are carried.
    reads: Vec<(usize, usize)>,
    /// The number of the tile that it computes.
    writes: Option<usize>,
}

/// A tile that is handed on.
struct Handed<'a> {
    made: &'a Made,
    /// The reader.
    node: usize,
    value: Value,
}

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
    /// The innermost loop of a chain, its stages beside each other, in its segments.
    pub(super) fn pipeline(
        &self,
        b: &mut Builder<'_>,
        level: usize,
        at: &At,
        mut carried: Vec<Value>,
    ) -> Vec<Value> {
        let all = self.plan.space.trips(self.plan.order[level]);
        let cut = self.stage.cut == Some(level);
        for (number, segment) in self.stage.segments.iter().enumerate() {
            if !cut && at.segment.is_some_and(|inside| inside != number) {
                continue;
            }
            let (start, trips) = match cut {
                true => (segment.start, segment.trips),
                false => (0, all),
            };
            let mut at = at.clone();
            at.segment = Some(number);
            let pipe = Pipe::new(self, b, at, level, (start, trips), None);
            let results = carried.len();
            let init = carried.into_iter().chain(pipe.values()).collect();
            carried = counted(b, trips + pipe.lag, false, init, &mut |b, iv, carried| {
                let (dests, tiles) = carried.split_at(results);
                pipe.trip(b, OpFoldResult::Value(iv), dests, tiles.to_vec(), false)
            });
            carried.truncate(results);
        }
        carried
    }

    /// The two innermost loops of a chain as one pipeline.
    pub(super) fn pipeline_across(
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
                    return pipe.trip(b, index, dests, tiles.to_vec(), false);
                };
                let carried = self.between(b, &pipe, sums, &root, index, carried);
                pipe.summed(b, sums, index, results, carried, false)
            })
        });
        let mut done = counted(b, lag, false, done, &mut |b, iv, carried| {
            let index = OpFoldResult::Value(iv).plus(b, rows * trips);
            let Some(sums) = &sums else {
                let (dests, tiles) = carried.split_at(results);
                return pipe.trip(b, index, dests, tiles.to_vec(), true);
            };
            pipe.summed(b, sums, index, results, carried, true)
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

/// Stages beside each other.
struct Pipe<'a> {
    nodes: Vec<Node<'a>>,
    tiles: Vec<Handed<'a>>,
    /// Inside of how many loops the innermost one stands.
    level: usize,
    /// The first trip of the root.
    start: i64,
    /// Trips of the innermost loop in one of the loop around it, if trips are those of both.
    columns: Option<i64>,
    /// How many trips the root is behind.
    lag: i64,
    turns: i64,
}

impl<'a> Pipe<'a> {
    fn new(
        root: &Emit<'a>,
        b: &mut Builder<'_>,
        at: At,
        level: usize,
        (start, trips): (i64, i64),
        columns: Option<i64>,
    ) -> Self {
        let (mut nodes, mut tiles) = (Vec::new(), Vec::new());
        let per = columns.unwrap_or(1);
        let lag = root.stage.lag(per);
        let emit = Emit::new(root.stage);
        let place = Place {
            lag,
            trips,
            columns: per,
        };
        gather(emit, b, at, place, None, &mut nodes, &mut tiles);
        Self {
            nodes,
            tiles,
            level,
            start,
            columns,
            lag,
            turns: root.stage.turns,
        }
    }

    /// The tiles that are handed on.
    fn values(&self) -> impl Iterator<Item = Value> + '_ {
        self.tiles.iter().map(|tile| tile.value)
    }

    /// The stage that computes a tile.
    fn maker(&self, tile: usize) -> Option<usize> {
        let mut nodes = self.nodes.iter();
        nodes.position(|node| node.writes == Some(tile))
    }

    /// The row and the column of a stage's trip, if trips are those of two loops.
    fn place(&self, b: &mut Builder<'_>, own: OpFoldResult) -> (OpFoldResult, OpFoldResult) {
        let columns = self.columns.unwrap_or(1);
        // So many rows further, for what is not negative.
        let before = self.lag / columns + 1;
        let own = own.plus(b, columns * before);
        let row = own.floor_div(b, columns).plus(b, -before);
        (row, own.modulo(b, columns))
    }

    /// Lets a stage stand at a trip of its own.
    fn stand(&self, b: &mut Builder<'_>, node: &Node<'_>, own: OpFoldResult, at: &mut At) {
        let order = &node.emit.plan.order;
        match self.columns {
            Some(_) => {
                let (row, column) = self.place(b, own);
                at.tile[order[self.level - 1]] = row;
                at.tile[order[self.level]] = column;
            }
            None => {
                let first = if node.writes.is_none() { self.start } else { 0 };
                at.tile[order[self.level]] = own.plus(b, first);
            }
        }
        let own = own.plus(b, self.turns * self.lag);
        at.turn = own.modulo(b, self.turns);
    }

    /// A trip into the accumulators of the root: behind the results, before the tiles that are handed on.
    fn summed(
        &self,
        b: &mut Builder<'_>,
        sums: &Sums,
        index: OpFoldResult,
        results: usize,
        carried: Vec<Value>,
        drains: bool,
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

    /// A trip: the root's tensors or accumulators, and the tiles that are handed on, to those of the next. Where
    /// the pipeline drains, the first stages are through.
    fn trip(
        &self,
        b: &mut Builder<'_>,
        index: OpFoldResult,
        dests: &[Value],
        mut tiles: Vec<Value>,
        drains: bool,
    ) -> Vec<Value> {
        let through = |node: &Node<'_>| drains && node.lag == 0;
        // Each stage's own trip, and what it loads there.
        let mut here: Vec<(At, Value)> = Vec::new();
        for node in &self.nodes {
            let own = index.plus(b, -node.lag).value(b);
            let mut at = node.at.clone();
            self.stand(b, node, OpFoldResult::Value(own), &mut at);
            here.push((at, own));
        }
        // Each tile is filled a trip before it is computed: loads may stand before that in the engine's queue.
        for (i, tile) in self.tiles.iter().enumerate() {
            let maker = self.maker(i).filter(|n| !through(&self.nodes[*n]));
            if let (Some(maker), Some((engine, value))) = (maker, tile.made.filled()) {
                let next = here[maker].0.turn.plus(b, 1);
                let turn = next.modulo(b, self.turns);
                let ty = b.ty(tiles[i]);
                let shape = ty.shape().map_or(&[][..], |shape| &shape[1..]);
                tiles[i] = Slice::numbered(turn, shape)
                    .update(b, tiles[i], &mut |b, part| fill_by(b, engine, part, value));
            }
        }
        // The root's tile, if it is not accumulated: it is written when the stages are through.
        let last = self.nodes.len() - 1;
        let root = &self.nodes[last];
        let split = root.emit.plan.splits_reduction(root.emit.group);
        let into = split || root.emit.group.into.is_some();
        let own = match into {
            true => dests.to_vec(),
            false => {
                let outs = root.emit.group.outs.iter();
                let elems: Vec<_> = outs.map(|out| root.emit.elem(out.step)).collect();
                let mut wholes = root.emit.wholes(b, &elems);
                root.emit.fill_sums(b, &mut wholes);
                wholes
            }
        };
        for (node, (at, _)) in self.nodes.iter().zip(&mut here) {
            if !through(node) {
                node.emit.far_loads(b, self.level + 1, at);
            }
        }
        let rooted = own.len();
        let init: Vec<Value> = own.into_iter().chain(tiles).collect();
        let mut values = self.turns(b, &here, rooted, init, &through);
        for (i, tile) in self.tiles.iter().enumerate() {
            let maker = self.maker(i).filter(|n| !through(&self.nodes[*n]));
            let Some(maker) = maker else { continue };
            // Where the tile lies is counted by its reader, when it gets there.
            let reader = &self.nodes[tile.node];
            let mut at = here[tile.node].0.clone();
            let early = tile.made.ring.map_or(0, |ring| ring.early) * self.columns.unwrap_or(1);
            let own = OpFoldResult::Value(here[maker].1).plus(b, -early);
            self.stand(b, reader, own, &mut at);
            let whole = values[rooted + i];
            let fills = &tile.made.behind;
            values[rooted + i] = reader.emit.fill_all(b, tile.made, fills, &at, whole);
        }
        let tiles_out = values.split_off(rooted);
        let mut results = match into {
            true => values,
            // A trip that is none of the root's may be one of another segment's.
            false => {
                let (at, own) = &here[last];
                let active = below(b, *own, self.nodes[last].trips);
                when(b, active, dests.to_vec(), &mut |b, dests| {
                    root.emit.write(b, at, values.clone(), dests)
                })
            }
        };
        results.extend(tiles_out);
        results
    }

    /// The blocks of all stages in turn, but for those that are through: into the root's tensors, then the tiles
    /// that are handed on.
    fn turns(
        &self,
        b: &mut Builder<'_>,
        here: &[(At, Value)],
        rooted: usize,
        init: Vec<Value>,
        through: &dyn Fn(&Node<'_>) -> bool,
    ) -> Vec<Value> {
        let nodes = self
            .nodes
            .iter()
            .zip(here)
            .filter(|(node, _)| !through(node));
        let counts: Vec<i64> = nodes.clone().map(|(node, _)| node.emit.count()).collect();
        let least = counts.iter().copied().min().unwrap_or(1);
        let most = counts.iter().copied().max().unwrap_or(1);
        let steps = least.max(most.min(FEW));
        let active = nodes
            .clone()
            .map(|(node, (_, own))| below(b, *own, node.trips));
        let active: Vec<Value> = active.collect();
        counted(b, steps, false, init, &mut |b, step, mut carried| {
            for (number, (node, (at, _))) in nodes.clone().enumerate() {
                let (count, each) = (counts[number], (counts[number] + steps - 1) / steps);
                let own = match node.writes {
                    Some(tile) => rooted + tile..rooted + tile + 1,
                    None => 0..rooted,
                };
                let mut at = at.clone();
                for (operand, tile) in &node.reads {
                    at.loaded[*operand] = Some(carried[rooted + tile]);
                }
                let dests = carried[own.clone()].to_vec();
                // Blocks are spread evenly over the steps.
                let step = OpFoldResult::Value(step);
                let first = step.times(b, count).floor_div(b, steps);
                let next = step.plus(b, 1).times(b, count).floor_div(b, steps);
                let end = next.value(b);
                let some = when(b, active[number], dests, &mut |b, dests| {
                    several(b, each, dests, &mut |b, block, dests| {
                        let block = first.plus(b, block);
                        if each * steps == count {
                            return node.emit.block(b, &at, block, dests);
                        }
                        let block = block.value(b);
                        let inside = b.add(CmpI {
                            predicate: CmpIPredicate::Ult,
                            lhs: block,
                            rhs: end,
                        });
                        when(b, inside, dests, &mut |b, dests| {
                            node.emit.block(b, &at, OpFoldResult::Value(block), dests)
                        })
                    })
                });
                carried.splice(own, some);
            }
            carried
        })
    }
}

/// Steps of the stages' turns at least, if one of them has as many blocks.
const FEW: i64 = 16;

/// Where a stage is in a pipeline.
#[derive(Clone, Copy)]
struct Place {
    /// How many trips it is behind the loop.
    lag: i64,
    /// How many it has.
    trips: i64,
    /// How many there are in a row.
    columns: i64,
}

/// A stage and all that compute for it, producers first, and the tiles between them.
fn gather<'a>(
    emit: Emit<'a>,
    b: &mut Builder<'_>,
    at: At,
    place: Place,
    writes: Option<usize>,
    nodes: &mut Vec<Node<'a>>,
    tiles: &mut Vec<Handed<'a>>,
) {
    let number = at.segment.unwrap_or(0);
    let mut reads = Vec::new();
    for (i, made) in emit.stage.segments[number].made.iter().enumerate() {
        let value = emit.made_tile(b, made, &at);
        let tile = tiles.len();
        let node = 0;
        tiles.push(Handed { made, node, value });
        reads.push((made.operand, tile));
        let early = made.ring.map_or(0, |ring| ring.early) * place.columns;
        let before = Place {
            lag: place.lag - 1 - early,
            trips: place.trips + early,
            ..place
        };
        for (part, at) in made.parts.iter().zip(&at.parts[number][i]) {
            let part = Emit::new(part);
            gather(part, b, at.clone(), before, Some(tile), nodes, tiles);
        }
    }
    for (_, tile) in &reads {
        tiles[*tile].node = nodes.len();
    }
    nodes.push(Node {
        emit,
        at,
        lag: place.lag,
        trips: place.trips,
        reads,
        writes,
    });
}
