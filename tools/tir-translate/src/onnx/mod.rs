//! From ONNX to graph: one function `@main` of a module.

mod asked;
mod assume;
mod attention;
mod bodies;
mod computed;
mod contrib;
mod control;
mod convolution;
mod cx;
mod einsum;
mod elementwise;
mod fold;
mod functions;
mod grid;
mod groups;
mod import;
mod loops;
mod make;
mod movement;
mod normalize;
mod numbers;
mod open;
mod operands;
mod ops;
mod opsets;
mod pad;
mod parts;
mod quantize;
mod recurrent;
mod reductions;
mod repeat;
mod report;
mod resample;
mod rescale;
mod resize;
mod scatter;
mod search;
mod sizes;
mod spectrum;
mod stated;
mod table;
mod views;
mod window;

use std::path::Path;

use tir_core::{Diagnostic, Ir};

pub use sizes::OnnxOptions;

/// Reads a model and imports it as it is. The module is verified.
///
/// # Errors
/// If the file is malformed, or what it says has no form in graph: all operators that are not supported
/// in one diagnostic, inputs whose sizes are not known in another one, and one for each other cause.
pub fn import_onnx(path: &Path) -> Result<Ir, Vec<Diagnostic>> {
    import_onnx_with(path, &OnnxOptions::default())
}

/// The same, with sizes of inputs and what else is said of them.
///
/// # Errors
/// As [`import_onnx`], and if something is said that the model has no place for.
pub fn import_onnx_with(path: &Path, options: &OnnxOptions) -> Result<Ir, Vec<Diagnostic>> {
    Ok(import_onnx_noting(path, options)?.0)
}

/// The same, with remarks: what the import took for granted, which the program checks.
///
/// # Errors
/// As [`import_onnx_with`].
pub fn import_onnx_noting(
    path: &Path,
    options: &OnnxOptions,
) -> Result<(Ir, Vec<Diagnostic>), Vec<Diagnostic>> {
    let model = tir_onnx::load(path).map_err(|e| {
        let error = Diagnostic::error(e.to_string());
        let is_text = path.extension().is_some_and(|ending| ending == "tir");
        vec![match is_text {
            true => error.note("help: a program in text is no ONNX model: tir-opt lowers it"),
            false => error,
        }]
    })?;
    crate::load_dialects();
    import::import(&model, options)
}

/// Imports a model that was read. The module is verified.
///
/// # Errors
/// As [`import_onnx`].
pub fn import_model(model: &tir_onnx::Model) -> Result<Ir, Vec<Diagnostic>> {
    import_model_with(model, &OnnxOptions::default())
}

/// The same, with sizes of inputs and what else is said of them.
///
/// # Errors
/// As [`import_onnx_with`].
pub fn import_model_with(
    model: &tir_onnx::Model,
    options: &OnnxOptions,
) -> Result<Ir, Vec<Diagnostic>> {
    crate::load_dialects();
    Ok(import::import(model, options)?.0)
}
