//! From the text of a type, attribute, dictionary or location to what it says, with caches.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use tir_core::{Attr, Diagnostic, Failure, Loc, Name, TextCx, Type};

use crate::attr::Reading;
use crate::error::explain_text;
use crate::source::Source;
use crate::tree::{Grammar, Rule};
use pest::Parser;

/// What all threads share.
pub(crate) struct Shared<'t> {
    pub(crate) source: Source<'t>,
    /// What each alias stands for, by name with sigil.
    pub(crate) aliases: FxHashMap<&'t str, Alias>,
    /// The quoted bytes of each resource of the file's metadata.
    pub(crate) resources: FxHashMap<&'t str, &'t str>,
    pub(crate) allow_unregistered: bool,
}

impl<'t> Shared<'t> {
    pub(crate) fn new(source: Source<'t>, allow_unregistered: bool) -> Self {
        Self {
            source,
            aliases: FxHashMap::default(),
            resources: FxHashMap::default(),
            allow_unregistered,
        }
    }
}

pub(crate) type Entries = Rc<[(Name, Attr)]>;

/// Texts longer than this are not kept as keys.
const LONG: usize = 4096;

/// The caches of a thread.
pub(crate) struct Texts<'s> {
    pub(crate) shared: &'s Shared<'s>,
    types: RefCell<FxHashMap<Box<str>, Type>>,
    attrs: RefCell<FxHashMap<Box<str>, Attr>>,
    dictionaries: RefCell<FxHashMap<Box<str>, Entries>>,
}

/// What an alias stands for.
#[derive(Clone, Copy)]
pub(crate) enum Alias {
    Type(Type),
    Attr(Attr),
}

impl<'s> Texts<'s> {
    pub(crate) fn new(shared: &'s Shared<'s>) -> Self {
        Self {
            shared,
            types: RefCell::default(),
            attrs: RefCell::default(),
            dictionaries: RefCell::default(),
        }
    }

    /// An error at a piece of text.
    pub(crate) fn error(&self, piece: &str, message: impl Into<String>) -> Failure {
        Box::new(self.shared.source.error(piece, message))
    }

    fn parse<T>(
        &self,
        rule: Rule,
        text: &str,
        what: &str,
        read: impl FnOnce(&Reading<'_>, pest::iterators::Pair<'_, Rule>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut pairs = match Grammar::parse(rule, text) {
            Ok(pairs) => pairs,
            Err(error) => return Err(explain_text(self, text, what, &error)),
        };
        let root = pairs.next().and_then(|pair| pair.into_inner().next());
        match root {
            Some(pair) => read(&Reading { texts: self }, pair),
            None => Err(self.error(text, format!("expected {what}"))),
        }
    }

    /// The type that a text says.
    pub(crate) fn ty(&self, text: &str) -> Result<Type, Failure> {
        if let Some(ty) = self.types.borrow().get(text) {
            return Ok(*ty);
        }
        let ty = self.parse(Rule::only_type, text, "a type", |r, pair| r.ty(pair))?;
        if text.len() <= LONG {
            self.types.borrow_mut().insert(text.into(), ty);
        }
        Ok(ty)
    }

    /// The attribute that a text says.
    pub(crate) fn attr(&self, text: &str) -> Result<Attr, Failure> {
        if let Some(attr) = self.attrs.borrow().get(text) {
            return Ok(*attr);
        }
        let attr = self.parse(Rule::only_attr, text, "an attribute", |r, pair| {
            r.attr(pair)
        })?;
        if text.len() <= LONG {
            self.attrs.borrow_mut().insert(text.into(), attr);
        }
        Ok(attr)
    }

    /// The entries of a dictionary with its braces.
    pub(crate) fn dictionary(&self, text: &str) -> Result<Entries, Failure> {
        if let Some(entries) = self.dictionaries.borrow().get(text) {
            return Ok(entries.clone());
        }
        let entries: Entries = self
            .parse(Rule::only_dictionary, text, "a dictionary", |r, pair| {
                r.entries(pair)
            })?
            .into();
        if text.len() <= LONG {
            self.dictionaries
                .borrow_mut()
                .insert(text.into(), entries.clone());
        }
        Ok(entries)
    }

    /// The location that `loc(…)` says.
    pub(crate) fn location(&self, text: &str) -> Result<Loc, Failure> {
        self.parse(Rule::only_location, text, "a location", |r, pair| {
            r.loc(pair)
        })
    }

    /// What an alias stands for; `None` if there is none of this name (with its sigil).
    pub(crate) fn alias(&self, name: &str) -> Option<Alias> {
        self.shared.aliases.get(name).copied()
    }
}

impl TextCx for Texts<'_> {
    fn parse_type(&self, text: &str) -> Result<Type, String> {
        self.ty(text.trim()).map_err(|e| e.message)
    }
    fn parse_attr(&self, text: &str) -> Result<Attr, String> {
        self.attr(text.trim()).map_err(|e| e.message)
    }
}

/// The value of a standalone text.
pub(crate) fn standalone<T>(
    text: &str,
    allow_unregistered: bool,
    read: impl FnOnce(&Texts<'_>) -> Result<T, Failure>,
) -> Result<T, Diagnostic> {
    let file = tir_core::LocFile::new(Name::new("<text>"));
    let source = Source::new(text, file, 0);
    crate::source::scan(&source, crate::DEPTH)?;
    let shared = Shared::new(source, allow_unregistered);
    read(&Texts::new(&shared)).map_err(|failure| *failure)
}
