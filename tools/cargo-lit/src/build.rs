//! Where the workspace and its tools are, and bringing them up to date.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Builds the workspace in the profile of the tools in `tool_dir`; cargo decides what is stale.
pub(crate) fn build(root: &Path, tool_dir: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.arg("build").arg("--workspace").current_dir(root);
    if !std::io::stderr().is_terminal() {
        command.arg("--quiet");
    }
    match tool_dir.file_name().and_then(|n| n.to_str()) {
        Some("debug") => {}
        Some("release") => {
            command.arg("--release");
        }
        _ => return Ok(()),
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "the tools do not build ({status}); --no-build runs those that are there"
        )),
        Err(e) => Err(format!("cannot start cargo: {e}")),
    }
}
