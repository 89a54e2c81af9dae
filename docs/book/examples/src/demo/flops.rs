//! An interface of one's own, and a pass that asks it.

use tir::rewrite::interfaces::Typed;
use tir::{Hook, Ir, Op, OpRef, Pass, PassCx, PassResult, pass};

// ANCHOR: interface
/// How many float operations an op does: what a record implements.
pub trait HasFlops: Op {
    /// The number for this op.
    fn flops(&self, op: OpRef<'_>) -> u64;
}

/// [`HasFlops`] as an object, which the table of an op holds.
pub(super) trait Flops: Send + Sync {
    /// The number for this op; `None` if it is not as declared.
    fn flops(&self, op: OpRef<'_>) -> Option<u64>;
}
impl<T: HasFlops> Flops for Typed<T> {
    fn flops(&self, op: OpRef<'_>) -> Option<u64> {
        Some(T::read(op.ir, op.id)?.flops(op))
    }
}

/// The hook: `#[op("…", crate::demo::flops)]`.
pub fn flops<T: HasFlops>() -> Hook {
    Hook::interface::<dyn Flops>(Typed::<T>::NEW)
}
// ANCHOR_END: interface

// ANCHOR: pass
pass! {
    /// Counts the float operations of each function.
    pub struct CountFlops = "demo-count-flops" on "func.func" {}
}
impl Pass for CountFlops {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let count = |op| {
            let object = ir.info(op)?.interface::<dyn Flops>()?;
            object.flops(ir.op(op))
        };
        let total: u64 = ir.walk_ids().into_iter().filter_map(count).sum();
        cx.count("flops", total as usize);
        Ok(())
    }
}
// ANCHOR_END: pass
