//! Regions, blocks, and the values that they and ops have: arguments and results.

use crate::build::At;
use crate::id::{BlockId, BlockKey, OpId, RegionId, Value, ValueKey};
use crate::ir::{BlockData, Definer, Ir, RegionData};
use crate::name::Name;
use crate::types::Type;

impl Ir {
    /// Erases what is in a block, and the block.
    pub(super) fn drop_block(&mut self, block: BlockKey) {
        let Some(data) = self.blocks.remove(block) else {
            return;
        };
        let mut next = data.first;
        while let Some(op) = next {
            next = self.ops[op].next;
            self.drop_nodes(op);
        }
        for arg in data.args {
            self.values.remove(arg);
        }
    }

    /// Erases a block and all in it. No op outside may use its values or name it as successor.
    pub fn erase_block(&mut self, block: BlockId) {
        let key = block.key(self.tag);
        let ops: Vec<OpId> = self.ops_in(block).collect();
        for op in ops {
            self.drop_operands_below(op.key(self.tag));
        }
        if let Some(region) = self.blocks[key].region {
            self.regions[region].blocks.retain(|b| *b != key);
        }
        self.drop_block(key);
    }

    /// Sets the name that is printed for a block.
    pub fn set_block_hint(&mut self, block: BlockId, hint: Option<Name>) {
        self.blocks[block.key(self.tag)].hint = hint;
    }

    /// A detached region without blocks.
    pub fn new_region(&mut self) -> RegionId {
        RegionId::new(self.regions.insert(RegionData::default()), self.tag)
    }

    /// Gives a detached region to an op, as its last.
    pub fn attach_region(&mut self, op: OpId, region: RegionId) {
        let (op, region) = (op.key(self.tag), region.key(self.tag));
        debug_assert!(self.regions[region].owner.is_none());
        self.regions[region].owner = Some(op);
        self.ops[op].regions.push(region);
    }

    /// Takes a region from its op: it stays in the arena, detached.
    pub fn detach_region(&mut self, region: RegionId) {
        let key = region.key(self.tag);
        if let Some(owner) = self.regions[key].owner.take() {
            self.ops[owner].regions.retain(|r| *r != key);
        }
    }

    /// A new last block of a region.
    pub fn new_block(&mut self, region: RegionId) -> BlockId {
        let region = region.key(self.tag);
        let block = self.blocks.insert(BlockData {
            region: Some(region),
            ..BlockData::default()
        });
        self.regions[region].blocks.push(block);
        BlockId::new(block, self.tag)
    }

    /// A new block behind another one of its region.
    pub fn new_block_after(&mut self, block: BlockId) -> BlockId {
        let key = block.key(self.tag);
        let Some(region) = self.blocks[key].region else {
            panic!("internal error: a block beside a detached one")
        };
        let new = self.blocks.insert(BlockData {
            region: Some(region),
            ..BlockData::default()
        });
        let blocks = &mut self.regions[region].blocks;
        let at = blocks.iter().position(|b| *b == key).map_or(0, |i| i + 1);
        blocks.insert(at, new);
        BlockId::new(new, self.tag)
    }

    /// A new last argument of a block.
    pub fn add_arg(&mut self, block: BlockId, ty: Type) -> Value {
        let key = block.key(self.tag);
        let index = self.blocks[key].args.len();
        let value = self.new_value(Definer::Block(key), index, ty);
        self.blocks[key].args.push(value);
        Value::new(value, self.tag)
    }

    /// Erases an argument. Panics if it has uses.
    #[track_caller]
    pub fn erase_arg(&mut self, block: BlockId, index: usize) {
        let key = block.key(self.tag);
        let value = self.blocks[key].args.remove(index);
        assert!(
            self.values[value].uses.is_empty(),
            "an argument is erased but used"
        );
        self.values.remove(value);
        self.reindex(index, |ir, i| ir.blocks[key].args.get(i).copied());
    }

    /// A new last result of an op.
    pub fn add_result(&mut self, op: OpId, ty: Type) -> Value {
        let key = op.key(self.tag);
        let index = self.ops[key].results.len();
        let value = self.new_value(Definer::Op(key), index, ty);
        self.ops[key].results.push(value);
        Value::new(value, self.tag)
    }

    /// Erases a result. Panics if it has uses.
    #[track_caller]
    pub fn erase_result(&mut self, op: OpId, index: usize) {
        let key = op.key(self.tag);
        let value = self.ops[key].results.remove(index);
        assert!(
            self.values[value].uses.is_empty(),
            "a result is erased but used"
        );
        self.values.remove(value);
        self.reindex(index, |ir, i| ir.ops[key].results.get(i).copied());
    }

    fn reindex(&mut self, from: usize, value: impl Fn(&Ir, usize) -> Option<ValueKey>) {
        let mut i = from;
        while let Some(value) = value(self, i) {
            self.values[value].index = i as u32;
            i += 1;
        }
    }

    /// Splits a block before an op: that op and all behind it move to a new block behind it.
    pub fn split_block(&mut self, before: OpId) -> BlockId {
        let Some(block) = self.block_of(before) else {
            panic!("internal error: a detached op splits a block")
        };
        let new = self.new_block_after(block);
        let mut next = Some(before);
        while let Some(op) = next {
            next = self.next(op);
            self.move_op(op, new);
        }
        new
    }

    /// Moves all ops of a block before an op, its arguments replaced by values, and erases it.
    pub fn inline_block(&mut self, block: BlockId, before: OpId, args: &[Value]) {
        let old: Vec<Value> = self.args(block).collect();
        for (old, new) in old.into_iter().zip(args) {
            self.replace_uses(old, *new);
        }
        let ops: Vec<OpId> = self.ops_in(block).collect();
        for op in ops {
            self.move_op(op, At::Before(before));
        }
        self.erase_block(block);
    }

    /// Sets a successor.
    #[track_caller]
    pub fn set_successor(&mut self, op: OpId, index: usize, block: BlockId) {
        let block = block.key(self.tag);
        self.data_mut(op).successors[index] = block;
    }
}
