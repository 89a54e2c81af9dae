//! `Ir`: one isolated operation and all below it, in one arena; storage. Reading is `read`, going through it `walk`.
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

impl OpData {
    /// A detached op of this name, without anything.
    pub(crate) fn new(name: Name, loc: Loc) -> Self {
        Self {
            name,
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
        }
    }
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
        let root = ops.insert(OpData::new(name.into(), loc));
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

    /// Becomes what it was when `clone` was made of it: what ids named then they name again, and others nothing.
    pub fn restore(&mut self, clone: Ir) {
        let tag = self.tag;
        *self = clone;
        self.tag = tag;
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
}
