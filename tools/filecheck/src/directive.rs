//! The directives of a check file.

use crate::Options;
use crate::pattern::{self, Kind, Origin, Pattern, Scope};
use crate::text;
use regex::bytes::Regex;

/// A directive with a place in the order, and the NOTs and DAGs that stand before it.
pub(crate) struct Directive {
    pub(crate) pattern: Pattern,
    pub(crate) before: Vec<Pattern>,
}

/// Why a check file cannot be used.
pub(crate) struct BadChecks {
    pub(crate) message: String,
    /// Where in the canonical check file, if anywhere.
    pub(crate) at: Option<std::ops::Range<usize>>,
}

impl BadChecks {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        BadChecks {
            message: message.into(),
            at: None,
        }
    }
}

/// Reads all directives of the canonical text `checks`.
pub(crate) fn parse(
    checks: &[u8],
    options: &Options,
    scope: &mut Scope,
) -> Result<Vec<Directive>, BadChecks> {
    let prefixes = Prefixes::new(options)?;
    let mut implicit = Vec::new();
    for not in &options.implicit_not {
        implicit.push(implicit_not(not, options, scope)?);
    }
    let mut directives: Vec<Directive> = Vec::new();
    let mut pending = implicit.clone();
    let mut used = vec![false; prefixes.check.len()];
    let exact = options.strict_whitespace && options.match_full_lines;
    let (mut at, mut counted, mut line) = (0, 0, 1);
    while let Some(head) = prefixes.next(checks, at)? {
        line += checks[counted..head.start]
            .iter()
            .filter(|&&b| b == b'\n')
            .count();
        counted = head.start;
        let rest = &checks[head.end..];
        let blanks = if exact {
            0
        } else {
            rest.iter()
                .take_while(|b| matches!(b, b' ' | b'\t'))
                .count()
        };
        let start = head.end + blanks;
        let length = checks[start..]
            .iter()
            .position(|b| matches!(b, b'\n' | b'\r'));
        let end = start + length.unwrap_or(checks.len() - start);
        at = end;
        let Some(which) = head.prefix else { continue };
        used[which] = true;
        let prefix = &prefixes.check[which];
        let directive = format!("{prefix}{}", suffix(head.kind, head.count));
        let pieces = pattern::parse(&checks[start..end], head.kind, head.literal, options, scope)
            .map_err(|(offset, message)| {
            let from = (start + offset).min(end);
            let message = match message.strip_prefix("found") {
                Some(_) if offset == 0 => format!("{message} with prefix '{directive}:'"),
                _ => message,
            };
            BadChecks {
                message,
                at: Some(from..end),
            }
        })?;
        let range = if start < end {
            start..end
        } else {
            head.start..end
        };
        let pattern = Pattern {
            kind: head.kind,
            count: head.count.unwrap_or(1),
            pieces,
            origin: Origin::File(range),
            line,
            directive,
        };
        if head.kind == Kind::Label && pattern.has_variable() {
            let message = format!("found '{prefix}-LABEL:' with variable definition or use");
            return Err(BadChecks {
                message,
                at: Some(start..end),
            });
        }
        let needs_previous = matches!(head.kind, Kind::Next | Kind::Same | Kind::Empty);
        if needs_previous && directives.is_empty() {
            let message = format!(
                "found '{}' without previous '{prefix}:' line",
                pattern.directive
            );
            return Err(BadChecks {
                message,
                at: Some(head.start..end),
            });
        }
        if matches!(head.kind, Kind::Dag | Kind::Not) {
            pending.push(pattern);
            continue;
        }
        directives.push(Directive {
            pattern,
            before: std::mem::replace(&mut pending, implicit.clone()),
        });
    }
    let unused: Vec<&str> = prefixes
        .check
        .iter()
        .zip(&used)
        .filter(|(_, used)| !**used)
        .map(|(p, _)| p.as_str())
        .collect();
    let missing =
        unused.len() == used.len() || (!options.allow_unused_prefixes && !unused.is_empty());
    if missing && (implicit.is_empty() || !options.prefixes.is_empty()) {
        let s = if unused.len() > 1 { "es" } else { "" };
        let list: Vec<String> = unused.iter().map(|p| format!("'{p}:'")).collect();
        return Err(BadChecks::new(format!(
            "no check strings found with prefix{s} {}",
            list.join(", ")
        )));
    }
    if !pending.is_empty() {
        let end = Pattern {
            kind: Kind::End,
            count: 1,
            pieces: Vec::new(),
            origin: Origin::File(checks.len()..checks.len()),
            line: text::line_number(checks, checks.len()),
            directive: "end of input".into(),
        };
        directives.push(Directive {
            pattern: end,
            before: pending,
        });
    }
    Ok(directives)
}

fn implicit_not(source: &str, options: &Options, scope: &mut Scope) -> Result<Pattern, BadChecks> {
    let shown = format!("--implicit-check-not={source}");
    let body = text::canonical(
        source.trim_start_matches([' ', '\t']).as_bytes(),
        options.strict_whitespace,
    );
    let pieces = pattern::parse(&body, Kind::Not, false, options, scope)
        .map_err(|(_, message)| BadChecks::new(format!("in {shown}: {message}")))?;
    Ok(Pattern {
        kind: Kind::Not,
        count: 1,
        pieces,
        origin: Origin::Option(shown),
        line: 1,
        directive: "--implicit-check-not".into(),
    })
}

fn suffix(kind: Kind, count: Option<u32>) -> String {
    match (kind, count) {
        (_, Some(n)) => format!("-COUNT-{n}"),
        (Kind::Plain | Kind::End, None) => String::new(),
        (Kind::Next, None) => "-NEXT".into(),
        (Kind::Same, None) => "-SAME".into(),
        (Kind::Not, None) => "-NOT".into(),
        (Kind::Dag, None) => "-DAG".into(),
        (Kind::Label, None) => "-LABEL".into(),
        (Kind::Empty, None) => "-EMPTY".into(),
    }
}

/// The start of a directive: `CHECK-NEXT:` with its place.
struct Head {
    start: usize,
    /// Past the colon.
    end: usize,
    /// Which check prefix; none for a comment.
    prefix: Option<usize>,
    kind: Kind,
    count: Option<u32>,
    literal: bool,
}

struct Prefixes {
    check: Vec<String>,
    comment: Vec<String>,
    finder: Regex,
}

impl Prefixes {
    fn new(options: &Options) -> Result<Self, BadChecks> {
        let or = |given: &[String], fallback: &[&str]| -> Vec<String> {
            if given.is_empty() {
                fallback.iter().map(ToString::to_string).collect()
            } else {
                given.to_vec()
            }
        };
        let check = or(&options.prefixes, &["CHECK"]);
        let mut comment = or(&options.comment_prefixes, &["COM", "RUN"]);
        if options.comment_prefixes.is_empty() {
            comment.retain(|p| !check.contains(p));
        }
        let mut all: Vec<&String> = check.iter().chain(&comment).collect();
        for (i, prefix) in all.iter().enumerate() {
            if prefix.is_empty() || !prefix.bytes().all(word) {
                return Err(BadChecks::new(format!(
                    "prefix '{prefix}' must be made of letters, digits, hyphens and underscores"
                )));
            }
            if all[..i].contains(prefix) {
                return Err(BadChecks::new(format!("prefix '{prefix}' is given twice")));
            }
        }
        // The longest of those that begin at one place is tried first.
        all.sort_by_key(|p| std::cmp::Reverse(p.len()));
        let alternatives: Vec<String> = all.iter().map(|p| regex::escape(p)).collect();
        let finder = Regex::new(&alternatives.join("|"))
            .map_err(|e| BadChecks::new(format!("too many prefixes: {e}")))?;
        Ok(Prefixes {
            check,
            comment,
            finder,
        })
    }

    /// The first directive at or after `at`.
    fn next(&self, checks: &[u8], mut at: usize) -> Result<Option<Head>, BadChecks> {
        while let Some(hit) = self.finder.find_at(checks, at) {
            let inside = hit.start() > 0 && word(checks[hit.start() - 1]);
            if !inside && let Some(head) = self.head(checks, hit.start(), hit.end())? {
                return Ok(Some(head));
            }
            at = hit.end() + checks[hit.end()..].iter().take_while(|b| word(**b)).count();
        }
        Ok(None)
    }

    /// Reads what follows a prefix; `None` when it is no directive.
    fn head(&self, checks: &[u8], start: usize, end: usize) -> Result<Option<Head>, BadChecks> {
        let name = String::from_utf8_lossy(&checks[start..end]);
        let mut rest = Rest {
            text: checks,
            at: end,
        };
        if self.comment.iter().any(|p| *p == name) {
            let head = Head {
                start,
                end: end + 1,
                prefix: None,
                kind: Kind::Plain,
                count: None,
                literal: false,
            };
            return Ok(rest.eat(b":").then_some(head));
        }
        let Some(prefix) = self.check.iter().position(|p| *p == name) else {
            return Ok(None);
        };
        let bad = |message: String, to: usize| {
            Err(BadChecks {
                message,
                at: Some(start..to),
            })
        };
        let (mut kind, mut count, mut misspelled) = (Kind::Plain, None, false);
        if !rest.sees(b":") && !rest.sees(b"{") {
            misspelled = rest.eat(b"_");
            if !misspelled && !rest.eat(b"-") {
                return Ok(None);
            }
            if rest.eat(b"COUNT-") {
                match rest.number() {
                    Some(n) if rest.sees(b":") || rest.sees(b"{") => count = Some(n),
                    _ => {
                        let message =
                            format!("invalid count in -COUNT specification on prefix '{name}'");
                        return bad(message, rest.at);
                    }
                }
            } else if BAD_NOT.iter().any(|s| rest.sees(s)) {
                return bad(
                    format!("unsupported -NOT combo on prefix '{name}'"),
                    rest.at,
                );
            } else {
                match SUFFIXES.iter().find(|(s, _)| rest.eat(s)) {
                    Some((_, k)) => kind = *k,
                    None => return Ok(None),
                }
            }
        }
        let mut literal = false;
        if rest.eat(b"{") {
            loop {
                rest.blanks();
                if !rest.eat(b"LITERAL") {
                    return Ok(None);
                }
                literal = true;
                rest.blanks();
                if !rest.eat(b",") {
                    break;
                }
            }
            if !rest.eat(b"}") {
                return Ok(None);
            }
        }
        if !rest.eat(b":") {
            return Ok(None);
        }
        if misspelled {
            let shown = String::from_utf8_lossy(&checks[start..rest.at]).into_owned();
            return bad(format!("misspelled directive '{shown}'"), rest.at);
        }
        Ok(Some(Head {
            start,
            end: rest.at,
            prefix: Some(prefix),
            kind,
            count,
            literal,
        }))
    }
}

const SUFFIXES: [(&[u8], Kind); 6] = [
    (b"NEXT", Kind::Next),
    (b"SAME", Kind::Same),
    (b"NOT", Kind::Not),
    (b"DAG", Kind::Dag),
    (b"LABEL", Kind::Label),
    (b"EMPTY", Kind::Empty),
];

const BAD_NOT: [&[u8]; 8] = [
    b"DAG-NOT:",
    b"NOT-DAG:",
    b"NEXT-NOT:",
    b"NOT-NEXT:",
    b"SAME-NOT:",
    b"NOT-SAME:",
    b"EMPTY-NOT:",
    b"NOT-EMPTY:",
];

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

struct Rest<'a> {
    text: &'a [u8],
    at: usize,
}

impl Rest<'_> {
    fn sees(&self, token: &[u8]) -> bool {
        self.text[self.at..].starts_with(token)
    }

    fn eat(&mut self, token: &[u8]) -> bool {
        let hit = self.sees(token);
        if hit {
            self.at += token.len();
        }
        hit
    }

    fn blanks(&mut self) {
        self.at += self.text[self.at..]
            .iter()
            .take_while(|b| b.is_ascii_whitespace())
            .count();
    }

    /// A count of at least 1.
    fn number(&mut self) -> Option<u32> {
        let length = self.text[self.at..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        let digits = String::from_utf8_lossy(&self.text[self.at..self.at + length]).into_owned();
        self.at += length;
        digits
            .parse::<u32>()
            .ok()
            .filter(|n| (1..=i32::MAX as u32).contains(n))
    }
}
