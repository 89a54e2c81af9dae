//! Whether the tiles of a group's operands may fit at all, before any of them is made.
//!
//! A stage that computes the tile of another one has one division: its loops stand still, and all else of its iterators is
//! in one tile, but for reductions where sums are computed in parts. Its tiles hold each element that is read in it, however
//! a unit wants them, so most of such groups that do not fit are known by their sizes alone.

use std::collections::HashSet;

use tir::{LinearExpr, Name, Type};

use super::traffic::bytes;
use super::{Budget, Target};
use crate::group::{Group, Operand};

/// Whether a group that computes the tile of another stage may fit, its sums at once or in `parts`.
pub(super) fn may_fit(
    group: &Group,
    target: &Target<'_>,
    elems: &[Type],
    budget: Budget,
    parts: bool,
) -> bool {
    if group.into.as_ref().is_none_or(|slot| slot.divided) || group.has_inner() {
        return true;
    }
    let points = |d: usize| match d < group.outer || parts && group.reductions[d] {
        true => 1,
        false => group.domain[d],
    };
    let operands = group.operands.iter().zip(elems);
    let needed = operands.map(|(operand, elem)| elements(operand, &points, bytes(*elem)));
    let needed = needed.fold(0, i64::saturating_add);
    // An operand lies where a unit wants it, or in one of the others.
    let info = target.info;
    let mut names: HashSet<Name> = HashSet::from([target.near.name, target.held.name]);
    names.extend(
        info.intrinsics
            .iter()
            .flat_map(|i| i.spaces.iter().copied()),
    );
    names.extend(target.vectors.iter().map(|vector| vector.space));
    let free = names.into_iter().filter_map(|name| info.space(name));
    let free = free.fold(0, |sum: i64, space| sum.saturating_add(budget.free(space)));
    needed <= free
}

/// What the elements of an operand take that so many points of each iterator read, each of `size` bytes, at the least; 0 where
/// that is not known.
fn elements(operand: &Operand, points: &dyn Fn(usize) -> i64, size: i64) -> i64 {
    let other = operand.near || operand.flat.is_some() || operand.diagonal.is_some();
    let Some(forms) = operand.map.linear().filter(|_| !other) else {
        return 0;
    };
    let mut used = HashSet::new();
    let each = forms.iter().map(|form| {
        // Of iterators that move it in two dimensions not all pairs of places are read.
        let alone: Vec<usize> = form.terms().map(|(d, _)| d).collect();
        match alone.into_iter().all(|d| used.insert(d)) {
            true => places(form, points),
            false => 1,
        }
    });
    each.fold(size, i64::saturating_mul)
}

/// How many places there are along a dimension at the least.
fn places(form: &LinearExpr, points: &dyn Fn(usize) -> i64) -> i64 {
    let terms = form.terms().map(|(d, step)| (step.abs(), points(d)));
    let mut terms: Vec<(i64, i64)> = terms.filter(|(_, n)| *n > 1).collect();
    terms.sort_unstable();
    // How many there are one right behind the other.
    let Some((unit, mut dense)) = terms.first().copied() else {
        return 1;
    };
    let mut most = dense;
    for (step, n) in &terms[1..] {
        most = most.max(*n);
        let times = step / unit;
        if step % unit == 0 && times <= dense {
            dense = dense.saturating_add(times.saturating_mul(n - 1));
        }
    }
    most.max(dense)
}
