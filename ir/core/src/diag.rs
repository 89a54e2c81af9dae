//! Diagnostics: built by chaining, carried by `Result`, rendered with the source line underlined.

use std::collections::BTreeMap;
use std::fmt;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::loc::Loc;
use crate::name::Name;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Severity {
    /// The input is refused.
    Error,
    /// Something is suspicious.
    Warning,
    /// Something to know.
    Remark,
}

/// More about a diagnostic, with a place of its own or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Its place; unknown for none.
    pub loc: Loc,
    /// The length to underline, in characters.
    pub len: u32,
    /// What it says.
    pub message: String,
}

/// One message to the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Its place.
    pub loc: Loc,
    /// The length to underline, in characters; 0 is one.
    pub len: u32,
    /// The broken fact with both values, lower case, no full stop.
    pub message: String,
    /// More about it.
    pub notes: Vec<Note>,
    /// A name for all of its kind, by which a driver may treat them alike.
    pub category: Option<&'static str>,
    /// The cycles that what it is about takes on the machine, as far as they can be estimated.
    pub cycles: u64,
}

/// A diagnostic, boxed: what fallible code returns.
pub type Failure = Box<Diagnostic>;

impl Diagnostic {
    fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self {
            severity,
            loc: Loc::UNKNOWN,
            len: 0,
            message: message.into(),
            notes: Vec::new(),
            category: None,
            cycles: 0,
        }
    }
    /// An error.
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message)
    }
    /// A warning.
    pub fn warning(message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, message)
    }
    /// A remark.
    pub fn remark(message: impl Into<String>) -> Self {
        Self::new(Severity::Remark, message)
    }
    /// Says where.
    #[must_use]
    pub fn at(mut self, loc: Loc) -> Self {
        self.loc = loc;
        self
    }
    /// Says where, unless it is known already.
    #[must_use]
    pub fn or_at(mut self, loc: Loc) -> Self {
        if self.loc.is_unknown() {
            self.loc = loc;
        }
        self
    }
    /// How many characters to underline.
    #[must_use]
    pub fn len(mut self, len: usize) -> Self {
        self.len = u32::try_from(len).unwrap_or(u32::MAX);
        self
    }
    /// Says of what category it is.
    #[must_use]
    pub fn category(mut self, category: &'static str) -> Self {
        self.category = Some(category);
        self
    }
    /// Says how many cycles what it is about takes.
    #[must_use]
    pub fn cycles(mut self, cycles: u64) -> Self {
        self.cycles = cycles;
        self
    }
    /// The message with the category behind it.
    pub fn title(&self) -> String {
        match (self.category, self.cycles) {
            (None, _) => self.message.clone(),
            (Some(category), 0) => format!("{} [{category}]", self.message),
            (Some(category), n) => format!("{} [{category}, about {n} cycles]", self.message),
        }
    }
    /// Adds a note without a place.
    #[must_use]
    pub fn note(self, message: impl Into<String>) -> Self {
        self.note_at(Loc::UNKNOWN, message)
    }
    /// Adds a note at a place.
    #[must_use]
    pub fn note_at(mut self, loc: Loc, message: impl Into<String>) -> Self {
        self.notes.push(Note {
            loc,
            len: 0,
            message: message.into(),
        });
        self
    }
    /// Puts words before the message.
    #[must_use]
    pub fn context(mut self, words: impl fmt::Display) -> Self {
        self.message = format!("{words}{}", self.message);
        self
    }
}

impl From<Diagnostic> for Vec<Diagnostic> {
    fn from(one: Diagnostic) -> Self {
        vec![one]
    }
}
impl From<Failure> for Vec<Diagnostic> {
    fn from(one: Failure) -> Self {
        vec![*one]
    }
}
/// A bare message becomes an error whose place the framework adds.
impl From<String> for Diagnostic {
    fn from(message: String) -> Self {
        Self::error(message)
    }
}
impl From<&str> for Diagnostic {
    fn from(message: &str) -> Self {
        Self::error(message)
    }
}
impl From<String> for Failure {
    fn from(message: String) -> Self {
        Box::new(Diagnostic::error(message))
    }
}
impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Box::new(Diagnostic::error(message))
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Remark => "remark",
        })
    }
}

/// On one line, without the source: `file:1:2: error: message`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line, column)) = self.loc.place() {
            write!(f, "{file}:{line}:{column}: ")?;
        }
        write!(f, "{}: {}", self.severity, self.message)
    }
}
impl std::error::Error for Diagnostic {}

/// The texts that places point into, by file name.
#[derive(Default, Clone)]
pub struct Sources {
    texts: BTreeMap<Name, std::sync::Arc<str>>,
}

impl Sources {
    /// Knows the text of a file from now on.
    pub fn add(&mut self, name: Name, text: impl Into<std::sync::Arc<str>>) {
        self.texts.insert(name, text.into());
    }

    /// The text of a file: as added, else as it is on disk.
    fn text(&self, name: Name) -> Option<std::sync::Arc<str>> {
        if let Some(text) = self.texts.get(&name) {
            return Some(text.clone());
        }
        let len = std::fs::metadata(name.as_str()).ok()?.len();
        if len > 64 << 20 {
            return None;
        }
        std::fs::read_to_string(name.as_str()).ok().map(Into::into)
    }

    /// A line of a file, from 1, without its end.
    fn line(&self, name: Name, line: u32) -> Option<String> {
        let text = self.text(name)?;
        let line = text.lines().nth((line as usize).checked_sub(1)?)?;
        Some(line.to_string())
    }

    /// The diagnostic as rustc prints it, ending in a newline.
    pub fn render(&self, diagnostic: &Diagnostic, color: bool) -> String {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Remark => Level::INFO.with_name("remark"),
        };
        let place = Excerpt::new(self, diagnostic.loc, diagnostic.len);
        // Notes on the same file that can be shown are excerpts of their own groups.
        let notes: Vec<(&Note, Excerpt)> = diagnostic
            .notes
            .iter()
            .map(|note| (note, Excerpt::new(self, note.loc, note.len)))
            .collect();
        let title = diagnostic.title();
        let mut group = level
            .clone()
            .primary_title(&title)
            .elements(Option::<Snippet<'_, annotate_snippets::Annotation<'_>>>::None);
        if let Some(snippet) = place.snippet(AnnotationKind::Primary) {
            group = group.element(snippet);
        } else if let Some(origin) = place.origin() {
            group = group.element(origin);
        }
        let mut groups = Vec::new();
        for (note, excerpt) in &notes {
            if excerpt.file.is_none() {
                group = group.element(Level::NOTE.message(&note.message));
            }
        }
        groups.push(group);
        for (note, excerpt) in &notes {
            if excerpt.file.is_some() {
                let mut group = Level::NOTE
                    .secondary_title(&note.message)
                    .elements(Option::<Snippet<'_, annotate_snippets::Annotation<'_>>>::None);
                if let Some(snippet) = excerpt.snippet(AnnotationKind::Primary) {
                    group = group.element(snippet);
                } else if let Some(origin) = excerpt.origin() {
                    group = group.element(origin);
                }
                groups.push(group);
            }
        }
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&groups) + "\n"
    }
}

/// The piece of source to show for a place.
struct Excerpt {
    file: Option<Name>,
    /// What a place is called that is in no file, as text has it.
    name: Option<String>,
    line_number: u32,
    column: u32,
    line: Option<String>,
    span: std::ops::Range<usize>,
}

impl Excerpt {
    fn new(sources: &Sources, loc: Loc, len: u32) -> Self {
        let Some((file, line_number, column)) = loc.place() else {
            return Self {
                file: None,
                name: loc.name().map(|name| format!("loc(\"{name}\")")),
                line_number: 0,
                column: 0,
                line: None,
                span: 0..0,
            };
        };
        let line = sources.line(file, line_number);
        let mut span = 0..0;
        // A long line is cut around the place where it is rendered.
        if let Some(text) = &line {
            let from = column.saturating_sub(1) as usize;
            let byte = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
            span = byte(from)..byte(from + len.max(1) as usize);
        }
        Self {
            file: Some(file),
            name: None,
            line_number,
            column,
            line,
            span,
        }
    }

    fn snippet(
        &self,
        kind: AnnotationKind,
    ) -> Option<Snippet<'_, annotate_snippets::Annotation<'_>>> {
        let (file, line) = (self.file?, self.line.as_deref()?);
        Some(
            Snippet::source(line)
                .path(file.as_str())
                .line_start(self.line_number as usize)
                .annotation(kind.span(self.span.clone())),
        )
    }

    fn origin(&self) -> Option<annotate_snippets::Origin<'_>> {
        if let Some(name) = &self.name {
            return Some(annotate_snippets::Origin::path(name.as_str()));
        }
        let file = self.file?;
        let origin = annotate_snippets::Origin::path(file.as_str());
        let origin = origin.line(self.line_number as usize);
        Some(origin.char_column(self.column as usize))
    }
}
