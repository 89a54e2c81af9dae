//! Applies a rule to IR: matching with commutative operands in both orders, and building.

use std::sync::Arc;

use tir_core::{At, Attr, Definition, Ir, Name, OpId, OpState, Traits, Type, TypeAttr, Value};

use crate::fold::materialize;
use crate::pattern::{Decline, Pattern};
use crate::rewriter::Rewriter;
use crate::rule::{
    Arg, AttrTerm, Call, Functions, OpTerm, Rule, Term, TermKind, TypeTerm, Var, VarKind,
};

/// A rule with one root as a pattern.
pub struct RulePattern {
    rule: Arc<Rule>,
    functions: Arc<Functions>,
}

/// What a variable is bound to.
#[derive(Clone, PartialEq)]
enum Bound {
    Value(Value),
    Values(Vec<Value>),
    Attr(Option<Attr>),
    Type(Type),
}
type Bindings = Vec<Option<Bound>>;

impl RulePattern {
    /// The pattern of a rule; `None` if it has several roots.
    pub fn new(rule: Arc<Rule>, functions: Arc<Functions>) -> Option<Self> {
        rule.root()?;
        Some(Self { rule, functions })
    }

    fn find(&self, ir: &Ir, roots: &[Value]) -> Option<Bindings> {
        let matcher = Matcher { ir, pattern: self };
        let bindings = vec![None; self.rule.vars.len()];
        let goals = self.rule.left.iter().zip(roots.iter().copied());
        matcher.solve(goals.rev().collect(), bindings)
    }
}

/// Builds the right side of a rule, with one root or several and of either kind, for these roots
/// of the left side, at the insertion point of the rewriter (which the values that the rule binds
/// must dominate). Gives a value for each root, of the same type; replacing is left to the caller.
/// `None`: the roots are no instance of the left side, a guard does not hold, or a function gives
/// nothing. An error says why the right side cannot be built although they are one.
pub fn apply_rule(
    rule: &Arc<Rule>,
    functions: &Arc<Functions>,
    rw: &mut Rewriter<'_>,
    roots: &[Value],
) -> Result<Option<Vec<Value>>, Decline> {
    let pattern = RulePattern {
        rule: rule.clone(),
        functions: functions.clone(),
    };
    if roots.len() != rule.left.len() {
        return Err("the rule has another number of roots".into());
    }
    let Some(bindings) = pattern.find(rw.ir(), roots) else {
        return Ok(None);
    };
    let mut build = Build::new(&pattern, bindings);
    let mark = rw.events().len();
    let mut values = Vec::with_capacity(roots.len());
    for (term, root) in rule.right.iter().zip(roots) {
        let wanted = rw.ty(*root);
        match build.root(rw, term, wanted) {
            Ok(value) => values.push(value),
            Err(why) => {
                rw.undo_insertions(mark);
                return if build.uncomputed { Ok(None) } else { Err(why) };
            }
        }
    }
    Ok(Some(values))
}

impl Pattern for RulePattern {
    fn name(&self) -> &str {
        &self.rule.name
    }
    fn root(&self) -> Option<Name> {
        self.rule.root().map(|op| op.name)
    }
    fn rewrite(&self, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
        let root = self.rule.root().ok_or(Decline::NO_MATCH)?;
        if root.result >= rw.results(op).len() {
            return Err(Decline::NO_MATCH);
        }
        let old = rw.result(op, root.result);
        if rw.is_unused(old) {
            return Err("the result is not used".into());
        }
        let bindings = self.find(rw.ir(), &[old]).ok_or(Decline::NO_MATCH)?;
        let ty = rw.ty(old);
        let wanted = rw.convert_type(ty)?;
        let mut build = Build::new(self, bindings);
        let mark = rw.events().len();
        let new = match build.root(rw, &self.rule.right[0], wanted) {
            Ok(new) if new == old => Err("it is so already".into()),
            other => other,
        };
        match new {
            Ok(new) if rw.results(op).len() == 1 => rw.replace(op, &[new]),
            Ok(new) => rw.replace_value(old, new, At::Before(op)),
            Err(why) => {
                rw.undo_insertions(mark);
                return Err(why);
            }
        }
        Ok(())
    }
}

struct Matcher<'a> {
    ir: &'a Ir,
    pattern: &'a RulePattern,
}

impl<'a> Matcher<'a> {
    /// Bindings under which all goals hold, and the guards.
    fn solve(&self, mut goals: Vec<(&'a Term, Value)>, mut b: Bindings) -> Option<Bindings> {
        while let Some((term, value)) = goals.pop() {
            let ty = self.ir.ty(value);
            match &term.ty {
                Some(TypeTerm::Var(var)) => bind(&mut b, *var, Bound::Type(ty))?,
                Some(TypeTerm::Text(text)) if ty.to_string() != text.as_str() => return None,
                Some(TypeTerm::Call(_)) => return None,
                _ => {}
            }
            match &term.kind {
                TermKind::Var(var) => {
                    let constant = self.pattern.rule.vars[var.0].1 == VarKind::Constant;
                    if constant && self.ir.constant(value).is_none() {
                        return None;
                    }
                    bind(&mut b, *var, Bound::Value(value))?;
                }
                TermKind::Literal(literal) => {
                    if !literal.matches(self.ir.constant(value)?, None) {
                        return None;
                    }
                }
                TermKind::Op(op) => return self.op(op, value, goals, b),
            }
        }
        let rule = &self.pattern.rule;
        let holds = |guard: &Call| {
            let function = self.pattern.functions.guards.get(&guard.function);
            let args = guard.args.iter();
            let args: Option<Vec<Arg>> = args
                .map(|arg| argument(self.ir, &b, arg, &self.pattern.functions))
                .collect();
            function.zip(args).is_some_and(|(guard, args)| guard(&args))
        };
        rule.guards.iter().all(holds).then_some(b)
    }

    fn op(
        &self,
        term: &'a OpTerm,
        value: Value,
        mut goals: Vec<(&'a Term, Value)>,
        mut b: Bindings,
    ) -> Option<Bindings> {
        let Definition::Result(op, index) = self.ir.definition(value) else {
            return None;
        };
        if index != term.result || self.ir.name(op) != term.name {
            return None;
        }
        let info = self.ir.info(op);
        for (name, wanted) in &term.attrs {
            let field = info.and_then(|info| info.field(name));
            let found = self.ir.attr(op, name).or(field.and_then(|f| f.default));
            match wanted {
                AttrTerm::Var(var) => bind(&mut b, *var, Bound::Attr(found))?,
                AttrTerm::Literal(literal) if literal.matches(found?, field) => {}
                _ => return None,
            }
        }
        let mut terms = &term.operands[..];
        let mut operands: Vec<Value> = self.ir.operands(op).collect();
        if let Some((last, first)) = terms.split_last()
            && let TermKind::Var(var) = last.kind
            && self.pattern.rule.vars[var.0].1 == VarKind::Values
        {
            if operands.len() < first.len() {
                return None;
            }
            let rest = operands.split_off(first.len());
            bind(&mut b, var, Bound::Values(rest))?;
            terms = first;
        }
        if operands.len() != terms.len() {
            return None;
        }
        let swaps = operands.len() == 2
            && operands[0] != operands[1]
            && info.is_some_and(|info| info.has(Traits::Commutative));
        if swaps {
            let mut swapped = goals.clone();
            swapped.extend([(&terms[1], operands[0]), (&terms[0], operands[1])]);
            goals.extend([(&terms[1], operands[1]), (&terms[0], operands[0])]);
            return self
                .solve(goals, b.clone())
                .or_else(|| self.solve(swapped, b));
        }
        goals.extend(terms.iter().zip(operands).rev());
        self.solve(goals, b)
    }
}

/// Binds a variable; `None` if it is bound to something else.
fn bind(b: &mut Bindings, var: Var, to: Bound) -> Option<()> {
    match &b[var.0] {
        Some(bound) => (*bound == to).then_some(()),
        None => {
            b[var.0] = Some(to);
            Some(())
        }
    }
}

fn argument(ir: &Ir, b: &Bindings, arg: &AttrTerm, functions: &Functions) -> Option<Arg> {
    let value = |v: &Value| (ir.ty(*v), ir.constant(*v));
    Some(match arg {
        AttrTerm::Var(var) => match b[var.0].as_ref()? {
            Bound::Value(v) => {
                let (ty, constant) = value(v);
                Arg::Value(ty, constant)
            }
            Bound::Values(all) => Arg::Values(all.iter().map(value).collect()),
            Bound::Attr(Some(attr)) => Arg::Attr(*attr),
            Bound::Attr(None) => Arg::Absent,
            Bound::Type(ty) => Arg::Type(*ty),
        },
        AttrTerm::Literal(literal) => Arg::Attr(literal.attr(None)?),
        AttrTerm::Call(call) => Arg::Attr(computed(ir, b, call, functions)?),
    })
}

fn computed(ir: &Ir, b: &Bindings, call: &Call, functions: &Functions) -> Option<Attr> {
    let function = functions.attrs.get(&call.function)?;
    let args = call.args.iter().map(|arg| argument(ir, b, arg, functions));
    function(&args.collect::<Option<Vec<_>>>()?)
}

struct Build<'a> {
    pattern: &'a RulePattern,
    bindings: Bindings,
    /// The ops made so far, with the types that were said and expected of them.
    made: Vec<(&'a OpTerm, [Option<Type>; 2], OpId)>,
    /// Whether a function gave nothing.
    uncomputed: bool,
}

impl<'a> Build<'a> {
    fn new(pattern: &'a RulePattern, bindings: Bindings) -> Self {
        Self {
            pattern,
            bindings,
            made: Vec::new(),
            uncomputed: false,
        }
    }

    /// The value of a whole right side, which must have this type.
    fn root(
        &mut self,
        rw: &mut Rewriter<'_>,
        term: &'a Term,
        wanted: Type,
    ) -> Result<Value, Decline> {
        let new = self.term(rw, term, Some(wanted))?;
        let found = rw.ty(new);
        if found == wanted {
            return Ok(new);
        }
        Err(Decline::because(move || {
            format!("the right side has type {found}, expected {wanted}")
        }))
    }

    fn computed(&mut self, rw: &Rewriter<'_>, call: &Call) -> Result<Attr, Decline> {
        let attr = computed(rw.ir(), &self.bindings, call, &self.pattern.functions);
        self.uncomputed |= attr.is_none();
        attr.ok_or_else(|| "an attribute or type cannot be computed".into())
    }

    fn term(
        &mut self,
        rw: &mut Rewriter<'_>,
        term: &'a Term,
        expected: Option<Type>,
    ) -> Result<Value, Decline> {
        let said = match &term.ty {
            None => None,
            Some(TypeTerm::Var(var)) => match &self.bindings[var.0] {
                Some(Bound::Type(ty)) => Some(*ty),
                _ => return Err("a type is not bound".into()),
            },
            Some(TypeTerm::Text(text)) => {
                Some(crate::literal::scalar(text).ok_or("the type on the right is no scalar")?)
            }
            Some(TypeTerm::Call(call)) => {
                let ty = self.computed(rw, call)?.get::<TypeAttr>();
                Some(
                    ty.ok_or("a function that is to compute a type gives no type")?
                        .0,
                )
            }
        };
        let expected = said.or(expected);
        match &term.kind {
            TermKind::Var(var) => match &self.bindings[var.0] {
                Some(Bound::Value(value)) => Ok(*value),
                _ => Err("a variable is not bound to a value".into()),
            },
            TermKind::Literal(literal) => {
                let ty = expected.ok_or("the type of a constant on the right is not known")?;
                let attr = literal.constant(ty).ok_or("a constant has no such type")?;
                let dialect = self.pattern.rule.root().map_or("", |op| op.name.dialect());
                materialize(rw, dialect, attr, ty)
                    .ok_or_else(|| "no dialect makes the constant".into())
            }
            TermKind::Op(op) => self.op(rw, op, said, expected),
        }
    }

    fn op(
        &mut self,
        rw: &mut Rewriter<'_>,
        term: &'a OpTerm,
        said: Option<Type>,
        expected: Option<Type>,
    ) -> Result<Value, Decline> {
        let info = term.name.info();
        // The type expected of one of several results says nothing of the others.
        let single = info.is_none_or(|info| info.results.len() <= 1 && term.result == 0);
        let types = [said, expected.filter(|_| single)];
        let same_op = |other: &'a OpTerm| {
            let parts = |t: &'a OpTerm| (t.name, &t.operands, &t.attrs);
            parts(other) == parts(term)
        };
        let made = self.made.iter();
        let mut made = made.filter(|(t, had, _)| *had == types && same_op(t));
        if let Some((_, _, op)) = made.next() {
            return result(rw, *op, term.result);
        }
        let mut state = OpState::new(term.name);
        // Constants among the operands of an op on one type take the type of the others.
        let literal = |t: &Term| matches!(t.kind, TermKind::Literal(_));
        let same = info.is_some_and(|info| info.has(Traits::SameType));
        let mut shared = said.or(if same { expected } else { None });
        let mut operands: Vec<Option<Vec<Value>>> = vec![None; term.operands.len()];
        for (slot, operand) in operands.iter_mut().zip(&term.operands) {
            if let TermKind::Var(var) = operand.kind
                && let Some(Bound::Values(all)) = &self.bindings[var.0]
            {
                *slot = Some(all.clone());
            } else if !literal(operand) {
                let value = self.term(rw, operand, None)?;
                if same {
                    shared = Some(rw.ty(value));
                }
                *slot = Some(vec![value]);
            }
        }
        for (slot, operand) in operands.iter_mut().zip(&term.operands) {
            if slot.is_none() {
                let ty = if same { shared } else { None };
                *slot = Some(vec![self.term(rw, operand, ty)?]);
            }
        }
        state.operands = operands.into_iter().flatten().flatten().collect();
        for (name, attr) in &term.attrs {
            let field = info.and_then(|info| info.field(name));
            let attr = match attr {
                AttrTerm::Literal(literal) => Some(
                    literal
                        .attr(field)
                        .ok_or("an attribute on the right has no such keyword")?,
                ),
                AttrTerm::Var(var) => match &self.bindings[var.0] {
                    Some(Bound::Attr(attr)) => *attr,
                    Some(Bound::Value(value)) => rw.constant(*value),
                    Some(Bound::Type(ty)) => Some(Attr::ty(*ty)),
                    _ => return Err("a variable is not bound to an attribute".into()),
                },
                AttrTerm::Call(call) => Some(self.computed(rw, call)?),
            };
            if let Some(attr) = attr {
                state.set_attr(*name, attr);
            }
        }
        let infers = info.is_some_and(|info| info.infers());
        if let Some(ty) = said.or(if infers { None } else { expected }) {
            state.results.push(ty);
        } else if !infers {
            return Err("a result type on the right is not known".into());
        }
        let op = rw.try_create(state)?;
        self.made.push((term, types, op));
        result(rw, op, term.result)
    }
}

fn result(rw: &Rewriter<'_>, op: OpId, index: usize) -> Result<Value, Decline> {
    let value = rw.results(op).nth(index);
    value.ok_or_else(|| "an op on the right has not as many results".into())
}
