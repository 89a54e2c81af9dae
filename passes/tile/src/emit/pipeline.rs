//! The stages of a chain beside each other: while one computes with a tile, its producer computes the next.
//!
//! In trip `i` of the loop a stage is at its trip `i - lag`, a producer one trip before its reader; a tile that is
//! handed on has two places, which take turns. The blocks of the stages are issued in turn, so that each
//! unit's queue has work of its own stage while another unit is behind. Where a stage is before its first trip
//! or behind its last one, it computes nothing; what it loads there lies outside of its tensors.

use tir::{Builder, Rets, Value};
use tir_arith::{CmpI, CmpIPredicate, OpFoldResult, constant_index};
use tir_loop::{If, Yield as LoopYield};

use super::{At, Emit, counted};
use crate::chain::Made;

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
            carried = self.segment(b, level, at, (start, trips), carried);
        }
        carried
    }

    fn segment(
        &self,
        b: &mut Builder<'_>,
        level: usize,
        at: At,
        (start, trips): (i64, i64),
        carried: Vec<Value>,
    ) -> Vec<Value> {
        let (mut nodes, mut tiles) = (Vec::new(), Vec::new());
        let lag = i64::try_from(self.stage.depth()).unwrap_or(0);
        let root = Emit::new(self.stage);
        gather(root, b, at, lag, None, &mut nodes, &mut tiles);
        let results = carried.len();
        let init = carried
            .into_iter()
            .chain(tiles.iter().map(|tile| tile.value));
        let init: Vec<Value> = init.collect();
        let last = nodes.len() - 1;
        let mut done = counted(b, trips + lag, false, init, &mut |b, iv, carried| {
            let (dests, tiles_in) = carried.split_at(results);
            // Each stage's own trip, and what it loads there.
            let mut here: Vec<(At, Value)> = Vec::new();
            for node in &nodes {
                let own = OpFoldResult::Value(iv).plus(b, -node.lag);
                let own = own.value(b);
                let mut at = node.at.clone();
                let first = if node.writes.is_none() { start } else { 0 };
                let index = OpFoldResult::Value(own).plus(b, first);
                at.tile[node.emit.plan.order[level]] = index;
                at.turn = OpFoldResult::Value(own).modulo(b, 2);
                node.emit.far_loads(b, level + 1, &mut at);
                here.push((at, own));
            }
            // The root's tile, if it is not accumulated: it is written when the stages are through.
            let root = &nodes[last];
            let split = root.emit.plan.splits_reduction(root.emit.group);
            let outs = root.emit.group.outs.iter();
            let elems: Vec<_> = outs.map(|out| root.emit.elem(out.step)).collect();
            let own = match split {
                true => dests.to_vec(),
                false => root.emit.wholes(b, &elems),
            };
            let rooted = own.len();
            let init: Vec<Value> = own.into_iter().chain(tiles_in.iter().copied()).collect();
            let mut values = Self::turns(b, &nodes, &here, trips, rooted, init);
            for (i, tile) in tiles.iter().enumerate() {
                let maker = nodes.iter().position(|node| node.writes == Some(i));
                let Some(maker) = maker else { continue };
                // Where the tile lies is counted by its reader, when it gets there.
                let reader = &nodes[tile.node];
                let mut at = here[tile.node].0.clone();
                let first = if reader.writes.is_none() { start } else { 0 };
                let index = OpFoldResult::Value(here[maker].1).plus(b, first);
                at.tile[reader.emit.plan.order[level]] = index;
                at.turn = here[maker].0.turn;
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
                    let active = below(b, *own, trips);
                    when(b, active, dests.to_vec(), &mut |b, dests| {
                        root.emit.write(b, at, values.clone(), dests)
                    })
                }
            };
            results.extend(tiles_out);
            results
        });
        done.truncate(results);
        done
    }

    /// The blocks of all stages in turn: into the root's tensors, then the tiles that are handed on.
    fn turns(
        b: &mut Builder<'_>,
        nodes: &[Node<'_>],
        here: &[(At, Value)],
        trips: i64,
        rooted: usize,
        init: Vec<Value>,
    ) -> Vec<Value> {
        let counts: Vec<i64> = nodes.iter().map(|node| node.emit.count()).collect();
        let least = counts.iter().copied().min().unwrap_or(1);
        let most = counts.iter().copied().max().unwrap_or(1);
        let steps = least.max(most.min(FEW));
        let active: Vec<Value> = here.iter().map(|(_, own)| below(b, *own, trips)).collect();
        counted(b, steps, false, init, &mut |b, step, mut carried| {
            for (node, (at, _)) in nodes.iter().zip(here) {
                let index = nodes.iter().position(|other| std::ptr::eq(other, node));
                let number = index.unwrap_or(0);
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
                let first = OpFoldResult::Value(step).times(b, each);
                let some = when(b, active[number], dests, &mut |b, dests| {
                    several(b, each, dests, &mut |b, block, dests| {
                        let block = first.plus(b, block);
                        if each * steps == count {
                            return node.emit.block(b, &at, block, dests);
                        }
                        let block = block.value(b);
                        let inside = below(b, block, count);
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
const FEW: i64 = 8;

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
fn when(
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
