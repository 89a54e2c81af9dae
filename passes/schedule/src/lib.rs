//! From buffers in spaces to the command stream of one machine: rotating buffers, transfers on
//! engines, tokens between queues.
#![forbid(unsafe_code)]

pub mod distribute;
mod division;
pub mod dry_run;
mod early;
pub mod edit;
pub mod expand_generic;
mod fuse_loops;
mod halos;
mod idle;
mod in_place;
mod independent;
pub mod index;
pub mod insert_dma;
pub mod insert_tokens;
mod moved;
pub mod multi_buffer;
pub mod order;
mod passes;
pub mod place;
mod postpone;
mod prefetch;
mod preload;
pub mod prune_edges;
pub mod range;
mod ring;
mod rounds;
pub mod schedule;
mod split_nests;
mod spread;
mod staging;
pub mod stream;
mod transfer;
pub mod views;
mod work;

pub use passes::{
    CheckEdges, Distribute, DryRun, ExpandGeneric, FindParallel, FuseLoops, InsertDma,
    InsertTokens, MultiBuffer, PlaceBuffers, PruneEdges, ScheduleTransfers, SplitNests,
};

pub use halos::StoreHalos;
pub use in_place::TilesInPlace;

use tir::PassInfo;

/// All passes of this crate.
pub fn passes() -> Vec<PassInfo> {
    vec![
        PassInfo::of::<Distribute>(),
        PassInfo::of::<StoreHalos>(),
        PassInfo::of::<TilesInPlace>(),
        PassInfo::of::<MultiBuffer>(),
        PassInfo::of::<InsertDma>(),
        PassInfo::of::<ScheduleTransfers>(),
        PassInfo::of::<PlaceBuffers>(),
        PassInfo::of::<InsertTokens>(),
        PassInfo::of::<PruneEdges>(),
        PassInfo::of::<ExpandGeneric>(),
        PassInfo::of::<FuseLoops>(),
        PassInfo::of::<FindParallel>(),
        PassInfo::of::<SplitNests>(),
        PassInfo::of::<CheckEdges>(),
        PassInfo::of::<DryRun>(),
    ]
}
