//! The check itself: directives matched in order, in the blocks that CHECK-LABEL lines cut.

use crate::directive::{self, Directive};
use crate::matcher::{Matcher, NoMatch, Variables};
use crate::numeric;
use crate::pattern::{Kind, Pattern, Scope};
use crate::render::{self, Diagnostic};
use crate::{Options, Source, text};
use std::ops::Range;

/// A passed check.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// One line per match: which directive matched where (filled when `verbose`).
    pub matches: Vec<String>,
}

/// Of what sort a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The input does not match.
    Mismatch,
    /// The check file, an option or the input cannot be used.
    Unusable,
}

/// A failed check.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Of what sort.
    pub kind: FailureKind,
    /// The first broken fact, on one line.
    pub message: String,
    /// The whole report: directives beside the input lines they were tried on.
    pub report: String,
}

/// Checks `input` against the directives in `checks`.
pub fn check(options: &Options, checks: Source<'_>, input: Source<'_>) -> Result<Checked, Failure> {
    let canonical_checks = text::canonical(checks.text, options.strict_whitespace);
    let canonical_input = text::canonical(input.text, options.strict_whitespace);
    let texts = render::Texts {
        checks,
        input,
        canonical_input: &canonical_input,
        options,
    };
    let unusable = |diagnostic: Diagnostic| Failure {
        kind: FailureKind::Unusable,
        message: diagnostic.title.clone(),
        report: texts.render(&[diagnostic]),
    };
    if input.text.is_empty() && !options.allow_empty {
        return Err(unusable(Diagnostic::new(format!(
            "'{}' is empty",
            input.name
        ))));
    }
    let mut vars = Variables::default();
    let mut scope = Scope::default();
    for definition in &options.defines {
        define(definition, &mut vars, &mut scope).map_err(|m| unusable(Diagnostic::new(m)))?;
    }
    let directives = directive::parse(&canonical_checks, options, &mut scope).map_err(|bad| {
        let mut diagnostic = Diagnostic::new(bad.message);
        if let Some(at) = bad.at {
            diagnostic = diagnostic.at_check(at, "");
        }
        unusable(diagnostic)
    })?;
    let mut engine = Engine {
        options,
        text: &canonical_input,
        matcher: Matcher::new(options.ignore_case),
        vars,
        diagnostics: Vec::new(),
        matches: Vec::new(),
    };
    engine.run(&directives);
    let Engine {
        diagnostics,
        matches,
        ..
    } = engine;
    match diagnostics.first() {
        None => Ok(Checked { matches }),
        Some(first) => Err(Failure {
            kind: FailureKind::Mismatch,
            message: first.title.clone(),
            report: texts.render(&diagnostics),
        }),
    }
}

/// One `-D`: `NAME=VALUE` or `#NAME=EXPR`.
fn define(definition: &str, vars: &mut Variables, scope: &mut Scope) -> Result<(), String> {
    let bad = |why: &str| format!("in -D{definition}: {why}");
    let (name, value) = definition
        .split_once('=')
        .ok_or_else(|| bad("missing equal sign in global definition"))?;
    if let Some(number) = name.strip_prefix('#') {
        let block = numeric::parse(&format!("{number}:{value}"), &scope.formats, false)
            .map_err(|(_, message)| bad(&message))?;
        let (Some(name), Some(expr)) = (block.define, block.expr) else {
            return Err(bad("a numeric definition needs a name and a value"));
        };
        if scope.strings.contains(&name) {
            return Err(bad("a string variable of this name exists"));
        }
        let value = expr
            .value(0, &vars.numbers)
            .map_err(|message| bad(&message))?;
        vars.numbers.insert(name.clone(), value);
        scope.formats.insert(name, block.format);
        return Ok(());
    }
    match numeric::split_name(name) {
        Some((name, "")) if !scope.formats.contains_key(name) => {
            vars.strings
                .insert(name.to_string(), value.as_bytes().to_vec());
            scope.strings.insert(name.to_string());
            Ok(())
        }
        Some((_, "")) => Err(bad("a numeric variable of this name exists")),
        _ => Err(bad("invalid variable name")),
    }
}

/// A match, or nothing because a diagnostic was given.
type Step<T> = Option<T>;

struct Engine<'a> {
    options: &'a Options,
    /// The canonical input.
    text: &'a [u8],
    matcher: Matcher,
    vars: Variables,
    diagnostics: Vec<Diagnostic>,
    matches: Vec<String>,
}

impl Engine<'_> {
    fn run(&mut self, directives: &[Directive]) {
        let mut first = 0;
        let mut rest = 0;
        loop {
            let label =
                (first..directives.len()).find(|&i| directives[i].pattern.kind == Kind::Label);
            let (end, mut region) = match label {
                None => (directives.len(), rest..self.text.len()),
                Some(i) => {
                    let all = rest..self.text.len();
                    let Some(hit) = self.matches(&directives[i].pattern, all, true) else {
                        return;
                    };
                    (i + 1, rest..hit.end)
                }
            };
            // The first block may use what the command line defined.
            if first != 0 && self.options.enable_var_scope {
                self.vars.clear_local();
            }
            rest = region.end;
            for directive in &directives[first..end] {
                match self.directive(directive, region.clone()) {
                    Some(hit) => region.start = hit.end,
                    // The other blocks are still checked.
                    None => break,
                }
            }
            if label.is_none() {
                return;
            }
            first = end;
        }
    }

    /// A directive in its region, with the NOTs and DAGs before it.
    fn directive(&mut self, directive: &Directive, region: Range<usize>) -> Step<Range<usize>> {
        let mut nots = Vec::new();
        let start = self.dags(&directive.before, region.clone(), &mut nots)?;
        let pattern = &directive.pattern;
        let hit = self.matches(pattern, start..region.end, false)?;
        let skipped = start..hit.start;
        let lines = text::newlines(&self.text[skipped.clone()]);
        let wrong = match pattern.kind {
            Kind::Next | Kind::Empty if lines == 0 => "is on the same line as the previous match",
            Kind::Next | Kind::Empty if lines > 1 => "is not on the line after the previous match",
            Kind::Same if lines > 0 => "is not on the same line as the previous match",
            _ => "",
        };
        if !wrong.is_empty() {
            let diagnostic = Diagnostic::new(format!("{}: {wrong}", pattern.directive))
                .at_pattern(pattern, "")
                .at_input(hit, "matched here", true)
                .at_input(start..start, "the previous match ended here", false);
            self.diagnostics.push(diagnostic);
            return None;
        }
        self.nots(&nots, skipped)?;
        Some(hit)
    }

    /// All matches that `pattern` asks for, from the first one's start to the last one's end.
    fn matches(
        &mut self,
        pattern: &Pattern,
        region: Range<usize>,
        scanning: bool,
    ) -> Step<Range<usize>> {
        let mut at = region.start;
        let mut first = None;
        for i in 0..pattern.count {
            let hit = self.one(pattern, at..region.end, (i, pattern.count), scanning)?;
            first.get_or_insert(hit.start);
            let stuck = hit.is_empty() && hit.end == at;
            at = hit.end;
            if stuck {
                break;
            }
        }
        Some(first.unwrap_or(at)..at)
    }

    /// One expected match.
    fn one(
        &mut self,
        pattern: &Pattern,
        region: Range<usize>,
        (done, count): (u32, u32),
        scanning: bool,
    ) -> Step<Range<usize>> {
        match self
            .matcher
            .find(pattern, &mut self.vars, &self.text[region.clone()])
        {
            Ok((start, end)) => {
                let hit = region.start + start..region.start + end;
                if !scanning {
                    self.note_match(pattern, &hit);
                }
                Some(hit)
            }
            Err(no) => {
                let title = match &no {
                    NoMatch::Error(message) => format!("{}: {message}", pattern.directive),
                    NoMatch::NotFound if count > 1 => format!(
                        "{}: expected string found {done} times, not {count}",
                        pattern.directive
                    ),
                    NoMatch::NotFound => {
                        format!("{}: expected string not found in input", pattern.directive)
                    }
                };
                let diagnostic = Diagnostic::new(title)
                    .at_pattern(pattern, "")
                    .scanned(region.clone());
                self.diagnostics
                    .push(self.explain(diagnostic, pattern, region));
                None
            }
        }
    }

    /// Adds the variables' values and the best near miss.
    fn explain(
        &self,
        mut diagnostic: Diagnostic,
        pattern: &Pattern,
        region: Range<usize>,
    ) -> Diagnostic {
        for (name, value) in pattern.used(&self.vars) {
            diagnostic = diagnostic.note(format!("with \"{name}\" equal to \"{value}\""));
        }
        if let Some(line) =
            render::near_miss(&pattern.example(&self.vars), &self.text[region.clone()])
        {
            let line = region.start + line.start..region.start + line.end;
            diagnostic = diagnostic.at_input(line, "possible intended match", false);
        }
        diagnostic
    }

    /// Matches the DAG groups; what remains of the NOTs is left in `nots`. Returns where the
    /// search goes on.
    fn dags<'p>(
        &mut self,
        before: &'p [Pattern],
        region: Range<usize>,
        nots: &mut Vec<&'p Pattern>,
    ) -> Step<usize> {
        let mut start = region.start;
        // Matches of the current group, in order of place.
        let mut taken: Vec<Range<usize>> = Vec::new();
        for (i, pattern) in before.iter().enumerate() {
            if pattern.kind == Kind::Not {
                nots.push(pattern);
                continue;
            }
            self.dag(pattern, start..region.end, &mut taken)?;
            let group_ends = before.get(i + 1).is_none_or(|next| next.kind == Kind::Not);
            if let (true, Some(first)) = (group_ends, taken.first().cloned()) {
                self.nots(nots, start..first.start.max(start))?;
                nots.clear();
                start = taken.last().map_or(start, |last| last.end);
                taken.clear();
            }
        }
        Some(start)
    }

    /// The first match of `pattern` that overlaps none of its group's.
    fn dag(
        &mut self,
        pattern: &Pattern,
        region: Range<usize>,
        taken: &mut Vec<Range<usize>>,
    ) -> Step<()> {
        let mut at = region.start;
        let mut index = 0;
        loop {
            let hit = self.one(pattern, at..region.end, (0, 1), false)?;
            if self.options.allow_dag_overlap {
                match taken.first_mut() {
                    None => taken.push(hit),
                    Some(block) => *block = block.start.min(hit.start)..block.end.max(hit.end),
                }
                return Some(());
            }
            while taken.get(index).is_some_and(|old| old.end <= hit.start) {
                index += 1;
            }
            match taken.get(index) {
                Some(old) if old.start < hit.end => {
                    at = old.end;
                    index += 1;
                }
                _ => {
                    taken.insert(index, hit);
                    return Some(());
                }
            }
        }
    }

    /// None of `nots` may match in `region`; all that do are reported.
    fn nots(&mut self, nots: &[&Pattern], region: Range<usize>) -> Step<()> {
        let before = self.diagnostics.len();
        for &pattern in nots {
            let diagnostic =
                match self
                    .matcher
                    .find(pattern, &mut self.vars, &self.text[region.clone()])
                {
                    Err(NoMatch::NotFound) => continue,
                    Err(NoMatch::Error(message)) => {
                        Diagnostic::new(format!("{}: {message}", pattern.directive))
                            .at_pattern(pattern, "")
                            .scanned(region.clone())
                    }
                    Ok((start, end)) => Diagnostic::new(format!(
                        "{}: excluded string found in input",
                        pattern.directive
                    ))
                    .at_pattern(pattern, "")
                    .at_input(
                        region.start + start..region.start + end,
                        "found here",
                        true,
                    ),
                };
            self.diagnostics.push(diagnostic);
        }
        (self.diagnostics.len() == before).then_some(())
    }

    fn note_match(&mut self, pattern: &Pattern, hit: &Range<usize>) {
        if self.options.verbose && pattern.kind != Kind::End {
            let line = text::line_number(self.text, hit.start);
            let shown = String::from_utf8_lossy(&self.text[hit.clone()]).into_owned();
            self.matches.push(format!(
                "{} on line {} matched input line {line}: {shown:?}",
                pattern.directive, pattern.line
            ));
        }
    }
}
