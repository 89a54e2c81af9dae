//! Declared formats: `"$x `,` $y attr-dict `:` type($sum)"` as data.

use tir_core::{Name, OpInfo, Role};

/// What a type in a format is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    /// A field: operands or results.
    Field(usize),
    /// A result that has a name only.
    Result(usize),
    /// All operands.
    Operands,
    /// All results.
    Results,
}

/// An argument of a `custom<name>(…)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    /// `$field`, by its index in the op's fields.
    Field(usize),
    /// `type($field)` of a field.
    TypeOf(usize),
    /// `type($result)` of a result that is inferred or `type(results)`, by index.
    TypeOfResult(usize),
}

/// One element of a format.
#[derive(Debug)]
pub(crate) enum Elem {
    /// A keyword or punctuation.
    Literal(String),
    /// `` ` ` ``, `` `` ``, `` `\n` ``: space to print, nothing to read.
    Space(&'static str),
    /// `$field`.
    Field(usize),
    /// `symbol($field)`.
    Symbol(usize),
    /// `type(…)`.
    Type(Of),
    /// `functional-type(operands, results)`.
    FunctionalType(Of, Of),
    /// `attr-dict`, `attr-dict-with-keyword`.
    AttrDict { keyword: bool },
    /// `operands`.
    Operands,
    /// `regions`.
    Regions,
    /// `successors`.
    Successors,
    /// `(… $x^ …)? : (…)`: index of the anchor in `then`.
    Group {
        then: Vec<Elem>,
        anchor: usize,
        other: Vec<Elem>,
    },
    /// `custom<name>(…)`.
    Custom { name: String, args: Vec<Arg> },
}

/// A format.
#[derive(Debug, Default)]
pub(crate) struct Format {
    pub(crate) elems: Vec<Elem>,
    /// The terminator that is left out at the end of regions when it says nothing.
    pub(crate) implicit: Option<Name>,
    /// Which fields are attributes that the format says.
    pub(crate) says: Vec<bool>,
    pub(crate) has_dict: bool,
}

/// Says what is wrong with the declared format of an op, if it has one: for the tests of a dialect.
pub fn check_format(info: &OpInfo) -> Result<(), String> {
    let Some(text) = &info.asm else { return Ok(()) };
    let format = parse(info, text)?;
    let required =
        info.fields.iter().enumerate().filter(|(_, field)| {
            matches!(field.role, Role::Attribute(_)) && field.default.is_none()
        });
    for (i, field) in required {
        if !format.says[i] && !format.has_dict {
            return Err(format!("the format cannot say attribute '{}'", field.name));
        }
    }
    Ok(())
}

struct Reader<'a> {
    info: &'a OpInfo,
    text: &'a str,
    format: Format,
}

/// Reads a format; the error says what is wrong with it.
pub(crate) fn parse(info: &OpInfo, text: &str) -> Result<Format, String> {
    let format = Format {
        says: vec![false; info.fields.len()],
        ..Format::default()
    };
    let mut reader = Reader { info, text, format };
    let elems = reader.elems()?;
    reader.ws();
    if !reader.text.is_empty() {
        return Err(format!("unexpected `{}` in the format", head(reader.text)));
    }
    reader.format.elems = elems;
    Ok(reader.format)
}

fn head(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or("")
}

impl<'a> Reader<'a> {
    fn ws(&mut self) {
        self.text = self.text.trim_start();
    }
    fn eat(&mut self, token: &str) -> bool {
        self.ws();
        match self.text.strip_prefix(token) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }
    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) {
            return Ok(());
        }
        Err(format!(
            "expected `{token}` in the format before `{}`",
            head(self.text)
        ))
    }
    fn word(&mut self) -> &'a str {
        self.ws();
        let text = self.text;
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let end = text.find(|c: char| !word(c)).unwrap_or(text.len());
        self.text = &text[end..];
        &text[..end]
    }
    fn name(&mut self) -> &'a str {
        self.ws();
        let text = self.text;
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let end = text.find(|c: char| !word(c)).unwrap_or(text.len());
        self.text = &text[end..];
        &text[..end]
    }

    /// Elements up to `)` or the end.
    fn elems(&mut self) -> Result<Vec<Elem>, String> {
        let mut out = Vec::new();
        loop {
            self.ws();
            if self.text.is_empty() || self.text.starts_with(')') {
                return Ok(out);
            }
            self.one(&mut out)?;
        }
    }

    /// One literal (several elements), group or other element.
    fn one(&mut self, out: &mut Vec<Elem>) -> Result<(), String> {
        if let Some(rest) = self.text.strip_prefix('`') {
            let Some((literal, rest)) = rest.split_once('`') else {
                return Err("a literal is not closed by a backtick".to_string());
            };
            self.text = rest;
            match literal {
                "" => out.push(Elem::Space("")),
                "\\n" => out.push(Elem::Space("\n")),
                " " => out.push(Elem::Space(" ")),
                _ => {
                    for token in literal.split_whitespace() {
                        split_literal(token, out);
                    }
                }
            }
        } else if let Some(rest) = self.text.strip_prefix('(') {
            self.text = rest;
            out.push(self.group()?);
        } else {
            out.push(self.elem()?);
        }
        Ok(())
    }

    fn group(&mut self) -> Result<Elem, String> {
        // The anchor is the element before `^`; elements keep their place.
        let mut then = Vec::new();
        let mut anchor = None;
        loop {
            self.ws();
            if self.eat(")") {
                break;
            }
            if self.text.is_empty() {
                return Err("a group is not closed by `)`".to_string());
            }
            self.one(&mut then)?;
            if self.eat("^") {
                anchor = Some(then.len() - 1);
            }
        }
        self.expect("?")?;
        let mut other = Vec::new();
        if self.eat(":") {
            self.expect("(")?;
            other = self.elems()?;
            self.expect(")")?;
            self.eat("?");
        }
        let Some(anchor) = anchor else {
            return Err("an optional group needs an anchor `^`".to_string());
        };
        Ok(Elem::Group {
            then,
            anchor,
            other,
        })
    }

    fn field(&mut self) -> Result<Arg, String> {
        self.expect("$")?;
        let name = self.word();
        if let Some(index) = self.info.fields.iter().position(|f| f.name == name) {
            return Ok(Arg::Field(index));
        }
        if let Some(index) = self.info.results.iter().position(|r| *r == name) {
            return Ok(Arg::TypeOfResult(index));
        }
        Err(format!("the format names `${name}`, which is no field"))
    }

    fn of(&mut self) -> Result<Of, String> {
        if self.eat("operands") {
            return Ok(Of::Operands);
        }
        if self.eat("results") {
            return Ok(Of::Results);
        }
        Ok(match self.field()? {
            Arg::Field(index) | Arg::TypeOf(index) => Of::Field(index),
            Arg::TypeOfResult(index) => Of::Result(index),
        })
    }

    fn elem(&mut self) -> Result<Elem, String> {
        if self.text.starts_with('$') {
            let Arg::Field(index) = self.field()? else {
                return Err("a result can only stand in `type(…)`".to_string());
            };
            self.format.says[index] = true;
            return Ok(Elem::Field(index));
        }
        let word = self.word();
        match word {
            "attr-dict" | "attr-dict-with-keyword" => {
                self.format.has_dict = true;
                Ok(Elem::AttrDict {
                    keyword: word != "attr-dict",
                })
            }
            "operands" => Ok(Elem::Operands),
            "regions" => Ok(Elem::Regions),
            "successors" => Ok(Elem::Successors),
            "symbol" => {
                self.expect("(")?;
                let Arg::Field(index) = self.field()? else {
                    return Err("`symbol(…)` takes an attribute".to_string());
                };
                self.format.says[index] = true;
                self.expect(")")?;
                Ok(Elem::Symbol(index))
            }
            "type" => {
                self.expect("(")?;
                let of = self.of()?;
                self.expect(")")?;
                Ok(Elem::Type(of))
            }
            "functional-type" => {
                self.expect("(")?;
                let from = self.of()?;
                self.expect(",")?;
                let to = self.of()?;
                self.expect(")")?;
                Ok(Elem::FunctionalType(from, to))
            }
            "implicit-terminator" => {
                self.expect("(")?;
                let name = self.name();
                self.expect(")")?;
                self.format.implicit = Some(Name::new(name));
                Ok(Elem::Space("-"))
            }
            "custom" => {
                self.expect("<")?;
                let name = self.word().to_string();
                self.expect(">")?;
                self.expect("(")?;
                let mut args = Vec::new();
                if !self.eat(")") {
                    loop {
                        args.push(self.arg()?);
                        if self.eat(")") {
                            break;
                        }
                        self.expect(",")?;
                    }
                }
                Ok(Elem::Custom { name, args })
            }
            _ => Err(format!(
                "unexpected `{}` in the format",
                head(self.text).max(word)
            )),
        }
    }

    fn arg(&mut self) -> Result<Arg, String> {
        if self.eat("type") || self.eat("ref") {
            self.expect("(")?;
            let arg = match self.of()? {
                Of::Field(index) => Arg::TypeOf(index),
                Of::Result(index) => Arg::TypeOfResult(index),
                _ => Arg::TypeOfResult(0),
            };
            self.expect(")")?;
            return Ok(arg);
        }
        let arg = self.field()?;
        if let Arg::Field(index) = arg
            && self.info.fields[index].role.is_attribute()
        {
            self.format.says[index] = true;
        }
        Ok(arg)
    }
}

/// Splits a literal into words and punctuation.
fn split_literal(token: &str, out: &mut Vec<Elem>) {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = token;
    while let Some(first) = rest.chars().next() {
        let end = if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("->") || rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        out.push(Elem::Literal(rest[..end].to_string()));
        rest = &rest[end..];
    }
}

/// What an attribute field prints as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bare {
    /// A word of an enumeration.
    Keyword,
    /// `16`.
    Integer,
    /// `true`.
    Bool,
    /// `[1, 2]`.
    Integers,
    /// A string, without a type.
    Text,
    /// Nothing: presence says it.
    Flag,
    /// As it is.
    Attr,
}

/// What the attribute field prints as.
pub(crate) fn bare(info: &OpInfo, field: usize) -> Bare {
    let field = &info.fields[field];
    if field.keywords.is_some() {
        return Bare::Keyword;
    }
    match field.role {
        Role::Attribute(what) | Role::OptionalAttribute(what) => match what {
            "an integer" => Bare::Integer,
            "true or false" => Bare::Bool,
            "an array of integers" => Bare::Integers,
            "a string" => Bare::Text,
            "a flag" => Bare::Flag,
            _ => Bare::Attr,
        },
        _ => Bare::Attr,
    }
}
