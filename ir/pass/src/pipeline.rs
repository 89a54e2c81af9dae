//! Pipelines: lists of passes, nested by the name of the ops they run on, and their text.

use std::fmt;

use tir_core::Name;

use crate::options::{PassOptions, changed_options, option_text};
use crate::pass::{Alias, AnyPass, Pass};

/// One member of a pipeline.
pub enum Element {
    /// A pass.
    Pass(Box<dyn AnyPass>),
    /// A pipeline that runs on each isolated op of a name directly below; `any`: of every name.
    /// At the top it also means the root.
    Nest(Name, Pipeline),
    /// A named pipeline: its name, its options, what it expanded to.
    Alias(&'static str, Vec<(String, String)>, Pipeline),
}

impl Clone for Element {
    fn clone(&self) -> Self {
        match self {
            Self::Pass(pass) => Self::Pass(pass.boxed()),
            Self::Nest(name, inner) => Self::Nest(*name, inner.clone()),
            Self::Alias(name, options, inner) => Self::Alias(name, options.clone(), inner.clone()),
        }
    }
}

/// A list of passes. `Display` prints the text that parses to it; `{:#}` prints it on several
/// lines.
#[derive(Clone, Default)]
pub struct Pipeline {
    /// Its members in order.
    pub elements: Vec<Element>,
}

impl Pipeline {
    /// No passes.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a pass.
    pub fn add(&mut self, pass: impl Pass) -> &mut Self {
        self.elements.push(Element::Pass(Box::new(pass)));
        self
    }
    /// Adds passes that run on the isolated ops of a name directly below.
    pub fn nest(&mut self, name: &str, fill: impl FnOnce(&mut Pipeline)) -> &mut Self {
        let mut inner = Pipeline::new();
        fill(&mut inner);
        self.elements.push(Element::Nest(Name::new(name), inner));
        self
    }
    /// Adds what an alias stands for, under its name.
    pub fn alias<A: Alias>(&mut self, alias: A) -> &mut Self {
        let mut inner = Pipeline::new();
        alias.expand(&mut inner);
        let options = changed_options(&alias);
        self.elements
            .push(Element::Alias(<A as PassOptions>::NAME, options, inner));
        self
    }
    /// Adds the members of another pipeline.
    pub fn append(&mut self, other: Pipeline) -> &mut Self {
        self.elements.extend(other.elements);
        self
    }

    /// The same passes as a list in which each stands alone in its nest: `a(b,c)` is `a(b),a(c)`.
    /// Aliases are expanded.
    #[must_use]
    pub fn flatten(&self) -> Pipeline {
        let mut out = Pipeline::new();
        for element in &self.elements {
            match element {
                Element::Pass(_) => out.elements.push(element.clone()),
                Element::Alias(_, _, inner) => out.elements.extend(inner.flatten().elements),
                Element::Nest(name, inner) => {
                    let single = inner.flatten().elements.into_iter();
                    out.elements.extend(single.map(|one| {
                        let elements = vec![one];
                        Element::Nest(*name, Pipeline { elements })
                    }));
                }
            }
        }
        out
    }

    /// The same passes in the same nests, with each alias replaced by what it stands for.
    #[must_use]
    pub fn expand(&self) -> Pipeline {
        let mut out = Pipeline::new();
        for element in &self.elements {
            match element {
                Element::Pass(_) => out.elements.push(element.clone()),
                Element::Alias(_, _, inner) => out.elements.extend(inner.expand().elements),
                Element::Nest(name, inner) => {
                    out.elements.push(Element::Nest(*name, inner.expand()));
                }
            }
        }
        out
    }

    /// The number of passes in it, however deep.
    pub fn count(&self) -> usize {
        let elements = self.elements.iter();
        let counts = elements.map(|element| match element {
            Element::Pass(_) => 1,
            Element::Alias(_, _, inner) | Element::Nest(_, inner) => inner.count(),
        });
        counts.sum()
    }

    /// Each member on a line of its own, those in a nest indented.
    fn write_lines(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let indent = depth * 2;
        for (i, element) in self.elements.iter().enumerate() {
            let end = if i + 1 < self.elements.len() {
                ",\n"
            } else {
                "\n"
            };
            match element {
                Element::Nest(name, inner) => {
                    writeln!(f, "{:indent$}{name}(", "")?;
                    inner.write_lines(f, depth + 1)?;
                    write!(f, "{:indent$}){end}", "")?;
                }
                element => write!(f, "{:indent$}{element}{end}", "")?,
            }
        }
        Ok(())
    }

    /// The pipeline up to and with the pass at a path of positions.
    pub(crate) fn up_to(&self, path: &[usize]) -> Pipeline {
        let Some((last, rest)) = path.split_first() else {
            return self.clone();
        };
        let mut elements: Vec<Element> = self.elements.iter().take(*last + 1).cloned().collect();
        if let Some(Element::Nest(_, inner) | Element::Alias(_, _, inner)) = elements.last()
            && !rest.is_empty()
        {
            let inner = inner.up_to(rest);
            match elements.pop() {
                Some(Element::Nest(name, _)) => elements.push(Element::Nest(name, inner)),
                // What is cut short is no longer what the alias stands for.
                _ => elements.extend(inner.elements),
            }
        }
        Pipeline { elements }
    }

    /// The name of the only pass in it, however deep: after [`flatten`](Self::flatten), of each
    /// member.
    pub(crate) fn leaf(element: &Element) -> &'static str {
        match element {
            Element::Pass(pass) => pass.name(),
            Element::Alias(name, ..) => name,
            Element::Nest(_, inner) => inner.elements.first().map_or("", Self::leaf),
        }
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return self.write_lines(f, 0);
        }
        for (i, element) in self.elements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{element}")?;
        }
        Ok(())
    }
}
impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipeline({self})")
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Nest(name, inner) => write!(f, "{name}({inner})"),
            Element::Pass(pass) => options(f, pass.name(), &pass.options()),
            Element::Alias(name, values, _) => options(f, name, values),
        }
    }
}

fn options(f: &mut fmt::Formatter<'_>, name: &str, values: &[(String, String)]) -> fmt::Result {
    f.write_str(name)?;
    for (i, (key, value)) in values.iter().enumerate() {
        let before = if i == 0 { "{" } else { " " };
        write!(f, "{before}{key}={}", option_text(value))?;
    }
    f.write_str(if values.is_empty() { "" } else { "}" })
}
