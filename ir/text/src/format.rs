//! Declared formats: `"$x `,` $y attr-dict `:` type($sum)"` as data.

use std::collections::HashSet;

use tir_core::{Dialect, Name, OpInfo, Role, Scanner};

use crate::cursor::is_word;

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
    /// `body($field)`: the field, and the kind `d.name` of its attribute.
    Body(usize, &'static str),
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

/// Says what is wrong with the declared format of an op, if it has one: that it cannot be read,
/// that the grammar of operations cannot read what it writes, that it leaves out an operand, a
/// region, a successor or an attribute that must be there, or the type of a result that the op does
/// not infer. Dialects are checked when they are loaded.
pub fn check_format(info: &OpInfo) -> Result<(), String> {
    let Some(text) = &info.asm else { return Ok(()) };
    let format = parse(info, text)?;
    check_elems(info, &format.elems)?;
    let mut given = Given {
        fields: vec![false; info.fields.len()],
        types: vec![false; info.fields.len()],
        results: vec![false; info.results.len()],
    };
    given.elems(info, &format.elems);
    given.check(info)?;
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

/// The directives that every op may use: those of [`custom`](crate::directive::custom).
const COMMON_DIRECTIVES: [&str; 3] = ["indices", "typed-args", "constant"];

/// What a format gives, in an optional group or outside.
struct Given {
    /// By field: what it is in text.
    fields: Vec<bool>,
    /// By field: its types.
    types: Vec<bool>,
    /// The types of results that have a name only.
    results: Vec<bool>,
}

impl Given {
    fn elems(&mut self, info: &OpInfo, elems: &[Elem]) {
        for elem in elems {
            match elem {
                Elem::Field(i) | Elem::Symbol(i) | Elem::Body(i, _) => self.fields[*i] = true,
                Elem::Type(of) => self.of(info, *of),
                Elem::FunctionalType(from, to) => {
                    self.of(info, *from);
                    self.of(info, *to);
                }
                Elem::Operands => {
                    self.all(info, |role| role.is_operands() && role != Role::Successor)
                }
                Elem::Regions => {
                    self.all(info, |role| matches!(role, Role::Region | Role::Regions));
                }
                Elem::Successors => {
                    self.all(info, |role| {
                        matches!(role, Role::Successor | Role::Successors)
                    });
                }
                Elem::Group { then, other, .. } => {
                    self.elems(info, then);
                    self.elems(info, other);
                }
                // What code of the op reads is not known: it may be anything.
                Elem::Custom { name, .. } if !COMMON_DIRECTIVES.contains(&&**name) => {
                    self.fields.fill(true);
                    self.types.fill(true);
                    self.results.fill(true);
                }
                Elem::Custom { args, .. } => args.iter().for_each(|arg| match arg {
                    Arg::Field(i) => (self.fields[*i], self.types[*i]) = (true, true),
                    Arg::TypeOf(i) => self.types[*i] = true,
                    Arg::TypeOfResult(i) => self.of(info, Of::Result(*i)),
                }),
                Elem::Literal(_) | Elem::Space(_) | Elem::AttrDict { .. } => {}
            }
        }
    }
    fn all(&mut self, info: &OpInfo, what: fn(Role) -> bool) {
        for (given, field) in self.fields.iter_mut().zip(&info.fields) {
            *given |= what(field.role);
        }
    }
    fn of(&mut self, info: &OpInfo, of: Of) {
        match of {
            Of::Field(i) => self.types[i] = true,
            Of::Result(i) => self.results.get_mut(i).into_iter().for_each(|r| *r = true),
            Of::Operands => {}
            Of::Results => {
                self.results.fill(true);
                for (given, field) in self.types.iter_mut().zip(&info.fields) {
                    *given |= matches!(field.role, Role::Result | Role::Results);
                }
            }
        }
    }
    fn check(&self, info: &OpInfo) -> Result<(), String> {
        for (i, field) in info.fields.iter().enumerate() {
            let what = match field.role {
                Role::Successor | Role::Successors => "successor",
                Role::Region | Role::Regions => "region",
                role if role.is_operands() => "operand",
                _ => continue,
            };
            if !self.fields[i] {
                let name = field.name;
                return Err(format!("the format leaves out the {what} `${name}`"));
            }
        }
        if info.infers() {
            return Ok(());
        }
        let fields = info.fields.iter().zip(&self.types);
        let fields = fields.filter(|(field, _)| field.role == Role::Result);
        let fields = fields.map(|(field, given)| (field.name, *given));
        let names = info.results.iter().copied();
        let mut results = fields.chain(names.zip(self.results.iter().copied()));
        match results.find(|(_, given)| !given) {
            Some((name, _)) => Err(format!(
                "the format does not give the type of the result `${name}`, and the op does not \
                 infer it: add `type(${name})`, or the hook `infer`"
            )),
            None => Ok(()),
        }
    }
}

/// [`check_format`] for all ops of a dialect; the error names the op.
pub fn check_formats(dialect: &Dialect) -> Result<(), String> {
    let mut names = HashSet::new();
    for spec in dialect.ops {
        let (own, name) = (dialect.name, spec.name);
        let rest = name.strip_prefix(own);
        if !rest.is_some_and(|rest| rest.starts_with('.')) {
            return Err(format!(
                "'{name}' is no op of dialect '{own}', whose ops are called '{own}.…'"
            ));
        }
        if !names.insert(name) {
            return Err(format!("dialect '{own}' has two ops called '{name}'"));
        }
        if let Some(info) = Name::new(spec.name).info() {
            check_format(info).map_err(|e| format!("the format of '{}': {e}", spec.name))?;
        }
    }
    Ok(())
}

/// Checks that the grammar reads the words and punctuation of a format as parts of one operation.
fn check_elems(info: &OpInfo, elems: &[Elem]) -> Result<(), String> {
    let mut before: Option<&Elem> = None;
    for elem in elems {
        match elem {
            Elem::Literal(literal) => {
                check_literal(literal)?;
                let successor = match before {
                    Some(Elem::Successors) => true,
                    Some(Elem::Field(i)) => {
                        matches!(info.fields[*i].role, Role::Successor | Role::Successors)
                    }
                    _ => false,
                };
                if literal == ":" && successor {
                    return Err("`:` behind a successor would begin a block".to_string());
                }
            }
            Elem::Group { then, other, .. } => {
                check_elems(info, then)?;
                check_elems(info, other)?;
            }
            Elem::Field(i) => {
                let words = info.fields[*i].keywords.map_or(&[][..], |words| words.all);
                words.iter().try_for_each(|word| check_literal(word))?;
            }
            _ => {}
        }
        if !matches!(elem, Elem::Space(_)) {
            before = Some(elem);
        }
    }
    Ok(())
}

/// Checks a word or piece of punctuation: the items of `grammar.pest`. Brackets are read in pairs,
/// and `<` behind a word.
fn check_literal(literal: &str) -> Result<(), String> {
    const PUNCTUATION: &[&str] = &[
        ":", ",", "->", "=", "[", "]", "(", ")", "{", "}", "<", ">", "::", "@", "#", "*", "?", "+",
        "/", "|", "-",
    ];
    let word = literal
        .bytes()
        .next()
        .is_some_and(|b| is_word(b) && b != b'$');
    if word && crate::cursor::bare_op(literal).is_some() {
        return Err(format!("the word `{literal}` begins an operation"));
    }
    if word || PUNCTUATION.contains(&literal) {
        return Ok(());
    }
    Err(format!("the grammar of operations has no `{literal}`"))
}

struct Reader<'a> {
    info: &'a OpInfo,
    text: Scanner<'a>,
    format: Format,
}

/// Reads a format; the error says what is wrong with it.
pub(crate) fn parse(info: &OpInfo, text: &str) -> Result<Format, String> {
    let format = Format {
        says: vec![false; info.fields.len()],
        ..Format::default()
    };
    let text = Scanner::new(text);
    let mut reader = Reader { info, text, format };
    let elems = reader.elems()?;
    if reader.text.peek().is_some() {
        return Err(reader.unexpected());
    }
    reader.format.elems = elems;
    Ok(reader.format)
}

impl<'a> Reader<'a> {
    /// The word or token that comes next, for messages.
    fn head(&mut self) -> &'a str {
        self.text.space();
        self.text.rest().split_whitespace().next().unwrap_or("")
    }
    fn unexpected(&mut self) -> String {
        format!("unexpected `{}` in the format", self.head())
    }
    fn eat(&mut self, token: &str) -> bool {
        self.text.eat(token)
    }
    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) {
            return Ok(());
        }
        let head = self.head();
        Err(format!("expected `{token}` in the format before `{head}`"))
    }
    fn word(&mut self) -> &'a str {
        self.text.space();
        self.text
            .take(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    }
    fn name(&mut self) -> &'a str {
        self.text.space();
        self.text
            .take(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
    }

    /// Elements up to `)` or the end.
    fn elems(&mut self) -> Result<Vec<Elem>, String> {
        let mut out = Vec::new();
        loop {
            if matches!(self.text.peek(), None | Some(')')) {
                return Ok(out);
            }
            self.one(&mut out)?;
        }
    }

    /// One literal (several elements), group or other element.
    fn one(&mut self, out: &mut Vec<Elem>) -> Result<(), String> {
        if self.eat("`") {
            let literal = self.text.take(|c| c != '`');
            if !self.text.eat_touching("`") {
                return Err("a literal is not closed by a backtick".to_string());
            }
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
        } else if self.eat("(") {
            self.text.enter().map_err(|error| error.message)?;
            out.push(self.group()?);
            self.text.leave();
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
            if self.eat(")") {
                break;
            }
            if self.text.peek().is_none() {
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
        if self.text.peek() == Some('$') {
            let Arg::Field(index) = self.field()? else {
                return Err("a result can only stand in `type(…)`".to_string());
            };
            self.format.says[index] = true;
            return Ok(Elem::Field(index));
        }
        let start = self.text.at();
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
            "symbol" | "body" => {
                self.expect("(")?;
                let Arg::Field(index) = self.field()? else {
                    return Err(format!("`{word}(…)` takes an attribute"));
                };
                self.format.says[index] = true;
                self.expect(")")?;
                if word == "symbol" {
                    return Ok(Elem::Symbol(index));
                }
                match attr_kind(self.info, index) {
                    Some(kind) => Ok(Elem::Body(index, kind)),
                    None => {
                        Err("`body(…)` takes an attribute of one kind `#d.name<…>`".to_string())
                    }
                }
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
            "" => Err(self.unexpected()),
            word => {
                self.text.go(start);
                Err(format!("unexpected `{word}` in the format"))
            }
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

/// The kind of attribute that a field takes, where that is one kind of a dialect.
fn attr_kind(info: &OpInfo, field: usize) -> Option<&'static str> {
    match info.fields[field].role {
        Role::Attribute(what) | Role::OptionalAttribute(what) => what.strip_prefix('#'),
        _ => None,
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
