//! Rust text divided into code, strings and comments, as far as rules about words need it.

use std::path::{Path, PathBuf};

/// A file's text, divided.
pub(crate) struct RustText {
    /// The text with comments and the insides of strings blanked; lines stay where they are.
    pub code: String,
    /// The insides of strings, each with its line.
    pub strings: Vec<(usize, String)>,
}

impl RustText {
    pub(crate) fn new(text: &str) -> Self {
        let mut reader = Reader {
            text,
            at: 0,
            line: 1,
            code: String::new(),
        };
        let mut strings = Vec::new();
        while let Some(c) = reader.rest().chars().next() {
            let rest = reader.rest();
            if rest.starts_with("//") {
                let end = rest.find('\n').unwrap_or(rest.len());
                reader.blank(end);
            } else if rest.starts_with("/*") {
                reader.blank(block_comment(rest));
            } else if let Some((open, inside, close)) = string(rest, reader.before_is_word()) {
                reader.keep(open);
                strings.push((reader.line, reader.rest()[..inside].to_string()));
                reader.blank(inside);
                reader.keep(close);
            } else if let Some(end) = char_literal(rest) {
                reader.blank(end);
            } else {
                reader.keep(c.len_utf8());
            }
        }
        Self {
            code: reader.code,
            strings,
        }
    }

    /// The files that `#[path = "…"]` takes in from other folders, for a file at a path.
    pub(crate) fn modules_elsewhere(&self, file: &Path) -> Vec<PathBuf> {
        let folder = file.parent().unwrap_or(Path::new("."));
        let lines: Vec<&str> = self.code.lines().collect();
        let named = |&&(line, _): &&(usize, String)| {
            let line = lines.get(line - 1);
            line.is_some_and(|line| line.trim_start().starts_with("#[path"))
        };
        let paths = self.strings.iter().filter(named);
        let paths = paths.filter(|(_, path)| path.starts_with("../"));
        paths.map(|(_, path)| folder.join(path)).collect()
    }

    /// The lines of the code that hold this word, from 1.
    pub(crate) fn lines_with(&self, word: &str) -> impl Iterator<Item = usize> {
        let lines = self.code.lines().enumerate();
        lines
            .filter(move |(_, line)| has_word(line, word))
            .map(|(at, _)| at + 1)
    }
}

/// Whether a text holds a word that is no part of a longer one.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    code: String,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }
    fn before_is_word(&self) -> bool {
        let before = self.code.chars().next_back();
        before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    }
    fn keep(&mut self, bytes: usize) {
        let kept = &self.rest()[..bytes];
        self.code.push_str(kept);
        self.pass(kept);
    }
    fn blank(&mut self, bytes: usize) {
        let gone = &self.rest()[..bytes];
        self.code
            .extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.pass(gone);
    }
    fn pass(&mut self, text: &str) {
        self.at += text.len();
        self.line += text.matches('\n').count();
    }
}

fn block_comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The lengths of a string's opening, inside and closing.
fn string(text: &str, in_word: bool) -> Option<(usize, usize, usize)> {
    let prefix = text
        .bytes()
        .take_while(|b| matches!(b, b'b' | b'c' | b'r'))
        .count();
    if in_word && prefix > 0 || prefix > 2 {
        return None;
    }
    if text[..prefix].ends_with('r') {
        let hashes = text[prefix..].bytes().take_while(|b| *b == b'#').count();
        let open = prefix + hashes + 1;
        if text.as_bytes().get(open - 1) != Some(&b'"') {
            return None;
        }
        let close = format!("\"{}", "#".repeat(hashes));
        let inside = text[open..].find(&close);
        return Some(inside.map_or((open, text.len() - open, 0), |n| (open, n, close.len())));
    }
    if text.as_bytes().get(prefix) != Some(&b'"') {
        return None;
    }
    let open = prefix + 1;
    let mut escaped = false;
    for (at, b) in text.bytes().enumerate().skip(open) {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some((open, at - open, 1)),
            _ => {}
        }
    }
    Some((open, text.len() - open, 0))
}

/// The length of a character literal; none for a lifetime.
fn char_literal(text: &str) -> Option<usize> {
    let mut chars = text.strip_prefix('\'')?.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
        let (end, _) = chars.find(|(_, c)| *c == '\'')?;
        return Some(end + 2);
    }
    let (end, second) = chars.next()?;
    (second == '\'').then_some(end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_text() {
        let text = "let a = \"x // y\"; // todo!()\nlet b = 'x'; /* a /* b */ c */ f::<'a>('\\'', r#\"q\"r\"#, b\"\\\"z\");\nabr\"no\"";
        let divided = RustText::new(text);
        let strings: Vec<&str> = divided.strings.iter().map(|(_, s)| s.as_str()).collect();
        assert_eq!(strings, ["x // y", "q\"r", "\\\"z", "no"]);
        assert_eq!(divided.strings[1].0, 2);
        let words: Vec<&str> = divided.code.split_whitespace().collect();
        let code = "let a = \" \"; let b = ; f::<'a>( , r#\" \"#, b\" \"); abr\" \"";
        assert_eq!(words, code.split_whitespace().collect::<Vec<_>>());
        assert_eq!(divided.code.lines().count(), 3);
    }

    #[test]
    fn unclosed_text_ends() {
        for text in ["\"abc", "r##\"a\"#", "/* a", "'", "'\\", "b", "\"\\"] {
            RustText::new(text);
        }
    }

    #[test]
    fn words() {
        assert!(has_word("unsafe { x }", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
        assert_eq!(
            RustText::new("a\n// todo\ntodo!()")
                .lines_with("todo!")
                .collect::<Vec<_>>(),
            [3]
        );
    }
}
