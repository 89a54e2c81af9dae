//! How a tile of an operand lies in near memory, which element of the source each of its elements
//! is, and where a unit finds its operand in it.
//!
//! An iterator is cut into *blocks*, the points that one call of a unit takes (1 where no unit
//! does), a *tile* is so many blocks, and the *trips* are those of the loop around the tiles; the
//! last block and the last tile may stick out of the range. A tile of an operand has a dimension for
//! each of its [`Axis`]es: first what selects an operand of the unit, then the unit's own dimensions. Where
//! several iterators are one dimension of a unit, a tile has a dimension for each ([`Tile::joined`]); they are
//! one where the unit works on the tile, and apart where it is moved. What slides in a dimension of the source
//! together with a unit's iterator is shared by all windows where that dimension is the unit's first one, and
//! else lies in the tile as often as it is read.
//!
//! Invariants: a unit's operand is dense in its tile, so behind a dimension of which a call takes a
//! part only dimensions stand that it takes whole; each dimension of a tile moves in one dimension of
//! its source, by a fixed step, so that a transfer with a linear access fills it.

mod boxes;
mod moves;
mod space;
mod unit;

pub use moves::{run, starts};
pub use space::Space;

use std::sync::Arc;

use tir::{AffineMap, LinearMap};

/// What the position in a dimension of a near tile is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Axis {
    /// The block of an iterator that the unit works on: position is the block.
    Block(usize),
    /// A window over several iterators: `Σ c·d`, of points in the tile, or of blocks of the unit's
    /// iterators.
    Window(Vec<(usize, i64)>),
    /// Which of `stride` interleaved sequences, for a unit that takes every `stride`-th element:
    /// `Σ c·d` modulo the stride, of those that are reached.
    Phase(Vec<(usize, i64)>, i64),
    /// A dimension of a tile that another nest reads: points of an iterator, the first of them at a fixed
    /// place.
    Slot(usize, i64),
    /// Which of several tiles, where one stage reads a tile while another one computes the next.
    Turn,
    /// The trip of the loop around the tiles of an iterator, and how many there are before its first one: each has its
    /// own part of the tile.
    Trip(usize, i64),
    /// Rows of a window that slides and stays, a ring: where the axis is in the window, and how far that moved,
    /// modulo the size of the dimension.
    Ring(Box<Axis>, Slide),
    /// The only element of a dimension of the unit's operand.
    One,
    /// The iterator the unit works on; what else moves the window, divided by the stride; and the
    /// unit's own window: iterators of it that move in the same dimension, by so many steps each.
    Unit(usize, Vec<(usize, i64)>, i64, Vec<(usize, i64)>),
}

impl Axis {
    /// What the position is made of, but for where a ring begins.
    pub fn straight(&self) -> &Self {
        match self {
            Self::Ring(axis, _) => axis,
            axis => axis,
        }
    }
}

/// How a window slides in a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slide {
    /// The iterator whose loop moves it.
    pub iterator: usize,
    /// Rows in each trip.
    pub step: i64,
    /// Where it is in the first trip.
    pub first: i64,
}

/// One dimension of a near tile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dim {
    /// What its position is made of.
    pub axis: Axis,
    /// Its size.
    pub size: i64,
    /// The dimension of the source that it moves in, and by how much.
    pub source: (usize, i64),
}

/// A tile of an operand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tile {
    /// Its dimensions, outermost first; unit dimensions last, in the order of the intrinsic.
    pub dims: Vec<Dim>,
    /// Position in the source over the iterators.
    pub forms: Arc<LinearMap>,
    /// For each dimension of the source, how far from where the tile's first point is its first
    /// element lies: below 0 where iterators go backwards.
    pub low: Vec<i64>,
    /// For each dimension of the unit's operand, how many of the last dimensions it is together.
    pub joined: Vec<usize>,
}

impl Tile {
    /// Its shape.
    pub fn shape(&self) -> Vec<i64> {
        self.dims.iter().map(|d| d.size).collect()
    }
    /// Which of its dimensions are one where a unit works on it; `None` if each is alone.
    pub fn reassociation(&self) -> Option<Vec<Vec<usize>>> {
        if self.joined.iter().all(|count| *count == 1) {
            return None;
        }
        let outer = self.dims.len() - self.joined.iter().sum::<usize>();
        let counts = std::iter::repeat_n(1, outer).chain(self.joined.iter().copied());
        let mut next = 0;
        let group = |count: usize| {
            next += count;
            (next - count..next).collect()
        };
        Some(counts.map(group).collect())
    }
    /// Its shape where a unit works on it.
    pub fn unit_shape(&self) -> Vec<i64> {
        let shape = self.shape();
        match self.reassociation() {
            Some(groups) => {
                let size = |group: &Vec<usize>| group.iter().map(|d| shape[*d]).product();
                groups.iter().map(size).collect()
            }
            None => shape,
        }
    }
    /// Its number of elements.
    pub fn elements(&self) -> i64 {
        let sizes = self.dims.iter().map(|d| d.size);
        sizes.fold(1, i64::saturating_mul)
    }
}

/// The iterators of a map in the order in which it steps through a row-major tensor, those with
/// the largest steps first.
pub fn storage_order(map: &AffineMap, n: usize) -> Option<Vec<usize>> {
    let forms = map.linear()?;
    let mut order: Vec<usize> = (0..n).collect();
    let place = |d: &usize| {
        let s = forms.iter().position(|form| form.at(*d) != 0);
        s.map_or((0, 0), |s| (s, -forms[s].at(*d)))
    };
    order.sort_by_key(place);
    Some(order)
}
