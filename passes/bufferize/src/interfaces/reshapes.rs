//! Reshapes: views of a buffer with the strides that it has.

use tir::{At, Attr, DYNAMIC, Failure, Ir, MemRefType, OpId, OpRef, Ret, Type, Value};
use tir_memref::bufferize::{AliasingOperand, BufferizableOp, BufferizationContext};
use tir_memref::{expanded_type, strided_type, view_groups};
use tir_tensor::{CollapseShape, ExpandShape};

use super::{become_view, record, view};
use crate::buffers::memref_type;

pub(super) struct OfCollapse;
impl BufferizableOp for OfCollapse {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        view()
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

/// The type of a view of a buffer whose dimensions in each group become one; `None` where they do not lie one behind
/// the other.
fn collapsed_type(from: &MemRefType, shape: &[i64], reassociation: &[Attr]) -> Option<Type> {
    let (strides, offset) = from.strides()?;
    let extents = &from.shape;
    let one = |group: &Vec<usize>| {
        let mut dims = group.iter().rev().filter(|d| extents[**d] != 1);
        let Some(&last) = dims.next() else {
            return Some(1);
        };
        let (mut reach, step) = (strides[last].checked_mul(extents[last])?, strides[last]);
        for &d in dims {
            if strides[d] == DYNAMIC || extents[d] == DYNAMIC || strides[d] != reach {
                return None;
            }
            reach = reach.checked_mul(extents[d])?;
        }
        Some(step)
    };
    let groups = view_groups(reassociation, extents.len())?;
    let strides = groups.iter().map(one).collect::<Option<_>>()?;
    Some(strided_type(from, shape, strides, offset))
}
