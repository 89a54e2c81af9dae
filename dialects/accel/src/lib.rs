//! The dialect accel: one machine's own operations, and what is known of the machine.
//!
//! A machine (`accel.machine`) names memory spaces, DMA engines, units, intrinsics whose behaviour is a
//! tensor expression, and the scalar ops that vector units compute. A program starts work on in-order queues, one per engine and
//! unit; work gives tokens, and other work starts after them.
#![forbid(unsafe_code)]

mod asm;
mod attached;
pub mod bounds;
mod cores;
pub mod eval;
pub mod family;
pub mod formula;
pub mod machine;
pub mod model;
mod ops;
mod processor;
mod route;
mod token;
pub mod transfer;
pub mod vector;

pub use attached::AttachedMachine;
pub use machine::MachineInfo;
pub use ops::apply::Apply;
pub use ops::describe::{Core, Dma, Intrinsic, Machine, Space, Unit, Vector, Yield};
pub use ops::run::{Call, Direction, DmaStart, DmaWait, Mark, Ready};
pub use ops::semaphore::{Acquire, Release, Semaphore};
pub use processor::{Processor, TargetProcessor};
pub use route::RouteInfo;
pub use token::{SemaphoreType, Token, token};

/// Attribute of what makes a tensor or a buffer in near memory: how many slots it is to have, one for each
/// iteration that is in flight; behind `multi-buffer`, how many it has along its first dimension.
pub const DEPTH: &str = "accel.depth";

/// Attribute of a nest on tiles: the engine or the vector capability that it is meant for, where others could
/// compute it too.
pub const BY: &str = "accel.by";

tir::dialect! {
    /// Machines, transfers, tokens and intrinsic calls.
    accel {
        ops: [Machine, Core, Space, Dma, Unit, Intrinsic, Vector, Yield, Call, Apply, DmaStart, DmaWait, Mark, Ready, Semaphore, Release,
            Acquire,
        ],
        types: [Token, SemaphoreType],
    }
}
