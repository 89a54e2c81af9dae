//! Hooks of the core: the traits a record implements, and the functions that `#[op(…, word)]`
//! names to hand them over.

use crate::diag::Failure;
use crate::ir::OpRef;
use crate::op::{Access, Effect, Effects, Folds, Hook, Op};
use crate::symbol::Scopes;
use crate::types::Type;

/// Checks what structure, constraints and traits do not say.
pub trait Verify: Op {
    /// Says the broken fact with both values; name and place of the op are added.
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure>;
}

/// Checks references to symbols.
pub trait VerifySymbols: Op {
    /// Says the broken fact; `scopes` are the symbol tables around the op.
    fn verify_symbols(&self, op: OpRef<'_>, scopes: &Scopes<'_>) -> Result<(), Failure>;
}

/// Computes results without making ops.
pub trait Fold: Op {
    /// A constant or an existing value for each result, or `None`.
    fn fold(&self, op: OpRef<'_>) -> Option<Folds>;
}

/// Computes result types.
pub trait Infer: Op {
    /// One type for each result. `op` has no results yet when it is being made.
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure>;
}

/// Lists effects on memory.
pub trait HasEffects: Op {
    /// All effects; none at all is a pure op.
    fn effects(&self, op: OpRef<'_>) -> Effects;
}

fn broken(op: OpRef<'_>) -> Failure {
    format!("has not the structure of '{}'", op.name()).into()
}

/// `verify`.
pub fn verify<T: Verify>() -> Hook {
    Hook::Verify(&|ir, id| {
        let op = ir.op(id);
        T::read(ir, id).ok_or_else(|| broken(op))?.verify(op)
    })
}
/// `verify_symbols`.
pub fn verify_symbols<T: VerifySymbols>() -> Hook {
    Hook::VerifySymbols(&|ir, id, scopes| {
        let op = ir.op(id);
        let record = T::read(ir, id).ok_or_else(|| broken(op))?;
        record.verify_symbols(op, scopes)
    })
}
/// `fold`.
pub fn fold<T: Fold>() -> Hook {
    Hook::Fold(&|ir, id| T::read(ir, id)?.fold(ir.op(id)))
}
/// `infer`.
pub fn infer<T: Infer>() -> Hook {
    Hook::Infer(&|ir, id| {
        let op = ir.op(id);
        T::read(ir, id).ok_or_else(|| broken(op))?.infer(op)
    })
}
/// `effects`.
pub fn effects<T: HasEffects>() -> Hook {
    Hook::Effects(&|ir, id| match T::read(ir, id) {
        Some(record) => record.effects(ir.op(id)),
        // What is not as declared (or stands in a slot) may do anything.
        None => smallvec::smallvec![Effect {
            access: Access::Write,
            on: None,
        }],
    })
}
