//! Tiles of operands that a unit takes.
//!
//! What moves in a dimension of the source is the unit's iterator, blocks of it, and windows of others. Where all of
//! them lie in one dimension of the tile is decided by what stays dense: behind a window the unit takes all.

use std::sync::Arc;

use tir::LinearMap;

use super::{Axis, Dim, Space, Tile};

impl Tile {
    /// The tile that a generic's operand needs: `forms` give the position in the source, `unit`
    /// the iterators of the unit's operand in the order of its dimensions, none for dimensions of
    /// one element. `None` if the operand cannot be a dense tile of the unit.
    pub fn new(space: &Space, forms: &Arc<LinearMap>, unit: &[Vec<usize>]) -> Option<Self> {
        let order: Vec<usize> = unit.iter().flatten().copied().collect();
        let mut outer: Vec<Dim> = Vec::new();
        let mut inner: Vec<Option<Dim>> = vec![None; order.len()];
        // What counts two dimensions of the source, as on a diagonal, is no dimension of a tile, which goes along one.
        let mut put = |u: usize, dim: Dim| {
            let place = &mut inner[order.iter().position(|d| *d == u)?];
            place.is_none().then(|| *place = Some(dim))
        };
        for (s, form) in forms.iter().enumerate() {
            // An iterator with a loop for each of its points moves the tile, nothing in it.
            let fixed = |d: usize| space.extent(d) == 1 && space.domain[d] > 1;
            let (mut units, mut rest) = (Vec::new(), Vec::new());
            for (d, c) in form.terms() {
                if c < 0 {
                    return None;
                }
                if space.is_unit(d) {
                    units.push((d, c));
                } else if !fixed(d) {
                    rest.push((d, c));
                }
            }
            // One iterator counts the dimension; others of the unit are a window in it.
            let mut counts = units.iter().filter(|(d, _)| order.contains(d));
            let (Some(main), None) = (counts.next(), counts.next()) else {
                if units.iter().any(|(d, _)| space.shifted == Some(*d)) {
                    return None;
                }
                outer.extend(columns(space, s, &units, &rest));
                for (u, stride) in units {
                    put(u, unit_dim(space, s, u, stride))?;
                }
                continue;
            };
            let &(u, stride) = main;
            let others = units.iter().filter(|(d, _)| *d != u);
            let window = others.map(|(d, c)| (c % stride == 0).then_some((*d, c / stride)));
            let window: Vec<(usize, i64)> = window.collect::<Option<_>>()?;
            let place = order.iter().position(|d| *d == u)?;
            let shifted = space.shifted == Some(u);
            if window.iter().any(|(d, _)| space.shifted == Some(*d)) {
                return None;
            }
            // What stands behind a window must be taken whole, or the unit's operand is not dense.
            if window.is_empty() && !shifted && (rest.is_empty() || place > 0) {
                outer.extend(columns(space, s, &units, &rest));
                put(u, unit_dim(space, s, u, stride))?;
                continue;
            }
            if place > 0 {
                return None;
            }
            let (terms, step) = in_steps(&moving(space, &rest), stride);
            let phases = (stride / step).min(reach(space, &terms).saturating_add(1));
            if phases > 1 {
                outer.push(Dim {
                    axis: Axis::Phase(terms, stride / step),
                    size: phases,
                    source: (s, step),
                });
            }
            let moved = reach(space, &rest) / stride + reach(space, &window);
            let size = space.extent(u).saturating_add(moved);
            let dim = Dim {
                axis: Axis::Unit(u, rest, stride, window),
                size,
                source: (s, stride),
            };
            put(u, dim)?;
        }
        let mut inner = inner.into_iter();
        let mut joined = Vec::new();
        for dims in unit {
            if dims.is_empty() {
                outer.push(Dim {
                    axis: Axis::One,
                    size: 1,
                    source: (0, 0),
                });
            }
            for _ in dims {
                outer.push(inner.next()??);
            }
            joined.push(dims.len().max(1));
        }
        let low = vec![0; forms.len()];
        Some(Self {
            dims: outer,
            forms: Arc::clone(forms),
            low,
            joined,
        })
    }

    /// The same tile with the blocks of an iterator in the dimension of the unit's part of it, if that is the
    /// unit's first one: there they lie one right behind the other whatever else the tile has.
    pub fn in_one(mut self, space: &Space, d: usize) -> Self {
        let first = self.dims.len().checked_sub(self.joined.iter().sum());
        let alone = |axis: &Axis| matches!(axis, Axis::Unit(u, rest, _, own) if *u == d && rest.is_empty() && own.is_empty());
        let unit = first.and_then(|first| Some((first, self.dims.get(first)?)));
        let Some((first, unit)) = unit.filter(|(_, dim)| alone(&dim.axis)) else {
            return self;
        };
        let source = (unit.source.0, unit.source.1 * space.block[d]);
        let block = |dim: &Dim| dim.axis == Axis::Block(d) && dim.source == source;
        if let Some(at) = self.dims.iter().position(block) {
            let (size, stride) = (self.dims[at].size, unit.source.1);
            // Blocks move it, as where something slides; here that goes no step.
            self.dims[first].axis = Axis::Unit(d, vec![(d, 0)], stride, Vec::new());
            self.dims[first].size *= size;
            self.dims.remove(at);
        }
        self
    }

    /// The same tile with interleaved sequences that begin at a multiple of their number in the source, where it has all
    /// of them: so those of all tiles are in the same order, and begin and end at the same index as far as the source
    /// does.
    pub fn aligned(mut self) -> Self {
        for t in 0..self.dims.len() {
            let Dim {
                axis: Axis::Phase(_, stride),
                size,
                source: (s, step),
            } = self.dims[t]
            else {
                continue;
            };
            let start = self.forms[s].constant + self.low[s];
            let before = start.rem_euclid(stride.saturating_mul(step));
            let apart = |dim: &&mut Dim| {
                matches!(&dim.axis, Axis::Unit(.., own) if own.is_empty())
                    && dim.source == (s, stride * step)
            };
            if size != stride || before == 0 || before % step != 0 {
                continue;
            }
            if let Some(dim) = self.dims.iter_mut().find(apart) {
                dim.size += 1;
                self.low[s] -= before;
            }
        }
        self
    }

    /// The same tile with the blocks of a unit one behind the other in one dimension, where they lie so.
    pub fn joined_blocks(mut self) -> Self {
        let units = self.joined.iter().sum::<usize>();
        let Some(unit) = self.dims.len().checked_sub(units).filter(|unit| *unit > 0) else {
            return self;
        };
        let Some([before, first]) = self.dims.get(unit - 1..unit + 1) else {
            return self;
        };
        let (Axis::Block(block), Axis::Unit(d, rest, _, own)) = (&before.axis, &first.axis) else {
            return self;
        };
        let behind = before.source == (first.source.0, first.size.saturating_mul(first.source.1));
        if block == d && behind && rest.is_empty() && own.is_empty() {
            let blocks = self.dims.remove(unit - 1).size;
            let size = &mut self.dims[unit - 1].size;
            *size = size.saturating_mul(blocks);
        }
        self
    }
}

/// How far positions of terms in a tile are apart.
fn reach(space: &Space, terms: &[(usize, i64)]) -> i64 {
    let far = |(d, c): &(usize, i64)| c.saturating_mul(space.extent(*d) - 1);
    terms.iter().map(far).fold(0, i64::saturating_add)
}

/// Terms of iterators with more than one point in a tile.
fn moving(space: &Space, terms: &[(usize, i64)]) -> Vec<(usize, i64)> {
    let moves = |(d, _): &(usize, i64)| space.extent(*d) > 1;
    terms.iter().copied().filter(moves).collect()
}

/// The unit's part of an iterator, apart from what else moves in the dimension of the source.
fn unit_dim(space: &Space, s: usize, u: usize, stride: i64) -> Dim {
    Dim {
        axis: Axis::Unit(u, Vec::new(), stride, Vec::new()),
        size: space.block[u],
        source: (s, stride),
    }
}

/// Dimensions of a tile for what moves the unit's part of it in a dimension of the source: blocks of the
/// unit's iterators, and windows of others. As one window, where that takes no more elements.
fn columns(space: &Space, s: usize, units: &[(usize, i64)], rest: &[(usize, i64)]) -> Vec<Dim> {
    let size = |blocks: &[(usize, i64)]| {
        let far = |(d, c): &(usize, i64)| {
            let last = if space.is_unit(*d) {
                space.tile[*d] - 1
            } else {
                space.extent(*d) - 1
            };
            c.saturating_mul(last)
        };
        let reach = blocks.iter().map(far).fold(0, i64::saturating_add);
        reach.saturating_add(1)
    };
    let window = |terms: &[(usize, i64)]| {
        // Between the points of a wide step lies nothing that is read.
        let (terms, step) = in_steps(terms, 0);
        let size = size(&terms);
        Dim {
            axis: Axis::Window(terms),
            size,
            source: (s, step),
        }
    };
    let block = |(d, c): &(usize, i64)| (*d, c * space.block[*d]);
    let blocks: Vec<(usize, i64)> = units.iter().map(block).collect();
    let blocks: Vec<_> = blocks
        .into_iter()
        .filter(|(d, _)| space.tile[*d] > 1)
        .collect();
    let rest = moving(space, rest);
    let mut apart: Vec<Dim> = Vec::new();
    for (d, c) in &blocks {
        apart.push(Dim {
            axis: Axis::Block(*d),
            size: space.tile[*d],
            source: (s, *c),
        });
    }
    if !rest.is_empty() {
        apart.push(window(&rest));
    }
    if apart.len() > 1 {
        let one = window(&[&blocks[..], &rest].concat());
        let elements: i64 = apart.iter().map(|dim| dim.size).product();
        if one.size < elements {
            return vec![one];
        }
    }
    apart
}

/// Terms in steps of their greatest common divisor with `stride`, and the step.
fn in_steps(terms: &[(usize, i64)], stride: i64) -> (Vec<(usize, i64)>, i64) {
    fn gcd(a: i64, b: i64) -> i64 {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    let step = terms.iter().fold(stride, |step, (_, c)| gcd(step, *c));
    let step = step.max(1);
    (terms.iter().map(|(d, c)| (*d, c / step)).collect(), step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tir::{AffineExpr, AffineMap};

    fn space(domain: &[i64], block: &[i64], tile: &[i64], unit: &[usize]) -> Space {
        Space {
            domain: domain.to_vec(),
            block: block.to_vec(),
            tile: tile.to_vec(),
            unit: unit.to_vec(),
            shifted: None,
        }
    }
    fn forms(map: &AffineMap) -> Arc<LinearMap> {
        Arc::new(map.linear().expect("linear"))
    }
    fn window(stride: i64, dilation: i64) -> Arc<LinearMap> {
        // (p, k) -> (stride * p + dilation * k)
        let at = AffineExpr::Dim(0) * AffineExpr::Const(stride);
        let at = at + AffineExpr::Dim(1) * AffineExpr::Const(dilation);
        forms(&AffineMap::new(2, vec![at]))
    }
    fn sizes(tile: &Tile) -> Vec<(i64, i64)> {
        tile.dims
            .iter()
            .map(|dim| (dim.size, dim.source.1))
            .collect()
    }

    #[test]
    fn phases_are_those_that_are_reached() {
        // 16 pixels, every third one, a kernel of `k` points.
        let tile = |k: i64, dilation: i64| {
            let space = space(&[16, k], &[16, 1], &[1, k], &[0]);
            Tile::new(&space, &window(3, dilation), &[vec![0]]).expect("dense")
        };
        assert_eq!(sizes(&tile(1, 1)), [(16, 3)]);
        assert_eq!(sizes(&tile(2, 1)), [(2, 1), (16, 3)]);
        assert_eq!(sizes(&tile(5, 1)), [(3, 1), (17, 3)]);
        // A dilation that the stride divides reaches one phase.
        assert_eq!(sizes(&tile(2, 3)), [(17, 3)]);
    }

    #[test]
    fn columns_where_the_kernel_is_the_unit_too() {
        // Pixels and the kernel's columns are dimensions of the unit: each pixel has its own columns.
        let space = space(&[32, 4], &[16, 4], &[2, 1], &[0, 1]);
        let tile = Tile::new(&space, &window(2, 1), &[vec![0], vec![1]]).expect("dense");
        assert_eq!(sizes(&tile), [(2, 32), (16, 2), (4, 1)]);
        assert_eq!(tile.reassociation(), None);
    }

    #[test]
    fn joined_iterators_are_one_where_the_unit_works() {
        // 2 rows by 8 columns of 4 x 16 pixels; rows slide under a kernel of 3.
        let space = space(&[4, 16, 3], &[2, 8, 1], &[2, 2, 3], &[0, 1]);
        let rows = AffineExpr::Dim(0) + AffineExpr::Dim(2);
        let map = AffineMap::new(3, vec![rows, AffineExpr::Dim(1)]);
        let tile = Tile::new(&space, &forms(&map), &[vec![1, 0]]).expect("dense");
        // Blocks of rows and the kernel share a window; rows of a block lie there apart.
        assert_eq!(sizes(&tile), [(5, 1), (2, 8), (8, 1), (2, 1)]);
        assert_eq!(tile.unit_shape(), [5, 2, 16]);
        assert_eq!(
            tile.reassociation(),
            Some(vec![vec![0], vec![1], vec![2, 3]])
        );
    }
}
