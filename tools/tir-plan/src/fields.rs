//! The fields of a line with commas.

use std::borrow::Cow;

use tir::{Diagnostic, Loc, Name};

/// A place in a file; the column counts characters from 0.
pub(crate) fn place(name: Name, line: usize, column: usize) -> Loc {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Loc::file(name, number(line), number(column).saturating_add(1))
}

/// The fields of a line, each with the byte where it begins.
pub(crate) struct Fields<'t> {
    name: Name,
    number: usize,
    line: &'t str,
    pub(crate) all: Vec<(usize, String)>,
}

impl<'t> Fields<'t> {
    pub(crate) fn of(name: Name, number: usize, line: &'t str) -> Result<Self, Diagnostic> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let rest = &line[from..];
            let skipped = rest.len() - rest.trim_start().len();
            let (field, len) = match rest.trim_start().strip_prefix('"') {
                Some(quoted) => {
                    let Some((field, len)) = unquote(quoted) else {
                        let message = "a quote is not closed";
                        return Err(Diagnostic::error(message).at(place(name, number, from)));
                    };
                    let end = skipped + 1 + len;
                    let comma = rest[end..].find(',').unwrap_or(rest.len() - end);
                    (field, end + comma)
                }
                None => {
                    let len = rest.find(',').unwrap_or(rest.len());
                    (rest[..len].trim().to_string(), len)
                }
            };
            all.push((from + skipped, field));
            from += len + 1;
            if from > line.len() {
                break;
            }
        }
        Ok(Fields {
            name,
            number,
            line,
            all,
        })
    }

    pub(crate) fn at(&self, field: usize) -> Loc {
        let at = self.all.get(field).map_or(0, |f| f.0);
        let column = self.line[..at].chars().count();
        place(self.name, self.number, column)
    }

    pub(crate) fn error(&self, field: usize, message: String) -> Diagnostic {
        Diagnostic::error(message).at(self.at(field))
    }

    /// The line as it stands there, without a field.
    pub(crate) fn without(&self, field: Option<usize>) -> Cow<'t, str> {
        let Some(field) = field else {
            return self.line.trim_end().into();
        };
        let quoted = |text: &str| text.contains([',', '"']);
        let others = self.all.iter().enumerate().filter(|(i, _)| *i != field);
        let others = others.map(|(_, (_, text))| match quoted(text) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.clone(),
        });
        others.collect::<Vec<_>>().join(",").into()
    }
}

/// The text up to the closing quote, and how many bytes it takes with that.
fn unquote(text: &str) -> Option<(String, usize)> {
    let (mut out, mut from) = (String::new(), 0);
    loop {
        let end = from + text[from..].find('"')?;
        out += &text[from..end];
        if !text[end + 1..].starts_with('"') {
            return Some((out.trim().to_string(), end + 1));
        }
        out.push('"');
        from = end + 2;
    }
}
