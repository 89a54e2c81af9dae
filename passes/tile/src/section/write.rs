//! Sections as ops: what their nests read is loaded into the memory of the level, what they compute lies there, and what others
//! need of it is stored.

use std::collections::{HashMap, HashSet};

use tir::{AffineMap, At, Attr, Builder, Ir, Mapping, Name, OpId, Ret, Value};
use tir_tensor::{
    CollapseShape, Empty, ExpandShape, Generic, InsertSlice, TransferRead, TransferWrite,
};

use super::tensors::{fills, is_view, shown};
use super::{Copied, Section};

/// What the ops of a section read and write instead of what they did.
struct Writer<'a> {
    section: &'a Section,
    space: Name,
    /// Values of the section by what they were.
    known: HashMap<Value, Value>,
    /// Ops that were made for it.
    made: HashSet<OpId>,
    /// Views that were copied.
    views: Vec<OpId>,
}

/// Makes the generics of a section work in a space; those that fill what others compute in are copied.
pub(super) fn write(func: &mut Ir, section: &Section, space: Name) -> Vec<Copied> {
    let ops: Vec<OpId> = func.walk_ids();
    let ops: Vec<OpId> = ops
        .into_iter()
        .filter(|op| section.ops.contains(op))
        .collect();
    let mut writer = Writer {
        section,
        space,
        known: HashMap::new(),
        made: HashSet::new(),
        views: Vec::new(),
    };
    writer.loads(func, &ops);
    let mut filled = Vec::new();
    for op in &ops {
        for i in 0..func.operands(*op).count() {
            let Some(value) = func.operands(*op).nth(i) else {
                continue;
            };
            let new = writer.value(func, value, *op, &mut filled);
            func.set_operand(*op, i, new);
        }
    }
    // What only the section read is gone.
    for view in writer.views.iter().rev() {
        if func.results(*view).all(|value| func.is_unused(value)) {
            func.erase(*view);
        }
    }
    for op in &ops {
        writer.stores(func, *op);
    }
    let filled = filled.into_iter().map(|(new, op)| (new, op, 0));
    filled
        .chain(ops.into_iter().map(|op| (op, op, 0)))
        .collect()
}

impl Writer<'_> {
    /// Starts the loads in their order, each where the section says, or before the first op that reads it.
    fn loads(&mut self, func: &mut Ir, ops: &[OpId]) {
        let mut first: HashMap<Value, OpId> = HashMap::new();
        for op in ops {
            for value in func.operands(*op) {
                first.entry(shown(func, value)).or_insert(*op);
            }
        }
        for ((value, _), nest) in &self.section.loads {
            let nests = self.section.nests.get(*nest);
            let Some(nest) = nests.and_then(|ops| ops.last()) else {
                continue;
            };
            let Some(reader) = first.get(value).copied() else {
                continue;
            };
            let block = func.block_of(reader);
            let owner = func.owner(*value);
            let there = |at: OpId| {
                let here = owner.filter(|owner| func.block_of(*owner) == block);
                here.is_none_or(|owner| func.is_before(owner, at))
            };
            let early = *nest != reader && func.is_before(*nest, reader) && there(*nest);
            let at = if early { *nest } else { reader };
            self.load(func, *value, at);
        }
    }

    fn load(&mut self, func: &mut Ir, value: Value, at: OpId) -> Value {
        let ty = func.ty(value);
        let rank = ty.shape().map_or(0, <[i64]>::len);
        let mut b = Builder::new(func, At::Before(at));
        b.loc = b.ir.loc(at);
        let loaded = b.add(TransferRead {
            source: value,
            offsets: Vec::new(),
            padding: None,
            into: None,
            static_offsets: vec![0; rank],
            access: AffineMap::identity(rank),
            space: Some(self.space.to_string()),
            result: Ret(ty),
        });
        self.made.extend(func.owner(loaded));
        let hint = func.hint(value);
        func.set_hint(loaded, hint);
        self.known.insert(value, loaded);
        loaded
    }

    /// What an op of the section reads or writes in the place of a value.
    fn value(
        &mut self,
        func: &mut Ir,
        value: Value,
        before: OpId,
        filled: &mut Vec<(OpId, OpId)>,
    ) -> Value {
        if let Some(known) = self.known.get(&value) {
            return *known;
        }
        let Some(op) = func.owner(value) else {
            return self.load(func, value, before);
        };
        if self.section.ops.contains(&op) || self.made.contains(&op) {
            return value;
        }
        let fill = func.is::<Generic>(op) && fills(func, op);
        let view = func.is::<ExpandShape>(op)
            || func.is::<CollapseShape>(op)
            || func.get::<TransferRead>(op).as_ref().is_some_and(is_view);
        let whole = func.is::<InsertSlice>(op) && self.holds(func, value);
        let empty = func.is::<Empty>(op);
        if !(fill || view || whole || empty) {
            return self.load(func, value, before);
        }
        let mut map = Mapping::default();
        if !empty {
            let operands: Vec<Value> = func.operands(op).collect();
            for operand in operands {
                let scalar = func.ty(operand).shape().is_none();
                if !scalar {
                    let new = self.value(func, operand, before, filled);
                    map.map(operand, new);
                }
            }
        }
        // What others compute in is there before any of them; what is read may only be loaded behind it.
        let at = if empty || fill {
            At::After(op)
        } else {
            At::Before(before)
        };
        let new = func.duplicate(op, at, &mut map);
        if empty {
            func.set_attr(new, "space", Attr::str(self.space.as_str()));
        }
        self.made.insert(new);
        if fill {
            filled.push((new, op));
        } else {
            self.views.push(op);
        }
        let result = func.result(new, 0);
        self.known.insert(value, result);
        result
    }

    /// Whether a part of what is put together is computed by the section.
    fn holds(&self, func: &Ir, mut value: Value) -> bool {
        while let Some(insert) = func.def::<InsertSlice>(value) {
            let part = func.owner(shown(func, insert.source));
            if part.is_some_and(|op| self.section.ops.contains(&op)) {
                return true;
            }
            value = insert.dest;
        }
        false
    }

    /// Stores what others need.
    fn stores(&mut self, func: &mut Ir, op: OpId) {
        let results: Vec<Value> = func.results(op).collect();
        for value in results {
            let outside = |op: &OpId| !self.section.ops.contains(op) && !self.made.contains(op);
            let uses: Vec<OpId> = func.uses(value).map(|u| u.op).collect();
            if !uses.iter().any(outside) {
                continue;
            }
            let ty = func.ty(value);
            let rank = ty.shape().map_or(0, <[i64]>::len);
            let mut b = Builder::new(func, At::After(op));
            b.loc = b.ir.loc(op);
            let dest = b.add(Empty {
                dynamic_sizes: Vec::new(),
                space: None,
                result: Ret(ty),
            });
            b.at = At::After(b.ir.owner(dest).unwrap_or(op));
            let stored = b.add(TransferWrite {
                source: value,
                dest,
                offsets: Vec::new(),
                static_offsets: vec![0; rank],
                access: AffineMap::identity(rank),
                result: Ret(ty),
            });
            self.made.extend(func.owner(stored));
            let made = &self.made;
            let ops = &self.section.ops;
            func.replace_uses_if(value, stored, |_, u| {
                !ops.contains(&u.op) && !made.contains(&u.op)
            });
        }
    }
}
