//! Interfaces that generic passes ask, each with the trait that a record implements and the hook
//! that hands it over (`#[op(…, loop_like)]`).

use std::marker::PhantomData;

use tir_core::{Hook, Ir, Op, OpId, OpRef, RegionId};

/// Makes a trait object of what a record implements.
pub struct Typed<T>(PhantomData<fn() -> T>);

impl<T: 'static> Typed<T> {
    /// The object; there is nothing in it.
    pub const NEW: &'static Self = &Self(PhantomData);
}

/// Which regions of an op run many times: what a record implements.
pub trait LoopLike: Op {
    /// The regions that are loop bodies.
    fn bodies(&self, op: OpRef<'_>) -> Vec<RegionId>;
}

/// [`LoopLike`] as an interface: `info.interface::<dyn Loop>()`.
pub trait Loop: Send + Sync {
    /// The regions of `op` that are loop bodies.
    fn bodies(&self, ir: &Ir, op: OpId) -> Vec<RegionId>;
}

impl<T: LoopLike> Loop for Typed<T> {
    fn bodies(&self, ir: &Ir, op: OpId) -> Vec<RegionId> {
        T::read(ir, op).map_or_else(Vec::new, |record| record.bodies(ir.op(op)))
    }
}

/// `loop_like`.
pub fn loop_like<T: LoopLike>() -> Hook {
    Hook::interface::<dyn Loop>(Typed::<T>::NEW)
}

/// Marks ops whose regions keep the constants that folding makes in them, instead of handing
/// them to the entry block around.
pub trait KeepsConstants: Send + Sync {}
impl<T: Op> KeepsConstants for Typed<T> {}

/// `keeps_constants`.
pub fn keeps_constants<T: Op>() -> Hook {
    Hook::interface::<dyn KeepsConstants>(Typed::<T>::NEW)
}
