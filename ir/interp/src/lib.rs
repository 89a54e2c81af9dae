//! Running IR: evaluation op by op, register bytecode for functions, loop nests of kernels.
//!
//! An op runs in one of two ways. [`Evaluate`] computes results from operands, a call per op:
//! right for ops on whole tensors. [`LowerToEval`] becomes instructions of the function around it:
//! right for scalars, memory and control flow. A function is compiled when it is first called, to
//! typed instructions on registers; [`Interpreter`] runs it. A [`Kernel`] is the scalar region of
//! an index expression, compiled to run over strided views.
//!
//! ```text
//! #[op("x.add", Pure, SameType, results(sum), lower_to_eval)]      // a scalar op
//! impl LowerToEval for Add {
//!     fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
//!         cx.scalar(ScalarOp::Float(FloatOp::Add, Kind::F32), op.ir.result(op.id, 0), &[self.x, self.y])
//!     }
//! }
//! #[op("x.relu", Pure, SameType, results(y), evaluate)]            // an op on tensors
//! impl Evaluate for Relu {
//!     fn evaluate(&self, _: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> { … }
//! }
//! let kernel = Kernel::compile(ir, &KernelSpec { body, maps, inputs: 2, combine: Some(Combine::Add) })?;
//! let sums = kernel.run_arrays(&sizes, &[a, b], vec![c], &[])?;    // tensors
//! env.run_kernel(&kernel, &sizes, &[&a, &b], &[&c], &[])?;         // views of memory
//! ```
//!
//! Invariants: no result depends on anything but the program and its inputs; every access to
//! memory is checked; a failure carries name and place of the op it happened in.
#![forbid(unsafe_code)]

mod access;
mod code;
mod columns;
mod compile;
mod data;
mod elements;
mod env;
mod exec;
mod flow;
pub mod hooks;
mod interpreter;
mod kernel;
mod lanes;
mod memory;
mod nest;
mod on_memory;
mod operand;
mod ops;
mod optimize;
mod scalar;
mod semantics;
mod view;
mod wide;
mod word;
mod work;

pub use code::{Label, Reg};
pub use compile::Compiler;
pub use data::{Data, array_of, failure, fitted, tensor_form, update, zeros};
pub use elements::{DENSE_BYTES, attr_named, attr_of, elem_of, elements, type_of};
pub use env::{Env, Options, constant, dense_array, to_attr};
pub use flow::CountedLoop;
/// The attribute of a function's argument that is a result: a buffer without data at the start, which
/// the function writes.
pub const OUT_ARGUMENT: &str = "func.out";

pub use hooks::{Evaluate, EvaluateOp, LowerOp, LowerToEval};
pub use interpreter::{Interpreter, evaluate_op, fold_by_evaluation, random_args};

pub use kernel::{Combine, Input, Kernel, KernelSpec, Output};
pub use lanes::elementwise;
pub use memory::{Alloc, GIVEN_ALIGN, Memory, PlainMemory, Round, Site};
pub use ops::{CastOp, FloatCmp, FloatFn, FloatOp, IntCmp, IntFn, IntOp, ScalarOp, Trap};
pub use scalar::{Kind, Scalar, dtype_of};
pub use tir_data::{BufferId, Extents, StridedBox};
pub use view::View;
pub use wide::{Wide, element, fold_by_scalar, fold_scalar, int_constant, splat_float, splat_int};
pub use work::{computes, point_work};
