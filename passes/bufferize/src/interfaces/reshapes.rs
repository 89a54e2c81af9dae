//! Reshapes: views of a buffer with the strides that it has.

use tir::{At, Failure, Ir, MemRefType, OpId, OpRef, Ret, Value};
use tir_memref::bufferize::{AliasingOperand, BufferizableOp, BufferizationContext};
use tir_memref::{collapsed_type, expanded_type, strided_type};
use tir_tensor::{CollapseShape, ExpandShape};

use super::{become_view, record, view};
use crate::buffers::memref_type;

pub(super) struct OfCollapse;
impl BufferizableOp for OfCollapse {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        view()
    }
    fn reshapes(&self, _: OpRef<'_>) -> bool {
        true
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let reshape: CollapseShape = record(cx, op)?;
        let mut src = cx.buffer(reshape.src)?;
        let shape = reshape.result.0.shape().unwrap_or(&[]);
        let from = memref_type(cx.ir(), src)?;
        // What does not lie one behind the other is copied to where it does.
        let ty = match collapsed_type(from, shape, &reshape.reassociation) {
            Some(ty) => ty,
            None => {
                let ty = cx.ir().ty(reshape.src);
                let dense = cx.allocate(op, 0, ty, from.space, Vec::new())?;
                cx.copy(op, reshape.src, dense)?;
                src = dense;
                let from = memref_type(cx.ir(), src)?;
                strided_type(from, shape, MemRefType::dense_strides(shape), 0)
            }
        };
        let reassociation = reshape.reassociation;
        let view = tir_memref::CollapseShape {
            src,
            reassociation,
            result: Ret(ty),
        };
        become_view(cx, op, view)
    }
}

pub(super) struct OfExpand;
impl BufferizableOp for OfExpand {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        view()
    }
    fn reshapes(&self, _: OpRef<'_>) -> bool {
        true
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let reshape: ExpandShape = record(cx, op)?;
        let src = cx.buffer(reshape.src)?;
        let shape = reshape.result.0.shape().unwrap_or(&[]);
        let from = memref_type(cx.ir(), src)?;
        let ty = expanded_type(from, shape, &reshape.reassociation)
            .ok_or("views a buffer whose layout is not strided")?;
        let reassociation = reshape.reassociation;
        let view = tir_memref::ExpandShape {
            src,
            reassociation,
            result: Ret(ty),
        };
        become_view(cx, op, view)
    }
}

/// The view of a buffer that a reshape of tensors gives back as that buffer: its inverse.
pub(crate) fn reshaped_back(ir: &mut Ir, at: At, src: Value, view: OpId) -> Option<Value> {
    let ty = ir.ty(src);
    let from = ty.get::<MemRefType>()?;
    if let Some(ExpandShape {
        src: tensor,
        reassociation,
        ..
    }) = ir.get(view)
    {
        let ty = ir.ty(tensor);
        let view = tir_memref::CollapseShape {
            src,
            result: Ret(collapsed_type(from, ty.shape()?, &reassociation)?),
            reassociation,
        };
        return Some(ir.add(at, view));
    }
    let CollapseShape {
        src: tensor,
        reassociation,
        ..
    } = ir.get(view)?;
    let ty = ir.ty(tensor);
    let view = tir_memref::ExpandShape {
        src,
        result: Ret(expanded_type(from, ty.shape()?, &reassociation)?),
        reassociation,
    };
    Some(ir.add(at, view))
}
