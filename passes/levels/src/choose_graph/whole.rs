//! Which programs of an e-graph are planned whole, and what they take.

use tir::pass::Memo;
use tir::{Diagnostic, Ir, PassCx};

use super::ChooseGraph;
use crate::shape::Shape;

/// A program, how it came to be, and its cycles by the estimate; none if it does not fit.
type Planned = (&'static str, Ir, Option<i64>);

/// The cycles of whole programs, by what they compute.
pub(super) type Prices = Memo<Shape, Option<i64>>;

impl ChooseGraph {
    /// Whether groups that were chosen promise something beside those that bytes decide, or what the program with these takes. To price
    /// a program of other groups is to plan it: not where groups by themselves promise nothing.
    fn promises(&self, made: &[Planned], grouped: &Ir, cx: &PassCx<'_>) -> bool {
        let [(_, open, rewritten)] = made else {
            return true;
        };
        let fused = self.fused(open, cx);
        let by_bytes = fused.and_then(|fused| self.apart(&fused, cx));
        let promised = self.apart(grouped, cx);
        let left = 1.0 - 1.0 / self.worth.max(1) as f64;
        let promises = |other: Option<i64>| {
            let less =
                |promised: i64| other.is_none_or(|other| (promised as f64) < left * other as f64);
            promised.is_some_and(less)
        };
        promises(by_bytes) || promises(*rewritten)
    }

    /// Of some programs, the cycles of each for `fuse-graph` to group, and with the groups that were chosen, where these promise
    /// something. Where they win by far in the first, and functions are `large`, they are all that is planned of the others.
    pub(super) fn planned_whole(
        &self,
        programs: Vec<[Ir; 2]>,
        large: bool,
        known: &Prices,
        cx: &PassCx<'_>,
    ) -> Vec<(Ir, Vec<Planned>)> {
        let price = |other: &Ir| known.or_find(Shape::of(other), || self.price(other, cx));
        let plan = |[open, grouped]: [Ir; 2], grouped_alone: bool| {
            let mut made = Vec::new();
            if !grouped_alone {
                made.push(("rewritten", open.clone(), price(&open)));
            }
            if self.fuses() && (grouped_alone || self.promises(&made, &grouped, cx)) {
                let cycles = price(&grouped);
                made.push(("rewritten and grouped", grouped, cycles));
            }
            (open, made)
        };
        let mut programs = programs.into_iter();
        let (mut planned, mut grouped_alone) = (Vec::new(), false);
        if large {
            planned.extend(programs.next().map(|first| plan(first, false)));
            if let Some((_, made)) = planned.first()
                && let [(.., Some(open)), (.., Some(grouped))] = made[..]
            {
                let far = 1.0 - 1.0 / self.doubt.max(1) as f64;
                grouped_alone = (grouped as f64) < far * open as f64;
            }
        }
        let others = cx.map(programs.collect(), |program| plan(program, grouped_alone));
        planned.extend(others);
        planned
    }

    /// Of programs that an e-graph has of a function of so many ops those that are compared whole. Of a large one that are those whose
    /// groups, each by itself, take no more than one in `worth` of its cycles more than those of the first: to plan one takes as long as
    /// all the rest.
    pub(super) fn near_to_first(
        &self,
        ir: &Ir,
        all: Vec<[Ir; 2]>,
        ops: usize,
        cx: &mut PassCx<'_>,
    ) -> Vec<[Ir; 2]> {
        let count = all.len();
        if ops <= self.repeat_ops || count < 2 {
            return all;
        }
        let mut least = None;
        let near = |[_, grouped]: &[Ir; 2]| {
            let Some(cycles) = self.apart(grouped, cx) else {
                return true;
            };
            let least = *least.get_or_insert(cycles);
            cycles <= least.saturating_add(least / i64::try_from(self.worth.max(1)).unwrap_or(1))
        };
        let near: Vec<[Ir; 2]> = all.into_iter().filter(near).collect();
        let left = count - near.len();
        if left > 0 && cx.settings().remarks {
            let text = format!(
                "of {count} programs {left} were not compared whole, whose groups take over one in {} cycles more than those of the \
                 first, each by itself: the function has more than {} ops, {ops}; `repeat-ops={ops}` compares them",
                self.worth, self.repeat_ops
            );
            cx.remark(Diagnostic::remark(text).at(ir.loc(ir.root())));
        }
        near
    }
}
