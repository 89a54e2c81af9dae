//! How the ops of tensor and accel become ops on buffers.
//!
//! Each op says which operands its result may share a buffer with and how it is written on buffers
//! (`tir_memref::bufferize::BufferizableOp`; MLIR's `BufferizableOpInterface`). They are attached here
//! because the dialects `tensor` and `accel` know nothing of bufferization.
//!
//! *Invariants.* Views of a buffer have the strides that the buffer has; a reshape whose dimensions
//! do not lie one behind the other is copied to a dense buffer first.

mod choices;
mod nests;
mod reshapes;
mod slices;
mod transfers;

pub(crate) use reshapes::reshaped_back;
pub(crate) use slices::sub_view;

use tir::{At, Failure, Op, OpId, OpRef, Value};
use tir_arith::Select;
use tir_memref::bufferize::{
    AliasingOperand, BufferizableOp, BufferizationContext, DestinationPassing,
};
use tir_tensor::{
    CollapseShape, Empty, ExpandShape, Extract, ExtractSlice, Generic, InsertSlice, TransferRead,
    TransferWrite,
};

use choices::{OfElement, OfSelect};
use nests::{OfCall, OfNest};
use reshapes::{OfCollapse, OfExpand};
use slices::{OfExtract, OfInsert};
use transfers::{OfEmpty, OfRead, OfWrite};

/// Attaches the interfaces to the ops that are loaded.
pub fn attach() {
    fn to<T: Op>(object: &'static dyn BufferizableOp) {
        if let Some(info) = T::name().info() {
            info.attach(object);
        }
    }
    to::<Generic>(&DestinationPassing(OfNest));
    to::<tir_accel::Apply>(&DestinationPassing(OfNest));
    to::<tir_accel::Call>(&DestinationPassing(OfCall));
    to::<Empty>(&OfEmpty);
    to::<TransferRead>(&OfRead);
    to::<TransferWrite>(&OfWrite);
    to::<ExtractSlice>(&OfExtract);
    to::<InsertSlice>(&OfInsert);
    to::<CollapseShape>(&OfCollapse);
    to::<ExpandShape>(&OfExpand);
    to::<Extract>(&OfElement);
    to::<Select>(&OfSelect);
}

fn read<T: Op>(op: OpRef<'_>) -> Option<T> {
    op.ir.get(op.id)
}
fn record<T: Op>(cx: &dyn BufferizationContext, op: OpId) -> Result<T, Failure> {
    cx.ir()
        .get(op)
        .ok_or_else(|| "has not the structure of its record".into())
}
fn result(cx: &dyn BufferizationContext, op: OpId) -> Result<Value, Failure> {
    cx.ir()
        .results(op)
        .next()
        .ok_or_else(|| "has no result".into())
}

/// The second operand becomes the result.
fn into_second() -> Vec<AliasingOperand> {
    vec![AliasingOperand {
        operand: 1,
        result: 0,
        writes: true,
    }]
}
/// The result is a view of the first operand.
fn view() -> Vec<AliasingOperand> {
    vec![AliasingOperand {
        operand: 0,
        result: 0,
        writes: false,
    }]
}

/// An op becomes one that makes a view of its buffer.
fn become_view<T: Op<Out = Value>>(
    cx: &mut dyn BufferizationContext,
    op: OpId,
    view: T,
) -> Result<(), Failure> {
    let view = cx.ir_mut().add(At::Before(op), view);
    lies_in(cx, op, view)
}

/// An op whose result lies in a buffer is no longer needed.
fn lies_in(cx: &mut dyn BufferizationContext, op: OpId, buffer: Value) -> Result<(), Failure> {
    cx.set_buffer(result(cx, op)?, buffer);
    cx.erase_later(op);
    Ok(())
}
