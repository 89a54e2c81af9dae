//! The dialect memref: buffers in named memory spaces.
#![forbid(unsafe_code)]

mod access;
pub mod alias;
pub mod bufferize;
mod buffers;
mod eval;
mod views;

pub use access::{Copy, Load, Prefetch, Store, TransferRead, TransferWrite};
pub use buffers::{Alloc, Dealloc, GetGlobal, Global};
pub use views::{
    Cast, CollapseShape, Dim, ExpandShape, ReinterpretCast, SubView, View, collapsed_type,
    expanded_type, strided_type, sub_view_type, view_groups,
};

tir::dialect! {
    /// Buffers in named memory spaces, their elements and parts.
    memref {
        ops: [
            Alloc, Dealloc, Global, GetGlobal, Load, Store, Prefetch, Copy, TransferRead, TransferWrite,
            SubView, View, ReinterpretCast, CollapseShape, ExpandShape, Cast, Dim,
        ],
        constant: tir_arith::materialize,
    }
}

use tir::{Access, Effect, Value};

/// An effect on the memory behind a value.
pub(crate) fn on(access: Access, value: Value) -> Effect {
    Effect {
        access,
        on: Some(value),
    }
}
