//! The command line, LLVM's: single or double dash, values after `=` or as the next argument.

use crate::{DumpInput, Failure, FailureKind, Options, Source, check, render};
use clap::{CommandFactory, Parser};
use std::path::Path;

/// What a run leaves behind.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// 0 matched, 1 did not, 2 could not be tried.
    pub code: u8,
    /// For standard output.
    pub stdout: String,
    /// For standard error.
    pub stderr: String,
}

/// Pattern matching file verifier: matches an input against the CHECK lines of a file.
#[derive(Parser, Debug)]
#[command(
    name = "filecheck",
    disable_help_flag = true,
    args_override_self = true
)]
struct Cli {
    /// File with the CHECK lines.
    check_file: Option<String>,
    /// File to check; standard input when absent or `-`.
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    input_file: Option<String>,
    /// Prefixes of check directives, comma-separated (default CHECK).
    #[arg(
        long,
        visible_alias = "check-prefixes",
        value_name = "PREFIX",
        allow_hyphen_values = true
    )]
    check_prefix: Vec<String>,
    /// Prefixes of comment directives (default COM,RUN).
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    comment_prefixes: Vec<String>,
    /// Pattern that must not match between matches.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    implicit_check_not: Vec<String>,
    /// Define a variable: NAME=VALUE, or #NAME=EXPR.
    #[arg(short = 'D', value_name = "DEF", allow_hyphen_values = true)]
    define: Vec<String>,
    /// Require each match to cover its whole line, except surrounding whitespace.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, value_name = "BOOL",
        action = clap::ArgAction::Set, value_parser = boolean)]
    match_full_lines: bool,
    /// Do not treat all horizontal whitespace as equivalent.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, value_name = "BOOL",
        action = clap::ArgAction::Set, value_parser = boolean)]
    strict_whitespace: bool,
    /// Use case-insensitive matching.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, value_name = "BOOL",
        action = clap::ArgAction::Set, value_parser = boolean)]
    ignore_case: bool,
    /// Allow the input to be empty.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, value_name = "BOOL",
        action = clap::ArgAction::Set, value_parser = boolean)]
    allow_empty: bool,
    /// Allow prefixes to be specified but not used.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, value_name = "BOOL",
        action = clap::ArgAction::Set, value_parser = boolean)]
    allow_unused_prefixes: bool,
    /// Clear variables whose name does not start with `$` at each CHECK-LABEL.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, value_name = "BOOL",
        action = clap::ArgAction::Set, value_parser = boolean)]
    enable_var_scope: bool,
    /// Allow matches of a CHECK-DAG group to overlap.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, value_name = "BOOL",
        action = clap::ArgAction::Set, value_parser = boolean)]
    allow_deprecated_dag_overlap: bool,
    /// When to dump the input, annotated: help, always, fail or never.
    #[arg(long, value_name = "WHEN", default_value = "fail")]
    dump_input: Vec<String>,
    /// Number of input lines to show around an annotation.
    #[arg(long, value_name = "N", default_value_t = 5)]
    dump_input_context: usize,
    /// Input lines to dump: accepted, without effect.
    #[arg(long, value_name = "KIND", value_parser = ["all", "annotation-full", "annotation", "error"])]
    dump_input_filter: Option<String>,
    /// Use colors in output.
    #[arg(long)]
    color: bool,
    /// Print the successful matches.
    #[arg(short, long = "vv", visible_alias = "v")]
    verbose: bool,
    /// Show this help.
    #[arg(short, long)]
    help: bool,
    /// Show the version.
    #[arg(long)]
    version: bool,
}

/// A value of a flag as LLVM reads it.
fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "TRUE" | "True" | "1" => Ok(true),
        "false" | "FALSE" | "False" | "0" => Ok(false),
        _ => Err("expected true, false, 1 or 0".to_string()),
    }
}

/// Options from the environment variable `FILECHECK_OPTS`, to go before those of the command line.
pub fn env_options() -> Vec<String> {
    let value = std::env::var("FILECHECK_OPTS").unwrap_or_default();
    value.split_whitespace().map(ToString::to_string).collect()
}

/// Runs with `args` (without the program's name). Relative paths start at `dir`; `stdin` is called
/// at most once, when no input file is named.
pub fn run(
    args: &[String],
    dir: &Path,
    stdin: &mut dyn FnMut() -> std::io::Result<Vec<u8>>,
) -> Outcome {
    let error = |message: String| Outcome {
        code: 2,
        stderr: format!("{message}\n"),
        ..Outcome::default()
    };
    let cli = match Cli::try_parse_from(normalized(args)) {
        Ok(cli) => cli,
        Err(e) => {
            return Outcome {
                code: 1,
                stderr: e.to_string(),
                ..Outcome::default()
            };
        }
    };
    if cli.help {
        return Outcome {
            stdout: Cli::command().render_help().to_string(),
            ..Outcome::default()
        };
    }
    if cli.version {
        let stdout = format!("filecheck {}\n", env!("CARGO_PKG_VERSION"));
        return Outcome {
            stdout,
            ..Outcome::default()
        };
    }
    let dump_input = match dump_when(&cli.dump_input) {
        Ok(Some(when)) => when,
        Ok(None) => {
            return Outcome {
                stdout: DUMP_HELP.into(),
                ..Outcome::default()
            };
        }
        Err(message) => {
            return Outcome {
                code: 1,
                stderr: message,
                ..Outcome::default()
            };
        }
    };
    let Some(check_path) = &cli.check_file else {
        return error("<check-file> not specified".into());
    };
    let checks = match read(dir, check_path, stdin) {
        Ok(text) => text,
        Err(e) => {
            return error(format!(
                "error: could not open check file '{check_path}': {e}"
            ));
        }
    };
    let input_path = cli.input_file.as_deref().unwrap_or("-");
    let input = match read(dir, input_path, stdin) {
        Ok(text) => text,
        Err(e) => {
            return error(format!(
                "error: could not open input file '{input_path}': {e}"
            ));
        }
    };
    let options = cli.options(dump_input);
    let shown = |path: &str| {
        if path == "-" {
            "<stdin>".to_string()
        } else {
            path.to_string()
        }
    };
    let (check_name, input_name) = (shown(check_path), shown(input_path));
    let verdict = check(
        &options,
        Source::new(&check_name, &checks),
        Source::new(&input_name, &input),
    );
    let mut outcome = Outcome::default();
    match verdict {
        Ok(checked) => checked.matches.iter().for_each(|m| {
            outcome.stderr.push_str(m);
            outcome.stderr.push('\n');
        }),
        Err(Failure { kind, report, .. }) => {
            outcome.code = if kind == FailureKind::Mismatch { 1 } else { 2 };
            outcome.stderr.push_str(&report);
        }
    }
    if dump_input == DumpInput::Always && outcome.code < 2 {
        outcome.stderr.push_str(&render::dump(&input));
    }
    outcome
}

impl Cli {
    fn options(&self, dump_input: DumpInput) -> Options {
        let split = |list: &[String]| -> Vec<String> {
            list.iter()
                .flat_map(|p| p.split(','))
                .map(ToString::to_string)
                .collect()
        };
        Options {
            prefixes: split(&self.check_prefix),
            comment_prefixes: split(&self.comment_prefixes),
            implicit_not: self.implicit_check_not.clone(),
            defines: self.define.clone(),
            match_full_lines: self.match_full_lines,
            strict_whitespace: self.strict_whitespace,
            ignore_case: self.ignore_case,
            allow_empty: self.allow_empty,
            allow_unused_prefixes: self.allow_unused_prefixes,
            enable_var_scope: self.enable_var_scope,
            allow_dag_overlap: self.allow_deprecated_dag_overlap,
            verbose: self.verbose,
            dump_input,
            context: self.dump_input_context.min(1000),
            color: self.color,
        }
    }
}

/// The first in the order help, always, fail, never; `None` is help.
fn dump_when(values: &[String]) -> Result<Option<DumpInput>, String> {
    let known = ["help", "always", "fail", "never"];
    if let Some(odd) = values.iter().find(|v| !known.contains(&v.as_str())) {
        return Err(format!("error: unknown value '{odd}' for --dump-input\n"));
    }
    let has = |name: &str| values.iter().any(|v| v == name);
    Ok(match () {
        () if has("help") => None,
        () if has("always") => Some(DumpInput::Always),
        () if has("fail") => Some(DumpInput::Fail),
        () => Some(DumpInput::Never),
    })
}

const DUMP_HELP: &str = "\
On failure the report shows the directive, and the input from the place where
the scan for it started, with the line that most resembles it.
--dump-input=always adds the whole input, --dump-input=never leaves only the
marked lines, --dump-input-context=N sets how many lines follow the start.
";

/// LLVM's spelling made clap's: `-check-prefix=X` is `--check-prefix=X`; values are left alone.
fn normalized(args: &[String]) -> Vec<String> {
    let mut out = vec!["filecheck".to_string()];
    let mut value_next = false;
    for arg in args {
        let name = arg.trim_start_matches('-');
        let single = arg.starts_with('-') && !arg.starts_with("--") && name.len() > 1;
        if !value_next && single && !arg.starts_with("-D") {
            out.push(format!("-{arg}"));
        } else {
            out.push(arg.clone());
        }
        let takes =
            !value_next && arg.starts_with('-') && (arg == "-D" || TAKES_VALUE.contains(&name));
        value_next = takes;
    }
    out
}

const TAKES_VALUE: [&str; 8] = [
    "input-file",
    "check-prefix",
    "check-prefixes",
    "comment-prefixes",
    "implicit-check-not",
    "dump-input",
    "dump-input-context",
    "dump-input-filter",
];

fn read(
    dir: &Path,
    path: &str,
    stdin: &mut dyn FnMut() -> std::io::Result<Vec<u8>>,
) -> std::io::Result<Vec<u8>> {
    if path == "-" {
        stdin()
    } else {
        std::fs::read(dir.join(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Cli {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        Cli::try_parse_from(normalized(&args)).unwrap()
    }

    #[test]
    fn reads_both_spellings() {
        for dash in ["-", "--"] {
            let cli = parse(&[
                "f",
                &format!("{dash}check-prefixes=A,B"),
                &format!("{dash}check-prefix"),
                "C",
                &format!("{dash}implicit-check-not"),
                "-x",
                "-DX=-1",
                "-D",
                "Y=2",
                &format!("{dash}v"),
            ]);
            let options = cli.options(DumpInput::Fail);
            assert_eq!(options.prefixes, ["A", "B", "C"]);
            assert_eq!(options.implicit_not, ["-x"]);
            assert_eq!(options.defines, ["X=-1", "Y=2"]);
            assert!(options.verbose);
            assert_eq!(cli.check_file.as_deref(), Some("f"));
        }
    }

    #[test]
    fn refuses_unknown_options_and_missing_files() {
        let run = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            run(&args, Path::new(""), &mut || Ok(Vec::new())).code
        };
        assert_eq!(run(&["--bogus"]), 1);
        assert_eq!(run(&[]), 2);
        assert_eq!(run(&["/no/such/file"]), 2);
        assert_eq!(run(&["--dump-input=help"]), 0);
    }
}
