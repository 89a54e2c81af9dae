//! A producer's iteration space, rewritten over the loops around a tile and the tile's dimensions.

use std::sync::Arc;

use tir::{AffineExpr, AffineMap, Type};

use super::stage::{Around, Maker, No};
use crate::group::{Cut, Group, Input, Slot};
use crate::layout::{Axis, Dim, Tile};

/// Why a group computes no part of a tile whose rows are no whole groups of what the group's iterators count.
pub(super) const INSIDE: &str = "groups of what a producer computes begin inside of a tile";

/// Where the elements of a tile are in its tensor.
pub(super) struct Forms<'a> {
    pub(super) tile: &'a Tile,
    /// Position of the first one in the first step.
    pub(super) begin: &'a dyn Fn(usize) -> i64,
    /// How far a loop moves it.
    pub(super) step: &'a dyn Fn(usize, &Around) -> i64,
    pub(super) loops: &'a [Around],
    /// The indices that are computed.
    pub(super) inside: &'a [(i64, i64)],
}

/// A tile with those of its dimensions as several that count several iterators of what computes it.
pub(super) struct Cuts {
    pub(super) tile: Arc<Tile>,
    /// The indices that are computed.
    pub(super) inside: Vec<(i64, i64)>,
    /// The sizes of the dimensions.
    pub(super) shape: Vec<i64>,
    /// How the dimensions of the tile became these; empty if they did not.
    pub(super) cut: Vec<Cut>,
    /// By dimension of the tensor, where the boxes begin of which dimensions are several, from the first element of the tile on.
    pub(super) begin: Vec<i64>,
}

impl Cuts {
    /// A tile as it is.
    pub(super) fn none(tile: &Arc<Tile>, inside: Vec<(i64, i64)>, shape: Vec<i64>) -> Self {
        Self {
            begin: vec![0; tile.forms.len()],
            tile: Arc::clone(tile),
            inside,
            shape,
            cut: Vec::new(),
        }
    }

    /// The same with a dimension for each iterator of a group that steps over all elements which a unit reads apart; and only the box of
    /// what is computed in dimensions in which the group reads what lies beside it: what it writes is no part of that then.
    pub(super) fn by(self, group: &Group, read: &[usize]) -> Result<Self, &'static str> {
        let Some(digits) = group.digits() else {
            return Ok(self);
        };
        let units = self.tile.joined.iter().sum::<usize>();
        let first = self.tile.dims.len().saturating_sub(units);
        let sizes = |t: usize| -> Vec<i64> {
            let (source, step) = self.tile.dims[t].source;
            let (mut left, mut sizes) = (self.inside[t].1, Vec::new());
            let Some(of) = digits.get(source).filter(|_| t < first && step > 0) else {
                return sizes;
            };
            // Elements that an iterator steps over in all, the fewest first.
            let steps = (1..of.len()).rev();
            let steps = steps.map(|i| of[i..].iter().map(|d| group.domain[*d]).product::<i64>());
            let mut inner = step;
            for over in steps {
                let own = over / inner.max(1);
                if over % inner == 0 && 1 < own && own < left && left % own == 0 {
                    sizes.insert(0, own);
                    (left, inner) = (left / own, over);
                }
            }
            if !sizes.is_empty() || read.contains(&source) {
                sizes.insert(0, left);
            }
            sizes
        };
        let all: Vec<Vec<i64>> = (0..self.tile.dims.len()).map(sizes).collect();
        // Blocks of a unit are taken as they are: there are blocks of others beside them.
        let boxed = |s: &usize| {
            let own = all.iter().zip(&self.tile.dims);
            let mut own = own.filter(|(_, dim)| dim.source.0 == *s && dim.source.1 != 0);
            own.any(|(sizes, _)| !sizes.is_empty())
        };
        let inside = self.inside.iter().zip(&self.tile.dims).skip(first);
        let mut inside = inside.filter(|(_, dim)| read.contains(&dim.source.0));
        let whole = inside.all(|((start, size), dim)| (*start, *size) == (0, dim.size));
        if !read.iter().all(boxed) || !whole {
            return Err("what computes a part reads others that lie in its blocks");
        }
        if all.iter().all(Vec::is_empty) {
            return Ok(self);
        }
        let mut cuts = Self {
            tile: Arc::new(Tile {
                dims: Vec::new(),
                ..Tile::clone(&self.tile)
            }),
            inside: Vec::new(),
            shape: Vec::new(),
            cut: Vec::new(),
            begin: self.begin,
        };
        let dims = &mut Arc::make_mut(&mut cuts.tile).dims;
        for (t, sizes) in all.into_iter().enumerate() {
            let (dim, inside) = (&self.tile.dims[t], self.inside[t]);
            if sizes.is_empty() {
                dims.push(dim.clone());
                cuts.inside.push(inside);
                cuts.shape.push(self.shape[t]);
            } else {
                cuts.begin[dim.source.0] += inside.0 * dim.source.1;
            }
            for (i, size) in sizes.iter().enumerate() {
                let over: i64 = sizes[i + 1..].iter().product();
                let (source, step) = dim.source;
                dims.push(Dim {
                    source: (source, step * over),
                    size: *size,
                    ..dim.clone()
                });
                // The box that the dimensions are of begins where they do.
                cuts.inside.push((0, *size));
                cuts.shape.push(*size);
            }
            cuts.cut.push(Cut {
                start: inside.0,
                sizes,
            });
        }
        Ok(cuts)
    }
}

/// A position as a sum of what loops and dimensions of a tile count.
#[derive(Default)]
struct Position {
    terms: Vec<Term>,
    constant: i64,
}

/// How far one of them moves it, and how many points it has.
#[derive(Clone, Copy)]
struct Term {
    dim: usize,
    step: i64,
    points: i64,
}

impl Position {
    fn affine(&self) -> AffineExpr {
        let term = |term: &Term| AffineExpr::Dim(term.dim) * AffineExpr::Const(term.step);
        let sum = self.terms.iter().map(term).reduce(|sum, term| sum + term);
        match sum {
            Some(sum) if self.constant == 0 => sum,
            Some(sum) => sum + AffineExpr::Const(self.constant),
            None => AffineExpr::Const(self.constant),
        }
    }

    /// The quotient and the rest of a division, if the rest stays below the divisor wherever the position is: what moves in
    /// whole steps is the quotient's.
    fn divide(self, by: i64) -> Option<(Self, Self)> {
        let single = |term: &Term| term.points == 1;
        let terms = self.terms.into_iter().filter(|term| !single(term));
        let (whole, part): (Vec<Term>, Vec<Term>) = terms.partition(|term| term.step % by == 0);
        let rest = Self {
            terms: part,
            constant: self.constant.rem_euclid(by),
        };
        let most = rest.terms.iter().try_fold(rest.constant, |most, term| {
            let reach = term.step.checked_mul(term.points - 1)?;
            (reach >= 0).then(|| most.saturating_add(reach))
        })?;
        let quotient = Self {
            terms: whole
                .into_iter()
                .map(|term| Term {
                    step: term.step / by,
                    ..term
                })
                .collect(),
            constant: self.constant.div_euclid(by),
        };
        (most < by).then_some((quotient, rest))
    }
}

impl Forms<'_> {
    /// Position in a dimension of the tensor over the loops and the dimensions of the tile.
    fn position(&self, s: usize, at: i64) -> Position {
        let mut sum = Position {
            terms: Vec::new(),
            constant: (self.begin)(s) - at,
        };
        let mut add = |dim: usize, step: i64, points: i64| {
            if step != 0 {
                sum.terms.push(Term { dim, step, points });
            }
        };
        for (k, around) in self.loops.iter().enumerate() {
            add(k, (self.step)(s, around), around.trips);
        }
        for (t, dim) in self.tile.dims.iter().enumerate() {
            if dim.source.0 == s && dim.source.1 != 0 {
                let (first, points) = self.inside[t];
                add(self.loops.len() + t, dim.source.1, points);
                sum.constant += first * dim.source.1;
            }
        }
        sum
    }

    /// A group that computes the tile, or its part of it.
    pub(super) fn producer(&self, maker: &Maker<'_>, slot: Slot) -> Result<Group, No> {
        let from = maker.group;
        let never = "a producer's result has another order";
        let digits = from.digits().ok_or(No::Never(never))?;
        let reductions: Vec<usize> = from.iterators(true).collect();
        let (loops, rank) = (self.loops.len(), self.tile.dims.len());
        let dims = loops + rank + reductions.len();
        let mut exprs = vec![AffineExpr::Const(0); from.core];
        for (i, d) in reductions.iter().enumerate() {
            exprs[*d] = AffineExpr::Dim(loops + rank + i);
        }
        let counts = |d: &usize| digits.iter().any(|of| of.contains(d));
        if !from
            .iterators(false)
            .all(|d| from.domain[d] == 1 || counts(&d))
        {
            return Err(No::Never(never));
        }
        for (s, of) in digits.iter().enumerate() {
            let mut at = self.position(s, maker.at.get(s).copied().unwrap_or(0));
            for (i, d) in of.iter().enumerate() {
                let step = of[i + 1..].iter().map(|d| from.domain[*d]).product::<i64>();
                if step > 1 {
                    let (quotient, rest) = at.divide(step).ok_or(No::Never(INSIDE))?;
                    exprs[*d] = quotient.affine();
                    at = rest;
                } else {
                    exprs[*d] = at.affine();
                    at = Position::default();
                }
            }
        }
        let over = AffineMap::new(dims, exprs);
        // Linear forms in one normal form, so that equal stages have equal signatures.
        let moved = |map: &AffineMap| {
            let map = map.compose(&over);
            map.linear().map(|forms| forms.affine(dims))
        };
        let no = || No::Never("a producer reads at no linear place");
        let out: Vec<usize> = (loops..loops + rank).collect();
        let out = AffineMap::project(dims, &out);
        let mut group = from.clone();
        let trips = self.loops.iter().map(|around| around.trips);
        let sizes = self.inside.iter().map(|(_, size)| *size);
        let own = reductions.iter().map(|d| from.domain[*d]);
        group.domain = trips.chain(sizes).chain(own).collect();
        group.core = dims;
        group.reductions = (0..dims).map(|d| d >= loops + rank).collect();
        group.whole.clear();
        for step in group
            .reduce
            .iter_mut()
            .map(|(step, ..)| step)
            .chain(&mut group.maps)
        {
            let maps = step
                .inputs
                .iter()
                .zip(&step.maps)
                .map(|(input, map)| match input {
                    Input::Operand(_) => moved(map),
                    _ => Some(out.clone()),
                });
            step.maps = maps.collect::<Option<_>>().ok_or_else(no)?;
            step.ty = Type::tensor(slot.shape.clone(), step.ty.elem());
        }
        // What computes several interleaved sequences reads as many.
        let mut dims = self.tile.dims.iter().zip(self.inside);
        let joint = dims.any(|(dim, inside)| matches!(dim.axis, Axis::Phase(..)) && inside.1 > 1);
        for operand in &mut group.operands {
            operand.map = moved(&operand.map).ok_or_else(no)?;
            operand.joint = joint;
        }
        for step in &mut group.outs {
            step.map = out.clone();
        }
        group.out = out;
        group.outer = loops;
        group.into = Some(slot);
        Ok(group)
    }
}
