//! The flags of the tool, and one flag for every pass.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, RangedU64ValueParser, StyledStr};
use clap::{Arg, ArgAction, Command, value_parser};
use tir_pass::{PassInfo, PassRegistry};

use crate::Tool;
use crate::list::sentence;

/// Defaults of limits.
const MAX_DEPTH: &str = "200";
const MAX_BYTES: &str = "1073741824";
const CHECK_INSTANCES: &str = "64";
const CHECK_TRIES: &str = "30000";
const CHECK_SEED: &str = "1";

const INPUT: &str = "Input and output";
const CHECKS: &str = "Verification";
const PRINTING: &str = "Printing";
const RUNNING: &str = "Pass manager";
const LIMITS: &str = "Limits";
const LISTS: &str = "Listings";
const RULES: &str = "Testing rewrite rules";
const PASSES: &str = "Passes, run in the order given";
const PIPELINES: &str = "Pass pipelines, run in the order given";

/// The command line of a tool.
pub fn command(tool: &Tool) -> Command {
    let command = Command::new(tool.name)
        .about(tool.about)
        .disable_version_flag(true)
        .max_term_width(100)
        .after_help(
            "Limits of a pass, such as its number of rewrites, are options of the pass.\n\
             Exit code: 0 on success, 1 if the input is invalid or a pass failed,\n\
             2 on a wrong command line.\n",
        )
        .next_help_heading(INPUT)
        .arg(
            Arg::new("input")
                .default_value("-")
                .help("Input file; - is standard input"),
        )
        .arg(
            option(
                "output",
                "FILE",
                "Output file; written only on success",
            )
            .short('o')
            .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            option(
                "weights-out",
                "FILE",
                "File for new large constants; if it is not given, the .safetensors of the output file's name",
            )
            .value_parser(value_parser!(PathBuf)),
        )
        .arg(flag(
            "split-input-file",
            "Split the input at lines `// -----` and process each chunk independently",
        ))
        .arg(flag(
            "allow-unregistered-dialect",
            "Allow ops, types and attributes of dialects that are not loaded",
        ))
        .next_help_heading(CHECKS)
        .arg(flag(
            "verify-diagnostics",
            "Check that emitted diagnostics match comments `// expected-error@+1 {{text}}`",
        ))
        .arg(flag(
            "remarks",
            "Print all remarks, also what is usual: operators that no unit computes, transfers that \
             become several, units and spaces that are not used",
        ))
        .arg(
            option(
                "fail-on",
                "REMARK",
                "Make remarks and warnings of these categories errors",
            )
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(clap::builder::PossibleValuesParser::new(tir::remarks::ALL)),
        )
        .arg(flag(
            "verify-roundtrip",
            "Check that the printed IR parses to an equal program, in pretty and generic form",
        ))
        .arg(
            option("verify-each", "BOOL", "Run the verifier after each pass")
                .value_parser(PossibleValuesParser::new(["true", "false"]))
                .default_value("true"),
        )
        .next_help_heading(PRINTING)
        .arg(
            flag("print-op-generic", "Print ops in generic form")
                .alias("mlir-print-op-generic"),
        )
        .arg(
            flag("print-locations", "Print locations of ops").alias("mlir-print-debuginfo"),
        )
        .arg(
            option(
                "elide-constants",
                "N",
                "Elide the elements of constants with more than N elements; the result does not parse",
            )
            .value_parser(value_parser!(usize))
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("16")
            .alias("mlir-elide-elementsattrs-if-larger"),
        )
        .arg(
            option(
                "line-width",
                "N",
                "Columns of a line: longer lists are broken, except in generic form",
            )
            .value_parser(value_parser!(usize))
            .default_value("100"),
        )
        .arg(mlir("mlir-print-ir-before-all", flag("print-ir-before-all",
            "Print the IR before each pass, to standard error",
        )))
        .arg(
            mlir("mlir-print-ir-before", option("print-ir-before",
                "PASS,…",
                "Print the IR before these passes",
            ))
            .action(ArgAction::Append)
            .value_delimiter(','),
        )
        .arg(mlir("mlir-print-ir-after-all", flag("print-ir-after-all",
            "Print the IR after each pass, to standard error",
        )))
        .arg(mlir("mlir-print-ir-after-change", flag("print-ir-after-change",
            "Print the IR after each pass that changed it",
        )))
        .arg(
            mlir("mlir-print-ir-after", option("print-ir-after",
                "PASS,…",
                "Print the IR after these passes",
            ))
            .action(ArgAction::Append)
            .value_delimiter(','),
        )
        .arg(mlir("mlir-print-ir-after-failure", flag("print-ir-after-failure",
            "If a pass fails, print the IR it was given and the IR it left",
        )))
        .arg(mlir("mlir-print-ir-module-scope", flag("print-ir-module-scope",
            "Always print the top-level op, not the op that the pass runs on",
        )))
        .arg(
            mlir("mlir-print-ir-tree-dir", option("print-ir-tree-dir",
                "DIR",
                "Print the IR to a tree of files, one per op and pass; alone: after all passes",
            ))
            .value_parser(value_parser!(PathBuf)),
        )
        .next_help_heading(RUNNING)
        .arg(
            option(
                "pass-pipeline",
                "TEXT",
                "Pipeline to run: builtin.module(canonicalize,func.func(cse,tile{depth=2}))",
            )
            .action(ArgAction::Append),
        )
        .arg(flag(
            "dump-pass-pipeline",
            "Print the pipeline that will be run, pass pipelines expanded, to standard error",
        ))
        .arg(
            option(
                "disable-rule",
                "NAME,…",
                "Disable rewrite rules and patterns by name",
            )
            .action(ArgAction::Append)
            .value_delimiter(','),
        )
        .arg(
            option(
                "rule-classes",
                "CLASS,…",
                "Classes of rewrite rules to use: exact, nnan_nsz, reassoc, contract; default all. \
                 With `exact` alone floats keep every bit",
            )
            .action(ArgAction::Append)
            .value_delimiter(',')
            .value_parser(tir::Class::ALL.map(tir::Class::keyword)),
        )
        .arg(
            option(
                "rules",
                "FILE,…",
                "Load rewrite rules from these files, for every pass that uses rules",
            )
            .action(ArgAction::Append)
            .value_delimiter(','),
        )
        .arg(
            option(
                "threads",
                "N",
                "Number of threads; 0: one per core. The result does not depend on it",
            )
            .value_parser(value_parser!(usize))
            .default_value("0"),
        )
        .arg(mlir("mlir-timing", flag(
            "timing",
            "Print the execution time of each pass, to standard error",
        )))
        .arg(mlir("mlir-pass-statistics", flag(
            "statistics",
            "Print the statistics of each pass, to standard error",
        )))
        .arg(
            option(
                "emit-reproducer",
                "FILE",
                "If a pass fails, write this pass and its input, for --run-reproducer",
            )
            .alias("mlir-pass-pipeline-crash-reproducer")
            .value_parser(value_parser!(PathBuf)),
        )
        .arg(flag(
            "run-reproducer",
            "Run the pipeline stored in the input, a file of --emit-reproducer",
        ))
        .next_help_heading(LIMITS)
        .arg(
            option("max-depth", "N", "Maximum nesting depth of the input")
                .value_parser(value_parser!(usize))
                .default_value(MAX_DEPTH),
        )
        .arg(
            option("max-bytes", "N", "Maximum size of the input in bytes")
                .value_parser(value_parser!(u64))
                .default_value(MAX_BYTES),
        )
        .next_help_heading(LISTS)
        .arg(flag(
            "list-passes",
            "List passes and pipelines with their options",
        ))
        .arg(
            option(
                "list-dialects",
                "DIALECT",
                "List dialects with their ops, types and attributes; with a name: print its reference page",
            )
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value(""),
        )
        .arg(flag("show-dialects", "List the names of the loaded dialects"))
        .arg(flag(
            "list-rules",
            "List all rewrite rules, including those of --rules, as a rule file",
        ));
    let command = crate::egraph::flags(check_rules(command));
    pass_flags(command, &tool.passes)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .help(help)
        .action(ArgAction::SetTrue)
}

/// An option that mlir-opt has too, as `--mlir-…`.
fn mlir(alias: &'static str, arg: Arg) -> Arg {
    arg.alias(alias)
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).value_name(value)
}

/// The flags of `--check-rules`.
fn check_rules(command: Command) -> Command {
    let number = |name, value, help, default: &'static str| {
        option(name, value, help)
            .requires("check-rules")
            .default_value(default)
    };
    command
        .next_help_heading(RULES)
        .arg(
            option(
                "check-rules",
                "FILE,…",
                "Test all rewrite rules, including those of --rules (with files: only theirs), on \
                 random instances; exit code 1 if a rule is wrong or untested",
            )
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("")
            .value_delimiter(','),
        )
        .arg(
            option("check-only", "NAME,…", "Test only these rules")
                .requires("check-rules")
                .action(ArgAction::Append)
                .value_delimiter(','),
        )
        .arg(
            option(
                "check-type",
                "TYPE",
                "Additional element type of random instances, such as a type of a plugin dialect",
            )
            .requires("check-rules")
            .action(ArgAction::Append),
        )
        .arg(flag("json", "Print the results as JSON").requires("check-rules"))
        .arg(
            number(
                "check-instances",
                "N",
                "Number of instances per rule; eight at least for each choice of its variables for ops",
                CHECK_INSTANCES,
            )
            .value_parser(RangedU64ValueParser::<usize>::new().range(1..)),
        )
        .arg(
            number(
                "check-tries",
                "N",
                "Maximum number of attempts to generate instances, per rule",
                CHECK_TRIES,
            )
            .value_parser(RangedU64ValueParser::<usize>::new().range(1..)),
        )
        .arg(number("check-seed", "N", "Random seed", CHECK_SEED).value_parser(value_parser!(u64)))
}

/// A flag `--NAME[=OPTIONS]` for every pass and alias.
fn pass_flags(mut command: Command, passes: &PassRegistry) -> Command {
    for (aliases, heading) in [(true, PIPELINES), (false, PASSES)] {
        for info in passes.iter().filter(|info| info.is_alias == aliases) {
            // A flag of the tool keeps its meaning; the pass can still be named in a pipeline.
            if command
                .get_arguments()
                .any(|arg| arg.get_long() == Some(info.name))
            {
                continue;
            }
            let mut arg = Arg::new(info.name)
                .long(info.name)
                .help(help(info))
                .help_heading(heading)
                .action(ArgAction::Append)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("")
                .value_name("OPTIONS");
            if info.options.is_empty() {
                arg = arg.hide_possible_values(true);
            }
            command = command.arg(arg);
        }
    }
    command
}

/// The sentence of a pass, and a line for each option.
fn help(info: &PassInfo) -> StyledStr {
    let mut text = sentence(info.doc);
    for option in info.options {
        text += &format!(
            "\n  {}={}: {}",
            option.name(),
            (option.default)(),
            sentence(option.doc)
        );
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_checker() {
        let defaults = tir_rulecheck::Options::default();
        assert_eq!(CHECK_INSTANCES, defaults.instances.to_string());
        assert_eq!(CHECK_TRIES, defaults.tries.to_string());
        assert_eq!(CHECK_SEED, defaults.seed.to_string());
    }
}
