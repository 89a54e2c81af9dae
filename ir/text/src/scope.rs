//! Names of values in one isolated operation.

use rustc_hash::FxHashMap;
use tir_core::{Failure, Ir, Name, OpId, OpState, Type, Value};

use crate::texts::Texts;

/// A value's name: most are numbers, which are not interned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key {
    Number(u32),
    Name(Name),
}

impl Key {
    /// The key of a name without `%` and `#`.
    pub(crate) fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let canonical = bytes.len() < 10 && (bytes.len() == 1 || bytes.first() != Some(&b'0'));
        if canonical && bytes.iter().all(u8::is_ascii_digit) {
            let number = bytes.iter().fold(0, |n, b| n * 10 + u32::from(b - b'0'));
            return Self::Number(number);
        }
        Self::Name(Name::new(text))
    }
}

/// A use as it is written: `%name#number`.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    pub(crate) key: Key,
    pub(crate) index: u32,
}

impl Used {
    pub(crate) fn new(text: &str) -> Self {
        let text = text.strip_prefix('%').unwrap_or(text);
        // Names are short and mostly without: a call to search for it costs more.
        match text.bytes().position(|b| b == b'#') {
            // A number that is too large is no result.
            Some(at) => Self {
                key: Key::new(&text[..at]),
                index: text[at + 1..].parse().unwrap_or(u32::MAX),
            },
            None => Self {
                key: Key::new(text),
                index: 0,
            },
        }
    }
}

#[derive(Clone, Copy)]
enum What {
    One(Value),
    Results {
        op: OpId,
        first: u32,
        count: u32,
    },
    /// Its definition is wrong, which was reported.
    Broken,
}

#[derive(Clone, Copy)]
struct Binding {
    what: What,
    /// Where it is defined: a byte of the file.
    at: u32,
}

struct Forward {
    op: OpId,
    value: Value,
    /// The use.
    at: String,
    offset: usize,
    /// The number of names that were defined before.
    known: usize,
}

/// The names of an isolated operation.
#[derive(Default)]
pub(crate) struct Scope {
    names: FxHashMap<Key, Binding>,
    /// Names in order of definition, to forget those of a region at its end.
    order: Vec<Key>,
    forward: FxHashMap<(Key, u32), Forward>,
    /// What stood for values that are defined by now: an op that is still being read may hold it.
    arrived: Vec<(OpId, Value, Value)>,
    /// Names that were ever known, for suggestions.
    seen: Vec<Name>,
}

impl Scope {
    /// The number of names that are known.
    pub(crate) fn mark(&self) -> usize {
        self.order.len()
    }
    /// Forgets the names that came after a mark.
    pub(crate) fn forget(&mut self, mark: usize) {
        for key in self.order.drain(mark..) {
            self.names.remove(&key);
        }
    }

    fn bind(
        &mut self,
        texts: &Texts<'_>,
        piece: &str,
        key: Key,
        what: What,
    ) -> Result<(), Failure> {
        let at = texts.shared.source.offset(piece).unwrap_or(0) as u32;
        match self.names.entry(key) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(Binding { what, at });
            }
            std::collections::hash_map::Entry::Occupied(entry) => {
                let first = entry.get().at as usize;
                let error = texts
                    .shared
                    .source
                    .error(piece, format!("`{piece}` is defined again"));
                let first = texts.shared.source.loc_at(first);
                return Err(Box::new(error.note_at(first, "first defined here")));
            }
        }
        self.order.push(key);
        if let Key::Name(name) = key {
            self.seen.push(name);
        }
        Ok(())
    }

    /// Gives a value a name.
    pub(crate) fn define(
        &mut self,
        texts: &Texts<'_>,
        ir: &mut Ir,
        piece: &str,
        key: Key,
        value: Value,
    ) -> Result<(), Failure> {
        self.bind(texts, piece, key, What::One(value))?;
        if !self.forward.is_empty() {
            self.arrive(texts, ir, piece, key, 0, value)?;
        }
        Ok(())
    }

    /// Gives results of an op a name.
    pub(crate) fn define_results(
        &mut self,
        texts: &Texts<'_>,
        ir: &mut Ir,
        piece: &str,
        key: Key,
        (op, first, count): (OpId, u32, u32),
    ) -> Result<(), Failure> {
        self.bind(texts, piece, key, What::Results { op, first, count })?;
        if !self.forward.is_empty() {
            for i in 0..count {
                let value = ir.result(op, (first + i) as usize);
                self.arrive(texts, ir, piece, key, i, value)?;
            }
        }
        Ok(())
    }

    /// Says that a name's definition is wrong: its uses are no more errors.
    pub(crate) fn poison(&mut self, key: Key) {
        if self
            .names
            .insert(
                key,
                Binding {
                    what: What::Broken,
                    at: 0,
                },
            )
            .is_none()
        {
            self.order.push(key);
        }
    }

    /// Replaces what stands for a value that was used before its definition.
    fn arrive(
        &mut self,
        texts: &Texts<'_>,
        ir: &mut Ir,
        piece: &str,
        key: Key,
        index: u32,
        value: Value,
    ) -> Result<(), Failure> {
        let Some(forward) = self.forward.remove(&(key, index)) else {
            return Ok(());
        };
        let (used, defined) = (ir.ty(forward.value), ir.ty(value));
        ir.replace_uses(forward.value, value);
        self.arrived.push((forward.op, forward.value, value));
        if used != defined {
            let message = format!("`{piece}` is {defined} here, but was used as {used}");
            let error = texts.shared.source.error(piece, message);
            let at = texts.shared.source.loc_at(forward.offset);
            return Err(Box::new(error.note_at(at, "used here")));
        }
        Ok(())
    }

    /// The value behind a name; with a type, one that is not defined yet stands for itself.
    pub(crate) fn find(
        &mut self,
        texts: &Texts<'_>,
        ir: &mut Ir,
        piece: &str,
        ty: Option<Type>,
    ) -> Result<Value, Failure> {
        let used = Used::new(piece);
        let value = match self.names.get(&used.key) {
            Some(binding) => {
                let (value, count) = match binding.what {
                    What::One(value) => ((used.index == 0).then_some(value), 1),
                    What::Results { op, first, count } => {
                        let known = used.index < count;
                        (
                            known.then(|| ir.result(op, (first + used.index) as usize)),
                            count,
                        )
                    }
                    What::Broken => return Err(silent()),
                };
                let at = binding.at;
                let source = &texts.shared.source;
                let Some(value) = value else {
                    let s = if count == 1 { "" } else { "s" };
                    let base = piece.split('#').next().unwrap_or(piece);
                    let message = format!("`{base}` is {count} value{s}: there is no `{piece}`");
                    let error = source.error(piece, message);
                    let first = source.loc_at(at as usize);
                    return Err(Box::new(error.note_at(first, "defined here")));
                };
                if let Some(ty) = ty {
                    let found = ir.ty(value);
                    if found != ty {
                        let message = format!("`{piece}` is {found}, but {ty} is written here");
                        let error = source.error(piece, message);
                        let first = source.loc_at(at as usize);
                        return Err(Box::new(error.note_at(first, "defined here")));
                    }
                }
                return Ok(value);
            }
            None => self
                .forward
                .get(&(used.key, used.index))
                .map(|f| (f.value, f.offset)),
        };
        if let Some((value, offset)) = value {
            let found = ir.ty(value);
            if let Some(ty) = ty
                && found != ty
            {
                let message = format!("`{piece}` is used as {ty} here, but as {found} before");
                let source = &texts.shared.source;
                let at = source.loc_at(offset);
                return Err(Box::new(
                    source.error(piece, message).note_at(at, "used here"),
                ));
            }
            return Ok(value);
        }
        let Some(ty) = ty else {
            let error = self.undefined(texts, piece);
            return Err(error);
        };
        let mut state = OpState::new("builtin.forward");
        state.results.push(ty);
        let op = ir.create_raw(state);
        let value = ir.result(op, 0);
        let offset = texts.shared.source.offset(piece).unwrap_or(0);
        let forward = Forward {
            op,
            value,
            at: piece.to_string(),
            offset,
            known: self.seen.len(),
        };
        self.forward.insert((used.key, used.index), forward);
        Ok(value)
    }

    fn undefined(&self, texts: &Texts<'_>, piece: &str) -> Failure {
        texts.error(piece, self.undefined_text(piece, self.seen.len()))
    }

    /// The message, with the nearest of the first `known` names: those that were defined before.
    fn undefined_text(&self, piece: &str, known: usize) -> String {
        let word = piece
            .trim_start_matches('%')
            .split('#')
            .next()
            .unwrap_or("");
        let seen = self.seen[..known].iter().map(|name| name.as_str());
        let near = crate::error::nearest(word, seen);
        let help = near.map_or(String::new(), |name| format!("; did you mean `%{name}`?"));
        format!("use of undefined value `{piece}`{help}")
    }

    /// Checks that all values that were used are defined by now.
    pub(crate) fn finish(&mut self, texts: &Texts<'_>, ir: &mut Ir) -> Result<(), Failure> {
        for (op, from, to) in self.arrived.drain(..) {
            if ir.contains_value(to) {
                ir.replace_uses(from, to);
                ir.erase(op);
            }
        }
        let first = self.forward.values().min_by_key(|forward| forward.offset);
        let Some(forward) = first else { return Ok(()) };
        let message = self.undefined_text(&forward.at, forward.known);
        let source = &texts.shared.source;
        let piece = source
            .text
            .get(forward.offset..forward.offset + forward.at.len());
        Err(Box::new(source.error(piece.unwrap_or(""), message)))
    }
}

/// An error that follows from one that was reported.
pub(crate) fn silent() -> Failure {
    Box::new(tir_core::Diagnostic::error(""))
}
