//! Where a tensor that is put into a larger one is made: in its place there, if it starts from
//! nothing.
//!
//! What computes a tensor writes it, step by step, into one that has no content at first. If the
//! result is put into a part of another tensor, that part is what the computing starts from, and
//! putting it there moves nothing.

use tir::{At, Ir, OpId, Ret, Value};
use tir_loop::For;
use tir_memref::bufferize::bufferizable;
use tir_tensor::{Empty, ExtractSlice, InsertSlice};

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
    let (part, whole) = (origin(ir, put.source), origin(ir, put.dest));
    let empty = |ir: &Ir, value: Value| {
        let op = ir.owner(value)?;
        let empty: Empty = ir.get(op)?;
        (empty.dynamic_sizes.is_empty() && empty.space.is_none()).then_some(op)
    };
    let (Some(from), Some(into)) = (empty(ir, part), empty(ir, whole)) else {
        return;
    };
    // Both stand where the put does, and the part is nothing else's beginning.
    let block = ir.block_of(op);
    let beside = ir.block_of(from) == block && ir.block_of(into) == block;
    if part == whole || !beside || !ir.has_one_use(part) {
        return;
    }
    if ir.is_before(from, into) {
        ir.move_op(into, At::Before(from));
    }
    let ty = ir.ty(part);
    let hint = ir.hint(part);
    let slice = ir.add(
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
    ir.set_hint(slice, hint);
    ir.replace(from, &[slice]);
}

/// The tensor that a value became, write by write.
fn origin(ir: &Ir, mut value: Value) -> Value {
    loop {
        let tir::Definition::Result(op, index) = ir.definition(value) else {
            return value;
        };
        let before = match ir.get::<For>(op) {
            Some(record) => record.init.get(index).copied(),
            None => bufferizable(ir, op).and_then(|known| {
                let aliasing = known.aliasing_operands(ir.op(op));
                let tie = aliasing.iter().find(|a| a.result == index && a.writes)?;
                Some(ir.operand(op, tie.operand))
            }),
        };
        match before {
            Some(before) => value = before,
            None => return value,
        }
    }
}
