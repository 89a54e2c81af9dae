//! Bracket expressions of POSIX regular expressions: `[a-z]`, `[^]x]`, `[[:alpha:]]`, `[[:<:]]`.

/// Reads the rest of a bracket expression whose `[` ends at `*at`, and moves `*at` past its `]`.
pub(crate) fn translate(
    source: &[u8],
    at: &mut usize,
    ignore_case: bool,
) -> Result<String, String> {
    let rest = &source[*at..];
    if rest.starts_with(b"[:<:]]") {
        *at += 6;
        return Ok("(?:\\b{start})".into());
    }
    if rest.starts_with(b"[:>:]]") {
        *at += 6;
        return Ok("(?:\\b{end})".into());
    }
    let mut reader = Reader { source, at: *at };
    let invert = reader.eat(b"^");
    let mut set = [false; 256];
    if reader.eat(b"]") {
        set[usize::from(b']')] = true;
    } else if reader.eat(b"-") {
        set[usize::from(b'-')] = true;
    }
    while !matches!(reader.peek(), None | Some(b']')) && !reader.sees(b"-]") {
        reader.term(&mut set)?;
    }
    if reader.eat(b"-") {
        set[usize::from(b'-')] = true;
    }
    if !reader.eat(b"]") {
        return Err("brackets ([ ]) not balanced".into());
    }
    *at = reader.at;
    if ignore_case {
        for c in b'a'..=b'z' {
            let upper = usize::from(c.to_ascii_uppercase());
            let both = set[usize::from(c)] || set[upper];
            set[usize::from(c)] = both;
            set[upper] = both;
        }
    }
    if invert {
        set.iter_mut().for_each(|b| *b = !*b);
        set[usize::from(b'\n')] = false;
    }
    Ok(class(&set))
}

/// The set as a class of the `regex` crate.
fn class(set: &[bool; 256]) -> String {
    if !set.contains(&true) {
        return "[^\\x00-\\xff]".into();
    }
    let mut out = String::from("[");
    let mut i = 0;
    while i < 256 {
        if !set[i] {
            i += 1;
            continue;
        }
        let start = i;
        while i < 256 && set[i] {
            i += 1;
        }
        out.push_str(&format!("\\x{start:02x}"));
        if i - start > 1 {
            out.push_str(&format!("-\\x{:02x}", i - 1));
        }
    }
    out.push(']');
    out
}

struct Reader<'a> {
    source: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    fn sees(&self, text: &[u8]) -> bool {
        self.source[self.at..].starts_with(text)
    }

    fn eat(&mut self, text: &[u8]) -> bool {
        let hit = self.sees(text);
        if hit {
            self.at += text.len();
        }
        hit
    }

    /// A class, an equivalence class, one character or a range.
    fn term(&mut self, set: &mut [bool; 256]) -> Result<(), String> {
        if self.sees(b"-") {
            return Err("invalid character range".into());
        }
        if self.eat(b"[:") {
            let name = self.until(b":]").ok_or("invalid character class")?;
            return named_class(name, set);
        }
        if self.eat(b"[=") {
            let name = self.until(b"=]").ok_or("invalid collating element")?;
            set[usize::from(element(name)?)] = true;
            return Ok(());
        }
        let start = self.symbol()?;
        let mut end = start;
        let range = self.sees(b"-") && self.source.get(self.at + 1).is_some_and(|&b| b != b']');
        if range {
            self.at += 1;
            end = if self.eat(b"-") { b'-' } else { self.symbol()? };
        }
        if start > end {
            return Err("invalid character range".into());
        }
        set[usize::from(start)..=usize::from(end)].fill(true);
        Ok(())
    }

    fn symbol(&mut self) -> Result<u8, String> {
        if self.eat(b"[.") {
            return element(self.until(b".]").ok_or("invalid collating element")?);
        }
        let byte = self.peek().ok_or("brackets ([ ]) not balanced")?;
        self.at += 1;
        Ok(byte)
    }

    /// The text before `end`, moving past it.
    fn until(&mut self, end: &[u8]) -> Option<&[u8]> {
        let rest = &self.source[self.at..];
        let length = crate::text::find(rest, end)?;
        self.at += length + end.len();
        Some(&rest[..length])
    }
}

/// A collating element: one byte, or one of the few names people write.
fn element(name: &[u8]) -> Result<u8, String> {
    match name {
        [byte] => Ok(*byte),
        b"space" => Ok(b' '),
        b"tab" => Ok(b'\t'),
        b"hyphen" | b"hyphen-minus" => Ok(b'-'),
        b"period" | b"full-stop" => Ok(b'.'),
        b"left-square-bracket" => Ok(b'['),
        b"right-square-bracket" => Ok(b']'),
        b"circumflex" => Ok(b'^'),
        b"backslash" => Ok(b'\\'),
        _ => Err("invalid collating element".into()),
    }
}

fn named_class(name: &[u8], set: &mut [bool; 256]) -> Result<(), String> {
    let holds: fn(u8) -> bool = match name {
        b"alnum" => |b| b.is_ascii_alphanumeric(),
        b"alpha" => |b| b.is_ascii_alphabetic(),
        b"blank" => |b| b == b' ' || b == b'\t',
        b"cntrl" => |b| b.is_ascii_control(),
        b"digit" => |b| b.is_ascii_digit(),
        b"graph" => |b| b.is_ascii_graphic(),
        b"lower" => |b| b.is_ascii_lowercase(),
        b"print" => |b| b.is_ascii_graphic() || b == b' ',
        b"punct" => |b| b.is_ascii_punctuation(),
        b"space" => |b| matches!(b, b' ' | b'\t'..=b'\r'),
        b"upper" => |b| b.is_ascii_uppercase(),
        b"xdigit" => |b| b.is_ascii_hexdigit(),
        _ => return Err("invalid character class".into()),
    };
    for byte in 0..=255u8 {
        set[usize::from(byte)] |= holds(byte);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::translate;

    fn t(rest: &str) -> Result<(String, usize), String> {
        let mut at = 0;
        translate(rest.as_bytes(), &mut at, false).map(|c| (c, at))
    }

    #[test]
    fn sets() {
        assert_eq!(t("a-c]x"), Ok(("[\\x61-\\x63]".into(), 4)));
        assert_eq!(t("]]"), Ok(("[\\x5d]".into(), 2)));
        assert_eq!(t("\\d]"), Ok(("[\\x5c\\x64]".into(), 3)));
        assert_eq!(t("^\n]"), Ok(("[\\x00-\\x09\\x0b-\\xff]".into(), 3)));
        assert_eq!(t("[:digit:]_]"), Ok(("[\\x30-\\x39\\x5f]".into(), 11)));
        assert_eq!(t("[.hyphen.]]"), Ok(("[\\x2d]".into(), 11)));
    }

    #[test]
    fn refuses() {
        for bad in [
            "", "a", "a-c-e]", "z-a]", "[:foo:]]", "[:alpha", "[.ab.]]", "[==",
        ] {
            assert!(t(bad).is_err(), "{bad}");
        }
    }
}
