//! The builder: the ops of a right side.

use tir_core::{Attr, Name, OpInfo, Traits, Type, TypeAttr};

use super::{Binding, Bindings, Compiled, TermValues, computed};
use crate::decline::Decline;
use crate::rule::{AttrTerm, Call, OpTerm, Term, TermKind, TypeTerm, Which};

/// Why a right side was not made.
#[derive(Debug)]
pub enum Unbuilt {
    /// A function of the rule gave nothing: the rule does not apply.
    Uncomputed,
    /// It is not well typed, and why.
    Untyped(Decline),
}

impl From<&'static str> for Unbuilt {
    fn from(reason: &'static str) -> Self {
        Self::Untyped(reason.into())
    }
}

/// Makes the ops of a right side.
pub trait TermBuilder {
    /// What variables stand for.
    type Value: Copy + PartialEq;
    /// What guards and functions see.
    type Values<'a>: TermValues<Value = Self::Value>
    where
        Self: 'a;
    /// A value of the right side.
    type Built: Clone;
    /// An op of the right side.
    type Op: Clone;
    /// What functions see.
    fn values(&self) -> Self::Values<'_>;
    /// A value that a variable stands for.
    fn value(&self, value: Self::Value) -> Self::Built;
    /// The type of a value of the right side.
    fn ty(&self, built: &Self::Built) -> Type;
    /// The type of a text; `None` if it is none.
    fn text_type(&self, text: &str) -> Option<Type>;
    /// A constant, by a dialect or another one.
    fn constant(&mut self, dialect: &str, attr: Attr, ty: Type) -> Option<Self::Built>;
    /// An op; `ty` is the type of its result, unless it is inferred.
    fn op(
        &mut self,
        name: Name,
        attrs: Vec<(Name, Attr)>,
        ty: Option<Type>,
        operands: Vec<Self::Built>,
    ) -> Result<Self::Op, Decline>;
    /// A result of an op.
    fn result(&mut self, op: &Self::Op, index: usize) -> Option<Self::Built>;
}

/// Makes the right side of a rule: a value for each root, whose types are given. Values of other
/// types may come out: whether they do is for the caller to see.
///
/// # Errors
/// If a function of the rule gives nothing, or the right side is not well typed.
pub fn build<B: TermBuilder>(
    rule: &Compiled,
    bindings: &Bindings<B::Value>,
    builder: &mut B,
    roots: &[Type],
) -> Result<Vec<B::Built>, Unbuilt> {
    let mut build = Build {
        rule,
        bindings,
        builder,
        made: Vec::new(),
        at: None,
    };
    let terms = rule.rule.right.iter().zip(roots);
    terms
        .map(|(term, ty)| build.term(term, Some(*ty)))
        .collect()
}

/// An op of the right side, the type that is said of it and the one that is expected, and what was
/// made of it.
type Made<'a, O> = (&'a OpTerm, [Option<Type>; 2], Option<usize>, O);

/// An op, and those of its attributes that the rule does not name.
type Headed<'a> = (Name, &'a [(Name, Attr)]);

struct Build<'a, B: TermBuilder> {
    rule: &'a Compiled,
    bindings: &'a Bindings<B::Value>,
    builder: &'a mut B,
    /// The ops made so far: one that is said twice is made once.
    made: Vec<Made<'a, B::Op>>,
    /// In a term that stands for several values, which of them is made.
    at: Option<usize>,
}

impl<'a, B: TermBuilder> Build<'a, B> {
    fn computed(&self, call: &Call) -> Result<Attr, Unbuilt> {
        let values = self.builder.values();
        let attr = computed(&values, self.bindings, call, &self.rule.functions);
        attr.ok_or(Unbuilt::Uncomputed)
    }

    fn term(&mut self, term: &'a Term, expected: Option<Type>) -> Result<B::Built, Unbuilt> {
        let said = match &term.ty {
            None => None,
            Some(TypeTerm::Var(var)) => match &self.bindings[var.0] {
                Some(Binding::Type(ty)) => Some(*ty),
                _ => return Err("a type is not bound".into()),
            },
            Some(TypeTerm::Text(text)) => {
                let ty = self.builder.text_type(text);
                Some(ty.ok_or("the type on the right is none that can be written there")?)
            }
            Some(TypeTerm::Call(call)) => {
                let ty = self.computed(call)?.get::<TypeAttr>();
                let ty = ty.ok_or("a function that is to compute a type gives no type")?;
                Some(ty.0)
            }
        };
        let expected = said.or(expected);
        match &term.kind {
            TermKind::Var(var) => match &self.bindings[var.0] {
                Some(Binding::Value(value)) => Ok(self.builder.value(*value)),
                Some(Binding::Values(all)) => {
                    let value = self.at.and_then(|at| all.get(at));
                    let value = value.ok_or("a variable is bound to several values")?;
                    Ok(self.builder.value(*value))
                }
                _ => Err("a variable is not bound to a value".into()),
            },
            TermKind::Literal(literal) => {
                let ty = expected.ok_or("the type of a constant on the right is not known")?;
                let attr = literal.constant(ty).ok_or("a constant has no such type")?;
                let dialect = match &self.rule.rule.left[0].kind {
                    TermKind::Op(op) => self.head(op)?.0.dialect(),
                    _ => "",
                };
                let made = self.builder.constant(dialect, attr, ty);
                Ok(made.ok_or("no dialect makes the constant")?)
            }
            TermKind::Op(op) | TermKind::Each(op) => self.op(op, said, expected),
        }
    }

    /// The op that a term is, and its attributes that the rule does not name.
    fn head(&self, term: &OpTerm) -> Result<Headed<'a>, Unbuilt> {
        let Some(var) = term.var else {
            return Ok((term.name, &[]));
        };
        match &self.bindings[var.0] {
            Some(Binding::Op(name, rest)) => Ok((*name, rest)),
            _ => Err("a variable is not bound to an op".into()),
        }
    }

    /// The number of the result that a term is.
    fn result(&self, term: &OpTerm) -> Result<usize, Unbuilt> {
        let var = match term.result {
            Which::At(at) => return Ok(at),
            Which::Var(var) => var,
        };
        let number = match &self.bindings[var.0] {
            Some(Binding::Attr(Some(number))) => number.as_int(),
            _ => None,
        };
        let number = number.and_then(|n| usize::try_from(n).ok());
        number.ok_or(Unbuilt::Uncomputed)
    }

    fn op(
        &mut self,
        term: &'a OpTerm,
        said: Option<Type>,
        expected: Option<Type>,
    ) -> Result<B::Built, Unbuilt> {
        let (name, rest) = self.head(term)?;
        let info = name.info();
        // The type expected of one of several results says nothing of the others.
        let result = self.result(term)?;
        let several = |info: &OpInfo| {
            info.results.len() > 1 || info.result_count().is_none() && info.infers()
        };
        let single = info.is_none_or(|info| !several(info) && result == 0);
        let types = [said, expected.filter(|_| single)];
        let same_op = |other: &'a OpTerm| {
            let parts = |t: &'a OpTerm| (t.name, &t.operands, &t.attrs);
            parts(other) == parts(term)
        };
        let mut made = self.made.iter();
        let at = self.at;
        let made = made.find(|(t, had, of, _)| *had == types && *of == at && same_op(t));
        let op = match made {
            Some((.., op)) => op.clone(),
            None => {
                let operands = self.operands(term, info, said, expected)?;
                let mut attrs = self.attrs(term, info)?;
                attrs.extend_from_slice(rest);
                let infers = info.is_some_and(|info| info.infers());
                let ty = said.or(if infers { None } else { expected });
                if ty.is_none() && !infers {
                    return Err("a result type on the right is not known".into());
                }
                let op = self.builder.op(name, attrs, ty, operands);
                let op = op.map_err(Unbuilt::Untyped)?;
                self.made.push((term, types, at, op.clone()));
                op
            }
        };
        let value = self.builder.result(&op, result);
        Ok(value.ok_or("an op on the right has not as many results")?)
    }

    /// How many values a term that stands for several has. Lists of different lengths have none.
    fn count(&self, each: &OpTerm) -> Result<usize, Unbuilt> {
        let lists = each
            .operands
            .iter()
            .filter_map(|operand| match operand.kind {
                TermKind::Var(var) => match &self.bindings[var.0] {
                    Some(Binding::Values(all)) => Some(all.len()),
                    _ => None,
                },
                _ => None,
            });
        let lengths: Vec<usize> = lists.collect();
        match lengths.split_first() {
            Some((first, rest)) if rest.iter().all(|n| n == first) => Ok(*first),
            _ => Err(Unbuilt::Uncomputed),
        }
    }

    /// The operands of an op. Constants among those of an op on one type take the type of the
    /// others, so they come last.
    fn operands(
        &mut self,
        term: &'a OpTerm,
        info: Option<&OpInfo>,
        said: Option<Type>,
        expected: Option<Type>,
    ) -> Result<Vec<B::Built>, Unbuilt> {
        let same = info.is_some_and(|info| info.has(Traits::SameType));
        let mut shared = said.or(if same { expected } else { None });
        let mut operands: Vec<Option<Vec<B::Built>>> = vec![None; term.operands.len()];
        for (slot, operand) in operands.iter_mut().zip(&term.operands) {
            if let TermKind::Each(each) = &operand.kind {
                let mut made = Vec::new();
                for at in 0..self.count(each)? {
                    self.at = Some(at);
                    made.push(self.term(operand, None));
                }
                self.at = None;
                *slot = Some(made.into_iter().collect::<Result<_, _>>()?);
            } else if let TermKind::Var(var) = operand.kind
                && self.at.is_none()
                && let Some(Binding::Values(all)) = &self.bindings[var.0]
            {
                *slot = Some(all.iter().map(|v| self.builder.value(*v)).collect());
            } else if !matches!(operand.kind, TermKind::Literal(_)) {
                let value = self.term(operand, None)?;
                if same {
                    shared = Some(self.builder.ty(&value));
                }
                *slot = Some(vec![value]);
            }
        }
        for (slot, operand) in operands.iter_mut().zip(&term.operands) {
            if slot.is_none() {
                let ty = if same { shared } else { None };
                *slot = Some(vec![self.term(operand, ty)?]);
            }
        }
        Ok(operands.into_iter().flatten().flatten().collect())
    }

    fn attrs(&self, term: &OpTerm, info: Option<&OpInfo>) -> Result<Vec<(Name, Attr)>, Unbuilt> {
        let mut attrs = Vec::with_capacity(term.attrs.len());
        for (name, attr) in &term.attrs {
            let field = info.and_then(|info| info.field(name));
            let attr = match attr {
                AttrTerm::Literal(literal) => {
                    let attr = literal.attr(field);
                    Some(attr.ok_or("an attribute on the right has no such keyword")?)
                }
                AttrTerm::Var(var) => match &self.bindings[var.0] {
                    Some(Binding::Attr(attr)) => *attr,
                    Some(Binding::Value(value)) => self.builder.values().constant(*value),
                    Some(Binding::Type(ty)) => Some(Attr::ty(*ty)),
                    _ => return Err("a variable is not bound to an attribute".into()),
                },
                AttrTerm::Call(call) => Some(self.computed(call)?),
            };
            attrs.extend(attr.map(|attr| (*name, attr)));
        }
        Ok(attrs)
    }
}
