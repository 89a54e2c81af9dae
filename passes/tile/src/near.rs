//! On which side of the transfers a tensor lies, as far as the program shows.

use tir::{Definition, Ir, Name, OpId, Value};
use tir_accel::{Apply, Call};
use tir_loop::{For, If, Yield};
use tir_tensor::{
    CollapseShape, Empty, ExpandShape, ExtractSlice, Generic, InsertSlice, TransferRead,
    TransferWrite,
};

/// A side of the transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// A tile in a named space.
    Near(Name),
    /// A tensor of the program.
    Far,
}

/// Where a value lies: decided by the `tensor.empty` or the transfer that it comes from, through
/// ops that change a tensor or show a part of it, and through loops and branches. `None` where the
/// program does not show it: an argument, a constant, what an unknown op makes.
pub(crate) fn side(ir: &Ir, mut value: Value) -> Option<Side> {
    let named = |space: Option<String>| match space {
        Some(space) => Side::Near(Name::new(&space)),
        None => Side::Far,
    };
    loop {
        value = match ir.definition(value) {
            Definition::Result(op, index) => {
                if let Some(empty) = ir.get::<Empty>(op) {
                    return Some(named(empty.space));
                } else if let Some(read) = ir.get::<TransferRead>(op) {
                    return Some(named(read.space));
                } else if let Some(nest) = ir.get::<Generic>(op) {
                    *nest.outputs.get(index)?
                } else if let Some(apply) = ir.get::<Apply>(op) {
                    *apply.outputs.get(index)?
                } else if let Some(call) = ir.get::<Call>(op) {
                    *call.operands.get(index)?
                } else if let Some(write) = ir.get::<TransferWrite>(op) {
                    write.dest
                } else if let Some(slice) = ir.get::<ExtractSlice>(op) {
                    slice.source
                } else if let Some(slice) = ir.get::<InsertSlice>(op) {
                    slice.dest
                } else if let Some(view) = ir.get::<CollapseShape>(op) {
                    view.src
                } else if let Some(view) = ir.get::<ExpandShape>(op) {
                    view.src
                } else if let Some(loops) = ir.get::<For>(op) {
                    *loops.init.get(index)?
                } else {
                    let branch: If = ir.get(op)?;
                    let end = ir.last(ir.entry(branch.then_region)?)?;
                    *ir.get::<Yield>(end)?.values.get(index)?
                }
            }
            Definition::Argument(block, index) => {
                // The first argument of a loop is its index.
                let loops: For = ir.get(ir.block_parent(block)?)?;
                *loops.init.get(index.checked_sub(1)?)?
            }
        };
    }
}

/// Whether a nest works on tiles in near memory: it was tiled before.
pub(crate) fn is_near(ir: &Ir, op: OpId) -> bool {
    let nest = ir.get::<Generic>(op);
    nest.is_some_and(|nest| {
        let mut operands = nest.operands();
        operands.any(|v| matches!(side(ir, v), Some(Side::Near(_))))
    })
}

/// Whether a nest works on a tile in this space.
pub(crate) fn is_in(ir: &Ir, op: OpId, space: Name) -> bool {
    let nest = ir.get::<Generic>(op);
    nest.is_some_and(|nest| {
        let mut operands = nest.operands();
        operands.any(|v| side(ir, v) == Some(Side::Near(space)))
    })
}

/// Whether a nest works on a tensor that is known to lie in far memory.
pub(crate) fn is_far(ir: &Ir, op: OpId) -> bool {
    let nest = ir.get::<Generic>(op);
    nest.is_some_and(|nest| nest.operands().any(|v| side(ir, v) == Some(Side::Far)))
}
