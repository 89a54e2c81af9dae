//! Reads the text of rules: s-expressions with attributes in braces.

use tir_core::{Diagnostic, Failure, Loc, Name};

use crate::rule::{
    AttrTerm, Call, Literal, OpTerm, Rule, RuleText, Term, TermKind, TypeTerm, Var, VarKind,
};

/// Nesting beyond this is refused.
const DEPTH: usize = 64;

/// What is wrong with the text of a rule, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleError {
    /// The text it is in and the byte there; `None` if it is about the whole rule.
    pub at: Option<(Part, usize)>,
    /// What it is.
    pub message: String,
}

/// The texts that a rule is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// [`RuleText::left`].
    Left,
    /// [`RuleText::right`].
    Right,
    /// [`RuleText::guard`].
    Guard,
}

impl RuleText {
    fn loc(&self) -> Loc {
        match self.place {
            ("", ..) => Loc::UNKNOWN,
            (file, line, column) => Loc::file(Name::new(file), line, column),
        }
    }
    /// The text of a part.
    pub fn part(&self, part: Part) -> &'static str {
        match part {
            Part::Left => self.left,
            Part::Right => self.right,
            Part::Guard => self.guard,
        }
    }
}

pub(crate) fn parse(text: &RuleText) -> Result<Rule, Failure> {
    read(text).map_err(|error| {
        let RuleError { at, message } = error;
        let name = text.name;
        let Some((part, at)) = at else {
            let error = Diagnostic::error(message).context(format!("rule '{name}': "));
            return Box::new(error.at(text.loc()));
        };
        let source = text.part(part);
        let what = match part {
            Part::Left => "left side",
            Part::Right => "right side",
            Part::Guard => "guard",
        };
        let column = source[..at.min(source.len())].chars().count() + 1;
        let message = format!("rule '{name}': {message} at column {column} of its {what}");
        let note = format!("{source}\n{:>column$}", "^");
        Box::new(Diagnostic::error(message).note(note).at(text.loc()))
    })
}

pub(crate) fn read(text: &RuleText) -> Result<Rule, RuleError> {
    let mut vars = Vec::new();
    let left = side(text, Part::Left, &mut vars, |r| r.terms())?;
    let right = side(text, Part::Right, &mut vars, |r| r.terms())?;
    let guards = side(text, Part::Guard, &mut vars, |r| r.guards())?;
    let whole = |message: String| RuleError { at: None, message };
    if left.is_empty() || left.len() != right.len() {
        let (l, r) = (left.len(), right.len());
        return Err(whole(format!(
            "has {l} terms on the left and {r} on the right"
        )));
    }
    let is_op = |term: &Term| matches!(term.kind, TermKind::Op(_));
    if !left.iter().all(is_op) {
        return Err(whole("each term on the left is an op".to_string()));
    }
    Ok(Rule {
        name: Name::new(text.name),
        kind: text.kind,
        class: text.class,
        vars,
        left,
        right,
        guards,
        loc: text.loc(),
    })
}

fn side<T>(
    text: &RuleText,
    part: Part,
    vars: &mut Vec<(Name, VarKind)>,
    read: impl FnOnce(&mut Reader<'_>) -> Read<T>,
) -> Result<T, RuleError> {
    let mut reader = Reader {
        source: text.part(part),
        at: 0,
        depth: 0,
        binds: part == Part::Left,
        vars,
    };
    read(&mut reader).map_err(|message| RuleError {
        at: Some((part, reader.at)),
        message,
    })
}

struct Reader<'a> {
    source: &'static str,
    at: usize,
    depth: usize,
    /// Whether variables are bound here: on the left.
    binds: bool,
    vars: &'a mut Vec<(Name, VarKind)>,
}

type Read<T> = Result<T, String>;

impl Reader<'_> {
    fn rest(&self) -> &'static str {
        &self.source[self.at..]
    }
    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }
    fn peek(&mut self) -> Option<char> {
        self.space();
        self.rest().chars().next()
    }
    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }
    fn expect(&mut self, token: &str) -> Read<()> {
        if self.eat(token) {
            return Ok(());
        }
        Err(match self.peek() {
            Some(c) => format!("expected '{token}', found '{c}'"),
            None => format!("expected '{token}', found the end"),
        })
    }
    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'static str {
        let rest = self.rest();
        let len = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }
    fn word(&mut self, what: &str) -> Read<&'static str> {
        self.space();
        let word = self.take(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$'));
        if word.is_empty() {
            let found = self
                .peek()
                .map_or("the end".to_string(), |c| format!("'{c}'"));
            return Err(format!("expected {what}, found {found}"));
        }
        Ok(word)
    }

    fn var(&mut self, name: &str, kind: VarKind) -> Read<Var> {
        let name = Name::new(name);
        if let Some(i) = self.vars.iter().position(|(n, _)| *n == name) {
            let found = self.vars[i].1;
            let value = |kind| matches!(kind, VarKind::Value | VarKind::Constant);
            if found != kind && !(value(found) && value(kind)) {
                return Err(format!("'{name}' stands for a {found:?} and a {kind:?}"));
            }
            return Ok(Var(i));
        }
        if !self.binds {
            return Err(format!("'{name}' does not occur on the left"));
        }
        self.vars.push((name, kind));
        Ok(Var(self.vars.len() - 1))
    }
    /// A variable that is bound already, whatever it stands for.
    fn known(&mut self, name: &str) -> Read<Var> {
        match self.vars.iter().position(|(n, _)| *n == name) {
            Some(i) => Ok(Var(i)),
            None => Err(format!("'{name}' does not occur on the left")),
        }
    }

    fn terms(&mut self) -> Read<Vec<Term>> {
        let mut terms = Vec::new();
        while self.peek().is_some() {
            terms.push(self.term()?);
        }
        Ok(terms)
    }

    fn term(&mut self) -> Read<Term> {
        let kind = match self.peek() {
            Some('(') => TermKind::Op(self.op()?),
            Some('?') => {
                self.at += 1;
                let name = self.name()?;
                let kind = match self.rest().starts_with("...") {
                    true => {
                        self.at += 3;
                        VarKind::Values
                    }
                    false => VarKind::Value,
                };
                TermKind::Var(self.var(name, kind)?)
            }
            Some('#') => {
                self.at += 1;
                let name = self.name()?;
                TermKind::Var(self.var(name, VarKind::Constant)?)
            }
            Some(_) => match self.literal()? {
                literal @ (Literal::Int(_) | Literal::Float(_) | Literal::Bool(_)) => {
                    TermKind::Literal(literal)
                }
                other => return Err(format!("'{other}' is no constant")),
            },
            None => return Err("expected a term, found the end".to_string()),
        };
        let mut ty = None;
        if self.rest().starts_with(':') {
            self.at += 1;
            ty = Some(if self.rest().starts_with('?') {
                self.at += 1;
                let name = self.name()?;
                // The type of a new variable is bound where it first stands.
                TypeTerm::Var(self.var(name, VarKind::Type)?)
            } else if self.rest().starts_with('(') && !self.binds {
                TypeTerm::Call(self.call()?)
            } else {
                TypeTerm::Text(Name::new(self.type_text()?))
            });
        }
        Ok(Term { kind, ty })
    }

    fn name(&mut self) -> Read<&'static str> {
        let name = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        match name {
            "" => Err("expected the name of a variable".to_string()),
            name => Ok(name),
        }
    }

    /// A type up to a space or closing bracket outside its angle brackets.
    fn type_text(&mut self) -> Read<&'static str> {
        let rest = self.rest();
        let mut depth = 0;
        let end = rest.find(|c| {
            depth += match c {
                '<' | '(' => 1,
                '>' => -1,
                ')' if depth > 0 => -1,
                _ => 0,
            };
            depth == 0 && matches!(c, ' ' | ')' | '\n')
        });
        let text = &rest[..end.unwrap_or(rest.len())];
        self.at += text.len();
        match text {
            "" => Err("expected a type".to_string()),
            text => Ok(text),
        }
    }

    fn op(&mut self) -> Read<OpTerm> {
        self.expect("(")?;
        self.deeper()?;
        let start = self.at;
        let name = self.word("the name of an op")?;
        if !name.contains('.') {
            self.at = start;
            return Err(format!("'{name}' is no name of an op: expected dialect.op"));
        }
        let mut op = OpTerm {
            name: Name::new(name),
            operands: Vec::new(),
            attrs: Vec::new(),
            result: 0,
        };
        loop {
            match self.peek() {
                Some(')') => break,
                Some('{') => op.attrs = self.attrs()?,
                _ => {
                    let after = op.operands.last().is_some_and(|t: &Term| {
                        matches!(&t.kind, TermKind::Var(v) if self.vars[v.0].1 == VarKind::Values)
                    });
                    if after && self.binds {
                        return Err("nothing may follow '...'".to_string());
                    }
                    op.operands.push(self.term()?);
                }
            }
        }
        self.expect(")")?;
        self.depth -= 1;
        if self.rest().starts_with('.') {
            self.at += 1;
            let digits = self.take(|c| c.is_ascii_digit());
            op.result = digits
                .parse()
                .map_err(|_| "expected the number of a result".to_string())?;
        }
        Ok(op)
    }

    fn deeper(&mut self) -> Read<()> {
        self.depth += 1;
        match self.depth > DEPTH {
            true => Err(format!("is nested deeper than {DEPTH}")),
            false => Ok(()),
        }
    }

    fn attrs(&mut self) -> Read<Vec<(Name, AttrTerm)>> {
        self.expect("{")?;
        let mut attrs = Vec::new();
        while !self.eat("}") {
            if !attrs.is_empty() {
                self.expect(",")?;
            }
            let name = Name::new(self.word("the name of an attribute")?);
            self.expect("=")?;
            attrs.push((name, self.attr(!self.binds)?));
        }
        Ok(attrs)
    }

    fn attr(&mut self, calls: bool) -> Read<AttrTerm> {
        Ok(match self.peek() {
            Some('?' | '#') => {
                self.at += 1;
                let name = self.name()?;
                // On the right and in guards any variable may stand as an argument.
                AttrTerm::Var(match self.binds {
                    true => self.var(name, VarKind::Attr)?,
                    false => self.known(name)?,
                })
            }
            Some('(') if calls => AttrTerm::Call(self.call()?),
            _ => AttrTerm::Literal(self.literal()?),
        })
    }

    fn call(&mut self) -> Read<Call> {
        self.expect("(")?;
        self.deeper()?;
        let function = Name::new(self.word("the name of a function")?);
        let mut args = Vec::new();
        while !self.eat(")") {
            args.push(self.attr(true)?);
        }
        self.depth -= 1;
        Ok(Call { function, args })
    }

    fn guards(&mut self) -> Read<Vec<Call>> {
        let mut guards = Vec::new();
        while self.peek().is_some() {
            guards.push(self.call()?);
        }
        Ok(guards)
    }

    fn literal(&mut self) -> Read<Literal> {
        match self.peek() {
            Some('"') => {
                self.at += 1;
                let text = self.take(|c| c != '"');
                self.expect("\"")?;
                Ok(Literal::Str(Name::new(text)))
            }
            Some('[') => {
                self.at += 1;
                let mut all = Vec::new();
                while !self.eat("]") {
                    if !all.is_empty() {
                        self.expect(",")?;
                    }
                    let word = self.word("an integer")?;
                    all.push(
                        word.parse()
                            .map_err(|_| format!("'{word}' is no integer"))?,
                    );
                }
                Ok(Literal::Ints(all))
            }
            _ => {
                let start = self.at;
                let word = self.word("a value")?;
                let number = word.starts_with(|c: char| c.is_ascii_digit() || c == '-');
                Ok(match word {
                    "true" => Literal::Bool(true),
                    "false" => Literal::Bool(false),
                    "inf" | "-inf" | "nan" => Literal::Float(word.parse().unwrap_or(f64::NAN)),
                    _ if number => {
                        if let Ok(n) = word.parse() {
                            Literal::Int(n)
                        } else if let Ok(x) = word.parse() {
                            Literal::Float(x)
                        } else {
                            self.at = start;
                            return Err(format!("'{word}' is no number"));
                        }
                    }
                    word => Literal::Word(Name::new(word)),
                })
            }
        }
    }
}
