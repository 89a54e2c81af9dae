//! Pieces of text that many kinds of data print alike: lists, strings in quotes.

use std::fmt::{self, Display, Write};

/// Writes items separated by `, `.
pub(crate) fn comma<T: Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// Writes a string in quotes, escaped so that the parser reads it back.
pub fn quote(f: &mut impl Write, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            c if (c as u32) < 0x20 || c as u32 == 0x7F => write!(f, "\\{:02X}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// The bytes behind the quotes of a string, escapes replaced: `\n \t \" \\` and two hex digits.
/// `None` for an escape that is none.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.bytes();
    while let Some(b) = bytes.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        match bytes.next()? {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b @ (b'"' | b'\\') => out.push(b),
            high => {
                let low = bytes.next()?;
                let digit = |b: u8| (b as char).to_digit(16);
                out.push((digit(high)? * 16 + digit(low)?) as u8);
            }
        }
    }
    Some(out)
}

/// The text behind the quotes of a string; `None` also for bytes that are no UTF-8.
pub fn unquote(text: &str) -> Option<String> {
    if !text.contains('\\') {
        let inner = text.strip_prefix('"')?.strip_suffix('"')?;
        return Some(inner.to_string());
    }
    String::from_utf8(unescape(text)?).ok()
}
