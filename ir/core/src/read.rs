//! Reading ops, regions, blocks and values of an arena.

use crate::attrs::Attr;
use crate::id::{BlockId, OpId, RegionId, Value};
use crate::ir::{Definer, Definition, Ir, OpRef, Use};
use crate::loc::Loc;
use crate::name::Name;
use crate::op::{Op, OpInfo, Traits};
use crate::types::Type;

/// Ops.
impl Ir {
    /// An op, to read.
    #[inline]
    pub fn op(&self, id: OpId) -> OpRef<'_> {
        OpRef { ir: self, id }
    }

    /// The name of an op.
    #[inline]
    pub fn name(&self, op: OpId) -> Name {
        self.data(op).name
    }

    /// What is known of the op; `None` for one of a dialect that is not loaded.
    #[inline]
    pub fn info(&self, op: OpId) -> Option<&'static OpInfo> {
        self.data(op).name.info()
    }

    /// Whether it is known to have all of these traits.
    #[inline]
    pub fn has(&self, op: OpId, traits: Traits) -> bool {
        self.info(op).is_some_and(|info| info.has(traits))
    }

    /// Whether it is an op of this record.
    pub fn is<T: Op>(&self, op: OpId) -> bool {
        self.name(op) == T::name()
    }

    /// The record of the op, if it is one of this kind.
    pub fn get<T: Op>(&self, op: OpId) -> Option<T> {
        if self.is::<T>(op) {
            T::read(self, op)
        } else {
            None
        }
    }

    /// The record of the op that defines the value, if it is one of this kind.
    pub fn def<T: Op>(&self, value: Value) -> Option<T> {
        self.get(self.owner(value)?)
    }

    /// Where the op comes from.
    #[inline]
    pub fn loc(&self, op: OpId) -> Loc {
        self.data(op).loc
    }

    /// The operands.
    #[inline]
    pub fn operands(&self, op: OpId) -> impl ExactSizeIterator<Item = Value> + Clone + '_ {
        let operands = self.data(op).operands.iter();
        operands.map(|operand| Value::new(operand.value, self.tag))
    }

    /// Operand `index`. Panics if there are not that many.
    #[track_caller]
    #[inline]
    pub fn operand(&self, op: OpId, index: usize) -> Value {
        Value::new(self.data(op).operands[index].value, self.tag)
    }

    /// The results.
    #[inline]
    pub fn results(&self, op: OpId) -> impl ExactSizeIterator<Item = Value> + Clone + '_ {
        let results = self.data(op).results.iter();
        results.map(|value| Value::new(*value, self.tag))
    }

    /// Result `index`. Panics if there are not that many.
    #[track_caller]
    #[inline]
    pub fn result(&self, op: OpId, index: usize) -> Value {
        Value::new(self.data(op).results[index], self.tag)
    }

    /// The types of the results.
    #[inline]
    pub fn result_types(&self, op: OpId) -> Vec<Type> {
        self.results(op).map(|v| self.ty(v)).collect()
    }

    /// The successor blocks.
    #[inline]
    pub fn successors(&self, op: OpId) -> impl ExactSizeIterator<Item = BlockId> + Clone + '_ {
        let successors = self.data(op).successors.iter();
        successors.map(|block| BlockId::new(*block, self.tag))
    }

    /// The regions that the op holds in this arena: none for a slot, see [`OpRef::regions`].
    #[inline]
    pub fn regions(&self, op: OpId) -> impl ExactSizeIterator<Item = RegionId> + Clone + '_ {
        let regions = self.data(op).regions.iter();
        regions.map(|region| RegionId::new(*region, self.tag))
    }

    /// The attributes sorted by name; for a slot, those of the isolated op in it.
    #[inline]
    pub fn attrs(&self, op: OpId) -> &[(Name, Attr)] {
        let data = self.data(op);
        match &data.child {
            Some(child) => &child.ops[child.root].attrs,
            None => &data.attrs,
        }
    }

    /// An attribute by name.
    #[inline]
    pub fn attr(&self, op: OpId, name: &str) -> Option<Attr> {
        let found = self.attrs(op).iter().find(|(key, _)| *key == name)?;
        Some(found.1)
    }

    /// The block the op stands in; none for the root and what is detached.
    #[inline]
    pub fn block_of(&self, op: OpId) -> Option<BlockId> {
        Some(BlockId::new(self.data(op).block?, self.tag))
    }

    /// The op whose region the op stands in.
    #[inline]
    pub fn parent(&self, op: OpId) -> Option<OpId> {
        self.block_parent(self.block_of(op)?)
    }

    /// The op before it in its block.
    #[inline]
    pub fn prev(&self, op: OpId) -> Option<OpId> {
        Some(OpId::new(self.data(op).prev?, self.tag))
    }

    /// The op after it in its block.
    #[inline]
    pub fn next(&self, op: OpId) -> Option<OpId> {
        Some(OpId::new(self.data(op).next?, self.tag))
    }
}

/// Regions and blocks.
impl Ir {
    /// The blocks of a region.
    #[inline]
    pub fn blocks(&self, region: RegionId) -> impl ExactSizeIterator<Item = BlockId> + Clone + '_ {
        let blocks = self.regions[region.key(self.tag)].blocks.iter();
        blocks.map(|block| BlockId::new(*block, self.tag))
    }

    /// The first block of a region.
    #[inline]
    pub fn entry(&self, region: RegionId) -> Option<BlockId> {
        let first = self.regions[region.key(self.tag)].blocks.first()?;
        Some(BlockId::new(*first, self.tag))
    }

    /// The op that holds the region; none while it is detached.
    #[inline]
    pub fn region_owner(&self, region: RegionId) -> Option<OpId> {
        let owner = self.regions[region.key(self.tag)].owner?;
        Some(OpId::new(owner, self.tag))
    }

    /// The region that holds the block.
    #[inline]
    pub fn region_of(&self, block: BlockId) -> Option<RegionId> {
        Some(RegionId::new(self.block_data(block).region?, self.tag))
    }

    /// The op whose region holds the block.
    #[inline]
    pub fn block_parent(&self, block: BlockId) -> Option<OpId> {
        self.region_owner(self.region_of(block)?)
    }

    /// The arguments of a block.
    #[inline]
    pub fn args(&self, block: BlockId) -> impl ExactSizeIterator<Item = Value> + Clone + '_ {
        let args = self.block_data(block).args.iter();
        args.map(|value| Value::new(*value, self.tag))
    }

    /// Argument `index` of a block. Panics if there are not that many.
    #[track_caller]
    #[inline]
    pub fn arg(&self, block: BlockId, index: usize) -> Value {
        Value::new(self.block_data(block).args[index], self.tag)
    }

    /// The first op of a block.
    #[inline]
    pub fn first(&self, block: BlockId) -> Option<OpId> {
        Some(OpId::new(self.block_data(block).first?, self.tag))
    }

    /// The last op of a block.
    #[inline]
    pub fn last(&self, block: BlockId) -> Option<OpId> {
        Some(OpId::new(self.block_data(block).last?, self.tag))
    }

    /// The last op of a block, if it is known to be a terminator.
    #[inline]
    pub fn terminator(&self, block: BlockId) -> Option<OpId> {
        self.last(block)
            .filter(|op| self.has(*op, Traits::Terminator))
    }

    /// The ops of a block in order.
    #[inline]
    pub fn ops_in(&self, block: BlockId) -> impl Iterator<Item = OpId> + Clone + '_ {
        std::iter::successors(self.first(block), |op| self.next(*op))
    }

    /// The name that the text gave the block.
    #[inline]
    pub fn block_hint(&self, block: BlockId) -> Option<Name> {
        self.block_data(block).hint
    }

    /// The only block of the op's region `index`, in this arena.
    #[inline]
    pub fn body_block(&self, op: OpId, index: usize) -> Option<BlockId> {
        let region = self.data(op).regions.get(index)?;
        self.entry(RegionId::new(*region, self.tag))
    }
}

/// Values.
impl Ir {
    /// The type of a value.
    #[inline]
    pub fn ty(&self, value: Value) -> Type {
        self.value_data(value).ty
    }

    /// Who defines it.
    pub fn definition(&self, value: Value) -> Definition {
        let data = self.value_data(value);
        match data.definer {
            Definer::Op(op) => Definition::Result(OpId::new(op, self.tag), data.index as usize),
            Definer::Block(b) => {
                Definition::Argument(BlockId::new(b, self.tag), data.index as usize)
            }
        }
    }

    /// The op whose result it is.
    #[inline]
    pub fn owner(&self, value: Value) -> Option<OpId> {
        match self.value_data(value).definer {
            Definer::Op(op) => Some(OpId::new(op, self.tag)),
            Definer::Block(_) => None,
        }
    }

    /// The block it is defined in: of the op, or whose argument it is.
    #[inline]
    pub fn value_block(&self, value: Value) -> Option<BlockId> {
        match self.value_data(value).definer {
            Definer::Op(op) => Some(BlockId::new(self.ops[op].block?, self.tag)),
            Definer::Block(block) => Some(BlockId::new(block, self.tag)),
        }
    }

    /// Its uses.
    #[inline]
    pub fn uses(&self, value: Value) -> impl ExactSizeIterator<Item = Use> + Clone + '_ {
        let uses = self.value_data(value).uses.iter();
        uses.map(|u| Use {
            op: OpId::new(u.op, self.tag),
            operand: u.index as usize,
        })
    }

    /// Whether nothing uses it.
    #[inline]
    pub fn is_unused(&self, value: Value) -> bool {
        self.value_data(value).uses.is_empty()
    }

    /// Whether exactly one operand uses it.
    #[inline]
    pub fn has_one_use(&self, value: Value) -> bool {
        self.value_data(value).uses.len() == 1
    }

    /// The name that the text gave it.
    #[inline]
    pub fn hint(&self, value: Value) -> Option<Name> {
        self.value_data(value).hint
    }

    /// The constant behind a value: the `value` of the constant-like op that defines it.
    pub fn constant(&self, value: Value) -> Option<Attr> {
        let op = self.owner(value)?;
        if self.has(op, Traits::ConstantLike) {
            self.attr(op, "value")
        } else {
            None
        }
    }

    /// The integer behind a value that is a constant.
    #[inline]
    pub fn constant_int(&self, value: Value) -> Option<i64> {
        self.constant(value)?.as_int()
    }
}

impl<'a> OpRef<'a> {
    /// The arena and id behind attributes and regions: those of the isolated op for a slot.
    #[inline]
    pub fn inner(self) -> (&'a Ir, OpId) {
        match self.ir.child(self.id) {
            Some(child) => (child, child.root()),
            None => (self.ir, self.id),
        }
    }
    /// Its name.
    #[inline]
    pub fn name(self) -> Name {
        self.ir.name(self.id)
    }
    /// What is known of it.
    #[inline]
    pub fn info(self) -> Option<&'static OpInfo> {
        self.ir.info(self.id)
    }
    /// Where it comes from.
    #[inline]
    pub fn loc(self) -> Loc {
        self.ir.loc(self.id)
    }
    /// An attribute by name.
    #[inline]
    pub fn attr(self, name: &str) -> Option<Attr> {
        self.ir.attr(self.id, name)
    }
    /// Its regions, with the arena they live in.
    #[inline]
    pub fn regions(self) -> impl ExactSizeIterator<Item = (&'a Ir, RegionId)> {
        let (ir, id) = self.inner();
        let regions: Vec<RegionId> = ir.regions(id).collect();
        regions.into_iter().map(move |region| (ir, region))
    }
    /// The symbol it defines.
    pub fn symbol(self) -> Option<Name> {
        if self.ir.has(self.id, Traits::Symbol) || self.info().is_none() {
            Some(Name::new(self.attr("sym_name")?.as_str()?))
        } else {
            None
        }
    }
}
