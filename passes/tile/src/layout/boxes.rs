//! Tiles that are boxes: of what no unit takes, of what is only moved, and in a tile that another nest reads; and
//! where the elements of one are in another.

use std::sync::Arc;

use tir::{AffineMap, LinearExpr, LinearMap};

use super::{Axis, Dim, Space, Tile};
use crate::group::Slot;

impl Tile {
    /// The tile of an operand that no unit takes: the box of the source that is touched.
    pub fn plain(space: &Space, forms: &Arc<LinearMap>) -> Self {
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
        Self {
            dims,
            forms: Arc::clone(forms),
            low,
            joined,
        }
    }

    /// The tile of what is only moved: a dimension for each iterator, in this order. `None` if an
    /// iterator steps in more than one dimension of the source.
    pub fn moved(space: &Space, forms: &Arc<LinearMap>, order: &[usize]) -> Option<Self> {
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
            forms: Arc::clone(forms),
            low,
            joined,
        })
    }

    /// A box in a tile of this shape that another nest reads: `forms` gives each of its dimensions as an
    /// iterator, `unit` the iterators of the unit's result, one for each of its dimensions. `None` if the
    /// unit's results are not dense there.
    pub fn slot(
        space: &Space,
        forms: &Arc<LinearMap>,
        unit: &[Vec<usize>],
        slot: &Slot,
    ) -> Option<Self> {
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
            forms: Arc::clone(forms),
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
            forms: Arc::new(map.linear()?),
            low: vec![0; places.len()],
            joined: self.joined.clone(),
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
}
