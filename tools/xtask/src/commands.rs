//! The commands that run cargo: `test` and `ready`.

use std::process::Command;
use std::time::Instant;

use crate::root;

/// Every test: Rust tests of all crates (the rules of the house are one of them) and the lit
/// suites. All of them run, also when one fails.
pub(crate) fn test() -> Result<bool, String> {
    let rust = step(
        "Rust tests",
        &["test", "--release", "--workspace", "--quiet"],
        &[],
    )?;
    // Last, so that its count is the last line.
    let lit = step("lit suites", &["lit"], &[])?;
    Ok(rust && lit)
}

/// All that CI does.
pub(crate) fn ready() -> Result<bool, String> {
    let docs = [("RUSTDOCFLAGS", "-D warnings")];
    let mut good = step("format", &["fmt", "--all", "--check"], &[])?;
    let clippy = [
        "clippy",
        "--release",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ];
    good &= step("clippy", &clippy, &[])?;
    good &= step(
        "docs",
        &["doc", "--workspace", "--no-deps", "--quiet"],
        &docs,
    )?;
    println!("== rules of the house");
    good &= crate::show_tidy()?;
    good &= test()?;
    Ok(good)
}

fn step(what: &str, args: &[&str], env: &[(&str, &str)]) -> Result<bool, String> {
    println!("== {what}: cargo {}", args.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let start = Instant::now();
    let status = Command::new(cargo)
        .args(args)
        .envs(env.iter().copied())
        .current_dir(root())
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    let seconds = start.elapsed().as_secs_f64();
    if !status.success() {
        println!("== {what}: FAILED after {seconds:.0} s");
    }
    Ok(status.success())
}
