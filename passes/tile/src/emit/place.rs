//! Where the unit's operand lies in a tile.
//!
//! The offset in each dimension of a tile is counted from its axis: from the number of the block where blocks have
//! a dimension of their own, in points where they lie behind one another, modulo its size where the tile is a
//! ring. Dimensions that are joined in what the unit takes are joined here as well.

use tir::Builder;
use tir_arith::{MinSI, OpFoldResult, constant_index};

use super::slice::Slice;
use super::{At, Emit};
use crate::layout::{Axis, Dim, Tile};
use crate::plan::held;

impl Emit<'_> {
    /// The unit's operand in a tile.
    pub(super) fn operand(&self, b: &mut Builder<'_>, tile: &Tile, at: &At) -> Slice {
        let (offsets, sizes) = self.place(b, tile, at);
        Slice::new(&offsets, sizes, self.unit_shape(tile))
    }

    /// Offsets and sizes of the unit's operand in a tile.
    fn place(&self, b: &mut Builder<'_>, tile: &Tile, at: &At) -> (Vec<OpFoldResult>, Vec<i64>) {
        let sum = |b: &mut Builder<'_>, terms: &[(usize, i64)]| {
            let mut sum = OpFoldResult::Number(0);
            for (d, c) in terms {
                let term = at.block[*d].times(b, *c);
                sum = sum.plus(b, term);
            }
            sum
        };
        let mut offsets = Vec::new();
        let mut sizes = Vec::new();
        // Blocks that have a dimension of their own do not lie behind one another, however large each is.
        let apart = |d: &usize| tile.dims.iter().any(|dim| dim.axis == Axis::Block(*d));
        for dim in &tile.dims {
            // What lies before the tile's first point.
            let before = tile.low.get(dim.source.0).map_or(0, |low| -low);
            let (offset, size) = match dim.axis.straight() {
                Axis::Block(d) => (at.block[*d], 1),
                Axis::Window(terms) => (sum(b, terms), 1),
                Axis::Phase(terms, stride) => {
                    let moved = sum(b, terms).plus(b, before / dim.source.1.max(1));
                    (moved.modulo(b, *stride), 1)
                }
                Axis::Unit(d, rest, stride, own)
                    if !(rest.is_empty() && own.is_empty())
                        || dim.size != self.unit_size(*d) && !apart(d) =>
                {
                    let moved = sum(b, rest).plus(b, before).floor_div(b, *stride);
                    let mut at_block = self.points_before(b, at, *d);
                    for (d, step) in own {
                        let block = at.block[*d].times(b, step * self.unit_size(*d));
                        at_block = block.plus(b, at_block);
                    }
                    (at_block.plus(b, moved), self.unit_extent(*d, own))
                }
                Axis::Unit(d, ..) => (OpFoldResult::Number(0), self.unit_size(*d)),
                Axis::Slot(d, first) => {
                    let tile = at.tile[*d].times(b, self.plan.space.extent(*d));
                    let block = self.points_before(b, at, *d);
                    let moved = block.plus(b, tile);
                    (moved.plus(b, *first), self.slot_size(*d))
                }
                Axis::Turn => (at.turn, 1),
                Axis::Trip(d, first) => (at.tile[*d].plus(b, *first), 1),
                Axis::One | Axis::Ring(..) => (OpFoldResult::Number(0), 1),
            };
            let offset = self.in_ring(b, dim, at, offset);
            offsets.push(offset);
            sizes.push(size);
        }
        let Some(groups) = tile.reassociation() else {
            return (offsets, sizes);
        };
        // Of dimensions that are one the later ones are taken whole.
        let joined = groups.iter().map(|group| {
            let rest: i64 = group[1..].iter().map(|d| tile.dims[*d].size).product();
            (offsets[group[0]].times(b, rest), sizes[group[0]] * rest)
        });
        joined.unzip()
    }

    /// The points of an iterator before the block of the unit: a last one that is moved back begins where it ends
    /// with the range.
    fn points_before(&self, b: &mut Builder<'_>, at: &At, d: usize) -> OpFoldResult {
        let size = self.unit_size(d);
        let points = at.block[d].times(b, size);
        if self.plan.space.shifted != Some(d) {
            return points;
        }
        let last = self.plan.space.domain[d] - size;
        match points {
            OpFoldResult::Number(n) => OpFoldResult::Number(n.min(last)),
            OpFoldResult::Value(lhs) => {
                let rhs = constant_index(b, last);
                OpFoldResult::Value(b.add(MinSI { lhs, rhs }))
            }
        }
    }

    /// Where a row of a window is that slides in a ring; the same place for other dimensions.
    pub(super) fn in_ring(
        &self,
        b: &mut Builder<'_>,
        dim: &Dim,
        at: &At,
        row: OpFoldResult,
    ) -> OpFoldResult {
        let Axis::Ring(_, slide) = &dim.axis else {
            return row;
        };
        let moved = at.tile[slide.iterator].times(b, slide.step);
        let moved = moved.plus(b, slide.first);
        row.plus(b, moved).modulo(b, dim.size)
    }

    /// The same place for an operand whose tile stays for all trips of some loops, or for all strips: blocks are
    /// counted over them.
    pub(super) fn held(&self, b: &mut Builder<'_>, operand: usize, at: &At) -> At {
        let mut at = at.clone();
        for d in held(self.plan, operand) {
            let before = at.tile[d].times(b, self.plan.space.tile[d]);
            at.block[d] = before.plus(b, at.block[d]);
        }
        let strips = self.plan.strips.as_ref();
        if let Some(strips) = strips.filter(|strips| !strips.operands[operand]) {
            let before = at.strip.times(b, strips.blocks);
            at.block[strips.iterator] = before.plus(b, at.block[strips.iterator]);
        }
        at
    }

    /// The shape of the unit's operand: the last dimensions of the tile.
    pub(super) fn unit_shape(&self, tile: &Tile) -> Vec<i64> {
        let mut units = tile
            .dims
            .iter()
            .filter_map(|dim| match dim.axis.straight() {
                Axis::Unit(d, _, _, own) => Some(self.unit_extent(*d, own)),
                Axis::Slot(d, _) if self.is_unit(*d) => Some(self.slot_size(*d)),
                Axis::One => Some(1),
                _ => None,
            });
        let joined = tile.joined.iter();
        joined
            .map(|count| units.by_ref().take(*count).product())
            .collect()
    }

    /// Extent of a unit's dimension.
    fn unit_size(&self, d: usize) -> i64 {
        self.plan.space.block[d]
    }

    fn is_unit(&self, d: usize) -> bool {
        self.plan.space.unit.contains(&d)
    }

    /// Extent of the unit's result in a dimension of a tile of another nest.
    fn slot_size(&self, d: usize) -> i64 {
        if self.is_unit(d) {
            self.unit_size(d)
        } else {
            1
        }
    }

    /// Extent of the dimension of a unit's operand that an iterator counts, with the unit's window.
    fn unit_extent(&self, d: usize, window: &[(usize, i64)]) -> i64 {
        let reach = window
            .iter()
            .map(|(d, step)| step * (self.unit_size(*d) - 1));
        self.unit_size(d) + reach.sum::<i64>()
    }
}
