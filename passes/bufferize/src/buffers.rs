//! The buffers of tensors while a function is rewritten, as the analysis decided.
//!
//! Where a buffer ends is decided last, on the control-flow graph: behind its last use on each way,
//! that is before the end of a block behind which nothing uses it, or on the way from a block whose
//! other ways still do.

use std::collections::{HashMap, HashSet};

use tir::{
    AffineMap, At, Attr, BlockId, DYNAMIC, Definition, Failure, Ir, MemRefType, OpId, TensorType,
    Type, Value,
};
use tir_memref::alias::aliases;
use tir_memref::bufferize::BufferizationContext;
use tir_memref::{Alloc, Copy, Dealloc, TransferWrite};

use crate::branches::split_edge;

/// What a buffer is allocated for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AllocationSite {
    /// The result of an op.
    Result(OpId, usize),
    /// An operand that an op writes out of place.
    Operand(OpId, usize),
    /// The argument of a block that others branch to.
    Argument(Value),
}

/// What the analysis decided.
#[derive(Default)]
pub struct Decisions {
    /// The memory space of tensors that say none.
    pub far: Option<Attr>,
    /// Operands written out of place, and whether the new buffer starts as a copy.
    pub out_of_place: HashMap<(OpId, usize), bool>,
    /// Insertions whose subset stands where it belongs already.
    pub inserted_in_place: HashSet<OpId>,
    /// Buffers that exist: arguments for results of the function.
    pub given: HashMap<AllocationSite, Value>,
    /// Buffers that are those of results of conditions, which exist when the branches run.
    pub yielded: HashMap<AllocationSite, Value>,
    /// Results of conditions that are one tensor from outside on both sides.
    pub joined: HashMap<Value, Value>,
    /// The memory space of results of conditions and of block arguments, where it is not the far
    /// one.
    pub spaces: HashMap<Value, Attr>,
    /// Loops, and ways to a successor, by its number, whose tensors change places.
    pub crossing: HashSet<(OpId, usize)>,
}

/// The buffers of tensors while a function is rewritten.
pub struct Buffers<'a> {
    /// The function.
    pub ir: &'a mut Ir,
    /// What the analysis decided.
    pub decisions: &'a Decisions,
    of: HashMap<Value, Value>,
    dead: Vec<OpId>,
    dead_args: Vec<Value>,
    allocs: Vec<Value>,
    copies: usize,
}

impl<'a> Buffers<'a> {
    /// No buffers yet.
    pub fn new(ir: &'a mut Ir, decisions: &'a Decisions) -> Self {
        Self {
            ir,
            decisions,
            of: HashMap::new(),
            dead: Vec::new(),
            dead_args: Vec::new(),
            allocs: Vec::new(),
            copies: 0,
        }
    }
    /// The argument of a block is replaced; it is erased at the end.
    pub fn erase_argument_later(&mut self, arg: Value) {
        self.dead_args.push(arg);
    }
    /// The number of copies made so far.
    pub fn copies(&self) -> usize {
        self.copies
    }
    /// The space that a tensor is to lie in: that of a result of a condition or of a block
    /// argument, else the far one.
    pub fn space_of(&self, tensor: Value) -> Option<Attr> {
        let own = self.decisions.spaces.get(&tensor).copied();
        own.or(self.decisions.far)
    }

    /// A buffer for a tensor type, made before an op.
    pub fn allocate_for(
        &mut self,
        site: AllocationSite,
        before: OpId,
        ty: Type,
        space: Option<Attr>,
        sizes: Vec<Value>,
    ) -> Result<Value, Failure> {
        if let Some(given) = self.decisions.given.get(&site) {
            return Ok(*given);
        }
        let yielded = self.decisions.yielded.get(&site);
        if let Some(buffer) = yielded.and_then(|tensor| self.of.get(tensor)) {
            return Ok(*buffer);
        }
        let shape = ty.shape().unwrap_or(&[]);
        if shape.iter().filter(|d| **d == DYNAMIC).count() != sizes.len() {
            return Err(format!("needs a buffer for a {ty}, whose size is not known").into());
        }
        let ty = Type::memref(shape, ty.elem(), space);
        let alloc = Alloc {
            dynamic_sizes: sizes,
            ..Alloc::new(ty)
        };
        let loc = self.ir.loc(before);
        let mut b = self.ir.at(At::Before(before));
        b.loc = loc;
        let buffer = b.add(alloc);
        self.allocs.push(buffer);
        Ok(buffer)
    }

    /// Erases what was replaced and what nobody uses, and ends every buffer behind its last use.
    pub fn finish(self) {
        let Self {
            ir,
            dead,
            dead_args,
            allocs,
            ..
        } = self;
        ir.erase_all(&dead);
        for arg in dead_args {
            if let Definition::Argument(block, index) = ir.definition(arg) {
                ir.erase_arg(block, index);
            }
        }
        for op in ir.walk_ids().into_iter().rev() {
            let unused = ir.results(op).all(|v| ir.is_unused(v));
            let buffer = ir.results(op).any(|v| ir.ty(v).is::<MemRefType>());
            if buffer && unused && ir.is_removable(op) {
                ir.erase(op);
            }
        }
        // The last one made ends first.
        for buffer in allocs.into_iter().rev() {
            if ir.contains_value(buffer) {
                end(ir, buffer);
            }
        }
    }
}

impl BufferizationContext for Buffers<'_> {
    fn ir(&self) -> &Ir {
        self.ir
    }
    fn ir_mut(&mut self) -> &mut Ir {
        self.ir
    }
    fn buffer(&self, value: Value) -> Result<Value, Failure> {
        if !self.ir.ty(value).is::<TensorType>() {
            return Ok(value);
        }
        let found = self.of.get(&value).copied();
        found.ok_or_else(|| format!("uses a {} that has no buffer", self.ir.ty(value)).into())
    }
    fn set_buffer(&mut self, tensor: Value, buffer: Value) {
        if self.ir.hint(buffer).is_none() {
            let hint = self.ir.hint(tensor);
            self.ir.set_hint(buffer, hint);
        }
        self.of.insert(tensor, buffer);
    }
    fn allocate(
        &mut self,
        op: OpId,
        result: usize,
        ty: Type,
        space: Option<Attr>,
        sizes: Vec<Value>,
    ) -> Result<Value, Failure> {
        self.allocate_for(AllocationSite::Result(op, result), op, ty, space, sizes)
    }
    fn destination(&mut self, op: OpId, operand: usize) -> Result<Value, Failure> {
        let tensor = self.ir.operand(op, operand);
        let buffer = self.buffer(tensor)?;
        let Some(copy) = self.decisions.out_of_place.get(&(op, operand)).copied() else {
            return Ok(buffer);
        };
        let (ty, from) = (self.ir.ty(tensor), self.ir.ty(buffer));
        let space = from.get::<MemRefType>().and_then(|m| m.space);
        let site = AllocationSite::Operand(op, operand);
        let new = self.allocate_for(site, op, ty, space, Vec::new())?;
        if copy {
            self.copy(op, buffer, new);
        }
        Ok(new)
    }
    fn copy(&mut self, before: OpId, source: Value, target: Value) {
        if source == target {
            return;
        }
        let space = |v| self.ir.ty(v).get::<MemRefType>().and_then(|m| m.space);
        let (from, to) = (space(source), space(target));
        let rank = self.ir.ty(target).shape().map_or(0, <[i64]>::len);
        self.copies += 1;
        if from == to {
            self.ir.add(At::Before(before), Copy { source, target });
        } else {
            let transfer = TransferWrite {
                tile: source,
                dest: target,
                offsets: Vec::new(),
                static_offsets: vec![0; rank],
                access: AffineMap::identity(rank),
            };
            self.ir.add(At::Before(before), transfer);
        }
    }
    fn memory_space(&self, name: Option<&str>) -> Option<Attr> {
        name.map(Attr::str).or(self.decisions.far)
    }
    fn is_inserted_in_place(&self, op: OpId) -> bool {
        self.decisions.inserted_in_place.contains(&op)
    }
    fn erase_later(&mut self, op: OpId) {
        self.dead.push(op);
    }
}

/// Deallocates a buffer behind its last use on each way from its allocation.
fn end(ir: &mut Ir, buffer: Value) {
    let Some(home) = ir.value_block(buffer) else {
        return;
    };
    let Some(region) = ir.region_of(home) else {
        return;
    };
    let blocks: Vec<BlockId> = ir.blocks(region).collect();
    let next = |ir: &Ir, block: BlockId| -> Vec<BlockId> {
        let end = ir.last(block);
        end.into_iter().flat_map(|op| ir.successors(op)).collect()
    };
    // The blocks at whose begin it is to be kept: in = (out - def) ∪ use.
    let mut used: HashSet<BlockId> = HashSet::new();
    if blocks.len() > 1 {
        for value in aliases(ir, buffer) {
            let user = |op| blocks.iter().find(|b| ir.ancestor_in(op, **b).is_some());
            used.extend(ir.uses(value).filter_map(|u| user(u.op)));
        }
        used.remove(&home);
        let mut changed = true;
        while changed {
            changed = false;
            for block in blocks.iter().rev().filter(|block| **block != home) {
                let passes = next(ir, *block).iter().any(|next| used.contains(next));
                changed |= passes && used.insert(*block);
            }
        }
    }
    let held: Vec<BlockId> = blocks
        .iter()
        .copied()
        .filter(|block| *block == home || used.contains(block))
        .collect();
    let keeps = |ir: &Ir, block: BlockId| next(ir, block).iter().any(|b| used.contains(b));
    let mut freed: HashSet<BlockId> = HashSet::new();
    for block in &held {
        if !keeps(ir, *block) {
            match ir.terminator(*block) {
                Some(end) => ir.add(At::Before(end), Dealloc { memref: buffer }),
                None => ir.add(*block, Dealloc { memref: buffer }),
            };
            continue;
        }
        let Some(branch) = ir.last(*block) else {
            continue;
        };
        for (index, to) in next(ir, *block).into_iter().enumerate() {
            if used.contains(&to) || freed.contains(&to) {
                continue;
            }
            let mut before = blocks.iter().filter(|b| next(ir, **b).contains(&to));
            if before.all(|b| held.contains(b) && keeps(ir, *b)) {
                freed.insert(to);
                let first = ir.first(to).map_or(At::End(to), At::Before);
                ir.add(first, Dealloc { memref: buffer });
            } else if let Some(end) = split_edge(ir, branch, index) {
                ir.add(At::Before(end), Dealloc { memref: buffer });
            }
        }
    }
}
