//! Squares of a tile, transposed in registers.

use tir::{Builder, Failure, Value};
use tir_accel::Direction;
use tir_arith::OpFoldResult;

use super::super::transpose::transposed;
use super::super::{nest, vector};
use super::Moved;

impl Moved<'_> {
    /// Squares along the last dimension of the tile and another one.
    pub(super) fn squares(
        &self,
        b: &mut Builder<'_>,
        at: &[Value],
        along: usize,
        side: i64,
    ) -> Result<(), Failure> {
        let (last, shape) = (self.last(), &self.pattern.tile_shape);
        let (inner, outer) = self.depending(&[along, last]);
        let all = |b: &mut Builder<'_>| {
            vector::begins(b, shape[last], side, &mut |b, row| {
                vector::begins(b, shape[along], side, &mut |b, column| {
                    let mut at = at.to_vec();
                    (at[last], at[along]) = (row, column);
                    self.as_a_whole(
                        b,
                        &at,
                        &inner,
                        |form| (form.at(along) + form.at(last)) * (side - 1),
                        &mut |b| self.square(b, &at, along, side, None),
                        &mut |b| match self.masks {
                            true => self.square(b, &at, along, side, Some(&inner)),
                            false => self.elements(b, &at, &[(last, side), (along, side)], &inner),
                        },
                    )
                })
            })
        };
        self.where_inside(b, at, &outer, all, &mut |b| {
            nest(b, &[shape[along]], &mut Vec::new(), &mut |b, counter| {
                let mut at = at.to_vec();
                at[along] = counter[0];
                self.padded_row(b, &at, side, 1)
            })
        })
    }

    /// A square, which begins at a position in the tile.
    fn square(
        &self,
        b: &mut Builder<'_>,
        at: &[Value],
        along: usize,
        side: i64,
        masks: Option<&[usize]>,
    ) -> Result<(), Failure> {
        let reads = self.t.direction == Direction::Read;
        let place = |b: &mut Builder<'_>, d: usize, k: i64| {
            let mut at = at.to_vec();
            at[d] = OpFoldResult::Value(at[d]).plus(b, k).value(b);
            at
        };
        let (from, to) = match reads {
            true => (self.last(), along),
            false => (along, self.last()),
        };
        let mut rows = Vec::new();
        for k in 0..side {
            let at = place(b, from, k);
            rows.push(match reads {
                true => self.loaded(b, &at, [side; 2], 1, masks)?,
                false => vector::load(b, self.t.tile, &at, side),
            });
        }
        for (k, column) in (0..).zip(transposed(b, rows)) {
            let at = place(b, to, k);
            match reads {
                true => vector::store(b, column, self.t.tile, &at),
                false => self.stored(b, column, &at, side, masks)?,
            }
        }
        Ok(())
    }
}
