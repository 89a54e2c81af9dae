//! Strips: a parallel iterator that is gone through inside of the loops of a reduction.
//!
//! Where a reduction is divided, a tile of sums lives through its loops, and operands are loaded in them. With
//! a tile of sums that is large, so that little is loaded again, the tiles of operands are large as well, and
//! two slots of each take more than the sums. A strip is a part of the tile of one iterator: for each tile of
//! the reduction the strips are computed one after the other, and operands that move with the iterator are
//! loaded for one strip at a time. All others stay for all strips. A strip of sums is filled when the first
//! tile of the reduction comes to it, and leaves when the last one does: units and engines work on other strips
//! meanwhile. Equal units and cores divide the blocks of whole tiles, and so does the next level of memory: there
//! are no strips then.

use std::sync::Arc;

use super::Target;
use super::sizes::{divisors, slides};
use super::unit::Way;
use crate::group::{Group, Input};
use crate::layout::{Space, Tile};

/// Blocks of a strip at most: longer ones hide the start of a transfer no better.
const LONGEST: i64 = 4;

/// What a tile is divided into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Strip {
    /// The iterator whose blocks are divided.
    iterator: usize,
    /// Blocks of it in each strip; they divide those of a tile.
    blocks: i64,
}

impl Strip {
    /// The iteration space cut up for what is computed strip by strip.
    pub(super) fn space(self, space: &Space) -> Space {
        let mut space = space.clone();
        space.tile[self.iterator] = self.blocks;
        space
    }

    /// Whether an operand is loaded strip by strip.
    pub(super) fn divides(self, group: &Group, operand: usize) -> bool {
        let map = &group.operands[operand].map;
        let read = group.reduce.iter().flat_map(|(step, ..)| &step.inputs);
        let mut read = read.filter(|input| **input == Input::Operand(operand));
        read.next().is_some() && map.exprs.iter().any(|at| at.uses(self.iterator))
    }
}

/// The strips of a tile.
#[derive(Clone, Debug)]
pub struct Strips {
    /// The iterator whose blocks are divided.
    pub iterator: usize,
    /// Blocks of it in each strip.
    pub blocks: i64,
    /// Strips of a tile.
    pub count: i64,
    /// Operands that are loaded for each strip.
    pub operands: Vec<bool>,
    /// The iteration space with strips for tiles.
    pub space: Arc<Space>,
    /// The part of what is computed that is a strip.
    pub out: Arc<Tile>,
    /// The same as part of each result.
    pub results: Arc<[Tile]>,
}

impl Strips {
    pub(super) fn new(
        group: &Group,
        space: &Space,
        strip: Strip,
        out: Arc<Tile>,
        results: Arc<[Tile]>,
    ) -> Self {
        let operands = 0..group.operands.len();
        Self {
            iterator: strip.iterator,
            blocks: strip.blocks,
            count: space.tile[strip.iterator] / strip.blocks,
            operands: operands
                .map(|operand| strip.divides(group, operand))
                .collect(),
            space: Arc::new(strip.space(space)),
            out,
            results,
        }
    }
}

/// How the tiles of a division may be divided into strips.
pub(super) fn strips(group: &Group, target: &Target<'_>, way: &Way, space: &Space) -> Vec<Strip> {
    let split = |d: usize| group.reductions[d] && space.trips(d) > 1;
    let here = way.unit().is_some()
        && group.into.is_none()
        && !group.operands.iter().any(|o| o.made || o.inner.is_some())
        && target.stage().is_none()
        && !target.info.has_equal_units()
        && (0..group.core).any(split);
    if !here {
        return Vec::new();
    }
    // What the steps behind read is a tile of the results.
    let behind = |operand: usize| {
        let mut inputs = group.maps.iter().flat_map(|step| &step.inputs);
        inputs.any(|input| *input == Input::Operand(operand))
    };
    let mut found = Vec::new();
    for iterator in group.iterators(false) {
        if space.tile[iterator] < 2 || slides(group, iterator) {
            continue;
        }
        for blocks in divisors(space.tile[iterator]) {
            let strip = Strip { iterator, blocks };
            let divided = |operand: &usize| strip.divides(group, *operand);
            let divided: Vec<usize> = (0..group.operands.len()).filter(divided).collect();
            let fits = !divided.is_empty() && !divided.iter().any(|operand| behind(*operand));
            if fits && blocks <= LONGEST && blocks < space.tile[iterator] {
                found.push(strip);
            }
        }
    }
    found
}
