//! Changing an `Ir`: create, insert, move, erase, replace uses.
//!
//! *Terms.* A **detached** op stands in no block but lives in the arena; erasing it is what frees it.
//! A **use** is one operand of one op. An **order number** of an op is its position in its block.
//!
//! *Invariants.* Each operand knows its place in the list of uses of its value and each use knows its
//! operand, so a use is dropped in constant time; whatever moves a use in its list tells the operand.
//! Order numbers grow along the list of a block, with gaps, so that "before" is one comparison; room
//! is made by moving few neighbours (Dietz and Sleator, STOC 1987). What is erased has no uses left
//! from outside. Nothing here checks what an op means: that is the verifier's.

mod blocks;

use smallvec::SmallVec;

use crate::attrs::{Attr, DenseArray};
use crate::build::{At, OpState};
use crate::diag::Failure;
use crate::id::{OpId, OpKey, Value, ValueKey};
use crate::ir::{Definer, Ir, OpData, Operand, UseKey, ValueData};
use crate::loc::Loc;
use crate::name::Name;
use crate::op::{Folds, SEGMENTS, Traits};
use crate::types::Type;

/// Distance between the order numbers of neighbours that are appended.
const GAP: u64 = 1 << 20;

impl Ir {
    /// Creates a detached op. Result types that are missing are inferred, and checked where they
    /// are said; attributes with a default that are missing stay missing.
    pub fn create(&mut self, mut state: OpState) -> Result<OpId, Failure> {
        let Some(info) = state.name.info() else {
            return Ok(self.create_raw(state));
        };
        if info.needs_segments() && !state.segments.is_empty() && state.attr(SEGMENTS).is_none() {
            let elem = Type::int(32);
            let bits = state.segments.to_vec();
            state.set_attr(SEGMENTS, Attr::new(DenseArray { elem, bits }));
        }
        let missing = state.results.is_empty() && info.result_count() != Some(0);
        if !missing || !info.infers() {
            return Ok(self.create_raw(state));
        }
        let op = self.create_raw(state);
        match self.infer(op) {
            Ok(types) => {
                for ty in types {
                    self.add_result(op, ty);
                }
                Ok(op)
            }
            Err(error) => {
                self.drop_tree(op.key(self.tag));
                Err(error)
            }
        }
    }

    /// Computes the result types of an op by its own rule: [`Traits::SameType`] or its `infer`
    /// hook.
    pub fn infer(&self, op: OpId) -> Result<Vec<Type>, Failure> {
        let Some(info) = self.info(op) else {
            return Err(Failure::from("is not known"));
        };
        if let Some(infer) = info.infer {
            // What an operand is expected to be says more than what cannot be made of it.
            let explain = |error| {
                crate::verify::operands(self, op, info)
                    .err()
                    .unwrap_or(error)
            };
            return infer(self, op).map_err(explain);
        }
        match self.operands(op).next() {
            Some(first) if info.has(Traits::SameType) => {
                Ok(vec![self.ty(first); info.results.len()])
            }
            _ => Err(Failure::from("cannot infer its result types")),
        }
    }

    /// What the op folds to by its own rule: a constant or an existing value for each result.
    pub fn try_fold(&self, op: OpId) -> Option<Folds> {
        self.info(op)?.fold?(self, op)
    }

    /// Creates a detached op exactly as the state says.
    pub fn create_raw(&mut self, state: OpState) -> OpId {
        let tag = self.tag;
        let mut attrs: SmallVec<[(Name, Attr); 1]> = SmallVec::new();
        for (name, value) in state.attrs {
            match attrs.binary_search_by_key(&name, |entry| entry.0) {
                Ok(i) => attrs[i].1 = value,
                Err(i) => attrs.insert(i, (name, value)),
            }
        }
        let op = self.ops.insert(OpData {
            attrs,
            successors: state.successors.iter().map(|b| b.key(tag)).collect(),
            ..OpData::new(state.name, state.loc)
        });
        let mut operands = SmallVec::with_capacity(state.operands.len());
        for (index, value) in state.operands.iter().enumerate() {
            operands.push(self.add_use(value.key(tag), op, index));
        }
        let mut results = SmallVec::with_capacity(state.results.len());
        for (index, ty) in state.results.iter().enumerate() {
            results.push(self.new_value(Definer::Op(op), index, *ty));
        }
        let data = &mut self.ops[op];
        data.operands = operands;
        data.results = results;
        for region in state.regions {
            self.attach_region(OpId::new(op, tag), region);
        }
        OpId::new(op, tag)
    }

    fn new_value(&mut self, definer: Definer, index: usize, ty: Type) -> ValueKey {
        self.values.insert(ValueData {
            definer,
            index: index as u32,
            ty,
            hint: None,
            uses: SmallVec::new(),
        })
    }

    fn add_use(&mut self, value: ValueKey, op: OpKey, index: usize) -> Operand {
        let uses = &mut self.values[value].uses;
        let place = uses.len() as u32;
        let index = index as u32;
        uses.push(UseKey { op, index });
        Operand { value, place }
    }

    fn drop_use(&mut self, operand: Operand) {
        let uses = &mut self.values[operand.value].uses;
        uses.swap_remove(operand.place as usize);
        if let Some(moved) = uses.get(operand.place as usize).copied() {
            self.ops[moved.op].operands[moved.index as usize].place = operand.place;
        }
    }

    /// Drops all operands of an op. One after the other: where a value is used twice, the place
    /// of the use that is left may change.
    fn drop_operands(&mut self, op: OpKey) {
        while let Some(operand) = self.ops[op].operands.pop() {
            self.drop_use(operand);
        }
    }

    /// Inserts a detached op.
    pub fn insert(&mut self, op: OpId, at: impl Into<At>) {
        let key = op.key(self.tag);
        let (block, prev, next) = match at.into() {
            At::End(block) => {
                let block = block.key(self.tag);
                (block, self.blocks[block].last, None)
            }
            At::Start(block) => {
                let block = block.key(self.tag);
                (block, None, self.blocks[block].first)
            }
            At::Before(next) => {
                let next = next.key(self.tag);
                let data = &self.ops[next];
                let Some(block) = data.block else {
                    panic!("internal error: insertion beside a detached op")
                };
                (block, data.prev, Some(next))
            }
            At::After(prev) => {
                let prev = prev.key(self.tag);
                let data = &self.ops[prev];
                let Some(block) = data.block else {
                    panic!("internal error: insertion beside a detached op")
                };
                (block, Some(prev), data.next)
            }
        };
        debug_assert!(self.ops[key].block.is_none(), "{op} is inserted twice");
        match prev {
            Some(prev) => self.ops[prev].next = Some(key),
            None => self.blocks[block].first = Some(key),
        }
        match next {
            Some(next) => self.ops[next].prev = Some(key),
            None => self.blocks[block].last = Some(key),
        }
        let low = prev.map_or(0, |prev| self.ops[prev].order);
        let order = match next {
            None => low + GAP,
            Some(next) => match self.ops[next].order - low {
                0 | 1 => self.make_room(low, next),
                room => low + room / 2,
            },
        };
        let data = &mut self.ops[key];
        data.block = Some(block);
        data.prev = prev;
        data.next = next;
        data.order = order;
    }

    /// Makes room for one op between position `low` and the op `first` behind it; gives the
    /// position in between. Moves that op and those behind it up to the first that is farther away
    /// than the square of their number, so that n insertions at any places move O(n log n) ops
    /// (Dietz and Sleator, "Two algorithms for maintaining order in a list", STOC 1987).
    fn make_room(&mut self, low: u64, first: OpKey) -> u64 {
        let (mut end, mut moved) = (Some(first), 0);
        let high = loop {
            let Some(op) = end else {
                break low + (moved + 2) * GAP;
            };
            let order = self.ops[op].order;
            if order - low > (moved + 1) * (moved + 1) {
                break order;
            }
            moved += 1;
            end = self.ops[op].next;
        };
        let step = (high - low) / (moved + 2);
        let (mut next, mut order) = (Some(first), low + step);
        while next != end
            && let Some(op) = next
        {
            order += step;
            self.ops[op].order = order;
            next = self.ops[op].next;
        }
        low + step
    }

    /// Takes an op out of its block; it stays in the arena, detached.
    pub fn detach(&mut self, op: OpId) {
        let key = op.key(self.tag);
        let data = &mut self.ops[key];
        let (prev, next) = (data.prev.take(), data.next.take());
        let Some(block) = data.block.take() else {
            return;
        };
        match prev {
            Some(prev) => self.ops[prev].next = next,
            None => self.blocks[block].first = next,
        }
        match next {
            Some(next) => self.ops[next].prev = prev,
            None => self.blocks[block].last = prev,
        }
    }

    /// Moves an op to another place of this arena.
    pub fn move_op(&mut self, op: OpId, at: impl Into<At>) {
        self.detach(op);
        self.insert(op, at);
    }

    /// Erases an op and all below it. Panics if a result still has uses.
    #[track_caller]
    pub fn erase(&mut self, op: OpId) {
        let unused = self.results(op).all(|value| self.is_unused(value));
        assert!(unused, "{op} ('{}') is erased but used", self.name(op));
        self.detach(op);
        self.drop_tree(op.key(self.tag));
    }

    /// Erases ops that may use each other, and all below them; no op outside may use them.
    #[track_caller]
    pub fn erase_all(&mut self, ops: &[OpId]) {
        for op in ops {
            self.detach(*op);
            self.drop_operands_below(op.key(self.tag));
        }
        for op in ops {
            self.erase(*op);
        }
    }

    fn drop_operands_below(&mut self, op: OpKey) {
        let tag = self.tag;
        let below = self.walk_below(OpId::new(op, tag));
        for op in below.into_iter().map(|id| id.key(tag)).chain([op]) {
            self.drop_operands(op);
        }
    }

    fn drop_tree(&mut self, op: OpKey) {
        // All uses first: ops below may use each other's values in any order.
        match self.ops[op].regions.is_empty() {
            true => self.drop_operands(op),
            false => self.drop_operands_below(op),
        }
        self.drop_nodes(op);
    }

    fn drop_nodes(&mut self, op: OpKey) {
        let Some(data) = self.ops.remove(op) else {
            return;
        };
        for value in data.results {
            self.values.remove(value);
        }
        for region in data.regions {
            let Some(region) = self.regions.remove(region) else {
                continue;
            };
            for block in region.blocks {
                self.drop_block(block);
            }
        }
    }

    /// Sets operand `index`.
    #[track_caller]
    pub fn set_operand(&mut self, op: OpId, index: usize, value: Value) {
        let key = op.key(self.tag);
        let old = self.ops[key].operands[index];
        self.drop_use(old);
        let new = self.add_use(value.key(self.tag), key, index);
        self.ops[key].operands[index] = new;
    }

    /// Replaces all operands.
    pub fn set_operands(&mut self, op: OpId, values: &[Value]) {
        let key = op.key(self.tag);
        self.drop_operands(key);
        let mut operands = SmallVec::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            operands.push(self.add_use(value.key(self.tag), key, index));
        }
        self.ops[key].operands = operands;
    }

    /// Sets an attribute; for a slot, of the isolated op in it.
    pub fn set_attr(&mut self, op: OpId, name: impl Into<Name>, value: Attr) {
        if let Some(child) = self.child_mut(op) {
            let root = child.root();
            return child.set_attr(root, name, value);
        }
        let name = name.into();
        let attrs = &mut self.data_mut(op).attrs;
        match attrs.binary_search_by_key(&name, |entry| entry.0) {
            Ok(i) => attrs[i].1 = value,
            Err(i) => attrs.insert(i, (name, value)),
        }
    }

    /// Removes an attribute and gives it.
    pub fn remove_attr(&mut self, op: OpId, name: &str) -> Option<Attr> {
        if let Some(child) = self.child_mut(op) {
            let root = child.root();
            return child.remove_attr(root, name);
        }
        let attrs = &mut self.data_mut(op).attrs;
        let index = attrs.iter().position(|(key, _)| *key == name)?;
        Some(attrs.remove(index).1)
    }

    /// Sets the place an op comes from.
    pub fn set_loc(&mut self, op: OpId, loc: Loc) {
        self.data_mut(op).loc = loc;
        if let Some(child) = self.child_mut(op) {
            let root = child.root();
            child.data_mut(root).loc = loc;
        }
    }

    /// Sets the type of a value.
    pub fn set_type(&mut self, value: Value, ty: Type) {
        self.values[value.key(self.tag)].ty = ty;
    }

    /// Sets the name that is printed for a value, where it is free.
    pub fn set_hint(&mut self, value: Value, hint: Option<Name>) {
        self.values[value.key(self.tag)].hint = hint;
    }

    /// Makes every use of `old` one of `new`; takes time in the number of uses.
    pub fn replace_uses(&mut self, old: Value, new: Value) {
        let (from, to) = (old.key(self.tag), new.key(self.tag));
        if from == to {
            return;
        }
        let uses = std::mem::take(&mut self.values[from].uses);
        let hint = self.values[from].hint;
        let value = &mut self.values[to];
        for (place, one) in (value.uses.len()..).zip(&uses) {
            self.ops[one.op].operands[one.index as usize] = Operand {
                value: to,
                place: place as u32,
            };
        }
        value.uses.extend_from_slice(&uses);
        value.hint = value.hint.or(hint);
    }

    /// Makes the uses of `old` that `choose` takes uses of `new`.
    pub fn replace_uses_if(
        &mut self,
        old: Value,
        new: Value,
        mut choose: impl FnMut(&Ir, crate::ir::Use) -> bool,
    ) {
        if old == new {
            return;
        }
        let uses: Vec<crate::ir::Use> = self.uses(old).collect();
        for one in uses {
            if choose(self, one) {
                self.set_operand(one.op, one.operand, new);
            }
        }
        if self.hint(new).is_none() {
            let hint = self.hint(old);
            self.set_hint(new, hint);
        }
    }

    /// Replaces the results of an op by values and erases it.
    #[track_caller]
    pub fn replace(&mut self, op: OpId, values: &[Value]) {
        let results: Vec<Value> = self.results(op).collect();
        assert_eq!(
            results.len(),
            values.len(),
            "{op} is replaced by too many or few values"
        );
        for (old, new) in results.into_iter().zip(values) {
            self.replace_uses(old, *new);
        }
        self.erase(op);
    }

    /// Makes room for ops that are about to be created, and for one result of each.
    pub fn reserve(&mut self, ops: usize) {
        self.ops.reserve(ops);
        self.values.reserve(ops);
    }

    /// Takes the isolated op out of its slot, which is erased.
    pub fn take(&mut self, slot: OpId) -> Option<Ir> {
        let child = self.data_mut(slot).child.take()?;
        self.erase(slot);
        Some(*child)
    }

    /// Puts an isolated op into a slot of its own.
    pub fn adopt(&mut self, at: impl Into<At>, child: Ir) -> OpId {
        let mut state = OpState::new(child.root_name());
        state.loc = child.loc(child.root());
        self.adopt_as(at, state, child)
    }

    /// The same, with the operands and result types of a state.
    pub fn adopt_as(&mut self, at: impl Into<At>, state: OpState, child: Ir) -> OpId {
        let slot = self.create_raw(state);
        self.data_mut(slot).child = Some(Box::new(child));
        self.insert(slot, at);
        slot
    }

    /// Renames the op to one of the same structure.
    pub fn rename(&mut self, op: OpId, name: impl Into<Name>) {
        self.data_mut(op).name = name.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(ir: &mut Ir) -> OpId {
        ir.create_raw(OpState::new("test.op"))
    }

    /// However ops are inserted, `is_before` says what the list says.
    #[test]
    fn order_follows_the_list() {
        let mut ir = Ir::new("test.root");
        let region = ir.new_region();
        let root = ir.root();
        ir.attach_region(root, region);
        let block = ir.new_block(region);
        let first = op(&mut ir);
        ir.insert(first, At::End(block));
        let (mut all, mut random) = (vec![first], tir_data::Random::new(1));
        for n in 0..3000 {
            let new = op(&mut ir);
            let any = all[random.below(all.len())];
            // Runs at one place use up the room there.
            let at = match n % 1000 {
                0..300 => At::Before(first),
                300..600 => At::After(first),
                600..700 => At::Start(block),
                700..800 => At::End(block),
                _ => At::Before(any),
            };
            ir.insert(new, at);
            all.push(new);
        }
        let list: Vec<OpId> = ir.ops_in(block).collect();
        assert_eq!(list.len(), all.len());
        assert!(list.is_sorted_by(|a, b| ir.is_before(*a, *b) && !ir.is_before(*b, *a)));
    }
}
