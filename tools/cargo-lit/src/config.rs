//! What a run of a suite is told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A program with its first arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// A name to be found in [`Config::tool_dirs`] or on `PATH`, or a path.
    pub program: String,
    /// Arguments that go before the file.
    pub args: Vec<String>,
}

impl Command {
    /// A program with arguments.
    pub fn new(program: impl Into<String>, args: &[&str]) -> Self {
        Command {
            program: program.into(),
            args: args.iter().map(ToString::to_string).collect(),
        }
    }
}

/// How tests are found and run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory in which commands run; names of tests are relative to it.
    pub root: PathBuf,
    /// Where `%t` and `%T` lie; a directory per test below it is emptied before the test runs.
    pub temp: PathBuf,
    /// Suffixes of test files, without dot.
    pub suffixes: Vec<String>,
    /// Directories searched for programs before `PATH`, and put first on the `PATH` of commands.
    pub tool_dirs: Vec<PathBuf>,
    /// `%{name}` substitutions; a value may be several words.
    pub substitutions: BTreeMap<String, String>,
    /// Features for REQUIRES, UNSUPPORTED and XFAIL, besides names of programs that are found.
    pub features: BTreeSet<String>,
    /// Seconds that a RUN line may take.
    pub timeout: u64,
    /// The check that each `.tir` file's text survives reading and printing; the file's path is
    /// appended. None: no check.
    pub round_trip: Option<Command>,
    /// The `cargo-lit` program, which runs batches of tests, and is `filecheck` in RUN lines.
    pub program: PathBuf,
    /// Workers.
    pub jobs: usize,
}

impl Config {
    /// Settings for tests under `root`, with no tools, no round trip, and temporary files in
    /// `root/target/lit`.
    pub fn new(root: &Path) -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let os = format!("system-{}", std::env::consts::OS);
        Config {
            root: root.to_path_buf(),
            temp: root.join("target").join("lit"),
            suffixes: vec!["tir".into()],
            tool_dirs: Vec::new(),
            substitutions: BTreeMap::new(),
            features: [os, std::env::consts::ARCH.to_string()].into(),
            timeout: 60,
            round_trip: None,
            program: PathBuf::from("cargo-lit"),
            jobs,
        }
    }

    /// Where `program` lies: a path as it is, a name in the tool directories and then on `PATH`.
    pub fn find_program(&self, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            let path = self.root.join(program);
            return is_program(&path).then_some(path);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = self
            .tool_dirs
            .iter()
            .cloned()
            .chain(std::env::split_paths(&path));
        dirs.map(|dir| dir.join(program)).find(|p| is_program(p))
    }
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}
