//! `lit.local`: what the tests of a folder, and of those below it, share.
//!
//! ```text
//! # Programs that read these files; the first one also does what tir-opt does.
//! READERS: my-opt, my-run
//! ```

use crate::config::Config;
use std::path::Path;

/// The name of the file.
const FILE: &str = "lit.local";

/// What a folder says of its tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    /// Programs that read the files; the first is asked whether a file survives reading and
    /// printing.
    pub(crate) readers: Vec<String>,
}

impl Local {
    /// What is said nearest to a test: in its folder, or above it up to the root.
    pub(crate) fn of(config: &Config, test: &Path) -> Result<Option<Local>, String> {
        let root = config.root.canonicalize().unwrap_or_default();
        for folder in test.ancestors().skip(1) {
            let path = folder.join(FILE);
            if let Ok(text) = std::fs::read_to_string(&path) {
                let local = Local::parse(&text);
                return local
                    .map(Some)
                    .map_err(|e| format!("{}: {e}", path.display()));
            }
            if folder == root {
                break;
            }
        }
        Ok(None)
    }

    fn parse(text: &str) -> Result<Local, String> {
        let mut readers = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some(list) = line.strip_prefix("READERS:") else {
                let number = i + 1;
                return Err(format!("line {number}: expected READERS: or a comment"));
            };
            let names = list.split(',').map(|name| name.trim().to_string());
            readers.extend(names.filter(|name| !name.is_empty()));
        }
        match readers.is_empty() {
            true => Err("names no program: READERS: my-opt, my-run".into()),
            false => Ok(Local { readers }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_file() {
        let local = Local::parse("# why\n\nREADERS: a-opt, b\n").unwrap();
        assert_eq!(local.readers, ["a-opt", "b"]);
        assert_eq!(
            Local::parse("# x\nREADER: a").unwrap_err(),
            "line 2: expected READERS: or a comment"
        );
        assert!(Local::parse("READERS:").is_err());
    }
}
