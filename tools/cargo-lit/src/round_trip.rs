//! Which files are checked for the round trip, and the check.
//!
//! Every `.tir` file that a test is made of must survive reading and printing. Exempt are files
//! - that say `// NO-ROUNDTRIP`,
//! - whose RUN lines use `--split-input-file` or `--verify-diagnostics` (pieces may be invalid),
//! - that a RUN line gives to a command under `not`, and files marked XFAIL (the text may be invalid),
//! - that no RUN line gives to a stock tool (a driver of another dialect list reads them).

use crate::config::Config;
use crate::exec::{self, Verdict};
use crate::shell::{Part, Pipeline, Redirect};
use crate::test_file::TestFile;
use std::path::Path;
use std::time::Instant;

/// Programs that read the dialects the round trip knows.
const STOCK: [&str; 3] = ["tir-opt", "tir-run", "tir-translate"];
/// A reader's option that the round trip needs as well.
const UNREGISTERED: &str = "allow-unregistered-dialect";

/// The command line of the check, or none when the file is exempt. `lines` are the RUN lines with
/// substitutions made.
pub(crate) fn command(
    config: &Config,
    source: &Path,
    file: &TestFile,
    lines: &[Vec<Pipeline>],
) -> Option<Vec<String>> {
    let check = config.round_trip.as_ref()?;
    let is_tir = source.extension().is_some_and(|e| e == "tir");
    if !is_tir || file.no_round_trip || !file.xfail.is_empty() {
        return None;
    }
    let path = source.display().to_string();
    let parts: Vec<&Part> = lines.iter().flatten().flat_map(|l| &l.parts).collect();
    let option = |name: &str| {
        parts
            .iter()
            .any(|p| p.words.iter().any(|w| is_option(w, name)))
    };
    if option("split-input-file") || option("verify-diagnostics") {
        return None;
    }
    let negated = lines
        .iter()
        .flatten()
        .any(|l| l.negated && l.parts.iter().any(|p| reads(p, &path)));
    let readers: Vec<&&Part> = parts.iter().filter(|p| reads(p, &path)).collect();
    if negated
        || readers
            .iter()
            .any(|p| p.words[0] == "not" && program(p).is_some_and(is_stock))
    {
        return None;
    }
    if !lines.is_empty() && !readers.iter().any(|p| program(p).is_some_and(is_stock)) {
        return None;
    }
    let mut words = vec![check.program.clone()];
    words.extend(check.args.iter().cloned());
    if option(UNREGISTERED) {
        words.push(format!("--{UNREGISTERED}"));
    }
    words.push(path);
    Some(words)
}

/// Runs the check.
pub(crate) fn run(config: &Config, words: Vec<String>, deadline: Instant) -> Verdict {
    exec::run_program(config, words, &config.root, deadline)
}

fn is_option(word: &str, name: &str) -> bool {
    let body = word.trim_start_matches('-');
    word.starts_with('-')
        && (body == name || body.strip_prefix(name).is_some_and(|r| r.starts_with('=')))
}

fn is_stock(program: &str) -> bool {
    STOCK.contains(&program.rsplit('/').next().unwrap_or(program))
}

/// The program of a command, `not`s aside.
fn program(part: &Part) -> Option<&str> {
    part.words
        .iter()
        .map(String::as_str)
        .find(|w| *w != "not" && *w != "--crash")
}

fn reads(part: &Part, path: &str) -> bool {
    part.words.iter().skip(1).any(|w| w == path)
        || part
            .redirects
            .iter()
            .any(|r| matches!(r, Redirect::In(p) if p == path))
}
