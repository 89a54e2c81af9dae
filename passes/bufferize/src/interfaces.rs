//! How the ops of tensor and accel become ops on buffers.
//!
//! Each op says which operands its result may share a buffer with and how it is written on buffers
//! (`tir_memref::bufferize::BufferizableOp`; MLIR's `BufferizableOpInterface`). They are attached here
//! because the dialects `tensor` and `accel` know nothing of bufferization.
//!
//! *Invariants.* Views of a buffer have the strides that the buffer has; a reshape whose dimensions
//! do not lie one behind the other is copied to a dense buffer first.

use crate::buffers::memref_type;
use tir::{
    At, DYNAMIC, Failure, Ir, Layout, MemRefType, Op, OpId, OpRef, Ret, Rets, Scopes, Type, Value,
};
use tir_accel::MachineInfo;
use tir_arith::{OpFoldResult, Select, dispatch_values, mixed_values};
use tir_loop::{If, Yield};
use tir_memref::bufferize::{
    AliasingOperand, BufferRequirement, BufferizableOp, BufferizationContext, DestinationPassing,
    DestinationStyleOp, ElementOrder, Subset,
};
use tir_memref::{Load, SubView, sub_view_type};
use tir_tensor::{
    CollapseShape, Empty, ExpandShape, Extract, ExtractSlice, Generic, InsertSlice, TransferRead,
    TransferWrite,
};

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

/// Nests: `tensor.generic`, and `accel.apply`, which takes buffers of its space.
struct OfNest;
impl OfNest {
    fn nest(op: OpRef<'_>) -> Option<Generic> {
        read(op).or_else(|| Some(read::<tir_accel::Apply>(op)?.nest()))
    }
}
impl DestinationStyleOp for OfNest {
    fn destinations(&self, op: OpRef<'_>) -> Vec<usize> {
        let Some(nest) = Self::nest(op) else {
            return Vec::new();
        };
        let first = nest.inputs.len();
        (first..first + nest.outputs.len()).collect()
    }
    fn reads_destination(&self, op: OpRef<'_>, _: usize) -> bool {
        Self::nest(op).is_none_or(|nest| nest.combine.is_some())
    }
    fn bufferizes_to_elementwise_access(
        &self,
        op: OpRef<'_>,
        read_: usize,
        written: usize,
    ) -> bool {
        let Some(nest) = Self::nest(op) else {
            return false;
        };
        let maps = &nest.indexing_maps;
        !nest.reductions().contains(&true) && maps.get(read_) == maps.get(written)
    }
    fn operand_requirement(
        &self,
        op: OpRef<'_>,
        operand: usize,
        scopes: &Scopes<'_>,
    ) -> Option<BufferRequirement> {
        let apply: tir_accel::Apply = read(op)?;
        let space = MachineInfo::in_scopes(scopes)?
            .vector(apply.vector.0)?
            .space;
        let of_nest = operand < apply.inputs.len() + apply.outputs.len();
        of_nest.then_some(BufferRequirement {
            space,
            order: ElementOrder::Any,
            elementwise: false,
        })
    }
}

struct OfCall;
impl DestinationStyleOp for OfCall {
    fn destinations(&self, op: OpRef<'_>) -> Vec<usize> {
        let writes = read::<tir_accel::Call>(op).map_or(0, |call| call.writes);
        (0..usize::try_from(writes).unwrap_or(0)).collect()
    }
    fn operand_requirement(
        &self,
        op: OpRef<'_>,
        operand: usize,
        scopes: &Scopes<'_>,
    ) -> Option<BufferRequirement> {
        let call: tir_accel::Call = read(op)?;
        let machine = MachineInfo::in_scopes(scopes)?;
        let intrinsic = machine.intrinsic(call.callee.0)?;
        let of_intrinsic = operand < intrinsic.operands.len();
        of_intrinsic.then(|| BufferRequirement {
            space: intrinsic.spaces[operand],
            order: match intrinsic.strided.contains(&operand) {
                true => ElementOrder::Rows,
                false => ElementOrder::Dense,
            },
            elementwise: call.writes == 1 && intrinsic.elementwise[operand],
        })
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

/// The elements of a tensor of some shape that a transfer writes, if they are a box inside it.
fn written_box(shape: &[i64], tile: &[i64], write: &TransferWrite) -> Option<Vec<OpFoldResult>> {
    let mut position = write.static_offsets.clone();
    let (mut sizes, mut strides) = (Vec::new(), Vec::new());
    let mut used = 0;
    for (d, expr) in write.access.exprs.iter().enumerate() {
        let expr = expr.linear(tile.len())?;
        let mut terms: Vec<(i64, i64)> = expr.terms().map(|(t, c)| (c, tile[t])).collect();
        terms.retain(|(_, size)| *size != 1);
        terms.sort_unstable();
        used += terms.len();
        // Dimensions of the tile that continue each other are one: (p, q) -> 16 * p + q.
        let stride = terms.first().map_or(1, |(c, _)| *c);
        let mut size = 1i64;
        for (c, n) in terms {
            (c > 0 && c == stride.checked_mul(size)?).then_some(())?;
            size = size.checked_mul(n)?;
        }
        let offset = position.get(d).filter(|n| **n != DYNAMIC)?;
        let first = offset.checked_add(expr.constant)?;
        let last = first.checked_add((size - 1).checked_mul(stride)?)?;
        (size > 0 && first >= 0 && last < *shape.get(d)?).then_some(())?;
        position[d] = first;
        sizes.push(size);
        strides.push(stride);
    }
    (used == tile.iter().filter(|n| **n != 1).count()).then_some(())?;
    position.extend(sizes.into_iter().chain(strides));
    Some(position.into_iter().map(OpFoldResult::from).collect())
}

struct OfWrite;
impl BufferizableOp for OfWrite {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        into_second()
    }
    fn written_subset(&self, op: OpRef<'_>) -> Option<Vec<OpFoldResult>> {
        let write: TransferWrite = read(op)?;
        let (dest, tile) = (write.result.0.shape()?, op.ir.ty(write.source).shape()?);
        written_box(dest, tile, &write)
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

/// The part of a buffer at a position (offsets, sizes, strides).
pub(super) fn sub_view(
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

macro_rules! position {
    ($slice:expr) => {{
        let slice = &$slice;
        let mut position = mixed_values(&slice.offsets, &slice.static_offsets);
        position.extend(mixed_values(&slice.sizes, &slice.static_sizes));
        position.extend(mixed_values(&slice.strides, &slice.static_strides));
        position
    }};
}

struct OfExtract;
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
        let mut from = memref_type(cx.ir(), src)?;
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
                cx.copy(op, reshape.src, dense)?;
                src = dense;
                from = memref_type(cx.ir(), src)?;
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
        let from = memref_type(cx.ir(), src)?;
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

/// An element.
struct OfElement;
impl BufferizableOp for OfElement {
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let extract: Extract = record(cx, op)?;
        let load = Load {
            memref: cx.buffer(extract.tensor)?,
            indices: extract.indices,
            nontemporal: None,
        };
        let element = result(cx, op)?;
        let loaded = cx.ir_mut().add(At::Before(op), load);
        let hint = cx.ir().hint(element);
        cx.ir_mut().set_hint(loaded, hint);
        cx.ir_mut().replace_uses(element, loaded);
        cx.erase_later(op);
        Ok(())
    }
}

/// One of two tensors: one of their buffers, without a copy, if these are of one type.
struct OfSelect;
impl BufferizableOp for OfSelect {
    fn aliasing_operands(&self, _: OpRef<'_>) -> Vec<AliasingOperand> {
        let values = [1, 2].map(|operand| AliasingOperand {
            operand,
            result: 0,
            writes: false,
        });
        values.to_vec()
    }
    fn bufferize(&self, op: OpId, cx: &mut dyn BufferizationContext) -> Result<(), Failure> {
        let select: Select = record(cx, op)?;
        if cx.ir().ty(select.condition) != Type::int(1) {
            return Err("selects each element of a tensor on its own".into());
        }
        let chosen = result(cx, op)?;
        let values = [select.true_value, select.false_value];
        let buffers = [cx.buffer(values[0])?, cx.buffer(values[1])?];
        let [a, b] = [
            memref_type(cx.ir(), buffers[0])?,
            memref_type(cx.ir(), buffers[1])?,
        ];
        let at = At::Before(op);
        if a == b {
            let one = Select {
                condition: select.condition,
                true_value: buffers[0],
                false_value: buffers[1],
            };
            let one = cx.ir_mut().add(at, one);
            cx.set_buffer(chosen, one);
            cx.erase_later(op);
            return Ok(());
        }
        let space = if a.space == b.space {
            a.space
        } else {
            cx.memory_space(None)
        };
        let ty = cx.ir().ty(chosen);
        let target = cx.allocate(op, 0, ty, space, Vec::new())?;
        let mut b = cx.ir_mut().at(at);
        let regions = [(); 2].map(|()| {
            b.body(&[], |b, _| {
                b.add(Yield { values: Vec::new() });
            })
        });
        b.add(If {
            condition: select.condition,
            then_region: regions[0],
            else_region: regions[1],
            results: Rets(Vec::new()),
        });
        for (region, value) in regions.into_iter().zip(values) {
            let end = cx.ir().entry(region).and_then(|block| cx.ir().last(block));
            cx.copy(end.ok_or("has an empty region")?, value, target)?;
        }
        cx.set_buffer(chosen, target);
        cx.erase_later(op);
        Ok(())
    }
}
