//! Liveness of buffers, interference graphs, and plans of byte offsets.
#![forbid(unsafe_code)]
// Names compare and hash by what never changes.
#![allow(clippy::mutable_key_type)]

mod banks;
pub mod check_arguments;
pub mod check_calls;
pub mod check_plan;
pub mod far;
mod held;
mod in_flight;
pub mod liveness;
pub mod order;
mod passes;
mod pieces;
pub mod plan_memory;
pub mod problem_file;
pub mod reorder;
pub mod report;
pub mod unplanned;

pub use passes::{
    CheckArguments, CheckCalls, CheckPlan, PlanMemory, PrintInterference, PrintLiveness, Reorder,
    say_report,
};

use tir::PassInfo;

/// All passes of this crate.
pub fn passes() -> Vec<PassInfo> {
    vec![
        PassInfo::of::<PlanMemory>(),
        PassInfo::of::<CheckPlan>(),
        PassInfo::of::<CheckArguments>(),
        PassInfo::of::<CheckCalls>(),
        PassInfo::of::<Reorder>(),
        PassInfo::of::<PrintLiveness>(),
        PassInfo::of::<PrintInterference>(),
    ]
}
