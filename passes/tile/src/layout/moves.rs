//! How a tile moves in its source, and what transfers of it take.

use tir::data::SMALLEST_SQUARE;
use tir::{AffineMap, LinearExpr, LinearMap, MemRefType};
use tir_accel::transfer::{Pattern, transfers};

use super::{Axis, Dim, Space, Tile};

impl Tile {
    /// Position in the tile to distance in the source.
    pub fn access(&self) -> AffineMap {
        self.steps().affine(self.dims.len())
    }

    /// The same, over the dimensions of the source.
    pub(super) fn steps(&self) -> LinearMap {
        let step = |dim: &Dim, s: usize| if dim.source.0 == s { dim.source.1 } else { 0 };
        let form = |s| LinearExpr::new(self.dims.iter().map(|dim| step(dim, s)).collect(), 0);
        (0..self.forms.len()).map(form).collect()
    }

    /// How far the tile moves in each dimension of the source with one step of the loop around
    /// the tiles of an iterator.
    pub fn step(&self, space: &Space, d: usize) -> Vec<i64> {
        self.forms
            .iter()
            .map(|form| form.at(d) * space.extent(d))
            .collect()
    }

    /// The first dimension in which the block or the point of an iterator moves.
    pub fn place(&self, d: usize) -> Option<usize> {
        self.dims.iter().position(|dim| match &dim.axis {
            Axis::Block(own) | Axis::Slot(own, _) => *own == d,
            Axis::Window(terms) | Axis::Phase(terms, _) | Axis::Unit(_, terms, ..) => {
                terms.iter().any(|(own, _)| *own == d)
            }
            Axis::Ring(axis, _) => {
                matches!(&**axis, Axis::Window(terms) if terms.iter().any(|(own, _)| *own == d))
            }
            Axis::Turn | Axis::Trip(..) | Axis::One => false,
        })
    }

    /// Whether the tile loop of an iterator moves the tile in the source.
    pub fn moves_with(&self, space: &Space, d: usize) -> bool {
        self.forms.uses(d) && space.trips(d) > 1
    }

    /// Where a step of the loop of an iterator moves a window over what it showed before: the dimension of the
    /// tile, and how far. What is still shown need not be loaded again.
    pub fn ring(&self, space: &Space, d: usize) -> Option<(usize, i64)> {
        let steps = self.forms.iter().enumerate();
        let steps = steps.map(|(s, form)| (s, form.at(d) * space.extent(d)));
        let mut moving = steps.filter(|(_, step)| *step != 0);
        let (Some((s, step)), None) = (moving.next(), moving.next()) else {
            return None;
        };
        let slides = |dim: &Dim| {
            let window = matches!(dim.axis, Axis::Window(_));
            dim.source == (s, 1) && window && step > 0 && dim.size > step
        };
        let at = self.dims.iter().position(slides)?;
        Some((at, step))
    }

    /// Elements in a run that is contiguous in the tile and in its source, as the machine counts
    /// rows; `shape` is that of the source. Squares of up to `square` elements are transposed.
    pub fn run(&self, shape: &[i64], square: i64) -> i64 {
        run(&self.sides(shape), square)
    }

    /// The dimensions that such a run goes through.
    pub fn run_dims(&self, shape: &[i64]) -> Vec<usize> {
        straight(&self.sides(shape)).1
    }

    /// Of each dimension how many elements are moved, and the distances of two of them in the source and in the tile.
    fn sides(&self, shape: &[i64]) -> Vec<[i64; 3]> {
        let dense = MemRefType::dense_strides;
        let (far, near) = (dense(shape), dense(&self.shape()));
        let sides = self.dims.iter().zip(near).map(|(dim, near)| {
            // What lies beyond the end of the source is not moved. A source of one number has no dimensions.
            let (s, step) = dim.source;
            let (size, far) = (shape.get(s).copied().unwrap_or(1), far.get(s).copied());
            let inside = (size + step.abs() - 1) / step.abs().max(1);
            [dim.size.min(inside.max(1)), step * far.unwrap_or(0), near]
        });
        sides.collect()
    }

    /// Transfers that an engine of so many dimensions needs for the tile; `elem` in bytes.
    pub fn starts(&self, shape: &[i64], elem: i64, dims: i64) -> i64 {
        let long = self.dims.iter().filter(|dim| dim.size > 1).count() as i64;
        // Where no row is contiguous on both sides, rows of an element are a dimension, too. That is counted for engines of
        // few dimensions alone: of others, tiles with so many are mostly kept, and moved once (decision 170).
        if long < dims || (long == dims && dims > FEW) {
            return 1;
        }
        let dense = MemRefType::dense_strides;
        let (far, near) = (dense(shape), dense(&self.shape()));
        let steps = self.dims.iter().zip(near).map(|(dim, near)| {
            let (s, step) = dim.source;
            let far = far.get(s).copied().unwrap_or(0);
            (dim.size, step * far * elem, near * elem)
        });
        let dims = usize::try_from(dims).unwrap_or(0);
        transfers(steps.collect(), Vec::new(), (elem, dims))
    }
}

/// Elements in a run that is contiguous on both sides, of dimensions with how many elements are moved and the distances of two of
/// them there and in the tile. Squares of up to `square` elements are transposed.
pub fn run(steps: &[[i64; 3]], square: i64) -> i64 {
    let (run, through) = straight(steps);
    let others = (0..steps.len()).filter(|i| steps[*i][0] > 1 && !through.contains(i));
    let others: Vec<[i64; 3]> = others.map(|i| steps[i]).collect();
    let along = |side: usize| others.iter().find(|dim| dim[side] == run);
    match along(1).zip(along(2)) {
        Some((far, near)) if far[0].min(near[0]) >= SMALLEST_SQUARE as i64 => {
            run.max(square.min(run * far[0].min(near[0])))
        }
        _ => run,
    }
}

/// Elements in a run as they lie, without squares, and the dimensions that it goes through.
fn straight(steps: &[[i64; 3]]) -> (i64, Vec<usize>) {
    let (mut run, mut through) = (1, Vec::new());
    while let Some(i) = (0..steps.len()).rposition(|i| {
        let [size, far, near] = steps[i];
        size > 1 && [run, run] == [far, near] && !through.contains(&i)
    }) {
        run *= steps[i][0];
        through.push(i);
    }
    (run, through)
}

/// Dimensions of an engine that are few.
const FEW: i64 = 2;

/// Transfers that an engine of so many dimensions needs for a tile of this shape, of which dimensions may lie outside
/// of the source; elements of so many bytes.
pub fn starts(
    far: &[i64],
    tile: Vec<i64>,
    access: LinearMap,
    outside: &[bool],
    (elem, dims): (i64, i64),
) -> i64 {
    let bytes = |strides: Vec<i64>| strides.iter().map(|n| n * elem).collect::<Vec<i64>>();
    let pattern = Pattern {
        far_shape: far.to_vec(),
        far_strides: bytes(MemRefType::dense_strides(far)),
        tile_strides: bytes(MemRefType::dense_strides(&tile)),
        access,
        tile_shape: tile,
        elem,
    };
    pattern.transfers(outside, usize::try_from(dims).unwrap_or(0))
}
