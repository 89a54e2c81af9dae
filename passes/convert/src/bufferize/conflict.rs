//! When a write cannot be in place: who reads what the buffer held before.

use tir::{BlockId, DYNAMIC, Definition, Diagnostic, OpId, Use, Value};
use tir_loop::{For, If};
use tir_memref::bufferize::{Part, Place};

use super::alias::Root;
use super::analysis::Analysis;

/// Where the content of a tensor is made.
#[derive(Clone, Copy)]
pub(super) enum Made {
    /// By an op.
    By(OpId),
    /// It is there when the block begins.
    With(BlockId),
}

impl Made {
    fn is(self, op: OpId) -> bool {
        matches!(self, Made::By(by) if by == op)
    }
}

/// A write under question: operand `operand` of `op`.
#[derive(Clone, Copy)]
pub(super) struct Write {
    pub(super) op: OpId,
    pub(super) operand: usize,
}

impl Analysis<'_> {
    /// Where the content of a tensor is made; nowhere if it is not defined.
    pub(super) fn made(&self, value: Value) -> Option<Made> {
        let mut value = value;
        loop {
            if self.undefined.contains(&value) {
                return None;
            }
            match self.ir.definition(value) {
                Definition::Argument(block, _) => return Some(Made::With(block)),
                Definition::Result(op, index) => {
                    let ties = self.known.get(&op).map(|known| known.ties(self.ir.op(op)));
                    match ties
                        .into_iter()
                        .flatten()
                        .find(|tie| tie.result == index && !tie.writes)
                    {
                        Some(view) => value = self.ir.operand(op, view.operand),
                        None => return Some(Made::By(op)),
                    }
                }
            }
        }
    }

    /// Why a write cannot be in place: what completes a remark.
    pub(super) fn obstacle(&self, w: Write) -> Option<Box<dyn FnOnce(Diagnostic) -> Diagnostic>> {
        let ir = self.ir;
        let operand = ir.operand(w.op, w.operand);
        // What puts a part where it stands already writes nothing.
        let put = self
            .known
            .get(&w.op)
            .and_then(|known| known.puts(ir.op(w.op)));
        if put.is_some_and(|put| self.stands_at(put.part, &put)) {
            return None;
        }
        if self.aliases.is_fixed(operand) {
            let what = match self.root(operand) {
                Some(Root::Constant) => "a constant",
                Some(Root::Argument) => "an argument of the function",
                _ => "a part of an argument or constant",
            };
            return Some(Box::new(move |d: Diagnostic| {
                d.note(format!("it is {what}"))
            }));
        }
        // One op that writes one buffer for two of its results.
        let others = ir.operands(w.op).enumerate().take(w.operand);
        for (other, value) in others {
            let written = self.writes(w.op, other) && !self.plan.apart.contains_key(&(w.op, other));
            let apart = self.are_apart(value, operand);
            if written && self.near(value, operand) && !apart {
                return Some(Box::new(move |d: Diagnostic| {
                    d.note(format!("operand {other} is in the same buffer"))
                }));
            }
        }
        for value in self.aliases.members(operand) {
            for u in ir.uses(*value).filter(|u| self.reads(u.op, u.operand)) {
                let Some(made) = self.made(*value) else {
                    continue;
                };
                // Parts of one tensor that have no element in common, however often both run.
                if self.are_apart(*value, operand) {
                    continue;
                }
                let own = u.op == w.op && u.operand == w.operand;
                let free = own || !self.between(made, w.op, u.op) || self.excused(w, u, *value);
                if free && !self.repeats(made, w.op, u.op) {
                    continue;
                }
                let (loc, reader) = (ir.loc(u.op), ir.name(u.op));
                return Some(Box::new(move |d: Diagnostic| {
                    d.note_at(
                        loc,
                        format!("'{reader}' reads afterwards what it held before"),
                    )
                }));
            }
        }
        None
    }

    fn writes(&self, op: OpId, operand: usize) -> bool {
        if self.ir.is::<For>(op) {
            return true;
        }
        let known = self.known.get(&op);
        known.is_some_and(|k| {
            k.ties(self.ir.op(op))
                .iter()
                .any(|t| t.writes && t.operand == operand)
        })
    }

    /// Whether a loop runs both ops again and again on a content that was made before it.
    fn repeats(&self, made: Made, write: OpId, read: OpId) -> bool {
        let ir = self.ir;
        let block = match made {
            Made::By(op) => ir.block_of(op),
            Made::With(block) => Some(block),
        };
        let inside = |op: &OpId| ir.block_of(*op) != block;
        if block.is_none_or(|block| ir.ancestor_in(write, block).is_none()) {
            return false;
        }
        // The ops around the write, up to the block where the content is made.
        let around = std::iter::successors(Some(write), |op| {
            Some(*op).filter(inside).and_then(|op| ir.parent(op))
        });
        let mut loops = around.skip(1).filter(|op| !ir.is::<If>(*op));
        loops.any(|l| read != l && ir.is_below(read, l) && !made.is(l))
    }

    /// Whether a write may happen after a content was made and before it is read.
    fn between(&self, made: Made, write: OpId, read: OpId) -> bool {
        let ir = self.ir;
        let block = match made {
            Made::By(op) => ir.block_of(op),
            Made::With(block) => Some(block),
        };
        let Some(block) = block else { return true };
        // Outside of the block the content is made anew after each write.
        let Some(w) = ir.ancestor_in(write, block) else {
            return false;
        };
        let Some(r) = ir.ancestor_in(read, block) else {
            return false;
        };
        if let Made::By(op) = made
            && (w == op || ir.is_before(w, op))
        {
            return false;
        }
        if w != r {
            return ir.is_before(w, r);
        }
        if write == read {
            return true;
        }
        if r == read {
            // The op around the write reads before it begins.
            return false;
        }
        if w == write || !ir.is::<If>(w) {
            return true;
        }
        // Two sides of a condition, or one.
        let side = |op: OpId| {
            let mut blocks = ir.regions(w).flat_map(|region| ir.blocks(region));
            blocks.find(|block| ir.ancestor_in(op, *block).is_some())
        };
        match (side(write), side(read)) {
            (Some(a), Some(b)) if a == b => self.between(Made::With(a), write, read),
            (Some(_), Some(_)) => false,
            _ => true,
        }
    }

    /// Reads that see the same elements although the buffer is written before.
    fn excused(&self, w: Write, u: Use, value: Value) -> bool {
        let ir = self.ir;
        let written = ir.operand(w.op, w.operand);
        let put = |op: OpId| self.known.get(&op).and_then(|known| known.puts(ir.op(op)));
        // What is put back into the tensor is all that was written of it.
        if let Some(put) = put(u.op)
            && put.whole == value
            && self.writes(u.op, u.operand)
            && self.comes_from(written, &put)
        {
            return true;
        }
        // The read is of the part that the write puts where it stands already.
        if let Some(put) = put(w.op)
            && self.stands_at(put.part, &put)
            && (u.op == w.op && value == put.part || self.views(value, put.part))
        {
            return true;
        }
        // Element by element.
        u.op == w.op
            && self.same(value, written)
            && self
                .known
                .get(&w.op)
                .is_some_and(|k| k.in_step(ir.op(w.op), u.operand, w.operand))
    }

    /// Whether a tensor is `base`, or a view of it.
    fn views(&self, value: Value, base: Value) -> bool {
        let mut value = value;
        while value != base {
            let Some(op) = self.ir.owner(value) else {
                return false;
            };
            let ties = self.known.get(&op).map(|known| known.ties(self.ir.op(op)));
            let view = ties.into_iter().flatten().find(|tie| !tie.writes);
            let Some(view) = view else { return false };
            value = self.ir.operand(op, view.operand);
        }
        true
    }

    /// Whether two tensors lie in parts, as taken out before, that do not overlap.
    fn are_apart(&self, a: Value, b: Value) -> bool {
        let taken = |value: Value| {
            let chain = std::iter::successors(Some(value), |v| self.before.get(v).copied());
            let mut parts = chain.into_iter().filter_map(|v| {
                let part = self.taken.iter().find(|t| t.part == v)?;
                Some(part)
            });
            parts.next()
        };
        let (Some(a), Some(b)) = (taken(a), taken(b)) else {
            return false;
        };
        self.same(a.whole, b.whole) && disjoint(&a.place, &b.place)
    }

    /// The takes of the part that `put` replaces.
    fn matching<'s>(&'s self, put: &'s Part) -> impl Iterator<Item = &'s Part> {
        self.taken
            .iter()
            .filter(move |t| t.place == put.place && self.same(t.whole, put.whole))
    }

    /// Whether a tensor lies in the part that `put` replaces, as taken out before.
    fn comes_from(&self, value: Value, put: &Part) -> bool {
        let chain = std::iter::successors(Some(value), |v| self.before.get(v).copied());
        let parts: Vec<Value> = self.matching(put).map(|t| t.part).collect();
        chain.into_iter().any(|v| parts.contains(&v))
    }

    /// Whether a tensor is, element for element, the part that `put` replaces.
    pub(super) fn stands_at(&self, value: Value, put: &Part) -> bool {
        self.matching(put).any(|t| self.same(t.part, value))
    }
}

/// Whether two places have no element in common: offsets, sizes and strides, of which those of
/// one dimension are enough.
fn disjoint(a: &[Place], b: &[Place]) -> bool {
    let rank = a.len() / 3;
    let range = |place: &[Place], d: usize| {
        let number = |i: usize| match place.get(i) {
            Some(Place::Static(n)) if *n != DYNAMIC => Some(*n),
            _ => None,
        };
        let (offset, size, stride) = (number(d)?, number(rank + d)?, number(2 * rank + d)?);
        let last = offset.checked_add((size - 1).checked_mul(stride)?)?;
        Some((offset.min(last), offset.max(last)))
    };
    let apart = |d| match (range(a, d), range(b, d)) {
        (Some((a_low, a_high)), Some((b_low, b_high))) => a_high < b_low || b_high < a_low,
        _ => false,
    };
    a.len() == b.len() && (0..rank).any(apart)
}
