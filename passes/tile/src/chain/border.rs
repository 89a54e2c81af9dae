//! What lies outside of a tensor in a tile of it that is computed: which boxes are filled, and when.
//!
//! Blocks of a unit that stick out of the tensor write what is no element of it. So the border that they
//! may write is filled behind, and all else before; where a tile moves, rows are looked at one by one.

use tir::Attr;

use crate::layout::Tile;

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

/// The border of a tile, or what cannot be filled. `shape` is that of the source, `padded` whether what is read
/// outside of it in each dimension matters, `value` what that is, `fixed` an index for dimensions of the tile that stands still, `unit` the dimension of the
/// tile along which a unit writes blocks, and their size.
pub(super) fn border(
    tile: &Tile,
    shape: &[i64],
    origins: &Origins,
    padded: &[bool],
    value: Attr,
    fixed: &[Option<i64>],
    unit: Option<(usize, i64)>,
) -> Result<Border, &'static str> {
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
    let boxed = |t: usize, start: i64, size: i64, border: &Border| {
        let mut begin: Vec<i64> = border.inside.iter().map(|_| 0).collect();
        let mut extent = border.sizes.clone();
        for (other, index) in fixed.iter().enumerate() {
            if let Some(index) = index {
                (begin[other], extent[other]) = (*index, 1);
            }
        }
        (begin[t], extent[t]) = (start, size);
        (begin, extent)
    };
    // Along the unit's blocks first: what is filled behind makes the tile larger.
    let mut order: Vec<usize> = (0..shape.len()).collect();
    let along = |s: &usize| unit.is_some_and(|(t, _)| tile.dims[t].source.0 == *s);
    order.sort_by_key(|s| !along(s));
    for s in order {
        let (low, high) = origins[s];
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
        let [t] = free[..] else {
            // Beyond the end lies what is computed for results that are dropped.
            if !padded[s] && low >= 0 {
                continue;
            }
            return Err("the border of a tile is no box");
        };
        let step = tile.dims[t].source.1;
        let block = unit.filter(|(u, _)| *u == t).map(|(_, size)| size);
        if !padded[s] {
            if low < 0 {
                return Err("a tile begins outside of the tensor");
            }
            // No more than there is, where the tile stands still; what is read beyond all the same is
            // something, for results that are dropped.
            if low == high {
                let there = ((shape[s] - low + step - 1) / step).clamp(1, sizes[t]);
                let size = block.unwrap_or(1);
                let written = (there + size - 1) / size * size;
                border.inside[t] = (0, there);
                if written < sizes[t] {
                    let (start, sizes) = boxed(t, written, sizes[t] - written, &border);
                    border.before.push(Fill {
                        value,
                        start,
                        sizes,
                        rows: None,
                    });
                }
            }
            continue;
        }
        if low != high {
            if block.is_some() || step != 1 {
                return Err("the border along a unit's blocks moves");
            }
            // Rows at both ends may be outside in some step.
            let top = (-low).clamp(0, sizes[t]);
            let bottom = (shape[s] - high).clamp(top, sizes[t]);
            for (start, end) in [(0, top), (bottom, sizes[t])] {
                if end > start {
                    let (start, sizes) = boxed(t, start, end - start, &border);
                    border.behind.push(Fill {
                        value,
                        start,
                        sizes,
                        rows: Some((t, s, shape[s])),
                    });
                }
            }
            continue;
        }
        let first = ((-low).max(0) + step - 1) / step;
        let end = ((shape[s] - low + step - 1) / step).clamp(first, sizes[t]);
        if end <= first {
            return Err("a tile lies outside of the tensor");
        }
        border.inside[t] = (first, end - first);
        if first > 0 {
            let (start, sizes) = boxed(t, 0, first, &border);
            border.before.push(Fill {
                value,
                start,
                sizes,
                rows: None,
            });
        }
        if end < sizes[t] {
            let sticks = block.is_some_and(|size| (end - first) % size != 0);
            if let (Some(size), true) = (block, sticks) {
                let blocks = (sizes[t] - end + size - 1) / size;
                border.sizes[t] = border.sizes[t].max(end + blocks * size);
            }
            let (start, sizes) = boxed(t, end, sizes[t] - end, &border);
            let fills = if sticks {
                &mut border.behind
            } else {
                &mut border.before
            };
            fills.push(Fill {
                value,
                start,
                sizes,
                rows: None,
            });
        }
    }
    Ok(border)
}
