//! Reproducers: one pass that failed, with its options and the IR it failed on, in one file.
//!
//! The file is a test that shows the failure: two comments, then the program.
//!
//! ```text
//! // RUN: tir-opt --run-reproducer %s
//! // configuration: '--pass-pipeline=func.func(tile{depth=3})' --verify-each=true
//! ```
//!
//! The second comment holds flags, quoted as for a shell. `--run-reproducer` takes the pipeline,
//! rules and verification from there, and all else from its own command line.

use std::ffi::OsString;

use tir::{Diagnostic, Loc};
use tir_pass::Pipeline;

use crate::Tool;
use crate::cli::{Options, command};
use crate::io::Input;

/// What the comment with the flags begins with.
const CONFIGURATION: &str = "// configuration:";

/// The comments at the head of a reproducer.
pub(crate) fn header(tool: &str, options: &Options, pipeline: &Pipeline) -> String {
    let mut flags = vec![
        format!("--pass-pipeline={pipeline}"),
        format!("--verify-each={}", options.verify_each),
    ];
    let lists = [
        ("--rules", &options.rule_files),
        ("--disable-rule", &options.disabled_rules),
        ("--rule-classes", &options.rule_classes),
        ("--fail-on", &options.fail_on),
    ];
    for (flag, values) in lists {
        flags.extend(values.iter().map(|value| format!("{flag}={value}")));
    }
    if options.allow_unregistered {
        flags.push("--allow-unregistered-dialect".to_string());
    }
    // A comment is one line; no pass has an option with a line end.
    let flags = flags.iter().map(|flag| flag.replace('\n', " "));
    let flags: Vec<String> = flags
        .map(|flag| shlex::try_quote(&flag).map_or(flag.clone(), |quoted| quoted.into_owned()))
        .collect();
    let flags = flags.join(" ");
    format!("// RUN: {tool} --run-reproducer %s\n{CONFIGURATION} {flags}\n\n")
}

/// The options of the command line, with those that a reproducer holds.
///
/// # Errors
/// The file holds no flags or wrong ones, or the command line has a pipeline too.
pub(crate) fn options(tool: &Tool, given: &Options, input: &Input) -> Result<Options, Diagnostic> {
    if !given.pipeline.is_empty() {
        let what = "--run-reproducer takes the pipeline from the file, not from the command line";
        return Err(Diagnostic::error(what));
    }
    let mut lines = input.text.lines().zip(1..);
    let found = lines.find_map(|(line, n)| Some((line.strip_prefix(CONFIGURATION)?, n)));
    let Some((text, line)) = found else {
        let what = format!("is no reproducer: it has no line `{CONFIGURATION} FLAGS`");
        return Err(Diagnostic::error(what).at(Loc::file(input.name, 1, 1)));
    };
    let wrong = |message: String| {
        let column = CONFIGURATION.len() as u32 + 2;
        Diagnostic::error(message).at(Loc::file(input.name, line, column))
    };
    let words = shlex::split(text).ok_or_else(|| wrong("a quote is not closed".to_string()))?;
    let name = std::iter::once(tool.name.to_string());
    let words = name.chain(words).map(OsString::from);
    let matches = command(tool).try_get_matches_from(words).map_err(|error| {
        let text = error.to_string();
        wrong(text.lines().next().unwrap_or("wrong flags").to_string())
    })?;
    let stored = Options::new(&matches, &tool.passes);
    Ok(Options {
        pipeline: stored.pipeline,
        rule_files: stored.rule_files,
        disabled_rules: stored.disabled_rules,
        rule_classes: stored.rule_classes,
        fail_on: stored.fail_on,
        verify_each: stored.verify_each,
        allow_unregistered: stored.allow_unregistered,
        ..given.clone()
    })
}
