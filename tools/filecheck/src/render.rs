//! Reports: a directive beside the input lines it was tried on, as rustc shows an error.

use crate::pattern::{Origin, Pattern};
use crate::{DumpInput, Options, Source, text};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::collections::HashMap;
use std::ops::Range;

/// Lines looked at for a near miss, and bytes of each.
const NEAR_LINES: usize = 4096;
const NEAR_BYTES: usize = 1024;
/// Bytes shown of a line.
const SHOWN_BYTES: usize = 240;

/// One broken fact with its places; ranges are of the canonical texts.
#[derive(Clone, Debug)]
pub(crate) struct Diagnostic {
    pub(crate) title: String,
    check: Option<(Range<usize>, String)>,
    input: Vec<(Range<usize>, String, bool)>,
    scanned: Option<Range<usize>>,
    notes: Vec<String>,
}

impl Diagnostic {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Diagnostic {
            title: title.into(),
            check: None,
            input: Vec::new(),
            scanned: None,
            notes: Vec::new(),
        }
    }

    pub(crate) fn at_check(mut self, at: Range<usize>, label: &str) -> Self {
        self.check = Some((at, label.to_string()));
        self
    }

    pub(crate) fn at_pattern(self, pattern: &Pattern, label: &str) -> Self {
        match &pattern.origin {
            Origin::File(at) => self.at_check(at.clone(), label),
            Origin::Option(option) => self.note(format!("from {option}")),
        }
    }

    pub(crate) fn at_input(mut self, at: Range<usize>, label: &str, primary: bool) -> Self {
        self.input.push((at, label.to_string(), primary));
        self
    }

    /// The region that was searched in vain.
    pub(crate) fn scanned(mut self, region: Range<usize>) -> Self {
        self.scanned = Some(region);
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// All that a report shows.
pub(crate) struct Texts<'a> {
    pub(crate) checks: Source<'a>,
    pub(crate) input: Source<'a>,
    pub(crate) canonical_input: &'a [u8],
    pub(crate) options: &'a Options,
}

/// A mark in an original text.
struct Mark {
    at: Range<usize>,
    label: String,
    kind: AnnotationKind,
}

impl Texts<'_> {
    /// The diagnostics as text, each ending in a line end.
    pub(crate) fn render(&self, diagnostics: &[Diagnostic]) -> String {
        let renderer = if self.options.color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut out = String::new();
        for diagnostic in diagnostics {
            out.push_str(&renderer.render(&[self.group(diagnostic)]));
            out.push('\n');
        }
        out
    }

    fn group(&self, diagnostic: &Diagnostic) -> Group<'_> {
        let strict = self.options.strict_whitespace;
        let mut group = Group::with_title(Level::ERROR.primary_title(one_line(&diagnostic.title)));
        if let Some((at, label)) = &diagnostic.check {
            let at = original(self.checks.text, strict, at);
            let mark = Mark {
                at,
                label: label.clone(),
                kind: AnnotationKind::Primary,
            };
            group = group.element(snippet(self.checks, &[mark], 0));
        }
        let mut marks = Vec::new();
        if let Some(region) = &diagnostic.scanned {
            let line = line_rest(self.canonical_input, region.start);
            let first = region.start..line.end.min(region.end);
            marks.push((first, "scanning from here".to_string(), true));
            if region.end < self.canonical_input.len() {
                marks.push((
                    region.end..region.end,
                    "the scan ends here".to_string(),
                    false,
                ));
            }
        }
        marks.extend(diagnostic.input.iter().cloned());
        let marks: Vec<Mark> = marks
            .into_iter()
            .map(|(at, label, primary)| Mark {
                at: original(self.input.text, strict, &at),
                label,
                kind: if primary {
                    AnnotationKind::Primary
                } else {
                    AnnotationKind::Context
                },
            })
            .collect();
        if !marks.is_empty() {
            let context = match self.options.dump_input {
                DumpInput::Never => 0,
                DumpInput::Always | DumpInput::Fail => self.options.context,
            };
            let visible = if diagnostic.scanned.is_some() {
                context
            } else {
                context.min(1)
            };
            group = group.element(snippet(self.input, &marks, visible));
        }
        for note in &diagnostic.notes {
            group = group.element(Level::NOTE.message(one_line(note)));
        }
        group
    }
}

/// The whole input with line numbers.
pub(crate) fn dump(input: &[u8]) -> String {
    let mut out = String::from("Input was:\n<<<<<<\n");
    let body = input.strip_suffix(b"\n").unwrap_or(input);
    for (i, line) in body.split(|&b| b == b'\n').enumerate() {
        out.push_str(&format!("{:>6}: {}\n", i + 1, shown(line)));
    }
    out.push_str(">>>>>>\n");
    out
}

fn original(text: &[u8], strict: bool, at: &Range<usize>) -> Range<usize> {
    let start = text::original_offset(text, strict, at.start);
    let end = match at.end > at.start {
        // Past the last byte, not before the next one: folded blanks do not belong to the mark.
        true => text::original_offset(text, strict, at.end - 1) + 1,
        false => start,
    };
    start..end.max(start).min(text.len())
}

/// From `at` to the end of its line.
fn line_rest(text: &[u8], at: usize) -> Range<usize> {
    let at = at.min(text.len());
    let length = text[at..]
        .iter()
        .position(|&b| b == b'\n')
        .unwrap_or(text.len() - at);
    at..at + length
}

/// The lines of `source` that hold the marks, and `visible` more after the first mark.
fn snippet<'a>(
    source: Source<'a>,
    marks: &[Mark],
    visible: usize,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let text = source.text;
    let low = marks.iter().map(|m| m.at.start).min().unwrap_or(0);
    let high = marks
        .iter()
        .map(|m| m.at.end.max(m.at.start))
        .max()
        .unwrap_or(0);
    let start = text[..low]
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |i| i + 1);
    let mut body = String::new();
    let mut lines: Vec<Line> = Vec::new();
    let mut at = start;
    loop {
        let end = line_rest(text, at).end;
        let first = marks
            .iter()
            .map(|m| m.at.start)
            .filter(|s| (at..=end).contains(s))
            .min();
        lines.push(Line::push(&mut body, text, at..end, first));
        if end >= text.len() || (end >= high && lines.len() > visible) {
            break;
        }
        body.push('\n');
        at = end + 1;
    }
    let place = |offset: usize| {
        let line = lines.iter().rfind(|l| l.original.start <= offset);
        let at = line.map_or(0, |l| l.place(text, offset)).min(body.len());
        (0..=at)
            .rev()
            .find(|&i| body.is_char_boundary(i))
            .unwrap_or(0)
    };
    let mut annotations = Vec::new();
    for mark in marks {
        let (from, to) = (place(mark.at.start), place(mark.at.end));
        let mut annotation = mark.kind.span(from..to.max(from));
        if !mark.label.is_empty() {
            annotation = annotation.label(mark.label.clone());
        }
        annotations.push(annotation);
    }
    for line in lines.iter().take(visible + 1) {
        annotations.push(AnnotationKind::Visible.span(line.shown.clone()));
    }
    Snippet::source(body)
        .path(source.name.to_string())
        .line_start(text::line_number(text, start))
        .annotations(annotations)
}

/// One line of a snippet, cut to what is shown.
struct Line {
    original: Range<usize>,
    /// The part of the original that is shown.
    kept: Range<usize>,
    /// Where in the snippet.
    shown: Range<usize>,
    /// Bytes of the mark that stands for a cut-off start.
    lead: usize,
}

impl Line {
    fn push(body: &mut String, text: &[u8], original: Range<usize>, mark: Option<usize>) -> Line {
        let mut from = original.start;
        if let Some(mark) = mark
            && mark - original.start > SHOWN_BYTES * 2 / 3
        {
            from = mark - SHOWN_BYTES / 3;
        }
        let to = original.end.min(from + SHOWN_BYTES);
        let begin = body.len();
        let lead = if from > original.start { "…" } else { "" };
        body.push_str(lead);
        body.push_str(&shown(&text[from..to]));
        if to < original.end {
            body.push('…');
        }
        Line {
            original,
            kept: from..to,
            shown: begin..body.len(),
            lead: lead.len(),
        }
    }

    fn place(&self, text: &[u8], offset: usize) -> usize {
        if offset >= self.original.end {
            return self.shown.end;
        }
        let offset = offset.clamp(self.kept.start, self.kept.end);
        self.shown.start + self.lead + shown(&text[self.kept.start..offset]).len()
    }
}

/// Bytes as text without line ends or control characters.
fn shown(bytes: &[u8]) -> String {
    let clean = |c: char| {
        if c.is_control() && c != '\t' {
            '\u{fffd}'
        } else {
            c
        }
    };
    String::from_utf8_lossy(bytes).chars().map(clean).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The line of `region` that most resembles `example`, if one does.
pub(crate) fn near_miss(example: &[u8], region: &[u8]) -> Option<Range<usize>> {
    let wanted = pairs(example);
    let total: usize = wanted.values().sum();
    if total < 2 {
        return None;
    }
    let mut best: Option<(f64, Range<usize>)> = None;
    let mut start = 0;
    for line in region.split(|&b| b == b'\n').take(NEAR_LINES) {
        let at = start..start + line.len();
        start = at.end + 1;
        let have = pairs(&line[..line.len().min(NEAR_BYTES)]);
        let count: usize = have.values().sum();
        let common: usize = have
            .iter()
            .map(|(p, n)| *n.min(wanted.get(p).unwrap_or(&0)))
            .sum();
        let score = 2.0 * common as f64 / (count + total) as f64;
        if score > 0.5 && best.as_ref().is_none_or(|(b, _)| score > *b) {
            best = Some((score, at));
        }
    }
    best.map(|(_, at)| at)
}

/// How often each pair of neighbouring bytes occurs, blanks left out.
fn pairs(text: &[u8]) -> HashMap<(u8, u8), usize> {
    let mut pairs = HashMap::new();
    let solid: Vec<u8> = text
        .iter()
        .copied()
        .filter(|b| !b.is_ascii_whitespace())
        .collect();
    for pair in solid.windows(2) {
        *pairs.entry((pair[0], pair[1])).or_insert(0) += 1;
    }
    pairs
}
