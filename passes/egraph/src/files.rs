//! Files that the blocks of a program share: a part each, in the order of the program, whichever
//! thread comes first.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tir::{Diagnostic, Ir};

/// What parts are sorted by: line of the function, its symbol, number of the block.
pub(crate) type Key = (u32, String, usize);

/// The parts of files by name.
pub(crate) struct Files<P>(Mutex<BTreeMap<String, BTreeMap<Key, P>>>);

impl<P> Default for Files<P> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<P> Files<P> {
    /// Puts a part into a file, and writes the file as it is by now: `write` makes it of its parts.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn put(
        &self,
        file: &str,
        key: Key,
        part: P,
        write: impl FnOnce(Vec<&P>) -> String,
    ) -> Result<(), Diagnostic> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = files.entry(file.to_string()).or_default();
        parts.insert(key, part);
        let text = write(parts.values().collect());
        std::fs::write(file, text)
            .map_err(|e| Diagnostic::error(format!("cannot write '{file}': {e}")))
    }
}

/// What a block of an arena is sorted by.
pub(crate) fn key(ir: &Ir, block: usize) -> Key {
    let line = ir.loc(ir.root()).place().map_or(0, |(_, line, _)| line);
    (line, crate::blocks::symbol(ir), block)
}
