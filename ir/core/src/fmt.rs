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
