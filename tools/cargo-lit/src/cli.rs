//! The command line of `cargo lit`.

use crate::config::{Command, Config};
use crate::suite::{discover, run_suite};
use crate::test::Outcome;
use crate::{build, engine};
use clap::Parser;
use regex::Regex;
use serde::Serialize;
use std::io::{Read, Write};
use std::path::PathBuf;

/// A line on standard output.
macro_rules! say {
    ($($arg:tt)*) => { say_part(&(format!($($arg)*) + "\n")) };
}

/// Runs lit test suites: files with RUN lines.
#[derive(Parser, Debug)]
#[command(name = "cargo lit", bin_name = "cargo lit", version)]
struct Cli {
    /// Test files and directories, relative to the workspace root (default: test).
    paths: Vec<PathBuf>,
    /// Number of tests to run in parallel (default: one per core).
    #[arg(short, long, value_name = "N")]
    jobs: Option<usize>,
    /// Run only tests whose name matches.
    #[arg(long, value_name = "REGEX")]
    filter: Option<String>,
    /// Print the result of every test.
    #[arg(short, long)]
    verbose: bool,
    /// Print the slowest tests.
    #[arg(long)]
    time: bool,
    /// Timeout of a RUN line in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Suffixes of test files, comma-separated.
    #[arg(
        long,
        value_name = "SUFFIX",
        value_delimiter = ',',
        default_value = "tir"
    )]
    suffix: Vec<String>,
    /// Define the substitution %{NAME}.
    #[arg(long, value_name = "NAME=VALUE")]
    subst: Vec<String>,
    /// Add a feature for REQUIRES, UNSUPPORTED and XFAIL.
    #[arg(long, value_name = "NAME")]
    feature: Vec<String>,
    /// Directory to search for programs first.
    #[arg(long, value_name = "DIR")]
    tools: Vec<PathBuf>,
    /// Root of test paths and working directory of commands (default: the workspace root).
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Do not build the programs that the tests use.
    #[arg(long)]
    no_build: bool,
    /// Do not check that test files round-trip through the parser and printer.
    #[arg(long)]
    no_round_trip: bool,
    /// List the tests without running them.
    #[arg(long)]
    list: bool,
}

/// The whole command: `args` with the program's name first. Returns the exit code: 0 when no test
/// failed, 1 when one did, 2 when the tests could not be run.
pub fn main(args: &[String]) -> u8 {
    if args.get(1).is_some_and(|flag| flag == "--filecheck") {
        return filecheck(&args[2..]);
    }
    if let Some(code) = engine::batch_main() {
        return code;
    }
    // As a subcommand of cargo the second argument is the subcommand's name.
    let skip =
        args.get(1).is_some_and(|a| a == "lit") && args.first().is_some_and(|a| is_cargo_lit(a));
    let args = args
        .iter()
        .enumerate()
        .filter(|(i, _)| !(skip && *i == 1))
        .map(|(_, a)| a);
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            // Nothing is left to do when the message cannot be shown.
            let _ = e.print();
            return if e.use_stderr() { 2 } else { 0 };
        }
    };
    match run(&cli) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("error: {message}");
            2
        }
    }
}

/// The program as `filecheck`.
fn filecheck(args: &[String]) -> u8 {
    let mut all: Vec<String> = tir_filecheck::env_options();
    all.extend_from_slice(args);
    let mut stdin = || {
        let mut text = Vec::new();
        std::io::stdin().lock().read_to_end(&mut text)?;
        Ok(text)
    };
    let outcome = tir_filecheck::run(&all, std::path::Path::new(""), &mut stdin);
    say_part(&outcome.stdout);
    eprint!("{}", outcome.stderr);
    outcome.code
}

fn is_cargo_lit(program: &str) -> bool {
    std::path::Path::new(program)
        .file_stem()
        .is_some_and(|s| s == "cargo-lit")
}

fn run(cli: &Cli) -> Result<u8, String> {
    let (config, profile) = config(cli)?;
    let paths = if cli.paths.is_empty() {
        vec![PathBuf::from("test")]
    } else {
        cli.paths.clone()
    };
    let mut tests = discover(&config, &paths)?;
    if let Some(filter) = &cli.filter {
        let filter = Regex::new(filter).map_err(|e| format!("--filter: {e}"))?;
        tests.retain(|t| filter.is_match(&t.name));
    }
    if cli.list {
        tests.iter().for_each(|t| say!("{}", t.name));
        return Ok(0);
    }
    if tests.is_empty() {
        return Err("no tests found".into());
    }
    if let Some(profile) = profile {
        build::build(&config, &config.root, &profile, &tests)?;
    }
    let outcomes = run_suite(&config, &tests, &mut |outcome| show(cli, outcome));
    if cli.time {
        let mut slow: Vec<&Outcome> = outcomes.iter().collect();
        slow.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        say!("slowest tests:");
        slow.iter()
            .take(20)
            .for_each(|o| say!("{:9.3} s  {}", o.seconds, o.name));
    }
    let count = |of: fn(&Outcome) -> bool| outcomes.iter().filter(|o| of(o)).count();
    let summary = Summary {
        passed: count(|o| o.status.is_pass()),
        failed: count(|o| o.status.is_failure()),
        skipped: count(|o| !o.status.is_pass() && !o.status.is_failure()),
        tests: &outcomes,
    };
    if let Some(path) = &cli.json {
        let text = serde_json::to_string_pretty(&summary).map_err(|e| e.to_string())?;
        std::fs::write(path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    }
    say!(
        "{} passed, {} failed, {} skipped",
        summary.passed,
        summary.failed,
        summary.skipped
    );
    Ok(u8::from(summary.failed > 0))
}

/// What `--json` writes.
#[derive(Serialize)]
struct Summary<'a> {
    passed: usize,
    failed: usize,
    skipped: usize,
    tests: &'a [Outcome],
}

/// Prints; a reader that has gone (`| head`) is no reason to stop.
fn say_part(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn show(cli: &Cli, outcome: &Outcome) {
    let failed = outcome.status.is_failure();
    if failed || cli.verbose {
        say!("{}: {}", outcome.status.label(), outcome.name);
        say_part(&outcome.report);
    }
    if failed {
        say_part("\n");
    }
}

/// The settings, and the folder of cargo's profile that tools are to be built in, if any.
fn config(cli: &Cli) -> Result<(Config, Option<PathBuf>), String> {
    let here = std::env::current_dir().map_err(|e| format!("no current directory: {e}"))?;
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let root = match &cli.root {
        Some(root) => here.join(root),
        None => build::workspace_root(&here).unwrap_or(here),
    };
    let mut config = Config::new(&root);
    config.tool_dirs = cli.tools.iter().map(|dir| root.join(dir)).collect();
    let mut profile = None;
    if let Some(dir) = program.parent() {
        // Tools that neither lie in this workspace nor were started by cargo are somebody else's.
        let ours = dir.starts_with(&root) || std::env::var_os("CARGO").is_some();
        if ours && !cli.no_build {
            profile = Some(dir.to_path_buf());
        }
        // Those of the workspace may lie elsewhere: this program may be that of another one.
        if ours && let (true, Some(profile)) = (is_profile(dir), dir.file_name()) {
            let own = build::target_dir(&root).join(profile);
            if own != dir {
                config.tool_dirs.push(own);
            }
        }
        config.tool_dirs.push(dir.to_path_buf());
        if let Some(target) = dir.parent().filter(|_| is_profile(dir)) {
            config.temp = target.join("lit");
        }
    }
    for pair in &cli.subst {
        let (name, value) = pair.split_once('=').ok_or("--subst needs NAME=VALUE")?;
        config
            .substitutions
            .insert(name.to_string(), value.to_string());
    }
    config.suffixes = cli
        .suffix
        .iter()
        .map(|s| s.trim_start_matches('.').to_string())
        .collect();
    config.features.extend(cli.feature.iter().cloned());
    config.timeout = cli.timeout;
    config.jobs = cli.jobs.unwrap_or(config.jobs).max(1);
    config.program = program;
    if !cli.no_round_trip {
        config.round_trip = Some(Command::new("tir-opt", &["--verify-roundtrip"]));
    }
    Ok((config, profile))
}

/// Is this the folder of one of cargo's profiles, `target/release` or the like?
fn is_profile(dir: &std::path::Path) -> bool {
    dir.join("deps").is_dir() && dir.join(".fingerprint").is_dir()
}
