//! Parts of tensors, and tensors put together: transfers, and parts put into one tensor.

use tir::rewrite::{PatternSet, Rewriter};
use tir::{AffineMap, Decline, OpId, Ret, Type, Value};
use tir_graph::{Concat, Expand, Pad, Slice, Split};
use tir_tensor::{InsertSlice, TransferRead};

use super::nest::{E, broadcast, elementwise, empty, form, map};

pub(super) fn patterns(set: &mut PatternSet) {
    set.on("concat-to-slices", concat);
    set.on("split-to-transfers", split);
    set.on("slice-to-transfer", slice);
    set.on("pad-to-transfer", pad);
    set.on("expand-to-generic", expand);
}

/// Elements `starts + i · steps` of a tensor; `padding` where they are outside.
pub(super) fn read(
    rw: &mut Rewriter<'_>,
    source: Value,
    starts: Vec<i64>,
    steps: &[i64],
    padding: Option<Value>,
    ty: Type,
) -> Value {
    if ty.elements() == Some(0) {
        return empty(rw, ty);
    }
    let exprs: Vec<E> = (0..steps.len())
        .map(|d| E::Dim(d) * E::Const(steps[d]))
        .collect();
    rw.add(TransferRead {
        source,
        offsets: Vec::new(),
        padding,
        into: None,
        static_offsets: starts,
        access: map(steps.len(), exprs),
        space: None,
        result: Ret(ty),
    })
}

/// Every operand is put into its part of a tensor without content, so that what computes it can
/// write it there.
fn concat(concat: Concat, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let result = rw.ty(rw.result(op, 0));
    let at = usize::try_from(concat.axis).map_err(|_| "has a negative axis")?;
    let mut whole = empty(rw, result);
    let rank = result.shape().map_or(0, <[i64]>::len);
    let mut start = 0;
    for x in concat.xs {
        let (shape, _) = form(rw, x)?;
        let mut offsets = vec![0; rank];
        offsets[at] = start;
        start += shape[at];
        if shape.contains(&0) {
            continue;
        }
        whole = rw.add(InsertSlice {
            source: x,
            dest: whole,
            offsets: Vec::new(),
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets: offsets,
            static_sizes: shape.to_vec(),
            static_strides: vec![1; rank],
            result: Ret(result),
        });
    }
    rw.replace(op, &[whole]);
    Ok(())
}

fn split(split: Split, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let at = usize::try_from(split.axis).map_err(|_| "has a negative axis")?;
    let (shape, _) = form(rw, split.x)?;
    let mut start = 0;
    let mut parts = Vec::new();
    for (part, size) in split.parts.0.into_iter().zip(split.sizes) {
        let mut starts = vec![0; shape.len()];
        starts[at] = start;
        start += size;
        parts.push(read(rw, split.x, starts, &vec![1; shape.len()], None, part));
    }
    rw.replace(op, &parts);
    Ok(())
}

fn slice(slice: Slice, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let ty = rw.ty(rw.result(op, 0));
    let y = read(rw, slice.x, slice.starts, &slice.steps, None, ty);
    rw.replace(op, &[y]);
    Ok(())
}

fn pad(pad: Pad, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let ty = rw.ty(rw.result(op, 0));
    let padding = rw.build(|b| tir_arith::materialize(b, pad.value, ty.elem()));
    let padding = padding.ok_or("pads with what is no number")?;
    let starts: Vec<i64> = pad.low.iter().map(|n| -n).collect();
    let steps = vec![1; starts.len()];
    let y = read(rw, pad.x, starts, &steps, Some(padding), ty);
    rw.replace(op, &[y]);
    Ok(())
}

fn expand(Expand { x, y }: Expand, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (shape, _) = form(rw, x)?;
    let whole = y.0.shape().unwrap_or(&[]);
    let from: AffineMap = broadcast(shape, whole, whole.len());
    let y = elementwise(rw, y.0, &[(x, from)], |_, args| args[0]);
    rw.replace(op, &[y]);
    Ok(())
}
