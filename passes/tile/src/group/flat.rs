//! Neighbouring iterators as one: rows and columns of an image are pixels.
//!
//! Two iterators are one where every tensor that a group reads or gives has them as two dimensions, one right
//! behind the other, all of both, or none of them. The tensors are then read and written as tensors of one dimension
//! less, which lie the same way. So blocks of a unit run on over the ends of rows.

use tir::{AffineExpr, AffineMap, Ir, Type};
use tir_tensor::{CollapseShape, groups};

use super::Group;

/// Which dimensions of a tensor each dimension is of the one that is read or written in its place.
pub type Flat = Vec<Vec<usize>>;

/// Where two iterators are neighbours in a map: nowhere, or at a dimension and the one behind. `None` if they are
/// there in another way.
fn place(group: &Group, map: &AffineMap, [a, b]: [usize; 2]) -> Option<Option<usize>> {
    let forms = map.linear()?;
    let moving = |s: usize| {
        let terms = forms[s].terms().filter(|(d, _)| group.domain[*d] > 1);
        terms.collect::<Vec<_>>()
    };
    let uses = |(d, s): &(usize, usize)| forms[*s].at(*d) != 0;
    let places = [a, b]
        .into_iter()
        .flat_map(|d| (0..forms.len()).map(move |s| (d, s)));
    let all: Vec<usize> = places.filter(uses).map(|(_, s)| s).collect();
    match all[..] {
        [] => Some(None),
        [s, next] => {
            let alone = |s: usize, d: usize| moving(s) == [(d, 1)] && forms[s].constant == 0;
            (next == s + 1 && alone(s, a) && alone(next, b)).then_some(Some(s))
        }
        _ => None,
    }
}

/// A map with one dimension for two.
fn merged(map: &mut AffineMap, s: usize, a: usize) {
    map.exprs.remove(s + 1);
    map.exprs[s] = AffineExpr::Dim(a);
}

/// Of a tensor the dimensions that become one.
pub(super) fn join(flat: &mut Option<Flat>, rank: usize, s: usize) {
    let dims = flat.get_or_insert_with(|| (0..rank).map(|d| vec![d]).collect());
    let next = dims.remove(s + 1);
    dims[s].extend(next);
}

impl Group {
    /// The same group with all neighbouring iterators as one that can be; `None` if none can.
    pub fn flat(&self) -> Option<Self> {
        if self.has_inner() || self.core < self.domain.len() || self.outs.len() != 1 {
            return None;
        }
        let mut group = self.clone();
        let pairs = || (0..self.core).flat_map(|a| (0..self.core).map(move |b| [a, b]));
        let mut any = false;
        while let Some(next) = pairs().find_map(|pair| group.joined(pair)) {
            (group, any) = (next, true);
        }
        any.then_some(group)
    }

    /// The same group with what its readers see in the place of its result, where that is nothing but the result with the dimensions
    /// as one that are one for the group, as channels and groups of them are: a tensor as any other.
    pub fn as_read(mut self, ir: &Ir) -> Self {
        if let [out] = &mut self.outs[..]
            && let Some(flat) = &out.flat
            && let mut uses = ir.uses(out.value)
            && let (Some(only), None) = (uses.next(), uses.next())
            && let Some(view) = ir.get::<CollapseShape>(only.op)
            && let Some(shape) = ir.ty(out.value).shape()
            && groups(&view.reassociation, shape.len()).is_ok_and(|dims| dims == *flat)
        {
            (out.value, out.flat) = (ir.result(only.op, 0), None);
        }
        self
    }

    /// The same group with two iterators as one, which is the first; the second has one point then.
    fn joined(&self, [a, b]: [usize; 2]) -> Option<Self> {
        let several = self.domain[a] > 1 && self.domain[b] > 1;
        let whole = self.whole.contains(&a) || self.whole.contains(&b);
        if a == b || !several || whole || self.reductions[a] != self.reductions[b] {
            return None;
        }
        let pair = [a, b];
        let mut group = self.clone();
        let mut found = false;
        for operand in &mut group.operands {
            let Some(s) = place(self, &operand.map, pair)? else {
                continue;
            };
            if operand.shape[s..s + 2] != [self.domain[a], self.domain[b]] {
                return None;
            }
            merged(&mut operand.map, s, a);
            join(&mut operand.flat, operand.shape.len(), s);
            let inner = operand.shape.remove(s + 1);
            operand.shape[s] *= inner;
            found = true;
        }
        let out = group.outs.first_mut()?;
        let mut shape = self.result()?.shape()?.to_vec();
        if let Some(s) = place(self, &out.map, pair)? {
            merged(&mut out.map, s, a);
            join(&mut out.flat, shape.len(), s);
            let inner = shape.remove(s + 1);
            shape[s] *= inner;
            found = true;
        }
        if let Some(s) = place(self, &group.out, pair)? {
            merged(&mut group.out, s, a);
        }
        let steps = group.reduce.iter_mut().map(|(step, ..)| step);
        for step in steps.chain(&mut group.maps) {
            for map in &mut step.maps {
                if let Some(s) = place(self, map, pair)? {
                    merged(map, s, a);
                }
            }
            step.ty = Type::tensor(shape.clone(), step.ty.elem());
        }
        group.domain[a] *= self.domain[b];
        group.domain[b] = 1;
        found.then_some(group)
    }
}
