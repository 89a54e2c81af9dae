//! Groups of few channels as one: what a unit of 16 channels multiplies is four groups of 4, with zeros in one factor
//! between one group and another, along the diagonal.
//!
//! A product of `g` groups, each of `k` outputs and `c` summed inputs, is one of `g / times` groups of `times · k`
//! outputs and `times · c` inputs: the first factor is read as it lies, the second one is [`Diagonal`]. There is no tensor
//! of that form anywhere; a transfer reads what lies between the groups outside of its source.
//!
//! Where a group has one output or sums one input, as in a depthwise convolution, no iterator counts them: one of a
//! single point is added first.

use std::borrow::Cow;

use tir::{AffineExpr, AffineMap, LinearExpr, LinearMap, Type};

use super::{Group, Input, Operand};
use crate::layout::{Axis, Space, Tile};

/// How an operand is read whose blocks are the diagonal of another tensor: row `o` of a block, column `i`, is row `o`,
/// column `i - columns · ⌊o / rows⌋` of the tensor, with `o` counted within `times · rows`; what lies outside is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Diagonal {
    /// The dimension of the rows.
    pub row: usize,
    /// Rows of a block.
    pub rows: i64,
    /// The dimension of the columns.
    pub column: usize,
    /// Columns of a block: all of the tensor.
    pub columns: i64,
    /// Blocks of which each diagonal is made.
    pub times: i64,
}

/// A tile as a transfer fills it from the tensor whose blocks are the diagonal.
pub struct Spread {
    /// The shape of the transfer's tile.
    pub shape: Vec<i64>,
    /// Distance in the tensor of each position of it.
    pub access: LinearMap,
    /// Which of its dimensions each dimension of the tile is.
    pub dims: Vec<Vec<usize>>,
}

impl Diagonal {
    /// The transfer that fills a tile which begins with the first row of a diagonal; `None` if rows of a block are no
    /// dimension of the tile.
    pub fn spread(&self, tile: &Tile) -> Option<Spread> {
        let rank = tile.forms.len();
        let all = self.rows.checked_mul(self.times)?;
        let (mut shape, mut dims) = (Vec::new(), Vec::new());
        let mut steps: Vec<Vec<i64>> = Vec::new();
        let mut reach = 1;
        for dim in &tile.dims {
            let (s, step) = dim.source;
            let mut own = vec![shape.len()];
            let mut at = vec![0; rank];
            if let Some(at) = at.get_mut(s) {
                *at = step;
            }
            if s != self.row || dim.size == 1 || step % all == 0 {
                shape.push(dim.size);
                steps.push(at);
                dims.push(own);
                continue;
            }
            // What moves along the rows of one diagonal is the rows of the unit, and all of them.
            let unit = matches!(&dim.axis, Axis::Unit(_, rest, 1, own) if rest.is_empty() && own.is_empty());
            if !unit || step != 1 || dim.size % self.rows != 0 || dim.size < all {
                return None;
            }
            reach = dim.size / self.rows;
            at[self.row] = self.rows;
            at[self.column] = -self.columns;
            own.push(shape.len() + 1);
            shape.extend([reach, self.rows]);
            let mut row = vec![0; rank];
            row[self.row] = 1;
            steps.extend([at, row]);
            dims.push(own);
        }
        let access = (0..rank)
            .map(|s| LinearExpr::new(steps.iter().map(|at| at[s]).collect(), 0))
            .collect();
        (reach >= self.times).then_some(Spread {
            shape,
            access,
            dims,
        })
    }
}

/// The iterators of a product in groups, and what of it is where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grouped {
    /// The iterator of the groups.
    pub group: usize,
    /// That of a group's outputs.
    pub row: usize,
    /// That of its inputs, which are summed.
    pub column: usize,
    /// The operand that is read by groups and inputs.
    pub image: usize,
    /// The one that is read by outputs and inputs: the weights.
    pub weights: usize,
    /// Which input of the reduction the weights are.
    pub input: usize,
}

/// What a dimension counts: groups and something within them, side by side.
fn nested(form: &LinearExpr, group: usize, inner: usize, size: i64) -> bool {
    form.constant == 0 && form.terms().count() == 2 && form.at(group) == size && form.at(inner) == 1
}

impl Operand {
    /// Whether a transfer fills a tile of it.
    pub fn fits(&self, space: &Space, tile: &Tile) -> bool {
        let Some(diagonal) = &self.diagonal else {
            return true;
        };
        // Tiles begin with the first row of a diagonal.
        let whole = |d: usize, step: i64| {
            step % (diagonal.rows * diagonal.times) == 0 || space.trips(d) == 1
        };
        let mut rows = tile.forms[diagonal.row].terms();
        rows.all(|(d, step)| whole(d, step)) && diagonal.spread(tile).is_some()
    }
}

impl Group {
    /// The ways in which it is a product in groups, each with the group that has the iterators for it: this one, or it
    /// with iterators of one point for the output or the input of each group.
    pub fn grouped(&self) -> Vec<(Cow<'_, Self>, Grouped)> {
        let mut found = Vec::new();
        let Some((step, ..)) = &self.reduce else {
            return found;
        };
        let [Input::Operand(a), Input::Operand(b)] = step.inputs[..] else {
            return found;
        };
        let plain = self.outs.len() == 1
            && self.core == self.domain.len()
            && self.outer == 0
            && self.into.is_none()
            && !self.has_inner();
        if a == b || !plain {
            return found;
        }
        for (image, weights, input) in [(a, b, 1), (b, a, 0)] {
            let all = (0..self.core).flat_map(|g| (0..self.core).map(move |o| (g, o)));
            let all = all.flat_map(|(g, o)| (0..self.core).map(move |i| (g, o, i)));
            let all = all.filter(|(_, o, i)| self.domain[*o] > 1 && self.domain[*i] > 1);
            found.extend(all.filter_map(|(group, row, column)| {
                let of = Grouped {
                    group,
                    row,
                    column,
                    image,
                    weights,
                    input,
                };
                self.diagonal(&of, 1).map(|_| (Cow::Borrowed(self), of))
            }));
            let single = (0..self.core).filter_map(|g| self.with_single(g, image, weights, input));
            found.extend(single.map(|(group, of)| (Cow::Owned(group), of)));
        }
        found
    }

    /// The group with iterators of one point for the output of each of its groups, or for the input that each sums, or for
    /// both, if no iterator counts them.
    fn with_single(
        &self,
        g: usize,
        image: usize,
        weights: usize,
        input: usize,
    ) -> Option<(Self, Grouped)> {
        let rows = self.operands[weights].map.linear()?;
        let read = self.operands[image].map.linear()?;
        let row = rows.iter().position(|form| form.at(g) != 0)?;
        let at = read.iter().position(|form| form.at(g) != 0)?;
        // Whether groups alone are counted, or what else is counted within them.
        let within = |form: &LinearExpr, reduction: bool| match form.as_dim() {
            Some(_) => Some(None),
            None => {
                let mut all = (0..self.core).filter(|d| self.reductions[*d] == reduction);
                let inner = all.find(|d| nested(form, g, *d, self.domain[*d]))?;
                Some(Some(inner))
            }
        };
        let (output, summed) = (within(&rows[row], false)?, within(&read[at], true)?);
        let column = match summed {
            Some(i) => rows.iter().position(|form| form.as_dim() == Some(i))?,
            None => {
                let shape = &self.operands[weights].shape;
                let mut fixed = (0..rows.len()).filter(|s| rows[*s].terms().next().is_none());
                fixed.find(|s| rows[*s].constant == 0 && shape[*s] == 1)?
            }
        };
        let mut group = self.clone();
        let mut add = |reduction: bool| {
            group.domain.push(1);
            group.reductions.push(reduction);
            group.core += 1;
            group.core - 1
        };
        let o = output.unwrap_or_else(|| add(false));
        let i = summed.unwrap_or_else(|| add(true));
        if group.core == self.core {
            return None;
        }
        // Where groups are counted, the new iterator is beside them.
        let beside = |new: Option<usize>| {
            let places = (0..self.core).map(|d| match new {
                Some(new) if d == g => AffineExpr::Dim(g) + AffineExpr::Dim(new),
                _ => AffineExpr::Dim(d),
            });
            AffineMap::new(group.core, places.collect())
        };
        let outputs = beside(output.is_none().then_some(o));
        let inputs = beside(summed.is_none().then_some(i));
        // What a step reads of the weights may have other dimensions than they have in far memory.
        let placed = |map: &AffineMap, n: Option<usize>| match n {
            Some(n) if n == image => Some(map.compose(&inputs)),
            Some(n) if n == weights => {
                let mut map = map.compose(&outputs);
                if summed.is_none() {
                    let none = AffineExpr::Const(0);
                    let fixed = map.exprs.get(column).filter(|at| **at == none);
                    fixed?;
                    map.exprs[column] = AffineExpr::Dim(i);
                }
                Some(map)
            }
            _ => Some(map.compose(&outputs)),
        };
        for (n, operand) in group.operands.iter_mut().enumerate() {
            operand.map = placed(&operand.map, Some(n))?;
        }
        if let Some((step, ..)) = &mut group.reduce {
            for (map, of) in step.maps.iter_mut().zip(&step.inputs) {
                let n = match of {
                    Input::Operand(n) => Some(*n),
                    Input::Reduced | Input::Mapped(_) => None,
                };
                *map = placed(map, n)?;
            }
        }
        for map in group.maps.iter_mut().flat_map(|step| &mut step.maps) {
            *map = map.compose(&outputs);
        }
        for out in &mut group.outs {
            out.map = out.map.compose(&outputs);
        }
        group.out = group.out.compose(&outputs);
        let of = Grouped {
            group: g,
            row: o,
            column: i,
            image,
            weights,
            input,
        };
        group.diagonal(&of, 1)?;
        Some((group, of))
    }

    /// How the weights of a product in groups are read if so many groups are one; `None` if they are not read so.
    fn diagonal(&self, of: &Grouped, times: i64) -> Option<Diagonal> {
        let (g, o, i) = (of.group, of.row, of.column);
        let parallel = [g, o].iter().all(|d| !self.reductions[*d]);
        let counted = self.domain[g] > 1;
        if !parallel || !self.reductions[i] || !counted || g == o || self.whole.contains(&i) {
            return None;
        }
        let (rows, columns) = (self.domain[o], self.domain[i]);
        let weights = &self.operands[of.weights];
        let image = &self.operands[of.image];
        let forms = weights.map.linear()?;
        let row = forms.iter().position(|form| form.at(g) != 0)?;
        let column = forms.iter().position(|form| form.at(i) != 0)?;
        let others = (0..forms.len()).filter(|s| ![row, column].contains(s));
        let apart = others
            .into_iter()
            .all(|s| [g, o, i].iter().all(|d| forms[s].at(*d) == 0));
        let whole = nested(&forms[row], g, o, rows)
            && weights.shape[row] == rows * self.domain[g]
            && forms[column].as_dim() == Some(i)
            && weights.shape[column] == columns;
        let read = image.map.linear()?;
        let at = read.iter().position(|form| form.at(g) != 0)?;
        let image = nested(&read[at], g, i, columns)
            && image.shape[at] == columns * self.domain[g]
            && read.iter().enumerate().all(|(s, form)| {
                form.at(o) == 0 && (s == at || form.at(g) == 0 && form.at(i) == 0)
            });
        let free = !weights.leaves && weights.padding.is_none() && !weights.made && !weights.near;
        (apart && whole && image && free && weights.flat.is_none()).then_some(Diagonal {
            row,
            rows,
            column,
            columns,
            times,
        })
    }

    /// The same group with so many of its groups as one; `None` if what else it reads or what it gives has no place for
    /// them.
    pub fn join(&self, of: &Grouped, times: i64) -> Option<Self> {
        let diagonal = self.diagonal(of, times)?;
        if times < 2 || self.domain[of.group] % times != 0 {
            return None;
        }
        let (g, o, i) = (of.group, of.row, of.column);
        let mut group = self.clone();
        group.domain[g] /= times;
        group.domain[o] *= times;
        group.domain[i] *= times;
        for (n, operand) in group.operands.iter_mut().enumerate() {
            let (map, pair) = self.within(&operand.map, of, times)?;
            // A tensor with a dimension for groups and one for what is within them is read as one with both in one.
            if let Some(s) = pair {
                if operand.shape[s..s + 2] != [self.domain[g], self.domain[o]] {
                    return None;
                }
                super::flat::join(&mut operand.flat, operand.shape.len(), s);
                let inner = operand.shape.remove(s + 1);
                operand.shape[s] *= inner;
            }
            operand.map = map;
            if n == of.weights {
                operand.diagonal = Some(diagonal);
                operand.shape[diagonal.column] *= times;
            }
        }
        let out = group.outs.first_mut()?;
        let mut shape = self.result()?.shape()?.to_vec();
        let (map, pair) = self.within(&out.map, of, times)?;
        out.map = map;
        if let Some(s) = pair {
            if shape[s..s + 2] != [self.domain[g], self.domain[o]] {
                return None;
            }
            super::flat::join(&mut out.flat, shape.len(), s);
            let inner = shape.remove(s + 1);
            shape[s] *= inner;
        }
        group.out = self.within(&group.out, of, times)?.0;
        let steps = group.reduce.iter_mut().map(|(step, ..)| step);
        for step in steps.chain(&mut group.maps) {
            for map in &mut step.maps {
                *map = self.within(map, of, times)?.0;
            }
            step.ty = Type::tensor(shape.clone(), step.ty.elem());
        }
        Some(group)
    }

    /// A map where so many groups are one, and the dimension of groups that is one with that behind it, if they were
    /// two. `None` if groups, or what is within them, are anywhere else.
    fn within(
        &self,
        map: &AffineMap,
        of: &Grouped,
        times: i64,
    ) -> Option<(AffineMap, Option<usize>)> {
        let forms = map.linear()?;
        let (g, o, i) = (of.group, of.row, of.column);
        let inside: Vec<usize> = [o, i]
            .into_iter()
            .filter(|d| forms.iter().any(|form| form.at(*d) != 0))
            .collect();
        let mut moving = (0..forms.len()).filter(|s| forms[*s].at(g) != 0);
        let Some(s) = moving.next() else {
            return inside.is_empty().then(|| (map.clone(), None));
        };
        if moving.next().is_some() {
            return None;
        }
        let both = |d: usize| {
            let size = self.domain[d].checked_mul(times)?;
            let at = AffineExpr::Dim(g) * AffineExpr::Const(size) + AffineExpr::Dim(d);
            Some(at)
        };
        let mut map = map.clone();
        if let Some(d) = inside
            .iter()
            .find(|d| nested(&forms[s], g, **d, self.domain[**d]))
        {
            map.exprs[s] = both(*d)?;
            return Some((map, None));
        }
        let [d] = inside[..] else { return None };
        let apart = d == o
            && forms[s].as_dim() == Some(g)
            && forms
                .get(s + 1)
                .is_some_and(|form| form.as_dim() == Some(d));
        if !apart {
            return None;
        }
        map.exprs.remove(s + 1);
        map.exprs[s] = both(d)?;
        Some((map, Some(s)))
    }
}
