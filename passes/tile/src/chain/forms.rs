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

impl Forms<'_> {
    /// Position in a dimension of the tensor over the loops and the dimensions of the tile.
    fn position(&self, s: usize, at: i64) -> AffineExpr {
        let mut at = (self.begin)(s) - at;
        let mut sum: Option<AffineExpr> = None;
        let mut add = |d: usize, c: i64| {
            if c != 0 {
                let term = AffineExpr::Dim(d) * AffineExpr::Const(c);
                sum = Some(match sum.take() {
                    Some(sum) => sum + term,
                    None => term,
                });
            }
        };
        for (k, around) in self.loops.iter().enumerate() {
            add(k, (self.step)(s, around));
        }
        for (t, dim) in self.tile.dims.iter().enumerate() {
            if dim.source.0 == s && dim.source.1 != 0 {
                add(self.loops.len() + t, dim.source.1);
                at += self.inside[t].0 * dim.source.1;
            }
        }
        match sum {
            Some(sum) if at == 0 => sum,
            Some(sum) => sum + AffineExpr::Const(at),
            None => AffineExpr::Const(at),
        }
    }

    /// A group that computes the tile, or its part of it.
    pub(super) fn producer(&self, maker: &Maker<'_>, slot: Slot) -> Result<Group, No> {
        let from = maker.group;
        let never = No::Never("a producer's result has another order");
        let Some(places) = from.outs.first().and_then(|out| out.map.as_projection()) else {
            return Err(never);
        };
        let reductions: Vec<usize> = from.iterators(true).collect();
        let (loops, rank) = (self.loops.len(), self.tile.dims.len());
        let dims = loops + rank + reductions.len();
        let mut exprs = vec![AffineExpr::Const(0); from.core];
        for (i, d) in reductions.iter().enumerate() {
            exprs[*d] = AffineExpr::Dim(loops + rank + i);
        }
        for d in from.iterators(false) {
            let s = places.iter().position(|p| *p == d);
            if s.is_none() && from.domain[d] == 1 {
                continue;
            }
            let s = s.ok_or(No::Never("a producer's result has another order"))?;
            exprs[d] = self.position(s, maker.at.get(s).copied().unwrap_or(0));
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
