//! The pipelines from level to level, and attaching a machine.
#![forbid(unsafe_code)]

mod attach_machine;
mod choose_graph;
mod count_work;
mod levels;
pub mod processors;
mod shape;

pub use attach_machine::AttachMachine;
pub use choose_graph::{ChooseGraph, alone};
pub use count_work::CountWork;
pub use levels::{ToAccel, ToLoop, ToMemref, ToNative, ToTensor};

use tir::PassInfo;

/// All passes and pipelines of this crate.
pub fn passes() -> Vec<PassInfo> {
    vec![
        PassInfo::of::<AttachMachine>(),
        PassInfo::of::<ChooseGraph>(),
        PassInfo::of::<CountWork>(),
        PassInfo::alias::<ToTensor>(),
        PassInfo::alias::<ToLoop>(),
        PassInfo::alias::<ToMemref>(),
        PassInfo::alias::<ToAccel>(),
        PassInfo::alias::<ToNative>(),
    ]
}
