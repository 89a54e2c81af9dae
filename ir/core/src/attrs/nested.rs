//! Builtin attributes that hold others.

use std::fmt::{self, Display, Write};

use super::{Attr, AttrData, UnitAttr, builtin};
use crate::fmt::{comma, quote};
use crate::name::Name;

builtin! {
    /// `[a, b]`.
    ArrayAttr(Vec<Attr>); "array"
}
impl Display for ArrayAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        comma(f, &self.0)?;
        f.write_char(']')
    }
}

builtin! {
    /// `{a = 1 : i32, b}`; made by [`DictAttr::new`], which sorts by key.
    DictAttr {
        entries: Vec<(Name, Attr)>,
    } "dictionary"
}
impl DictAttr {
    /// A dictionary of these entries; of two with one key the last stays.
    pub fn new(mut entries: Vec<(Name, Attr)>) -> Self {
        entries.reverse();
        entries.sort_by_key(|entry| entry.0);
        entries.dedup_by_key(|entry| entry.0);
        Self { entries }
    }
    /// The entries, sorted by key.
    pub fn entries(&self) -> &[(Name, Attr)] {
        &self.entries
    }
    /// The attribute under a key.
    pub fn get(&self, key: &str) -> Option<Attr> {
        let found = self.entries.iter().find(|(name, _)| *name == key)?;
        Some(found.1)
    }
}

/// Writes `{a = 1 : i32, b}`.
pub fn dictionary_text(f: &mut impl Write, entries: &[(Name, Attr)]) -> fmt::Result {
    f.write_char('{')?;
    for (i, (key, value)) in entries.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        key_text(f, key)?;
        if !value.is::<UnitAttr>() {
            write!(f, " = {value}")?;
        }
    }
    f.write_char('}')
}

/// Writes the key of a dictionary entry, in quotes where it is not an identifier.
pub fn key_text(f: &mut impl Write, key: &str) -> fmt::Result {
    let mut chars = key.chars();
    let head = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let plain = head && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.'));
    if plain {
        f.write_str(key)
    } else {
        quote(f, key)
    }
}
impl Display for DictAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dictionary_text(f, &self.entries)
    }
}
