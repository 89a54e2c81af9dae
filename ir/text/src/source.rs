//! The text of a file: places in it, the scan of its brackets, and the cut at its operations.

use tir_core::{Diagnostic, Loc, LocFile};

use crate::cursor::{Cursor, bare_op, is_letter, is_word};

/// A file, and where a piece of its text stands in it.
pub(crate) struct Source<'t> {
    pub(crate) text: &'t str,
    file: LocFile,
    /// Byte offset of each line.
    lines: Vec<u32>,
    /// Lines before the text, where it is one part of a split file.
    before: u32,
    /// Texts made of two pieces of the file: the second begins at `.1` and stands at `.2`.
    frames: Vec<(&'t str, usize, usize, usize)>,
}

impl<'t> Source<'t> {
    pub(crate) fn new(text: &'t str, file: LocFile, before: u32) -> Self {
        let mut lines = vec![0];
        lines.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|i| i as u32 + 1));
        Self {
            text,
            file,
            lines,
            before,
            frames: Vec::new(),
        }
    }

    /// Says that `text` is the file from `start`, and behind byte `cut`, from `rest`.
    pub(crate) fn add_frame(&mut self, text: &'t str, start: usize, cut: usize, rest: usize) {
        self.frames.push((text, start, cut, rest));
    }

    /// Where a piece of this text begins; `None` for text that comes from elsewhere.
    pub(crate) fn offset(&self, piece: &str) -> Option<usize> {
        let within = |whole: &str| {
            let offset = (piece.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
            (offset <= whole.len()).then_some(offset)
        };
        if let Some(offset) = within(self.text) {
            return Some(offset);
        }
        self.frames.iter().find_map(|(text, start, cut, rest)| {
            let at = within(text)?;
            Some(if at < *cut {
                start + at
            } else {
                rest + (at - cut)
            })
        })
    }

    /// The location of a byte.
    pub(crate) fn loc_at(&self, offset: usize) -> Loc {
        let line = self
            .lines
            .partition_point(|start| *start as usize <= offset)
            .max(1);
        let start = self.lines[line - 1] as usize;
        let column = match self.text.get(start..offset) {
            Some(text) if text.is_ascii() => text.len(),
            Some(text) => text.chars().count(),
            None => 0,
        };
        self.file.at(line as u32 + self.before, column as u32 + 1)
    }

    /// The location of a piece of the text.
    pub(crate) fn loc(&self, piece: &str) -> Loc {
        self.offset(piece)
            .map_or(Loc::UNKNOWN, |offset| self.loc_at(offset))
    }

    /// An error at a piece of the text.
    pub(crate) fn error(&self, piece: &str, message: impl Into<String>) -> Diagnostic {
        let first = piece.lines().next().unwrap_or("");
        Diagnostic::error(message)
            .at(self.loc(piece))
            .len(first.trim_end().chars().count())
    }
}

/// Finds the locations of many places, each behind the last.
#[derive(Default)]
pub(crate) struct Locator {
    offset: usize,
    line: u32,
    column: u32,
    next_line: usize,
}

impl Locator {
    pub(crate) fn loc(&mut self, source: &Source<'_>, offset: usize) -> Loc {
        if offset >= self.offset && offset < self.next_line {
            if let Some(text) = source.text.get(self.offset..offset) {
                let step = if text.is_ascii() {
                    text.len()
                } else {
                    text.chars().count()
                };
                self.column += step as u32;
            }
        } else {
            let guess = self.line as usize;
            // The next line, nearly always.
            let near = source
                .lines
                .get(guess)
                .is_some_and(|s| *s as usize <= offset)
                && source
                    .lines
                    .get(guess + 1)
                    .is_none_or(|s| *s as usize > offset);
            let line = if near {
                guess + 1
            } else {
                source
                    .lines
                    .partition_point(|start| *start as usize <= offset)
                    .max(1)
            };
            let start = source.lines[line - 1] as usize;
            let text = source.text.get(start..offset).unwrap_or("");
            let column = if text.is_ascii() {
                text.len()
            } else {
                text.chars().count()
            };
            self.line = line as u32;
            self.column = column as u32;
            self.next_line = source.lines.get(line).map_or(usize::MAX, |s| *s as usize);
        }
        self.offset = offset;
        source.file.at(self.line + source.before, self.column + 1)
    }
}

/// What stands at a line start at the outermost level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// One operation.
    Op,
    /// The definition of an alias: `#id = …`, `!id = …`.
    Alias,
    /// `{-# … #-}`.
    Metadata,
}

/// A piece of the file from one such start to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// What the scan of a file finds.
#[derive(Default, Debug)]
pub(crate) struct Cut {
    /// The pieces of the file.
    pub(crate) pieces: Vec<Piece>,
    /// The operations in the body of the first operation, where that is a module: the place
    /// behind its `{`, the pieces, and the place of its `}`.
    pub(crate) module: Option<(usize, Vec<Piece>, usize)>,
    /// How deep its brackets nest.
    pub(crate) depth: usize,
}

/// More names of results than this are not looked for at the start of an operation.
const NAMES: usize = 100;

/// Whether an operation begins here: `%r =` and a name, a dotted word, or `"name"(`.
pub(crate) fn starts_op(text: &str) -> bool {
    let first = text.as_bytes().first();
    if !first.is_some_and(|b| matches!(b, b'%' | b'"') || is_letter(*b)) {
        return false;
    }
    let mut cursor = Cursor::new(text);
    let mut names = 0;
    while cursor.sigil(b'%').is_some() {
        names += 1;
        if cursor.eat(":") && cursor.number().is_none() || names > NAMES {
            return false;
        }
        if !cursor.eat(",") {
            break;
        }
    }
    if names > 0 && !cursor.eat("=") {
        return false;
    }
    cursor.ws();
    if cursor.byte() == Some(b'"') {
        return cursor.string().is_some() && cursor.eat("(");
    }
    let Some(word) = cursor.word() else {
        return false;
    };
    match cursor.byte() {
        Some(b'.') => cursor.nth(1).is_some_and(is_word),
        _ => bare_op(word).is_some(),
    }
}

/// Where the `{` of its body stands, if the operation at `at` is a module: in generic form, or
/// behind its name and attributes.
fn module_body(text: &str, at: usize) -> Option<usize> {
    let mut cursor = Cursor::at(text, at, text.len());
    if cursor.eat("\"builtin.module\"") {
        if !(cursor.eat("(") && cursor.eat(")")) {
            return None;
        }
        cursor.ws();
        if cursor.byte() == Some(b'<') {
            cursor.balanced()?;
        }
        if !cursor.eat("(") {
            return None;
        }
    } else {
        let word = cursor.word()?;
        let whole = word == "builtin" && cursor.eat(".") && cursor.eat_word("module");
        if !whole && word != "module" {
            return None;
        }
        cursor.symbol();
        if cursor.eat_word("attributes") {
            cursor.ws();
            cursor.balanced()?;
        }
    }
    cursor.ws();
    (cursor.byte() == Some(b'{')).then_some(cursor.pos)
}

fn starts_alias(text: &str) -> bool {
    let id = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '-');
    text.starts_with(['#', '!']) && {
        let rest = text[1..].trim_start_matches(id);
        rest.len() < text.len() - 1 && rest.trim_start().starts_with('=')
    }
}

const PLAIN: u8 = 0;
const NEWLINE: u8 = 1;
const QUOTE: u8 = 2;
const SLASH: u8 = 3;
const OPEN: u8 = 4;
const CLOSE: u8 = 5;
const LESS: u8 = 6;
const GREATER: u8 = 7;
const CONTROL: u8 = 8;
static CLASS: [u8; 256] = {
    let mut table = [PLAIN; 256];
    let mut control = 0;
    while control < b' ' {
        table[control as usize] = CONTROL;
        control += 1;
    }
    table[b'\t' as usize] = PLAIN;
    table[b'\r' as usize] = PLAIN;
    table[b'\n' as usize] = NEWLINE;
    table[b'"' as usize] = QUOTE;
    table[b'/' as usize] = SLASH;
    table[b'(' as usize] = OPEN;
    table[b'[' as usize] = OPEN;
    table[b'{' as usize] = OPEN;
    table[b')' as usize] = CLOSE;
    table[b']' as usize] = CLOSE;
    table[b'}' as usize] = CLOSE;
    table[b'<' as usize] = LESS;
    table[b'>' as usize] = GREATER;
    table
};

/// Checks brackets, strings and depth, and cuts the text at its operations.
pub(crate) fn scan(source: &Source<'_>, max_depth: usize) -> Result<Cut, Diagnostic> {
    let text = source.text;
    let bytes = text.as_bytes();
    let mut cut = Cut::default();
    // Open brackets: byte, place, angle brackets open around it.
    let mut stack: Vec<(u8, usize, usize)> = Vec::new();
    let mut angles = 0usize;
    // Where the body of the first operation opens, where that is a module, and how deep it is
    // while it is open.
    let mut opens: Option<usize> = None;
    let mut body: Option<usize> = None;
    let mut i = 0;
    let mut line_start = true;
    while i < bytes.len() {
        if line_start {
            line_start = false;
            while matches!(bytes.get(i), Some(b' ' | b'\t' | b'\r')) {
                i += 1;
            }
            if i >= bytes.len() {
                break;
            }
            let outer = stack.is_empty();
            if (outer || body == Some(stack.len())) && bytes[i] != b'\n' && angles == 0 {
                let rest = &text[i..];
                let kind = if outer && rest.starts_with("{-#") {
                    Some(Kind::Metadata)
                } else if outer && starts_alias(rest) {
                    Some(Kind::Alias)
                } else if starts_op(rest) {
                    Some(Kind::Op)
                } else {
                    None
                };
                let kind = match kind {
                    None if cut.pieces.is_empty() && !rest.starts_with("//") => Some(Kind::Op),
                    kind => kind,
                };
                if let Some(kind) = kind {
                    let piece = Piece {
                        kind,
                        start: i,
                        end: text.len(),
                    };
                    if outer {
                        if let Some(last) = cut.pieces.last_mut() {
                            last.end = i;
                        }
                        let first = kind == Kind::Op
                            && !cut.pieces.iter().any(|piece| piece.kind == Kind::Op);
                        opens = first.then(|| module_body(text, i)).flatten();
                        if kind == Kind::Op && !first {
                            cut.module = None;
                        }
                        cut.pieces.push(piece);
                        if kind == Kind::Metadata {
                            let Some(end) = rest.find("#-}") else {
                                return Err(source.error(&rest[..3], "`{-#` is not closed"));
                            };
                            i += end + 3;
                            continue;
                        }
                    } else if let Some((_, pieces, _)) = &mut cut.module {
                        if let Some(last) = pieces.last_mut() {
                            last.end = i;
                        }
                        pieces.push(piece);
                    }
                } else if !outer
                    && (rest.starts_with('^') || {
                        let first = cut
                            .module
                            .as_ref()
                            .is_some_and(|(_, pieces, _)| pieces.is_empty());
                        first && !rest.starts_with('}') && !rest.starts_with("//")
                    })
                {
                    // A body of several blocks, or one that does not begin with an operation, is
                    // not cut.
                    body = None;
                    cut.module = None;
                }
            }
        }
        // Nearly all bytes are plain.
        while bytes.get(i).is_some_and(|b| CLASS[*b as usize] == PLAIN) {
            i += 1;
        }
        let Some(b) = bytes.get(i).copied() else {
            break;
        };
        match CLASS[b as usize] {
            CONTROL => {
                let message = format!("control character U+{b:04X} stands outside a string");
                return Err(source.error(&text[i..=i], message));
            }
            NEWLINE => line_start = true,
            QUOTE => i = string_end(source, i)?,
            SLASH => {
                if bytes.get(i + 1) == Some(&b'/') {
                    i = bytes[i..]
                        .iter()
                        .position(|b| *b == b'\n')
                        .map_or(bytes.len(), |n| i + n);
                    continue;
                }
            }
            OPEN => {
                if opens == Some(i) {
                    // Where the first operation stands on the line of the brace it is not cut.
                    let rest = text[i + 1..].trim_start_matches([' ', '\t', '\r']);
                    if rest.starts_with(['\n', '}']) || rest.starts_with("//") {
                        body = Some(stack.len() + 1);
                        cut.module = Some((i + 1, Vec::new(), text.len()));
                    }
                }
                stack.push((b, i, angles));
                let depth = stack.len() + angles;
                cut.depth = cut.depth.max(depth);
                if depth > max_depth {
                    let message = format!("brackets nest deeper than {max_depth} levels");
                    return Err(source.error(&text[i..=i], message));
                }
            }
            CLOSE => {
                let Some((open, at, saved)) = stack.pop() else {
                    let message = format!("`{}` closes nothing", b as char);
                    let mut error = source.error(&text[i..=i], message);
                    if let (b'}', Some((_, close))) = (b, askew(source)) {
                        let note = "this one is indented as if it closed another";
                        error = error.note_at(source.loc_at(close), note);
                    }
                    return Err(error);
                };
                angles = saved;
                if b != closer(open) {
                    let message = format!("`{}` is not closed", open as char);
                    let error = source.error(&text[at..=at], message);
                    let found = format!("found `{}` here", b as char);
                    return Err(error.note_at(source.loc_at(i), found));
                }
                if body == Some(stack.len() + 1) {
                    if let Some((_, pieces, end)) = &mut cut.module {
                        *end = i;
                        if let Some(last) = pieces.last_mut() {
                            last.end = i;
                        }
                    }
                    body = None;
                }
            }
            LESS => {
                let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                if i > 0 && (word(bytes[i - 1]) || angles > 0) && bytes.get(i + 1) != Some(&b'=') {
                    angles += 1;
                    let depth = stack.len() + angles;
                    cut.depth = cut.depth.max(depth);
                    if depth > max_depth {
                        let message = format!("brackets nest deeper than {max_depth} levels");
                        return Err(source.error(&text[i..=i], message));
                    }
                }
            }
            // `>`
            _ => {
                if angles > stack.last().map_or(0, |(_, _, saved)| *saved)
                    && !matches!(bytes[i - 1], b'-')
                    && bytes.get(i + 1) != Some(&b'=')
                {
                    angles -= 1;
                }
            }
        }
        i += 1;
    }
    if let Some((open, at, _)) = stack.first().copied() {
        let message = |open: u8| format!("`{}` is never closed", open as char);
        if let (b'{', Some((inner, close))) = (open, askew(source)) {
            let error = source.error(&text[inner..=inner], message(open));
            let note = "this one is indented as if it closed another";
            return Err(error.note_at(source.loc_at(close), note));
        }
        return Err(source.error(&text[at..=at], message(open)));
    }
    Ok(cut)
}

fn closer(open: u8) -> u8 {
    match open {
        b'(' => b')',
        b'[' => b']',
        _ => b'}',
    }
}

/// The first pair of braces that do not stand at one indentation, where the closing one begins
/// its line: one of them is missing or too many near there.
fn askew(source: &Source<'_>) -> Option<(usize, usize)> {
    let bytes = source.text.as_bytes();
    let indent = |at: usize| {
        let line = source.lines.partition_point(|start| *start as usize <= at) - 1;
        let start = source.lines[line] as usize;
        let blank = bytes[start..]
            .iter()
            .take_while(|b| matches!(b, b' ' | b'\t'))
            .count();
        (blank, start + blank == at)
    };
    let mut stack: Vec<usize> = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'"' => i = string_end(source, i).unwrap_or(bytes.len()),
            b'/' if bytes.get(i + 1) == Some(&b'/') => {
                i = bytes[i..]
                    .iter()
                    .position(|b| *b == b'\n')
                    .map_or(bytes.len(), |n| i + n);
            }
            b'{' => stack.push(i),
            b'}' => {
                let open = stack.pop()?;
                let ((at, _), (close, first)) = (indent(open), indent(i));
                if first && at != close {
                    return Some((open, i));
                }
            }
            _ => {}
        }
        i += 1;
    }
    None
}

/// The place of the quote that closes the string that opens at `at`.
fn string_end(source: &Source<'_>, at: usize) -> Result<usize, Diagnostic> {
    let bytes = source.text.as_bytes();
    let mut i = at + 1;
    loop {
        match bytes.get(i) {
            Some(b'"') => return Ok(i),
            Some(b'\\') if bytes.get(i + 1).is_some_and(|b| *b != b'\n') => i += 2,
            Some(b'\n') | None => {
                let message = "the string is not closed on its line";
                return Err(source.error(&source.text[at..=at], message));
            }
            Some(_) => i += 1,
        }
    }
}

/// Cuts a text at its lines `// -----`: each part, and how many lines stand before it.
pub fn split_input(text: &str) -> Vec<(u32, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut first, mut at, mut line) = (0, 0, 0, 0);
    for part in text.split_inclusive('\n') {
        line += 1;
        let end = at + part.len();
        if part.trim_start().starts_with("// -----") {
            parts.push((first, &text[start..at]));
            (start, first) = (end, line);
        }
        at = end;
    }
    parts.push((first, &text[start..]));
    parts
}
