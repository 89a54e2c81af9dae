//! What the groups before a root take at the least, before any of them is planned.
//!
//! On a processor that does one thing after the other a nest takes what all its stages compute together. A stage computes each
//! of its points, if all of its result is read, and no unit takes fewer cycles for a point than in full blocks. So a division
//! of the root that leaves less than this is passed over: most divisions of a root are far slower than the quickest, and
//! each gives its producers tiles that nobody has planned yet.

use std::collections::HashSet;

use super::stage::Context;
use crate::group::{Group, Operand};
use crate::plan::least;

/// Cycles of the units for all that is computed for a root; 0 where units work beside each other.
pub(super) fn others(cx: &Context<'_>, root: &Group) -> i64 {
    if !cx.target.info.in_order {
        return 0;
    }
    let (mut sum, mut seen, mut whole) = (0i64, HashSet::new(), vec![root]);
    while let Some(reader) = whole.pop() {
        for operand in reader.operands.iter().filter(|o| reads_all(reader, o)) {
            let makers = cx.makers.get(&operand.source).map(|all| &all[..]);
            let Some([maker]) = makers else { continue };
            // A part, or what is changed on its way, may be less.
            let all = maker.at.is_empty() && maker.between.is_none();
            if all && seen.insert(operand.source) {
                sum = sum.saturating_add(least(cx.ir, maker.group, cx.target));
                whole.push(maker.group);
            }
        }
    }
    sum
}

/// Whether the points of a group read every element of an operand.
fn reads_all(reader: &Group, operand: &Operand) -> bool {
    let Some(forms) = operand.map.linear().filter(|_| operand.inner.is_none()) else {
        return false;
    };
    let mut used = HashSet::new();
    forms.iter().zip(&operand.shape).all(|(form, size)| {
        let mut terms: Vec<(usize, i64)> = form.terms().collect();
        terms.sort_by_key(|(_, step)| step.abs());
        // What moves along two dimensions does not reach all pairs of places.
        let alone = terms.iter().all(|(d, _)| used.insert(*d));
        let mut reach = 0i64;
        let dense = terms.iter().all(|(d, step)| {
            let next = *step > 0 && *step <= reach.saturating_add(1);
            reach = reach.saturating_add(step.saturating_mul(reader.domain[*d] - 1));
            next
        });
        let ends = form.constant <= 0 && form.constant.saturating_add(reach) >= size - 1;
        alone && dense && ends
    })
}
