//! Iteration spaces in blocks and tiles.

use tir::LinearMap;

/// The iteration space of a generic, cut up for tiles.
#[derive(Clone, Debug)]
pub struct Space {
    /// Range of each iterator.
    pub domain: Vec<i64>,
    /// Points of each iterator in one block: the unit's size, or 1.
    pub block: Vec<i64>,
    /// Blocks of each iterator in one tile.
    pub tile: Vec<i64>,
    /// Iterators that are dimensions of the unit.
    pub unit: Vec<usize>,
    /// The iterator whose last block is moved back so that it does not stick out, if there is one: some of its
    /// points are computed twice.
    pub shifted: Option<usize>,
}

impl Space {
    /// Blocks of an iterator in all.
    pub fn blocks(&self, d: usize) -> i64 {
        // Most blocks are points and most tiles are all: to divide takes longest of what estimates do.
        if self.block[d] == 1 {
            return self.domain[d];
        }
        (self.domain[d].saturating_add(self.block[d] - 1)) / self.block[d]
    }
    /// Tiles of an iterator: trips of the loop around the tiles.
    pub fn trips(&self, d: usize) -> i64 {
        let (blocks, tile) = (self.blocks(d), self.tile[d]);
        match tile {
            1 => blocks,
            tile if tile >= blocks => i64::from(blocks > 0),
            tile => (blocks + tile - 1) / tile,
        }
    }
    /// Points of an iterator in a tile.
    pub fn extent(&self, d: usize) -> i64 {
        let points = self.block[d].saturating_mul(self.tile[d]);
        match self.shifted == Some(d) {
            true => points.min(self.domain[d]),
            false => points,
        }
    }
    /// Blocks of an iterator in all tiles.
    pub fn covered(&self, d: usize) -> i64 {
        self.trips(d).saturating_mul(self.tile[d])
    }
    /// Whether the last tile has blocks that lie beyond the range.
    pub fn is_ragged(&self, d: usize) -> bool {
        self.covered(d) != self.blocks(d)
    }
    /// Whether the points of all tiles, those beyond the range of an iterator among them, are at places of their own
    /// in each dimension of a result that several iterators count.
    pub fn is_distinct(&self, forms: &LinearMap) -> bool {
        forms.iter().all(|form| {
            let mut terms: Vec<(usize, i64)> = form.terms().collect();
            terms.sort_by_key(|(_, step)| step.abs());
            let mut reach = 0_i64;
            terms.iter().all(|(d, step)| {
                let apart = step.abs() > reach;
                let points = match self.shifted == Some(*d) {
                    true => self.domain[*d],
                    false => self.covered(*d).saturating_mul(self.block[*d]),
                };
                reach = reach.saturating_add(step.abs().saturating_mul(points - 1));
                apart
            })
        })
    }
    /// Whether an iterator is a dimension of the unit.
    pub(super) fn is_unit(&self, d: usize) -> bool {
        self.unit.contains(&d)
    }
}
