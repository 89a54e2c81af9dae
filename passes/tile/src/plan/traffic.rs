//! What tiles take: bytes of near memory, and cycles of the engine that moves them.
//!
//! The model of a transfer is the machine's: latency, rows shorter than the engine's granule cost a whole
//! one, dimensions beyond the engine's are transfers of their own, and what lies outside of the source costs
//! nothing. All arithmetic saturates.

use tir::{LinearMap, MemRefType, Type};
use tir_accel::machine::EngineInfo;

use crate::group::{Diagonal, Operand};
use crate::layout::{Space, Tile, run, starts};

pub(super) fn bytes(value_elem: Type) -> i64 {
    value_elem.bytes().unwrap_or(1) as i64
}

pub(super) fn round_up(n: i64, to: i64) -> i64 {
    let to = to.max(1);
    (n.saturating_add(to - 1) / to).saturating_mul(to)
}

/// Bytes of a tile in near memory.
pub fn near_bytes(tile: &Tile, elem: Type, align: i64) -> i64 {
    round_up(tile.elements().saturating_mul(bytes(elem)), align)
}

/// What lies in near memory: a tile, in one slot or several.
#[derive(Clone, Copy, Default, Debug)]
pub struct Holder {
    /// Bytes with all slots.
    pub bytes: i64,
    /// Bytes with one.
    pub one: i64,
    /// Cycles that nothing hides where it has one slot.
    pub exposed: i64,
}

/// What a tile costs in near memory and on the engine.
pub(super) struct Traffic {
    pub(super) near: i64,
    /// Bytes where there is one slot.
    pub(super) one: i64,
    pub(super) cycles: i64,
    pub(super) first: i64,
    /// Of a tile that the innermost of its loops goes on to; of one that another loop does.
    pub(super) next: (i64, i64),
    /// Transfers that the thread starts.
    pub(super) starts: i64,
}

/// What a tile costs wherever its loop stands.
pub(super) struct Fixed {
    /// Bytes, aligned.
    pub(super) one: i64,
    /// Bytes that lie one behind the other in the tile and in the source.
    pub(super) run: i64,
    /// Bytes that lie inside of the source, and in how many runs: one of which a part lies inside costs a granule, too.
    inside: (i64, i64),
    /// Transfers.
    pub(super) starts: i64,
    /// Cycles of the engine.
    pub(super) cycles: i64,
}

impl Fixed {
    pub(super) fn new(
        tile: &Tile,
        elem: i64,
        shape: &[i64],
        engine: &EngineInfo,
        align: i64,
    ) -> Self {
        let mut fixed = Self {
            one: round_up(tile.elements().saturating_mul(elem), align),
            run: tile.run(shape, engine.square / elem.max(1)) * elem,
            starts: tile.starts(shape, elem, engine.dims),
            inside: (inside(tile, shape, elem, &[]), 0),
            cycles: 0,
        };
        // Of long runs parts are seldom short, and squares are no rows: there are as many as fill the bytes.
        fixed.inside.1 = match fixed.run > engine.granule || engine.square > elem {
            true => fixed.inside.0 / fixed.run.max(1),
            false => inside(tile, shape, 1, &tile.run_dims(shape)),
        };
        fixed.cycles = fixed.cost(engine, fixed.inside.0);
        fixed
    }

    /// Of a tile of an operand; those of constants lie as they are used, in one run, where an engine says so.
    pub(super) fn load(
        tile: &Tile,
        elem: i64,
        operand: &Operand,
        engine: &EngineInfo,
        align: i64,
    ) -> Self {
        let mut fixed = Self::new(tile, elem, &operand.shape, engine, align);
        if let Some(diagonal) = &operand.diagonal
            && let Some(spread) = diagonal.spread(tile)
        {
            // Zeros beside the blocks come from nowhere; where they are, no row goes on.
            let mut far = operand.shape.clone();
            far[diagonal.column] = diagonal.columns;
            let beside = &spread.access[diagonal.column];
            let outside: Vec<bool> = (0..spread.shape.len()).map(|t| beside.at(t) != 0).collect();
            let moved = fixed.inside.0 / diagonal.times.max(1);
            let (shape, access) = (spread.shape, spread.access);
            fixed.run = spread_run(
                &shape,
                &access,
                &operand.shape,
                diagonal,
                engine.square / elem.max(1),
            ) * elem;
            fixed.starts = starts(&far, shape, access, &outside, (elem, engine.dims));
            fixed.inside = (moved, moved / fixed.run.max(1));
            fixed.cycles = fixed.cost(engine, moved);
        }
        if operand.constant && engine.packs {
            fixed.run = i64::MAX;
            fixed.inside = (fixed.one, 1);
            fixed.starts = 1;
            fixed.cycles = fixed.cost(engine, fixed.one);
        }
        fixed
    }

    /// Cycles of what is loaded where a step of a ring goes on: `ring` is the dimension of the tile, and how far.
    pub(super) fn again(
        &self,
        tile: &Tile,
        (dim, step): (usize, i64),
        (shape, elem): (&[i64], i64),
        engine: &EngineInfo,
    ) -> i64 {
        let rows = inside(tile, shape, elem, &[dim]).saturating_mul(step);
        self.cost(engine, rows)
    }

    /// Cycles to load it so many times, where a loop of some trips loads it `again` but in its first one.
    pub(super) fn sliding(&self, count: i64, trips: i64, again: i64) -> i64 {
        let restarts = count / trips;
        let more = (count - restarts).saturating_mul(again);
        restarts.saturating_mul(self.cycles).saturating_add(more)
    }

    /// Cycles to move so many bytes of it.
    pub(super) fn cost(&self, engine: &EngineInfo, moved: i64) -> i64 {
        let (all, runs) = self.inside;
        let runs = i128::from(runs) * i128::from(moved) / i128::from(all.max(1));
        let runs = i64::try_from(runs).unwrap_or(i64::MAX);
        engine.cycles(moved, runs, self.starts)
    }
}

/// Cycles of an engine to load a tile of an operand once.
pub fn load_cycles(tile: &Tile, elem: Type, operand: &Operand, engine: &EngineInfo) -> i64 {
    Fixed::load(tile, bytes(elem), operand, engine, 1).cycles
}

/// Elements in a run of a tile that holds the blocks of a diagonal.
fn spread_run(
    shape: &[i64],
    access: &LinearMap,
    far: &[i64],
    diagonal: &Diagonal,
    square: i64,
) -> i64 {
    let mut far = far.to_vec();
    far[diagonal.column] = diagonal.columns;
    let (far, near) = (
        MemRefType::dense_strides(&far),
        MemRefType::dense_strides(shape),
    );
    let steps = (0..shape.len()).filter_map(|t| {
        let beside = access[diagonal.column].at(t);
        let size = match beside {
            0 => shape[t],
            // Of a row that is as wide as all blocks one block lies inside.
            1.. => shape[t].min(diagonal.columns),
            // One block beside the next one.
            _ => return None,
        };
        let step = access
            .iter()
            .zip(&far)
            .map(|(form, far)| form.at(t) * far)
            .sum();
        (size > 1).then_some([size, step, near[t]])
    });
    run(&steps.collect::<Vec<_>>(), square)
}

/// Whether rows of an operand may stay where a window slides over it: what is cut once more is read in parts that are no rows of a
/// ring, and what no unit computes is loaded anew.
pub(super) fn slides_in_rings(operand: &Operand, by_unit: bool) -> bool {
    operand.map.dims > 0 && by_unit
}

/// Bytes of a tile that lie inside the source, or of slices of it in some dimensions.
pub(super) fn inside(tile: &Tile, shape: &[i64], elem: i64, skip: &[usize]) -> i64 {
    // In each dimension of the source, how many elements are moved and how far apart the outer ones are.
    let mut extents = vec![(1i64, 1i64); shape.len()];
    for (i, dim) in tile.dims.iter().enumerate() {
        if !skip.contains(&i) && dim.size > 1 {
            let (moved, span) = &mut extents[dim.source.0];
            *moved = moved.saturating_mul(dim.size);
            *span = span.saturating_add((dim.size - 1).saturating_mul(dim.source.1));
        }
    }
    let sizes = extents.iter().zip(shape).map(|((moved, span), size)| {
        // What is there several times is moved as often, and of what is passed over in steps as much lies inside.
        let there = match moved < span {
            true => size.saturating_mul(*moved).saturating_add(span - 1) / span,
            false => size.saturating_mul((moved + span - 1) / span),
        };
        (*moved).min(there)
    });
    sizes.fold(elem, i64::saturating_mul)
}

/// Where a tile stands in the loops, and what moves it.
pub(super) struct Moved<'a> {
    pub(super) tile: &'a Tile,
    pub(super) fixed: &'a Fixed,
    pub(super) space: &'a Space,
    pub(super) order: &'a [usize],
    pub(super) level: usize,
    /// How often it is loaded in each trip of the loops.
    pub(super) times: i64,
    /// Bytes of an element.
    pub(super) elem: i64,
    /// Shape of the far tensor.
    pub(super) shape: &'a [i64],
    pub(super) engine: &'a EngineInfo,
    pub(super) align: i64,
    pub(super) depth: i64,
    /// Whether a window that slides may be a ring.
    pub(super) slides: bool,
}

impl Moved<'_> {
    /// Bytes of near memory.
    pub(super) fn near(&self) -> i64 {
        let slots = if self.level > 0 || self.times > 1 {
            self.depth
        } else {
            1
        };
        self.fixed.one.saturating_mul(slots)
    }
    /// How often the tile is another one.
    pub(super) fn count(&self) -> i64 {
        let around = &self.order[..self.level];
        let trips = around.iter().map(|d| self.space.trips(*d));
        trips.fold(self.times, i64::saturating_mul)
    }

    /// The part of all tiles that lies inside of the source: the last ones may stick out.
    pub(super) fn share(&self) -> f64 {
        let mut share = 1.0;
        for d in &self.order[..self.level] {
            let (trips, extent) = (self.space.trips(*d), self.space.extent(*d));
            if !self.space.is_ragged(*d) || trips <= 1 {
                continue;
            }
            // What lies beyond the range of the iterator lies beyond the source, or almost.
            let moves = |s: usize| {
                let step = self.tile.forms[s].at(*d).saturating_mul(extent);
                step != 0 && self.shape[s] <= step.saturating_mul(trips)
            };
            if (0..self.shape.len()).any(moves) {
                let range = self.space.domain[*d].min(trips * extent);
                share *= range as f64 / (trips * extent) as f64;
            }
        }
        share
    }

    pub(super) fn traffic(&self) -> Traffic {
        let Self {
            tile,
            fixed,
            space,
            order,
            level,
            elem,
            align,
            depth,
            ..
        } = *self;
        let size = tile.elements().saturating_mul(elem);
        let count = self.count();
        let whole = fixed.cycles;
        let (mut near, mut one) = (self.near(), fixed.one);
        let mut cycles = whole.saturating_mul(count);
        let mut slid = whole;
        if self.slides && level > 0 {
            let d = order[level - 1];
            if let Some((i, step)) = tile.ring(space, d) {
                let window = tile.dims[i].size;
                // Where the next sweep begins ahead there are two windows.
                let restarts = count / space.trips(d);
                let bytes = |depth: i64| {
                    let rows = match restarts > 1 && depth == 2 {
                        true => 2 * round_up(window, step),
                        false => {
                            round_up(window.saturating_add(step.saturating_mul(depth - 1)), step)
                        }
                    };
                    round_up((size / window).saturating_mul(rows), align)
                };
                (near, one) = (bytes(depth), bytes(1));
                slid = fixed.again(tile, (i, step), (self.shape, elem), self.engine);
                cycles = fixed.sliding(count, space.trips(d), slid);
            }
        }
        let share = self.share();
        let inside = |cycles: i64| (cycles as f64 * share) as i64;
        let cycles = inside(cycles);
        Traffic {
            next: (inside(slid), inside(whole)),
            near,
            one,
            cycles,
            first: whole,
            starts: fixed.starts.saturating_mul(count),
        }
    }
}
