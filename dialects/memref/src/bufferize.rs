//! What bufferization asks of an op on tensors, and what an op becomes one on buffers with.
//!
//! The words are those of MLIR's one-shot bufferization. Each tensor is to lie in a *buffer*. An
//! *aliasing operand* is one in whose buffer a result lies. If the op writes that operand it may do
//! so *in place*, or *out of place* into a new buffer; it must be out of place where a later op
//! reads what the buffer held before (a *read-after-write conflict*). A *subset* is a part of a
//! tensor that an op extracts or inserts.
//!
//! An op implements [`BufferizableOp`]; one whose results are the new content of some of its
//! operands needs [`DestinationStyleOp`] only, becomes the same op on buffers, and is attached as
//! [`DestinationPassing`]. Both can be attached to an op from any crate.

use tir::{
    Attr, Failure, Ir, MemRefType, Name, OpId, OpRef, OpState, RegionId, Scopes, TensorType, Type,
    Value,
};
use tir_arith::OpFoldResult;

/// A result that lies in the buffer of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AliasingOperand {
    /// Which operand.
    pub operand: usize,
    /// Which result.
    pub result: usize,
    /// Whether the op writes the operand, so that the result is its new content; else the result
    /// is a view of it.
    pub writes: bool,
}

/// A subset of a tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subset {
    /// The tensor.
    pub whole: Value,
    /// The subset, as a tensor of its own.
    pub part: Value,
    /// Where: offsets, sizes, strides. Two subsets with equal positions are the same elements.
    pub position: Vec<OpFoldResult>,
}

/// How the elements of a buffer that an op takes may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElementOrder {
    /// One behind the other.
    Dense,
    /// Each row dense, rows apart from each other.
    Rows,
    /// At any strides.
    Any,
}

/// What buffers an op takes for an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferRequirement {
    /// The memory space.
    pub space: Name,
    /// How the elements may lie.
    pub order: ElementOrder,
    /// Whether it may be the buffer that the op writes: each element is read before it is written,
    /// and not later.
    pub elementwise: bool,
    /// Whether the op reads what the operand holds: a copy in another buffer begins with it then.
    pub reads: bool,
}

impl BufferRequirement {
    /// Whether a buffer is one that the op takes.
    pub fn is_met(&self, buffer: &MemRefType) -> bool {
        let order = match self.order {
            ElementOrder::Dense => buffer.is_dense(),
            ElementOrder::Rows => buffer.is_dense() || buffer.has_dense_rows(),
            ElementOrder::Any => true,
        };
        buffer.space_name() == Some(self.space) && order
    }
}

/// What an op makes itself one on buffers with: the buffers of tensors, and new ones.
pub trait BufferizationContext {
    /// The function.
    fn ir(&self) -> &Ir;
    /// The function, to change.
    fn ir_mut(&mut self) -> &mut Ir;
    /// The buffer of a tensor; any other value is itself.
    fn buffer(&self, value: Value) -> Result<Value, Failure>;
    /// Sets the buffer of a tensor.
    fn set_buffer(&mut self, tensor: Value, buffer: Value);
    /// A new buffer of a tensor type for a result of an op, made before it; `sizes` are those of its dynamic
    /// dimensions. It is deallocated when it is no more used.
    fn allocate(
        &mut self,
        op: OpId,
        result: usize,
        ty: Type,
        space: Option<Attr>,
        sizes: Vec<Value>,
    ) -> Result<Value, Failure>;
    /// The buffer that an op writes for this operand: the operand's own if in place, else a new
    /// one, with a copy of the content if the op reads it.
    fn destination(&mut self, op: OpId, operand: usize) -> Result<Value, Failure>;
    /// A buffer that the op takes for an operand, with what is defined of that tensor, if it does
    /// not take `buffer`, which is that of the tensor or its [`destination`](Self::destination).
    fn required(
        &mut self,
        op: OpId,
        operand: usize,
        buffer: Value,
    ) -> Result<Option<Value>, Failure>;
    /// Copies what is defined of a tensor to a buffer before an op; between spaces as a transfer.
    fn copy(&mut self, before: OpId, tensor: Value, target: Value) -> Result<(), Failure>;
    /// The attribute of a memory space: that of the name, or the far one.
    fn memory_space(&self, name: Option<&str>) -> Option<Attr>;
    /// Whether what an op inserts stands already where it belongs.
    fn is_inserted_in_place(&self, op: OpId) -> bool;
    /// The op is replaced; it is erased at the end.
    fn erase_later(&mut self, op: OpId);
}

/// How an op on tensors becomes one on buffers (MLIR's `BufferizableOpInterface`).
pub trait BufferizableOp: Send + Sync {
    /// Whether elements of this operand are read.
    fn bufferizes_to_memory_read(&self, op: OpRef<'_>, operand: usize) -> bool {
        let _ = (op, operand);
        true
    }
    /// Results that lie in the buffer of an operand; the others get buffers of their own.
    fn aliasing_operands(&self, op: OpRef<'_>) -> Vec<AliasingOperand> {
        let _ = op;
        Vec::new()
    }
    /// Whether the elements of the results are undefined.
    fn results_are_undefined(&self, op: OpRef<'_>) -> bool {
        let _ = op;
        false
    }
    /// The subset that the op extracts as its result.
    fn subset_extraction(&self, op: OpRef<'_>) -> Option<Subset> {
        let _ = op;
        None
    }
    /// Whether its result is all of its only operand in another shape, elements in the same order.
    fn reshapes(&self, op: OpRef<'_>) -> bool {
        let _ = op;
        false
    }
    /// The subset that the op replaces; the whole is its operand that is written.
    fn subset_insertion(&self, op: OpRef<'_>) -> Option<Subset> {
        let _ = op;
        None
    }
    /// Where the elements are that the op writes in the operand whose new content is its result, if
    /// all others stay: offsets, sizes, strides. `None` where it may write any.
    fn written_subset(&self, op: OpRef<'_>) -> Option<Vec<OpFoldResult>> {
        self.subset_insertion(op).map(|subset| subset.position)
    }
    /// Whether operand `read` may lie in the buffer of operand `written`: the op reads each
    /// element before it writes that element, and none of it later.
    fn bufferizes_to_elementwise_access(&self, op: OpRef<'_>, read: usize, written: usize) -> bool {
        let _ = (op, read, written);
        false
    }
    /// What buffers the op takes for an operand, if not any; symbols are found in `scopes`. Of a
    /// buffer that is none of these there is a copy in one that is.
    fn operand_requirement(
        &self,
        op: OpRef<'_>,
        operand: usize,
        scopes: &Scopes<'_>,
    ) -> Option<BufferRequirement> {
        let _ = (op, operand, scopes);
        None
    }
    /// Makes the ops on buffers, before the op, and sets the buffer of each tensor result.
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure>;
}

/// An op whose tensor results are the new content of some of its operands, in their order (MLIR's
/// `DestinationStyleOpInterface`). On buffers it is the same op, which writes those operands and
/// has no such results.
pub trait DestinationStyleOp: Send + Sync {
    /// The operands that give the results their first content or only their shape.
    fn destinations(&self, op: OpRef<'_>) -> Vec<usize>;
    /// Whether the op reads what this destination holds before.
    fn reads_destination(&self, op: OpRef<'_>, operand: usize) -> bool {
        let _ = (op, operand);
        true
    }
    /// See [`BufferizableOp::bufferizes_to_elementwise_access`].
    fn bufferizes_to_elementwise_access(&self, op: OpRef<'_>, read: usize, written: usize) -> bool {
        let _ = (op, read, written);
        false
    }
    /// See [`BufferizableOp::operand_requirement`].
    fn operand_requirement(
        &self,
        op: OpRef<'_>,
        operand: usize,
        scopes: &Scopes<'_>,
    ) -> Option<BufferRequirement> {
        let _ = (op, operand, scopes);
        None
    }
}

/// Makes a [`DestinationStyleOp`] a [`BufferizableOp`].
pub struct DestinationPassing<T>(
    /// What is known of the op.
    pub T,
);

impl<T: DestinationStyleOp> BufferizableOp for DestinationPassing<T> {
    fn bufferizes_to_memory_read(&self, op: OpRef<'_>, operand: usize) -> bool {
        !self.0.destinations(op).contains(&operand) || self.0.reads_destination(op, operand)
    }
    fn aliasing_operands(&self, op: OpRef<'_>) -> Vec<AliasingOperand> {
        let tensors = op.ir.results(op.id).enumerate();
        let tensors = tensors.filter(|(_, v)| op.ir.ty(*v).is::<TensorType>());
        let pairs = self.0.destinations(op).into_iter().zip(tensors);
        pairs
            .map(|(operand, (result, _))| AliasingOperand {
                operand,
                result,
                writes: true,
            })
            .collect()
    }
    fn bufferizes_to_elementwise_access(&self, op: OpRef<'_>, read: usize, written: usize) -> bool {
        self.0.bufferizes_to_elementwise_access(op, read, written)
    }
    fn operand_requirement(
        &self,
        op: OpRef<'_>,
        operand: usize,
        scopes: &Scopes<'_>,
    ) -> Option<BufferRequirement> {
        self.0.operand_requirement(op, operand, scopes)
    }
    /// The same op on buffers: it writes its destinations, and tensor results vanish.
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let aliasing = self.aliasing_operands(cx.ir().op(op));
        let mut state = OpState::new(cx.ir().name(op));
        state.loc = cx.ir().loc(op);
        let count = cx.ir().operands(op).len();
        let mut homes = Vec::new();
        for operand in 0..count {
            let buffer = match aliasing.iter().any(|a| a.operand == operand) {
                true => cx.destination(op, operand)?,
                false => cx.buffer(cx.ir().operand(op, operand))?,
            };
            let taken = cx.required(op, operand, buffer)?;
            state.operands.push(taken.unwrap_or(buffer));
            homes.push(buffer);
        }
        let ir = cx.ir_mut();
        state.attrs = ir.attrs(op).iter().copied().collect();
        let regions: Vec<RegionId> = ir.regions(op).collect();
        for region in regions {
            ir.detach_region(region);
            state.regions.push(region);
        }
        let results: Vec<Value> = ir.results(op).collect();
        let mut kept = results.clone();
        kept.retain(|v| !ir.ty(*v).is::<TensorType>());
        state.results = kept.iter().map(|v| ir.ty(*v)).collect();
        let buffers: Vec<Value> = state.operands.to_vec();
        let new = ir.create_raw(state);
        ir.insert(new, tir::At::Before(op));
        for (index, old) in kept.into_iter().enumerate() {
            let value = ir.result(new, index);
            ir.replace_uses(old, value);
        }
        for a in aliasing {
            let found = (
                results.get(a.result),
                buffers.get(a.operand),
                homes.get(a.operand),
            );
            if let (Some(result), Some(buffer), Some(home)) = found {
                // What was written elsewhere goes back: other tensors may lie in that buffer.
                cx.set_buffer(*result, *buffer);
                cx.copy(op, *result, *home)?;
                cx.set_buffer(*result, *home);
            }
        }
        cx.erase_later(op);
        Ok(())
    }
}

/// How an op of this kind becomes one on buffers, if it is known.
pub fn bufferizable(ir: &Ir, op: OpId) -> Option<&'static dyn BufferizableOp> {
    ir.info(op)?.interface::<dyn BufferizableOp>()
}
