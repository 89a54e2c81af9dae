//! From TASO's text export of a network, which tensat reads, to graph: one function `@main`.

mod import;
mod read;
mod rules;
mod window;

pub use rules::{RuleOptions, import_tensat_rule_text, import_tensat_rules};

use std::path::Path;

use tir_core::{Diagnostic, Ir};

/// Reads a network and imports it: inputs and weights are arguments of `@main`, what no operator
/// reads are its results. The module is verified. The format holds no elements.
///
/// # Errors
/// If the file cannot be read, or the first record that is malformed, is not supported, or says
/// another shape than it has.
pub fn import_tensat_model(path: &Path) -> Result<Ir, Vec<Diagnostic>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Diagnostic::error(format!("cannot read '{shown}': {e}")))?;
    import_tensat_text(&shown.to_string(), &text)
}

/// The same of the text of the file `name`.
///
/// # Errors
/// As [`import_tensat_model`].
pub fn import_tensat_text(name: &str, text: &str) -> Result<Ir, Vec<Diagnostic>> {
    crate::load_dialects();
    let records = read::records(name, text)?;
    import::import(&records)
}
