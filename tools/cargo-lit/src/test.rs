//! One test: its conditions, its command lines with substitutions made, and its result.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::local::Local;
use crate::subst::{self, Paths};
use crate::suite::Test;
use crate::test_file::TestFile;
use crate::words::{self, Command};
use crate::{features, round_trip};

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
    /// Whether a line ended as one that is stopped at the time limit does.
    #[serde(skip)]
    pub(crate) killed: bool,
}

impl Outcome {
    pub(crate) fn new(name: &str, status: Status, report: String) -> Self {
        Outcome {
            name: name.to_string(),
            status,
            seconds: 0.0,
            report,
            killed: false,
        }
    }

    /// The result under XFAIL.
    pub(crate) fn expecting_failure(mut self) -> Self {
        match self.status {
            Status::Failed => {
                self.status = Status::ExpectedFailure;
                self.report.clear();
            }
            Status::Passed => {
                self.status = Status::UnexpectedPass;
                self.report = "  XFAIL holds, but the test passes\n".into();
            }
            _ => {}
        }
        self
    }
}

/// A command line of a test.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// What a report says first.
    pub(crate) head: String,
    /// The text for the shell.
    pub(crate) command: String,
}

/// A test that is to be run.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// The test's name.
    pub(crate) name: String,
    /// Its lines, at least one.
    pub(crate) lines: Vec<Line>,
    /// Whether XFAIL says that it fails.
    pub(crate) fails: bool,
}

/// What is to be run of a test, or its result if nothing is.
pub(crate) fn prepare(config: &Config, test: &Test) -> Result<Prepared, Outcome> {
    let outcome = |(status, report)| Outcome::new(&test.name, status, report);
    let (lines, fails) = lines(config, test).map_err(outcome)?;
    if let Err(e) = fresh_dir(&config.temp.join(&test.name)) {
        let report = format!("  cannot make a folder for temporary files: {e}\n");
        return Err(outcome((Status::Failed, report)));
    }
    Ok(Prepared {
        name: test.name.clone(),
        lines,
        fails,
    })
}

type Ended = (Status, String);

/// The lines of a test, and whether it is expected to fail.
fn lines(config: &Config, test: &Test) -> Result<(Vec<Line>, bool), Ended> {
    let failed = |message: String| (Status::Failed, format!("  {message}\n"));
    let text = std::fs::read(&test.path);
    let text = text.map_err(|e| failed(format!("cannot read the file: {e}")))?;
    let file = TestFile::parse(&text).map_err(failed)?;
    let has = |name: &str| config.features.contains(name) || config.find_program(name).is_some();
    let holds = |condition: &String| features::holds(condition, &has).map_err(failed);
    for condition in &file.requires {
        if !holds(condition)? {
            return Err((Status::Skipped, format!("  requires {condition}\n")));
        }
    }
    for condition in &file.unsupported {
        if holds(condition)? {
            return Err((Status::Skipped, format!("  unsupported with {condition}\n")));
        }
    }
    let mut fails = false;
    for condition in &file.xfail {
        fails |= holds(condition)?;
    }
    let temp = config.temp.join(&test.name);
    let paths = Paths {
        source: &test.path,
        temp: &temp,
    };
    let mut lines = Vec::new();
    let mut commands: Vec<Command> = Vec::new();
    for run in &file.runs {
        let head = format!("  RUN (line {}): {}\n", run.line, run.text);
        let wrong = |e: String| (Status::Failed, format!("{head}  {e}\n"));
        let text = subst::expand_names(&run.text, &config.substitutions).map_err(wrong)?;
        let command = subst::expand_letters(&text, &paths);
        let words = words::commands(&command).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| wrong("no command, or a quote is not closed".into()))?;
        commands.extend(words);
        lines.push(Line { head, command });
    }
    let input = test.name.split('/').any(|d| d == "Inputs");
    if let Some(line) = file.check.filter(|_| lines.is_empty() && !input) {
        let message = format!("line {line}: CHECK says what is printed, and no RUN line prints it");
        return Err(failed(message));
    }
    let local = Local::of(config, &test.path).map_err(failed)?;
    let check = round_trip::command(config, &test.path, &file, &commands, local.as_ref());
    if let Some(command) = check {
        let head = "  round trip: the file's text does not survive reading and printing\n";
        let head = head.to_string();
        lines.push(Line { head, command });
    }
    match lines.is_empty() {
        true => Err(no_run_line(test, &file)),
        false => Ok((lines, fails)),
    }
}

/// A file that says nothing is a mistake, unless it is the input of other tests.
fn no_run_line(test: &Test, file: &TestFile) -> Ended {
    if file.no_round_trip || test.name.split('/').any(|d| d == "Inputs") {
        return (Status::Skipped, "  no RUN line\n".into());
    }
    let report = "  no RUN line, and no round trip to check\n";
    (Status::Failed, report.into())
}

fn fresh_dir(dir: &Path) -> std::io::Result<()> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    std::fs::create_dir_all(dir)
}
