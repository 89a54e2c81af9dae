//! Regions in e-nodes: opaque, equal if they say the same of what they use from outside.

use rustc_hash::{FxHashMap, FxHashSet};
use tir::rewrite::{hash_op, ops_are_equal};
use tir::{At, BlockId, Ir, Mapping, OpId, Traits, Type, Value};

use crate::node::Index;

/// Regions by number. Each is kept as a copy of an op in an arena of its own, in which the values
/// from outside are arguments: the first one used of each type, the second one …
pub struct Regions {
    ir: Ir,
    block: BlockId,
    arguments: FxHashMap<(Type, usize), Value>,
    known: FxHashMap<u64, Vec<(OpId, Index)>>,
    /// The copies by number, and the arguments that the regions of each use.
    ops: Vec<(OpId, Vec<Value>)>,
}

impl Default for Regions {
    fn default() -> Self {
        let mut ir = Ir::new("egraph.regions");
        let region = ir.new_region();
        let root = ir.root();
        ir.attach_region(root, region);
        let block = ir.new_block(region);
        Self {
            ir,
            block,
            arguments: FxHashMap::default(),
            known: FxHashMap::default(),
            ops: Vec::new(),
        }
    }
}

/// The values that the regions of an op use from outside of it, in the order in which they are met from the ends of its blocks:
/// each operand before the next one, with all that it is computed from inside. So it does not matter in which order ops without
/// effects stand, which a proof does not say.
pub fn captures(ir: &Ir, op: OpId) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    let mut done: FxHashSet<OpId> = FxHashSet::default();
    let inside = |value: Value| {
        let block = ir.value_block(value);
        let owner = block.and_then(|block| ir.block_parent(block));
        owner.is_some_and(|owner| ir.is_below(owner, op))
    };
    // What is to be looked at next is the last one.
    let mut work = below(ir, op);
    while let Some(place) = work.pop() {
        let inner = match place {
            Place::Op(inner) => Some(inner),
            Place::Value(value) if !inside(value) => {
                if !found.contains(&value) {
                    found.push(value);
                }
                None
            }
            // An op with effects is looked at in its turn.
            Place::Value(value) => ir.owner(value).filter(|op| is_free(ir, *op)),
        };
        if let Some(inner) = inner.filter(|inner| done.insert(*inner)) {
            work.extend(below(ir, inner));
            let operands: Vec<Value> = ir.operands(inner).collect();
            work.extend(operands.into_iter().rev().map(Place::Value));
        }
    }
    found
}

/// What is looked at for values from outside.
#[derive(Clone, Copy)]
enum Place {
    Op(OpId),
    Value(Value),
}

/// Whether an op may stand anywhere between what it uses and what uses it.
fn is_free(ir: &Ir, op: OpId) -> bool {
    ir.is_pure(op) && !ir.has(op, Traits::Terminator)
}

/// The ops right below an op, the last one first: of each block those that have their places, behind them the others, of
/// which those that are used have been met by then.
fn below(ir: &Ir, op: OpId) -> Vec<Place> {
    let blocks = ir.regions(op).flat_map(|region| ir.blocks(region));
    let all: Vec<OpId> = blocks.flat_map(|block| ir.ops_in(block)).collect();
    let (free, others): (Vec<OpId>, Vec<OpId>) = all.into_iter().partition(|op| is_free(ir, *op));
    let all = others.into_iter().chain(free);
    all.rev().map(Place::Op).collect()
}

impl Regions {
    /// The number of the regions of an op, and the values that they use from outside, in the order of the first op with equal
    /// regions: `a + b` and `b + a` are equal, and meet them in orders of their own.
    pub fn add(&mut self, src: &Ir, op: OpId) -> (Index, Vec<Value>) {
        let captured = captures(src, op);
        let mut map = Mapping::default();
        let mut used: FxHashMap<Type, usize> = FxHashMap::default();
        let operands: Vec<Value> = src.operands(op).collect();
        let mut given: FxHashMap<Value, Value> = FxHashMap::default();
        for value in operands.iter().chain(&captured) {
            if map.get(*value) != *value {
                continue;
            }
            let ty = src.ty(*value);
            let nth = used.entry(ty).or_default();
            let key = (ty, *nth);
            *nth += 1;
            let argument = match self.arguments.get(&key) {
                Some(known) => *known,
                None => {
                    let new = self.ir.add_arg(self.block, ty);
                    self.arguments.insert(key, new);
                    new
                }
            };
            map.map(*value, argument);
            given.insert(argument, *value);
        }
        let copy = self.ir.copy_op(src, op, At::End(self.block), &mut map);
        let same = self.known.entry(hash_op(&self.ir, copy)).or_default();
        let found = same
            .iter()
            .find(|(other, _)| ops_are_equal(&self.ir, *other, copy));
        let index = match found {
            Some((_, index)) => {
                let index = *index;
                self.ir.erase(copy);
                index
            }
            None => {
                let index = self.ops.len() as Index;
                self.ops.push((copy, captures(&self.ir, copy)));
                same.push((copy, index));
                index
            }
        };
        // Equal regions use the same arguments.
        let used = self.ops[index as usize].1.iter();
        (
            index,
            used.filter_map(|used| given.get(used).copied()).collect(),
        )
    }

    /// Makes an op with the regions of a number, on operands of which the last ones are what the regions
    /// use from outside.
    pub fn make(&self, index: Index, operands: &[Value], ir: &mut Ir, at: At) -> OpId {
        let (copy, captured) = &self.ops[index as usize];
        let used = self.ir.operands(*copy).chain(captured.iter().copied());
        let mut map = Mapping::default();
        for (argument, operand) in used.zip(operands) {
            map.map(argument, *operand);
        }
        ir.copy_op(&self.ir, *copy, at, &mut map)
    }
}
