//! Sentences for what the grammar refuses.

use std::sync::Mutex;

use pest::Parser;
use pest::error::{Error, InputLocation};
use tir_core::{Dialect, Failure};

use crate::cursor::{Cursor, is_letter};
use crate::source::Source;
use crate::texts::Texts;
use crate::tree::{Grammar, Rule};

/// The name that is nearest to a word, if one is near.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    let scored = names.filter_map(|name| {
        let close = name.len().abs_diff(word.len()) <= limit && word.len() <= 64;
        let distance = close.then(|| distance(word, name))?;
        // Names that share no letter are not near.
        let shares = distance < word.chars().count();
        (distance <= limit && shares && name != word).then_some((distance, name))
    });
    scored.min().map(|(_, name)| name)
}

/// The builtin type that a name which is none may mean: that of the same values in another language, or one that is spelled alike.
pub(crate) fn type_meant(name: &str) -> Option<&'static str> {
    Some(match name {
        "bool" => "i1",
        "byte" | "char" | "int8" => "i8",
        "short" | "int16" => "i16",
        "int" | "int32" => "i32",
        "long" | "int64" => "i64",
        "uint8" => "ui8",
        "uint16" => "ui16",
        "uint32" => "ui32",
        "uint64" => "ui64",
        "half" | "float16" => "f16",
        "bfloat" | "bfloat16" => "bf16",
        "float" | "float32" => "f32",
        "double" | "float64" => "f64",
        _ => {
            let known = [
                "index", "none", "f16", "bf16", "f32", "f64", "i1", "i8", "i16", "i32", "i64",
            ];
            return nearest(name, known.into_iter());
        }
    })
}

/// Edit distance, with swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1)
                .min(row[j - 1] + 1)
                .min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// The loaded op whose name is this word behind a dialect's.
pub(crate) fn op_named(word: &str) -> Option<&'static str> {
    let dialects = Dialect::all();
    let names = || dialects.iter().flat_map(|d| d.ops.iter().map(|op| op.name));
    let tail = |name: &&str| name.split_once('.').is_some_and(|(_, tail)| tail == word);
    // Frequent words first: `return` is more often a function's.
    names()
        .filter(tail)
        .min_by_key(|name| (!name.starts_with("func."), *name))
}

/// The loaded op whose name is near to this one.
pub(crate) fn op_like(name: &str) -> Option<&'static str> {
    let dialects = Dialect::all();
    nearest(
        name,
        dialects.iter().flat_map(|d| d.ops.iter().map(|op| op.name)),
    )
}

/// Pest keeps this detail for the whole process: one at a time.
static DETAIL: Mutex<()> = Mutex::new(());

/// Tokens that say nothing to a person.
const IGNORED: &[&str] = &["//", "BUILTIN_RULE"];

const NAME: &str = "a name";
const NUMBER: &str = "a number";

/// The furthest place that a rule reaches in a text that it refuses, and what it wants there.
fn furthest(rule: Rule, text: &str) -> (usize, Vec<String>) {
    let guard = DETAIL.lock().unwrap_or_else(|poison| poison.into_inner());
    pest::set_error_detail(true);
    let parsed = Grammar::parse(rule, text);
    pest::set_error_detail(false);
    drop(guard);
    let Err(error) = parsed else {
        return (0, Vec::new());
    };
    match error.parse_attempts() {
        Some(attempts) => {
            let mut tokens: Vec<String> = attempts
                .expected_tokens()
                .into_iter()
                .map(|token| token.to_string())
                .filter(|token| !token.trim().is_empty() && !IGNORED.contains(&&**token))
                .collect();
            // Ranges of letters and digits stand for names and numbers.
            let range = |token: &str| token.len() == 4 && token[1..].starts_with("..");
            let digits = tokens.iter().any(|token| token == "0..9");
            let letters = tokens.iter().any(|token| token == "a..z");
            tokens.retain(|token| !range(token));
            if letters {
                tokens.retain(|token| token != "_" && token != "$" && token != ".");
                tokens.push(NAME.to_string());
            }
            if digits {
                tokens.push(NUMBER.to_string());
            }
            tokens.sort();
            tokens.dedup();
            (attempts.max_position, tokens)
        }
        None => (start(&error), Vec::new()),
    }
}

fn start(error: &Error<Rule>) -> usize {
    match error.location {
        InputLocation::Pos(at) => at,
        InputLocation::Span((at, _)) => at,
    }
}

/// `a`, `b` or `c`.
fn list(tokens: &[String]) -> String {
    let quote = |token: &String| {
        if token == NAME || token == NUMBER {
            token.clone()
        } else {
            format!("`{token}`")
        }
    };
    let quoted: Vec<String> = tokens.iter().map(quote).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

fn found(token: &str) -> String {
    if token.is_empty() {
        "found the end".to_string()
    } else {
        format!("found `{token}`")
    }
}

/// What is wrong with the text of a type or attribute.
pub(crate) fn explain_text(
    texts: &Texts<'_>,
    text: &str,
    what: &str,
    error: &Error<Rule>,
) -> Failure {
    let rule = match what {
        "a type" => Rule::only_type,
        "a dictionary" => Rule::only_dictionary,
        "a location" => Rule::only_location,
        _ => Rule::only_attr,
    };
    // Long texts are not read a second time.
    let (mut at, tokens) = if text.len() < 1 << 20 {
        furthest(rule, text)
    } else {
        (start(error), Vec::new())
    };
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let mut cursor = Cursor::at(text, at, text.len());
    let token = cursor.token();
    let place = if token.is_empty() { text } else { token };
    if let Some(open) = unclosed(text, at, token) {
        let open = &text[open..open + 1];
        return texts.error(open, format!("this `{open}` is not closed"));
    }
    let head = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
        .unwrap_or("");
    let message = if at == 0 || tokens.is_empty() || tokens.len() > 6 {
        if at == 0 {
            format!("expected {what}, {}", found(token))
        } else if head.is_empty() {
            format!("unexpected `{token}` in {what}")
        } else {
            format!("unexpected `{token}` in `{head}…`")
        }
    } else {
        format!("expected {}, {}", list(&tokens), found(token))
    };
    texts.error(place, message)
}

/// The innermost bracket before a place that is open where `token` closes one of another kind.
fn unclosed(text: &str, at: usize, token: &str) -> Option<usize> {
    let opening = |close: char| match close {
        ')' => Some('('),
        ']' => Some('['),
        '}' => Some('{'),
        '>' => Some('<'),
        _ => None,
    };
    let wanted = opening(token.chars().next()?)?;
    let mut open: Vec<(usize, char)> = Vec::new();
    let mut chars = text[..at].char_indices();
    let mut last = ' ';
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => while chars.next().is_some_and(|(_, c)| c != '"') {},
            '(' | '[' | '{' | '<' => open.push((i, c)),
            // The arrow of a function type.
            '>' if last == '-' => {}
            c if opening(c).is_some() && open.last().map(|o| o.1) == opening(c) => {
                open.pop();
            }
            _ => {}
        }
        last = c;
    }
    let (place, innermost) = open.pop()?;
    (innermost != wanted && open.iter().any(|o| o.1 == wanted)).then_some(place)
}

/// What is wrong with a run of operations that the grammar refuses.
pub(crate) fn explain_ops(source: &Source<'_>, text: &str) -> Failure {
    let (mut at, tokens) = furthest(Rule::ops, text);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    // The last operation that begins at or before the place.
    let mut start = None;
    let mut cursor = Cursor::new(text);
    // Not behind a comma: there a list of values goes on.
    let mut fresh = true;
    while !cursor.done() && cursor.pos <= at {
        let here = cursor.pos;
        let rest = cursor.rest();
        if fresh && crate::source::starts_op(rest) {
            start = Some(here);
            // Past its results and `=`.
            if rest.starts_with('%') {
                while cursor.sigil(b'%').is_some() {
                    cursor.eat(":");
                    cursor.number();
                    cursor.eat(",");
                }
                cursor.eat("=");
            }
        }
        let token = cursor.token();
        if token.is_empty() {
            break;
        }
        fresh = token != ",";
    }
    let mut here = Cursor::at(text, at, text.len());
    here.ws();
    if let Some(start) = start
        && let Some((piece, message)) = generic(text, start)
    {
        return Box::new(source.error(piece, message));
    }
    let token = here.token();
    let before = text[..at].trim_end();
    // A word without a dot where an operation should begin.
    let word_start = before
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |i| {
            i + before[i..].chars().next().map_or(1, char::len_utf8)
        });
    let word = &before[word_start..];
    let line = before[..word_start].rfind('\n').map_or(0, |i| i + 1);
    let first = before[line..word_start]
        .trim_start_matches(|c: char| c.is_whitespace() || c == '{' || c == '}');
    if word.bytes().next().is_some_and(is_letter) && first.is_empty() && !token.contains('.') {
        let begins = before[..word_start].trim().is_empty();
        let region = source.offset(text).is_some_and(|offset| offset > 0);
        let message = if begins && region && text[at..].trim_start().starts_with('=') {
            format!(
                "`{word}` is not an operation; attributes in front of a region stand behind \
                 `attributes`: `attributes {{{word} = …}}`"
            )
        } else {
            not_an_op(word)
        };
        return Box::new(source.error(word, message));
    }
    let piece = if token.is_empty() { &text[at..] } else { token };
    let message = if before.ends_with('%') || token == "%" {
        "a name must follow `%`".to_string()
    } else if before.ends_with('=') && start.is_some_and(|start| text[start..].starts_with('%')) {
        format!("expected an operation behind `=`, {}", found(token))
    } else if token.bytes().next().is_some_and(is_letter) && !token.contains('.') {
        not_an_op(token)
    } else if token.starts_with('%') {
        let what = if text[at..].trim_start()[token.len()..]
            .trim_start()
            .starts_with('=')
        {
            "expected an operation behind `=`: its name has a dot"
        } else {
            "expected an operation; a value alone is none"
        };
        what.to_string()
    } else if tokens.is_empty() || tokens.len() > 6 {
        format!("expected an operation, {}", found(token))
    } else {
        format!("expected {}, {}", list(&tokens), found(token))
    };
    Box::new(source.error(piece, message))
}

/// The sentence for a word where an operation should begin.
pub(crate) fn not_an_op(word: &str) -> String {
    match op_named(word) {
        Some(name) => format!("`{word}` is not an operation; did you mean `{name}`?"),
        None => format!("`{word}` is not an operation: its name has a dot (`dialect.{word}`)"),
    }
}

/// Goes through the generic form of the operation at `start`, to the first thing that is wrong.
fn generic(text: &str, start: usize) -> Option<(&str, String)> {
    let mut c = Cursor::at(text, start, text.len());
    while c.sigil(b'%').is_some() {
        if c.eat(":") {
            c.number()?;
        }
        if !c.eat(",") {
            break;
        }
    }
    if c.pos > start {
        c.eat("=");
    }
    let name = c.string()?;
    let say = |mut c: Cursor<'_>, message: String| {
        c.ws();
        let at = c.pos;
        let len = c.token().len();
        // At the end of the text, the place behind what is there.
        let piece = if len == 0 {
            let end = text.trim_end().len();
            &text[end.saturating_sub(1).max(start)..end]
        } else {
            &text[at..at + len]
        };
        Some((piece, message))
    };
    if !c.eat("(") {
        return say(c, format!("expected `(` and the operands of {name}"));
    }
    if !c.eat(")") {
        loop {
            if c.sigil(b'%').is_none() {
                c.ws();
                let message = if c.byte() == Some(b'%') {
                    "a name must follow `%`".to_string()
                } else {
                    let token = c.clone().token();
                    format!("expected an operand of {name}, {}", found(token))
                };
                return say(c, message);
            }
            if c.eat(",") {
                continue;
            }
            if c.eat(")") {
                break;
            }
            let hint = if c.clone().eat(":") {
                "; the types of operands stand behind the last `:` of the operation"
            } else {
                ""
            };
            return say(
                c,
                format!("expected `,` or `)` in the operands of {name}{hint}"),
            );
        }
    }
    c.ws();
    if c.byte() == Some(b'[') {
        let mut inner = c;
        inner.pos += 1;
        if !inner.eat("]") {
            loop {
                if inner.sigil(b'^').is_none() {
                    return say(
                        inner,
                        format!("expected a block `^name` in the successors of {name}"),
                    );
                }
                if inner.eat("]") {
                    break;
                }
                if !inner.eat(",") {
                    return say(
                        inner,
                        format!("expected `,` or `]` in the successors of {name}"),
                    );
                }
            }
        }
        c = inner;
        c.ws();
    }
    if c.byte() == Some(b'<') {
        c.balanced()?;
        c.ws();
    }
    if c.byte() == Some(b'(') {
        let mut inner = c;
        inner.pos += 1;
        inner.ws();
        if inner.byte() != Some(b'{') {
            return say(c, format!("expected `:` and the type of {name} before `(`"));
        }
        c.balanced()?;
        c.ws();
    }
    if c.byte() == Some(b'{') {
        c.balanced()?;
    }
    if !c.eat(":") {
        return say(c, format!("expected `:` and the type of {name}"));
    }
    c.ws();
    if c.byte() != Some(b'(') {
        return say(
            c,
            format!("the type of {name} is a function type: expected `(`"),
        );
    }
    let mut ty = c;
    ty.balanced()?;
    let mut arrow = ty;
    if !arrow.eat("->") {
        return say(
            ty,
            format!("the type of {name} is a function type: expected `->`"),
        );
    }
    if c.type_text().is_none() {
        return say(arrow, format!("expected the result types of {name}"));
    }
    None
}
