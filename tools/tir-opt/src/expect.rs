//! `--verify-diagnostics`: what the comments of a file expect, against what was reported.
//!
//! `// expected-error {{text}}` expects an error on its own line whose message has `text` in it.
//! `error` may be `warning`, `note` or `remark`; `expected-error@+2`, `@-1`, `@above`, `@below`
//! name another line (above and below skip lines that expect something themselves), `@unknown`
//! one without a place. In `expected-error-re`, what stands between a further `{{` and `}}` is a
//! regular expression. A line may expect several.
//!
//! Every error, warning and remark must be expected; notes must be where the text expects any.

use regex::Regex;
use tir::{Diagnostic, Loc, Name, Severity};

/// What a text expects to be reported.
pub struct Expectations {
    file: Name,
    all: Vec<Expectation>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Error,
    Warning,
    Remark,
    Note,
}

const KINDS: [(&str, Kind); 4] = [
    ("error", Kind::Error),
    ("warning", Kind::Warning),
    ("remark", Kind::Remark),
    ("note", Kind::Note),
];

struct Expectation {
    kind: Kind,
    /// The line, from 1; none for a diagnostic without a place.
    line: Option<u32>,
    message: Pattern,
    /// As it was written, and where.
    text: String,
    loc: Loc,
    met: bool,
}

enum Pattern {
    Part(String),
    Regex(Regex),
}

impl Pattern {
    fn matches(&self, message: &str) -> bool {
        match self {
            Self::Part(part) => message.contains(part.as_str()),
            Self::Regex(regex) => regex.is_match(message),
        }
    }
}

/// A comment that expects something, as far as it can be read alone.
struct Marker<'t> {
    kind: Kind,
    regex: bool,
    target: Target,
    text: &'t str,
    column: usize,
}

#[derive(Clone, Copy)]
enum Target {
    Offset(i64),
    Above,
    Below,
    Unknown,
}

impl Expectations {
    /// Reads the comments of a text whose first line is line `first` of a file.
    pub fn read(text: &str, file: Name, first: u32) -> Result<Self, Vec<Diagnostic>> {
        let lines: Vec<&str> = text.lines().collect();
        let mut markers = Vec::new();
        let mut errors = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            markers.push(markers_of(line).unwrap_or_else(|(column, message)| {
                let loc = Loc::file(file, first + at as u32, column as u32 + 1);
                errors.push(Diagnostic::error(message).at(loc));
                Vec::new()
            }));
        }
        let mut all = Vec::new();
        for (at, on_line) in markers.iter().enumerate() {
            for marker in on_line {
                let loc = Loc::file(file, first + at as u32, marker.column as u32 + 1);
                let free = |line: &usize| markers[*line].is_empty();
                let line = match marker.target {
                    Target::Unknown => None,
                    Target::Above => (0..at).rev().find(free).or(Some(at)),
                    Target::Below => (at + 1..lines.len()).find(free).or(Some(at)),
                    Target::Offset(by) => match usize::try_from(at as i64 + by) {
                        Ok(line) if line < lines.len().max(at + 1) => Some(line),
                        _ => {
                            let message = format!("there is no line {} from here", signed(by));
                            errors.push(Diagnostic::error(message).at(loc));
                            continue;
                        }
                    },
                };
                match pattern(marker) {
                    Ok(message) => all.push(Expectation {
                        kind: marker.kind,
                        line: line.map(|line| first + line as u32),
                        message,
                        text: marker.text.to_string(),
                        loc,
                        met: false,
                    }),
                    Err(message) => errors.push(Diagnostic::error(message).at(loc)),
                }
            }
        }
        if errors.is_empty() {
            Ok(Self { file, all })
        } else {
            Err(errors)
        }
    }

    /// Errors for what was reported but not expected, and for what was expected in vain.
    pub fn check(mut self, reported: &[Diagnostic]) -> Vec<Diagnostic> {
        let mut wrong = Vec::new();
        let notes = self.all.iter().any(|e| e.kind == Kind::Note);
        for diagnostic in reported {
            let kind = match diagnostic.severity {
                Severity::Error => Kind::Error,
                Severity::Warning => Kind::Warning,
                Severity::Remark => Kind::Remark,
            };
            if !self.take(kind, diagnostic.loc, &diagnostic.message) {
                wrong.push(unexpected(
                    diagnostic.severity,
                    diagnostic.loc,
                    &diagnostic.message,
                ));
            }
            for note in diagnostic.notes.iter().filter(|_| notes) {
                let loc = if note.loc.is_unknown() {
                    diagnostic.loc
                } else {
                    note.loc
                };
                if !self.take(Kind::Note, loc, &note.message) {
                    wrong.push(unexpected("note", loc, &note.message));
                }
            }
        }
        for missing in self.all.iter().filter(|e| !e.met) {
            let kind = KINDS
                .iter()
                .find(|(_, kind)| *kind == missing.kind)
                .map_or("", |k| k.0);
            let message = format!("expected {kind} \"{}\" was not reported", missing.text);
            let mut error = Diagnostic::error(message).at(missing.loc);
            if let Some(line) = missing.line
                && missing.loc.place().is_none_or(|(_, here, _)| here != line)
            {
                error = error.note(format!("it was expected on line {line}"));
            }
            wrong.push(error);
        }
        wrong
    }

    /// Marks the first open expectation that is met; false if there is none.
    fn take(&mut self, kind: Kind, loc: Loc, message: &str) -> bool {
        let place = loc.place();
        let here = |e: &Expectation| match (place, e.line) {
            (Some((file, line, _)), Some(expected)) => file == self.file && line == expected,
            (None, None) => true,
            _ => false,
        };
        let fits = |e: &&mut Expectation| {
            !e.met && e.kind == kind && here(e) && e.message.matches(message)
        };
        match self.all.iter_mut().find(fits) {
            Some(found) => {
                found.met = true;
                true
            }
            None => false,
        }
    }
}

fn unexpected(what: impl std::fmt::Display, loc: Loc, message: &str) -> Diagnostic {
    Diagnostic::error(format!("unexpected {what}: {message}")).at(loc)
}

fn signed(by: i64) -> String {
    if by < 0 {
        format!("{}", by)
    } else {
        format!("+{by}")
    }
}

/// The markers of a line, or a column and what is wrong there.
fn markers_of(line: &str) -> Result<Vec<Marker<'_>>, (usize, String)> {
    let mut markers = Vec::new();
    let Some(mut at) = comment(line) else {
        return Ok(markers);
    };
    // After the first of a line, further ones follow it directly.
    while let Some(rest) = line[at..].trim_start().strip_prefix("expected-") {
        let start = line.len() - rest.len() - "expected-".len();
        let column = line[..start].chars().count();
        let fail = |message: String| (column, message);
        let Some((kind_text, kind)) = KINDS.iter().find(|(text, _)| rest.starts_with(text)) else {
            let message = "expected-… is followed by error, warning, note or remark";
            return Err(fail(message.into()));
        };
        let rest = &rest[kind_text.len()..];
        let (regex, rest) = rest
            .strip_prefix("-re")
            .map_or((false, rest), |rest| (true, rest));
        let (target, rest) = target(rest).map_err(fail)?;
        let Some(text) = rest.trim_start().strip_prefix("{{") else {
            return Err(fail(format!(
                "expected-{kind_text} needs its text in `{{{{` and `}}}}`"
            )));
        };
        // The text ends at the last `}}` before the next marker.
        let more = text
            .find("expected-")
            .filter(|at| text[..*at].trim_end().ends_with("}}"));
        let Some(len) = text[..more.unwrap_or(text.len())].rfind("}}") else {
            return Err(fail(format!(
                "expected-{kind_text} is not closed by `}}}}`"
            )));
        };
        markers.push(Marker {
            kind: *kind,
            regex,
            target,
            text: &text[..len],
            column,
        });
        at = line.len() - text.len() + len + 2;
    }
    Ok(markers)
}

/// Where the text of the comment that may expect something begins.
fn comment(line: &str) -> Option<usize> {
    line.match_indices("//").map(|(at, _)| at + 2).find(|at| {
        let rest = line[*at..].trim_start();
        rest.starts_with("expected-")
            && KINDS
                .iter()
                .any(|(kind, _)| rest["expected-".len()..].starts_with(kind))
    })
}

fn target(rest: &str) -> Result<(Target, &str), String> {
    // As in mlir-opt, spaces may stand before it.
    let Some(at) = rest.trim_start_matches(' ').strip_prefix('@') else {
        return Ok((Target::Offset(0), rest));
    };
    let words = [
        ("above", Target::Above),
        ("below", Target::Below),
        ("unknown", Target::Unknown),
    ];
    for (word, target) in words {
        if let Some(rest) = at.strip_prefix(word) {
            return Ok((target, rest));
        }
    }
    let end = at
        .find(|c: char| !c.is_ascii_digit() && c != '+' && c != '-')
        .unwrap_or(at.len());
    let (number, rest) = at.split_at(end);
    let by = number
        .starts_with(['+', '-'])
        .then(|| number.parse::<i32>().ok())
        .flatten();
    let by = by.ok_or("`@` is followed by +N, -N, above, below or unknown")?;
    Ok((Target::Offset(i64::from(by)), rest))
}

fn pattern(marker: &Marker<'_>) -> Result<Pattern, String> {
    if !marker.regex {
        return Ok(Pattern::Part(marker.text.to_string()));
    }
    let mut source = String::new();
    let mut rest = marker.text;
    while let Some((literal, after)) = rest.split_once("{{") {
        let (regex, after) = after.split_once("}}").ok_or("`{{` is not closed by `}}`")?;
        source += &regex::escape(literal);
        source += &format!("(?:{regex})");
        rest = after;
    }
    source += &regex::escape(rest);
    let regex = regex::RegexBuilder::new(&source)
        .size_limit(1 << 20)
        .build();
    regex.map(Pattern::Regex).map_err(|e| {
        let text = e.to_string();
        format!(
            "not a regular expression: {}",
            text.lines().last().unwrap_or(&text)
        )
    })
}
