//! How a tile of an operand lies in near memory, which element of the source each of its elements
//! is, and where a unit finds its operand in it.
//!
//! An iterator is cut into *blocks*, the points that one call of a unit takes (1 where no unit
//! does), a *tile* is so many blocks, and the *trips* are those of the loop around the tiles; the
//! last block and the last tile may stick out of the range. A tile of an operand has a dimension for
//! each of its [`Axis`]es: first what selects an operand of the unit, then the unit's own dimensions.
//!
//! Invariants: a unit's operand is dense in its tile, so behind a dimension of which a call takes a
//! part only dimensions stand that it takes whole; each dimension of a tile moves in one dimension of
//! its source, by a fixed step, so that a transfer with a linear access fills it.

use tir::{AffineMap, LinearExpr, LinearMap, MemRefType};
use tir_accel::transfer::Pattern;

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
}

impl Space {
    /// Blocks of an iterator in all.
    pub fn blocks(&self, d: usize) -> i64 {
        (self.domain[d].saturating_add(self.block[d] - 1)) / self.block[d]
    }
    /// Tiles of an iterator: trips of the loop around the tiles.
    pub fn trips(&self, d: usize) -> i64 {
        (self.blocks(d) + self.tile[d] - 1) / self.tile[d]
    }
    /// Points of an iterator in a tile.
    pub fn extent(&self, d: usize) -> i64 {
        self.block[d].saturating_mul(self.tile[d])
    }
    fn is_unit(&self, d: usize) -> bool {
        self.unit.contains(&d)
    }
}

/// What the position in a dimension of a near tile is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Axis {
    /// The block of an iterator that the unit works on: position is the block.
    Block(usize),
    /// A window over several iterators, none of them the unit's: `Σ c·d` of points in the tile.
    Window(Vec<(usize, i64)>),
    /// Which of `stride` interleaved sequences, for a unit that takes every `stride`-th element.
    Phase(Vec<(usize, i64)>, i64),
    /// The only element of a dimension of the unit's operand.
    One,
    /// The iterator the unit works on; what else moves the window, divided by the stride; and the
    /// unit's own window: iterators of it that move in the same dimension, by so many steps each.
    Unit(usize, Vec<(usize, i64)>, i64, Vec<(usize, i64)>),
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
    pub forms: LinearMap,
    /// For each dimension of the source, how far from where the tile's first point is its first
    /// element lies: below 0 where iterators go backwards.
    pub low: Vec<i64>,
}

impl Tile {
    /// The tile that a generic's operand needs: `map` gives the position in the source, `unit`
    /// the iterators of the unit's operand in the order of its dimensions, none for dimensions of
    /// one element. `None` if the operand cannot be a dense tile of the unit.
    pub fn new(space: &Space, map: &AffineMap, unit: &[Option<usize>]) -> Option<Self> {
        let forms = map.linear()?;
        let mut outer: Vec<Dim> = Vec::new();
        let one = Dim {
            axis: Axis::One,
            size: 1,
            source: (0, 0),
        };
        let one = |d: &Option<usize>| d.is_none().then(|| one.clone());
        let mut inner: Vec<Option<Dim>> = unit.iter().map(one).collect();
        for (s, form) in forms.iter().enumerate() {
            let terms: Vec<(usize, i64)> = form.terms().collect();
            if terms.iter().any(|(_, c)| *c < 0) {
                return None;
            }
            let units: Vec<(usize, i64)> = terms
                .iter()
                .copied()
                .filter(|(d, _)| space.is_unit(*d))
                .collect();
            let reach = |terms: &[(usize, i64)]| -> i64 {
                let far = |(d, c): &(usize, i64)| c.saturating_mul(space.extent(*d) - 1);
                terms.iter().map(far).fold(0, i64::saturating_add)
            };
            match units[..] {
                [] => {
                    if reach(&terms) > 0 {
                        let size = reach(&terms).saturating_add(1);
                        outer.push(Dim {
                            axis: Axis::Window(terms),
                            size,
                            source: (s, 1),
                        });
                    }
                }
                _ => {
                    // One iterator counts the dimension; others of the unit are a window in it.
                    let counts = |(d, _): &&(usize, i64)| unit.contains(&Some(*d));
                    let mut main = units.iter().filter(counts);
                    let &(u, stride) = main.next().filter(|_| main.next().is_none())?;
                    let others = units.iter().filter(|(d, _)| *d != u);
                    let window = others.map(|(d, c)| (c % stride == 0).then_some((*d, c / stride)));
                    let window: Vec<(usize, i64)> = window.collect::<Option<_>>()?;
                    // An iterator with a loop for each of its points moves the tile, nothing in it.
                    let fixed = |d: usize| space.extent(d) == 1 && space.domain[d] > 1;
                    let rest: Vec<(usize, i64)> = terms
                        .iter()
                        .copied()
                        .filter(|(d, _)| !space.is_unit(*d) && !fixed(*d))
                        .collect();
                    let place = unit.iter().position(|d| *d == Some(u))?;
                    if rest.is_empty() && window.is_empty() {
                        if space.tile[u] > 1 {
                            let source = (s, stride * space.block[u]);
                            outer.push(Dim {
                                axis: Axis::Block(u),
                                size: space.tile[u],
                                source,
                            });
                        }
                        let size = space.block[u];
                        inner[place] = Some(Dim {
                            axis: Axis::Unit(u, rest, stride, window),
                            size,
                            source: (s, stride),
                        });
                    } else {
                        if stride > 1 && !rest.is_empty() {
                            outer.push(Dim {
                                axis: Axis::Phase(rest.clone(), stride),
                                size: stride,
                                source: (s, 1),
                            });
                        }
                        let moved = (reach(&rest) / stride).saturating_add(reach(&window));
                        let size = space.extent(u).saturating_add(moved);
                        inner[place] = Some(Dim {
                            axis: Axis::Unit(u, rest, stride, window),
                            size,
                            source: (s, stride),
                        });
                    }
                }
            }
        }
        let inner: Vec<Dim> = inner.into_iter().collect::<Option<_>>()?;
        // What stands behind a window must be taken whole, or the unit's operand is not dense.
        let windowed = |dim: &Dim| match &dim.axis {
            Axis::Unit(_, rest, _, window) => !rest.is_empty() || !window.is_empty(),
            _ => false,
        };
        let mut long = inner.iter().filter(|dim| dim.axis != Axis::One);
        long.next();
        if long.any(windowed) {
            return None;
        }
        outer.extend(inner);
        let low = vec![0; forms.len()];
        Some(Self {
            dims: outer,
            forms,
            low,
        })
    }

    /// The tile of an operand that no unit takes: the box of the source that is touched.
    pub fn plain(space: &Space, map: &AffineMap) -> Option<Self> {
        let forms = map.linear()?;
        let (mut dims, mut low) = (Vec::new(), Vec::new());
        for (s, form) in forms.iter().enumerate() {
            let terms: Vec<(usize, i64)> = form.terms().collect();
            let far = |(d, c): &(usize, i64)| c.saturating_mul(space.extent(*d) - 1);
            let far_off = terms.iter().map(|term| far(term).abs());
            let reach = far_off.fold(0, i64::saturating_add);
            low.push(terms.iter().map(|term| far(term).min(0)).sum());
            dims.push(Dim {
                axis: Axis::Window(terms),
                size: reach.saturating_add(1),
                source: (s, 1),
            });
        }
        Some(Self { dims, forms, low })
    }

    /// The tile of what is only moved: a dimension for each iterator, in this order. `None` if an
    /// iterator steps in more than one dimension of the source.
    pub fn moved(space: &Space, map: &AffineMap, order: &[usize]) -> Option<Self> {
        let forms = map.linear()?;
        let dim = |d: &usize| {
            let mut steps = (0..forms.len()).filter(|s| forms[*s].at(*d) != 0);
            let source = steps.next().map_or((0, 0), |s| (s, forms[s].at(*d)));
            let backward = source.1 < 0 || forms.is_empty();
            (steps.next().is_none() && !backward).then(|| Dim {
                axis: Axis::Window(vec![(*d, 1)]),
                size: space.extent(*d),
                source,
            })
        };
        let dims = order.iter().map(dim).collect::<Option<_>>()?;
        let low = vec![0; forms.len()];
        Some(Self { dims, forms, low })
    }

    /// The same tile as part of another tensor, in which each iterator steps by itself in one
    /// dimension; `None` if one that moves in this tile does not move there.
    pub fn part_of(&self, map: &AffineMap) -> Option<Self> {
        let places = map.as_projection()?;
        let dims = self.dims.iter().map(|dim| {
            let (s, step) = dim.source;
            if step == 0 {
                return Some(dim.clone());
            }
            let iterator = self.forms[s].as_dim()?;
            let there = places.iter().position(|d| *d == iterator)?;
            Some(Dim {
                source: (there, step),
                ..dim.clone()
            })
        });
        Some(Self {
            dims: dims.collect::<Option<_>>()?,
            forms: map.linear()?,
            low: vec![0; places.len()],
        })
    }

    /// Whether it is a box of its source, dimension by dimension.
    pub fn is_plain(&self) -> bool {
        let window =
            |(s, dim): (usize, &Dim)| matches!(dim.axis, Axis::Window(_)) && dim.source == (s, 1);
        self.dims.len() == self.forms.len() && self.dims.iter().enumerate().all(window)
    }
    /// Where in a tile of another operand that one's element at `rows` is, over the dimensions of
    /// this tile and then iterators with ranges; `rows` are positions in the other operand over
    /// positions in this one's source and the same iterators. `None` if it is at no linear place.
    pub fn relative(&self, other: &Tile, rows: &LinearMap, ranges: &[i64]) -> Option<LinearMap> {
        let rank = self.dims.len();
        let sources = self.forms.len();
        let own = (0..ranges.len()).map(|i| LinearExpr::dim(rank + i));
        if other.is_plain() {
            let steps = self.steps();
            let moved = steps.iter().zip(&self.low);
            let moved = moved.map(|(row, low)| row.with_constant(*low));
            let places: LinearMap = moved.chain(own).collect();
            let sizes: Vec<i64> = self
                .shape()
                .into_iter()
                .chain(ranges.iter().copied())
                .collect();
            let at = rows.iter().zip(&other.low).map(|(row, low)| {
                let row = row.with_constant(0).replace(&places)?;
                Some(row.with_constant(row.constant - low))
            });
            let at: LinearMap = at.collect::<Option<_>>()?;
            let inside = at.iter().zip(&other.dims).all(|(row, dim)| {
                let range = row.range(&sizes);
                range.is_some_and(|range| range.is_inside(dim.size))
            });
            return inside.then_some(at);
        }
        let same = ranges.is_empty() && rows.len() == sources && rows.is_identity();
        (same && self.dims == other.dims).then(|| LinearMap::identity(rank))
    }
    /// Its shape.
    pub fn shape(&self) -> Vec<i64> {
        self.dims.iter().map(|d| d.size).collect()
    }
    /// Its number of elements.
    pub fn elements(&self) -> i64 {
        let sizes = self.dims.iter().map(|d| d.size);
        sizes.fold(1, i64::saturating_mul)
    }
    /// Elements in a run that is contiguous in the tile and in its source, as the machine counts
    /// rows; `shape` is that of the source.
    pub fn run(&self, shape: &[i64]) -> i64 {
        let dense = MemRefType::dense_strides;
        let (far, near) = (dense(shape), dense(&self.shape()));
        let steps = self.dims.iter().zip(near);
        let mut steps: Vec<[i64; 3]> = steps
            .filter(|(dim, _)| dim.size > 1)
            .map(|(dim, near)| [dim.size, dim.source.1 * far[dim.source.0], near])
            .collect();
        let mut run = 1;
        while let Some(i) = steps
            .iter()
            .rposition(|[_, far, near]| [run, run] == [*far, *near])
        {
            run *= steps.remove(i)[0];
        }
        run
    }
    /// Transfers that an engine of so many dimensions needs for the tile; `elem` in bytes.
    pub fn starts(&self, shape: &[i64], elem: i64, dims: i64) -> i64 {
        let long = self.dims.iter().filter(|dim| dim.size > 1).count();
        if long as i64 <= dims {
            return 1;
        }
        let bytes = |strides: Vec<i64>| strides.iter().map(|n| n * elem).collect::<Vec<i64>>();
        let mut pattern = Pattern {
            far_shape: shape.to_vec(),
            far_strides: bytes(MemRefType::dense_strides(shape)),
            tile_strides: bytes(MemRefType::dense_strides(&self.shape())),
            access: self.steps(),
            tile_shape: self.shape(),
            elem,
        };
        let mut starts = 1;
        let engine = usize::try_from(dims).unwrap_or(0);
        while pattern.rank() > engine {
            let Some(split) = pattern.split(&[], engine) else {
                break;
            };
            starts *= pattern.tile_shape[split];
            pattern.remove(split);
        }
        starts
    }
    /// Position in the tile to distance in the source.
    pub fn access(&self) -> AffineMap {
        self.steps().affine(self.dims.len())
    }
    fn steps(&self) -> LinearMap {
        let step = |dim: &Dim, s: usize| if dim.source.0 == s { dim.source.1 } else { 0 };
        let form = |s| LinearExpr::new(self.dims.iter().map(|dim| step(dim, s)).collect(), 0);
        (0..self.forms.len()).map(form).collect()
    }
    /// Whether the tile loop of an iterator moves the tile in the source.
    pub fn moves_with(&self, space: &Space, d: usize) -> bool {
        self.forms.uses(d) && space.trips(d) > 1
    }
    /// How far the tile moves in each dimension of the source with one step of the loop around
    /// the tiles of an iterator.
    pub fn step(&self, space: &Space, d: usize) -> Vec<i64> {
        self.forms
            .iter()
            .map(|form| form.at(d) * space.extent(d))
            .collect()
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
