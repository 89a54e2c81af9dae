//! The command line: what its flags ask for. The flags are `flags`.

mod flags;

pub use flags::command;

use std::path::PathBuf;

use clap::ArgMatches;
use tir_pass::{PassRegistry, PrintIr};

use crate::CheckRules;

/// What the command line asks for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The input; `-` is standard input.
    pub input: String,
    /// The output; none or `-` is standard output.
    pub output: Option<PathBuf>,
    /// The pipeline: `--pass-pipeline` and the flags of passes, in the order given.
    pub pipeline: String,
    /// Whether the input is cut at `// -----`.
    pub split_input_file: bool,
    /// Whether comments say what is expected to be reported.
    pub verify_diagnostics: bool,
    /// Whether passes say all that they have to remark.
    pub remarks: bool,
    /// Categories of remarks and warnings that are errors.
    pub fail_on: Vec<String>,
    /// Whether ops of dialects that are not loaded are read.
    pub allow_unregistered: bool,
    /// Whether IR is printed in generic form.
    pub generic: bool,
    /// Whether locations are printed.
    pub locations: bool,
    /// Constants with more elements than this are printed without them.
    pub elide_constants: Option<usize>,
    /// Columns of a line of what is printed.
    pub line_width: usize,
    /// Around which passes the IR is printed.
    pub print: PrintIr,
    /// The folder for IR printed around passes; none is standard error.
    pub print_folder: Option<PathBuf>,
    /// Whether the pipeline is printed.
    pub dump_pipeline: bool,
    /// Whether the pipeline is that of the input, a reproducer.
    pub run_reproducer: bool,
    /// Whether the IR is verified after each pass.
    pub verify_each: bool,
    /// Whether reading and printing are checked against each other.
    pub verify_roundtrip: bool,
    /// Whether times are printed.
    pub timing: bool,
    /// Whether statistics of passes are printed.
    pub statistics: bool,
    /// Threads; 0 for one per core.
    pub threads: usize,
    /// Rules and patterns that are left out.
    pub disabled_rules: Vec<String>,
    /// Classes of the rules that may fire; none for all.
    pub rule_classes: Vec<String>,
    /// Files with further rules.
    pub rule_files: Vec<String>,
    /// Deepest nesting that is read.
    pub max_depth: usize,
    /// Most bytes that are read.
    pub max_bytes: u64,
    /// Where constants go, if not beside the program.
    pub weights_out: Option<PathBuf>,
    /// Where a failing pass goes, with its input.
    pub reproducer: Option<PathBuf>,
    /// Options that flags set of every `egraph` in the pipeline.
    pub egraph: Vec<(&'static str, String)>,
    /// What is listed instead of reading anything.
    pub list: Option<List>,
}

/// What `--list-…` asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum List {
    /// Passes with their options.
    Passes,
    /// All dialects.
    Dialects,
    /// The reference page of one dialect.
    Dialect(String),
    /// Names of dialects.
    DialectNames,
    /// All rules, as a file of rules.
    Rules,
    /// What a test of rules says.
    CheckRules(CheckRules),
}

impl Options {
    /// Reads what clap found.
    pub fn new(matches: &ArgMatches, passes: &PassRegistry) -> Self {
        let text = |name: &str| matches.get_one::<String>(name).cloned();
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let number = |name: &str| matches.get_one::<usize>(name).copied().unwrap_or_default();
        Self {
            input: text("input").unwrap_or_default(),
            output: path("output").filter(|path| path.as_os_str() != "-"),
            pipeline: pipeline(matches, passes),
            split_input_file: matches.get_flag("split-input-file"),
            verify_diagnostics: matches.get_flag("verify-diagnostics"),
            remarks: matches.get_flag("remarks"),
            fail_on: texts(matches, "fail-on"),
            allow_unregistered: matches.get_flag("allow-unregistered-dialect"),
            generic: matches.get_flag("print-op-generic"),
            locations: matches.get_flag("print-locations"),
            elide_constants: matches.get_one::<usize>("elide-constants").copied(),
            line_width: number("line-width"),
            print: print_ir(matches),
            print_folder: path("print-ir-tree-dir"),
            dump_pipeline: matches.get_flag("dump-pass-pipeline"),
            run_reproducer: matches.get_flag("run-reproducer"),
            verify_each: text("verify-each").is_none_or(|value| value == "true"),
            verify_roundtrip: matches.get_flag("verify-roundtrip"),
            timing: matches.get_flag("timing"),
            statistics: matches.get_flag("statistics"),
            threads: number("threads"),
            disabled_rules: texts(matches, "disable-rule"),
            rule_classes: texts(matches, "rule-classes"),
            rule_files: texts(matches, "rules"),
            max_depth: number("max-depth"),
            max_bytes: matches
                .get_one::<u64>("max-bytes")
                .copied()
                .unwrap_or_default(),
            weights_out: path("weights-out"),
            reproducer: path("emit-reproducer"),
            egraph: crate::egraph::options(matches),
            list: list(matches),
        }
    }
}

/// All values of a flag.
fn texts(matches: &ArgMatches, name: &str) -> Vec<String> {
    let values = matches.get_many::<String>(name);
    values.into_iter().flatten().cloned().collect()
}

fn print_ir(matches: &ArgMatches) -> PrintIr {
    let names = |flag: &str| texts(matches, flag).into_iter().collect();
    let mut print = PrintIr {
        before_all: matches.get_flag("print-ir-before-all"),
        before: names("print-ir-before"),
        after_all: matches.get_flag("print-ir-after-all"),
        after_change: matches.get_flag("print-ir-after-change"),
        after: names("print-ir-after"),
        after_failure: matches.get_flag("print-ir-after-failure"),
        module_scope: matches.get_flag("print-ir-module-scope"),
    };
    let folder = matches.contains_id("print-ir-tree-dir");
    print.after_all |= folder && !print.is_any();
    print
}

fn list(matches: &ArgMatches) -> Option<List> {
    if let Some(files) = matches.get_many::<String>("check-rules") {
        let number = |name: &str| matches.get_one::<usize>(name).copied().unwrap_or_default();
        return Some(List::CheckRules(CheckRules {
            files: files.filter(|file| !file.is_empty()).cloned().collect(),
            only: texts(matches, "check-only"),
            types: texts(matches, "check-type"),
            json: matches.get_flag("json"),
            instances: number("check-instances"),
            tries: number("check-tries"),
            seed: matches.get_one("check-seed").copied().unwrap_or_default(),
        }));
    }
    if matches.get_flag("list-passes") {
        return Some(List::Passes);
    }
    if matches.get_flag("list-rules") {
        return Some(List::Rules);
    }
    if matches.get_flag("show-dialects") {
        return Some(List::DialectNames);
    }
    match matches.get_one::<String>("list-dialects")?.as_str() {
        "" => Some(List::Dialects),
        name => Some(List::Dialect(name.to_string())),
    }
}

/// One text for all that is to run, so that errors in it have one source.
fn pipeline(matches: &ArgMatches, passes: &PassRegistry) -> String {
    let mut parts: Vec<(usize, String)> = Vec::new();
    let mut add = |name: &str, to_text: &dyn Fn(&str) -> String| {
        let Ok(Some(values)) = matches.try_get_many::<String>(name) else {
            return;
        };
        let places = matches.indices_of(name).into_iter().flatten();
        parts.extend(
            places
                .zip(values)
                .map(|(place, value)| (place, to_text(value))),
        );
    };
    add("pass-pipeline", &str::to_string);
    for info in passes.iter() {
        add(info.name, &|options| {
            PassRegistry::flag_text(info.name, Some(options).filter(|o| !o.is_empty()))
        });
    }
    parts.sort();
    let parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    parts
        .iter()
        .map(|text| text.trim())
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join(",")
}
