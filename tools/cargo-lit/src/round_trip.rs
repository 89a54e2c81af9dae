//! Which files are checked for the round trip, and the check.
//!
//! Every `.tir` file that a test is made of must survive reading and printing. Exempt are files
//! - that say `// NO-ROUNDTRIP`,
//! - whose RUN lines use `--split-input-file` or `--verify-diagnostics` (pieces may be invalid),
//! - that a RUN line gives to a command under `not`, and files marked XFAIL (the text may be invalid),
//! - that no RUN line gives to a reader: a stock tool, or one that `lit.local` names.

use std::path::Path;

use crate::config::Config;
use crate::engine::quote;
use crate::local::Local;
use crate::test_file::TestFile;
use crate::words::Command;

/// Programs that read a file, where no `lit.local` names others.
const STOCK: [&str; 3] = ["tir-opt", "tir-run", "tir-translate"];
/// A reader's option that the round trip needs as well.
const UNREGISTERED: &str = "allow-unregistered-dialect";

/// The command line of the check, or none when the file is exempt. `commands` are those of the RUN
/// lines with substitutions made, `local` is what the file's folder says.
pub(crate) fn command(
    config: &Config,
    source: &Path,
    file: &TestFile,
    commands: &[Command],
    local: Option<&Local>,
) -> Option<String> {
    let check = config.round_trip.as_ref()?;
    // Without the stock tools nothing can be said; what a folder names must be there.
    if local.is_none() && config.find_program(&check.program).is_none() {
        return None;
    }
    let readers = local.map_or(STOCK.map(String::from).to_vec(), |l| l.readers.clone());
    let is_tir = source.extension().is_some_and(|e| e == "tir");
    if !is_tir || file.no_round_trip || !file.xfail.is_empty() {
        return None;
    }
    let path = source.display().to_string();
    let option = |name: &str| {
        let mut words = commands.iter().flat_map(|c| &c.words);
        words.any(|word| is_option(word, name))
    };
    if option("split-input-file") || option("verify-diagnostics") {
        return None;
    }
    let mut read = commands.is_empty();
    for command in commands.iter().filter(|c| c.mentions(&path)) {
        if command.negated {
            return None;
        }
        read |= readers.iter().any(|reader| reader == command.program());
    }
    if !read {
        return None;
    }
    let checker = local.and_then(|l| l.readers.first());
    let mut words = vec![checker.unwrap_or(&check.program).clone()];
    words.extend(check.args.iter().cloned());
    if option(UNREGISTERED) {
        words.push(format!("--{UNREGISTERED}"));
    }
    words.push(path);
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    Some(words.join(" "))
}

fn is_option(word: &str, name: &str) -> bool {
    let body = word.trim_start_matches('-');
    word.starts_with('-')
        && (body == name || body.strip_prefix(name).is_some_and(|r| r.starts_with('=')))
}
