//! One test: its conditions, its RUN lines, its round trip, and the report when it fails.

use crate::config::Config;
use crate::exec::{Ran, Session, Verdict};
use crate::local::Local;
use crate::shell::{self, Pipeline};
use crate::subst::{self, Paths};
use crate::suite::Test;
use crate::test_file::TestFile;
use crate::{features, round_trip};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// Lines shown of one stream in a report.
const MAX_LINES: usize = 200;

/// What a test came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// All RUN lines succeeded.
    Passed,
    /// It failed, as XFAIL says it does.
    ExpectedFailure,
    /// A RUN line or the round trip failed, or the file cannot be understood.
    Failed,
    /// It passed although XFAIL says it fails.
    UnexpectedPass,
    /// It took longer than allowed.
    TimedOut,
    /// A REQUIRES does not hold, or an UNSUPPORTED does.
    Skipped,
}

impl Status {
    /// Counts as passed.
    pub fn is_pass(self) -> bool {
        matches!(self, Status::Passed | Status::ExpectedFailure)
    }

    /// Counts as failed.
    pub fn is_failure(self) -> bool {
        !self.is_pass() && self != Status::Skipped
    }

    /// In capitals, for listings.
    pub fn label(self) -> &'static str {
        match self {
            Status::Passed => "PASS",
            Status::ExpectedFailure => "XFAIL",
            Status::Failed => "FAIL",
            Status::UnexpectedPass => "XPASS",
            Status::TimedOut => "TIMEOUT",
            Status::Skipped => "SKIP",
        }
    }
}

/// A test's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The test's name: its path from the root.
    pub name: String,
    /// What it came to.
    pub status: Status,
    /// Wall time.
    pub seconds: f64,
    /// Why it failed or was skipped; ends in a line end unless empty.
    pub report: String,
}

impl Outcome {
    pub(crate) fn new(test: &Test, status: Status, report: String) -> Self {
        Outcome {
            name: test.name.clone(),
            status,
            seconds: 0.0,
            report,
        }
    }
}

/// Runs one test in this process.
pub fn run_test(config: &Config, test: &Test) -> Outcome {
    let start = Instant::now();
    let (status, report) = match evaluate(config, test, start) {
        Ok(result) => result,
        Err(message) => (Status::Failed, format!("  {message}\n")),
    };
    Outcome {
        seconds: start.elapsed().as_secs_f64(),
        ..Outcome::new(test, status, report)
    }
}

fn evaluate(config: &Config, test: &Test, start: Instant) -> Result<(Status, String), String> {
    let text = std::fs::read(&test.path).map_err(|e| format!("cannot read the file: {e}"))?;
    let file = TestFile::parse(&text)?;
    let has = |name: &str| config.features.contains(name) || config.find_program(name).is_some();
    for condition in &file.requires {
        if !features::holds(condition, &has)? {
            return Ok((Status::Skipped, format!("  requires {condition}\n")));
        }
    }
    for condition in &file.unsupported {
        if features::holds(condition, &has)? {
            return Ok((Status::Skipped, format!("  unsupported with {condition}\n")));
        }
    }
    let mut fails = false;
    for condition in &file.xfail {
        fails |= features::holds(condition, &has)?;
    }
    let result = run_lines(config, test, &file, start);
    Ok(match (result, fails) {
        ((Status::Failed, _), true) => (Status::ExpectedFailure, String::new()),
        ((Status::Passed, _), true) => (
            Status::UnexpectedPass,
            "  XFAIL holds, but the test passes\n".into(),
        ),
        (result, _) => result,
    })
}

fn run_lines(config: &Config, test: &Test, file: &TestFile, start: Instant) -> (Status, String) {
    let temp = config.temp.join(&test.name);
    if let Err(e) = fresh_dir(&temp) {
        return (
            Status::Failed,
            format!("  cannot make '{}': {e}\n", temp.display()),
        );
    }
    let paths = Paths {
        source: &test.path,
        temp: &temp,
    };
    let mut lines: Vec<Vec<Pipeline>> = Vec::new();
    for run in &file.runs {
        let parsed = subst::expand_names(&run.text, &config.substitutions)
            .and_then(|text| shell::parse(&text, &|w| subst::expand_word(w, &paths)));
        match parsed {
            Ok(pipelines) => lines.push(pipelines),
            Err(e) => {
                return (
                    Status::Failed,
                    format!("  RUN (line {}): {}\n  {e}\n", run.line, run.text),
                );
            }
        }
    }
    let deadline = start + config.time_limit();
    let mut session = Session {
        config,
        dir: config.root.clone(),
        deadline,
    };
    for (run, pipelines) in file.runs.iter().zip(&lines) {
        let head = format!("  RUN (line {}): {}\n", run.line, run.text);
        match session.run(pipelines) {
            Verdict::Passed => {}
            Verdict::Failed(commands) => return (Status::Failed, head + &report(&commands)),
            Verdict::TimedOut(commands) => return (Status::TimedOut, head + &report(&commands)),
        }
    }
    let local = match Local::of(config, &test.path) {
        Ok(local) => local,
        Err(e) => return (Status::Failed, format!("  {e}\n")),
    };
    let words = round_trip::command(config, &test.path, file, &lines, local.as_ref());
    let Some(words) = words else {
        return match lines.is_empty() {
            true => no_run_line(test, file),
            false => (Status::Passed, String::new()),
        };
    };
    let head = "  round trip: the file's text does not survive reading and printing\n".to_string();
    match round_trip::run(config, words, deadline) {
        Verdict::Passed => (Status::Passed, String::new()),
        Verdict::Failed(commands) => (Status::Failed, head + &report(&commands)),
        Verdict::TimedOut(commands) => (Status::TimedOut, head + &report(&commands)),
    }
}

/// A file that says nothing is a mistake, unless it is the input of other tests.
fn no_run_line(test: &Test, file: &TestFile) -> (Status, String) {
    if file.no_round_trip || test.name.split('/').any(|d| d == "Inputs") {
        return (Status::Skipped, "  no RUN line\n".into());
    }
    (
        Status::Failed,
        "  no RUN line, and no round trip to check\n".into(),
    )
}

fn fresh_dir(dir: &Path) -> std::io::Result<()> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    std::fs::create_dir_all(dir)
}

fn report(commands: &[Ran]) -> String {
    let mut out = String::new();
    for command in commands {
        let state = if command.ok {
            "ok"
        } else {
            command.reason.as_str()
        };
        out.push_str(&format!("  $ {}\n    => {state}\n", command.command));
        if command.ok {
            continue;
        }
        for (name, text) in [("stdout", &command.stdout), ("stderr", &command.stderr)] {
            if text.is_empty() {
                continue;
            }
            out.push_str(&format!("    {name}:\n"));
            let count = text.lines().count();
            for line in text.lines().take(MAX_LINES) {
                out.push_str(&format!("      {line}\n"));
            }
            if count > MAX_LINES {
                out.push_str(&format!("      ... {} more lines\n", count - MAX_LINES));
            }
        }
    }
    out
}
