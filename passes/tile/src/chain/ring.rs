//! Rings: rows of a window that stay from one trip of a loop to the next.
//!
//! Where a stage reads windows that overlap from one trip of a loop to the next, its producer need not compute
//! their common rows again: the tile keeps them. In each trip it computes the *new* rows, the last ones of the
//! window, in the place of the oldest; positions are modulo the rows of the ring. Before the reader's first trip
//! there are *early* ones, in which the rows of the first window come to be that are not new in it.
//!
//! The ring's loop is the innermost one of a pipeline, or, in a pipeline across two loops, the outer of these: then
//! the tile has a part for each trip of the inner one, and no more rows than a window, since the others of a part
//! are read before it is written again. In the innermost loop a reader is a trip behind and needs the rows of the
//! trip before; those of one trip more keep the new rows from waiting for the last reads of the oldest.
//!
//! The same idea as line buffers of image pipelines, and as storage folding in Halide.

use std::sync::Arc;

use super::cost::resize;
use super::stage::{Around, Context};
use super::{Fill, Stage};
use crate::group::Operand;
use crate::layout::{Axis, Dim, Slide, Tile};
use crate::plan::Plan;

/// What becomes of rows of windows that overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rows {
    /// They are computed in each trip.
    Anew,
    /// They stay where they can.
    Stay {
        /// Whether the last block of a unit in a row is moved back, so that it does not stick out: some elements are
        /// computed twice then, but no border is written again.
        again: bool,
    },
}

/// Rows of a tile that stay.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// Which of the reader's loops slides the window.
    pub level: usize,
    /// The dimension of the tile that is one of rows, as its producers know it.
    pub dim: usize,
    /// Rows of the window.
    pub window: i64,
    /// Rows that are new in each trip.
    pub step: i64,
    /// Trips before the reader's first one.
    pub early: i64,
}

impl Ring {
    /// The ring that the tile of an operand may be inside of these loops, if its window slides along one of the two
    /// innermost ones and is the same in those within.
    pub(super) fn of(plan: &Plan, operand: usize, far: &Operand, loops: &[Around]) -> Option<Self> {
        let tile = &plan.tiles[operand];
        if loops.len() != plan.order.len() {
            return None;
        }
        let step = |level: usize| tile.step(&plan.space, loops[level].iterator);
        let innermost = loops.len().checked_sub(1)?;
        let levels = [Some(innermost), innermost.checked_sub(1)];
        levels.into_iter().flatten().find_map(|level| {
            let steps = step(level);
            let mut moving = (0..steps.len()).filter(|s| steps[*s] != 0);
            let (Some(s), None) = (moving.next(), moving.next()) else {
                return None;
            };
            let still = (level + 1..loops.len()).all(|inner| step(inner)[s] == 0);
            let mut here = (0..tile.dims.len()).filter(|t| {
                let dim = &tile.dims[*t];
                dim.source.0 == s && dim.source.1 != 0
            });
            let (Some(dim), None) = (here.next(), here.next()) else {
                return None;
            };
            let rows = &tile.dims[dim];
            let slides = matches!(rows.axis, Axis::Window(_)) && rows.source.1 == 1;
            let (window, step) = (rows.size, steps[s]);
            let one = far.shape.len() == tile.forms.len();
            let ring = Self {
                level,
                dim,
                window,
                step,
                early: (window - 1) / step.max(1),
            };
            (one && still && slides && step > 0 && window > step && loops[level].trips > 1)
                .then_some(ring)
        })
    }

    /// How many rows the tile has where there are so many loops.
    fn rows(&self, loops: usize) -> i64 {
        match self.level + 1 == loops {
            true => self.window + 2 * self.step,
            false => self.window,
        }
    }
}

impl Stage {
    /// Whether blocks of a unit stick out of a tensor in a tile, so that a border is written again each time.
    pub(super) fn sticks(&self) -> bool {
        let behind = self.made().flat_map(|made| &made.behind);
        let here = behind.into_iter().any(|fill| fill.rows.is_none());
        let mut parts = self.made().flat_map(|made| &made.parts);
        here || parts.any(Stage::sticks)
    }
}

/// Makes the tiles of a stage rings that are to be, on both sides.
pub(super) fn turn(cx: &Context<'_>, stage: &mut Stage) {
    let Stage { plan, segments, .. } = stage;
    let loops = plan.order.len();
    let mut tiles = plan.tiles.to_vec();
    for made in segments.iter_mut().flat_map(|segment| &mut segment.made) {
        let Some(ring) = made.ring else { continue };
        let tile = Arc::make_mut(&mut tiles[made.operand]);
        // A part for each trip of the loop within.
        let inner = plan.order.get(ring.level + 1).copied();
        let trips = inner.map(|d| plan.space.trips(d));
        let slide = |iterator: usize, first: i64| Slide {
            iterator,
            step: ring.step,
            first,
        };
        let rows = ring.rows(loops);
        ring_in(
            tile,
            &ring,
            rows,
            slide(plan.order[ring.level], ring.early * ring.step),
        );
        let part = |tile: &mut Tile, d: Option<usize>, first: i64| {
            if let (Some(d), Some(trips)) = (d, trips) {
                tile.dims.insert(
                    0,
                    Dim {
                        axis: Axis::Trip(d, first),
                        size: trips,
                        source: (0, 0),
                    },
                );
            }
        };
        part(tile, inner, 0);
        let fill = |fill: &mut Fill, all: bool| {
            if all {
                (fill.start[ring.dim], fill.sizes[ring.dim]) = (0, rows);
            }
            if let Some(trips) = trips {
                fill.start.insert(0, 0);
                fill.sizes.insert(0, if all { trips } else { 1 });
            }
        };
        made.before.iter_mut().for_each(|f| fill(f, true));
        for f in &mut made.behind {
            fill(f, false);
            if trips.is_some() {
                f.rows = f.rows.map(|(t, s, size)| (t + 1, s, size));
            }
        }
        for producer in &mut made.parts {
            let mut out = (*producer.plan.out).clone();
            // A producer's loops are its first iterators, and count from the first of the early trips.
            ring_in(&mut out, &ring, rows, slide(ring.level, 0));
            let first = producer.share.map_or(0, |share| share.first);
            part(&mut out, inner.map(|_| ring.level + 1), first);
            producer.plan.out = Arc::new(out);
        }
    }
    plan.tiles = tiles.into();
    let rings = stage.made().filter(|made| made.ring.is_some());
    for operand in rings.map(|made| made.operand).collect::<Vec<_>>() {
        resize(cx.ir, cx.target, stage, operand);
        // It stays: there is one of it.
        let holder = &mut stage.plan.holders[operand];
        holder.bytes = holder.one;
    }
}

fn ring_in(tile: &mut Tile, ring: &Ring, rows: i64, slide: Slide) {
    let dim = &mut tile.dims[ring.dim];
    let axis = std::mem::replace(&mut dim.axis, Axis::One);
    dim.axis = Axis::Ring(Box::new(axis), slide);
    dim.size = rows;
}
