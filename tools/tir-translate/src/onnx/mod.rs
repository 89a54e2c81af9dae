//! From ONNX to graph: one function `@main` of a module.

mod elementwise;
mod fold;
mod import;
mod movement;
mod normalize;
mod operands;
mod ops;
mod opsets;
mod pad;
mod parts;
mod quantize;
mod resize;
mod views;
mod window;

use std::path::Path;

use tir_core::{Diagnostic, Ir};

/// Reads a model and imports it. The module is verified.
///
/// # Errors
/// If the file is malformed, or what it says has no form in graph: all ops that are not supported
/// in one diagnostic, else every node that cannot be imported.
pub fn import_onnx(path: &Path) -> Result<Ir, Vec<Diagnostic>> {
    let model = tir_onnx::load(path).map_err(|e| vec![Diagnostic::error(e.to_string())])?;
    import_model(&model)
}

/// Imports a model that was read. The module is verified.
///
/// # Errors
/// As [`import_onnx`].
pub fn import_model(model: &tir_onnx::Model) -> Result<Ir, Vec<Diagnostic>> {
    crate::load_dialects();
    import::import(model)
}
