//! The lit crate as the engine: it finds the files of a batch, runs their RUN lines by bash, and
//! keeps what came of each.
//!
//! A batch is a folder with a `.run` file per test, of one line `RUN: lit_line NUMBER; @name` per RUN
//! line. The names are lit's constants; their values are the command lines, with all
//! substitutions made, so that lit's own syntax never meets a character of a test: its parser panics
//! on `CHECK-LABEL:` and takes `@main` for a constant. `batch.json` holds the constants.
//!
//! lit runs one test after another and prints to standard output, and its events are of a type that
//! only the crate itself can name. So a batch is run by a process of its own, several at one time
//! (this program, told by an environment variable), nobody reads what it prints, and results come
//! from the artifacts that lit saves: `result.txt`, `stdout.txt` and `stderr.txt` of each line.
//!
//! What lit does not know is in `prelude.sh`, which bash reads before each line: the time limit
//! (where there is a program `timeout`), `pipefail`, `not`, `filecheck`, that a line ends at the first command that fails
//! (in loops too), and that no line runs after one that failed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::test::{Line, Outcome, Prepared, Status};

/// Names the batch to the process that runs it.
const BATCH: &str = "TIR_LIT_BATCH";
const PRELUDE: &str = include_str!("prelude.sh");

/// What a batch's process is told.
#[derive(Serialize, Deserialize)]
struct Batch {
    /// The command lines by name.
    constants: BTreeMap<String, String>,
    /// Where programs are looked for first.
    tool_dirs: Vec<PathBuf>,
}

/// Runs a batch of tests in a folder that may be overwritten.
pub(crate) fn run(config: &Config, folder: &Path, tests: &[Prepared]) -> Vec<Outcome> {
    let broken = |reason: String| -> Vec<Outcome> {
        let report = format!("  the test engine failed: {reason}\n");
        let failed = |t: &Prepared| Outcome::new(&t.name, Status::Failed, report.clone());
        tests.iter().map(failed).collect()
    };
    let folder = match write(config, folder, tests) {
        Ok(folder) => folder,
        Err(e) => return broken(format!("cannot write '{}': {e}", folder.display())),
    };
    let start = SystemTime::now();
    let worker = Command::new(&config.program)
        .env(BATCH, &folder)
        .env("BASH_ENV", folder.join("prelude.sh"))
        // lit looks the terminal up to colour what nobody sees.
        .env_remove("TERM")
        .env_remove("LIT_LIMITED")
        .current_dir(&config.root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output();
    let output = match worker {
        Ok(output) => output,
        Err(e) => return broken(format!("cannot start '{}': {e}", config.program.display())),
    };
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut ends = Vec::new();
    for (i, test) in tests.iter().enumerate() {
        let saved = folder.join(format!("saved/{i}.run"));
        let (status, report, end) = outcome(test, &saved).unwrap_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            let last: Vec<&str> = said.lines().rev().take(5).collect();
            let report = format!("  the test engine gave no result ({})\n", last.join(" | "));
            (Status::Failed, report, start)
        });
        outcomes.push(Outcome {
            killed: status == Status::Failed
                && (report.contains("=> exit code 124\n") || report.contains("=> exit code 137:")),
            ..Outcome::new(&test.name, status, report)
        });
        ends.push((end, i));
    }
    // One ran after the other, in an order of lit's.
    ends.sort();
    let mut before = start;
    for (end, i) in ends {
        let time = end.duration_since(before).unwrap_or_default();
        outcomes[i].seconds = time.as_secs_f64();
        before = before.max(end);
        let limit = config.timeout as f64;
        if outcomes[i].killed && outcomes[i].seconds >= limit {
            outcomes[i].status = Status::TimedOut;
            outcomes[i].report += &format!("    killed after {limit} s\n");
        }
    }
    outcomes
}

/// A constant's name: letters, which is all that lit allows.
fn name(test: usize, line: usize) -> String {
    let letters = |mut n: usize| {
        let mut text = String::new();
        loop {
            text.push(char::from(b'a' + (n % 26) as u8));
            n /= 26;
            if n == 0 {
                return text;
            }
        }
    };
    format!("{}_{}", letters(test), letters(line))
}

/// Writes the files of a batch; gives the folder as lit will name it.
fn write(config: &Config, folder: &Path, tests: &[Prepared]) -> std::io::Result<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder.join("tests"))?;
    let folder = folder.canonicalize()?;
    let mut batch = Batch {
        constants: BTreeMap::new(),
        tool_dirs: config.tool_dirs.clone(),
    };
    for (i, test) in tests.iter().enumerate() {
        let mut text = String::new();
        for (n, line) in test.lines.iter().enumerate() {
            let name = name(i, n);
            text += &format!("RUN: lit_line {i}; @{name}\n");
            batch.constants.insert(name, line.command.clone());
        }
        std::fs::write(folder.join(format!("tests/{i}.run")), text)?;
    }
    std::fs::write(folder.join("batch.json"), serde_json::to_vec(&batch)?)?;
    let value = |path: &Path| quote(&path.display().to_string());
    let prelude = format!(
        "LIMIT={}\nROOT={}\nFOLDER={}\nPROGRAM={}\n{PRELUDE}",
        config.timeout.max(1),
        value(&config.root),
        value(&folder),
        value(&config.program),
    );
    std::fs::write(folder.join("prelude.sh"), prelude)?;
    Ok(folder)
}

/// A word as bash needs it written.
pub(crate) fn quote(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.replace('\0', ""), |quoted| quoted.into_owned())
}

/// What lit saved of a test: its status, the report, and when it ended. None if nothing is there.
fn outcome(test: &Prepared, saved: &Path) -> Option<(Status, String, SystemTime)> {
    let single = test.lines.len() == 1;
    let mut end = SystemTime::UNIX_EPOCH;
    for (n, line) in test.lines.iter().enumerate() {
        let saved = match single {
            true => saved.to_path_buf(),
            false => saved.join(format!("run-command-{}", n + 1)),
        };
        let result = std::fs::read_to_string(saved.join("result.txt")).ok()?;
        let changed = std::fs::metadata(saved.join("result.txt")).and_then(|m| m.modified());
        end = end.max(changed.unwrap_or(end));
        if result.trim() != "Pass" {
            return Some((Status::Failed, report(line, &result, &saved), end));
        }
    }
    Some((Status::Passed, String::new(), end))
}

/// The exit code that lit's account of a run names.
pub(crate) fn exit_code(result: &str) -> Option<i32> {
    let (_, rest) = result.split_once("exit_status: ")?;
    let digits: String = rest.chars().take_while(|c| c.is_ascii_digit()).collect();
    digits.parse().ok()
}

fn report(line: &Line, result: &str, saved: &Path) -> String {
    let reason = match exit_code(result) {
        Some(101) => "panicked (exit code 101)".to_string(),
        Some(code) if code > 128 => format!("exit code {code}: killed by signal {}", code - 128),
        Some(code) => format!("exit code {code}"),
        None => result.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    let mut out = format!("{}  $ {}\n    => {reason}\n", line.head, line.command);
    for stream in ["stdout", "stderr"] {
        let text = std::fs::read_to_string(saved.join(format!("{stream}.txt")));
        let text = text.unwrap_or_default();
        if text.is_empty() {
            continue;
        }
        out += &format!("    {stream}:\n");
        let count = text.lines().count();
        for line in text.lines().take(MAX_LINES) {
            out += &format!("      {line}\n");
        }
        if count > MAX_LINES {
            out += &format!("      ... {} more lines\n", count - MAX_LINES);
        }
    }
    out
}

/// Lines shown of one stream in a report.
const MAX_LINES: usize = 200;

/// If this process runs a batch, does so and returns its exit code.
pub(crate) fn batch_main() -> Option<u8> {
    let folder = PathBuf::from(std::env::var_os(BATCH)?);
    let text = std::fs::read(folder.join("batch.json")).unwrap_or_default();
    let Ok(batch) = serde_json::from_slice::<Batch>(&text) else {
        return Some(2);
    };
    // Programs that tests start are not part of the batch.
    let result = lit::run::tests(lit::event_handler::Default::new(), |config| {
        config.add_extension("run");
        config.test_paths = vec![folder.join("tests")];
        config.constants = batch.constants.clone().into_iter().collect();
        config.save_artifacts_to_directory = Some(folder.join("saved"));
        config.extra_executable_search_paths = batch.tool_dirs.clone();
        config.shell = "bash".to_string();
        config.truncate_output_context_to_number_of_lines = Some(1);
    });
    Some(u8::from(result.is_err()))
}
