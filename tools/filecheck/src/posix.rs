//! POSIX extended regular expressions, as LLVM reads them, translated for the `regex` crate.
//!
//! Differences that matter: a backslash makes any character literal (`\d` is the letter d), an
//! empty branch is an error, `.` and `[^x]` never match a line end, `{` not followed by a digit is
//! literal, and everything is bytes.

use crate::bracket;

/// Counts above this are refused, as POSIX allows.
const MAX_REPEAT: u32 = 255;
/// Open groups at one time; deeper nesting is refused before it can exhaust a stack.
const MAX_DEPTH: usize = 100;

/// Translates `source`; groups become non-capturing.
pub(crate) fn translate(source: &[u8], ignore_case: bool) -> Result<String, String> {
    let mut t = Translator {
        source,
        at: 0,
        out: String::new(),
    };
    // One entry per open branch: does it hold an atom yet?
    let mut branches = vec![false];
    while let Some(byte) = t.next() {
        match byte {
            b'(' => {
                if branches.len() > MAX_DEPTH {
                    return Err("parentheses nest too deeply".into());
                }
                t.out.push_str("(?:");
                if t.eat(b')') {
                    t.out.push(')');
                    t.repetition()?;
                    set_last(&mut branches);
                } else {
                    branches.push(false);
                }
                continue;
            }
            b')' => {
                if branches.len() == 1 {
                    return Err("parentheses not balanced".into());
                }
                if branches.pop() == Some(false) {
                    return Err(EMPTY.into());
                }
                t.out.push(')');
            }
            b'|' => {
                if branches.last() != Some(&true) {
                    return Err(EMPTY.into());
                }
                if let Some(last) = branches.last_mut() {
                    *last = false;
                }
                t.out.push('|');
                continue;
            }
            b'*' | b'+' | b'?' => return Err("repetition-operator operand invalid".into()),
            b'{' if t.peek().is_some_and(|b| b.is_ascii_digit()) => {
                return Err("repetition-operator operand invalid".into());
            }
            b'^' => {
                t.out.push_str("(?:^)");
                if t.at_repetition() {
                    return Err("repetition-operator operand invalid".into());
                }
            }
            b'$' => t.out.push_str("(?:$)"),
            b'.' => t.out.push('.'),
            b'[' => {
                let class = bracket::translate(source, &mut t.at, ignore_case)?;
                t.out.push_str(&class);
            }
            b'\\' => match t.next() {
                None => return Err("trailing backslash (\\)".into()),
                Some(digit @ b'1'..=b'9') => {
                    return Err(format!(
                        "back-reference '\\{}' is not supported; name the text with [[NAME:...]]",
                        digit as char
                    ));
                }
                Some(byte) => push_literal(&mut t.out, byte),
            },
            byte => push_literal(&mut t.out, byte),
        }
        t.repetition()?;
        set_last(&mut branches);
    }
    if branches.len() > 1 {
        return Err("parentheses not balanced".into());
    }
    if branches != [true] {
        return Err(EMPTY.into());
    }
    Ok(t.out)
}

const EMPTY: &str = "empty (sub)expression";

fn set_last(branches: &mut [bool]) {
    if let Some(last) = branches.last_mut() {
        *last = true;
    }
}

/// Appends a regex that matches exactly `byte`.
pub(crate) fn push_literal(out: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b' ' {
        out.push(byte as char);
    } else {
        out.push_str(&format!("\\x{byte:02x}"));
    }
}

/// A regex that matches exactly `text`.
pub(crate) fn literal(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    text.iter().for_each(|&b| push_literal(&mut out, b));
    out
}

struct Translator<'a> {
    source: &'a [u8],
    at: usize,
    out: String,
}

impl Translator<'_> {
    fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let hit = self.peek() == Some(byte);
        self.at += usize::from(hit);
        hit
    }

    fn at_repetition(&self) -> bool {
        match self.peek() {
            Some(b'*' | b'+' | b'?') => true,
            Some(b'{') => self.source.get(self.at + 1).is_some_and(u8::is_ascii_digit),
            _ => false,
        }
    }

    /// Reads at most one repetition after an atom.
    fn repetition(&mut self) -> Result<(), String> {
        if !self.at_repetition() {
            return Ok(());
        }
        match self.next() {
            Some(b'{') => self.bounds()?,
            Some(byte) => self.out.push(byte as char),
            None => {}
        }
        if self.at_repetition() {
            return Err("repetition-operator operand invalid".into());
        }
        Ok(())
    }

    fn bounds(&mut self) -> Result<(), String> {
        let low = self.count()?;
        let text = if !self.eat(b',') {
            format!("{{{low}}}")
        } else if self.peek().is_some_and(|b| b.is_ascii_digit()) {
            let high = self.count()?;
            if high < low {
                return Err("invalid repetition count(s)".into());
            }
            format!("{{{low},{high}}}")
        } else {
            format!("{{{low},}}")
        };
        if !self.eat(b'}') {
            let rest = &self.source[self.at..];
            return Err(if rest.contains(&b'}') {
                "invalid repetition count(s)"
            } else {
                "braces not balanced"
            }
            .into());
        }
        self.out.push_str(&text);
        Ok(())
    }

    fn count(&mut self) -> Result<u32, String> {
        let mut value = 0u32;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            self.at += 1;
            value = value
                .saturating_mul(10)
                .saturating_add(u32::from(digit - b'0'));
        }
        if value > MAX_REPEAT {
            return Err("invalid repetition count(s)".into());
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::translate;

    fn t(source: &str) -> Result<String, String> {
        translate(source.as_bytes(), false)
    }

    #[test]
    fn translates() {
        assert_eq!(t("a(b|c)+"), Ok("a(?:b|c)+".into()));
        assert_eq!(t("\\d\\."), Ok("d\\x2e".into()));
        assert_eq!(t("a{2,}b{x"), Ok("a{2,}b\\x7bx".into()));
        assert_eq!(t("()"), Ok("(?:)".into()));
    }

    #[test]
    fn refuses() {
        for bad in [
            "", "a|", "|a", "(|a)", "a)", "(a", "*a", "a**", "^*", "a{2", "a{3,2}", "a{256}",
            "a\\", "(a)\\1",
        ] {
            assert!(t(bad).is_err(), "{bad}");
        }
        assert!(t(&"(".repeat(100_000)).is_err());
    }
}
