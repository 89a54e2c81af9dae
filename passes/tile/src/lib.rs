//! Tiling for the near space of the attached machine, and tensorization by declared behaviour.
//!
//! What becomes of the generics of a function, in this order:
//!
//! 1. *Preparation* (`widen`, `steps`, `sums`, `settle`): what no unit takes as it is written, and a unit would take in another
//!    form, is written so; what only moves elements becomes a copy nest of its own.
//! 2. [`group`]: a reduction with what runs in its loops is a group, one iteration space with operands in far memory.
//! 3. [`plan`]: how a group is cut up, alone. What its steps compute is compared with what intrinsics compute
//!    ([`matching`], [`scalar`], [`sequence`]); every division that fits has tiles ([`layout`]) and an estimate.
//! 4. [`chain`]: which groups run as one nest of several stages, and which tensors between nests stay in near memory.
//! 5. [`emit`]: loops around transfers and generics on tiles in the place of the groups. With several levels of
//!    memory, those generics are the groups of the next level, and it goes on with 2.
//! 6. [`tensorize`], a pass of its own: calls of intrinsics in the place of the generics that compute the same.
//!
//! [`mod@tile`] is the pass that goes from 1 to 5. Nothing here knows an operator by name: only maps, iterators and
//! combiners.
#![forbid(unsafe_code)]

mod apart;
mod behind;
pub mod chain;
pub mod emit;
mod filled;
pub mod group;
pub mod layout;
pub mod matching;
mod near;
mod parts;
mod passes;
mod placed;
pub mod plan;
mod rests;
pub mod scalar;
mod section;
pub mod sequence;
mod settle;
mod steps;
mod strides;
mod sums;
pub mod tensorize;
pub mod tile;
mod widen;

pub use passes::{CYCLES, EstimateCycles, Tensorize, Tile};

use tir::PassInfo;

/// All passes of this crate.
pub fn passes() -> Vec<PassInfo> {
    vec![
        PassInfo::of::<EstimateCycles>(),
        PassInfo::of::<Tile>(),
        PassInfo::of::<Tensorize>(),
    ]
}
