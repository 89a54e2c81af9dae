//! What lies outside of a tensor in a tile of it that is computed: which boxes are filled, and when.
//!
//! Blocks of a unit that stick out of the tensor write what is no element of it. So the border that they
//! may write is filled behind, and all else before; where a tile moves, rows are looked at one by one.

use tir::{Attr, Name};

use super::Ring;
use crate::layout::{Axis, Tile};

/// A box of a tile that is filled with a constant.
#[derive(Clone, Debug)]
pub struct Fill {
    /// The constant.
    pub value: Attr,
    /// Where the box begins in each dimension of the tile.
    pub start: Vec<i64>,
    /// Its extents.
    pub sizes: Vec<i64>,
    /// Where whether an index is outside depends on the loops: the dimension of the tile, the one of the tensor,
    /// and its extent.
    pub rows: Option<(usize, usize, i64)>,
    /// The engine that fills all of the box at once, if one does: else units do.
    pub by: Option<Name>,
}

/// Transfers of which a fill is made by an engine that takes a dimension less than it has.
const PIECES: i64 = 8;

impl Fill {
    /// How many dimensions a box has that is filled, and along which one it may be filled in pieces.
    pub(super) fn pieces(sizes: &[i64]) -> (usize, Option<usize>) {
        let several = || (0..sizes.len()).filter(|t| sizes[*t] > 1);
        let shortest = several().min_by_key(|t| sizes[*t]);
        (several().count(), shortest.filter(|t| sizes[*t] <= PIECES))
    }

    /// Where what fills the box ends in a dimension, in blocks of so many.
    pub(super) fn end(&self, t: usize, block: i64) -> i64 {
        let size = match self.by {
            Some(_) => self.sizes[t],
            None => self.sizes[t].max(block),
        };
        self.start[t].saturating_add(size)
    }
}

/// The border of a tile.
#[derive(Clone, Debug, Default)]
pub(super) struct Border {
    /// What is filled before the tile is computed.
    pub(super) before: Vec<Fill>,
    /// What is filled behind.
    pub(super) behind: Vec<Fill>,
    /// Which indices of each dimension a producer computes: the first one, and how many.
    pub(super) inside: Vec<(i64, i64)>,
    /// Sizes of the tile that fills behind need.
    pub(super) sizes: Vec<i64>,
}

/// Where a tile of an operand lies in its source: positions of its first element, lowest and highest of all
/// steps, for each dimension of the source.
pub(super) type Origins = Vec<(i64, i64)>;

/// How a tile is filled that a producer computes.
pub(super) struct Filling<'a> {
    /// For each dimension of the tensor whether what is read outside of it matters.
    pub(super) padded: &'a [bool],
    /// What that is.
    pub(super) value: Attr,
    /// The dimension of the tile along which a unit writes blocks, and their size.
    pub(super) unit: Option<(usize, i64)>,
    /// For each dimension of the tensor whether parts lie one behind another along it: the blocks of each begin where it begins.
    pub(super) parts: &'a [bool],
    /// Whether of some parts nothing is written beyond their ends, as of those that are loaded.
    pub(super) exact: bool,
    /// The dimension whose rows stay for later trips, and how the last ones are computed in each.
    pub(super) ring: Option<&'a Ring>,
    /// Whether the last block of a unit is moved back where it would stick out.
    pub(super) again: bool,
    /// Whether a vector unit fills any box as it is.
    pub(super) boxes: bool,
    /// The engine that fills a box of these sizes behind the units, if one does.
    pub(super) engine: &'a dyn Fn(&[i64]) -> Option<Name>,
}

/// The border of a tile, or what cannot be filled. `shape` is that of the source, `fixed` an index for dimensions
/// of the tile that stands still.
pub(super) fn border(
    tile: &Tile,
    shape: &[i64],
    origins: &Origins,
    filling: &Filling<'_>,
    fixed: &[Option<i64>],
) -> Result<Border, &'static str> {
    let Filling {
        padded,
        value,
        unit,
        parts,
        exact,
        ring,
        again,
        boxes,
        engine,
    } = *filling;
    let sizes: Vec<i64> = tile.dims.iter().map(|dim| dim.size).collect();
    let mut border = Border {
        inside: sizes.iter().map(|size| (0, *size)).collect(),
        sizes: sizes.clone(),
        ..Border::default()
    };
    for (t, index) in fixed.iter().enumerate() {
        if let Some(index) = index {
            border.inside[t] = (*index, 1);
        }
    }
    // The box of some indices of a dimension of the tile, as large as it is by then.
    let boxed = |border: &Border, t: usize, start: i64, end: i64, rows| {
        let mut fill = Fill {
            value,
            start: vec![0; border.sizes.len()],
            sizes: border.sizes.clone(),
            rows,
            by: None,
        };
        for (other, index) in fixed.iter().enumerate() {
            if let Some(index) = index {
                (fill.start[other], fill.sizes[other]) = (*index, 1);
            }
        }
        (fill.start[t], fill.sizes[t]) = (start, end - start);
        fill
    };
    // Along the unit's blocks first: what is filled behind makes the tile larger.
    let mut order: Vec<usize> = (0..shape.len()).collect();
    let along = |s: &usize| unit.is_some_and(|(t, _)| tile.dims[t].source.0 == *s);
    order.sort_by_key(|s| !along(s));
    for s in order {
        let ((low, high), padded) = (origins[s], padded[s]);
        let here: Vec<usize> = (0..sizes.len())
            .filter(|t| tile.dims[*t].source.0 == s && tile.dims[*t].source.1 != 0)
            .collect();
        let offset: i64 = here
            .iter()
            .map(|t| fixed[*t].unwrap_or(0) * tile.dims[*t].source.1)
            .sum();
        let free: Vec<usize> = here.into_iter().filter(|t| fixed[*t].is_none()).collect();
        let reach: i64 = free
            .iter()
            .map(|t| (sizes[*t] - 1) * tile.dims[*t].source.1)
            .sum();
        let (low, high) = (low + offset, high + offset);
        if low >= 0 && high + reach < shape[s] {
            continue;
        }
        let Some((t, sequences)) = along_one(tile, &free) else {
            // Beyond the ends lies what is computed for results that are dropped.
            if !padded && (low >= 0 || low != high) {
                continue;
            }
            // Of a dimension in blocks what the last one has beyond the end.
            let no_box = "the border of a tile is no box";
            let blocks = free.iter().copied().max_by_key(|t| tile.dims[*t].source.1);
            let [Some(outer), Some(inner)] =
                [blocks, free.iter().copied().find(|t| Some(*t) != blocks)]
            else {
                return Err(no_box);
            };
            let (each, step) = (tile.dims[outer].source.1, tile.dims[inner].source.1);
            let there = shape[s] - low;
            let last = there / each == sizes[outer] - 1 && there % each > 0;
            if free.len() != 2 || low < 0 || low != high || each != step * sizes[inner] || !last {
                return Err(no_box);
            }
            let from = (there % each + step - 1) / step;
            if from < sizes[inner] {
                let mut fill = boxed(&border, inner, from, sizes[inner], None);
                (fill.start[outer], fill.sizes[outer]) = (sizes[outer] - 1, 1);
                fill.by = engine(&fill.sizes);
                if fill.by.is_none() && !boxes {
                    return Err(no_box);
                }
                border.behind.push(fill);
            }
            continue;
        };
        if let Some(ring) = ring.filter(|ring| ring.dim == t) {
            // In some trip each of the rows that are computed may be outside; without padding nothing reads them.
            if padded {
                let new = ring.window - ring.step;
                let fill = boxed(&border, t, new, ring.window, Some((t, s, shape[s])));
                border.behind.push(fill);
            }
            continue;
        }
        let step = tile.dims[t].source.1;
        // Interleaved sequences are computed from the first index of any to the last one.
        let starts = || {
            sequences
                .clone()
                .map(move |at| ((-low - at).max(0) + step - 1) / step)
        };
        let ends = || {
            sequences
                .clone()
                .map(move |at| (shape[s] - low - at + step - 1) / step)
        };
        let block = unit.filter(|(u, _)| *u == t).map(|(_, size)| size);
        if !padded {
            // What moves there is computed for rows of the reader that are filled behind.
            if low < 0 && low == high {
                return Err("a tile begins outside of the tensor");
            }
            // No more than there is, where the tile stands still; what is read beyond all the same is
            // something, for results that are dropped.
            if low == high {
                let there = ends().max().unwrap_or(0).clamp(1, sizes[t]);
                let size = block.filter(|_| !exact && !parts[s]).unwrap_or(1);
                let written = match again && there >= size {
                    true => there,
                    false => (there + size - 1) / size * size,
                };
                border.inside[t] = (0, there);
                if written < sizes[t] {
                    let fill = boxed(&border, t, written, sizes[t], None);
                    border.before.push(fill);
                }
            }
            continue;
        }
        if low != high {
            if sequences.clone().count() > 1
                || block.is_some()
                || step != 1
                || t + tile.joined.len() >= tile.dims.len()
            {
                return Err("the border along a unit's blocks moves");
            }
            // Rows at both ends may be outside in some step.
            let top = (-low).clamp(0, sizes[t]);
            let bottom = (shape[s] - high).clamp(top, sizes[t]);
            for (start, end) in [(0, top), (bottom, sizes[t])] {
                if end > start {
                    let fill = boxed(&border, t, start, end, Some((t, s, shape[s])));
                    border.behind.push(fill);
                }
            }
            continue;
        }
        let first = starts().min().unwrap_or(0);
        let end = ends().max().unwrap_or(0).clamp(first, sizes[t]);
        if end <= first {
            return Err("a tile lies outside of the tensor");
        }
        border.inside[t] = (first, end - first);
        if first > 0 {
            let fill = boxed(&border, t, 0, first, None);
            border.before.push(fill);
        }
        if end < sizes[t] {
            // A block that is moved back does not stick out unless it is the only one.
            let moved = |size: i64| again && end - first >= size;
            let sticks =
                block.is_some_and(|size| parts[s] || (end - first) % size != 0 && !moved(size));
            let mut fill = boxed(&border, t, end, sizes[t], None);
            if let (Some(size), true) = (block, sticks) {
                // Rows of a ring lie apart.
                fill.by = engine(&fill.sizes).filter(|_| ring.is_none());
                if fill.by.is_none() {
                    let blocks = (sizes[t] - end + size - 1) / size;
                    border.sizes[t] = border.sizes[t].max(end + blocks * size);
                }
            }
            match sticks {
                true => border.behind.push(fill),
                false => border.before.push(fill),
            }
        }
        // What is computed of one where another one is in the tensor.
        for (i, (from, to)) in starts().zip(ends()).enumerate() {
            for (start, end) in [(first, from), (to, end)] {
                let Some(of) = free.iter().copied().find(|of| *of != t && start < end) else {
                    continue;
                };
                let mut fill = boxed(&border, t, start, end, None);
                (fill.start[of], fill.sizes[of]) = (i as i64, 1);
                fill.by = engine(&fill.sizes);
                if fill.by.is_none() && !boxes {
                    return Err("interleaved sequences begin and end at different indices");
                }
                border.behind.push(fill);
            }
        }
    }
    if let Some(ring) = ring {
        // Of what sticks out only the new rows are written again.
        let new = ring.window - ring.step;
        border.inside[ring.dim] = (new, ring.step);
        for fill in &mut border.behind {
            (fill.start[ring.dim], fill.sizes[ring.dim]) = (new, ring.step);
        }
    }
    Ok(border)
}

/// Whether less than a block of a unit is computed somewhere along a dimension: one that may be computed again sticks out there, too.
pub(super) fn is_short(borders: &[Border], (t, block): (usize, i64)) -> bool {
    borders.iter().any(|border| border.inside[t].1 < block)
}

/// The dimension of a tile that counts a dimension of the source, of those that move in it, and where in the source
/// each of the interleaved sequences begins that it counts.
fn along_one(tile: &Tile, free: &[usize]) -> Option<(usize, impl Iterator<Item = i64> + Clone)> {
    let (t, (count, step)) = match *free {
        [t] => (t, (1, 0)),
        [of, t] if matches!(tile.dims[of].axis, Axis::Phase(..)) => {
            let dim = &tile.dims[of];
            (t, (dim.size, dim.source.1))
        }
        _ => return None,
    };
    Some((t, (0..count).map(move |i| i * step)))
}
