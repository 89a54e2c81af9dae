//! FileCheck: match a program's output against the CHECK lines of a file, with LLVM's semantics.
//!
//! [`run`] takes LLVM's command line and is all that the `filecheck` program does; a test runner
//! calls it in process. [`check`] is the same below the command line.
//!
//! ```
//! use tir_filecheck::{Options, Source, check};
//!
//! let checks = Source::new("checks", b"CHECK: add\nCHECK-NEXT: [[R:%[0-9]+]] = mul");
//! let input = Source::new("input", b"x = add\n%7 = mul\n");
//! assert!(check(&Options::default(), checks, input).is_ok());
//! ```
//!
//! *Invariants.* Check file and input are untrusted bytes (they need not be UTF-8) and never cause
//! a panic. Nothing here runs a process, prints, or reads the environment, except that
//! [`env_options`] reads `FILECHECK_OPTS`.

mod args;
mod bracket;
mod directive;
mod engine;
mod matcher;
mod numeric;
mod pattern;
mod pieces;
mod posix;
mod render;
mod text;

pub use args::{Outcome, env_options, run};
pub use engine::{Checked, Failure, FailureKind, check};

/// A named text: the check file or the input.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name shown in reports.
    pub name: &'a str,
    /// The bytes as read.
    pub text: &'a [u8],
}

impl<'a> Source<'a> {
    /// Names a text.
    pub fn new(name: &'a str, text: &'a [u8]) -> Self {
        Source { name, text }
    }
}

/// How much of the input is shown besides the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DumpInput {
    /// The whole input, whatever the verdict.
    Always,
    /// The lines around a failure.
    #[default]
    Fail,
    /// Only the marked lines.
    Never,
}

/// What the command line sets.
#[derive(Clone, Debug)]
pub struct Options {
    /// Prefixes of directives; `CHECK` when none is named.
    pub prefixes: Vec<String>,
    /// Prefixes whose directives are skipped; `COM` and `RUN` when none is named.
    pub comment_prefixes: Vec<String>,
    /// Patterns that must not occur between matches.
    pub implicit_not: Vec<String>,
    /// `NAME=VALUE` and `#NAME=EXPR`.
    pub defines: Vec<String>,
    /// A match must cover its whole line.
    pub match_full_lines: bool,
    /// Spaces and tabs are not folded.
    pub strict_whitespace: bool,
    /// ASCII letters match in either case.
    pub ignore_case: bool,
    /// An empty input is no error.
    pub allow_empty: bool,
    /// A prefix may be named and not used.
    pub allow_unused_prefixes: bool,
    /// Variables without `$` are forgotten at each CHECK-LABEL.
    pub enable_var_scope: bool,
    /// Matches of one CHECK-DAG group may overlap.
    pub allow_dag_overlap: bool,
    /// List each match.
    pub verbose: bool,
    /// What to show of the input.
    pub dump_input: DumpInput,
    /// Input lines shown after the point where a scan started.
    pub context: usize,
    /// Use terminal colours in reports.
    pub color: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            prefixes: Vec::new(),
            comment_prefixes: Vec::new(),
            implicit_not: Vec::new(),
            defines: Vec::new(),
            match_full_lines: false,
            strict_whitespace: false,
            ignore_case: false,
            allow_empty: false,
            allow_unused_prefixes: false,
            enable_var_scope: false,
            allow_dag_overlap: false,
            verbose: false,
            dump_input: DumpInput::Fail,
            context: 5,
            color: false,
        }
    }
}
