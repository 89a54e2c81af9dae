//! Rules as text, as they are written.

use std::cell::RefCell;
use std::fmt;

use super::{AttrTerm, Call, Kind, Literal, Rule, Term, TermKind, TypeTerm, Var, VarKind, Which};

impl Rule {
    /// The texts of its left side, right side and guards, as [`RuleText`](super::RuleText) has them.
    pub fn texts(&self) -> [String; 3] {
        let guards = Join(self.guards.len(), |f: &mut fmt::Formatter<'_>, i| {
            self.call(f, &self.guards[i])
        });
        // A class is said where its variable stands first.
        let said = RefCell::default();
        let side = |terms: &[Term]| {
            Join(terms.len(), |f: &mut fmt::Formatter<'_>, i| {
                self.term(f, &terms[i], &said)
            })
            .to_string()
        };
        [side(&self.left), side(&self.right), guards.to_string()]
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => write!(f, "{n}"),
            Self::Float(x) => write!(f, "{x:?}"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Str(s) => tir_core::quote(f, s),
            Self::Ints(all) => write!(f, "{all:?}"),
            Self::Word(word) => write!(f, "{word}"),
        }
    }
}

/// As it is written, guards and all.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [left, right, guards] = self.texts();
        let arrow = match self.kind {
            Kind::Reduce => "=>",
            Kind::Equal => "=",
        };
        write!(f, "{}: {left} {arrow} {right}", self.name)?;
        match guards.is_empty() {
            true => Ok(()),
            false => write!(f, " if {guards}"),
        }
    }
}

/// Things with spaces between.
struct Join<F>(usize, F);
impl<F: Fn(&mut fmt::Formatter<'_>, usize) -> fmt::Result> fmt::Display for Join<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for i in 0..self.0 {
            f.write_str(if i > 0 { " " } else { "" })?;
            (self.1)(f, i)?;
        }
        Ok(())
    }
}

impl Rule {
    fn var(&self, f: &mut fmt::Formatter<'_>, var: Var) -> fmt::Result {
        let (name, kind) = self.vars[var.0];
        match kind {
            VarKind::Constant => write!(f, "#{name}"),
            VarKind::Values => write!(f, "?{name}..."),
            _ => write!(f, "?{name}"),
        }
    }
    fn term(
        &self,
        f: &mut fmt::Formatter<'_>,
        term: &Term,
        said: &RefCell<Vec<Var>>,
    ) -> fmt::Result {
        match &term.kind {
            TermKind::Var(var) => self.var(f, *var)?,
            TermKind::Literal(literal) => write!(f, "{literal}")?,
            TermKind::Op(op) | TermKind::Each(op) => {
                let each = matches!(term.kind, TermKind::Each(_));
                write!(f, "({}", op.name)?;
                let class = self.ops.iter().find(|(var, _)| op.var == Some(*var));
                if let Some((var, class)) = class
                    && !said.borrow().contains(var)
                {
                    said.borrow_mut().push(*var);
                    let class: Vec<&str> = class.iter().map(|c| c.as_str()).collect();
                    write!(f, ":{}", class.join("+"))?;
                }
                for operand in &op.operands {
                    f.write_str(" ")?;
                    if let (true, TermKind::Var(var)) = (each, &operand.kind) {
                        // In each it stands for one value.
                        write!(f, "?{}", self.vars[var.0].0)?;
                        continue;
                    }
                    self.term(f, operand, said)?;
                }
                for (i, (name, attr)) in op.attrs.iter().enumerate() {
                    write!(f, "{}{name} = ", if i == 0 { " {" } else { ", " })?;
                    self.attr(f, attr)?;
                }
                f.write_str(if op.attrs.is_empty() { ")" } else { "})" })?;
                match op.result {
                    Which::At(0) => {}
                    Which::At(at) => write!(f, ".{at}")?,
                    Which::Var(var) => {
                        f.write_str(".")?;
                        self.var(f, var)?;
                    }
                }
                if each {
                    f.write_str("...")?;
                }
            }
        }
        match &term.ty {
            None => Ok(()),
            Some(TypeTerm::Var(var)) => {
                f.write_str(":")?;
                self.var(f, *var)
            }
            Some(TypeTerm::Text(text)) => write!(f, ":{text}"),
            Some(TypeTerm::Call(call)) => {
                f.write_str(":")?;
                self.call(f, call)
            }
        }
    }
    fn attr(&self, f: &mut fmt::Formatter<'_>, attr: &AttrTerm) -> fmt::Result {
        match attr {
            AttrTerm::Var(var) => self.var(f, *var),
            AttrTerm::Literal(literal) => write!(f, "{literal}"),
            AttrTerm::Call(call) => self.call(f, call),
        }
    }
    fn call(&self, f: &mut fmt::Formatter<'_>, call: &Call) -> fmt::Result {
        write!(f, "({}", call.function)?;
        for arg in &call.args {
            f.write_str(" ")?;
            self.attr(f, arg)?;
        }
        f.write_str(")")
    }
}
