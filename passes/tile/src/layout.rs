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
    /// The iterator whose last block is moved back so that it does not stick out, if there is one: some of its
    /// points are computed twice.
    pub shifted: Option<usize>,
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
    pub fn is_distinct(&self, map: &AffineMap) -> bool {
        let Some(forms) = map.linear() else {
            return true;
        };
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
    fn is_unit(&self, d: usize) -> bool {
        self.unit.contains(&d)
    }
}

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
    /// The trip of the loop around the tiles of an iterator: each has its own part of the tile.
    Trip(usize),
    /// Rows of a window that slides and stays, a ring: where the axis is in the window, and how far that moved,
    /// modulo the size of the dimension.
    Ring(Box<Axis>, Slide),
    /// The only element of a dimension of the unit's operand.
    One,
    /// The iterator the unit works on; what else moves the window, divided by the stride; and the
    /// unit's own window: iterators of it that move in the same dimension, by so many steps each.
    Unit(usize, Vec<(usize, i64)>, i64, Vec<(usize, i64)>),
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
    pub forms: LinearMap,
    /// For each dimension of the source, how far from where the tile's first point is its first
    /// element lies: below 0 where iterators go backwards.
    pub low: Vec<i64>,
    /// For each dimension of the unit's operand, how many of the last dimensions it is together.
    pub joined: Vec<usize>,
}

impl Tile {
    /// The tile that a generic's operand needs: `map` gives the position in the source, `unit`
    /// the iterators of the unit's operand in the order of its dimensions, none for dimensions of
    /// one element. `None` if the operand cannot be a dense tile of the unit.
    pub fn new(space: &Space, map: &AffineMap, unit: &[Vec<usize>]) -> Option<Self> {
        let forms = map.linear()?;
        let order: Vec<usize> = unit.iter().flatten().copied().collect();
        let mut outer: Vec<Dim> = Vec::new();
        let mut inner: Vec<Option<Dim>> = vec![None; order.len()];
        for (s, form) in forms.iter().enumerate() {
            let terms: Vec<(usize, i64)> = form.terms().collect();
            if terms.iter().any(|(_, c)| *c < 0) {
                return None;
            }
            let (units, rest): (Vec<_>, Vec<_>) =
                terms.into_iter().partition(|(d, _)| space.is_unit(*d));
            // An iterator with a loop for each of its points moves the tile, nothing in it.
            let fixed = |d: usize| space.extent(d) == 1 && space.domain[d] > 1;
            let rest: Vec<(usize, i64)> = rest.into_iter().filter(|(d, _)| !fixed(*d)).collect();
            // One iterator counts the dimension; others of the unit are a window in it.
            let mut counts = units.iter().filter(|(d, _)| order.contains(d));
            let (Some(main), None) = (counts.next(), counts.next()) else {
                if units.iter().any(|(d, _)| space.shifted == Some(*d)) {
                    return None;
                }
                outer.extend(columns(space, s, &units, &rest));
                for (u, stride) in units {
                    let place = order.iter().position(|d| *d == u)?;
                    inner[place] = Some(unit_dim(space, s, u, stride));
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
                inner[place] = Some(unit_dim(space, s, u, stride));
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
            inner[place] = Some(Dim {
                axis: Axis::Unit(u, rest, stride, window),
                size,
                source: (s, stride),
            });
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
            forms,
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
        let joined = Vec::new();
        Some(Self {
            dims,
            forms,
            low,
            joined,
        })
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
        let joined = Vec::new();
        Some(Self {
            dims,
            forms,
            low,
            joined,
        })
    }

    /// A box in a tile of this shape that another nest reads: `map` gives each of its dimensions as an
    /// iterator, `unit` the iterators of the unit's result, one for each of its dimensions. `None` if the
    /// unit's results are not dense there.
    pub fn slot(
        space: &Space,
        map: &AffineMap,
        unit: &[Vec<usize>],
        slot: &crate::group::Slot,
    ) -> Option<Self> {
        let forms = map.linear()?;
        let outer = forms.len().checked_sub(unit.len())?;
        let mut dims = Vec::new();
        for (s, form) in forms.iter().enumerate() {
            let d = form.as_dim()?;
            let place = unit.iter().position(|dims| dims[..] == [d]);
            // The first dimension of the unit may be a part; those behind it are taken whole.
            let dense = match place {
                Some(0) => s == outer,
                Some(place) => s == outer + place && slot.shape[s] == space.block[d],
                None => s < outer,
            };
            if !dense {
                return None;
            }
            dims.push(Dim {
                axis: Axis::Slot(d, slot.at[s]),
                size: slot.shape[s],
                source: (s, 1),
            });
        }
        let low = vec![0; forms.len()];
        let joined = vec![1; unit.len()];
        Some(Self {
            dims,
            forms,
            low,
            joined,
        })
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
            joined: self.joined.clone(),
        })
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
    /// Where a step of the loop of an iterator moves a window over what it showed before: the dimension of the
    /// tile, and how far. What is still shown need not be loaded again.
    pub fn ring(&self, space: &Space, d: usize) -> Option<(usize, i64)> {
        let steps = self.step(space, d);
        let moving: Vec<usize> = (0..steps.len()).filter(|s| steps[*s] != 0).collect();
        let [s] = moving[..] else { return None };
        let slides = |dim: &Dim| {
            let window = matches!(dim.axis, Axis::Window(_));
            dim.source == (s, 1) && window && steps[s] > 0 && dim.size > steps[s]
        };
        let at = self.dims.iter().position(slides)?;
        Some((at, steps[s]))
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

#[cfg(test)]
mod tests {
    use super::*;
    use tir::AffineExpr;

    fn space(domain: &[i64], block: &[i64], tile: &[i64], unit: &[usize]) -> Space {
        Space {
            domain: domain.to_vec(),
            block: block.to_vec(),
            tile: tile.to_vec(),
            unit: unit.to_vec(),
            shifted: None,
        }
    }
    fn window(stride: i64, dilation: i64) -> AffineMap {
        // (p, k) -> (stride * p + dilation * k)
        let at = AffineExpr::Dim(0) * AffineExpr::Const(stride);
        let at = at + AffineExpr::Dim(1) * AffineExpr::Const(dilation);
        AffineMap::new(2, vec![at])
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
        let tile = Tile::new(&space, &map, &[vec![1, 0]]).expect("dense");
        // Blocks of rows and the kernel share a window; rows of a block lie there apart.
        assert_eq!(sizes(&tile), [(5, 1), (2, 8), (8, 1), (2, 1)]);
        assert_eq!(tile.unit_shape(), [5, 2, 16]);
        assert_eq!(
            tile.reassociation(),
            Some(vec![vec![0], vec![1], vec![2, 3]])
        );
    }
}
