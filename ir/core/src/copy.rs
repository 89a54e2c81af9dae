//! Copies of ops, blocks and regions, within an arena and across two.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::build::{At, OpState};
use crate::id::{BlockId, OpId, RegionId, Value};
use crate::ir::Ir;
use crate::name::Name;

/// What values and blocks of a source became in a copy.
#[derive(Default, Clone)]
pub struct Mapping {
    values: HashMap<Value, Value, FxBuildHasher>,
    blocks: HashMap<BlockId, BlockId, FxBuildHasher>,
}

impl Mapping {
    /// Says what a value becomes.
    pub fn map(&mut self, from: Value, to: Value) {
        self.values.insert(from, to);
    }
    /// What a value becomes; what is not mapped stays.
    pub fn get(&self, value: Value) -> Value {
        self.values.get(&value).copied().unwrap_or(value)
    }
    fn block(&self, block: BlockId) -> BlockId {
        self.blocks.get(&block).copied().unwrap_or(block)
    }
}

impl Ir {
    /// Copies an op of another arena, and all below it, to a place. Operands are mapped; one that
    /// is not must not occur.
    pub fn copy_op(&mut self, src: &Ir, op: OpId, at: impl Into<At>, map: &mut Mapping) -> OpId {
        let copy = self.copy_tree(Some(src), op, map);
        self.insert(copy, at);
        copy
    }

    /// Copies an op of this arena, and all below it, to a place; operands are mapped, or stay.
    pub fn duplicate(&mut self, op: OpId, at: impl Into<At>, map: &mut Mapping) -> OpId {
        let copy = self.copy_tree(None, op, map);
        self.insert(copy, at);
        copy
    }

    fn copy_tree(&mut self, src: Option<&Ir>, op: OpId, map: &mut Mapping) -> OpId {
        let from = src.unwrap_or(self);
        let data = from.data(op);
        let child = data.child.clone();
        let state = OpState {
            name: data.name,
            loc: data.loc,
            operands: from.operands(op).map(|v| map.get(v)).collect(),
            results: from.result_types(op).into(),
            attrs: data.attrs.iter().copied().collect(),
            regions: SmallVec::new(),
            successors: from.successors(op).map(|b| map.block(b)).collect(),
            segments: SmallVec::new(),
        };
        let hints: Vec<Option<Name>> = from.results(op).map(|v| from.hint(v)).collect();
        let results: Vec<Value> = from.results(op).collect();
        let regions: Vec<RegionId> = from.regions(op).collect();
        let copy = self.create_raw(state);
        self.data_mut(copy).child = child;
        for (index, (old, hint)) in results.into_iter().zip(hints).enumerate() {
            let new = self.result(copy, index);
            self.set_hint(new, hint);
            map.map(old, new);
        }
        for region in regions {
            let new = self.new_region();
            self.copy_blocks(src, region, new, map);
            self.attach_region(copy, new);
        }
        copy
    }

    /// Copies the blocks of a region of this arena into another region of it.
    pub fn duplicate_region(&mut self, from: RegionId, to: RegionId, map: &mut Mapping) {
        self.copy_blocks(None, from, to, map);
    }

    fn copy_blocks(&mut self, src: Option<&Ir>, from: RegionId, to: RegionId, map: &mut Mapping) {
        let blocks: Vec<BlockId> = src.unwrap_or(self).blocks(from).collect();
        for block in &blocks {
            let new = self.new_block(to);
            map.blocks.insert(*block, new);
            let ir = src.unwrap_or(self);
            let hint = ir.block_hint(*block);
            let args: Vec<_> = ir.args(*block).map(|v| (v, ir.ty(v), ir.hint(v))).collect();
            self.set_block_hint(new, hint);
            for (old, ty, hint) in args {
                let arg = self.add_arg(new, ty);
                self.set_hint(arg, hint);
                map.map(old, arg);
            }
        }
        // Definitions may stand in later blocks: operands are mapped once all are copied.
        let mut copies = Vec::new();
        for block in &blocks {
            let ops: Vec<OpId> = src.unwrap_or(self).ops_in(*block).collect();
            for op in ops {
                let copy = self.copy_tree(src, op, map);
                self.insert(copy, map.block(*block));
                copies.push(copy);
            }
        }
        if blocks.len() > 1 && src.is_none() {
            for copy in copies {
                let operands: Vec<Value> = self.operands(copy).map(|v| map.get(v)).collect();
                self.set_operands(copy, &operands);
            }
        }
    }
}
