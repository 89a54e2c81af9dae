//! Programs from and to other formats.
#![forbid(unsafe_code)]

mod cli;
mod export;
mod onnx;
mod taso;

pub use cli::main;
pub use export::{ExportOptions, export_onnx, export_onnx_to};
pub use onnx::{
    OnnxOptions, import_model, import_model_with, import_onnx, import_onnx_noting, import_onnx_with,
};
pub use taso::{
    RuleOptions, import_tensat_model, import_tensat_rule_text, import_tensat_rules,
    import_tensat_text,
};

/// Loads the dialects that imported programs and exported ones use.
pub fn load_dialects() {
    tir_builtin::DIALECT.load();
    tir_builtin::TIR.load();
    tir_func::DIALECT.load();
    tir_graph::DIALECT.load();
    tir_builtin::rule::DIALECT.load();
    tir_func::cf::DIALECT.load();
    tir_arith::DIALECT.load();
    tir_math::DIALECT.load();
    tir_tensor::DIALECT.load();
    tir_loop::DIALECT.load();
    tir_memref::DIALECT.load();
    tir_vector::DIALECT.load();
    tir_accel::DIALECT.load();
}
