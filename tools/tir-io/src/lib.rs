//! Programs and their weights in files: constants of a `.tir` that lie in a `.safetensors` beside
//! it are loaded and checked, and written together with it.
#![forbid(unsafe_code)]

mod blobs;
mod load;
mod paths;
mod save;

pub use load::load_blobs;
pub use save::{Out, save};
