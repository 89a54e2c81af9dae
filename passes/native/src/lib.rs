//! To what a processor runs: from buffers in spaces and intrinsics to loops of scalar operations on one memory, and
//! those as MLIR.
#![forbid(unsafe_code)]

mod approximate_math;
pub mod c_interface;
mod drop_spaces;
mod group_constants;
mod inline_calls;
pub mod mlir;
mod outline_nests;
mod pack_constants;
mod prefetch;
mod promote;
mod retype;

pub use approximate_math::ApproximateMath;
pub use drop_spaces::DropSpaces;
pub use group_constants::GroupConstants;
pub use inline_calls::InlineCalls;
pub use outline_nests::OutlineNests;
pub use pack_constants::PackConstants;
pub use prefetch::PrefetchTiles;
pub use promote::PromoteMemory;

use tir::PassInfo;

/// All passes of this crate.
pub fn passes() -> Vec<PassInfo> {
    vec![
        PassInfo::of::<ApproximateMath>(),
        PassInfo::of::<InlineCalls>(),
        PassInfo::of::<DropSpaces>(),
        PassInfo::of::<OutlineNests>(),
        PassInfo::of::<PackConstants>(),
        PassInfo::of::<GroupConstants>(),
        PassInfo::of::<PromoteMemory>(),
        PassInfo::of::<PrefetchTiles>(),
    ]
}
