//! Parts of tensors: views of the buffer, and what is put back in place.

use tir::{At, DYNAMIC, Failure, Ir, OpId, OpRef, Ret, Value};
use tir_arith::{OpFoldResult, dispatch_values, mixed_values};
use tir_memref::bufferize::{AliasingOperand, BufferizableOp, BufferizationContext, Subset};
use tir_memref::{SubView, sub_view_type};
use tir_tensor::{ExtractSlice, InsertSlice};

use super::{into_second, lies_in, read, record, view};
use crate::buffers::memref_type;

/// Where a part is: offsets, sizes, strides.
macro_rules! position {
    ($slice:expr) => {{
        let slice = &$slice;
        let mut position = mixed_values(&slice.offsets, &slice.static_offsets);
        position.extend(mixed_values(&slice.sizes, &slice.static_sizes));
        position.extend(mixed_values(&slice.strides, &slice.static_strides));
        position
    }};
}

pub(super) struct OfExtract;
impl BufferizableOp for OfExtract {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        view()
    }
    fn subset_extraction(&self, op: OpRef<'_>) -> Option<Subset> {
        let slice: ExtractSlice = read(op)?;
        Some(Subset {
            whole: slice.source,
            part: op.ir.results(op.id).next()?,
            position: position!(slice),
        })
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let slice: ExtractSlice = record(cx, op)?;
        let source = cx.buffer(slice.source)?;
        let shape = slice.result.0.shape().unwrap_or(&[]);
        let at = At::Before(op);
        let buffer = sub_view_as(cx.ir_mut(), at, source, &position!(slice), shape)?;
        lies_in(cx, op, buffer)
    }
}

pub(super) struct OfInsert;
impl BufferizableOp for OfInsert {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        into_second()
    }
    fn subset_insertion(&self, op: OpRef<'_>) -> Option<Subset> {
        let slice: InsertSlice = read(op)?;
        Some(Subset {
            whole: slice.dest,
            part: slice.source,
            position: position!(slice),
        })
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let slice: InsertSlice = record(cx, op)?;
        let dest = cx.destination(op, 1)?;
        if !cx.is_inserted_in_place(op) {
            let shape = cx.ir().ty(slice.source).shape().unwrap_or(&[]);
            let at = At::Before(op);
            let target = sub_view_as(cx.ir_mut(), at, dest, &position!(slice), shape)?;
            cx.copy(op, slice.source, target)?;
        }
        lies_in(cx, op, dest)
    }
}

/// The part of a buffer at a position (offsets, sizes, strides).
pub(crate) fn sub_view(
    ir: &mut Ir,
    at: At,
    source: Value,
    position: &[OpFoldResult],
) -> Result<Value, Failure> {
    let rank = position.len() / 3;
    let sizes = &position[rank..2 * rank];
    let shape: Vec<i64> = sizes
        .iter()
        .map(|n| n.number().unwrap_or(DYNAMIC))
        .collect();
    sub_view_as(ir, at, source, position, &shape)
}

/// The part of a buffer at a position (offsets, sizes, strides), in the shape `part`.
fn sub_view_as(
    ir: &mut Ir,
    at: At,
    source: Value,
    position: &[OpFoldResult],
    part: &[i64],
) -> Result<Value, Failure> {
    let ty = memref_type(ir, source)?;
    let rank = ty.shape.len();
    if position.len() != 3 * rank {
        return Err(format!("takes a part of another rank of a {}", ir.ty(source)).into());
    }
    let (offsets, static_offsets) = dispatch_values(&position[..rank]);
    let (sizes, static_sizes) = dispatch_values(&position[rank..2 * rank]);
    let (strides, static_strides) = dispatch_values(&position[2 * rank..]);
    let ty = sub_view_type(ty, &static_offsets, &static_sizes, &static_strides, part);
    let ty = ty.ok_or("takes a part of a buffer whose layout is not strided")?;
    let view = SubView {
        source,
        offsets,
        sizes,
        strides,
        static_offsets,
        static_sizes,
        static_strides,
        result: Ret(ty),
    };
    Ok(ir.add(at, view))
}
