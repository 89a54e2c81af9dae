//! Structural equality of ops, regions included.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};
use tir_core::{BlockId, Ir, OpId, RegionId, SmallVec, Traits, Value};

/// Whether two ops of one arena compute the same: equal names, attributes, operands (in any order
/// for commutative ops of two operands), result types and, recursively, regions. Isolated ops are
/// never equal.
pub fn ops_are_equal(ir: &Ir, a: OpId, b: OpId) -> bool {
    Same {
        ir,
        values: FxHashMap::default(),
        blocks: FxHashMap::default(),
        inside: false,
    }
    .ops(a, b)
}

/// A hash that is equal for [equal](ops_are_equal) ops, the same in every run.
pub fn hash_op(ir: &Ir, op: OpId) -> u64 {
    let mut hasher = FxHasher::default();
    ir.name(op).hash(&mut hasher);
    ir.attrs(op).hash(&mut hasher);
    for value in operands(ir, op) {
        value.hash(&mut hasher);
    }
    for result in ir.results(op) {
        ir.ty(result).hash(&mut hasher);
    }
    if ir.regions(op).len() > 0 {
        for inner in ir.walk_below(op) {
            ir.name(inner).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The operands; those of a commutative op of two in a fixed order.
fn operands(ir: &Ir, op: OpId) -> SmallVec<[Value; 4]> {
    sorted(ir, op, ir.operands(op))
}

fn sorted(ir: &Ir, op: OpId, operands: impl Iterator<Item = Value>) -> SmallVec<[Value; 4]> {
    let mut operands: SmallVec<[Value; 4]> = operands.collect();
    if operands.len() == 2 && ir.has(op, Traits::Commutative) {
        operands.sort();
    }
    operands
}

struct Same<'a> {
    ir: &'a Ir,
    /// Values and blocks inside `b` that stand for those inside `a`.
    values: FxHashMap<Value, Value>,
    blocks: FxHashMap<BlockId, BlockId>,
    /// Whether the ops that are compared stand in regions of the two.
    inside: bool,
}

impl Same<'_> {
    fn ops(&mut self, a: OpId, b: OpId) -> bool {
        let ir = self.ir;
        if ir.name(a) != ir.name(b)
            || ir.attrs(a) != ir.attrs(b)
            || ir.child(a).is_some()
            || ir.child(b).is_some()
            || ir.operands(a).len() != ir.operands(b).len()
            || !ir
                .results(a)
                .map(|v| ir.ty(v))
                .eq(ir.results(b).map(|v| ir.ty(v)))
            || ir.regions(a).len() != ir.regions(b).len()
        {
            return false;
        }
        let value = |v: Value| self.values.get(&v).copied().unwrap_or(v);
        let block = |v: BlockId| self.blocks.get(&v).copied().unwrap_or(v);
        let left = sorted(ir, a, ir.operands(a).map(value));
        if left != operands(ir, b) || !ir.successors(a).map(block).eq(ir.successors(b)) {
            return false;
        }
        if !self.inside && ir.regions(a).len() == 0 {
            return true;
        }
        for (x, y) in ir.results(a).zip(ir.results(b)) {
            self.values.insert(x, y);
        }
        self.inside = true;
        let mut regions = ir.regions(a).zip(ir.regions(b));
        regions.all(|(a, b)| self.regions(a, b))
    }

    fn regions(&mut self, a: RegionId, b: RegionId) -> bool {
        let ir = self.ir;
        if ir.blocks(a).len() != ir.blocks(b).len() {
            return false;
        }
        for (a, b) in ir.blocks(a).zip(ir.blocks(b)) {
            self.blocks.insert(a, b);
            if !ir
                .args(a)
                .map(|v| ir.ty(v))
                .eq(ir.args(b).map(|v| ir.ty(v)))
            {
                return false;
            }
            for (x, y) in ir.args(a).zip(ir.args(b)) {
                self.values.insert(x, y);
            }
        }
        let mut blocks = ir.blocks(a).zip(ir.blocks(b));
        blocks.all(|(a, b)| {
            let (mut left, mut right) = (ir.ops_in(a), ir.ops_in(b));
            loop {
                match (left.next(), right.next()) {
                    (None, None) => return true,
                    (Some(a), Some(b)) if self.ops(a, b) => {}
                    _ => return false,
                }
            }
        })
    }
}
