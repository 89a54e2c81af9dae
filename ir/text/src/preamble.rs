//! What a file says beside its operations: aliases, and the metadata `{-# … #-}`.
//!
//! Aliases may stand anywhere at the outermost level, also behind what uses them. They are read
//! once, before all operations, each after those that it names, so that a chain of any length is
//! read without recursion. What an alias stands for counts towards the limit of nesting with all
//! that it names, since everything that walks a type goes that deep.
//!
//! Of the metadata, resources of `builtin` are constants (`dense_resource<key>`); external
//! resources are about tools that made the file and are no part of the program.

use rustc_hash::FxHashMap;
use tir_core::{Failure, unquote};

use crate::cursor::{Cursor, is_id};
use crate::texts::{Alias, Shared, Texts};

/// The definition of an alias.
#[derive(Clone, Copy)]
struct Definition<'t> {
    /// `#name`, `!name`.
    name: &'t str,
    value: &'t str,
}

/// Reads the definitions of aliases, each the text of a piece of the file.
pub(crate) fn aliases<'t>(
    shared: &mut Shared<'t>,
    pieces: impl Iterator<Item = &'t str>,
    max_depth: usize,
) -> Vec<Failure> {
    let mut errors = Vec::new();
    let mut all: Vec<Definition<'t>> = Vec::new();
    let mut index: FxHashMap<&'t str, usize> = FxHashMap::default();
    for text in pieces {
        let Some(definition) = definition(shared, text, &mut errors) else {
            continue;
        };
        if index.insert(definition.name, all.len()).is_some() {
            let name = definition.name;
            let message = format!("alias `{name}` is defined again");
            errors.push(Box::new(shared.source.error(name, message)));
        }
        all.push(definition);
    }
    if !errors.is_empty() {
        return errors;
    }
    let uses: Vec<(Vec<usize>, usize)> = all.iter().map(|d| mentions(d.value, &index)).collect();
    // Depth first without recursion. `depths` holds how deep each nests, once it is known.
    let mut depths: Vec<Option<usize>> = vec![None; all.len()];
    let mut open = vec![false; all.len()];
    for first in 0..all.len() {
        let mut stack = vec![(first, 0)];
        while let Some((at, next)) = stack.pop() {
            if depths[at].is_some() {
                continue;
            }
            open[at] = true;
            let (names, own) = &uses[at];
            if let Some(child) = names.get(next).copied() {
                stack.push((at, next + 1));
                if open[child] && depths[child].is_none() {
                    let name = all[child].name;
                    let message = format!("alias `{name}` stands for itself");
                    return vec![Box::new(shared.source.error(name, message))];
                }
                stack.push((child, 0));
                continue;
            }
            let inner = names.iter().filter_map(|n| depths[*n]).max().unwrap_or(0);
            let depth = own + inner;
            let Definition { name, value } = all[at];
            depths[at] = Some(depth);
            open[at] = false;
            if depth > max_depth {
                let message = format!("alias `{name}` nests deeper than {max_depth} levels");
                return vec![Box::new(shared.source.error(name, message))];
            }
            let texts = Texts::new(shared);
            let read = match name.starts_with('!') {
                true => texts.ty(value).map(Alias::Type),
                false => texts.attr(value).map(Alias::Attr),
            };
            match read {
                Ok(value) => {
                    shared.aliases.insert(name, value);
                }
                Err(error) => return vec![error],
            }
        }
    }
    errors
}

/// `#name = value`, `!name = value`.
fn definition<'t>(
    shared: &Shared<'t>,
    text: &'t str,
    errors: &mut Vec<Failure>,
) -> Option<Definition<'t>> {
    let mut cursor = Cursor::new(text);
    let sigil = text.as_bytes()[0];
    let name = cursor.sigil(sigil)?;
    cursor.eat("=");
    cursor.ws();
    let rest = cursor.rest();
    let read = match sigil {
        b'!' => cursor.type_text(),
        _ => cursor.attr_text(true),
    };
    // Comments behind the value belong to nobody.
    if read.is_some() && !cursor.done() {
        let piece = cursor.token();
        let message = format!("unexpected `{piece}` behind alias `{name}`");
        errors.push(Box::new(shared.source.error(piece, message)));
    }
    if name.contains('.') {
        let message = format!("the name of alias `{name}` has a dot, as those of dialects do");
        errors.push(Box::new(shared.source.error(name, message)));
    }
    let value = read.unwrap_or(rest);
    Some(Definition { name, value })
}

/// The aliases that a text names, and how deep its own brackets nest.
fn mentions(text: &str, index: &FxHashMap<&str, usize>) -> (Vec<usize>, usize) {
    let mut names = Vec::new();
    let (mut depth, mut deepest) = (0usize, 0);
    let mut cursor = Cursor::new(text);
    while let Some(b) = cursor.byte() {
        match b {
            b'"' if cursor.string().is_some() => continue,
            b'#' | b'!' if cursor.nth(1).is_some_and(is_id) => {
                if let Some(at) = cursor.sigil(b).and_then(|name| index.get(name)) {
                    names.push(*at);
                }
                continue;
            }
            b'-' if cursor.nth(1) == Some(b'>') => cursor.pos += 1,
            b'<' | b'(' | b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        cursor.pos += 1;
    }
    (names, deepest)
}

/// Reads the metadata `{-# … #-}` that begins the text.
pub(crate) fn metadata<'t>(shared: &mut Shared<'t>, text: &'t str) -> Result<(), Failure> {
    let mut cursor = Cursor::new(text);
    cursor.pos = "{-#".len();
    loop {
        if cursor.eat("#-}") {
            break;
        }
        let section = key(shared, &mut cursor)?;
        match section {
            "external_resources" => skip(shared, &mut cursor)?,
            "dialect_resources" => resources(shared, &mut cursor)?,
            _ => {
                let message = format!("`{section}` is no part of the metadata of a file");
                return Err(Box::new(shared.source.error(section, message)));
            }
        }
        if !cursor.eat(",") && !cursor.clone().eat("#-}") {
            return Err(expected(shared, cursor, "`,` or `#-}`"));
        }
    }
    if !cursor.done() {
        return Err(expected(shared, cursor, "an operation"));
    }
    Ok(())
}

fn expected(shared: &Shared<'_>, mut cursor: Cursor<'_>, what: &str) -> Failure {
    let token = cursor.token();
    let found = match token {
        "" => "the end of the text".to_string(),
        token => format!("`{token}`"),
    };
    let message = format!("expected {what} in the metadata, found {found}");
    Box::new(shared.source.error(token, message))
}

/// `key:`.
fn key<'t>(shared: &Shared<'t>, cursor: &mut Cursor<'t>) -> Result<&'t str, Failure> {
    cursor.ws();
    let before = *cursor;
    let key = match cursor.string() {
        Some(text) => text.trim_matches('"'),
        None => {
            let rest = cursor.rest();
            let len =
                rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '-')));
            let key = &rest[..len.unwrap_or(rest.len())];
            cursor.pos += key.len();
            key
        }
    };
    if key.is_empty() || !cursor.eat(":") {
        return Err(expected(shared, before, "a key and `:`"));
    }
    Ok(key)
}

/// Skips a value: a string, a word, or a dictionary, whose brackets are in pairs.
fn skip(shared: &Shared<'_>, cursor: &mut Cursor<'_>) -> Result<(), Failure> {
    cursor.ws();
    let skipped = match cursor.byte() {
        Some(b'{' | b'[') => cursor.balanced().is_some(),
        Some(b'"') => cursor.string().is_some(),
        _ => cursor.number().is_some() || cursor.word().is_some(),
    };
    match skipped {
        true => Ok(()),
        false => Err(expected(shared, *cursor, "a value")),
    }
}

/// `{dialect: {key: "0x…", …}, …}`.
fn resources<'t>(shared: &mut Shared<'t>, cursor: &mut Cursor<'t>) -> Result<(), Failure> {
    entries(shared, cursor, |shared, cursor, dialect| {
        if dialect != "builtin" {
            let message =
                format!("resources of dialect '{dialect}' are not read: they would be lost");
            return Err(Box::new(shared.source.error(dialect, message)));
        }
        entries(shared, cursor, |shared, cursor, key| {
            let Some(blob) = cursor.string() else {
                return Err(expected(shared, *cursor, "a string \"0x…\""));
            };
            match unquote(blob) {
                Some(text) if text.starts_with("0x") => {
                    shared.resources.insert(key, blob);
                    Ok(())
                }
                _ => {
                    let message = "the bytes of a resource are written \"0x…\"";
                    Err(Box::new(shared.source.error(blob, message)))
                }
            }
        })
    })
}

/// `{key: value, …}`.
fn entries<'t>(
    shared: &mut Shared<'t>,
    cursor: &mut Cursor<'t>,
    mut value: impl FnMut(&mut Shared<'t>, &mut Cursor<'t>, &'t str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !cursor.eat("{") {
        return Err(expected(shared, *cursor, "`{`"));
    }
    while !cursor.eat("}") {
        let key = key(shared, cursor)?;
        value(shared, cursor, key)?;
        if !cursor.eat(",") && !cursor.clone().eat("}") {
            return Err(expected(shared, *cursor, "`,` or `}`"));
        }
    }
    Ok(())
}
