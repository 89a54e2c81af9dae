//! Programs from and to other formats.
#![forbid(unsafe_code)]

mod cli;
mod onnx;

pub use cli::main;
pub use onnx::{import_model, import_onnx};

/// Loads the dialects that imported programs use.
pub fn load_dialects() {
    tir_builtin::DIALECT.load();
    tir_builtin::TIR.load();
    tir_func::DIALECT.load();
    tir_graph::DIALECT.load();
}
