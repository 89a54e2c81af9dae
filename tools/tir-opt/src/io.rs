//! Files and standard streams.

use std::io::{IsTerminal, Read, Write};
use std::path::Path;

use tir::{Diagnostic, Loc, Name, Sources};

/// What places in standard input are called.
pub(crate) const STDIN: &str = "<stdin>";

/// A text and the name that places in it have.
pub struct Input {
    /// The path as given, or that of standard input.
    pub name: Name,
    /// What it holds.
    pub text: String,
}

/// Reads a `.tir` file, or standard input for `-`; at most `max_bytes`.
pub fn read(path: &str, max_bytes: u64) -> Result<Input, Diagnostic> {
    read_with(path, max_bytes, &mut std::io::stdin())
}

/// The same, with something in place of standard input.
pub(crate) fn read_with(
    path: &str,
    max_bytes: u64,
    stdin: &mut dyn Read,
) -> Result<Input, Diagnostic> {
    let (name, bytes) = if path == "-" {
        let mut bytes = Vec::new();
        let read = stdin
            .take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes);
        (Name::new(STDIN), read.map(|_| bytes))
    } else {
        (Name::new(path), read_file(Path::new(path), max_bytes))
    };
    let fail = |message: String| Diagnostic::error(message).at(Loc::file(name, 1, 1));
    let bytes = bytes.map_err(|e| Diagnostic::error(format!("cannot read '{path}': {e}")))?;
    if bytes.len() as u64 > max_bytes {
        return Err(fail(format!(
            "has more bytes than the limit of {max_bytes}"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let good = e.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&e.as_bytes()[..good]).into_owned();
        let line = before.matches('\n').count() as u32 + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() as u32 + 1;
        let byte = e.as_bytes().get(good).copied().unwrap_or_default();
        let error = Diagnostic::error(format!("byte 0x{byte:02x} is no UTF-8 text"));
        let error = error.at(Loc::file(name, line, column));
        match path.ends_with(".onnx") {
            true => {
                error.note("help: tir-translate --import-onnx makes a program of an ONNX model")
            }
            false => error,
        }
    })?;
    Ok(Input { name, text })
}

fn read_file(path: &Path, max_bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a path names something that is no regular file (a device, a pipe): it is written to,
/// never replaced by a file of its name.
pub(crate) fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// Writes a file so that its name holds all of it or what it held before.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    let written = if is_special(path) {
        let open = std::fs::OpenOptions::new().write(true).open(path);
        let written = open.and_then(|mut file| file.write_all(bytes));
        written.map_err(|e| format!("{}: cannot write: {e}", path.display()))
    } else {
        let staged = tir_data::Staged::write(path, &[bytes]);
        staged
            .and_then(tir_data::Staged::commit)
            .map_err(|e| e.to_string())
    };
    written.map_err(Diagnostic::error)
}

/// Whether standard error shows colours: it is a terminal and nobody asked for none.
pub fn color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::io::stderr().is_terminal()
}

/// Many diagnostics, each as rustc prints it, with an empty line between two.
pub fn render(sources: &Sources, diagnostics: &[Diagnostic], color: bool) -> String {
    let texts = diagnostics
        .iter()
        .map(|diagnostic| sources.render(diagnostic, color));
    texts.collect::<Vec<_>>().join("\n")
}
