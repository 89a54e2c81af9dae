//! Loops over the blocks of a tile, each one operand of the unit.
//!
//! Iterators with one block in a tile have no loop. Where one instruction does the first trip of a reduction together
//! with the fill before it, or the last one with the steps behind it, that trip is *peeled*: it stands outside of its
//! loop.

use tir::{Builder, Value};
use tir_arith::OpFoldResult;

use super::flow::{counted, counted_from};
use super::{At, Emit};

/// What is done at a place in loops: from carried values to those of the next.
pub(super) type Body<'f> = &'f mut dyn FnMut(&mut Builder<'_>, &At, Vec<Value>) -> Vec<Value>;

/// Which trips of loops stand by themselves.
#[derive(Clone, Copy, Default)]
pub(super) struct Ends {
    pub(super) first: bool,
    pub(super) last: bool,
}

/// One block of each tile: from its slots, and a block to start from, to their content.
pub(super) type BlockBody<'f> =
    &'f mut dyn FnMut(&mut Builder<'_>, &At, &[Value], Option<Value>) -> Vec<Value>;

impl Emit<'_> {
    /// Iterators of the core with more than one block in a tile.
    pub(super) fn divided(&self, reductions: bool) -> Vec<usize> {
        let dims = self.group.iterators(reductions);
        let mut dims: Vec<usize> = dims.filter(|d| self.plan.space.tile[*d] > 1).collect();
        // A block that is moved back over the one before waits for it: others stand between.
        dims.sort_by_key(|d| self.plan.space.shifted != Some(*d));
        dims
    }

    /// Loops over the blocks of iterators, outermost first.
    pub(super) fn nest(
        &self,
        b: &mut Builder<'_>,
        dims: &[usize],
        at: &At,
        init: Vec<Value>,
        body: Body<'_>,
    ) -> Vec<Value> {
        let Some((d, rest)) = dims.split_first() else {
            return body(b, at, init);
        };
        // A block that is moved back writes over what the one before does.
        let apart = self.plan.space.shifted != Some(*d);
        let parallel = self.marks.blocks && apart && !self.group.reductions[*d];
        let trips = self.plan.space.tile[*d];
        counted(b, trips, parallel, init, &mut |b, iv, carried| {
            let mut at = at.clone();
            at.block[*d] = OpFoldResult::Value(iv);
            self.nest(b, rest, &at, carried, body)
        })
    }

    /// Runs `body` for each block of the result's tile and puts what it gives into `wholes`. `body`
    /// gets the slots for its block, and the block of `base` if there is one.
    pub(super) fn blocks(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        wholes: Vec<Value>,
        base: Option<Value>,
        body: BlockBody<'_>,
    ) -> Vec<Value> {
        let dims = self.divided(false);
        let tile = &self.plan.out;
        self.nest(b, &dims, at, wholes, &mut |b, at, carried| {
            let part = self.operand(b, tile, at);
            part.update_all(b, carried, &mut |b, slots| {
                let from = base.map(|base| part.take(b, base));
                body(b, at, &slots, from)
            })
        })
    }

    /// How many blocks the stage computes in a trip of the innermost loop around its tile.
    pub(super) fn count(&self) -> i64 {
        let dims = self.divided(false).into_iter();
        dims.map(|d| self.plan.space.tile[d]).product()
    }

    /// One of those blocks, by number: into the tensors that are carried.
    pub(super) fn block(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        number: OpFoldResult,
        carried: Vec<Value>,
    ) -> Vec<Value> {
        self.named(b, |b| {
            let mut at = at.clone();
            let mut rest = number;
            let dims = self.divided(false);
            for (i, d) in dims.iter().enumerate().rev() {
                let size = self.plan.space.tile[*d];
                at.block[*d] = if i > 0 { rest.modulo(b, size) } else { rest };
                rest = rest.floor_div(b, size);
            }
            if self.plan.splits_reduction(self.group) {
                return vec![self.sum_block(b, &at, carried[0])];
            }
            let part = self.operand(b, &self.plan.out, &at);
            part.update_all(b, carried, &mut |b, slots| self.whole_block(b, &at, &slots))
        })
    }

    /// The trips of a reduction that stand by themselves: one call does them with what is before or behind.
    pub(super) fn ends(&self) -> Ends {
        let peel = &self.plan.peel;
        Ends {
            first: peel.first.is_some() && self.plan.filled.is_none(),
            last: peel.last.is_some(),
        }
    }

    /// Loops over the blocks of iterators, outermost first, with the very first and the very last trip
    /// outside of them where `ends` says so.
    pub(super) fn peeled(
        &self,
        b: &mut Builder<'_>,
        dims: &[usize],
        at: &At,
        init: Vec<Value>,
        ends: Ends,
        body: Body<'_>,
    ) -> Vec<Value> {
        let (Some((d, rest)), true) = (dims.split_first(), ends.first || ends.last) else {
            return self.nest(b, dims, at, init, body);
        };
        let trips = self.plan.space.tile[*d];
        let trip = |number: i64| {
            let mut at = at.clone();
            at.block[*d] = OpFoldResult::Number(number);
            at
        };
        let (mut low, mut high, mut carried) = (0, trips, init);
        if ends.first {
            let ends = Ends {
                last: ends.last && trips == 1,
                ..ends
            };
            carried = self.peeled(b, rest, &trip(0), carried, ends, body);
            low = 1;
        }
        if ends.last && low < high {
            high -= 1;
        }
        if high - low == 1 {
            carried = self.nest(b, rest, &trip(low), carried, body);
        } else if low < high {
            carried = counted_from(b, [low, high], false, carried, &mut |b, iv, carried| {
                let mut at = at.clone();
                at.block[*d] = OpFoldResult::Value(iv);
                self.nest(b, rest, &at, carried, body)
            });
        }
        if high < trips {
            let ends = Ends {
                first: false,
                ..ends
            };
            carried = self.peeled(b, rest, &trip(high), carried, ends, body);
        }
        carried
    }
}
