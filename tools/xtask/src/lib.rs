//! Chores of the workspace.
//!
//! `tidy` checks the source rules: [`crates`] over `cargo metadata` and the manifests,
//! [`sources`] over the text of the `.rs` files. `test` runs every test there is, `ready` all that
//! CI does. Each rule says why it is there when it is broken.
#![forbid(unsafe_code)]

mod commands;
pub mod crates;
mod rust_tests;
mod rust_text;
pub mod sources;
mod tested;

use std::fmt;
use std::path::{Path, PathBuf};

/// A broken rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Violation {
    /// The file, from the workspace's root.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// Why there is such a rule.
    pub reason: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            message,
            reason,
        } = self;
        write!(f, "{file}:{line}: {message}\n    reason: {reason}")
    }
}

const HELP: &str = "\
cargo xtask COMMAND

  tidy    check the rules of the source tree
  test    run all tests: Rust tests, source rules, lit suites
  docs    update the book: the output of its commands, and its reference pages
  book    build the book as HTML in target/book
  ready   everything CI runs: format, clippy, docs, book, tests, and the first command of README
";

/// Runs a command; gives the exit code: 0 when all is well, 1 when something failed, 2 for wrong
/// usage.
pub fn main(args: &[String]) -> u8 {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["tidy"] => show_tidy(),
        ["test"] => commands::test(),
        ["docs"] => commands::docs(),
        ["book"] => commands::book(),
        ["ready"] => commands::ready(),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(true)
        }
        _ => {
            eprint!("{HELP}");
            return 2;
        }
    };
    match result {
        Ok(good) => u8::from(!good),
        Err(message) => {
            eprintln!("error: {message}");
            1
        }
    }
}

pub(crate) fn show_tidy() -> Result<bool, String> {
    let found = tidy(&root())?;
    for violation in &found {
        println!("{violation}");
    }
    match found.len() {
        0 => println!("tidy: no rule is broken"),
        1 => println!("tidy: 1 rule is broken"),
        n => println!("tidy: {n} rules are broken"),
    }
    Ok(found.is_empty())
}

/// The workspace's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// The cargo that runs this, or the one there is.
pub(crate) fn cargo() -> PathBuf {
    let cargo = std::env::var_os("CARGO");
    cargo.map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

/// Checks all rules; the violations in order of file and line.
pub fn tidy(root: &Path) -> Result<Vec<Violation>, String> {
    let mut found = crates::check(root)?;
    found.extend(sources::check(root)?);
    found.sort();
    Ok(found)
}
