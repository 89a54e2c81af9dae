//! The dialect tensor: index expressions on whole tensors and tiles, without an order.
#![forbid(unsafe_code)]

pub mod asm;
mod bytes;
mod cost;
pub mod eval;
pub mod generic;
mod slices;
pub mod tiles;
mod transfer;

pub use generic::{Combine, Generic, Yield, yields_argument};
pub use slices::{
    CollapseShape, Empty, ExpandShape, Extract, ExtractSlice, InsertSlice, check_reshape,
    check_slice, groups, reassociation,
};
pub use transfer::{TransferRead, TransferWrite, check_access};

tir::dialect! {
    /// Index expressions: what each element of a tensor is, without an order.
    tensor {
        ops: [
            Empty, Generic, Yield, Extract, ExtractSlice, InsertSlice, CollapseShape, ExpandShape,
            TransferRead, TransferWrite,
        ],
        constant: tir_arith::materialize,
    }
}
