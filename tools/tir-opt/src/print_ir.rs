//! `--print-ir-tree-dir`: the IR printed around passes as a tree of files.
//!
//! A folder stands for each op, below that of the op around it; a file in it for each pass, named
//! by the position of the pass in the pipeline:
//! `builtin_module_no-symbol-name/func_func_main/02_00_cse.tir`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tir::Diagnostic;
use tir_pass::{IrPrint, When};

/// The files to be written, with what they hold.
#[derive(Default)]
pub(crate) struct Files(BTreeMap<PathBuf, String>);

impl Files {
    /// Adds what was printed; texts for one file stand one behind the other.
    pub(crate) fn add(&mut self, folder: &Path, prints: &[IrPrint]) {
        for print in prints {
            let mut path = folder.to_path_buf();
            path.extend(print.ops.iter().map(|op| folder_name(op)));
            let position: String = print.position.iter().map(|i| format!("{i:02}_")).collect();
            let kind = match print.when {
                When::Before | When::Given => ".before",
                When::After => "",
                When::Left | When::Broken => ".failed",
            };
            path.push(format!("{position}{}{kind}.tir", print.pass));
            *self.0.entry(path).or_default() += &print.to_string();
        }
    }

    /// Writes them.
    ///
    /// # Errors
    /// A folder or file cannot be made.
    pub(crate) fn write(&self) -> Result<(), Diagnostic> {
        for (path, text) in &self.0 {
            let written = match path.parent() {
                Some(folder) => std::fs::create_dir_all(folder),
                None => Ok(()),
            };
            let written = written.and_then(|()| std::fs::write(path, text));
            written.map_err(|e| {
                Diagnostic::error(format!("cannot write '{}': {e}", path.display()))
            })?;
        }
        Ok(())
    }
}

/// `func_func_main` for `func.func @main`.
fn folder_name(op: &str) -> String {
    let (name, symbol) = op.split_once(" @").unwrap_or((op, "no-symbol-name"));
    let plain = |c: char| {
        if c.is_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    format!("{name}_{symbol}").chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::folder_name;

    #[test]
    fn folders_stay_below_the_one_given() {
        assert_eq!(folder_name("func.func @main"), "func_func_main");
        assert_eq!(
            folder_name("builtin.module"),
            "builtin_module_no-symbol-name"
        );
        assert_eq!(folder_name("func.func @../../x"), "func_func_______x");
    }
}
