//! A producer's iteration space, rewritten over the loops around a tile and the tile's dimensions.

use tir::{AffineExpr, AffineMap, Type};

use super::stage::{Around, Maker, No};
use crate::group::{Group, Input, Slot};
use crate::layout::{Axis, Tile};

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
                    let groups = "groups of what a producer computes begin inside of a tile";
                    let (quotient, rest) = at.divide(step).ok_or(No::Never(groups))?;
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
