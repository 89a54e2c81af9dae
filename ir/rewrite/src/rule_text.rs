//! Reads the text of rules: s-expressions with attributes in braces.

use tir_core::{Diagnostic, Failure, Loc, Name, ScanError, Scanner};

use crate::rule::{
    AttrTerm, Call, Definition, Literal, OpTerm, Rule, RuleText, Term, TermKind, TypeTerm, Var,
    VarKind, Which,
};

/// What is wrong with the text of a rule, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleError {
    /// The text it is in and the byte there; `None` if it is about the whole rule.
    pub at: Option<(RulePart, usize)>,
    /// What it is.
    pub message: String,
}

/// The texts that a rule is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RulePart {
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
    pub fn part(&self, part: RulePart) -> &'static str {
        match part {
            RulePart::Left => self.left,
            RulePart::Right => self.right,
            RulePart::Guard => self.guard,
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
            RulePart::Left => "left side",
            RulePart::Right => "right side",
            RulePart::Guard => "guard",
        };
        let column = source[..at.min(source.len())].chars().count() + 1;
        let message = format!("rule '{name}': {message} at column {column} of its {what}");
        let note = format!("{source}\n{:>column$}", "^");
        Box::new(Diagnostic::error(message).note(note).at(text.loc()))
    })
}

pub(crate) fn read(text: &RuleText) -> Result<Rule, RuleError> {
    let mut names = Names::default();
    let left = side(text, RulePart::Left, &mut names, |r| r.terms())?;
    let right = side(text, RulePart::Right, &mut names, |r| r.terms())?;
    let guards = side(text, RulePart::Guard, &mut names, |r| r.guards())?;
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
        vars: names.vars,
        left,
        right,
        guards,
        ops: names.ops,
        loc: text.loc(),
    })
}

/// Reads a definition.
pub(crate) fn definition(text: &RuleText) -> Result<Definition, RuleError> {
    let mut names = Names {
        are_params: true,
        ..Names::default()
    };
    side(text, RulePart::Left, &mut names, |r| {
        while r.s.peek().is_some() {
            r.s.expect("?")?;
            let name = r.name()?;
            if r.names.vars.iter().any(|(known, _)| *known == name) {
                return r.wrong(format!("'{name}' is a parameter already"));
            }
            r.names.vars.push((Name::new(name), VarKind::Attr));
        }
        Ok(())
    })?;
    let body = side(text, RulePart::Guard, &mut names, |r| r.guards())?;
    if body.is_empty() {
        let message = "has no body".to_string();
        return Err(RuleError { at: None, message });
    }
    Ok(Definition {
        name: Name::new(text.name),
        params: names.vars.into_iter().map(|(name, _)| name).collect(),
        body,
    })
}

fn side<T>(
    text: &RuleText,
    part: RulePart,
    names: &mut Names,
    read: impl FnOnce(&mut Reader<'_>) -> Read<T>,
) -> Result<T, RuleError> {
    let mut reader = Reader {
        source: text.part(part),
        s: Scanner::new(text.part(part)),
        binds: part == RulePart::Left,
        names,
    };
    read(&mut reader).map_err(|error| RuleError {
        at: Some((part, error.at)),
        message: error.message,
    })
}

/// What was read of variables so far.
#[derive(Default)]
struct Names {
    vars: Vec<(Name, VarKind)>,
    /// The classes of those that stand for ops.
    ops: Vec<(Var, Vec<Name>)>,
    /// Those that stand for several values where one is expected, and no dots came so far.
    lists: Vec<Var>,
    /// Whether they are the parameters of a definition.
    are_params: bool,
}

struct Reader<'a> {
    source: &'static str,
    s: Scanner<'static>,
    /// Whether variables are bound here: on the left.
    binds: bool,
    names: &'a mut Names,
}

type Read<T> = Result<T, ScanError>;

impl Reader<'_> {
    /// An error at what was read last.
    fn wrong<T>(&self, message: impl Into<String>) -> Read<T> {
        let here = self.source.len() - self.s.rest().len();
        Err(self.s.error(here, message))
    }
    fn word(&mut self, what: &str) -> Read<&'static str> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
        self.s.word(what, fits)
    }

    fn var(&mut self, name: &str, kind: VarKind) -> Read<Var> {
        let name = Name::new(name);
        if let Some(i) = self.names.vars.iter().position(|(n, _)| *n == name) {
            let found = self.names.vars[i].1;
            let value = |kind| matches!(kind, VarKind::Value | VarKind::Constant);
            if found == VarKind::Values && kind == VarKind::Value {
                // One of several, if dots come behind the term that it stands in.
                self.names.lists.push(Var(i));
                return Ok(Var(i));
            }
            if found != kind && !(value(found) && value(kind)) {
                return self.wrong(format!("'{name}' stands for {found} and {kind}"));
            }
            return Ok(Var(i));
        }
        if !self.binds {
            return self.wrong(format!("'{name}' does not occur on the left"));
        }
        self.names.vars.push((name, kind));
        Ok(Var(self.names.vars.len() - 1))
    }
    /// A variable that is bound already, whatever it stands for.
    fn known(&mut self, name: &str) -> Read<Var> {
        match self.names.vars.iter().position(|(n, _)| *n == name) {
            Some(i) => Ok(Var(i)),
            None if self.names.are_params => self.wrong(format!("'{name}' is no parameter")),
            None => self.wrong(format!("'{name}' does not occur on the left")),
        }
    }

    fn terms(&mut self) -> Read<Vec<Term>> {
        let mut terms = Vec::new();
        while self.s.peek().is_some() {
            terms.push(self.term()?);
            if let Some(list) = self.names.lists.first() {
                let name = self.names.vars[list.0].0;
                return self.wrong(format!(
                    "'{name}' stands for several values: '...' is missing behind it or the term around it"
                ));
            }
        }
        Ok(terms)
    }

    fn term(&mut self) -> Read<Term> {
        let kind = match self.s.peek() {
            Some('(') => TermKind::Op(self.op()?),
            Some('?') => {
                self.s.eat("?");
                let name = self.name()?;
                let kind = match self.s.eat_touching("...") {
                    true => VarKind::Values,
                    false => VarKind::Value,
                };
                TermKind::Var(self.var(name, kind)?)
            }
            Some('#') => {
                self.s.eat("#");
                let name = self.name()?;
                TermKind::Var(self.var(name, VarKind::Constant)?)
            }
            Some(_) => match self.literal()? {
                literal @ (Literal::Int(_) | Literal::Float(_) | Literal::Bool(_)) => {
                    TermKind::Literal(literal)
                }
                other => return self.wrong(format!("'{other}' is no constant")),
            },
            None => return Err(self.s.expected("a term")),
        };
        let mut ty = None;
        if self.s.eat_touching(":") {
            ty = Some(if self.s.eat_touching("?") {
                let name = self.name()?;
                // The type of a new variable is bound where it first stands.
                TypeTerm::Var(self.var(name, VarKind::Type)?)
            } else if self.s.touches("(") && !self.binds {
                TypeTerm::Call(self.call()?)
            } else {
                TypeTerm::Text(Name::new(self.type_text()?))
            });
        }
        Ok(Term { kind, ty })
    }

    fn name(&mut self) -> Read<&'static str> {
        let name = self.s.take(|c| c.is_ascii_alphanumeric() || c == '_');
        match name {
            "" => self.wrong("expected the name of a variable"),
            name => Ok(name),
        }
    }

    /// A type up to a space or closing bracket outside its angle brackets.
    fn type_text(&mut self) -> Read<&'static str> {
        let rest = self.s.rest();
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
        self.s.go(self.source.len() - rest.len() + text.len());
        match text {
            "" => self.wrong("expected a type"),
            text => Ok(text),
        }
    }

    fn op(&mut self) -> Read<OpTerm> {
        self.s.expect("(")?;
        self.s.enter()?;
        let start = self.s.at();
        let (name, var) = match self.s.eat("?") {
            true => self.op_var()?,
            false => {
                let name = self.word("the name of an op")?;
                if !name.contains('.') {
                    self.s.go(start);
                    return self
                        .wrong(format!("'{name}' is no name of an op: expected dialect.op"));
                }
                (Name::new(name), None)
            }
        };
        let mut op = OpTerm {
            name,
            var,
            operands: Vec::new(),
            attrs: Vec::new(),
            result: Which::At(0),
        };
        loop {
            match self.s.peek() {
                Some(')') => break,
                Some('{') => op.attrs = self.attrs()?,
                _ => {
                    let after = op.operands.last().is_some_and(|t: &Term| match &t.kind {
                        TermKind::Var(v) => self.names.vars[v.0].1 == VarKind::Values,
                        TermKind::Each(_) => true,
                        _ => false,
                    });
                    if after && self.binds {
                        return self.wrong("nothing may follow '...'");
                    }
                    let (vars, lists) = (self.names.vars.len(), self.names.lists.len());
                    let mut operand = self.term()?;
                    if self.s.eat_touching("...") {
                        let TermKind::Op(each) = operand.kind else {
                            return self.wrong("only an op may stand for several values");
                        };
                        if operand.ty.is_some() && self.binds {
                            return self.wrong("several values have no type together");
                        }
                        self.each(&each, vars, lists)?;
                        operand.kind = TermKind::Each(each);
                    }
                    op.operands.push(operand);
                }
            }
        }
        self.s.expect(")")?;
        self.s.leave();
        if !self.s.touches("...") && self.s.eat_touching(".") {
            op.result = self.result()?;
        }
        Ok(op)
    }

    /// Which result of an op, behind the dot.
    fn result(&mut self) -> Read<Which> {
        if self.s.eat_touching("?") {
            let name = self.name()?;
            return Ok(Which::Var(self.var(name, VarKind::Attr)?));
        }
        let digits = self.s.take(|c| c.is_ascii_digit());
        match digits.parse() {
            Ok(number) => Ok(Which::At(number)),
            Err(_) => self.wrong("expected the number of a result, or a variable"),
        }
    }

    /// Checks a term that stands for several values, before which so many variables and lists were
    /// known. On the left the values that stand first in it become lists.
    fn each(&mut self, op: &OpTerm, vars: usize, lists: usize) -> Read<()> {
        if !op
            .operands
            .iter()
            .all(|t| matches!(t.kind, TermKind::Var(_)))
        {
            return self.wrong("a term that stands for several values has variables as operands");
        }
        if self.binds {
            for (_, kind) in &mut self.names.vars[vars..] {
                match kind {
                    VarKind::Value => *kind = VarKind::Values,
                    VarKind::Constant => {
                        return self.wrong("several values cannot be constants");
                    }
                    _ => {}
                }
            }
        }
        self.names.lists.truncate(lists);
        let list = |t: &Term| matches!(t.kind, TermKind::Var(v) if self.names.vars[v.0].1 == VarKind::Values);
        match op.operands.iter().any(list) {
            true => Ok(()),
            false => self.wrong("no variable in it stands for several values"),
        }
    }

    /// A variable for an op behind its question mark, with the classes that are said of it.
    fn op_var(&mut self) -> Read<(Name, Option<Var>)> {
        let name = self.name()?;
        let var = self.var(name, VarKind::Op)?;
        let at = self.names.ops.iter().position(|(other, _)| *other == var);
        match (at, self.s.eat_touching(":")) {
            (None, true) => {
                let mut classes = Vec::new();
                loop {
                    classes.push(Name::new(self.word("a class of ops")?));
                    if !self.s.eat_touching("+") {
                        break;
                    }
                }
                self.names.ops.push((var, classes));
            }
            (None, false) => {
                return self.wrong(format!(
                    "'{name}' stands for any op: say in which classes, as in '?{name}:elementwise'"
                ));
            }
            (Some(_), true) => {
                return self.wrong(format!(
                    "the class of '{name}' belongs where it first occurs"
                ));
            }
            (Some(_), false) => {}
        }
        Ok((Name::new(&format!("?{name}")), Some(var)))
    }

    fn attrs(&mut self) -> Read<Vec<(Name, AttrTerm)>> {
        self.s.expect("{")?;
        let mut attrs = Vec::new();
        while !self.s.eat("}") {
            if !attrs.is_empty() {
                self.s.expect(",")?;
            }
            let name = Name::new(self.word("the name of an attribute")?);
            self.s.expect("=")?;
            attrs.push((name, self.attr(!self.binds)?));
        }
        Ok(attrs)
    }

    fn attr(&mut self, calls: bool) -> Read<AttrTerm> {
        Ok(match self.s.peek() {
            Some(sigil @ ('?' | '#')) => {
                self.s.eat(sigil.encode_utf8(&mut [0; 4]));
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
        self.s.expect("(")?;
        self.s.enter()?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-.$+*/%<>=!".contains(c);
        let function = Name::new(self.s.word("the name of a function", fits)?);
        let mut args = Vec::new();
        while !self.s.eat(")") {
            args.push(self.attr(true)?);
        }
        self.s.leave();
        Ok(Call { function, args })
    }

    fn guards(&mut self) -> Read<Vec<Call>> {
        let mut guards = Vec::new();
        while self.s.peek().is_some() {
            guards.push(self.call()?);
        }
        Ok(guards)
    }

    fn literal(&mut self) -> Read<Literal> {
        match self.s.peek() {
            Some('"') => {
                self.s.eat("\"");
                let text = self.s.take(|c| c != '"');
                self.s.expect("\"")?;
                Ok(Literal::Str(Name::new(text)))
            }
            Some('[') => {
                self.s.eat("[");
                let mut all = Vec::new();
                while !self.s.eat("]") {
                    if !all.is_empty() {
                        self.s.expect(",")?;
                    }
                    let word = self.word("an integer")?;
                    match word.parse() {
                        Ok(number) => all.push(number),
                        Err(_) => return self.wrong(format!("'{word}' is no integer")),
                    }
                }
                Ok(Literal::Ints(all))
            }
            _ => {
                let start = self.s.at();
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
                            self.s.go(start);
                            return self.wrong(format!("'{word}' is no number"));
                        }
                    }
                    word => Literal::Word(Name::new(word)),
                })
            }
        }
    }
}
