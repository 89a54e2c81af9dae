//! Linking, by the system's C compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Objects to a shared library, with what they call of `libtir_math.a`.
pub fn link(objects: &[PathBuf], output: &Path) -> Result<(), String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let mut command = Command::new(&compiler);
    command.args(["-shared", "-o"]).arg(output).args(objects);
    let own = std::env::current_exe().map_err(|e| format!("where this program lies: {e}"))?;
    let folder = own.parent().unwrap_or(Path::new("."));
    let library = folder.join("libtir_math.a");
    if !library.exists() {
        let name = library.display();
        return Err(format!("there is no {name}, which libraries call"));
    }
    command.arg(library);
    command.args([
        "-Wl,--gc-sections",
        "-Wl,--strip-debug",
        "-Wl,--exclude-libs,ALL",
        "-Wl,--no-undefined",
        "-lm",
    ]);
    let done = command
        .output()
        .map_err(|e| format!("cannot start '{compiler}': {e}"))?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr);
        return Err(format!("'{compiler}' cannot link: {why}"));
    }
    Ok(())
}
