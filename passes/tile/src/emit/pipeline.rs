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

use tir::{Attr, Builder, Rets, Value};
use tir_arith::{CmpI, CmpIPredicate, OpFoldResult, constant_index};
use tir_loop::{If, Yield as LoopYield};

use super::{At, Emit, counted, fill, hint};
use crate::chain::Made;
use crate::group::Input;

/// A stage in a pipeline.
struct Node<'a> {
    emit: Emit<'a>,
    at: At,
    /// How many trips it is behind the loop.
    lag: i64,
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
    turns: i64,
    /// What they begin with.
    start: Attr,
}

impl Sums {
    /// Which of them are those of a row, from -1 on.
    fn turn(&self, b: &mut Builder<'_>, row: OpFoldResult) -> OpFoldResult {
        row.plus(b, self.turns).modulo(b, self.turns)
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
        let lag = pipe.lag;
        let sums = self.sums(b);
        let results = dests.len();
        let whole = sums.as_ref().map(|sums| sums.whole);
        let init = dests
            .into_iter()
            .chain(whole)
            .chain(pipe.values())
            .collect();
        let done = counted(b, rows, false, init, &mut |b, row, carried| {
            let row = OpFoldResult::Value(row);
            for node in pipe.nodes.iter_mut().filter(|node| node.lag == 0) {
                node.at.tile[node.emit.plan.order[level]] = row;
                node.emit.far_loads(b, level + 1, &mut node.at);
            }
            // What the root reads behind its sums is that of the row before.
            let mut root = start.clone();
            root.tile[outer] = row.plus(b, -1);
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
                let own = index.plus(b, -lag);
                let carried = self.between(b, sums, &root, own, trips, carried);
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
            root.tile[outer] = OpFoldResult::Number(rows - 1);
            self.far_loads(b, level + 1, &mut root);
            done = self.end_row(b, sums, &root, done);
        }
        done.truncate(results);
        done
    }

    /// Accumulators of the root that a pipeline across two loops carries, if it accumulates.
    fn sums(&self, b: &mut Builder<'_>) -> Option<Sums> {
        let (step, _, start) = self.group.reduce.as_ref()?;
        if !self.plan.splits_reduction(self.group) {
            return None;
        }
        let turns = if self.plan.single_result { 1 } else { 2 };
        let shape = [&[turns], &self.plan.out.unit_shape()[..]].concat();
        let whole = self.empty(b, shape, step.ty.elem());
        hint(b, whole, "out");
        Some(Sums {
            whole,
            turns,
            start: *start,
        })
    }

    /// Before the first trip of a row of the root: the row before is written, and the accumulators begin anew.
    fn between(
        &self,
        b: &mut Builder<'_>,
        sums: &Sums,
        root: &At,
        own: OpFoldResult,
        trips: i64,
        carried: Vec<Value>,
    ) -> Vec<Value> {
        // One row further, for what is not negative.
        let own = own.plus(b, trips);
        let row = own.floor_div(b, trips);
        let begins = own.modulo(b, trips);
        let begins = begins.compare(b, CmpIPredicate::Eq, 0);
        when(b, begins, carried, &mut |b, carried| {
            let later = row.compare(b, CmpIPredicate::Uge, 2);
            let mut carried = when(b, later, carried, &mut |b, carried| {
                self.end_row(b, sums, root, carried)
            });
            let results = self.group.outs.len();
            let before = row.plus(b, -1);
            let turn = sums.turn(b, before);
            carried[results] = self.in_turn(b, turn, carried[results], &mut |b, acc| {
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
        mut carried: Vec<Value>,
    ) -> Vec<Value> {
        let results = self.group.outs.len();
        let outer = self.plan.order[self.parallel() - 1];
        let turn = sums.turn(b, root.tile[outer]);
        let mut dests = carried[..results].to_vec();
        carried[results] = self.in_turn(b, turn, carried[results], &mut |b, acc| {
            let sources = self.finished(b, root, acc);
            // The result may be in the place of the accumulators.
            let kept = match self.plan.in_place {
                Some(Input::Reduced) => sources[0],
                _ => acc,
            };
            dests = self.write(b, root, sources, std::mem::take(&mut dests));
            kept
        });
        carried.splice(..results, dests);
        carried
    }
}

/// Stages beside each other.
struct Pipe<'a> {
    nodes: Vec<Node<'a>>,
    tiles: Vec<Handed<'a>>,
    /// Inside of how many loops the innermost one stands.
    level: usize,
    /// The first trip, and how many there are.
    start: i64,
    trips: i64,
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
        let lag = i64::try_from(root.stage.depth()).unwrap_or(0);
        let emit = Emit::new(root.stage);
        gather(emit, b, at, lag, None, &mut nodes, &mut tiles);
        Self {
            nodes,
            tiles,
            level,
            start,
            trips,
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

    /// Lets a stage stand at a trip of its own.
    fn stand(&self, b: &mut Builder<'_>, node: &Node<'_>, own: OpFoldResult, at: &mut At) {
        let order = &node.emit.plan.order;
        match self.columns {
            // One row further, for what is not negative.
            Some(columns) => {
                let own = own.plus(b, columns);
                at.tile[order[self.level - 1]] = own.floor_div(b, columns).plus(b, -1);
                at.tile[order[self.level]] = own.modulo(b, columns);
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
        mut carried: Vec<Value>,
        drains: bool,
    ) -> Vec<Value> {
        let columns = self.columns.unwrap_or(1);
        let own = index.plus(b, columns - self.lag);
        let row = own.floor_div(b, columns).plus(b, -1);
        let turn = sums.turn(b, row);
        let root = &self.nodes[self.nodes.len() - 1].emit;
        let mut tiles = carried.split_off(results + 1);
        carried[results] = root.in_turn(b, turn, carried[results], &mut |b, acc| {
            let mut done = self.trip(b, index, &[acc], std::mem::take(&mut tiles), drains);
            tiles = done.split_off(1);
            done[0]
        });
        carried.extend(tiles);
        carried
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
            if let (Some(maker), Some(value)) = (maker, tile.made.filled()) {
                let next = here[maker].0.turn.plus(b, 1);
                let (emit, turn) = (&self.nodes[maker].emit, next.modulo(b, self.turns));
                tiles[i] = emit.in_turn(b, turn, tiles[i], &mut |b, part| fill(b, part, value));
            }
        }
        // The root's tile, if it is not accumulated: it is written when the stages are through.
        let last = self.nodes.len() - 1;
        let root = &self.nodes[last];
        let split = root.emit.plan.splits_reduction(root.emit.group);
        let own = match split {
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
            self.stand(b, reader, OpFoldResult::Value(here[maker].1), &mut at);
            let whole = values[rooted + i];
            let fills = &tile.made.behind;
            values[rooted + i] = reader.emit.fill_all(b, tile.made, fills, &at, whole);
        }
        let tiles_out = values.split_off(rooted);
        let mut results = match split {
            true => values,
            // A trip that is none of the root's may be one of another segment's.
            false => {
                let (at, own) = &here[last];
                let active = below(b, *own, self.trips);
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
            .map(|(_, (_, own))| below(b, *own, self.trips));
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

/// Values from values.
type Through<'f> = &'f mut dyn FnMut(&mut Builder<'_>, Vec<Value>) -> Vec<Value>;

/// Values from values, in a step with a number.
type Numbered<'f> = &'f mut dyn FnMut(&mut Builder<'_>, OpFoldResult, Vec<Value>) -> Vec<Value>;

/// Whether `0 <= index < end`.
fn below(b: &mut Builder<'_>, index: Value, end: i64) -> Value {
    let rhs = constant_index(b, end);
    // Below zero is far above, unsigned.
    b.add(CmpI {
        predicate: CmpIPredicate::Ult,
        lhs: index,
        rhs,
    })
}

/// A branch that leaves values as they are unless a condition holds.
pub(super) fn when(
    b: &mut Builder<'_>,
    condition: Value,
    values: Vec<Value>,
    then: Through<'_>,
) -> Vec<Value> {
    let results = Rets(values.iter().map(|v| b.ty(*v)).collect());
    let kept = values.clone();
    let then_region = b.body(&[], |b, _| {
        let values = then(b, values.clone());
        b.add(LoopYield { values });
    });
    let else_region = b.body(&[], |b, _| {
        b.add(LoopYield { values: kept });
    });
    b.add(If {
        condition,
        then_region,
        else_region,
        results,
    })
}

/// Values through some steps, each with its number; one step is no loop.
fn several(b: &mut Builder<'_>, count: i64, values: Vec<Value>, step: Numbered<'_>) -> Vec<Value> {
    if count == 1 {
        return step(b, OpFoldResult::Number(0), values);
    }
    counted(b, count, false, values, &mut |b, iv, values| {
        step(b, OpFoldResult::Value(iv), values)
    })
}

/// A stage and all that compute for it, producers first, and the tiles between them.
fn gather<'a>(
    emit: Emit<'a>,
    b: &mut Builder<'_>,
    at: At,
    lag: i64,
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
        for (part, at) in made.parts.iter().zip(&at.parts[number][i]) {
            let part = Emit::new(part);
            gather(part, b, at.clone(), lag - 1, Some(tile), nodes, tiles);
        }
    }
    for (_, tile) in &reads {
        tiles[*tile].node = nodes.len();
    }
    nodes.push(Node {
        emit,
        at,
        lag,
        reads,
        writes,
    });
}
