//! `Ir`: one isolated operation and all below it, in one arena; storage and reading.
//!
//! *Terms.* An **isolated** op lets nothing from outside be used inside; it is the root of an arena. A
//! **slot** is the op of the outer arena at whose place an inner one stands. A **twin** is the same id
//! in a clone.
//!
//! *Invariants.* Ids are keys of the arena with its tag, and a key of another arena panics instead of
//! reading something else; a clone keeps the keys under a tag of its own. Lists of ops are doubly
//! linked through the ops; attributes are sorted by name. An arena owns its children, so passes may
//! work on sibling arenas in parallel without locks.

use slotmap::SlotMap;
use smallvec::SmallVec;

use crate::attrs::Attr;
use crate::id::{BlockId, BlockKey, OpId, OpKey, RegionId, RegionKey, Tag, Value, ValueKey};
use crate::loc::Loc;
use crate::name::Name;
use crate::op::{Op, OpInfo, Traits};
use crate::types::Type;

/// An operand: which value, and where in that value's list of uses this use stands.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    pub(crate) value: ValueKey,
    pub(crate) place: u32,
}

/// A use of a value: operand `index` of `op`.
#[derive(Clone, Copy)]
pub(crate) struct UseKey {
    pub(crate) op: OpKey,
    pub(crate) index: u32,
}

/// The attributes of an op, sorted by name.
pub(crate) type AttrList = SmallVec<[(Name, Attr); 1]>;

#[derive(Clone)]
pub(crate) struct OpData {
    pub(crate) name: Name,
    pub(crate) loc: Loc,
    /// Position among the ops of its block: grows along the list, with gaps.
    pub(crate) order: u64,
    pub(crate) block: Option<BlockKey>,
    pub(crate) prev: Option<OpKey>,
    pub(crate) next: Option<OpKey>,
    pub(crate) operands: SmallVec<[Operand; 2]>,
    pub(crate) results: SmallVec<[ValueKey; 1]>,
    pub(crate) attrs: AttrList,
    pub(crate) regions: SmallVec<[RegionKey; 1]>,
    pub(crate) successors: SmallVec<[BlockKey; 1]>,
    /// The isolated operation that stands at this place.
    pub(crate) child: Option<Box<Ir>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Definer {
    Op(OpKey),
    Block(BlockKey),
}

#[derive(Clone)]
pub(crate) struct ValueData {
    pub(crate) definer: Definer,
    pub(crate) index: u32,
    pub(crate) ty: Type,
    pub(crate) hint: Option<Name>,
    pub(crate) uses: SmallVec<[UseKey; 1]>,
}

#[derive(Clone, Default)]
pub(crate) struct BlockData {
    pub(crate) region: Option<RegionKey>,
    pub(crate) args: SmallVec<[ValueKey; 2]>,
    pub(crate) first: Option<OpKey>,
    pub(crate) last: Option<OpKey>,
    pub(crate) hint: Option<Name>,
}

#[derive(Clone, Default)]
pub(crate) struct RegionData {
    pub(crate) owner: Option<OpKey>,
    pub(crate) blocks: SmallVec<[BlockKey; 1]>,
}

/// One isolated operation (its root) and all below it.
///
/// A nested isolated operation is an `Ir` of its own, owned by its slot in this one: the slot
/// holds name, operands, results and place; attributes and regions live in the child.
pub struct Ir {
    pub(crate) tag: Tag,
    pub(crate) root: OpKey,
    pub(crate) ops: SlotMap<OpKey, OpData>,
    pub(crate) values: SlotMap<ValueKey, ValueData>,
    pub(crate) blocks: SlotMap<BlockKey, BlockData>,
    pub(crate) regions: SlotMap<RegionKey, RegionData>,
}

/// Clones get a tag of their own; an id of the original is carried over with [`Ir::twin`].
impl Clone for Ir {
    fn clone(&self) -> Self {
        Self {
            tag: Tag::fresh(),
            root: self.root,
            ops: self.ops.clone(),
            values: self.values.clone(),
            blocks: self.blocks.clone(),
            regions: self.regions.clone(),
        }
    }
}

/// Who defines a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Definition {
    /// Result `.1` of an op.
    Result(OpId, usize),
    /// Argument `.1` of a block.
    Argument(BlockId, usize),
}

/// A use of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use {
    /// The op that uses it.
    pub op: OpId,
    /// As which operand.
    pub operand: usize,
}

/// An op as one reads it: a slot shows the attributes and regions of the isolated op in it.
#[derive(Clone, Copy)]
pub struct OpRef<'a> {
    /// The arena of the op (of the slot, for an isolated op below the root).
    pub ir: &'a Ir,
    /// The op.
    pub id: OpId,
}

impl Ir {
    /// An isolated operation of this name without attributes or regions.
    #[inline]
    pub fn new(name: impl Into<Name>) -> Self {
        Self::with_loc(name, Loc::UNKNOWN)
    }

    /// The same, at a place.
    pub fn with_loc(name: impl Into<Name>, loc: Loc) -> Self {
        let mut ops = SlotMap::with_key();
        let root = ops.insert(OpData {
            name: name.into(),
            loc,
            order: 0,
            block: None,
            prev: None,
            next: None,
            operands: SmallVec::new(),
            results: SmallVec::new(),
            attrs: SmallVec::new(),
            regions: SmallVec::new(),
            successors: SmallVec::new(),
            child: None,
        });
        Self {
            tag: Tag::fresh(),
            root,
            ops,
            values: SlotMap::with_key(),
            blocks: SlotMap::with_key(),
            regions: SlotMap::with_key(),
        }
    }

    /// The isolated operation itself.
    #[inline]
    pub fn root(&self) -> OpId {
        OpId::new(self.root, self.tag)
    }
    /// The root, to read.
    #[inline]
    pub fn root_ref(&self) -> OpRef<'_> {
        self.op(self.root())
    }
    /// The name of the root.
    #[inline]
    pub fn root_name(&self) -> Name {
        self.ops[self.root].name
    }

    /// The id in this clone of what `id` was in the original.
    #[inline]
    pub fn twin(&self, id: OpId, original: &Ir) -> OpId {
        OpId::new(id.key(original.tag), self.tag)
    }
    /// The value in this clone of what `value` was in the original.
    #[inline]
    pub fn twin_value(&self, value: Value, original: &Ir) -> Value {
        Value::new(value.key(original.tag), self.tag)
    }

    #[track_caller]
    #[inline]
    pub(crate) fn data(&self, op: OpId) -> &OpData {
        &self.ops[op.key(self.tag)]
    }
    #[track_caller]
    #[inline]
    pub(crate) fn data_mut(&mut self, op: OpId) -> &mut OpData {
        &mut self.ops[op.key(self.tag)]
    }
    #[track_caller]
    #[inline]
    pub(crate) fn value_data(&self, value: Value) -> &ValueData {
        &self.values[value.key(self.tag)]
    }
    #[track_caller]
    #[inline]
    pub(crate) fn block_data(&self, block: BlockId) -> &BlockData {
        &self.blocks[block.key(self.tag)]
    }

    /// Whether the op still exists and is of this arena.
    #[inline]
    pub fn contains(&self, op: OpId) -> bool {
        op.is_of(self.tag) && self.ops.contains_key(op.key(self.tag))
    }
    /// Whether the value still exists and is of this arena.
    #[inline]
    pub fn contains_value(&self, value: Value) -> bool {
        value.is_of(self.tag) && self.values.contains_key(value.key(self.tag))
    }

    /// Whether the region still exists and is of this arena.
    #[inline]
    pub fn contains_region(&self, region: RegionId) -> bool {
        region.is_of(self.tag) && self.regions.contains_key(region.key(self.tag))
    }

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

    /// Whether `a` comes before `b` in one block.
    #[inline]
    pub fn is_before(&self, a: OpId, b: OpId) -> bool {
        let (a, b) = (self.data(a), self.data(b));
        a.block.is_some() && a.block == b.block && a.order < b.order
    }

    /// Whether `op` is `ancestor` or stands below it in this arena.
    #[inline]
    pub fn is_below(&self, op: OpId, ancestor: OpId) -> bool {
        std::iter::successors(Some(op), |op| self.parent(*op)).any(|op| op == ancestor)
    }

    /// The op of `block` that is `op` or holds it.
    #[inline]
    pub fn ancestor_in(&self, op: OpId, block: BlockId) -> Option<OpId> {
        std::iter::successors(Some(op), |op| self.parent(*op))
            .find(|op| self.block_of(*op) == Some(block))
    }

    /// The isolated op in a slot.
    #[inline]
    pub fn child(&self, slot: OpId) -> Option<&Ir> {
        self.data(slot).child.as_deref()
    }
    /// The isolated op in a slot, to change.
    #[inline]
    pub fn child_mut(&mut self, slot: OpId) -> Option<&mut Ir> {
        self.data_mut(slot).child.as_deref_mut()
    }
    /// The slots of this arena in program order.
    #[inline]
    pub fn slots(&self) -> Vec<OpId> {
        let mut slots = self.walk_ids();
        slots.retain(|op| self.data(*op).child.is_some());
        slots
    }
    /// The isolated ops directly below, all at once, in program order: what passes run on in
    /// parallel.
    pub fn children_mut(&mut self) -> Vec<(OpId, &mut Ir)> {
        let order: Vec<OpId> = self.slots();
        let tag = self.tag;
        let mut found: std::collections::HashMap<OpKey, &mut Ir, rustc_hash::FxBuildHasher> = self
            .ops
            .iter_mut()
            .filter_map(|(key, data)| Some((key, data.child.as_deref_mut()?)))
            .collect();
        order
            .into_iter()
            .filter_map(|id| Some((id, found.remove(&id.key(tag))?)))
            .collect()
    }
    /// Two isolated ops: one to read, one to change. `None` if they are one, or not slots.
    #[inline]
    pub fn pair(&mut self, read: OpId, write: OpId) -> Option<(&Ir, &mut Ir)> {
        let keys = [read.key(self.tag), write.key(self.tag)];
        let [read, write] = self.ops.get_disjoint_mut(keys)?;
        Some((read.child.as_deref()?, write.child.as_deref_mut()?))
    }

    /// The ops of this arena below the root, in program order, holders first. Isolated ops show
    /// as their slots.
    #[inline]
    pub fn walk_ids(&self) -> Vec<OpId> {
        let mut out = Vec::with_capacity(self.ops.len());
        self.collect(self.root, &mut out);
        out
    }
    /// The ops below an op in this arena, in program order, holders first.
    #[inline]
    pub fn walk_below(&self, op: OpId) -> Vec<OpId> {
        let mut out = Vec::new();
        self.collect(op.key(self.tag), &mut out);
        out
    }
    fn collect(&self, op: OpKey, out: &mut Vec<OpId>) {
        for region in &self.ops[op].regions {
            for block in &self.regions[*region].blocks {
                let mut next = self.blocks[*block].first;
                while let Some(op) = next {
                    out.push(OpId::new(op, self.tag));
                    let data = &self.ops[op];
                    if !data.regions.is_empty() {
                        self.collect(op, out);
                    }
                    next = data.next;
                }
            }
        }
    }

    /// Visits the root and every op below, in program order, holders first, across isolated ops.
    #[inline]
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(OpRef<'a>)) {
        visit(self.root_ref());
        self.walk_under(self.root, visit);
    }
    fn walk_under<'a>(&'a self, op: OpKey, visit: &mut dyn FnMut(OpRef<'a>)) {
        for region in &self.ops[op].regions {
            for block in &self.regions[*region].blocks {
                let mut next = self.blocks[*block].first;
                while let Some(op) = next {
                    visit(self.op(OpId::new(op, self.tag)));
                    let data = &self.ops[op];
                    match &data.child {
                        Some(child) => child.walk_under(child.root, visit),
                        None => self.walk_under(op, visit),
                    }
                    next = data.next;
                }
            }
        }
    }

    /// Visits every arena, children before the one that holds them.
    #[inline]
    pub fn walk_irs_mut(&mut self, visit: &mut dyn FnMut(&mut Ir)) {
        for (_, child) in self.children_mut() {
            child.walk_irs_mut(visit);
        }
        visit(self);
    }

    /// The number of ops, the root and those of isolated ops below included.
    #[inline]
    pub fn op_count(&self) -> usize {
        let children = self.ops.values().filter_map(|data| data.child.as_deref());
        self.ops.len() + children.map(|child| child.op_count() - 1).sum::<usize>()
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
