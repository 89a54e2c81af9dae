//! When a write cannot be in place: read-after-write conflicts.
//!
//! A conflict has three parts, as in MLIR's one-shot analysis: where a content is *defined* (by an
//! op, or when a block begins), a *write* of its buffer, and a *read* of that content. It is one if
//! control may come from the definition to the write and on to the read without defining the
//! content anew (`between`), or if a loop around both runs them again (`repeats`). Loops may be ops,
//! or branches that go round: the latter are ways in the graph of the blocks (`reaches`). What the
//! regions of an op are to each other, repeated or two sides of a condition, the op says itself
//! ([`RegionBranch`](tir::interfaces::RegionBranch)).
//!
//! Excused are reads that see the same elements all the same: of a subset that the write inserts
//! where it stands already, and of elements that one op reads before it writes each of them.

use std::collections::HashSet;

use tir::data::gcd;
use tir::interfaces::may_run_after;
use tir::{BlockId, DYNAMIC, Definition, Diagnostic, OpId, RegionId, Type, Use, Value};
use tir_arith::OpFoldResult;
use tir_loop::For;
use tir_memref::bufferize::Subset;

use crate::alias_info::Root;
use crate::analysis::Analysis;

/// Where the content of a tensor is made.
#[derive(Clone, Copy)]
pub(super) enum ContentDef {
    /// By an op.
    Op(OpId),
    /// It is there when the block begins.
    Block(BlockId),
}

impl ContentDef {
    fn is(self, op: OpId) -> bool {
        matches!(self, ContentDef::Op(by) if by == op)
    }
    /// Where it is there: the block, and the op behind which.
    fn start(self, ir: &tir::Ir) -> Option<(BlockId, Option<OpId>)> {
        Some(match self {
            ContentDef::Op(op) => (ir.block_of(op)?, Some(op)),
            ContentDef::Block(block) => (block, None),
        })
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
    pub(super) fn content_def(&self, value: Value) -> Option<ContentDef> {
        let mut value = value;
        loop {
            if self.is_undefined(value) {
                return None;
            }
            match self.ir.definition(value) {
                Definition::Argument(block, _) => return Some(ContentDef::Block(block)),
                Definition::Result(op, index) => match self.viewed(op, index) {
                    Some(base) => value = base,
                    None => return Some(ContentDef::Op(op)),
                },
            }
        }
    }

    /// Why a write cannot be in place: what completes a remark.
    pub(super) fn obstacle(&self, w: Write) -> Option<Box<dyn FnOnce(Diagnostic) -> Diagnostic>> {
        let ir = self.ir;
        let operand = ir.operand(w.op, w.operand);
        // What puts a part where it stands already writes nothing.
        let insertion = self
            .known
            .get(&w.op)
            .and_then(|known| known.subset_insertion(ir.op(w.op)));
        if insertion.is_some_and(|insertion| self.is_subset_at(insertion.part, &insertion)) {
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
            let written = self.writes(w.op, other)
                && !self.decisions.out_of_place.contains_key(&(w.op, other));
            let disjoint = self.are_disjoint(value, operand);
            if written && self.near(value, operand) && !disjoint {
                return Some(Box::new(move |d: Diagnostic| {
                    d.note(format!("operand {other} is in the same buffer"))
                }));
            }
        }
        for value in self.aliases.members(operand) {
            for u in ir.uses(*value).filter(|u| self.reads(u.op, u.operand)) {
                let Some(made) = self.content_def(*value) else {
                    continue;
                };
                // Parts of one tensor that have no element in common, however often both run.
                if self.are_disjoint(*value, operand) || self.extracts_beside(u.op, operand) {
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
        known.is_some_and(|k| k.aliasing.iter().any(|a| a.writes && a.operand == operand))
    }

    /// The op of a region that is or holds another one.
    fn holder_in(&self, op: OpId, region: RegionId) -> Option<OpId> {
        let ir = self.ir;
        let mut holders = std::iter::successors(Some(op), |op| ir.parent(*op));
        holders.find(|op| ir.block_of(*op).and_then(|b| ir.region_of(b)) == Some(region))
    }

    /// Whether control may come from a place in a region to an op of it without making a content
    /// anew on the way.
    fn reaches(&self, from: (BlockId, Option<OpId>), to: OpId, made: ContentDef) -> bool {
        let ir = self.ir;
        let target = ir.block_of(to);
        let (mut work, mut seen) = (vec![from], HashSet::new());
        while let Some((block, after)) = work.pop() {
            let behind = |op: OpId| after.is_none_or(|after| ir.is_before(after, op));
            let maker = match made {
                ContentDef::Op(op) if ir.block_of(op) == Some(block) && behind(op) => Some(op),
                _ => None,
            };
            let free = |op: OpId| maker.is_none_or(|maker| ir.is_before(op, maker));
            if target == Some(block) && behind(to) && free(to) {
                return true;
            }
            if maker.is_some() {
                continue;
            }
            let next = ir
                .last(block)
                .into_iter()
                .flat_map(|end| ir.successors(end));
            let next =
                next.filter(|next| !matches!(made, ContentDef::Block(made) if made == *next));
            let next: Vec<BlockId> = next.filter(|next| seen.insert(*next)).collect();
            work.extend(next.into_iter().map(|block| (block, None)));
        }
        false
    }

    /// [`reaches`](Self::reaches), from behind an op.
    fn follows(&self, from: OpId, to: OpId, made: ContentDef) -> bool {
        let block = self.ir.block_of(from);
        block.is_some_and(|block| self.reaches((block, Some(from)), to, made))
    }

    /// Whether a loop, of ops or of branches, runs both ops again and again on a content that was
    /// made before it.
    fn repeats(&self, made: ContentDef, write: OpId, read: OpId) -> bool {
        let ir = self.ir;
        let region = made.start(ir).and_then(|(block, _)| ir.region_of(block));
        let Some(region) = region else { return false };
        let holders = (self.holder_in(write, region), self.holder_in(read, region));
        let (Some(w), Some(r)) = holders else {
            return false;
        };
        if self.follows(w, r, made) && self.follows(r, w, made) {
            return true;
        }
        // The ops around the write, up to the region where the content is made.
        let around = std::iter::successors(Some(write), |op| {
            Some(*op).filter(|op| *op != w).and_then(|op| ir.parent(op))
        });
        let mut loops = around.skip(1).filter(|op| !made.is(*op));
        loops.any(|l| read != l && self.runs_after(l, write, read).unwrap_or(false))
    }

    /// Whether a write may happen after a content was made and before it is read.
    fn between(&self, made: ContentDef, write: OpId, read: OpId) -> bool {
        let ir = self.ir;
        let Some(start) = made.start(ir) else {
            return true;
        };
        let Some(region) = ir.region_of(start.0) else {
            return true;
        };
        // Outside of the region the content is made anew after each write.
        let holders = (self.holder_in(write, region), self.holder_in(read, region));
        let (Some(w), Some(r)) = holders else {
            return false;
        };
        if made.is(w) || !self.reaches(start, w, made) {
            return false;
        }
        if w != r {
            return self.follows(w, r, made);
        }
        if write == read {
            return true;
        }
        if r == read {
            // The op around the write reads before it begins, if it does not run again.
            return self.follows(w, r, made);
        }
        if w == write || self.runs_after(w, write, read).unwrap_or(true) {
            return true;
        }
        // Two sides of a condition, or one: then what matters is what comes between there.
        let same = self
            .side(w, write)
            .filter(|side| self.side(w, read) == Some(*side));
        let entry = same.and_then(|side| ir.entry(ir.regions(w).nth(side)?));
        let between = |entry| self.between(ContentDef::Block(entry), write, read);
        entry.is_some_and(between) || self.follows(w, r, made)
    }

    /// The number of the region of an op that an op below it is in.
    fn side(&self, around: OpId, op: OpId) -> Option<usize> {
        let mut regions = self.ir.regions(around);
        regions.position(|region| self.holder_in(op, region).is_some())
    }

    /// Whether the region of an op that a read is in may run behind the region that a write is in, or once more if it is the
    /// same one; `None` if not both are below the op.
    fn runs_after(&self, around: OpId, write: OpId, read: OpId) -> Option<bool> {
        let (first, next) = (self.side(around, write)?, self.side(around, read)?);
        Some(may_run_after(self.ir, around, first, next))
    }

    /// Reads that see the same elements although the buffer is written before.
    fn excused(&self, w: Write, u: Use, value: Value) -> bool {
        let ir = self.ir;
        let written = ir.operand(w.op, w.operand);
        let inserted_by = |op: OpId| {
            self.known
                .get(&op)
                .and_then(|known| known.subset_insertion(ir.op(op)))
        };
        // What is put back into the tensor is all that was written of it.
        if let Some(insertion) = inserted_by(u.op)
            && insertion.whole == value
            && self.writes(u.op, u.operand)
            && self.comes_from(written, &insertion)
        {
            return true;
        }
        // The read is of the part that the write puts where it stands already.
        if let Some(insertion) = inserted_by(w.op)
            && self.is_subset_at(insertion.part, &insertion)
            && (u.op == w.op && value == insertion.part || self.views(value, insertion.part))
        {
            return true;
        }
        // Element by element.
        let required = self.decisions.requirements.get(&(w.op, u.operand));
        u.op == w.op
            && self.same(value, written)
            && (required.is_some_and(|required| required.elementwise)
                || self.known.get(&w.op).is_some_and(|k| {
                    k.bufferizes_to_elementwise_access(ir.op(w.op), u.operand, w.operand)
                }))
    }

    /// Whether a tensor is `base`, or a view of it.
    fn views(&self, value: Value, base: Value) -> bool {
        let mut value = value;
        while value != base {
            let Definition::Result(op, index) = self.ir.definition(value) else {
                return false;
            };
            let Some(base) = self.viewed(op, index) else {
                return false;
            };
            value = base;
        }
        true
    }

    /// Whether two tensors lie in parts, as extracted before, that do not overlap.
    fn are_disjoint(&self, a: Value, b: Value) -> bool {
        let b: Vec<&Subset> = self.lies_in(b).collect();
        let mut a = self.lies_in(a);
        a.any(|a| b.iter().any(|b| self.are_apart(a, b)))
    }

    /// Whether an op extracts a part that has no element in common with one that a tensor lies in. Of the rest of the whole nothing is
    /// read through the part.
    fn extracts_beside(&self, op: OpId, value: Value) -> bool {
        let known = self.known.get(&op);
        let part = known.and_then(|known| known.subset_extraction(self.ir.op(op)));
        part.is_some_and(|part| {
            self.lies_in(value)
                .any(|other| self.are_apart(&part, other))
        })
    }

    fn are_apart(&self, a: &Subset, b: &Subset) -> bool {
        self.same(a.whole, b.whole) && disjoint(&a.position, &b.position)
    }

    /// The parts that a value lies in, as extracted before, the smallest one first.
    fn lies_in(&self, value: Value) -> impl Iterator<Item = &Subset> {
        let chain = std::iter::successors(Some(value), |v| self.before.get(v).copied());
        let parts = chain.filter_map(|v| self.part.get(&v));
        parts.map(|at| &self.extracted[*at])
    }

    /// The extractions of the subset that `insertion` replaces.
    fn matching<'s>(&'s self, insertion: &'s Subset) -> impl Iterator<Item = &'s Subset> {
        self.extracted.iter().filter(move |t| {
            t.position == insertion.position && self.same(t.whole, insertion.whole)
        })
    }

    /// Whether a tensor lies in the part that `insertion` replaces, as extracted before.
    fn comes_from(&self, value: Value, insertion: &Subset) -> bool {
        let chain = std::iter::successors(Some(value), |v| self.before.get(v).copied());
        let parts: Vec<Value> = self.matching(insertion).map(|t| t.part).collect();
        chain.into_iter().any(|v| parts.contains(&v))
    }

    /// Whether a tensor is, element for element, the part that `insertion` replaces.
    pub(super) fn is_subset_at(&self, value: Value, insertion: &Subset) -> bool {
        self.matching(insertion)
            .any(|t| self.same(t.part, value) || self.is_shown_again(t.part, value))
    }

    /// Whether a tensor is another one that was brought into other shapes and back, what is written between in its place.
    fn is_shown_again(&self, part: Value, value: Value) -> bool {
        let source = |(result, source): &(Value, Value)| (*result == value).then_some(*source);
        let Some(written) = self.reshaped.iter().find_map(source) else {
            return false;
        };
        let is_written =
            |shown: Value| self.same(shown, written) || self.is_shown_again(shown, written);
        let mut others = self.reshaped.iter();
        self.ir.ty(part) == self.ir.ty(value)
            && others.any(|(shown, of)| self.same(*of, part) && is_written(*shown))
    }
}

/// Whether a place (offsets, sizes, strides) is all of a tensor.
pub(super) fn is_whole(position: &[OpFoldResult], ty: Type) -> bool {
    let numbers: Option<Vec<i64>> = position.iter().map(|n| n.number()).collect();
    let (Some(numbers), Some(shape)) = (numbers, ty.shape()) else {
        return false;
    };
    let one = |d: usize| {
        (0, shape[d], 1)
            == (
                numbers[d],
                numbers[shape.len() + d],
                numbers[2 * shape.len() + d],
            )
    };
    numbers.len() == 3 * shape.len() && (0..shape.len()).all(one)
}

/// Whether two places have no element in common: offsets, sizes and strides, of which those of
/// one dimension are enough: one ends before the other begins, or they are in step beside each other.
pub(super) fn disjoint(a: &[OpFoldResult], b: &[OpFoldResult]) -> bool {
    let rank = a.len() / 3;
    let number = |position: &[OpFoldResult], i: usize| match position.get(i) {
        Some(OpFoldResult::Number(n)) if *n != DYNAMIC => Some(*n),
        _ => None,
    };
    let range = |position: &[OpFoldResult], d: usize| {
        let number = |i: usize| number(position, i);
        let (offset, size, stride) = (number(d)?, number(rank + d)?, number(2 * rank + d)?);
        let last = offset.checked_add((size - 1).checked_mul(stride)?)?;
        Some((offset.min(last), offset.max(last)))
    };
    let beside = |d| {
        let of = |position: &[OpFoldResult]| {
            Some((number(position, d)?, number(position, 2 * rank + d)?))
        };
        let (Some((a, step)), Some((b, other))) = (of(a), of(b)) else {
            return false;
        };
        let step = gcd(step.unsigned_abs(), other.unsigned_abs());
        step > 1 && a.abs_diff(b) % step != 0
    };
    let apart = |d| match (range(a, d), range(b, d)) {
        (Some((a_low, a_high)), Some((b_low, b_high))) => a_high < b_low || b_high < a_low,
        _ => false,
    };
    a.len() == b.len() && (0..rank).any(|d| apart(d) || beside(d))
}
