//! What a test file says: RUN, XFAIL, REQUIRES, UNSUPPORTED, NO-ROUNDTRIP.

use regex::bytes::Regex;
use std::sync::LazyLock;

/// One command line of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunLine {
    /// The line it starts on, from 1.
    pub(crate) line: usize,
    /// The text, continuations joined.
    pub(crate) text: String,
}

/// The directives of a test file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestFile {
    pub(crate) runs: Vec<RunLine>,
    pub(crate) xfail: Vec<String>,
    pub(crate) requires: Vec<String>,
    pub(crate) unsupported: Vec<String>,
    pub(crate) no_round_trip: bool,
    /// The first line, from 1, that says what a command should print.
    pub(crate) check: Option<usize>,
}

/// A directive stands at the start of a line, after a comment sign if any.
const DIRECTIVE: &str = r"^\s*(?://+|#+|;+|--)?\s*(RUN|XFAIL|REQUIRES|UNSUPPORTED):\s*(.*?)\s*$";

static FINDER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(DIRECTIVE).ok());

/// What filecheck reads, with its usual prefix.
const CHECK: &str = r"^\s*(?://+|#+|;+|--)\s*CHECK(?:-[A-Z]+)?:";

static CHECKS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(CHECK).ok());

impl TestFile {
    /// Reads the directives of a file's text.
    pub(crate) fn parse(text: &[u8]) -> Result<TestFile, String> {
        let mut file = TestFile::default();
        // A RUN line that ends in a backslash goes on in the next RUN line.
        let mut open: Option<RunLine> = None;
        for (i, line) in text.split(|&b| b == b'\n').enumerate() {
            if file.check.is_none() && CHECKS.as_ref().is_some_and(|c| c.is_match(line)) {
                file.check = Some(i + 1);
            }
            if is_no_round_trip(line) {
                file.no_round_trip = true;
            }
            let Some(found) = FINDER.as_ref().and_then(|f| f.captures(line)) else {
                continue;
            };
            let value = String::from_utf8_lossy(&found[2]).into_owned();
            match &found[1] {
                b"RUN" => {
                    let mut run = match open.take() {
                        Some(run) => RunLine {
                            text: format!("{} {value}", run.text),
                            ..run
                        },
                        None => RunLine {
                            line: i + 1,
                            text: value,
                        },
                    };
                    match run.text.strip_suffix('\\') {
                        Some(rest) => {
                            run.text = rest.trim_end().to_string();
                            open = Some(run);
                        }
                        None => file.runs.push(run),
                    }
                }
                b"XFAIL" => file.xfail.extend(list(&value)),
                b"REQUIRES" => file.requires.extend(list(&value)),
                _ => file.unsupported.extend(list(&value)),
            }
        }
        match open {
            Some(run) => Err(format!(
                "line {}: RUN line ends in a backslash and no RUN line follows",
                run.line
            )),
            None => Ok(file),
        }
    }
}

fn is_no_round_trip(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.strip_prefix(b"//")
        .is_some_and(|rest| rest.trim_ascii().starts_with(b"NO-ROUNDTRIP"))
}

fn list(value: &str) -> impl Iterator<Item = String> {
    value
        .split(',')
        .map(|e| e.trim().to_string())
        .filter(|e| !e.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_directives() {
        let text = b"// RUN: a %s \\\n// RUN:   | b\n# REQUIRES: x && y, z\n// XFAIL: *\nCHECK: RUN: no\n// NO-ROUNDTRIP: cut\n// RUN: c";
        let file = TestFile::parse(text).unwrap();
        let run = |line, text: &str| RunLine {
            line,
            text: text.into(),
        };
        assert_eq!(file.runs, [run(1, "a %s | b"), run(7, "c")]);
        assert_eq!(file.requires, ["x && y", "z"]);
        assert_eq!(file.xfail, ["*"]);
        assert!(file.no_round_trip);
        assert_eq!(file.check, None);
        assert_eq!(
            TestFile::parse(b"x\n// CHECK-NOT: y").unwrap().check,
            Some(2)
        );
        assert!(TestFile::parse(b"// RUN: a \\\nx").is_err());
    }
}
