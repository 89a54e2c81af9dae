//! Builtin attributes that are text: strings, symbols, what is kept as it was written.

use std::fmt::{self, Display, Write};

use super::{AttrData, builtin};
use crate::fmt::quote;
use crate::name::Name;
use crate::types::Type;

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
    /// here (`affine_set<…>`, `sparse<…>`, `1.5 : f80`, strings that are no UTF-8): kept as text.
    OpaqueAttr {
        /// All of its text, the type included.
        pub text: Box<str>,
        /// Its type, where the text has one behind `:`.
        pub ty: Option<Type>,
    } "opaque"
}
impl Display for OpaqueAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
