//! Conversions between levels; the file name is the edge.
#![forbid(unsafe_code)]

mod fuse_elementwise;
mod fuse_graph;
mod graph_fold_qdq;
mod graph_join_groups;
mod graph_to_tensor;
mod graph_winograd;

pub use fuse_elementwise::FuseElementwise;
pub use fuse_graph::FuseGraph;
pub use graph_fold_qdq::FoldQdq;
pub use graph_join_groups::JoinGroups;
pub use graph_to_tensor::GraphToTensor;
pub use graph_winograd::Winograd;

use tir::PassInfo;

/// All passes of this crate.
pub fn passes() -> Vec<PassInfo> {
    vec![
        PassInfo::of::<FoldQdq>(),
        PassInfo::of::<FuseElementwise>(),
        PassInfo::of::<FuseGraph>(),
        PassInfo::of::<GraphToTensor>(),
        PassInfo::of::<JoinGroups>(),
        PassInfo::of::<Winograd>(),
    ]
}
