//! The buffers of tensors while a function is rewritten, as the analysis decided.
//!
//! Where a buffer ends is decided last, on the control-flow graph: behind its last use on each way,
//! that is before the end of a block behind which nothing uses it, or on the way from a block whose
//! other ways still do.

use std::collections::{HashMap, HashSet};

use tir::remarks::THREAD_COPY;
use tir::{
    AffineMap, At, Attr, BlockId, DYNAMIC, Definition, Diagnostic, Failure, Ir, MemRefType, OpId,
    TensorType, Type, Value,
};
use tir_memref::alias::aliases;
use tir_memref::bufferize::{BufferRequirement, BufferizationContext, ElementOrder, bufferizable};
use tir_memref::{Alloc, Copy, Dealloc, TransferWrite};

use crate::branches::split_edge;
use crate::interfaces;

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
    /// Tensors of which not all is defined: nothing, or a subset that an op wrote last and what is
    /// defined of the tensor that it was written into.
    pub partial: HashMap<Value, Option<(OpId, Value)>>,
    /// Operands for which an op does not take any buffer.
    pub requirements: HashMap<(OpId, usize), BufferRequirement>,
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
    told: Vec<Diagnostic>,
}

impl Decisions {
    /// The ops that wrote all that is defined of a tensor, each a subset, the last one first; `None`
    /// if all of it may be defined.
    pub fn writers(&self, tensor: Value) -> Option<impl Iterator<Item = OpId> + '_> {
        let first = *self.partial.get(&tensor)?;
        let next = |(_, base): &(OpId, Value)| *self.partial.get(base)?;
        Some(std::iter::successors(first, next).map(|(op, _)| op))
    }
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
            told: Vec::new(),
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
    /// What is to be told of tiles that the thread copies for a call of a unit, which takes none that lie so.
    pub fn told(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.told)
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
        let alloc = Alloc {
            dynamic_sizes: sizes,
            ..Alloc::new(Type::memref(shape, ty.elem(), space))
        };
        let buffer = self.add_alloc(before, alloc);
        // How many slots the tensor is to have holds for its buffer.
        if let AllocationSite::Result(op, _) = site
            && let (Some(slots), Some(alloc)) =
                (self.ir.attr(op, tir_accel::DEPTH), self.ir.owner(buffer))
        {
            self.ir.set_attr(alloc, tir_accel::DEPTH, slots);
        }
        Ok(buffer)
    }

    fn add_alloc(&mut self, before: OpId, alloc: Alloc) -> Value {
        let loc = self.ir.loc(before);
        let mut b = self.ir.at(At::Before(before));
        b.loc = loc;
        let buffer = b.add(alloc);
        self.allocs.push(buffer);
        buffer
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
        if copy && self.unmet(op, operand, new).is_none() {
            self.copy_content(op, tensor, buffer, new)?;
        }
        Ok(new)
    }
    fn required(
        &mut self,
        op: OpId,
        operand: usize,
        buffer: Value,
    ) -> Result<Option<Value>, Failure> {
        let Some(requirement) = self.unmet(op, operand, buffer) else {
            return Ok(None);
        };
        let tensor = self.ir.operand(op, operand);
        let source = self.buffer(tensor)?;
        let found = memref_type(self.ir, source)?;
        if found.shape.contains(&DYNAMIC) {
            let space = requirement.space;
            let text = format!("takes operand {operand} in {space}, where its size is not known");
            return Err(text.into());
        }
        let space = Some(Attr::str(requirement.space.as_str()));
        let alloc = Alloc::new(Type::memref(found.shape.clone(), found.elem, space));
        let taken = self.add_alloc(op, alloc);
        if found.space_name() == Some(requirement.space) {
            let text = format!(
                "the thread copies a tile for operand {operand} of '{}'",
                self.ir.name(op)
            );
            let lies = match requirement.order {
                ElementOrder::Dense => "one behind the other",
                ElementOrder::Rows => "in dense rows",
                ElementOrder::Any => "in this space",
            };
            let note = format!("its elements are to lie {lies}, and the tile is part of a {found}");
            let remark = Diagnostic::remark(text).category(THREAD_COPY);
            self.told.push(remark.at(self.ir.loc(op)).note(note));
        }
        if requirement.reads {
            self.copy_content(op, tensor, source, taken)?;
        }
        Ok(Some(taken))
    }
    fn copy(&mut self, before: OpId, tensor: Value, target: Value) -> Result<(), Failure> {
        let source = self.buffer(tensor)?;
        self.copy_content(before, tensor, source, target)
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

impl Buffers<'_> {
    /// What an op requires of the buffer of an operand, if this one is not so.
    fn unmet(&self, op: OpId, operand: usize, buffer: Value) -> Option<BufferRequirement> {
        let requirement = *self.decisions.requirements.get(&(op, operand))?;
        let met = memref_type(self.ir, buffer).is_ok_and(|found| requirement.is_met(found));
        (!met).then_some(requirement)
    }

    /// Tells that a call gets a copy of a tensor that does not lie as an argument does.
    pub fn told_copy(&mut self, op: OpId, operand: usize, found: Type) {
        let text = format!("operand {operand} of the call is copied");
        let note = format!(
            "arguments lie one element behind the other in far memory, and this is a {found}"
        );
        let remark = Diagnostic::remark(text).category(THREAD_COPY);
        self.told.push(remark.at(self.ir.loc(op)).note(note));
    }

    /// Copies what is defined of a tensor from one buffer to another before an op.
    pub fn copy_content(
        &mut self,
        before: OpId,
        tensor: Value,
        source: Value,
        target: Value,
    ) -> Result<(), Failure> {
        if source == target {
            return Ok(());
        }
        let Some(writers) = self.decisions.writers(tensor) else {
            self.copy_all(before, source, target);
            return Ok(());
        };
        for writer in writers {
            let known = bufferizable(self.ir, writer);
            // Read now, as operands of the op may have been replaced since the analysis.
            let position = known.and_then(|known| known.written_subset(self.ir.op(writer)));
            let position = position.ok_or("copies a subset that is not known")?;
            let from = interfaces::sub_view(self.ir, At::Before(before), source, &position)?;
            let to = interfaces::sub_view(self.ir, At::Before(before), target, &position)?;
            self.copy_all(before, from, to);
        }
        Ok(())
    }

    fn copy_all(&mut self, before: OpId, source: Value, target: Value) {
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
}

/// The type of a buffer.
pub fn memref_type(ir: &Ir, buffer: Value) -> Result<&'static MemRefType, Failure> {
    let ty = ir.ty(buffer);
    ty.get::<MemRefType>()
        .ok_or_else(|| format!("expected a buffer, found {ty}").into())
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
