//! What a nest would copy in another order, computed in that order by the group that computes what is copied.
//!
//! A copy from far memory to far memory, of pixels that are repeated or of dimensions in another order, needs what it copies there.
//! Where nobody else reads that, the group that computes it computes the copy itself: at each place of the copy it computes what
//! lies there, what is repeated as often. A product is computed again for each of the places of its result then; nothing is moved.

use std::collections::HashSet;

use tir::{AffineExpr, AffineMap, Type, Value};

use super::brought::{Copies, Load};
use super::{Candidate, Planner};
use crate::chain::partition::only_for;
use crate::group::{Group, Input, Out};

/// A part that is computed in another order than its group's result, instead of copied.
#[derive(Clone, Debug)]
pub(in crate::chain) struct Through {
    /// Which of the tensor's makers computes it.
    pub(super) maker: usize,
    /// What is copied otherwise.
    pub(super) load: Load,
}

impl Candidate {
    /// The same with parts copied that are computed in another order, if there are any.
    pub(super) fn with_copies(&self) -> Option<Self> {
        if self.through.is_empty() {
            return None;
        }
        let mut other = self.clone();
        let computed = |maker: usize| self.through.iter().all(|part| part.maker != maker);
        let left: Vec<usize> = (0..self.writers.len()).filter(|m| computed(*m)).collect();
        other.writers = left.iter().map(|maker| self.writers[*maker]).collect();
        other.places = left
            .iter()
            .map(|maker| self.places[*maker].clone())
            .collect();
        other.through.clear();
        let loads = self.through.iter().map(|part| part.load.clone());
        other.loads.extend(loads);
        // What is read by itself lies nowhere else.
        other.renumber(&left);
        if other.shared.len() < self.shared.len() {
            return None;
        }
        let first = other.writers.iter().chain(&other.readers).copied().max();
        other.life.1 = first.unwrap_or(0);
        Some(other)
    }
}

impl Planner<'_> {
    /// The single group that computes what a nest copies to get a value, for nothing else, or for what reads it where it is put
    /// (`shared`); by its number.
    pub(super) fn copied_from(
        &self,
        value: Value,
        shared: &dyn Fn(Value) -> bool,
    ) -> Option<usize> {
        let copies = self.copies(value)?;
        let source = copies.operand.source;
        let number = *self.made.stages.get(&source)?;
        let readers: HashSet<_> = copies.group.ops.iter().copied().collect();
        let single = &self.singles[number];
        let plain = single.group.outs.iter().all(|out| out.flat.is_none());
        let own =
            only_for(self.ir, source, &readers) || self.as_it_is(value) == source && shared(source);
        (plain && own).then_some(number)
    }

    /// What a nest copies to get a value, in the same order, if one does: a tensor is put into one other where it is computed, and
    /// copied for each further one.
    pub(super) fn as_it_is(&self, value: Value) -> Value {
        let same = |copies: &Copies<'_>| {
            let map = &copies.operand.map;
            let mut digits = copies.digits.iter().enumerate();
            let plain = digits.all(|(s, of)| of[..] == [s]);
            plain && map.is_identity() && map.exprs.len() == copies.digits.len()
        };
        let copies = self.copies(value).filter(same);
        copies.map_or(value, |copies| copies.operand.source)
    }

    /// A group that computes a value which is copied from its result.
    pub(super) fn through(&self, from: Group, value: Value) -> Option<Group> {
        let copies = self.copies(value)?;
        let [out] = &from.outs[..] else { return None };
        if out.value != copies.operand.source || from.core != from.domain.len() {
            return None;
        }
        let reductions: Vec<usize> = from.iterators(true).collect();
        let core = copies.group.domain.len();
        let dims = core + reductions.len();
        let mut places = vec![AffineExpr::Const(0); from.core];
        for (i, d) in reductions.iter().enumerate() {
            places[*d] = AffineExpr::Dim(core + i);
        }
        let counted = out.map.linear()?;
        for (form, at) in counted.iter().zip(&copies.operand.map.exprs) {
            match form.as_dim() {
                Some(d) => places[d] = at.clone(),
                None if form.terms().next().is_none() => {}
                None => return None,
            }
        }
        let counts = |d: usize| counted.iter().any(|form| form.at(d) != 0);
        if !from
            .iterators(false)
            .all(|d| from.domain[d] == 1 || counts(d))
        {
            return None;
        }
        let over = AffineMap::new(dims, places);
        let moved = |map: &AffineMap| {
            let forms = map.compose(&over).linear();
            forms.map(|forms| forms.affine(dims))
        };
        let order = AffineMap::project(dims, &(0..core).collect::<Vec<_>>());
        let mut group = from.clone();
        let own = reductions.iter().map(|d| from.domain[*d]);
        group.domain = copies.group.domain.iter().copied().chain(own).collect();
        group.core = dims;
        group.reductions = (0..dims).map(|d| d >= core).collect();
        group.whole = reductions
            .iter()
            .enumerate()
            .filter(|(_, d)| from.whole.contains(d))
            .map(|(i, _)| core + i)
            .collect();
        let steps = group.reduce.iter_mut().map(|(step, ..)| step);
        for step in steps.chain(&mut group.maps) {
            let maps = step.inputs.iter().zip(&step.maps);
            let maps = maps.map(|(input, map)| match input {
                Input::Operand(_) => moved(map),
                _ => Some(order.clone()),
            });
            step.maps = maps.collect::<Option<_>>()?;
            step.ty = Type::tensor(copies.group.domain.clone(), step.ty.elem());
        }
        for operand in &mut group.operands {
            operand.map = moved(&operand.map)?;
        }
        let dimension = |of: &Vec<usize>| {
            let terms = of.iter().enumerate().map(|(i, d)| {
                let step = of[i + 1..]
                    .iter()
                    .map(|d| copies.group.domain[*d])
                    .product();
                AffineExpr::Dim(*d) * AffineExpr::Const(step)
            });
            terms.reduce(|sum, term| sum + term)
        };
        let places = copies.digits.iter().map(dimension);
        let places = places.map(|place| place.unwrap_or(AffineExpr::Const(0)));
        group.outs = vec![Out {
            step: out.step,
            value,
            map: AffineMap::new(dims, places.collect()),
            flat: None,
        }];
        group.out = order;
        Some(group)
    }
}
