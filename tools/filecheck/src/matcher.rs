//! Matching one pattern: resolve its variables, find the leftmost, then the longest match.
//!
//! The `regex` crate finds where a match starts. POSIX wants the longest match from there and the
//! crate's own rule is first-branch-wins, so a Pike machine that follows all branches gives the
//! end and the captures. Patterns whose captures depend on the choice of a branch, or that repeat
//! a variable defined in the same pattern, are matched piece by piece (`pieces`).

use crate::numeric::Format;
use crate::pattern::{Kind, Pattern, Piece};
use crate::{pieces, posix};
use regex::bytes::{Regex, RegexBuilder};
use regex_automata::nfa::thompson::{self, pikevm};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use std::collections::HashMap;
use std::rc::Rc;

/// A compiled regex above this many bytes is an error.
const MAX_REGEX_BYTES: usize = 4 << 20;
/// Compiled regexes kept.
const MAX_KEPT: usize = 256;

/// The values of variables.
#[derive(Default)]
pub(crate) struct Variables {
    pub(crate) strings: HashMap<String, Vec<u8>>,
    pub(crate) numbers: HashMap<String, i128>,
}

impl Variables {
    /// Forgets all names without `$`.
    pub(crate) fn clear_local(&mut self) {
        self.strings.retain(|name, _| name.starts_with('$'));
        self.numbers.retain(|name, _| name.starts_with('$'));
    }
}

/// Why there is no match.
pub(crate) enum NoMatch {
    NotFound,
    /// The pattern itself cannot be matched: an undefined variable, too much work.
    Error(String),
}

impl From<String> for NoMatch {
    fn from(message: String) -> Self {
        NoMatch::Error(message)
    }
}

/// A piece with its variables resolved.
#[derive(Clone, Debug)]
pub(crate) enum Resolved {
    Text(Vec<u8>),
    Regex(String),
    /// Captures into the slot.
    Capture(usize, String),
    /// Repeats what the slot holds.
    Repeat(usize),
}

/// What a captured slot defines.
enum Defines<'a> {
    Text(&'a str),
    Number(&'a str, Format),
}

/// Start and end of a match, and of each slot.
pub(crate) struct Found {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) slots: Vec<Option<(usize, usize)>>,
}

/// Finds matches; holds compiled regexes.
pub(crate) struct Matcher {
    ignore_case: bool,
    kept: HashMap<String, Rc<Compiled>>,
}

struct Compiled {
    finder: Regex,
    /// Absent for fixed text, which needs no longest match.
    machine: Option<pikevm::PikeVM>,
}

impl Matcher {
    pub(crate) fn new(ignore_case: bool) -> Self {
        Matcher {
            ignore_case,
            kept: HashMap::new(),
        }
    }

    /// The leftmost longest match of `pattern` in `text` as (start, end); defines its variables.
    pub(crate) fn find(
        &mut self,
        pattern: &Pattern,
        vars: &mut Variables,
        text: &[u8],
    ) -> Result<(usize, usize), NoMatch> {
        if pattern.kind == Kind::End {
            return Ok((text.len(), text.len()));
        }
        let (parts, defines) = resolve(pattern, vars)?;
        // As in LLVM, nothing is found by a pattern that its variables leave empty.
        if parts
            .iter()
            .all(|p| matches!(p, Resolved::Text(text) if text.is_empty()))
        {
            return Err(NoMatch::NotFound);
        }
        let found = self
            .search(&parts, defines.len(), text)?
            .ok_or(NoMatch::NotFound)?;
        for (define, slot) in defines.iter().zip(&found.slots) {
            let value = slot.map_or(&[][..], |(from, to)| &text[from..to]);
            match *define {
                Defines::Text(name) => {
                    vars.strings.insert(name.to_string(), value.to_vec());
                }
                Defines::Number(name, format) => {
                    vars.numbers.insert(name.to_string(), format.read(value)?);
                }
            }
        }
        // An empty line's match begins after the line end that it consumes.
        let skip = usize::from(pattern.kind == Kind::Empty);
        Ok((found.start + skip, found.end))
    }

    fn search(
        &mut self,
        parts: &[Resolved],
        slots: usize,
        text: &[u8],
    ) -> Result<Option<Found>, NoMatch> {
        let repeats = parts.iter().any(|p| matches!(p, Resolved::Repeat(_)));
        let branches = parts.iter().any(|p| match p {
            Resolved::Regex(r) | Resolved::Capture(_, r) => r.contains('|'),
            _ => false,
        });
        let compiled = self.compile(parts)?;
        if repeats {
            return self.search_repeats(&compiled, parts, slots, text);
        }
        let Some(hit) = compiled.finder.find(text) else {
            return Ok(None);
        };
        let mut found = Found {
            start: hit.start(),
            end: hit.end(),
            slots: vec![None; slots],
        };
        let Some(machine) = &compiled.machine else {
            return Ok(Some(found));
        };
        let mut caps = machine.create_captures();
        let input = Input::new(text)
            .span(hit.start()..text.len())
            .anchored(Anchored::Yes);
        machine.search(&mut machine.create_cache(), &input, &mut caps);
        if let Some(span) = caps.get_match() {
            found.end = span.end();
        }
        for (i, slot) in found.slots.iter_mut().enumerate() {
            *slot = caps.get_group(i + 1).map(|s| (s.start, s.end));
        }
        if slots > 0 && branches {
            let mut walk = pieces::Walk::new(parts, slots, text, self.ignore_case)?;
            if let Some(exact) = walk.run(found.start, Some(found.end))? {
                found = exact;
            }
        }
        Ok(Some(found))
    }

    /// With repeats the regex only says where a match may start.
    fn search_repeats(
        &self,
        compiled: &Compiled,
        parts: &[Resolved],
        slots: usize,
        text: &[u8],
    ) -> Result<Option<Found>, NoMatch> {
        let mut walk = pieces::Walk::new(parts, slots, text, self.ignore_case)?;
        let mut from = 0;
        while let Some(hit) = compiled.finder.find_at(text, from) {
            if let Some(found) = walk.run(hit.start(), None)? {
                return Ok(Some(found));
            }
            walk.charge(1 + hit.len() / 64)?;
            from = hit.start() + 1;
            if from > text.len() {
                break;
            }
        }
        Ok(None)
    }

    fn compile(&mut self, parts: &[Resolved]) -> Result<Rc<Compiled>, NoMatch> {
        let mut source = String::new();
        let mut fixed = true;
        for part in parts {
            match part {
                Resolved::Text(text) => source.push_str(&posix::literal(text)),
                Resolved::Regex(regex) => source.push_str(&format!("(?:{regex})")),
                Resolved::Capture(_, regex) => source.push_str(&format!("({regex})")),
                Resolved::Repeat(slot) => source.push_str(&may_repeat(parts, *slot)),
            }
            fixed &= matches!(part, Resolved::Text(_));
        }
        if let Some(kept) = self.kept.get(&source) {
            return Ok(Rc::clone(kept));
        }
        let finder = RegexBuilder::new(&source)
            .unicode(false)
            .multi_line(true)
            .case_insensitive(self.ignore_case)
            .size_limit(MAX_REGEX_BYTES)
            .build()
            .map_err(|e| too_large(&e))?;
        let machine = match fixed {
            true => None,
            false => Some(machine(&source, self.ignore_case)?),
        };
        let compiled = Rc::new(Compiled { finder, machine });
        if self.kept.len() >= MAX_KEPT {
            self.kept.clear();
        }
        self.kept.insert(source, Rc::clone(&compiled));
        Ok(compiled)
    }
}

/// A regex for all that a repeat of `slot` may be: what the slot matches, unless that depends on
/// what stands around it.
fn may_repeat(parts: &[Resolved], slot: usize) -> String {
    let regex = parts.iter().find_map(|p| match p {
        Resolved::Capture(s, regex) if *s == slot => Some(regex),
        _ => None,
    });
    match regex {
        Some(regex)
            if !["(?:^)", "(?:$)", "(?:\\b"]
                .iter()
                .any(|l| regex.contains(l)) =>
        {
            format!("(?:{regex})")
        }
        _ => "(?s:.*?)".into(),
    }
}

fn too_large(error: &dyn std::fmt::Display) -> NoMatch {
    NoMatch::Error(format!("the pattern is too large to match: {error}"))
}

pub(crate) fn syntax_config(ignore_case: bool) -> syntax::Config {
    syntax::Config::new()
        .unicode(false)
        .utf8(false)
        .multi_line(true)
        .case_insensitive(ignore_case)
}

pub(crate) fn nfa_config() -> thompson::Config {
    thompson::Config::new()
        .utf8(false)
        .nfa_size_limit(Some(MAX_REGEX_BYTES))
}

fn machine(source: &str, ignore_case: bool) -> Result<pikevm::PikeVM, NoMatch> {
    pikevm::Builder::new()
        .configure(pikevm::Config::new().match_kind(MatchKind::All))
        .syntax(syntax_config(ignore_case))
        .thompson(nfa_config())
        .build(source)
        .map_err(|e| too_large(&e))
}

/// Replaces uses by values; all undefined variables are named.
fn resolve<'a>(
    pattern: &'a Pattern,
    vars: &Variables,
) -> Result<(Vec<Resolved>, Vec<Defines<'a>>), NoMatch> {
    let mut parts = Vec::with_capacity(pattern.pieces.len());
    let mut defines: Vec<Defines<'a>> = Vec::new();
    let mut errors = Vec::new();
    for piece in &pattern.pieces {
        parts.push(match piece {
            Piece::Text(text) => Resolved::Text(text.clone()),
            Piece::Regex(regex) => Resolved::Regex(regex.clone()),
            Piece::Define { name, regex } => {
                defines.push(Defines::Text(name));
                Resolved::Capture(defines.len() - 1, regex.clone())
            }
            Piece::Use {
                name,
                same_line: true,
            } => {
                let is = |d: &Defines<'_>| matches!(d, Defines::Text(n) if n == name);
                match defines.iter().rposition(is) {
                    Some(slot) => Resolved::Repeat(slot),
                    None => Resolved::Text(Vec::new()),
                }
            }
            Piece::Use {
                name,
                same_line: false,
            } => match vars.strings.get(name) {
                Some(value) => Resolved::Text(value.clone()),
                None => {
                    errors.push(format!("undefined variable: {name}"));
                    continue;
                }
            },
            Piece::Number {
                format,
                define,
                expr,
            } => {
                let regex = match expr {
                    None => format.wildcard(),
                    Some(expr) => {
                        let value = expr.value(pattern.line, &vars.numbers);
                        match value.and_then(|v| format.write(v)) {
                            Ok(text) => posix::literal(text.as_bytes()),
                            Err(error) => {
                                errors.push(error);
                                continue;
                            }
                        }
                    }
                };
                match define {
                    Some(name) => {
                        defines.push(Defines::Number(name, *format));
                        Resolved::Capture(defines.len() - 1, regex)
                    }
                    None => Resolved::Regex(regex),
                }
            }
        });
    }
    match errors.is_empty() {
        true => Ok((parts, defines)),
        false => Err(NoMatch::Error(errors.join(", "))),
    }
}
