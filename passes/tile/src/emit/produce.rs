//! What is computed inside the loops of a stage for it, by stages whose results never leave near memory.

use tir::{Builder, Value};
use tir_arith::{CmpI, CmpIPredicate, OpFoldResult, constant_index};

use super::between::OfRows;
use super::flow::{counted, when};
use super::nest::{fill, fill_by};
use super::slice::Slice;
use super::{At, Emit, TripBody, hint};
use crate::chain::{Fill, Made};
use crate::layout::{Axis, Dim, Tile};

impl Emit<'_> {
    /// Enters a trip of a loop: its index is `first + iv`; producers count from 0.
    fn enter(&self, at: &mut At, level: usize, first: Option<Value>, iv: Value) {
        let d = self.plan.order[level];
        at.tile[d] = OpFoldResult::Value(first.unwrap_or(iv));
        for (segment, parts) in self.stage.segments.iter().zip(&mut at.parts) {
            for (made, parts) in segment.made.iter().zip(parts) {
                for (part, at) in made.parts.iter().zip(parts) {
                    if level < made.level {
                        self.part(part).enter(at, level, None, iv);
                    }
                }
            }
        }
    }

    /// The loop at a level, in its segments.
    pub(super) fn trips(
        &self,
        b: &mut Builder<'_>,
        level: usize,
        at: &At,
        parallel: bool,
        mut carried: Vec<Value>,
        body: TripBody<'_>,
    ) -> Vec<Value> {
        let all = self.plan.space.trips(self.plan.order[level]);
        if self.stage.across.is_some() && level + 2 == self.plan.order.len() {
            return self.pipeline_across(b, level, at, carried);
        }
        if self.stage.turns > 1 && level + 1 == self.plan.order.len() {
            return self.pipeline(b, level, at, carried);
        }
        if self.stage.cut != Some(level) {
            return counted(b, all, parallel, carried, &mut |b, iv, carried| {
                let mut at = at.clone();
                self.enter(&mut at, level, None, iv);
                body(b, at, carried)
            });
        }
        for (number, segment) in self.stage.segments.iter().enumerate() {
            carried = counted(
                b,
                segment.trips,
                parallel,
                carried,
                &mut |b, iv, carried| {
                    let mut at = at.clone();
                    at.segment = Some(number);
                    let index = OpFoldResult::Value(iv).plus(b, segment.start);
                    let first = index.value(b);
                    self.enter(&mut at, level, Some(first), iv);
                    body(b, at, carried)
                },
            );
        }
        carried
    }

    /// At a level of the loops: what producers load there that compute further inside.
    pub(super) fn ahead(&self, b: &mut Builder<'_>, level: usize, at: &mut At) {
        for (number, segment) in self.stage.segments.iter().enumerate() {
            if at.segment.is_some_and(|inside| inside != number) {
                continue;
            }
            for (i, made) in segment.made.iter().enumerate() {
                if level < made.level {
                    for (part, at) in made.parts.iter().zip(&mut at.parts[number][i]) {
                        self.part(part).loads(b, level, at);
                    }
                }
            }
        }
    }

    /// At a level of the loops: what producers compute there.
    pub(super) fn produce(&self, b: &mut Builder<'_>, level: usize, at: &mut At) {
        for (number, segment) in self.stage.segments.iter().enumerate() {
            if at.segment.is_some_and(|inside| inside != number) {
                continue;
            }
            for (i, made) in segment.made.iter().enumerate() {
                if level == made.level {
                    let parts = at.parts[number][i].clone();
                    let tile = self.make(b, made, at, parts);
                    at.loaded[made.operand] = Some(tile);
                }
            }
        }
    }

    /// The tile of an operand, computed.
    fn make(&self, b: &mut Builder<'_>, made: &Made, at: &At, parts: Vec<At>) -> Value {
        let mut whole = self.made_tile(b, made, at);
        for (part, at) in made.parts.iter().zip(parts) {
            let done = self.part(part).around(b, made.level, at, vec![whole]);
            whole = done[0];
        }
        let whole = self.fill_all(b, made, &made.behind, at, whole);
        match OfRows::new(self, made) {
            Some((rows, _)) => self.named(b, |b| rows.whole(b, whole)),
            None => whole,
        }
    }

    /// A tile that producers fill, with the border that they leave as it is.
    pub(super) fn made_tile(&self, b: &mut Builder<'_>, made: &Made, at: &At) -> Value {
        let operand = &self.group.operands[made.operand];
        let elem = b.ty(operand.source).elem();
        let shape = self.plan.tiles[made.operand].shape();
        let whole = self.empty_in(b, self.plan.spaces[made.operand], shape, elem);
        // Tiles that take turns are several already.
        let turns = self.plan.tiles[made.operand]
            .dims
            .iter()
            .any(|dim| dim.axis == Axis::Turn);
        self.slots(b, whole, self.plan.single[made.operand] || turns);
        let name = b.ir.hint(operand.source);
        let text = name.map_or("tile".to_string(), |n| format!("{n}_tile"));
        hint(b, whole, &text);
        match made.filled() {
            Some((engine, value)) => fill_by(b, engine, whole, value),
            None => self.fill_all(b, made, &made.before, at, whole),
        }
    }

    /// Fills boxes of a tile.
    pub(super) fn fill_all(
        &self,
        b: &mut Builder<'_>,
        made: &Made,
        fills: &[Fill],
        at: &At,
        mut whole: Value,
    ) -> Value {
        let tile = &self.plan.tiles[made.operand];
        for fill in fills {
            let blocks = match fill.by {
                Some(_) => {
                    let dims = fill.sizes.iter().zip(&tile.dims);
                    // Rows of a ring lie apart.
                    let one = |(size, dim): (&i64, &Dim)| match dim.axis {
                        Axis::Ring(..) => 1,
                        _ => *size,
                    };
                    dims.map(one).collect()
                }
                None => Self::blocks_of(made, tile, fill),
            };
            whole = self.border(b, tile, fill, &blocks, at, whole);
        }
        whole
    }

    /// The box of a tile that a unit fills at once.
    fn blocks_of(made: &Made, tile: &Tile, fill: &Fill) -> Vec<i64> {
        let mut sizes = vec![1; tile.dims.len()];
        if made.boxes.is_some() {
            sizes.clone_from(&fill.sizes);
            if let Some((rows, ..)) = fill.rows {
                sizes[rows] = 1;
            }
            // Rows of a ring may lie apart.
            for (size, dim) in sizes.iter_mut().zip(&tile.dims) {
                if matches!(dim.axis, Axis::Ring(..)) {
                    *size = 1;
                }
            }
        } else if let Some(part) = made.parts.first() {
            let units = &part.plan.unit_out;
            let outer = sizes.len() - units.len();
            for (size, dims) in sizes[outer..].iter_mut().zip(units.iter()) {
                *size = dims.iter().map(|d| part.plan.space.block[*d]).product();
            }
        }
        sizes
    }

    /// Fills a box of a tile, block by block.
    fn border(
        &self,
        b: &mut Builder<'_>,
        tile: &Tile,
        border: &Fill,
        blocks: &[i64],
        at: &At,
        whole: Value,
    ) -> Value {
        let rank = tile.dims.len();
        let mut places = vec![OpFoldResult::Number(0); rank];
        // Of several tiles all are filled before, and each behind.
        let part = match tile.dims[0].axis {
            Axis::Turn => Some(at.turn),
            Axis::Trip(d, _) => Some(at.tile[d]),
            _ => None,
        };
        let part = part.filter(|_| border.sizes[0] == 1);
        let first = usize::from(part.is_some());
        places[..first].fill(part.unwrap_or(OpFoldResult::Number(0)));
        let at_ring = |b: &mut Builder<'_>, t: usize, row: OpFoldResult| {
            self.in_ring(b, &tile.dims[t], at, row)
        };
        let Some((t, s, size)) = border.rows else {
            return fill_box(b, first, border, blocks, &at_ring, places, whole);
        };
        let origin = self.offsets(b, tile, at)[s];
        let rows = counted(
            b,
            border.sizes[t],
            false,
            vec![whole],
            &mut |b, iv, carried| {
                let row = OpFoldResult::Value(iv).plus(b, border.start[t]);
                let position = row.plus(b, origin).value(b);
                let size = constant_index(b, size);
                // Below zero is far above, unsigned.
                let outside = b.add(CmpI {
                    predicate: CmpIPredicate::Uge,
                    lhs: position,
                    rhs: size,
                });
                let mut places = places.clone();
                places[t] = at_ring(b, t, row);
                when(b, outside, carried, &mut |b, whole| {
                    let places = places.clone();
                    vec![fill_box(
                        b, first, border, blocks, &at_ring, places, whole[0],
                    )]
                })
            },
        );
        rows[0]
    }
}

/// Where an index of a dimension of a tile lies in it.
type Place<'f> = &'f dyn Fn(&mut Builder<'_>, usize, OpFoldResult) -> OpFoldResult;

/// Loops over the blocks of a box from dimension `t` on; the places of those before are known.
fn fill_box(
    b: &mut Builder<'_>,
    t: usize,
    border: &Fill,
    blocks: &[i64],
    at_ring: Place<'_>,
    mut places: Vec<OpFoldResult>,
    whole: Value,
) -> Value {
    if t == blocks.len() {
        let kept = blocks.iter().copied().skip_while(|size| *size == 1);
        let part = Slice::new(&places, blocks.to_vec(), kept.collect());
        return part.update(b, whole, &mut |b, part| match border.by {
            Some(engine) => fill_by(b, engine, part, border.value),
            None => fill(b, part, border.value),
        });
    }
    if border.rows.is_some_and(|(rows, ..)| rows == t) {
        return fill_box(b, t + 1, border, blocks, at_ring, places, whole);
    }
    let (start, size, block) = (border.start[t], border.sizes[t], blocks[t]);
    let count = (size + block - 1) / block;
    if block == 1 && count > 1 {
        let filled = counted(b, count, false, vec![whole], &mut |b, iv, carried| {
            let mut places = places.clone();
            let row = OpFoldResult::Value(iv).plus(b, start);
            places[t] = at_ring(b, t, row);
            vec![fill_box(
                b,
                t + 1,
                border,
                blocks,
                at_ring,
                places,
                carried[0],
            )]
        });
        return filled[0];
    }
    // The last block is shifted: it does not stick out.
    let all = b.ty(whole).shape().map_or(block, |shape| shape[t]);
    let mut whole = whole;
    for i in 0..count {
        let place = OpFoldResult::Number((start + i * block).min(all - block));
        places[t] = at_ring(b, t, place);
        whole = fill_box(b, t + 1, border, blocks, at_ring, places.clone(), whole);
    }
    whole
}
