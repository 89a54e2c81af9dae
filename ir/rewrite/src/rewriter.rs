//! `Rewriter`: changes an `Ir` and remembers what it changed.

use std::ops::Deref;

use tir_core::{
    At, Attr, BlockId, Builder, Failure, Ir, Loc, Mapping, Name, Op, OpId, OpState, RegionId, Type,
    Value,
};

use crate::cast::TypeConverter;

/// What a rewriter did, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The op is new.
    Inserted(OpId),
    /// Operands, attributes, types or regions of the op changed.
    Touched(OpId),
    /// A result of the op lost a use; the op itself is as it was.
    LostUse(OpId),
    /// The op is gone, and all below it.
    Erased(OpId),
}

/// Changes an [`Ir`] and remembers what it changed. It reads like the `Ir` it changes.
///
/// New ops go to the insertion point, which is before the op that is rewritten until
/// [`set_at`](Self::set_at) moves it, and take over that op's location.
pub struct Rewriter<'a> {
    ir: &'a mut Ir,
    at: At,
    loc: Loc,
    events: Vec<Event>,
    types: Option<&'a TypeConverter>,
    /// The operands that the rewritten op had before they were adapted.
    pub(crate) originals: Vec<Value>,
}

impl Deref for Rewriter<'_> {
    type Target = Ir;
    fn deref(&self) -> &Ir {
        self.ir
    }
}

impl<'a> Rewriter<'a> {
    /// A rewriter that inserts before `op` (or at the end of its first block, for the root).
    pub fn new(ir: &'a mut Ir, op: OpId) -> Self {
        let mut rw = Self {
            at: At::Before(op),
            loc: Loc::UNKNOWN,
            ir,
            events: Vec::new(),
            types: None,
            originals: Vec::new(),
        };
        rw.focus(op);
        rw
    }

    pub(crate) fn with_types(mut self, types: Option<&'a TypeConverter>) -> Self {
        self.types = types;
        self
    }

    /// Inserts before this op from now on, with its location.
    pub fn focus(&mut self, op: OpId) {
        self.loc = self.ir.loc(op);
        self.at = At::Before(op);
        if self.ir.block_of(op).is_none()
            && let Some(block) = self.ir.body_block(op, 0)
        {
            self.at = At::End(block);
        }
    }

    /// The arena.
    pub fn ir(&self) -> &Ir {
        self.ir
    }
    /// What happened so far.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
    /// Takes what happened so far.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
    /// Forgets what happened so far; the list keeps its room.
    pub(crate) fn forget_events(&mut self) {
        self.events.clear();
    }
    /// Erases the ops inserted since there were `mark` events, which must all be insertions.
    pub(crate) fn undo_insertions(&mut self, mark: usize) {
        while self.events.len() > mark {
            if let Some(Event::Inserted(op)) = self.events.pop() {
                self.ir.erase(op);
            }
        }
    }

    /// Where the next op goes.
    pub fn at(&self) -> At {
        self.at
    }
    /// Moves the insertion point.
    pub fn set_at(&mut self, at: impl Into<At>) {
        self.at = at.into();
    }
    /// Sets the location of the ops to come.
    pub fn set_loc(&mut self, loc: Loc) {
        self.loc = loc;
    }

    /// The type converter, in a conversion that has one.
    pub fn types(&self) -> Option<&'a TypeConverter> {
        self.types
    }
    /// What a type becomes in this conversion; itself where there is no converter. An error says
    /// that nothing converts it.
    pub fn convert_type(&self, ty: Type) -> Result<Type, crate::Decline> {
        match self.types {
            None => Ok(ty),
            Some(types) => types.convert(ty).ok_or_else(|| {
                crate::Decline::because(move || format!("cannot convert type {ty}"))
            }),
        }
    }
    /// In a conversion, the operands that the op had before they were adapted to the converted
    /// types; otherwise empty.
    pub fn original_operands(&self) -> &[Value] {
        &self.originals
    }

    /// Inserts the op of a record.
    #[track_caller]
    pub fn add<T: Op>(&mut self, op: T) -> T::Out {
        let id = self.create(op.state());
        T::out(self.ir, id)
    }

    /// Inserts an op. Panics where [`try_create`](Self::try_create) fails.
    #[track_caller]
    pub fn create(&mut self, state: OpState) -> OpId {
        match self.try_create(state) {
            Ok(op) => op,
            Err(error) => panic!("internal error: {error}"),
        }
    }

    /// Inserts an op whose results may have to be inferred, or says why they cannot be.
    pub fn try_create(&mut self, state: OpState) -> Result<OpId, Failure> {
        let mut b = Builder {
            ir: self.ir,
            at: self.at,
            loc: self.loc,
        };
        let op = b.try_create(state)?;
        self.at = b.at;
        self.events.push(Event::Inserted(op));
        Ok(op)
    }

    /// Lets a function that takes a builder insert at the insertion point.
    pub fn build<R>(&mut self, fill: impl FnOnce(&mut Builder<'_>) -> R) -> R {
        let (block, prev, next) = match self.at {
            At::Start(block) => (Some(block), None, self.ir.first(block)),
            At::End(block) => (Some(block), self.ir.last(block), None),
            At::Before(op) => (self.ir.block_of(op), self.ir.prev(op), Some(op)),
            At::After(op) => (self.ir.block_of(op), Some(op), self.ir.next(op)),
        };
        let mut b = Builder {
            ir: self.ir,
            at: self.at,
            loc: self.loc,
        };
        let result = fill(&mut b);
        self.at = b.at;
        let first = match (prev, block) {
            (Some(prev), _) => self.ir.next(prev),
            (None, Some(block)) => self.ir.first(block),
            (None, None) => None,
        };
        let mut new = first;
        while let Some(op) = new.filter(|op| Some(*op) != next) {
            self.events.push(Event::Inserted(op));
            new = self.ir.next(op);
        }
        result
    }

    /// A detached region of one block, filled by `fill` with the insertion point at its end.
    pub fn body(
        &mut self,
        args: &[Type],
        fill: impl FnOnce(&mut Rewriter<'a>, &[Value]),
    ) -> RegionId {
        let region = self.ir.new_region();
        let block = self.ir.new_block(region);
        let args: Vec<Value> = args.iter().map(|ty| self.ir.add_arg(block, *ty)).collect();
        let at = std::mem::replace(&mut self.at, At::End(block));
        fill(self, &args);
        self.at = at;
        region
    }

    /// Changes an op in place by a function that changes nothing else.
    pub fn modify<R>(&mut self, op: OpId, change: impl FnOnce(&mut Ir) -> R) -> R {
        self.touch_definers(op);
        let result = change(self.ir);
        self.events.push(Event::Touched(op));
        result
    }
    /// Sets an operand.
    #[track_caller]
    pub fn set_operand(&mut self, op: OpId, index: usize, value: Value) {
        self.modify(op, |ir| ir.set_operand(op, index, value));
    }
    /// Replaces all operands.
    pub fn set_operands(&mut self, op: OpId, values: &[Value]) {
        self.modify(op, |ir| ir.set_operands(op, values));
    }
    /// Sets an attribute.
    pub fn set_attr(&mut self, op: OpId, name: impl Into<Name>, value: Attr) {
        self.modify(op, |ir| ir.set_attr(op, name, value));
    }
    /// Removes an attribute and gives it.
    pub fn remove_attr(&mut self, op: OpId, name: &str) -> Option<Attr> {
        self.modify(op, |ir| ir.remove_attr(op, name))
    }
    /// Sets the type of a value; its definer and users count as changed.
    pub fn set_type(&mut self, value: Value, ty: Type) {
        self.ir.set_type(value, ty);
        self.touch_users(value);
        if let Some(op) = self.ir.owner(value) {
            self.events.push(Event::Touched(op));
        }
    }

    fn touch_users(&mut self, value: Value) {
        let users = self.ir.uses(value).map(|u| Event::Touched(u.op));
        self.events.extend(users);
    }
    fn touch_definers(&mut self, op: OpId) {
        let definers = self.ir.operands(op).filter_map(|v| self.ir.owner(v));
        self.events.extend(definers.map(Event::LostUse));
    }

    /// Makes every use of `old` one of `new`.
    pub fn replace_uses(&mut self, old: Value, new: Value) {
        self.touch_users(old);
        if let Some(op) = self.ir.owner(old) {
            self.events.push(Event::LostUse(op));
        }
        self.ir.replace_uses(old, new);
    }
    /// Makes the uses of `old` that `choose` takes uses of `new`.
    pub fn replace_uses_if(
        &mut self,
        old: Value,
        new: Value,
        choose: impl FnMut(&Ir, tir_core::Use) -> bool,
    ) {
        self.touch_users(old);
        if let Some(op) = self.ir.owner(old) {
            self.events.push(Event::LostUse(op));
        }
        self.ir.replace_uses_if(old, new, choose);
    }

    /// Replaces the results of an op by values and erases it. In a conversion a value may have
    /// another type than the result: uses that still need the old type get a cast.
    #[track_caller]
    pub fn replace(&mut self, op: OpId, values: &[Value]) {
        assert_eq!(
            self.ir.results(op).len(),
            values.len(),
            "{op} ('{}') is replaced by too many or few values",
            self.ir.name(op)
        );
        for (index, new) in values.iter().enumerate() {
            let old = self.ir.result(op, index);
            if self.ir.ty(old) == self.ir.ty(*new) {
                // The op goes: that it loses uses is of no interest.
                self.touch_users(old);
                self.ir.replace_uses(old, *new);
            } else {
                self.replace_value(old, *new, At::Before(op));
            }
        }
        self.erase(op);
    }

    /// Makes every use of `old` one of `new`, through a cast at `at` if the types differ.
    pub(crate) fn replace_value(&mut self, old: Value, new: Value, at: At) {
        let (from, to) = (self.ir.ty(new), self.ir.ty(old));
        if from == to {
            self.replace_uses(old, new);
            return;
        }
        assert!(
            self.types.is_some(),
            "internal error: a value of type {to} is replaced by one of type {from}"
        );
        if !self.ir.is_unused(old) {
            let cast = self.cast(new, to, at);
            self.replace_uses(old, cast);
        }
        if self.ir.hint(new).is_none() {
            let hint = self.ir.hint(old);
            self.ir.set_hint(new, hint);
        }
    }

    /// A `builtin.unrealized_conversion_cast` of a value.
    pub(crate) fn cast(&mut self, value: Value, ty: Type, at: At) -> Value {
        let mut state = OpState::new(crate::cast::CAST);
        state.operands.push(value);
        state.results.push(ty);
        state.loc = self.loc;
        let op = self.ir.create_raw(state);
        self.ir.insert(op, at);
        self.events.push(Event::Inserted(op));
        self.ir.result(op, 0)
    }

    /// Replaces an op by that of a record, with as many results.
    #[track_caller]
    pub fn replace_with<T: Op>(&mut self, op: OpId, new: T) -> OpId {
        let at = std::mem::replace(&mut self.at, At::Before(op));
        let id = self.create(new.state());
        self.at = at;
        let values: Vec<Value> = self.ir.results(id).collect();
        self.replace(op, &values);
        id
    }

    /// Erases an op whose results have no uses, and all below it.
    #[track_caller]
    pub fn erase(&mut self, op: OpId) {
        self.touch_definers(op);
        if self.ir.regions(op).len() != 0 {
            for inner in self.ir.walk_below(op) {
                self.touch_definers(inner);
            }
        }
        if let At::Before(place) | At::After(place) = self.at
            && self.ir.is_below(place, op)
        {
            self.at = match (self.ir.next(op), self.ir.block_of(op)) {
                (Some(next), _) => At::Before(next),
                (None, Some(block)) => At::End(block),
                (None, None) => self.at,
            };
        }
        self.events.push(Event::Erased(op));
        self.ir.erase(op);
    }

    /// Moves an op to another place of this arena.
    pub fn move_op(&mut self, op: OpId, at: impl Into<At>) {
        self.ir.move_op(op, at);
        self.events.push(Event::Touched(op));
    }
    /// Copies an op and all below it to the insertion point; operands are mapped, or stay.
    pub fn duplicate(&mut self, op: OpId, map: &mut Mapping) -> OpId {
        let copy = self.ir.duplicate(op, self.at, map);
        if let At::Start(_) | At::After(_) = self.at {
            self.at = At::After(copy);
        }
        self.inserted_tree(copy);
        copy
    }
    fn inserted_tree(&mut self, op: OpId) {
        self.events.push(Event::Inserted(op));
        let below = self.ir.walk_below(op);
        self.events.extend(below.into_iter().map(Event::Inserted));
    }

    /// A detached region without blocks.
    pub fn new_region(&mut self) -> RegionId {
        self.ir.new_region()
    }
    /// A new last block of a region.
    pub fn new_block(&mut self, region: RegionId) -> BlockId {
        self.ir.new_block(region)
    }
    /// A new last argument of a block.
    pub fn add_arg(&mut self, block: BlockId, ty: Type) -> Value {
        self.touch_holder(block);
        self.ir.add_arg(block, ty)
    }
    /// Erases an argument without uses.
    #[track_caller]
    pub fn erase_arg(&mut self, block: BlockId, index: usize) {
        self.touch_holder(block);
        self.ir.erase_arg(block, index);
    }
    fn touch_holder(&mut self, block: BlockId) {
        if let Some(op) = self.ir.block_parent(block) {
            self.events.push(Event::Touched(op));
        }
    }
    /// Splits a block before an op: that op and all behind it move to a new block behind it.
    pub fn split_block(&mut self, before: OpId) -> BlockId {
        self.ir.split_block(before)
    }
    /// Moves all ops of a block before an op, its arguments replaced by values, and erases it.
    pub fn inline_block(&mut self, block: BlockId, before: OpId, args: &[Value]) {
        self.touch_holder(block);
        let old: Vec<Value> = self.ir.args(block).collect();
        for (old, new) in old.into_iter().zip(args) {
            self.replace_value(old, *new, At::Before(before));
        }
        let ops: Vec<OpId> = self.ir.ops_in(block).collect();
        self.events.extend(ops.iter().map(|op| Event::Touched(*op)));
        let args: Vec<Value> = self.ir.args(block).collect();
        self.ir.inline_block(block, before, &args);
    }
    /// Erases a block that nobody branches to, and all in it.
    pub fn erase_block(&mut self, block: BlockId) {
        self.touch_holder(block);
        let ops: Vec<OpId> = self.ir.ops_in(block).collect();
        for op in ops {
            for inner in self.ir.walk_below(op) {
                self.touch_definers(inner);
            }
            self.touch_definers(op);
            self.events.push(Event::Erased(op));
        }
        self.ir.erase_block(block);
    }

    /// In a conversion, gives the arguments of all blocks of a region their converted types; uses
    /// that still need the old type get a cast. An error says which type cannot be converted.
    pub fn convert_region(&mut self, region: RegionId) -> Result<(), crate::Decline> {
        let blocks: Vec<BlockId> = self.ir.blocks(region).collect();
        for block in &blocks {
            for arg in self.ir.args(*block) {
                self.convert_type(self.ir.ty(arg))?;
            }
        }
        for block in blocks {
            self.convert_block(block)?;
        }
        Ok(())
    }

    /// The same for the arguments of one block.
    pub fn convert_block(&mut self, block: BlockId) -> Result<(), crate::Decline> {
        let args: Vec<Value> = self.ir.args(block).collect();
        let types: Vec<Type> = args
            .iter()
            .map(|arg| self.convert_type(self.ir.ty(*arg)))
            .collect::<Result<_, _>>()?;
        for (arg, ty) in args.into_iter().zip(types) {
            self.retype_arg(arg, ty, block);
        }
        self.touch_holder(block);
        Ok(())
    }

    /// Gives a result another type; its uses get a cast back to the old one.
    pub(crate) fn retype_result(&mut self, value: Value, ty: Type) {
        let old = self.ir.ty(value);
        let Some(owner) = self.ir.owner(value).filter(|_| old != ty) else {
            return;
        };
        self.ir.set_type(value, ty);
        if !self.ir.is_unused(value) {
            let cast = self.cast(value, old, At::After(owner));
            let keeper = self.ir.owner(cast);
            self.touch_users(value);
            self.ir
                .replace_uses_if(value, cast, |_, one| Some(one.op) != keeper);
            self.ir.set_hint(cast, None);
        }
    }

    /// Gives a block argument another type; its uses get a cast back to the old one.
    fn retype_arg(&mut self, arg: Value, ty: Type, block: BlockId) {
        let old = self.ir.ty(arg);
        if old == ty {
            return;
        }
        self.ir.set_type(arg, ty);
        if !self.ir.is_unused(arg) {
            let cast = self.cast(arg, old, At::Start(block));
            let owner = self.ir.owner(cast);
            self.touch_users(arg);
            self.ir
                .replace_uses_if(arg, cast, |_, one| Some(one.op) != owner);
            self.ir.set_hint(cast, None);
        }
    }
}
