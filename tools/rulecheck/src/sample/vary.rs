//! Other numbers in the lists of an op that verifies: what fits together in a slice is seldom drawn at once.

use tir::{Ir, Name, Value};

use super::wanted::Wanted;
use super::{Sampler, ints};
use crate::plan::Node;

/// Variations of the attributes of an op that verifies.
const VARIED: usize = 8;
/// Lists of an op whose numbers are tried in all combinations, at most.
const KEPT_LISTS: usize = 3;

impl Sampler<'_> {
    /// How many dimensions of a result are as the rule says its type is; all there are if a result
    /// has this type.
    pub(super) fn fits(&self, op: tir::OpId, wanted: &Wanted) -> usize {
        let Some(wanted) = wanted.of(self) else {
            return usize::MAX;
        };
        let fit = |v: Value| {
            let ty = self.ir.ty(v);
            if ty == wanted {
                return usize::MAX;
            }
            let (have, want) = (ty.shape().unwrap_or(&[]), wanted.shape().unwrap_or(&[]));
            have.iter().zip(want).filter(|(a, b)| a == b).count()
        };
        self.ir.results(op).map(fit).max().unwrap_or(0)
    }

    /// Draws the numbers for one dimension anew, in all lists of numbers at once, some times: what
    /// fits together in a slice is seldom drawn at once. What has the type that the rule says keeps it.
    pub(super) fn vary(
        &mut self,
        node: &Node,
        slots: &[(Name, usize, bool)],
        op: &mut tir::OpId,
        wanted: &Wanted,
    ) {
        let first = node.operands.first().map(|o| self.ir.ty(self.value(*o)));
        let Some(shape) = first.and_then(|ty| ty.shape()).filter(|s| !s.is_empty()) else {
            return;
        };
        let is_list = |slot: usize| {
            let list = self.plan.attrs[slot].and_then(ints);
            list.is_some_and(|list| list.len() == shape.len())
        };
        let lists = slots
            .iter()
            .filter(|(_, slot, free)| *free && is_list(*slot));
        let lists: Vec<usize> = lists.map(|(_, slot, _)| *slot).collect();
        let mut fit = self.fits(*op, wanted);
        let typed = matches!(wanted, Wanted::Is(_) | Wanted::Of(_));
        if lists.len() >= 2 && !typed && self.random.percent(25) {
            return self.keep_dimensions(node, slots, op, &lists, shape);
        }
        if lists.len() < 2 || (!typed && self.random.percent(40)) {
            return;
        }
        let results = match node.name.info().is_some_and(|info| info.infers()) {
            true => Vec::new(),
            false => self.ir.result_types(*op),
        };
        for _ in 0..if typed { 4 * VARIED } else { VARIED } {
            let before = self.plan.attrs.clone();
            let at = self.random.below(shape.len());
            for slot in &lists {
                if self.random.percent(35) {
                    continue;
                }
                let mut list = self.plan.attrs[*slot].and_then(ints).unwrap_or_default();
                list[at] = self.style.place(shape[at], self.random);
                self.plan.attrs[*slot] = Some(tir::Attr::ints(&list));
            }
            let other = self.make(node, slots, results.clone());
            let now = other.map_or(0, |other| self.fits(other, wanted));
            match other {
                Some(other) if now >= fit => {
                    self.ir.erase(*op);
                    (*op, fit) = (other, now);
                }
                _ => {
                    other.into_iter().for_each(|other| self.ir.erase(other));
                    self.plan.attrs = before;
                }
            }
        }
    }

    /// Makes all dimensions of a result but one as they are in the first operand, where some of 0, 1 and the dimension
    /// itself in each list do so: what takes a part along one dimension alone is seldom drawn.
    fn keep_dimensions(
        &mut self,
        node: &Node,
        slots: &[(Name, usize, bool)],
        op: &mut tir::OpId,
        lists: &[usize],
        shape: &[i64],
    ) {
        if lists.len() > KEPT_LISTS || !node.name.info().is_some_and(|info| info.infers()) {
            return;
        }
        let but = self.random.below(shape.len());
        for at in (0..shape.len()).filter(|at| *at != but) {
            let kept = |ir: &Ir, op: tir::OpId| {
                let result = ir.results(op).next().and_then(|v| ir.ty(v).shape());
                result.is_some_and(|result| result.get(at) == Some(&shape[at]))
            };
            let before = self.plan.attrs.clone();
            let mut found = kept(&self.ir, *op);
            for number in 0..3usize.pow(lists.len() as u32) {
                if found {
                    break;
                }
                for (place, slot) in lists.iter().enumerate() {
                    let mut list = before[*slot].and_then(ints).unwrap_or_default();
                    list[at] = [0, 1, shape[at]][number / 3usize.pow(place as u32) % 3];
                    self.plan.attrs[*slot] = Some(tir::Attr::ints(&list));
                }
                if let Some(other) = self.make(node, slots, Vec::new()) {
                    found = kept(&self.ir, other);
                    let old = if found {
                        std::mem::replace(op, other)
                    } else {
                        other
                    };
                    self.ir.erase(old);
                }
            }
            if !found {
                self.plan.attrs = before;
            }
        }
    }
}
