//! Where a tensor that is put into a larger one is made: in its place there, if it starts from
//! nothing.
//!
//! What computes a tensor writes it, step by step, into one that has no content at first. If the
//! result is put into a part of another tensor, that part is what the computing starts from, and
//! putting it there moves nothing.

use tir::{At, Ir, OpId, Ret, Value};
use tir_loop::For;
use tir_memref::bufferize::bufferizable;
use tir_tensor::{CollapseShape, Empty, ExpandShape, ExtractSlice, InsertSlice};

/// Lets all parts that are put into tensors be computed there.
pub(super) fn place(ir: &mut Ir) {
    let mut puts = ir.walk_ids();
    puts.retain(|op| ir.is::<InsertSlice>(*op));
    // Outer tensors first: their parts may have parts.
    for op in puts.into_iter().rev() {
        if let Some(put) = ir.get::<InsertSlice>(op) {
            place_one(ir, op, &put);
        }
    }
}

fn place_one(ir: &mut Ir, op: OpId, put: &InsertSlice) {
    if !(put.offsets.is_empty() && put.sizes.is_empty() && put.strides.is_empty()) {
        return;
    }
    let (computed, views) = collapsed(ir, put.source);
    let ((part, entry), (whole, _)) = (origin(ir, computed), origin(ir, put.dest));
    let empty = |ir: &Ir, value: Value| {
        let op = ir.owner(value)?;
        let empty: Empty = ir.get(op)?;
        empty.dynamic_sizes.is_empty().then_some((op, empty.space))
    };
    let (Some((from, near)), Some((into, space))) = (empty(ir, part), empty(ir, whole)) else {
        return;
    };
    if near != space {
        return;
    }
    // Both stand where the put does. The part may be what other tensors begin with as well.
    let block = ir.block_of(op);
    let beside = ir.block_of(from) == block && ir.block_of(into) == block;
    let Some((user, operand)) = entry.filter(|_| part != whole && beside) else {
        return;
    };
    if ir.is_before(from, into) {
        ir.move_op(into, At::Before(from));
    }
    let ty = ir.ty(put.source);
    let hint = ir.hint(part);
    let mut slice = ir.add(
        At::Before(from),
        ExtractSlice {
            source: whole,
            offsets: Vec::new(),
            sizes: Vec::new(),
            strides: Vec::new(),
            static_offsets: put.static_offsets.clone(),
            static_sizes: put.static_sizes.clone(),
            static_strides: put.static_strides.clone(),
            result: Ret(ty),
        },
    );
    // It is shown there as what computes it has it.
    for view in views {
        let ty = ir.ty(view.src);
        let shown = ExpandShape {
            src: slice,
            reassociation: view.reassociation,
            static_output_shape: None,
            result: Ret(ty),
        };
        slice = ir.add(At::Before(from), shown);
    }
    ir.set_hint(slice, hint);
    ir.set_operand(user, operand, slice);
    if ir.is_unused(part) {
        ir.erase(from);
    }
}

/// What is put somewhere with dimensions joined, and how, the last view first.
fn collapsed(ir: &Ir, mut value: Value) -> (Value, Vec<CollapseShape>) {
    let mut views = Vec::new();
    while let Some(view) = ir.def::<CollapseShape>(value) {
        value = view.src;
        views.push(view);
    }
    (value, views)
}

/// The tensor that a value became, write by write, and where the first of them takes it.
fn origin(ir: &Ir, mut value: Value) -> (Value, Option<(OpId, usize)>) {
    let mut entry = None;
    loop {
        let tir::Definition::Result(op, index) = ir.definition(value) else {
            return (value, entry);
        };
        let operand = match ir.get::<For>(op) {
            Some(record) => Some(record.bounds.len() + index),
            None => bufferizable(ir, op).and_then(|known| {
                let aliasing = known.aliasing_operands(ir.op(op));
                let tie = aliasing.iter().find(|a| a.result == index && a.writes)?;
                Some(tie.operand)
            }),
        };
        let Some(operand) = operand else {
            return (value, entry);
        };
        entry = Some((op, operand));
        value = ir.operand(op, operand);
    }
}
