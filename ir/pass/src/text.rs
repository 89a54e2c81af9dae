//! The text of pipelines: parsing with errors that point into it.

use tir_core::{Diagnostic, Dialect, LocFile, Name, ScanError, Scanner, Traits, closest};

use crate::options::opening;
use crate::pipeline::{Element, Pipeline};
use crate::registry::{PassInfo, PassRegistry};

/// The name of the source that errors in a pipeline point into.
pub const PIPELINE: &str = "<pass-pipeline>";

/// A piece of text and where it begins, in bytes.
struct Piece {
    text: String,
    at: usize,
    len: usize,
}

struct Node {
    name: Piece,
    options: Option<Vec<(Piece, Piece)>>,
    inner: Option<Vec<Node>>,
}

impl PassRegistry {
    /// Reads a pipeline: `builtin.module(canonicalize,func.func(cse,dce{max=1}))`, or a bare list.
    /// Errors point into a source called [`PIPELINE`](crate::PIPELINE).
    pub fn parse(&self, text: &str) -> Result<Pipeline, Vec<Diagnostic>> {
        parse(self, text, Name::new(PIPELINE))
    }
    /// The pipeline of a flag `--name=options`, or of one without options: one pass. Errors
    /// point into a source called [`PIPELINE`](crate::PIPELINE) that holds
    /// [`flag_text`](Self::flag_text).
    pub fn flag(&self, name: &str, options: Option<&str>) -> Result<Pipeline, Vec<Diagnostic>> {
        self.parse(&Self::flag_text(name, options))
    }
}

fn parse(registry: &PassRegistry, text: &str, source: Name) -> Result<Pipeline, Vec<Diagnostic>> {
    let file = LocFile::new(source);
    let mut reader = Reader(Scanner::new(text));
    let nodes = reader
        .list(true)
        .map_err(|error| vec![error.diagnostic(text, file)])?;
    let mut cx = Build {
        registry,
        text,
        file,
        errors: Vec::new(),
    };
    let pipeline = cx.list(nodes, &mut Vec::new());
    if cx.errors.is_empty() {
        Ok(pipeline)
    } else {
        Err(cx.errors)
    }
}

struct Reader<'a>(Scanner<'a>);

type Read<T> = Result<T, ScanError>;

impl Reader<'_> {
    fn word(&mut self, what: &str) -> Read<Piece> {
        let at = self.0.at();
        let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let text = self.0.word(what, fits)?.to_string();
        let len = text.chars().count();
        Ok(Piece { text, at, len })
    }
    fn wrong<T>(&self, at: usize, message: impl Into<String>) -> Read<T> {
        Err(self.0.error(at, message))
    }

    /// Members up to the end, or to a closing parenthesis.
    fn list(&mut self, top: bool) -> Read<Vec<Node>> {
        let mut nodes = Vec::new();
        let end = |c: Option<char>| if top { c.is_none() } else { c == Some(')') };
        if end(self.0.peek()) {
            return Ok(nodes);
        }
        loop {
            nodes.push(self.node()?);
            if end(self.0.peek()) {
                return Ok(nodes);
            }
            if !self.0.eat(",") {
                let wanted = if top { "',' or the end" } else { "',' or ')'" };
                return Err(self.0.expected(wanted));
            }
        }
    }

    fn node(&mut self) -> Read<Node> {
        let name = self.word("the name of a pass or op")?;
        let mut node = Node {
            name,
            options: None,
            inner: None,
        };
        if self.0.peek() == Some('{') {
            node.options = Some(self.options()?);
        }
        if self.0.eat("(") {
            self.0.enter()?;
            node.inner = Some(self.list(false)?);
            self.0.leave();
            self.0.eat(")");
        }
        Ok(node)
    }

    fn options(&mut self) -> Read<Vec<(Piece, Piece)>> {
        let open = self.0.at();
        self.0.eat("{");
        let mut options = Vec::new();
        while !self.0.eat("}") {
            if self.0.peek().is_none() {
                return self.wrong(open, "this '{' is not closed");
            }
            let key = self.word("the name of an option, or '}'")?;
            let value = if self.0.eat_touching("=") {
                self.value()?
            } else {
                Piece {
                    text: "true".to_string(),
                    at: key.at,
                    len: key.len,
                }
            };
            options.push((key, value));
        }
        Ok(options)
    }

    /// A value: quoted, or up to a space or the closing brace, brackets in pairs.
    fn value(&mut self) -> Read<Piece> {
        let rest = self.0.rest();
        let at = self.0.text().len() - rest.len();
        if let Some(quote @ ('"' | '\'')) = rest.chars().next() {
            return self.quoted(at, quote);
        }
        let mut open = Vec::new();
        let mut end = self.0.text().len();
        for (i, c) in rest.char_indices() {
            match c {
                '(' | '[' | '{' => open.push((c, at + i)),
                ')' | ']' | '}' => match open.pop() {
                    Some((o, _)) if o == opening(c) => {}
                    None if c == '}' => {
                        end = at + i;
                        break;
                    }
                    _ => return self.wrong(at + i, format!("unmatched '{c}'")),
                },
                c if c.is_whitespace() && open.is_empty() => {
                    end = at + i;
                    break;
                }
                _ => {}
            }
        }
        if let Some((c, at)) = open.pop() {
            return self.wrong(at, format!("this '{c}' is not closed"));
        }
        let text = rest[..end - at].to_string();
        self.0.go(end);
        if text.is_empty() {
            return Err(self.0.expected("a value"));
        }
        let len = text.chars().count();
        Ok(Piece { text, at, len })
    }

    fn quoted(&mut self, at: usize, quote: char) -> Read<Piece> {
        let mut text = String::new();
        let rest = self.0.rest();
        let mut chars = rest.char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c if c == quote => {
                    self.0.go(at + i + 1);
                    let len = rest[..=i].chars().count();
                    return Ok(Piece { text, at, len });
                }
                c => text.push(c),
            }
        }
        self.wrong(at, "this quote is not closed")
    }
}

struct Build<'a> {
    registry: &'a PassRegistry,
    text: &'a str,
    file: LocFile,
    errors: Vec<Diagnostic>,
}

/// What a program is, around all that a pipeline names.
const ROOT: &str = "builtin.module";

impl Build<'_> {
    fn report(&mut self, piece: &Piece, message: String) -> &mut Diagnostic {
        let error = ScanError {
            at: piece.at,
            len: piece.len,
            message,
        };
        self.errors.push(error.diagnostic(self.text, self.file));
        let last = self.errors.len() - 1;
        &mut self.errors[last]
    }

    fn list(&mut self, nodes: Vec<Node>, around: &mut Vec<String>) -> Pipeline {
        let mut pipeline = Pipeline::new();
        for node in nodes {
            let element = match node.inner {
                Some(inner) => {
                    let name = &node.name;
                    if node.options.is_some() {
                        self.report(name, format!("op '{}' takes no options", name.text));
                    }
                    self.anchor(name);
                    around.push(name.text.clone());
                    let inner = self.list(inner, around);
                    around.pop();
                    Some(Element::Nest(Name::new(&name.text), inner))
                }
                None => self.pass(&node.name, node.options.unwrap_or_default(), around),
            };
            pipeline.elements.extend(element);
        }
        pipeline
    }

    /// Reports a name that no op has which passes could run on.
    fn anchor(&mut self, name: &Piece) {
        let text = name.text.as_str();
        if text == "any" {
            return;
        }
        let Some((dialect, _)) = text.split_once('.') else {
            let what = match self.registry.get(text) {
                Some(_) => format!("pass '{text}' takes no passes"),
                None => format!("'{text}' is no name of an op"),
            };
            self.report(name, what);
            return;
        };
        let all = Dialect::all();
        let isolated = || {
            let ops = all.iter().flat_map(|dialect| dialect.ops);
            ops.filter(|op| op.traits.has(Traits::IsolatedFromAbove))
                .map(|op| op.name)
        };
        if isolated().any(|op| op == text) {
            return;
        }
        let near = closest(text, isolated());
        let known = Dialect::named(dialect);
        let what = match known {
            None => format!("op '{text}' is of dialect '{dialect}', which is not loaded"),
            Some(dialect) if dialect.ops.iter().any(|op| op.name == text) => {
                format!("no pass runs on '{text}': it is not isolated from above")
            }
            Some(_) => format!("dialect '{dialect}' has no operation '{text}'"),
        };
        let error = self.report(name, what);
        match near {
            Some(near) => note(error, format!("did you mean '{near}'?")),
            None if known.is_none() => note(error, Dialect::loaded_names()),
            None => {}
        }
    }

    fn pass(
        &mut self,
        name: &Piece,
        options: Vec<(Piece, Piece)>,
        around: &[String],
    ) -> Option<Element> {
        let Some(info) = self.registry.get(&name.text).copied() else {
            let near = closest(&name.text, self.registry.iter().map(|info| info.name));
            let error = self.report(name, format!("unknown pass '{}'", name.text));
            if let Some(near) = near {
                note(error, format!("did you mean '{near}'?"));
            } else if name.text.contains('.') {
                let what = "the passes on an op stand in parentheses behind its name";
                note(error, what.to_string());
            }
            return None;
        };
        // A pass on an op that is around here would never run; around all is a module.
        if let Some(anchor) = info.anchor
            && let Some((last, outer)) = around.split_last()
            && last != anchor
            && last != "any"
            && (anchor == ROOT || outer.iter().any(|name| name == anchor))
        {
            let what = format!("pass '{}' runs on '{anchor}', not on '{last}'", info.name);
            self.report(name, what);
        }
        let mut values = Vec::new();
        let mut pieces = Vec::new();
        for (key, value) in options {
            let is_option = |field: &str| info.options.iter().any(|option| option.field == field);
            let field = key.text.replace('-', "_");
            let mut more = value.text.split(',').skip(1);
            let second = more.find(|more| {
                let name = more.split_once('=').map(|(name, _)| name.replace('-', "_"));
                name.is_some_and(|name| is_option(&name))
            });
            if let Some(second) = second {
                let what = "options are separated by spaces, not by commas".to_string();
                let (first, second) = (key.text.clone(), second.to_string());
                let error = self.report(&value, what);
                note(error, format!("write '{first}=… {second}'"));
                continue;
            }
            if is_option(&field) {
                values.push((field, value.text.clone()));
                pieces.push((key, value));
            } else {
                self.unknown_option(&info, &key);
            }
        }
        match info.make(&values) {
            Ok(element) => Some(element),
            Err((i, message)) => {
                if let Some((key, value)) = pieces.get(i) {
                    let what = format!("option '{}' of '{}' {message}", key.text, info.name);
                    self.report(value, what);
                } else {
                    self.report(name, format!("'{}' {message}", info.name));
                }
                None
            }
        }
    }

    fn unknown_option(&mut self, info: &PassInfo, key: &Piece) {
        let names: Vec<String> = info.options.iter().map(|option| option.name()).collect();
        let name = key.text.replace('_', "-");
        let near = closest(&name, names.iter().map(String::as_str)).map(str::to_string);
        let what = format!("pass '{}' has no option '{}'", info.name, key.text);
        let error = self.report(key, what);
        let takes_file = names
            .iter()
            .find(|name| ["machine", "file"].contains(&name.as_str()));
        match near {
            Some(near) => note(error, format!("did you mean '{near}'?")),
            None if key.text.contains('.') && takes_file.is_some() => {
                let option = takes_file.cloned().unwrap_or_default();
                note(error, format!("did you mean '{option}={}'?", key.text));
            }
            None if names.is_empty() => note(error, "it has no options".to_string()),
            None => note(error, format!("its options are {}", names.join(", "))),
        }
    }
}

fn note(error: &mut Diagnostic, message: String) {
    *error = std::mem::replace(error, Diagnostic::error("")).note(message);
}
