//! How the ops of tensor and accel become ops on buffers.
//!
//! Each op says which operands its result may share a buffer with and how it is written on buffers
//! (`tir_memref::bufferize::BufferizableOp`; MLIR's `BufferizableOpInterface`). They are attached here
//! because the dialects `tensor` and `accel` know nothing of bufferization.
//!
//! *Invariants.* Views of a buffer have the strides that the buffer has; a reshape whose dimensions
//! do not lie one behind the other is copied to a dense buffer first.

use tir::{At, DYNAMIC, Failure, Ir, Layout, MemRefType, Op, OpId, OpRef, Ret, Type, Value};
use tir_arith::mixed_values;
use tir_memref::bufferize::{
    AliasingOperand, BufferizableOp, BufferizationContext, DestinationPassing, DestinationStyleOp,
    Subset,
};
use tir_memref::{SubView, sub_view_type};
use tir_tensor::{
    CollapseShape, Empty, ExpandShape, ExtractSlice, Generic, InsertSlice, TransferRead,
    TransferWrite,
};

/// Attaches the interfaces to the ops that are loaded.
pub fn attach() {
    fn to<T: Op>(object: &'static dyn BufferizableOp) {
        if let Some(info) = T::name().info() {
            info.attach(object);
        }
    }
    to::<Generic>(&DestinationPassing(OfGeneric));
    to::<tir_accel::Call>(&DestinationPassing(OfCall));
    to::<Empty>(&OfEmpty);
    to::<TransferRead>(&OfRead);
    to::<TransferWrite>(&OfWrite);
    to::<ExtractSlice>(&OfExtract);
    to::<InsertSlice>(&OfInsert);
    to::<CollapseShape>(&OfCollapse);
    to::<ExpandShape>(&OfExpand);
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

struct OfGeneric;
impl DestinationStyleOp for OfGeneric {
    fn destinations(&self, op: OpRef<'_>) -> Vec<usize> {
        let Some(record) = read::<Generic>(op) else {
            return Vec::new();
        };
        let first = record.inputs.len();
        (first..first + record.outputs.len()).collect()
    }
    fn reads_destination(&self, op: OpRef<'_>, _: usize) -> bool {
        read::<Generic>(op).is_none_or(|record| record.combine.is_some())
    }
    fn bufferizes_to_elementwise_access(
        &self,
        op: OpRef<'_>,
        read_: usize,
        written: usize,
    ) -> bool {
        let Some(record) = read::<Generic>(op) else {
            return false;
        };
        let maps = &record.indexing_maps;
        !record.reductions().contains(&true) && maps.get(read_) == maps.get(written)
    }
}

struct OfCall;
impl DestinationStyleOp for OfCall {
    fn destinations(&self, op: OpRef<'_>) -> Vec<usize> {
        let writes = read::<tir_accel::Call>(op).map_or(0, |call| call.writes);
        (0..usize::try_from(writes).unwrap_or(0)).collect()
    }
}

struct OfEmpty;
impl BufferizableOp for OfEmpty {
    fn results_are_undefined(&self, _: OpRef<'_>) -> bool {
        true
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let empty: Empty = record(cx, op)?;
        let space = cx.memory_space(empty.space.as_deref());
        let buffer = cx.allocate(op, 0, empty.result.0, space, empty.dynamic_sizes)?;
        cx.set_buffer(result(cx, op)?, buffer);
        cx.erase_later(op);
        Ok(())
    }
}

struct OfRead;
impl BufferizableOp for OfRead {
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let read: TransferRead = record(cx, op)?;
        let space = cx.memory_space(read.space.as_deref());
        let tile = cx.allocate(op, 0, read.result.0, space, Vec::new())?;
        let source = cx.buffer(read.source)?;
        cx.ir_mut().add(
            At::Before(op),
            tir_memref::TransferRead {
                source,
                tile,
                offsets: read.offsets,
                padding: read.padding,
                static_offsets: read.static_offsets,
                access: read.access,
            },
        );
        cx.set_buffer(result(cx, op)?, tile);
        cx.erase_later(op);
        Ok(())
    }
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

struct OfWrite;
impl BufferizableOp for OfWrite {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        into_second()
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let write: TransferWrite = record(cx, op)?;
        let tile = cx.buffer(write.source)?;
        let dest = cx.destination(op, 1)?;
        cx.ir_mut().add(
            At::Before(op),
            tir_memref::TransferWrite {
                tile,
                dest,
                offsets: write.offsets,
                static_offsets: write.static_offsets,
                access: write.access,
            },
        );
        cx.set_buffer(result(cx, op)?, dest);
        cx.erase_later(op);
        Ok(())
    }
}

fn memref(cx: &dyn BufferizationContext, buffer: Value) -> Result<&'static MemRefType, Failure> {
    let ty = cx.ir().ty(buffer);
    ty.get::<MemRefType>()
        .ok_or_else(|| format!("expected a buffer, found {ty}").into())
}

macro_rules! slice {
    ($slice:expr, $cx:expr, $op:expr, $source:expr, $part:expr) => {{
        let ty = memref($cx, $source)?;
        let (offsets, sizes, strides) = (
            &$slice.static_offsets,
            &$slice.static_sizes,
            &$slice.static_strides,
        );
        let ty = sub_view_type(ty, offsets, sizes, strides, $part);
        let ty = ty.ok_or("takes a part of a buffer whose layout is not strided")?;
        $cx.ir_mut().add(
            At::Before($op),
            SubView {
                source: $source,
                offsets: $slice.offsets.clone(),
                sizes: $slice.sizes.clone(),
                strides: $slice.strides.clone(),
                static_offsets: offsets.clone(),
                static_sizes: sizes.clone(),
                static_strides: strides.clone(),
                result: Ret(ty),
            },
        )
    }};
}
macro_rules! part {
    ($slice:expr, $whole:expr, $part:expr) => {{
        let slice = $slice;
        let mut position = mixed_values(&slice.offsets, &slice.static_offsets);
        position.extend(mixed_values(&slice.sizes, &slice.static_sizes));
        position.extend(mixed_values(&slice.strides, &slice.static_strides));
        Some(Subset {
            whole: $whole,
            part: $part,
            position,
        })
    }};
}

struct OfExtract;
impl BufferizableOp for OfExtract {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        view()
    }
    fn subset_extraction(&self, op: OpRef<'_>) -> Option<Subset> {
        let slice: ExtractSlice = read(op)?;
        part!(&slice, slice.source, op.ir.results(op.id).next()?)
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let slice: ExtractSlice = record(cx, op)?;
        let source = cx.buffer(slice.source)?;
        let shape = slice.result.0.shape().unwrap_or(&[]);
        let buffer = slice!(slice, cx, op, source, shape);
        cx.set_buffer(result(cx, op)?, buffer);
        cx.erase_later(op);
        Ok(())
    }
}

struct OfInsert;
impl BufferizableOp for OfInsert {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        into_second()
    }
    fn subset_insertion(&self, op: OpRef<'_>) -> Option<Subset> {
        let slice: InsertSlice = read(op)?;
        part!(&slice, slice.dest, slice.source)
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let slice: InsertSlice = record(cx, op)?;
        let dest = cx.destination(op, 1)?;
        if !cx.is_inserted_in_place(op) {
            let source = cx.buffer(slice.source)?;
            let shape = cx.ir().ty(slice.source).shape().unwrap_or(&[]);
            let target = slice!(slice, cx, op, dest, shape);
            cx.copy(op, source, target);
        }
        cx.set_buffer(result(cx, op)?, dest);
        cx.erase_later(op);
        Ok(())
    }
}

/// Strides of a buffer whose dimensions in each group become one; `None` where they do not lie
/// one behind the other.
fn collapsed(shape: &[i64], strides: &[i64], groups: &[Vec<usize>]) -> Option<Vec<i64>> {
    let one = |group: &Vec<usize>| {
        let mut dims = group.iter().rev().filter(|d| shape[**d] != 1);
        let Some(&last) = dims.next() else {
            return Some(1);
        };
        let (mut reach, step) = (strides[last].checked_mul(shape[last])?, strides[last]);
        for &d in dims {
            if strides[d] == DYNAMIC || shape[d] == DYNAMIC || strides[d] != reach {
                return None;
            }
            reach = reach.checked_mul(shape[d])?;
        }
        Some(step)
    };
    groups.iter().map(one).collect()
}

/// Strides of a buffer whose dimensions become groups.
fn expanded(shape: &[i64], strides: &[i64], groups: &[Vec<usize>]) -> Vec<i64> {
    let mut out = vec![1; shape.len()];
    for (group, stride) in groups.iter().zip(strides) {
        let mut step = *stride;
        for d in group.iter().rev() {
            out[*d] = step;
            step = if step == DYNAMIC {
                DYNAMIC
            } else {
                step.saturating_mul(shape[*d])
            };
        }
    }
    out
}

fn with_strides(from: &MemRefType, shape: &[i64], strides: Vec<i64>, offset: i64) -> Type {
    let dense = offset == 0 && strides == MemRefType::dense_strides(shape);
    let layout = if dense {
        Layout::Identity
    } else {
        Layout::Strided { strides, offset }
    };
    Type::new(MemRefType {
        shape: shape.to_vec(),
        layout,
        ..from.clone()
    })
}

fn groups(reassociation: &[tir::Attr]) -> Vec<Vec<usize>> {
    let group = |attr: &tir::Attr| {
        let items = attr
            .get::<tir::ArrayAttr>()
            .map_or(&[][..], |array| &array.0);
        items
            .iter()
            .filter_map(|item| usize::try_from(item.as_int()?).ok())
            .collect()
    };
    reassociation.iter().map(group).collect()
}

/// The view of a buffer that a reshape of tensors gives back as that buffer: its inverse.
pub(super) fn reshaped_back(ir: &mut Ir, at: At, src: Value, view: OpId) -> Option<Value> {
    let from: MemRefType = ir.ty(src).get::<MemRefType>()?.clone();
    let (strides, offset) = from.strides()?;
    if let Some(expand) = ir.get::<ExpandShape>(view) {
        let ty = ir.ty(expand.src);
        let shape = ty.shape()?;
        let reassociation = expand.reassociation;
        let strides = collapsed(&from.shape, &strides, &groups(&reassociation))?;
        let result = Ret(with_strides(&from, shape, strides, offset));
        return Some(ir.add(
            at,
            tir_memref::CollapseShape {
                src,
                reassociation,
                result,
            },
        ));
    }
    let collapse = ir.get::<CollapseShape>(view)?;
    let ty = ir.ty(collapse.src);
    let shape = ty.shape()?;
    let reassociation = collapse.reassociation;
    let strides = expanded(shape, &strides, &groups(&reassociation));
    let result = Ret(with_strides(&from, shape, strides, offset));
    Some(ir.add(
        at,
        tir_memref::ExpandShape {
            src,
            reassociation,
            result,
        },
    ))
}

/// An op becomes one that makes a view of its buffer.
fn become_view<T: Op<Out = Value>>(
    cx: &mut dyn BufferizationContext,
    op: OpId,
    view: T,
) -> Result<(), Failure> {
    let view = cx.ir_mut().add(At::Before(op), view);
    cx.set_buffer(result(cx, op)?, view);
    cx.erase_later(op);
    Ok(())
}

struct OfCollapse;
impl BufferizableOp for OfCollapse {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        view()
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let reshape: CollapseShape = record(cx, op)?;
        let mut src = cx.buffer(reshape.src)?;
        let shape = reshape.result.0.shape().unwrap_or(&[]);
        let groups = groups(&reshape.reassociation);
        let mut from = memref(cx, src)?;
        let strided = |from: &MemRefType| {
            let (strides, offset) = from.strides()?;
            Some((collapsed(&from.shape, &strides, &groups)?, offset))
        };
        // What does not lie one behind the other is copied to where it does.
        let (strides, offset) = match strided(from) {
            Some(found) => found,
            None => {
                let ty = cx.ir().ty(reshape.src);
                let dense = cx.allocate(op, 0, ty, from.space, Vec::new())?;
                cx.copy(op, src, dense);
                src = dense;
                from = memref(cx, src)?;
                (MemRefType::dense_strides(shape), 0)
            }
        };
        let ty = with_strides(from, shape, strides, offset);
        let reassociation = reshape.reassociation;
        let view = tir_memref::CollapseShape {
            src,
            reassociation,
            result: Ret(ty),
        };
        become_view(cx, op, view)
    }
}

struct OfExpand;
impl BufferizableOp for OfExpand {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        view()
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let reshape: ExpandShape = record(cx, op)?;
        let src = cx.buffer(reshape.src)?;
        let shape = reshape.result.0.shape().unwrap_or(&[]);
        let from = memref(cx, src)?;
        let (strides, offset) = from
            .strides()
            .ok_or("views a buffer whose layout is not strided")?;
        let strides = expanded(shape, &strides, &groups(&reshape.reassociation));
        let ty = with_strides(from, shape, strides, offset);
        let reassociation = reshape.reassociation;
        let view = tir_memref::ExpandShape {
            src,
            reassociation,
            result: Ret(ty),
        };
        become_view(cx, op, view)
    }
}
