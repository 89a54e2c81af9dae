//! Which files are checked for the round trip, and the check.
//!
//! Every `.tir` file that a test is made of must survive reading and printing. Exempt are files
//! - that say `// NO-ROUNDTRIP`,
//! - whose RUN lines use `--split-input-file` or `--verify-diagnostics` (pieces may be invalid),
//! - that a RUN line gives to a command under `not`, and files marked XFAIL (the text may be invalid),
//! - that no RUN line gives to a reader: a stock tool, or one that `lit.local` names.

use crate::config::Config;
use crate::exec::{self, Verdict};
use crate::local::Local;
use crate::shell::{Part, Pipeline, Redirect};
use crate::test_file::TestFile;
use std::path::Path;
use std::time::Instant;

/// Programs that read a file, where no `lit.local` names others.
const STOCK: [&str; 3] = ["tir-opt", "tir-run", "tir-translate"];
/// A reader's option that the round trip needs as well.
const UNREGISTERED: &str = "allow-unregistered-dialect";

/// The command line of the check, or none when the file is exempt. `lines` are the RUN lines with
/// substitutions made, `local` is what the file's folder says.
pub(crate) fn command(
    config: &Config,
    source: &Path,
    file: &TestFile,
    lines: &[Vec<Pipeline>],
    local: Option<&Local>,
) -> Option<Vec<String>> {
    let check = config.round_trip.as_ref()?;
    // Without the stock tools nothing can be said; what a folder names must be there.
    if local.is_none() && config.find_program(&check.program).is_none() {
        return None;
    }
    let readers = local.map_or(STOCK.map(String::from).to_vec(), |l| l.readers.clone());
    let is_reader = |program: &str| {
        let name = program.rsplit('/').next().unwrap_or(program);
        readers.iter().any(|reader| reader == name)
    };
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
    let read_by: Vec<&&Part> = parts
        .iter()
        .filter(|p| reads(p, &path) && program(p).is_some_and(is_reader))
        .collect();
    if negated || read_by.iter().any(|p| p.words[0] == "not") {
        return None;
    }
    if !lines.is_empty() && read_by.is_empty() {
        return None;
    }
    let checker = local.and_then(|l| l.readers.first());
    let mut words = vec![checker.unwrap_or(&check.program).clone()];
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
