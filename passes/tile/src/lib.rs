//! Tiling for the near space of the attached machine, and tensorization by declared behaviour.
#![forbid(unsafe_code)]

pub mod chain;
pub mod emit;
pub mod group;
pub mod layout;
pub mod matching;
mod near;
mod passes;
mod placed;
pub mod plan;
pub mod scalar;
pub mod sequence;
mod settle;
mod sums;
pub mod tensorize;
pub mod tile;
mod widen;

pub use passes::{Tensorize, Tile};

use tir::PassInfo;

/// All passes of this crate.
pub fn passes() -> Vec<PassInfo> {
    vec![PassInfo::of::<Tile>(), PassInfo::of::<Tensorize>()]
}
