//! The commands that run cargo: `test` and `ready`.

use std::process::Command;
use std::time::Instant;

use crate::{cargo, root};

/// The profile of all that is built, so that nothing is compiled twice.
const PROFILE: &str = "quick";

/// Every test: Rust tests of all crates (the source rules are one of them) and the lit
/// suites. All of them run, also when one fails.
pub(crate) fn test() -> Result<bool, String> {
    let mut good = crate::rust_tests::run(&cargo(), &root(), PROFILE)?;
    let examples = ["test", "--profile", PROFILE, "--workspace", "--doc"];
    let rest = ["--no-fail-fast", "--quiet"];
    good &= step("examples of docs", &[&examples[..], &rest].concat(), &[])?;
    // Last, so that its count is the last line.
    good &= step("lit suites", &["lit"], &[])?;
    Ok(good)
}

/// Brings the book up to date: what its commands print, and the pages made from the sources.
pub(crate) fn docs() -> Result<bool, String> {
    let package = ["-p", "book-examples", "--test", "book"];
    let args = [&["test", "--profile", PROFILE], &package[..]].concat();
    // This run fails where it finds differences, and writes them.
    step("book: write", &args, &[("TRYCMD", "overwrite")])?;
    println!("== book: review the changes with git diff");
    step("book: check", &args, &[])
}

/// Builds the book as HTML in target/book. The builder is a workspace of its own, which needs
/// crates that nothing else here needs.
pub(crate) fn book() -> Result<bool, String> {
    let manifest = "docs/book/builder/Cargo.toml";
    let fetch = ["fetch", "--locked", "--quiet", "--manifest-path", manifest];
    if !step("book: fetch mdBook", &fetch, &[])? {
        println!(
            "== book: SKIPPED, its crates cannot be fetched; pages and commands are tested without it"
        );
        return Ok(true);
    }
    let args = [
        "run",
        "--release",
        "--locked",
        "--quiet",
        "--manifest-path",
        manifest,
        "--target-dir",
        "target/book-builder",
        "--",
        "docs/book",
    ];
    let built = step("book: build", &args, &[])?;
    if built {
        println!("== book: target/book/index.html");
    }
    Ok(built)
}

/// README's first command: the first line of its code blocks that calls cargo, and what follows it
/// behind backslashes.
fn readme() -> Result<bool, String> {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap_or_default();
    let Some(command) = first_command(&text) else {
        println!("== README: no command");
        return Ok(false);
    };
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    step("README's first command", &words, &[])
}

fn first_command(text: &str) -> Option<String> {
    let blocks = text.split("```").skip(1).step_by(2);
    let joined: Vec<String> = blocks.map(|block| block.replace("\\\n", " ")).collect();
    let lines = joined.iter().flat_map(|block| block.lines());
    let mut commands = lines.map(|line| line.trim().trim_start_matches("$ "));
    let command = commands.find(|line| line.starts_with("cargo "))?;
    Some(command.split(" #").next().unwrap_or(command).to_string())
}

/// All that CI does.
pub(crate) fn ready() -> Result<bool, String> {
    let docs = [("RUSTDOCFLAGS", "-D warnings")];
    let mut good = step("format", &["fmt", "--all", "--check"], &[])?;
    let clippy = [
        "clippy",
        "--profile",
        PROFILE,
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
        &[
            "doc",
            "--profile",
            PROFILE,
            "--workspace",
            "--no-deps",
            "--quiet",
        ],
        &docs,
    )?;
    println!("== source rules");
    good &= crate::show_tidy()?;
    good &= readme()?;
    good &= test()?;
    Ok(good)
}

fn step(what: &str, args: &[&str], env: &[(&str, &str)]) -> Result<bool, String> {
    println!("== {what}: cargo {}", args.join(" "));
    let start = Instant::now();
    let status = Command::new(cargo())
        .args(args)
        .envs(env.iter().copied())
        .current_dir(root())
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    let seconds = start.elapsed().as_secs_f64();
    let end = match status.success() {
        true => "took",
        false => "FAILED after",
    };
    // On the other stream: the last line of the output is that of the last step.
    eprintln!("== {what}: {end} {seconds:.0} s");
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::first_command;

    #[test]
    fn the_first_command_of_a_page() {
        let page =
            "# x\ncargo no\n```sh\n# first\n$ cargo run \\\n  -p y # why\n```\n```\ncargo z\n```";
        assert_eq!(
            first_command(page).as_deref().map(str::trim),
            Some("cargo run    -p y")
        );
        assert_eq!(first_command("cargo run"), None);
    }
}
