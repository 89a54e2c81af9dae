//! The two traits by which an op runs, and the hooks that hand them over.

use std::marker::PhantomData;

use tir_core::{Failure, Hook, Op, OpRef};

use crate::compile::Compiler;
use crate::data::Data;

/// Computes results from operands: a call per op, for ops that work on whole tensors. Inside a
/// compiled function it runs as one instruction.
pub trait Evaluate: Op {
    /// One value for each result. The framework adds name and place of the op to a failure.
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure>;
}

/// Becomes instructions of the function around it.
pub trait LowerToEval: Op {
    /// Emits them. The framework adds name and place of the op to a failure.
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure>;
}

/// The interface behind the hook `evaluate`.
pub trait EvaluateOp: Send + Sync {
    /// See [`Evaluate::evaluate`].
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure>;
}

/// The interface behind the hook `lower_to_eval`.
pub trait LowerOp: Send + Sync {
    /// See [`LowerToEval::lower`].
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure>;
}

struct Thunk<T>(PhantomData<fn() -> T>);

fn record<T: Op>(op: OpRef<'_>) -> Result<T, Failure> {
    T::read(op.ir, op.id).ok_or_else(|| "has not the structure of its record".into())
}

impl<T: Evaluate> EvaluateOp for Thunk<T> {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        record::<T>(op)?.evaluate(op, inputs)
    }
}
impl<T: LowerToEval> LowerOp for Thunk<T> {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        record::<T>(op)?.lower(op, cx)
    }
}

/// `evaluate`.
pub fn evaluate<T: Evaluate>() -> Hook {
    Hook::interface::<dyn EvaluateOp>(&Thunk::<T>(PhantomData))
}
/// `lower_to_eval`.
pub fn lower_to_eval<T: LowerToEval>() -> Hook {
    Hook::interface::<dyn LowerOp>(&Thunk::<T>(PhantomData))
}
