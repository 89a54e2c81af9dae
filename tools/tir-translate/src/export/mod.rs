//! From graph to ONNX: a function as a model of standard operators.
//!
//! Layouts are left behind: a model says which elements a tensor has, not how they are stored. What a group of ops
//! computes stands in its place.

mod graph;
mod nodes;
mod products;
mod refused;

use std::path::Path;

use tir_core::{Diagnostic, Ir, OpRef, SymbolTable};
use tir_onnx::{proto, write};

use graph::Writer;

/// The version of ONNX's operators that are written, and the first version of the format that may have them.
const OPSET: i64 = 21;
const IR_VERSION: i64 = 10;

/// What is exported, and how.
#[derive(clap::Args, Clone, Debug)]
pub struct ExportOptions {
    /// Function to export; required if there are several and none is called main.
    #[arg(long, value_name = "@NAME", requires = "export_onnx")]
    pub function: Option<String>,
    /// Most bytes of constants in an exported model; if there are more, they are written to a file beside it, whose name
    /// ends in .data, as external data.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, requires = "export_onnx")]
    pub inline_bytes: usize,
}

/// A function of ops on whole tensors as a model.
///
/// # Errors
/// One for each kind of op that has no form in ONNX, with its first place and the number of others; if there is no
/// function of this name.
pub fn export_onnx(
    module: &Ir,
    function: Option<&str>,
) -> Result<proto::ModelProto, Vec<Diagnostic>> {
    let (name, function) = chosen(module, function)?;
    let graph = Writer::new(function)?.function(&name)?;
    Ok(proto::ModelProto {
        ir_version: IR_VERSION,
        producer_name: "tir".to_string(),
        producer_version: env!("CARGO_PKG_VERSION").to_string(),
        graph: Some(graph),
        opset_import: vec![proto::OperatorSetIdProto {
            domain: String::new(),
            version: OPSET,
        }],
        functions: Vec::new(),
    })
}

/// Writes a function as a model.
///
/// # Errors
/// As [`export_onnx`], and if a file cannot be written.
pub fn export_onnx_to(
    module: &Ir,
    options: &ExportOptions,
    path: &Path,
) -> Result<(), Vec<Diagnostic>> {
    let model = export_onnx(module, options.function.as_deref())?;
    let saved = write::save(model, path, options.inline_bytes);
    saved.map_err(|e| vec![Diagnostic::error(e.to_string())])
}

/// The function of a name; without one, `main`, or the only one.
fn chosen<'m>(module: &'m Ir, name: Option<&str>) -> Result<(String, OpRef<'m>), Vec<Diagnostic>> {
    let table = SymbolTable::new(module);
    let functions: Vec<(String, OpRef<'m>)> = table
        .iter()
        .filter(|(_, op)| op.name() == "func.func")
        .map(|(name, op)| (name.to_string(), op))
        .collect();
    let wanted = name.map(|name| name.strip_prefix('@').unwrap_or(name));
    let found = |wanted: &str| functions.iter().find(|(name, _)| name == wanted);
    let only = match &functions[..] {
        [one] => Some(one),
        _ => None,
    };
    let function = match wanted {
        Some(wanted) => found(wanted),
        None => found("main").or(only),
    };
    function.cloned().ok_or_else(|| {
        let message = match wanted {
            Some(wanted) => format!("there is no function @{wanted}"),
            None => format!(
                "there are {} functions and none is called main; --function @NAME says which",
                functions.len()
            ),
        };
        let names: Vec<String> = functions
            .iter()
            .map(|(name, _)| format!("@{name}"))
            .collect();
        let error = Diagnostic::error(message);
        vec![match &names[..] {
            [] => error,
            names => error.note(format!("the functions are {}", names.join(", "))),
        }]
    })
}
