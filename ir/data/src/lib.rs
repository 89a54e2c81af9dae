//! Arrays in memory and on disk: element types, shared bytes, `.npy`, `.safetensors`, comparison.
//!
//! An [`Array`] is an element type, a shape and shared bytes: little endian, row major, dense.
//! Its bytes may be owned, or a slice of a mapped file; cloning one never copies them.
//!
//! ```
//! use tir_data::{Array, DType, compare};
//!
//! let x = Array::random(DType::F32, &[2, 3], 7)?;
//! let y = tir_data::npy::decode(tir_data::npy::encode(&x).into())?;
//! assert_eq!(x, y);
//! assert!(compare(&x, &y, 1e-5, 1e-8).ok);
//! # Ok::<(), tir_data::DataError>(())
//! ```
//!
//! Nothing here panics on what a file holds: every reader returns a [`DataError`] that names the
//! file and the place in it, and allocates no more than a small multiple of the file's length.

#[cfg(target_endian = "big")]
compile_error!("tir-data views little-endian bytes in place and needs a little-endian host");

// Only their features are used; see the manifest.
use bitflags as _;
use serde_core as _;

mod array;
pub mod blob;
mod compare;
mod dtype;
mod error;
mod file;
mod memory;
pub mod npy;
mod part;
mod random;
mod safetensors;
mod strided;

pub use array::{Array, Element};
pub use bytes::Bytes;
pub use compare::{Comparison, compare};
pub use dtype::DType;
pub use error::{DataError, ErrorPlace};
pub use file::{Sink, Staged, read_file, write_stdout};
pub use memory::give_back_memory;
pub use part::{FilePart, map_file};
pub use random::Random;
pub use safetensors::{
    Form, SafeTensors, stage_safetensors, stage_safetensors_with, write_safetensors,
};
pub use strided::{
    BufferId, Extents, Footprint, Rows, SMALLEST_SQUARE, StridedBox, dense_strides, gcd,
};
