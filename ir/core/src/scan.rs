//! Reads small languages from left to right, with places: pipelines, rules, formulas, formats.
//!
//! A [`Scanner`] skips white space before tokens, knows how deep the text nests, and makes errors
//! that say what was expected, what was found, and where. The text of programs has a grammar of
//! its own (`tir-text`).
//!
//! ```
//! use tir_core::{ScanError, Scanner};
//!
//! /// `1 + 2 + 3`
//! fn sum(text: &str) -> Result<i64, ScanError> {
//!     let mut s = Scanner::new(text);
//!     let mut sum = 0;
//!     loop {
//!         let at = s.at();
//!         let digits = s.word("a number", |c| c.is_ascii_digit())?;
//!         sum += digits.parse::<i64>().map_err(|_| s.error(at, "is too large"))?;
//!         if !s.eat("+") {
//!             break;
//!         }
//!     }
//!     s.end("`+`")?;
//!     Ok(sum)
//! }
//! assert_eq!(sum("1 + 2 +3").ok(), Some(6));
//! let error = sum("1 + x").err().map(|e| (e.at, e.message));
//! assert_eq!(error, Some((4, "expected a number, found 'x'".to_string())));
//! ```

use crate::diag::Diagnostic;
use crate::loc::LocFile;

/// Nesting beyond this is refused.
const DEPTH: usize = 64;

/// A text that is read from left to right.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// What is wrong in a text, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanError {
    /// The byte where it is.
    pub at: usize,
    /// How many characters it is about, at least one.
    pub len: usize,
    /// What it is.
    pub message: String,
}

impl ScanError {
    /// The line and column of its place in the text, both from 1.
    pub fn line_column(&self, text: &str) -> (u32, u32) {
        let before = text.get(..self.at).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[start..].chars().count() + 1;
        (line as u32, column as u32)
    }
    /// The same as an error in a file that holds `text`.
    pub fn diagnostic(&self, text: &str, file: LocFile) -> Diagnostic {
        let (line, column) = self.line_column(text);
        let loc = file.at(line, column);
        Diagnostic::error(&*self.message).at(loc).len(self.len)
    }
}

impl<'a> Scanner<'a> {
    /// At the start of a text.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
        }
    }
    /// All of the text.
    pub fn text(&self) -> &'a str {
        self.text
    }
    /// What is left.
    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }
    /// The byte of the next token: white space before it is skipped.
    pub fn at(&mut self) -> usize {
        self.space();
        self.at
    }
    /// Goes to a byte, which must be one that [`at`](Self::at) gave, or lie between characters.
    pub fn go(&mut self, at: usize) {
        self.at = at.min(self.text.len());
    }
    /// Skips white space.
    pub fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }
    /// The next character behind white space.
    pub fn peek(&mut self) -> Option<char> {
        self.space();
        self.rest().chars().next()
    }
    /// Whether this comes next, without white space before it.
    pub fn touches(&self, token: &str) -> bool {
        self.rest().starts_with(token)
    }
    /// Takes a token if it comes next.
    pub fn eat(&mut self, token: &str) -> bool {
        self.space();
        self.eat_touching(token)
    }
    /// Takes a token if it comes next without white space before it.
    pub fn eat_touching(&mut self, token: &str) -> bool {
        let found = self.touches(token);
        self.at += if found { token.len() } else { 0 };
        found
    }
    /// Takes a token.
    pub fn expect(&mut self, token: &str) -> Result<(), ScanError> {
        if self.eat(token) {
            return Ok(());
        }
        Err(self.expected(&format!("'{token}'")))
    }
    /// The text must end here; `or` is what else could come.
    pub fn end(&mut self, or: &str) -> Result<(), ScanError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected(&format!("{or} or the end"))),
        }
    }
    /// Takes the characters that fit, without white space before them.
    pub fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }
    /// Takes a word of characters that fit; `what` names it where there is none.
    pub fn word(&mut self, what: &str, fits: impl Fn(char) -> bool) -> Result<&'a str, ScanError> {
        self.space();
        match self.take(fits) {
            "" => Err(self.expected(what)),
            word => Ok(word),
        }
    }

    /// The error that something else was expected next.
    pub fn expected(&mut self, what: &str) -> ScanError {
        let found = match self.peek() {
            Some(c) => format!("'{c}'"),
            None => "the end".to_string(),
        };
        self.error(self.at, format!("expected {what}, found {found}"))
    }
    /// An error at a byte.
    pub fn error(&self, at: usize, message: impl Into<String>) -> ScanError {
        ScanError {
            at,
            len: 1,
            message: message.into(),
        }
    }
    /// One level deeper, behind an opening bracket; too deep is an error.
    pub fn enter(&mut self) -> Result<(), ScanError> {
        self.depth += 1;
        if self.depth > DEPTH {
            let message = format!("is nested deeper than {DEPTH}");
            return Err(self.error(self.at.saturating_sub(1), message));
        }
        Ok(())
    }
    /// One level up.
    pub fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}
