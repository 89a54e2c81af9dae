//! The pattern of one directive: fixed text, regexes, string variables and numeric blocks.

use crate::matcher::Variables;
use crate::numeric::{self, Expr, Format, split_name};
use crate::{Options, posix, text};
use std::collections::{HashMap, HashSet};

/// What a directive asks of its match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Next,
    Same,
    Not,
    Dag,
    Label,
    Empty,
    /// Matches at the end of the input; carries trailing NOTs and DAGs.
    End,
}

/// A part of a pattern.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(Vec<u8>),
    /// A regex, already translated.
    Regex(String),
    /// `[[NAME:regex]]`.
    Define {
        name: String,
        regex: String,
    },
    /// `[[NAME]]`, from an earlier directive or from earlier in this one.
    Use {
        name: String,
        same_line: bool,
    },
    /// `[[#...]]`.
    Number {
        format: Format,
        define: Option<String>,
        expr: Option<Expr>,
    },
}

/// Where a pattern was written.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A range of the canonical check file.
    File(std::ops::Range<usize>),
    /// An option, as a user would type it.
    Option(String),
}

/// One parsed pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) kind: Kind,
    /// How often it must match (CHECK-COUNT).
    pub(crate) count: u32,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) origin: Origin,
    /// The line in the check file, for `@LINE`.
    pub(crate) line: usize,
    /// The directive as shown: `CHECK-NEXT`.
    pub(crate) directive: String,
}

/// The variables that earlier directives define.
#[derive(Default)]
pub(crate) struct Scope {
    pub(crate) formats: HashMap<String, Format>,
    pub(crate) strings: HashSet<String>,
}

/// An error at an offset of the pattern's text.
pub(crate) type At<T> = Result<T, (usize, String)>;

/// Parses a pattern's text, already stripped of the blanks before it.
pub(crate) fn parse(
    source: &[u8],
    kind: Kind,
    literal: bool,
    options: &Options,
    scope: &mut Scope,
) -> At<Vec<Piece>> {
    let exact = options.strict_whitespace && options.match_full_lines;
    let source = if exact {
        source
    } else {
        source.trim_suffix_blanks()
    };
    if kind == Kind::Empty {
        return match source {
            [] => Ok(vec![Piece::Regex("\\n(?:$)".into())]),
            _ => Err((0, "found non-empty check string for empty check".into())),
        };
    }
    if source.is_empty() {
        return Err((0, "found empty check string".into()));
    }
    if literal {
        return Ok(vec![Piece::Text(source.to_vec())]);
    }
    let full_lines = options.match_full_lines && kind != Kind::Not;
    let mut parser = Parser {
        source,
        at: 0,
        pieces: Vec::new(),
        scope,
        options,
        here: HashSet::new(),
    };
    let blanks = if options.strict_whitespace { "" } else { " *" };
    if full_lines {
        parser.pieces.push(Piece::Regex(format!("(?:^){blanks}")));
    }
    parser.run()?;
    let mut pieces = parser.pieces;
    if full_lines {
        pieces.push(Piece::Regex(format!("{blanks}(?:$)")));
    }
    Ok(pieces)
}

trait TrimBlanks {
    fn trim_suffix_blanks(&self) -> &Self;
}

impl TrimBlanks for [u8] {
    fn trim_suffix_blanks(&self) -> &[u8] {
        let keep = self
            .iter()
            .rposition(|b| !matches!(b, b' ' | b'\t'))
            .map_or(0, |i| i + 1);
        &self[..keep]
    }
}

struct Parser<'a> {
    source: &'a [u8],
    at: usize,
    pieces: Vec<Piece>,
    scope: &'a mut Scope,
    options: &'a Options,
    /// Names defined earlier in this pattern.
    here: HashSet<String>,
}

impl Parser<'_> {
    fn run(&mut self) -> At<()> {
        while self.at < self.source.len() {
            let rest = &self.source[self.at..];
            if rest.starts_with(b"{{") {
                self.regex()?;
            } else if rest.starts_with(b"[[[") {
                // The first bracket is text: `[[[X:a]]]` is a variable in brackets.
                self.pieces.push(Piece::Text(b"[".to_vec()));
                self.at += 1;
            } else if rest.starts_with(b"[[") {
                self.block()?;
            } else {
                let later =
                    |mark: &[u8]| text::find(&rest[1..], mark).map_or(rest.len(), |i| i + 1);
                let end = later(b"{{").min(later(b"[["));
                self.pieces.push(Piece::Text(rest[..end].to_vec()));
                self.at += end;
            }
        }
        Ok(())
    }

    fn translate(&self, regex: &[u8]) -> At<String> {
        posix::translate(regex, self.options.ignore_case)
            .map_err(|e| (self.at, format!("invalid regex: {e}")))
    }

    fn regex(&mut self) -> At<()> {
        let body = &self.source[self.at + 2..];
        let Some(end) = text::find(body, b"}}") else {
            return Err((
                self.at,
                "found start of regex string with no end '}}'".into(),
            ));
        };
        let regex = self.translate(&body[..end])?;
        self.pieces.push(Piece::Regex(regex));
        self.at += 2 + end + 2;
        Ok(())
    }

    /// `[[...]]`: a string variable or a numeric block.
    fn block(&mut self) -> At<()> {
        let start = self.at + 2;
        let body = &self.source[start..];
        let end = block_end(body).map_err(|e| (self.at, e))?;
        let body = &body[..end];
        match body.first() {
            Some(b'#') => self.number(start + 1, &body[1..], false)?,
            Some(b'@') => self.number(start, body, true)?,
            _ => self.string(start, body)?,
        }
        self.at = start + end + 2;
        Ok(())
    }

    fn string(&mut self, start: usize, body: &[u8]) -> At<()> {
        let colon = body.iter().position(|&b| b == b':');
        let head = &body[..colon.unwrap_or(body.len())];
        if let Some(blank) = head.iter().position(|b| matches!(b, b' ' | b'\t')) {
            return Err((start + blank, "unexpected whitespace".into()));
        }
        if head.is_empty() {
            return Err((start, "empty variable name".into()));
        }
        let shown = String::from_utf8_lossy(head).into_owned();
        let name = match split_name(&shown) {
            Some((name, "")) => name.to_string(),
            Some(_) => {
                let what = if colon.is_some() { "definition" } else { "use" };
                return Err((start, format!("invalid name in string variable {what}")));
            }
            None => return Err((start, "invalid variable name".into())),
        };
        let Some(colon) = colon else {
            let same_line = self.here.contains(&name);
            self.pieces.push(Piece::Use { name, same_line });
            return Ok(());
        };
        if self.scope.formats.contains_key(&name) {
            return Err((
                start,
                format!("numeric variable with name '{name}' already exists"),
            ));
        }
        let source = &body[colon + 1..];
        let regex = if source.is_empty() {
            String::new()
        } else {
            self.translate(source)?
        };
        self.here.insert(name.clone());
        self.scope.strings.insert(name.clone());
        self.pieces.push(Piece::Define { name, regex });
        Ok(())
    }

    fn number(&mut self, start: usize, body: &[u8], legacy: bool) -> At<()> {
        let shown = String::from_utf8_lossy(body);
        let block = numeric::parse(&shown, &self.scope.formats, legacy)
            .map_err(|(at, message)| (start + at.min(body.len()), message))?;
        // A name that an expression meets first is unsigned until it is defined.
        let mut used = Vec::new();
        block.expr.iter().for_each(|e| e.variables(&mut used));
        for name in used {
            if self.here.contains(name) && self.scope.formats.contains_key(name) {
                let message = format!(
                    "numeric variable '{name}' defined earlier in the same CHECK directive"
                );
                return Err((start, message));
            }
            self.scope
                .formats
                .entry(name.to_string())
                .or_insert(Format::UNSIGNED);
        }
        if let Some(name) = &block.define {
            if self.scope.strings.contains(name) {
                return Err((
                    start,
                    format!("string variable with name '{name}' already exists"),
                ));
            }
            match self.scope.formats.insert(name.clone(), block.format) {
                // Redefined: until this directive has matched, the name keeps its older value.
                Some(older) if older == block.format => {}
                Some(older) => {
                    let message = format!(
                        "format {} of '{name}' differs from {older} of its previous definition",
                        block.format
                    );
                    return Err((start, message));
                }
                None => drop(self.here.insert(name.clone())),
            }
        }
        let numeric::Block {
            format,
            define,
            expr,
        } = block;
        self.pieces.push(Piece::Number {
            format,
            define,
            expr,
        });
        Ok(())
    }
}

/// The offset of the `]]` that closes a block; brackets inside it are balanced.
fn block_end(body: &[u8]) -> Result<usize, String> {
    let mut depth = 0usize;
    let mut at = 0;
    while at < body.len() {
        if depth == 0 && body[at..].starts_with(b"]]") {
            return Ok(at);
        }
        match body[at] {
            b'\\' => at += 1,
            b'[' => depth += 1,
            b']' if depth == 0 => {
                return Err("missing closing \"]\" for regex variable".into());
            }
            b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    Err("invalid substitution block, no ]] found".into())
}

impl Pattern {
    /// Does it define or use a variable? (To define a number without giving it a value is none.)
    pub(crate) fn has_variable(&self) -> bool {
        self.pieces.iter().any(|p| match p {
            Piece::Text(_) | Piece::Regex(_) => false,
            Piece::Define { .. } | Piece::Use { .. } => true,
            Piece::Number { expr, .. } => expr.is_some(),
        })
    }
}

/// For reports.
impl Pattern {
    /// The variables used that have a value, with it.
    pub(crate) fn used(&self, vars: &Variables) -> Vec<(String, String)> {
        let mut used = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Use {
                    name,
                    same_line: false,
                } => {
                    if let Some(value) = vars.strings.get(name) {
                        used.push((name.clone(), String::from_utf8_lossy(value).into_owned()));
                    }
                }
                Piece::Number {
                    expr: Some(expr), ..
                } => {
                    let mut names = Vec::new();
                    expr.variables(&mut names);
                    for name in names {
                        if let Some(value) = vars.numbers.get(name) {
                            used.push((name.to_string(), value.to_string()));
                        }
                    }
                }
                _ => {}
            }
        }
        used.sort();
        used.dedup();
        used
    }

    /// The fixed text of the pattern, values in place: what a near miss resembles.
    pub(crate) fn example(&self, vars: &Variables) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Use { name, .. } => {
                    out.extend_from_slice(vars.strings.get(name).map_or(&[][..], |v| v));
                }
                Piece::Number {
                    format,
                    expr: Some(expr),
                    ..
                } => {
                    let value = expr.value(self.line, &vars.numbers);
                    let text = value.and_then(|v| format.write(v)).unwrap_or_default();
                    out.extend_from_slice(text.as_bytes());
                }
                _ => {}
            }
        }
        out
    }
}
