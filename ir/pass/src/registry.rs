//! What passes a tool offers: explicit lists, no link-time registration.

use std::collections::BTreeMap;

use crate::options::{OptionInfo, PassOptions};
use crate::pass::{Alias, Pass};
use crate::pipeline::{Element, Pipeline};

type SetOptions = fn(&[(String, String)]) -> Result<Element, (usize, String)>;

/// A pass or an alias that a tool offers.
#[derive(Clone, Copy)]
pub struct PassInfo {
    /// Its name.
    pub name: &'static str,
    /// Its reference page.
    pub doc: &'static str,
    /// The name of the isolated ops it runs on; `None` for any.
    pub anchor: Option<&'static str>,
    /// Its options.
    pub options: &'static [OptionInfo],
    /// Whether it is an alias of other passes.
    pub is_alias: bool,
    /// The names of its own patterns, see [`Pass::pattern_names`].
    pub patterns: fn() -> Vec<String>,
    make: SetOptions,
}

/// A pass with options by field name; an error names the option by its position.
fn with_options<P: PassOptions>(values: &[(String, String)]) -> Result<P, (usize, String)> {
    let mut pass = P::default();
    for (i, (field, value)) in values.iter().enumerate() {
        match pass.set(field, value) {
            Some(result) => result.map_err(|message| (i, message))?,
            None => return Err((i, "is not known".to_string())),
        }
        let expects = |what| (i, format!("expects {what}, found '{value}'"));
        pass.check(field).map_err(expects)?;
    }
    Ok(pass)
}

impl PassInfo {
    /// The entry of a pass.
    pub const fn of<P: Pass>() -> Self {
        Self {
            name: P::NAME,
            doc: P::DOC,
            anchor: P::ANCHOR,
            options: P::OPTIONS,
            is_alias: false,
            patterns: P::pattern_names,
            make: |values| Ok(Element::Pass(Box::new(with_options::<P>(values)?))),
        }
    }

    /// The entry of an alias.
    pub const fn alias<A: Alias>() -> Self {
        Self {
            name: A::NAME,
            doc: A::DOC,
            anchor: A::ANCHOR,
            options: A::OPTIONS,
            is_alias: true,
            patterns: Vec::new,
            make: |values| {
                let alias = with_options::<A>(values)?;
                let mut pipeline = Pipeline::new();
                pipeline.alias(alias);
                match pipeline.elements.pop() {
                    Some(element) => Ok(element),
                    None => Err((0, "expands to nothing".to_string())),
                }
            },
        }
    }

    /// The first line of its documentation.
    pub fn sentence(&self) -> &'static str {
        self.doc.trim().lines().next().unwrap_or("")
    }

    /// The pass with options by field name; an error names the option by its position.
    pub(crate) fn make(&self, values: &[(String, String)]) -> Result<Element, (usize, String)> {
        (self.make)(values)
    }
}

/// The passes and aliases that a tool offers, by name.
#[derive(Clone, Default)]
pub struct PassRegistry {
    entries: BTreeMap<&'static str, PassInfo>,
}

impl PassRegistry {
    /// No passes.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds passes. Panics if a name is taken: lists are written by hand, not by users.
    pub fn add(&mut self, infos: impl IntoIterator<Item = PassInfo>) -> &mut Self {
        for info in infos {
            let other = self.entries.insert(info.name, info);
            assert!(other.is_none(), "two passes are called '{}'", info.name);
        }
        self
    }
    /// The pass of a name.
    pub fn get(&self, name: &str) -> Option<&PassInfo> {
        self.entries.get(name)
    }
    /// All, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &PassInfo> {
        self.entries.values()
    }
    /// The pipeline text that a flag `--name=options` means: `name{options}`.
    pub fn flag_text(name: &str, options: Option<&str>) -> String {
        match options {
            Some(options) => format!("{name}{{{options}}}"),
            None => name.to_string(),
        }
    }
}
