//! The stages of a chain beside each other: while one computes with a tile, its producer computes the next.
//!
//! In trip `i` of the loop a stage is at its trip `i - lag`, a producer one trip before its reader; a tile that is
//! handed on has several places, which take turns. The blocks of the stages are issued in turn, so that each
//! unit's queue has work of its own stage while another unit is behind. Where a stage is before its first trip
//! or behind its last one, it computes nothing; what it loads there lies outside of its tensors.
//!
//! The loop may be the two innermost ones counted through (`across`).

mod across;

use tir::{Builder, Value};
use tir_arith::{AndI, CmpI, CmpIPredicate, OpFoldResult, Select};

use super::between::{OfRows, State};
use super::flow::{below, counted, several, when};
use super::nest::fill_by;
use super::slice::Slice;
use super::{At, Emit};
use crate::chain::{Fill, Made, Running, Share, late};

/// A stage in a pipeline.
struct Node<'a> {
    emit: Emit<'a>,
    at: At,
    /// How many trips it is behind the loop.
    lag: i64,
    /// How many trips it has: more than the root where rows of its tile stay.
    trips: i64,
    /// The trips of the innermost loop in which it computes, if others compute their part in others.
    share: Option<Share>,
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
            let state = pipe.running().map(|(rows, running)| rows.begun(b, running));
            let state = state.map(State::values).into_iter().flatten();
            let init = carried
                .into_iter()
                .chain(pipe.values())
                .chain(state)
                .collect();
            carried = counted(b, trips + pipe.lag, false, init, &mut |b, iv, carried| {
                let (dests, tiles) = carried.split_at(results);
                pipe.trip(b, OpFoldResult::Value(iv), dests, tiles.to_vec(), None)
            });
            if let (Some((rows, running)), Some(state)) = (
                pipe.running(),
                State::of(&carried[results + pipe.tiles.len()..]),
            ) {
                carried[0] = self.named(b, |b| rows.finished(b, running, carried[0], state));
            }
            carried.truncate(results);
        }
        carried
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
            share: None,
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

    /// What is done to parts of rows of the root's tile, if it is.
    fn running(&self) -> Option<(OfRows<'_>, &Running)> {
        let root = self.nodes.len() - 1;
        let mut tiles = self.tiles.iter().filter(|tile| tile.node == root);
        tiles.find_map(|tile| {
            let (rows, done) = OfRows::new(&self.nodes[root].emit, tile.made)?;
            let running = done.what.running.as_ref().filter(|_| done.running)?;
            Some((rows, running))
        })
    }

    /// Does to tiles what is done before they are read, a trip before: `values` are the root's own, so many, the
    /// tiles, and what is carried from one to the next.
    fn between(
        &self,
        b: &mut Builder<'_>,
        index: OpFoldResult,
        rooted: usize,
        mut values: Vec<Value>,
    ) -> Vec<Value> {
        let states = rooted + self.tiles.len();
        // What was added up before is corrected by what the trip before found.
        if let (Some((rows, _)), Some(state)) = (self.running(), State::of(&values[states..])) {
            let root = &self.nodes[self.nodes.len() - 1];
            let own = index.plus(b, -root.lag).value(b);
            let active = below(b, own, root.trips);
            let acc = when(b, active, vec![values[0]], &mut |b, acc| {
                root.emit
                    .named(b, |b| vec![rows.corrected(b, acc[0], state)])
            });
            values[0] = acc[0];
        }
        for (i, tile) in self.tiles.iter().enumerate() {
            let reader = &self.nodes[tile.node];
            let Some((rows, done)) = OfRows::new(&reader.emit, tile.made) else {
                continue;
            };
            let own = index.plus(b, 1 - reader.lag).value(b);
            let active = below(b, own, reader.trips);
            let turn = OpFoldResult::Value(own).plus(b, self.turns * self.lag);
            let turn = turn.modulo(b, self.turns);
            let ty = b.ty(values[rooted + i]);
            let slice = Slice::numbered(turn, ty.shape().map_or(&[][..], |shape| &shape[1..]));
            let running = done.what.running.as_ref().filter(|_| done.running);
            let mut carried = vec![values[rooted + i]];
            if running.is_some() {
                carried.extend(&values[states..]);
            }
            let some = when(b, active, carried, &mut |b, carried| {
                slice.update_at(b, 0, carried, &mut |b, mut carried| {
                    reader.emit.named(b, |b| {
                        match (running, State::of(&carried[1..])) {
                            (Some(running), Some(state)) => {
                                let (tile, state) = rows.part(b, running, carried[0], state);
                                carried.splice(.., [tile].into_iter().chain(state.values()));
                            }
                            _ => carried[0] = rows.whole(b, carried[0]),
                        }
                        carried
                    })
                })
            });
            values[rooted + i] = some[0];
            values.splice(states.., some[1..].iter().copied());
        }
        values
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
        // What computes in some trips counts these.
        let before = node.share.map_or(0, |share| share.first);
        match self.columns {
            Some(_) => {
                let (row, column) = self.place(b, own);
                at.tile[order[self.level - 1]] = row;
                at.tile[order[self.level]] = column.plus(b, -before);
            }
            None => {
                let root = node.writes.is_none();
                let first = if root { self.start } else { 0 };
                let mut index = own.plus(b, first - before);
                if first > 0 && node.lag > 0 {
                    // Before its first trip a stage would load again what is of the segment before: it stands outside
                    // of its tensors, as before the first segment.
                    let condition = own.compare(b, CmpIPredicate::Slt, 0);
                    let (true_value, false_value) = (own.value(b), index.value(b));
                    index = OpFoldResult::Value(b.add(Select {
                        condition,
                        true_value,
                        false_value,
                    }));
                }
                at.tile[order[self.level]] = index;
            }
        }
        let own = own.plus(b, self.turns * self.lag);
        at.turn = own.modulo(b, self.turns);
    }

    /// Whether a stage computes in a trip of its own.
    fn computes(&self, b: &mut Builder<'_>, node: &Node<'_>, own: Value) -> Value {
        let there = below(b, own, node.trips);
        let Some(share) = node.share else {
            return there;
        };
        let column = match self.columns {
            Some(_) => self.place(b, OpFoldResult::Value(own)).1,
            None => OpFoldResult::Value(own),
        };
        let column = column.plus(b, -share.first).value(b);
        let here = below(b, column, share.trips);
        b.add(AndI {
            lhs: there,
            rhs: here,
        })
    }

    /// Where the reader of a tile stands when it gets to what is computed in a trip of its maker: that is how the tile
    /// is counted; and its own trip.
    fn read_at(&self, b: &mut Builder<'_>, tile: &Handed<'_>, trip: OpFoldResult) -> (At, Value) {
        let reader = &self.nodes[tile.node];
        let mut at = reader.at.clone();
        let early = tile.made.ring.map_or(0, |ring| ring.early) * self.columns.unwrap_or(1);
        let own = trip.plus(b, -early);
        self.stand(b, reader, own, &mut at);
        (at, own.value(b))
    }

    /// A tile with boxes filled, where its reader stands.
    fn fill_boxes(
        &self,
        b: &mut Builder<'_>,
        tile: &Handed<'_>,
        (at, own): &(At, Value),
        fills: &[Fill],
        whole: Value,
    ) -> Value {
        let reader = &self.nodes[tile.node];
        if reader.share.is_none() || fills.is_empty() {
            return reader.emit.fill_all(b, tile.made, fills, at, whole);
        }
        // Its tile has no place for trips of others.
        let computes = self.computes(b, reader, *own);
        when(b, computes, vec![whole], &mut |b, whole| {
            vec![reader.emit.fill_all(b, tile.made, fills, at, whole[0])]
        })[0]
    }

    /// A trip: the root's tensors or accumulators, and the tiles that are handed on, to those of the next. Where
    /// the pipeline drains, from a trip on, those stages are through that have done all of theirs by then.
    fn trip(
        &self,
        b: &mut Builder<'_>,
        index: OpFoldResult,
        dests: &[Value],
        mut tiles: Vec<Value>,
        drains: Option<i64>,
    ) -> Vec<Value> {
        // What they load for a row is not there any more.
        let through = |node: &Node<'_>| drains.is_some_and(|from| from - node.lag >= node.trips);
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
            let reader = &self.nodes[tile.node];
            let whole = &reader.emit.plan.tiles[tile.made.operand];
            if let (Some(maker), Some(rows)) = (maker, tile.made.filled_rows(whole)) {
                let next = OpFoldResult::Value(here[maker].1).plus(b, 1);
                let at = self.read_at(b, tile, next);
                let fills = [rows];
                tiles[i] = self.fill_boxes(b, tile, &at, &fills, tiles[i]);
            } else if let (Some(maker), Some((engine, value))) = (maker, tile.made.filled()) {
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
        let init = self.between(b, index, rooted, init);
        let mut values = self.turns(b, &here, rooted, init, &through);
        for (i, tile) in self.tiles.iter().enumerate() {
            let maker = self.maker(i).filter(|n| !through(&self.nodes[*n]));
            let Some(maker) = maker else { continue };
            let at = self.read_at(b, tile, OpFoldResult::Value(here[maker].1));
            let fills = &tile.made.behind;
            values[rooted + i] = self.fill_boxes(b, tile, &at, fills, values[rooted + i]);
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
        let active = nodes
            .clone()
            .map(|(node, (_, own))| self.computes(b, node, *own));
        let active: Vec<Value> = active.collect();
        let mut values = init;
        for phase in self.phases() {
            let phase = phase.into_iter().zip(&self.nodes);
            let phase = phase.filter(|(_, node)| !through(node));
            let phase: Vec<(i64, i64)> = phase.map(|(blocks, _)| blocks).collect();
            let counts = phase.iter().map(|(first, end)| end - first);
            let counts = counts.filter(|count| *count > 0);
            let least = counts.clone().min().unwrap_or(0);
            let most = counts.max().unwrap_or(0);
            let steps = least.max(most.min(FEW));
            if steps == 0 {
                continue;
            }
            values = counted(b, steps, false, values, &mut |b, step, mut carried| {
                for (number, (node, (at, _))) in nodes.clone().enumerate() {
                    let (start, end) = phase[number];
                    let (count, each) = (end - start, (end - start + steps - 1) / steps);
                    if count == 0 {
                        continue;
                    }
                    let own = match node.writes {
                        Some(tile) => rooted + tile..rooted + tile + 1,
                        None => 0..rooted,
                    };
                    let mut at = at.clone();
                    for (operand, tile) in &node.reads {
                        at.loaded[*operand] = Some(carried[rooted + tile]);
                    }
                    let dests = carried[own.clone()].to_vec();
                    // Blocks are spread evenly over the steps: what others read in the next trip as early as they may be, what only
                    // reads as late. Units work in order, and what stands behind a block that waits for a reader's waits, too.
                    let step = OpFoldResult::Value(step);
                    let up = if node.writes.is_some() { steps - 1 } else { 0 };
                    let before = |b: &mut Builder<'_>, step: OpFoldResult| {
                        let blocks = step.times(b, count).plus(b, up);
                        blocks.floor_div(b, steps).plus(b, start)
                    };
                    let first = before(b, step);
                    let next = step.plus(b, 1);
                    let end = before(b, next).value(b);
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
            });
        }
        values
    }

    /// Parts of a trip one after the other: which blocks of each stage are computed in each, the first and where they
    /// end. There is one, or a second one for a stage that computes late; stages of other units go on beside both.
    fn phases(&self) -> Vec<Vec<(i64, i64)>> {
        let counts: Vec<i64> = self.nodes.iter().map(|node| node.emit.count()).collect();
        let held: Vec<_> = self
            .nodes
            .iter()
            .map(|node| node.emit.stage.held())
            .collect();
        let root = self.nodes.last().map(|node| node.emit.stage);
        let Some((last, others)) = root.and_then(|root| late(root, &held)) else {
            return vec![counts.iter().map(|count| (0, *count)).collect()];
        };
        let (own, unit) = (held[last].busy, held[last].unit);
        let cuts = counts.iter().zip(&held).enumerate();
        let cuts = cuts.map(
            |(number, (count, held))| match (number == last, held.unit == unit) {
                (true, _) => 0,
                (_, true) => *count,
                _ => count.saturating_mul(others) / others.saturating_add(own).max(1),
            },
        );
        let cuts: Vec<i64> = cuts.collect();
        let first = cuts.iter().map(|cut| (0, *cut)).collect();
        let second = cuts
            .iter()
            .zip(counts)
            .map(|(cut, count)| (*cut, count))
            .collect();
        vec![first, second]
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
    /// Those of a row in which it computes, if others compute their part in others.
    share: Option<Share>,
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
            lag: place.lag - made.lag() - early,
            trips: place.trips + early,
            ..place
        };
        for (part, at) in made.parts.iter().zip(&at.parts[number][i]) {
            // A share is one of the reader's own trips.
            let first = place.share.map_or(0, |share| share.first);
            let share = part.share.map(|share| Share {
                first: first + share.first,
                ..share
            });
            let before = Place {
                share: share.or(place.share),
                ..before
            };
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
        share: place.share,
        reads,
        writes,
    });
}
