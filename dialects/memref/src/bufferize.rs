//! What bufferization asks of an op on tensors, and what an op turns itself into buffers with.
//!
//! The analysis that decides what is written in place asks [`Bufferizable`]; an op whose results
//! are the new content of some of its operands needs [`DestinationStyle`] only, and becomes the
//! same op on buffers. Both can be attached to an op from any crate.

use std::collections::HashMap;

use tir::{
    AffineMap, Attr, Builder, DYNAMIC, Failure, Ir, MemRefType, OpId, OpRef, OpState, RegionId,
    TensorType, Type, Value,
};

use crate::{Alloc, Copy, Dealloc, TransferWrite};

/// A result lies in the buffer of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tie {
    /// Which operand.
    pub operand: usize,
    /// Which result.
    pub result: usize,
    /// Whether the op changes the content; else the result is a view of the operand.
    pub writes: bool,
}

/// A number or a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A number.
    Static(i64),
    /// An `index`.
    Dynamic(Value),
}

/// A part of a tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The tensor.
    pub whole: Value,
    /// The part, as a tensor of its own.
    pub part: Value,
    /// Where: two parts with equal places are the same elements.
    pub place: Vec<Place>,
}

/// Numbers with values where they are [`DYNAMIC`].
pub fn places(numbers: &[i64], values: &[Value]) -> Vec<Place> {
    let mut values = values.iter();
    let place = |n: &i64| match n {
        &DYNAMIC => values
            .next()
            .map_or(Place::Static(DYNAMIC), |v| Place::Dynamic(*v)),
        n => Place::Static(*n),
    };
    numbers.iter().map(place).collect()
}

/// How an op on tensors becomes one on buffers.
pub trait Bufferizable: Send + Sync {
    /// Whether elements of this operand are read.
    fn reads(&self, op: OpRef<'_>, operand: usize) -> bool {
        let _ = (op, operand);
        true
    }
    /// Results that lie in the buffer of an operand; the others get buffers of their own.
    fn ties(&self, op: OpRef<'_>) -> Vec<Tie> {
        let _ = op;
        Vec::new()
    }
    /// Whether the elements of the results are not defined.
    fn is_undefined(&self, op: OpRef<'_>) -> bool {
        let _ = op;
        false
    }
    /// The part that the op takes out of a tensor, as its result.
    fn takes(&self, op: OpRef<'_>) -> Option<Part> {
        let _ = op;
        None
    }
    /// The part of a tensor that the op replaces; the tensor is its operand that is written.
    fn puts(&self, op: OpRef<'_>) -> Option<Part> {
        let _ = op;
        None
    }
    /// Whether operand `read` may lie in the buffer of operand `written`: the op reads each
    /// element before it writes that element, and none of it later.
    fn in_step(&self, op: OpRef<'_>, read: usize, written: usize) -> bool {
        let _ = (op, read, written);
        false
    }
    /// Makes the ops on buffers, before the op, and says the buffer of each tensor result.
    fn bufferize(&self, op: OpId, cx: &mut Buffers<'_>) -> Result<(), Failure>;
}

/// An op whose tensor results are the new content of some of its operands, in their order. On
/// buffers it is the same op, which writes those operands and has no such results.
pub trait DestinationStyle: Send + Sync {
    /// The operands that give the results their first content or only their shape.
    fn destinations(&self, op: OpRef<'_>) -> Vec<usize>;
    /// Whether the op reads what this destination holds before.
    fn reads_destination(&self, op: OpRef<'_>, operand: usize) -> bool {
        let _ = (op, operand);
        true
    }
    /// See [`Bufferizable::in_step`].
    fn in_step(&self, op: OpRef<'_>, read: usize, written: usize) -> bool {
        let _ = (op, read, written);
        false
    }
}

impl<T: DestinationStyle + ?Sized> Bufferizable for &'static T {
    fn reads(&self, op: OpRef<'_>, operand: usize) -> bool {
        !self.destinations(op).contains(&operand) || self.reads_destination(op, operand)
    }
    fn ties(&self, op: OpRef<'_>) -> Vec<Tie> {
        let tensors = op.ir.results(op.id).enumerate();
        let tensors = tensors.filter(|(_, v)| op.ir.ty(*v).is::<TensorType>());
        let tie = |(operand, (result, _))| Tie {
            operand,
            result,
            writes: true,
        };
        self.destinations(op)
            .into_iter()
            .zip(tensors)
            .map(tie)
            .collect()
    }
    fn in_step(&self, op: OpRef<'_>, read: usize, written: usize) -> bool {
        DestinationStyle::in_step(*self, op, read, written)
    }
    fn bufferize(&self, op: OpId, cx: &mut Buffers<'_>) -> Result<(), Failure> {
        let ties = self.ties(cx.ir.op(op));
        cx.same_op(op, &ties)
    }
}

/// How an op of this kind becomes one on buffers, if it is known.
pub fn bufferizable(ir: &Ir, op: OpId) -> Option<Box<dyn Bufferizable>> {
    struct Known(&'static dyn Bufferizable);
    impl Bufferizable for Known {
        fn reads(&self, op: OpRef<'_>, operand: usize) -> bool {
            self.0.reads(op, operand)
        }
        fn ties(&self, op: OpRef<'_>) -> Vec<Tie> {
            self.0.ties(op)
        }
        fn is_undefined(&self, op: OpRef<'_>) -> bool {
            self.0.is_undefined(op)
        }
        fn takes(&self, op: OpRef<'_>) -> Option<Part> {
            self.0.takes(op)
        }
        fn puts(&self, op: OpRef<'_>) -> Option<Part> {
            self.0.puts(op)
        }
        fn in_step(&self, op: OpRef<'_>, read: usize, written: usize) -> bool {
            self.0.in_step(op, read, written)
        }
        fn bufferize(&self, op: OpId, cx: &mut Buffers<'_>) -> Result<(), Failure> {
            self.0.bufferize(op, cx)
        }
    }
    let info = ir.info(op)?;
    if let Some(known) = info.interface::<dyn Bufferizable>() {
        return Some(Box::new(Known(known)));
    }
    let style: &'static dyn DestinationStyle = info.interface::<dyn DestinationStyle>()?;
    Some(Box::new(style))
}

/// What a buffer is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Home {
    /// The result of an op.
    Result(OpId, usize),
    /// An operand that an op writes, and that is not written in place.
    Operand(OpId, usize),
}

/// What the analysis decided.
#[derive(Default)]
pub struct Plan {
    /// The memory space of tensors that say none.
    pub far: Option<Attr>,
    /// Written operands that are not written in place, and whether the new buffer starts as a
    /// copy.
    pub apart: HashMap<(OpId, usize), bool>,
    /// Puts whose part stands where it belongs already.
    pub placed: std::collections::HashSet<OpId>,
    /// Buffers that exist: arguments for results of the function.
    pub given: HashMap<Home, Value>,
    /// Results of conditions that are one tensor from outside on both sides.
    pub joined: HashMap<Value, Value>,
    /// Loops whose carried tensors change places.
    pub crossing: std::collections::HashSet<OpId>,
}

/// The buffers of tensors while a function is rewritten.
pub struct Buffers<'a> {
    /// The function.
    pub ir: &'a mut Ir,
    /// What the analysis decided.
    pub plan: &'a Plan,
    of: HashMap<Value, Value>,
    dead: Vec<OpId>,
    dead_args: Vec<Value>,
    allocs: Vec<Value>,
    copies: usize,
}

impl<'a> Buffers<'a> {
    /// No buffers yet.
    pub fn new(ir: &'a mut Ir, plan: &'a Plan) -> Self {
        Self {
            ir,
            plan,
            of: HashMap::new(),
            dead: Vec::new(),
            dead_args: Vec::new(),
            allocs: Vec::new(),
            copies: 0,
        }
    }
    /// The buffer of a tensor; any other value is itself.
    pub fn of(&self, value: Value) -> Result<Value, Failure> {
        if !self.ir.ty(value).is::<TensorType>() {
            return Ok(value);
        }
        let found = self.of.get(&value).copied();
        found.ok_or_else(|| format!("uses a {} that has no buffer", self.ir.ty(value)).into())
    }
    /// Says the buffer of a tensor.
    pub fn set(&mut self, tensor: Value, buffer: Value) {
        if self.ir.hint(buffer).is_none() {
            let hint = self.ir.hint(tensor);
            self.ir.set_hint(buffer, hint);
        }
        self.of.insert(tensor, buffer);
    }
    /// The op is replaced; it is erased at the end.
    pub fn done(&mut self, op: OpId) {
        self.dead.push(op);
    }
    /// The argument of a block is replaced; it is erased at the end.
    pub fn done_arg(&mut self, arg: Value) {
        self.dead_args.push(arg);
    }
    /// The number of copies made so far.
    pub fn copies(&self) -> usize {
        self.copies
    }
    /// A builder before an op.
    pub fn before(&mut self, op: OpId) -> Builder<'_> {
        Builder::new(self.ir, tir::At::Before(op))
    }
    /// The attribute of a memory space: that of the name, or the far one.
    pub fn space(&self, name: Option<&str>) -> Option<Attr> {
        name.map(Attr::str).or(self.plan.far)
    }
    /// Whether the op writes this operand in place.
    pub fn in_place(&self, op: OpId, operand: usize) -> bool {
        !self.plan.apart.contains_key(&(op, operand))
    }

    /// A buffer for a tensor type, made before an op: it ends where the block of that op ends.
    pub fn fresh(
        &mut self,
        home: Home,
        before: OpId,
        ty: Type,
        space: Option<Attr>,
        sizes: Vec<Value>,
    ) -> Result<Value, Failure> {
        if let Some(given) = self.plan.given.get(&home) {
            return Ok(*given);
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
        let buffer = self.before(before).add(alloc);
        self.allocs.push(buffer);
        Ok(buffer)
    }

    /// The buffer that an op writes for this operand: its own if in place, else a new one, with
    /// a copy of the content if the op needs it.
    pub fn destination(&mut self, op: OpId, operand: usize) -> Result<Value, Failure> {
        let tensor = self.ir.operand(op, operand);
        let buffer = self.of(tensor)?;
        let Some(copy) = self.plan.apart.get(&(op, operand)).copied() else {
            return Ok(buffer);
        };
        let (ty, from) = (self.ir.ty(tensor), self.ir.ty(buffer));
        let space = from.get::<MemRefType>().and_then(|m| m.space);
        let new = self.fresh(Home::Operand(op, operand), op, ty, space, Vec::new())?;
        if copy {
            self.copy(op, buffer, new);
        }
        Ok(new)
    }

    /// Copies a buffer before an op; between spaces as a transfer.
    pub fn copy(&mut self, before: OpId, source: Value, target: Value) {
        if source == target {
            return;
        }
        let space = |v| self.ir.ty(v).get::<MemRefType>().and_then(|m| m.space);
        let (from, to) = (space(source), space(target));
        let rank = self.ir.ty(target).shape().map_or(0, <[i64]>::len);
        self.copies += 1;
        let mut b = self.before(before);
        if from == to {
            b.add(Copy { source, target });
        } else {
            b.add(TransferWrite {
                tile: source,
                dest: target,
                offsets: Vec::new(),
                static_offsets: vec![0; rank],
                access: AffineMap::identity(rank),
            });
        }
    }

    /// The same op on buffers: it writes the tied operands, and tensor results vanish.
    pub fn same_op(&mut self, op: OpId, ties: &[Tie]) -> Result<(), Failure> {
        let mut state = OpState::new(self.ir.name(op));
        state.loc = self.ir.loc(op);
        let count = self.ir.operands(op).len();
        for operand in 0..count {
            let buffer = match ties.iter().any(|tie| tie.operand == operand && tie.writes) {
                true => self.destination(op, operand)?,
                false => self.of(self.ir.operand(op, operand))?,
            };
            state.operands.push(buffer);
        }
        state.attrs = self.ir.attrs(op).iter().copied().collect();
        let regions: Vec<RegionId> = self.ir.regions(op).collect();
        for region in regions {
            self.ir.detach_region(region);
            state.regions.push(region);
        }
        let results: Vec<Value> = self.ir.results(op).collect();
        let kept: Vec<Value> = results
            .iter()
            .copied()
            .filter(|v| !self.ir.ty(*v).is::<TensorType>())
            .collect();
        state.results = kept.iter().map(|v| self.ir.ty(*v)).collect();
        let buffers: Vec<Value> = state.operands.to_vec();
        let new = self.ir.create_raw(state);
        self.ir.insert(new, tir::At::Before(op));
        for (index, old) in kept.into_iter().enumerate() {
            let value = self.ir.result(new, index);
            self.ir.replace_uses(old, value);
        }
        for tie in ties {
            if let (Some(result), Some(buffer)) =
                (results.get(tie.result), buffers.get(tie.operand))
            {
                self.set(*result, *buffer);
            }
        }
        self.done(op);
        Ok(())
    }

    /// Ends every buffer at the end of its block, erases what was replaced, and what nobody uses.
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
            if let tir::Definition::Argument(block, index) = ir.definition(arg) {
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
        for buffer in allocs
            .into_iter()
            .rev()
            .filter(|v| ir.contains_value(*v))
            .collect::<Vec<_>>()
        {
            let Some(block) = ir.value_block(buffer) else {
                continue;
            };
            match ir.terminator(block) {
                Some(end) => ir.add(tir::At::Before(end), Dealloc { memref: buffer }),
                None => ir.add(block, Dealloc { memref: buffer }),
            };
        }
    }
}
