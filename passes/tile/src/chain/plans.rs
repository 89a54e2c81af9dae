//! The plans of stages, remembered by what they depend on.

use std::sync::Arc;

use tir::pass::Memo;

use super::reach::ends;
use super::stage::Context;
use crate::group::{Group, Signature};
use crate::plan::{Budget, Plan, slides_near, stages};

/// The plans of stages by their signatures: many roots read the same tile, and one root ends many chains.
pub(super) type Known = Memo<Signature, Arc<Vec<Plan>>>;

/// The plans of nests beside what stays, by their signatures and how what they read lies in near memory; none where there is no
/// way to compute one.
pub(super) type Nests = Memo<Signature, Option<Plan>>;

impl Context<'_> {
    /// Whether the least that a producer loads at once may be more than what is free.
    fn divides(&self, group: &Group) -> bool {
        let summed = |d: usize| group.reductions[d];
        let bytes = group.operands.iter().filter(|o| !o.made).map(|operand| {
            let used = (group.outer..group.core).filter(|d| {
                let mut places = operand.map.exprs.iter();
                places.any(|e| e.uses(*d))
            });
            let used: Vec<usize> = used.collect();
            let elem = self.ir.ty(operand.source).elem().bytes().unwrap_or(1) as i64;
            let all = used.iter().map(|d| group.domain[*d]);
            let parts = used.iter().any(|d| summed(*d));
            let bytes = all.fold(elem, i64::saturating_mul);
            if parts { bytes } else { 0 }
        });
        let near = self.target.near;
        bytes.fold(0, i64::saturating_add) > self.budget.free(near) / 2
    }

    /// The plans of a stage, the quickest first.
    pub(super) fn plans(&self, group: &Group) -> Arc<Vec<Plan>> {
        self.plans_with(group, false)
    }

    /// The plans of the last stage of a nest, the quickest first. Where windows slide over what lies near and none that does not divide them
    /// reads that as it lies, they are divided, so that less of their weights is there at a time.
    pub(super) fn plans_of_root(&self, group: &Group) -> Arc<Vec<Plan>> {
        let plans = self.plans(group);
        let divided = group.into.as_ref().is_some_and(|slot| slot.divided);
        let slides = |d: usize| group.reductions[d] && slides_near(group, d);
        let suits = |plan: &Plan| self.suits(group, plan);
        match divided && (0..group.core).any(slides) && !plans.iter().any(suits) {
            true => self.plans_with(group, true),
            false => plans,
        }
    }

    fn plans_with(&self, group: &Group, windows: bool) -> Arc<Vec<Plan>> {
        let Budget {
            bytes,
            limit,
            shifts,
            ..
        } = self.budget;
        let parts = group.into.is_some() && self.most < i64::MAX;
        let mut signature = Signature::default();
        signature.numbers([bytes]);
        signature.count(limit);
        signature.flag(parts);
        signature.flag(windows);
        signature.flag(shifts);
        signature.group(self.ir, group);
        self.known.or_find(signature, || {
            let with = |parts| stages(self.ir, group, self.target, self.budget, (parts, windows));
            let mut plans = with(parts);
            // Where all of its sums at once never fit, parts may.
            if plans.is_empty() && group.into.is_some() && !parts && self.divides(group) {
                plans = with(true);
            }
            Arc::new(plans)
        })
    }

    /// Whether all that a stage reads of near memory lies there as it reads it, and what it writes is no wider than the tile:
    /// what units read at once is dense but for how many rows there are.
    pub(super) fn suits(&self, group: &Group, plan: &Plan) -> bool {
        let inside = group.into.as_ref().is_none_or(|slot| {
            let units = plan.unit_out.len();
            let first = slot.shape.len().saturating_sub(units);
            let turns = slot.turns.filter(|t| *t >= first);
            let one = turns.is_none_or(|t| plan.space.block[group.outer + t] == 1);
            one && (first + 1..slot.shape.len()).all(|t| {
                let d = group.outer + t;
                let written = plan.space.extent(d).saturating_mul(plan.space.trips(d));
                slot.at[t].saturating_add(written) <= slot.shape[t]
            })
        });
        inside
            && (0..group.operands.len()).all(|number| {
                let (operand, tile) = (&group.operands[number], &plan.tiles[number]);
                let home = self.homes.get(&operand.source);
                let inside = |ends: Vec<usize>| home.is_none_or(|home| home.holds(tile, &ends));
                let plain = tile.reassociation().is_none();
                !operand.near || plain && ends(group, plan, number).is_some_and(inside)
            })
    }
}
