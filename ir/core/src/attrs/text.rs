//! Builtin attributes that are text: strings, symbols, what is kept as it was written.

use std::fmt::{self, Display, Write};

use super::{AttrData, builtin};
use crate::name::Name;
use crate::types::Type;

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

builtin! {
    /// `"text"`, `"text" : !type`.
    StrAttr {
        /// The text.
        pub value: Box<str>,
        /// A type, in the rare case that one is said.
        pub ty: Option<Type>,
    } "string"
}
impl Display for StrAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quote(f, &self.value)?;
        match self.ty {
            Some(ty) => write!(f, " : {ty}"),
            None => Ok(()),
        }
    }
}

builtin! {
    /// `@module::@function`.
    SymbolRef {
        /// The names from the outermost in; never empty.
        pub path: Vec<Name>,
    } "symbol"
}

/// Writes a symbol name as it stands after `@`.
pub fn symbol_text(f: &mut impl Write, name: &str) -> fmt::Result {
    let mut chars = name.chars();
    let plain = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.'));
    f.write_char('@')?;
    if plain {
        f.write_str(name)
    } else {
        quote(f, name)
    }
}
impl Display for SymbolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.path.iter().enumerate() {
            if i > 0 {
                f.write_str("::")?;
            }
            symbol_text(f, name)?;
        }
        Ok(())
    }
}

builtin! {
    /// An attribute of a dialect that is not loaded, or of a builtin kind that has no meaning
    /// here (`affine_set<…>`, `sparse<…>`): kept as text.
    OpaqueAttr {
        /// All of its text.
        pub text: Box<str>,
    } "opaque"
}
impl Display for OpaqueAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
