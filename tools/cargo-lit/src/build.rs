//! Where the workspace and its tools are, and bringing those up to date that tests use.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::config::Config;
use crate::local::Local;
use crate::suite::Test;
use crate::test_file::TestFile;

/// The nearest directory at or above `start` whose Cargo.toml declares a workspace.
pub(crate) fn workspace_root(start: &Path) -> Option<PathBuf> {
    start
        .ancestors()
        .find(|dir| {
            let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap_or_default();
            manifest.lines().any(|line| line.trim() == "[workspace]")
        })
        .map(Path::to_path_buf)
}

/// Where cargo puts what it builds of a workspace.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root.join(dir),
        None => root.join("target"),
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}
#[derive(Deserialize)]
struct Package {
    targets: Vec<Target>,
}
#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The programs of the workspace.
fn programs(root: &Path) -> Result<BTreeSet<String>, String> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata: {}", said.trim()));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("cargo metadata cannot be read: {e}"))?;
    let targets = metadata.packages.into_iter().flat_map(|p| p.targets);
    let programs = targets.filter(|target| target.kind.iter().any(|kind| kind == "bin"));
    Ok(programs.map(|target| target.name).collect())
}

/// Every word of the RUN lines of tests, and the programs that the round trip needs.
fn words(config: &Config, tests: &[Test]) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    words.extend(config.round_trip.iter().map(|check| check.program.clone()));
    for test in tests {
        // What is wrong here is reported when the test runs.
        if let Ok(Some(local)) = Local::of(config, &test.path) {
            words.extend(local.readers);
        }
        let text = std::fs::read(&test.path).unwrap_or_default();
        let Ok(file) = TestFile::parse(&text) else {
            continue;
        };
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        for run in &file.runs {
            let text = crate::subst::expand_names(&run.text, &config.substitutions);
            let text = text.unwrap_or_default();
            words.extend(text.split(|c| !name(c)).map(str::to_string));
        }
    }
    words
}

/// Builds the programs of the workspace that tests name, in the profile of the tools in `tool_dir`;
/// cargo decides what is stale.
///
/// All packages are selected, though only these programs are built: so the features of
/// dependencies, and with them what is built of these, are those of a build of the workspace.
pub(crate) fn build(
    config: &Config,
    root: &Path,
    tool_dir: &Path,
    tests: &[Test],
) -> Result<(), String> {
    let Some(profile) = tool_dir.file_name().and_then(|n| n.to_str()) else {
        return Ok(());
    };
    let words = words(config, tests);
    let mut needed = programs(root)?;
    needed.retain(|program| words.contains(program) && program != "filecheck");
    if needed.is_empty() {
        return Ok(());
    }
    let mut command = cargo();
    command.args(["build", "--workspace"]).current_dir(root);
    if !std::io::stderr().is_terminal() {
        command.arg("--quiet");
    }
    let profile = if profile == "debug" { "dev" } else { profile };
    command.args(["--profile", profile]);
    for program in &needed {
        command.args(["--bin", program]);
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "the tools do not build ({status}); --no-build runs those that are there"
        )),
        Err(e) => Err(format!("cannot start cargo: {e}")),
    }
}
