//! Dominance of blocks and of values over operations, region by region.

use std::collections::HashMap;

use crate::id::{BlockId, OpId, RegionId, Value};
use crate::ir::{Definition, Ir};
use crate::op::Traits;

/// Dominator trees of the regions asked about so far; valid while blocks and terminators stay.
#[derive(Default)]
pub struct Dominance {
    regions: HashMap<RegionId, Tree, rustc_hash::FxBuildHasher>,
}

struct Tree {
    /// Reverse postorder number of each reachable block.
    order: HashMap<BlockId, usize, rustc_hash::FxBuildHasher>,
    /// Immediate dominator, by that number; the entry is its own.
    parent: Vec<usize>,
}

impl Tree {
    /// Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm".
    fn new(ir: &Ir, region: RegionId) -> Self {
        let mut postorder = Vec::new();
        let mut seen = std::collections::HashSet::new();
        let mut stack = Vec::new();
        let next = |block: BlockId| -> Vec<BlockId> {
            ir.last(block)
                .map(|op| ir.successors(op).collect())
                .unwrap_or_default()
        };
        if let Some(entry) = ir.entry(region) {
            seen.insert(entry);
            stack.push((entry, next(entry), 0));
        }
        while let Some((block, successors, at)) = stack.last_mut() {
            if let Some(successor) = successors.get(*at).copied() {
                *at += 1;
                if seen.insert(successor) {
                    stack.push((successor, next(successor), 0));
                }
            } else {
                postorder.push(*block);
                stack.pop();
            }
        }
        postorder.reverse();
        let order: HashMap<BlockId, usize, _> =
            postorder.iter().enumerate().map(|(i, b)| (*b, i)).collect();
        let mut preds = vec![Vec::new(); postorder.len()];
        for (i, block) in postorder.iter().enumerate() {
            for successor in next(*block) {
                preds[order[&successor]].push(i);
            }
        }
        let unknown = usize::MAX;
        let mut parent = vec![unknown; postorder.len()];
        if let Some(entry) = parent.first_mut() {
            *entry = 0;
        }
        let mut changed = true;
        while changed {
            changed = false;
            for i in 1..postorder.len() {
                let mut known = preds[i].iter().copied().filter(|p| parent[*p] != unknown);
                let Some(first) = known.next() else { continue };
                let new = known.fold(first, |mut a, mut b| {
                    while a != b {
                        if a > b {
                            a = parent[a];
                        } else {
                            b = parent[b];
                        }
                    }
                    a
                });
                if parent[i] != new {
                    parent[i] = new;
                    changed = true;
                }
            }
        }
        Self { order, parent }
    }

    fn dominates(&self, a: BlockId, b: BlockId) -> bool {
        let (Some(&a), Some(&b)) = (self.order.get(&a), self.order.get(&b)) else {
            // What cannot be reached is dominated by everything.
            return !self.order.contains_key(&b);
        };
        let mut b = b;
        while b > a {
            b = self.parent[b];
        }
        a == b
    }
}

impl Dominance {
    /// The blocks of a region that can be reached, in reverse postorder: each after the blocks
    /// that dominate it.
    pub fn order(&mut self, ir: &Ir, region: RegionId) -> Vec<BlockId> {
        let tree = self
            .regions
            .entry(region)
            .or_insert_with(|| Tree::new(ir, region));
        let mut blocks: Vec<(usize, BlockId)> = tree.order.iter().map(|(b, i)| (*i, *b)).collect();
        blocks.sort_unstable();
        blocks.into_iter().map(|(_, block)| block).collect()
    }

    /// Whether every path to `b` passes through `a`, blocks of one region.
    pub fn block_dominates(&mut self, ir: &Ir, a: BlockId, b: BlockId) -> bool {
        if a == b {
            return true;
        }
        let Some(region) = ir.region_of(a) else {
            return false;
        };
        if ir.region_of(b) != Some(region) {
            return false;
        }
        let tree = self
            .regions
            .entry(region)
            .or_insert_with(|| Tree::new(ir, region));
        tree.dominates(a, b)
    }

    /// Whether a value may be used by an op: its definition dominates the op, and does not hold it.
    pub fn value_dominates(&mut self, ir: &Ir, value: Value, op: OpId) -> bool {
        let Some(block) = ir.value_block(value) else {
            return false;
        };
        let Some(user) = ir.ancestor_in(op, block) else {
            // The user stands in another block of the region, or outside.
            let Some(region) = ir.region_of(block) else {
                return false;
            };
            let user = std::iter::successors(Some(op), |op| ir.parent(*op))
                .find(|op| ir.block_of(*op).and_then(|b| ir.region_of(b)) == Some(region));
            let Some(user_block) = user.and_then(|user| ir.block_of(user)) else {
                return false;
            };
            return graph_region(ir, region) || self.block_dominates(ir, block, user_block);
        };
        match ir.definition(value) {
            Definition::Argument(..) => true,
            Definition::Result(definer, _) => {
                ir.is_before(definer, user)
                    || ir.region_of(block).is_some_and(|r| graph_region(ir, r)) && definer != user
            }
        }
    }
}

/// Whether uses may stand before definitions; a region of an op that is not loaded may be one.
fn graph_region(ir: &Ir, region: RegionId) -> bool {
    ir.region_owner(region)
        .is_some_and(|op| ir.info(op).is_none_or(|info| info.has(Traits::GraphRegion)))
}
