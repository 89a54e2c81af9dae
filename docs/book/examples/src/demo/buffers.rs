//! An op on tensors that becomes one on buffers.

use tir::{Access, Effect, Effects, HasEffects, Op, OpRef, Rets, Value};
use tir_memref::bufferize::{BufferizableOp, DestinationPassing, DestinationStyleOp};

// ANCHOR: destination
/// Adds `x` to `into`, element by element. The result is the new content of `into`.
#[derive(Op)]
#[op("demo.accumulate", effects)]
#[asm("$x `into` $into attr-dict `:` type($x) `,` type($into) (`->` type($sum)^)?")]
pub struct Accumulate {
    /// What is added.
    pub x: Value,
    /// What it is added to: a tensor, or a memref that is written.
    pub into: Value,
    /// The new content, of tensors.
    pub sum: Rets,
}
impl HasEffects for Accumulate {
    /// On tensors it is pure.
    fn effects(&self, op: OpRef<'_>) -> Effects {
        let memref = |v: &Value| op.ir.ty(*v).is::<tir::MemRefType>();
        let mut effects = Effects::new();
        for value in [self.x, self.into].into_iter().filter(memref) {
            effects.push(Effect {
                access: Access::Read,
                on: Some(value),
            });
        }
        if memref(&self.into) {
            effects.push(Effect {
                access: Access::Write,
                on: Some(self.into),
            });
        }
        effects
    }
}

struct IntoOperand;
impl DestinationStyleOp for IntoOperand {
    fn destinations(&self, _: OpRef<'_>) -> Vec<usize> {
        vec![1]
    }
}

/// Called when the dialect is loaded.
pub(crate) fn attach() {
    if let Some(info) = Accumulate::name().info() {
        info.attach::<dyn BufferizableOp>(&DestinationPassing(IntoOperand));
    }
}
// ANCHOR_END: destination
