//! A place in a text, and the tokens read from it.

/// A text read from left to right.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) text: &'a str,
    pub(crate) pos: usize,
    pub(crate) end: usize,
}

pub(crate) fn is_letter(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_'
}
/// A byte of a word; bytes above 127 belong to letters of other scripts.
pub(crate) fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 128
}
/// A byte of what stands after `%`, `^`, `#`, `!` and `@`; `-` too, unless `>` follows.
pub(crate) fn is_id(b: u8) -> bool {
    is_word(b) || b == b'.'
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            pos: 0,
            end: text.len(),
        }
    }
    pub(crate) fn at(text: &'a str, pos: usize, end: usize) -> Self {
        Self { text, pos, end }
    }

    pub(crate) fn byte(&self) -> Option<u8> {
        self.nth(0)
    }
    pub(crate) fn nth(&self, n: usize) -> Option<u8> {
        let at = self.pos + n;
        if at < self.end {
            self.text.as_bytes().get(at).copied()
        } else {
            None
        }
    }
    /// All that is left.
    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.pos..self.end).unwrap_or("")
    }
    pub(crate) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.pos).unwrap_or("")
    }

    /// Skips whitespace and comments.
    pub(crate) fn ws(&mut self) {
        loop {
            match self.byte() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.pos += 1,
                Some(b'/') if self.nth(1) == Some(b'/') => {
                    let rest = self.rest();
                    self.pos += rest.find('\n').unwrap_or(rest.len());
                }
                _ => break,
            }
        }
    }

    pub(crate) fn done(&mut self) -> bool {
        self.ws();
        self.pos >= self.end
    }

    /// Takes punctuation if it comes next.
    pub(crate) fn eat(&mut self, punctuation: &str) -> bool {
        self.ws();
        let found = self.rest().starts_with(punctuation);
        // A `-` is not the start of `->`.
        let longer = punctuation == "-" && self.rest().starts_with("->");
        if found && !longer {
            self.pos += punctuation.len();
            return true;
        }
        false
    }

    /// The word that comes next, without taking it.
    pub(crate) fn peek_word(&mut self) -> Option<&'a str> {
        self.ws();
        let first = self.byte()?;
        if !is_letter(first) {
            return None;
        }
        let mut at = *self;
        at.skip(is_word);
        Some(at.since(self.pos))
    }
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        let word = self.peek_word()?;
        self.pos += word.len();
        Some(word)
    }
    /// Takes a word if it comes next.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        if self.peek_word() == Some(word) {
            self.pos += word.len();
            return true;
        }
        false
    }

    fn skip(&mut self, keep: fn(u8) -> bool) {
        while self.byte().is_some_and(keep) {
            self.pos += 1;
        }
    }
    fn skip_id(&mut self) {
        loop {
            match self.byte() {
                Some(b'-') if self.nth(1) != Some(b'>') => self.pos += 1,
                Some(b) if is_id(b) => self.pos += 1,
                _ => break,
            }
        }
    }

    /// What stands after a sigil: `%name`, `^name`; with `#number` for values.
    pub(crate) fn sigil(&mut self, sigil: u8) -> Option<&'a str> {
        self.ws();
        if self.byte() != Some(sigil) {
            return None;
        }
        let start = self.pos;
        self.pos += 1;
        self.skip_id();
        if self.pos == start + 1 {
            self.pos = start;
            return None;
        }
        if sigil == b'%' && self.byte() == Some(b'#') {
            let before = self.pos;
            self.pos += 1;
            self.skip(|b| b.is_ascii_digit());
            if self.pos == before + 1 {
                self.pos = before;
            }
        }
        Some(self.since(start))
    }

    /// A string with its quotes.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        self.ws();
        if self.byte() != Some(b'"') {
            return None;
        }
        let start = self.pos;
        let mut at = *self;
        at.pos += 1;
        loop {
            match at.byte()? {
                b'"' => break,
                b'\\' => at.pos += 2,
                _ => at.pos += 1,
            }
        }
        self.pos = at.pos + 1;
        Some(self.since(start))
    }

    /// A number with its sign: digits, or a word that begins with a digit.
    pub(crate) fn number(&mut self) -> Option<&'a str> {
        self.ws();
        let start = self.pos;
        let mut at = *self;
        if at.byte() == Some(b'-') {
            at.pos += 1;
        }
        if !at.byte()?.is_ascii_digit() {
            return None;
        }
        at.skip(is_word);
        if at.byte() == Some(b'.') {
            at.pos += 1;
            at.skip(|b| b.is_ascii_digit());
            let exponent = at;
            if matches!(at.byte(), Some(b'e' | b'E')) {
                at.pos += 1;
                if matches!(at.byte(), Some(b'+' | b'-')) {
                    at.pos += 1;
                }
                let digits = at.pos;
                at.skip(|b| b.is_ascii_digit());
                if at.pos == digits {
                    at = exponent;
                }
            }
        }
        *self = at;
        Some(self.since(start))
    }

    /// One symbol name with its `@`: `@name`, `@"name"`.
    pub(crate) fn symbol(&mut self) -> Option<&'a str> {
        self.ws();
        if self.byte() != Some(b'@') {
            return None;
        }
        let start = self.pos;
        let mut at = *self;
        at.pos += 1;
        if at.byte() == Some(b'"') {
            at.string()?;
        } else {
            at.skip_id();
            if at.pos == start + 1 {
                return None;
            }
        }
        *self = at;
        Some(self.since(start))
    }

    /// Bracketed text with its brackets; what is inside is balanced.
    pub(crate) fn balanced(&mut self) -> Option<&'a str> {
        let start = self.pos;
        let angle = self.byte()? == b'<';
        let mut at = *self;
        let mut depth = 0usize;
        loop {
            match at.byte()? {
                b'"' => {
                    at.string()?;
                    continue;
                }
                b'/' if !angle && at.nth(1) == Some(b'/') => {
                    at.ws();
                    continue;
                }
                b'(' | b'[' | b'{' => depth += 1,
                b'<' if angle && at.nth(1) != Some(b'=') => depth += 1,
                b'-' if at.nth(1) == Some(b'>') => at.pos += 1,
                b'>' if angle && at.nth(1) != Some(b'=') => depth = depth.checked_sub(1)?,
                b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            at.pos += 1;
            if depth == 0 {
                break;
            }
        }
        *self = at;
        Some(self.since(start))
    }

    fn angle(&mut self) -> Option<()> {
        if self.byte() == Some(b'<') {
            self.balanced()?;
        }
        Some(())
    }

    /// The text of a type.
    pub(crate) fn type_text(&mut self) -> Option<&'a str> {
        self.ws();
        let start = self.pos;
        let mut at = *self;
        match at.byte()? {
            b'(' => loop {
                at.balanced()?;
                let mut arrow = at;
                if !arrow.eat("->") {
                    // The last results; parentheses alone are no type.
                    let since = at.since(start);
                    if !since.contains("->") {
                        return None;
                    }
                    break;
                }
                at = arrow;
                at.ws();
                if at.byte() != Some(b'(') {
                    at.type_text()?;
                    break;
                }
            },
            b'!' => {
                at.sigil(b'!')?;
                at.angle()?;
            }
            b if is_letter(b) => {
                at.skip(is_word);
                at.angle()?;
            }
            _ => return None,
        }
        *self = at;
        Some(self.since(start))
    }

    /// The text of an attribute; `typed`: with the `: type` behind a number or string.
    pub(crate) fn attr_text(&mut self, typed: bool) -> Option<&'a str> {
        self.ws();
        let start = self.pos;
        let mut at = *self;
        let mut takes_type = false;
        match at.byte()? {
            b'"' => {
                at.string()?;
                takes_type = typed;
            }
            b'@' => {
                at.symbol()?;
                while at.rest().starts_with("::@") {
                    at.pos += 2;
                    at.symbol()?;
                }
            }
            b'[' | b'{' => {
                at.balanced()?;
            }
            b'#' => {
                at.sigil(b'#')?;
                at.angle()?;
            }
            b'(' | b'!' => {
                at.type_text()?;
            }
            b'-' | b'0'..=b'9' => {
                at.number()?;
                takes_type = typed;
            }
            b if is_letter(b) => {
                let word = at.word()?;
                if word == "loc" && at.byte() == Some(b'(') {
                    at.balanced()?;
                } else {
                    at.angle()?;
                    takes_type = matches!(word, "dense" | "sparse" | "dense_resource" | "opaque")
                        && at.pos > start + word.len();
                }
            }
            _ => return None,
        }
        if takes_type {
            let mut colon = at;
            if colon.eat(":") && colon.type_text().is_some() {
                at = colon;
            }
        }
        *self = at;
        Some(self.since(start))
    }

    /// One token, for messages.
    pub(crate) fn token(&mut self) -> &'a str {
        self.ws();
        let start = self.pos;
        let mut at = *self;
        let taken = match at.byte() {
            None => return self.rest(),
            Some(b'"') => at.string().is_some(),
            Some(s @ (b'%' | b'^' | b'#' | b'!')) => at.sigil(s).is_some(),
            Some(b'@') => at.symbol().is_some(),
            Some(b) if is_word(b) => {
                at.skip(is_id);
                true
            }
            Some(b'-') if at.nth(1) == Some(b'>') => {
                at.pos += 2;
                true
            }
            _ => false,
        };
        if !taken {
            let step = self.rest().chars().next().map_or(0, char::len_utf8);
            at.pos = start + step;
        }
        *self = at;
        self.since(start)
    }
}

/// The op behind a word that MLIR writes without its dialect.
pub(crate) fn bare_op(word: &str) -> Option<&'static str> {
    match word {
        "module" => Some(crate::lower::MODULE),
        "return" => Some("func.return"),
        "call" => Some("func.call"),
        _ => None,
    }
}
