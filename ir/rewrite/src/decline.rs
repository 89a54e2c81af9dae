//! Reasons why patterns do not apply.

use std::fmt;

use tir_core::Failure;

/// Why a pattern does not apply. Cheap to make: the text of a lazy reason is only computed when
/// somebody asks.
pub struct Decline(Reason);

enum Reason {
    Fixed(&'static str),
    Lazy(Box<dyn Fn() -> String>),
}

impl Decline {
    /// The op has not the shape the pattern looks for.
    pub const NO_MATCH: Decline = Decline(Reason::Fixed("does not match"));

    /// A reason that is formatted only when it is shown.
    pub fn because(reason: impl Fn() -> String + 'static) -> Self {
        Self(Reason::Lazy(Box::new(reason)))
    }
}
impl From<&'static str> for Decline {
    fn from(reason: &'static str) -> Self {
        Self(Reason::Fixed(reason))
    }
}
impl From<String> for Decline {
    fn from(reason: String) -> Self {
        Self::because(move || reason.clone())
    }
}
impl From<Failure> for Decline {
    fn from(failure: Failure) -> Self {
        Self::because(move || failure.message.clone())
    }
}
impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Fixed(text) => f.write_str(text),
            Reason::Lazy(text) => f.write_str(&text()),
        }
    }
}
impl fmt::Debug for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decline({self})")
    }
}
