//! Applies a rule to IR.

use std::sync::Arc;

use tir_core::{At, Attr, Definition, Ir, Name, OpId, OpState, SmallVec, Type, Value, smallvec};

use crate::decline::Decline;
use crate::fold::materialize;
use crate::pattern::Pattern;
use crate::rewriter::Rewriter;
use crate::rule::{Functions, OpTerm, Rule, Which};
use crate::term::{
    Bindings, Compiled, Driver, Search, TermBuilder, TermGraph, TermValues, Unbuilt, build,
};

/// A rule with one root as a pattern.
pub struct RulePattern(Compiled);

impl RulePattern {
    /// The pattern of a rule; `None` if it has several roots.
    pub fn new(rule: Arc<Rule>, functions: Arc<Functions>) -> Option<Self> {
        rule.root()?;
        Some(Self(Compiled::new(rule, functions)))
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
    if roots.len() != rule.left.len() {
        return Err("the rule has another number of roots".into());
    }
    let rule = Compiled::new(rule.clone(), functions.clone());
    let Some(bindings) = find(&rule, rw.ir(), roots) else {
        return Ok(None);
    };
    let types: Vec<Type> = roots.iter().map(|root| rw.ir().ty(*root)).collect();
    match right(&rule, &bindings, rw, &types) {
        Ok(values) => Ok(Some(values)),
        Err(Unbuilt::Uncomputed) => Ok(None),
        Err(Unbuilt::Untyped(why)) => Err(why),
    }
}

impl Pattern for RulePattern {
    fn name(&self) -> &str {
        &self.0.rule.name
    }
    fn root(&self) -> Option<Name> {
        let op = self.0.rule.root().filter(|op| op.var.is_none());
        op.map(|op| op.name)
    }
    fn roots(&self) -> Option<Vec<Name>> {
        let names = self.0.rule.root().map(|op| self.0.op_names(op));
        Some(names.unwrap_or_default().to_vec())
    }
    fn rewrite(&self, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
        let root = self.0.rule.root().ok_or(Decline::NO_MATCH)?;
        let results = match root.result {
            Which::At(at) => at..at + 1,
            Which::Var(_) => 0..rw.results(op).len(),
        };
        // All results to which it applies: what is left of the op is not looked at again by itself.
        let mut done = Err(Decline::NO_MATCH);
        for index in results {
            match self.replace(op, index, rw) {
                Ok(()) => done = Ok(()),
                Err(why) if done.is_err() => done = Err(why),
                Err(_) => {}
            }
        }
        done
    }
}

impl RulePattern {
    fn replace(&self, op: OpId, index: usize, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
        if index >= rw.results(op).len() {
            return Err(Decline::NO_MATCH);
        }
        let old = rw.ir().result(op, index);
        if rw.is_unused(old) {
            return Err("the result is not used".into());
        }
        let bindings = find(&self.0, rw.ir(), &[old]).ok_or(Decline::NO_MATCH)?;
        let wanted = rw.convert_type(rw.ir().ty(old))?;
        let made = right(&self.0, &bindings, rw, &[wanted]).map_err(|why| match why {
            Unbuilt::Uncomputed => "an attribute or type cannot be computed".into(),
            Unbuilt::Untyped(why) => why,
        })?;
        // What is there already was not made: there is nothing to undo.
        match made[..] {
            [new] if new == old => return Err("it is so already".into()),
            [new] if rw.results(op).len() == 1 => rw.replace(op, &[new]),
            [new] => rw.replace_value(old, new, At::Before(op)),
            _ => return Err(Decline::NO_MATCH),
        }
        Ok(())
    }
}

/// What the variables stand for where these values are an instance of the left side.
fn find(rule: &Compiled, ir: &Ir, roots: &[Value]) -> Option<Bindings<Value>> {
    let given = Given { roots, found: None };
    Search::run(ir, rule, given).found
}

/// Makes the right side, of these types, or leaves everything as it was.
fn right(
    rule: &Compiled,
    bindings: &Bindings<Value>,
    rw: &mut Rewriter<'_>,
    types: &[Type],
) -> Result<Vec<Value>, Unbuilt> {
    let mark = rw.events().len();
    let made = build(rule, bindings, rw, types).and_then(|values| {
        for (value, wanted) in values.iter().zip(types) {
            let (found, wanted) = (rw.ir().ty(*value), *wanted);
            if found != wanted {
                let text = move || format!("the right side has type {found}, expected {wanted}");
                return Err(Unbuilt::Untyped(Decline::because(text)));
            }
        }
        Ok(values)
    });
    if made.is_err() {
        rw.undo_insertions(mark);
    }
    made
}

/// The roots are given, and the first match is enough.
struct Given<'a> {
    roots: &'a [Value],
    found: Option<Bindings<Value>>,
}

impl Driver<Ir> for Given<'_> {
    fn root(search: &mut Search<'_, Ir, Self>, at: usize) {
        let root = search.driver.roots[search.roots.len()];
        search.enter_root(at, root);
    }
    fn found(search: &mut Search<'_, Ir, Self>) {
        search.driver.found = Some(search.bindings.clone());
    }
    fn is_done(&self) -> bool {
        self.found.is_some()
    }
}

impl TermValues for Ir {
    type Value = Value;
    fn ty(&self, value: Value) -> Type {
        Ir::ty(self, value)
    }
    fn constant(&self, value: Value) -> Option<Attr> {
        Ir::constant(self, value)
    }
}

impl TermValues for &Ir {
    type Value = Value;
    fn ty(&self, value: Value) -> Type {
        Ir::ty(self, value)
    }
    fn constant(&self, value: Value) -> Option<Attr> {
        Ir::constant(self, value)
    }
}

impl TermGraph for Ir {
    type Node = OpId;
    fn definers(&self, value: Value, _: usize, term: &OpTerm) -> SmallVec<[(OpId, usize); 2]> {
        match self.definition(value) {
            Definition::Result(op, index)
                if term.result.may_be(index)
                    && (term.var.is_some() || self.name(op) == term.name) =>
            {
                smallvec![(op, index)]
            }
            _ => SmallVec::new(),
        }
    }
    fn constant_node(&self, value: Value) -> Option<OpId> {
        self.owner(value)
    }
    fn name(&self, op: OpId) -> Name {
        Ir::name(self, op)
    }
    fn attrs(&self, op: OpId) -> Vec<(Name, Attr)> {
        let info = self.info(op);
        let default = |name: Name| info?.field(&name)?.default;
        let attrs = Ir::attrs(self, op).iter().copied();
        let mut kept: Vec<_> = attrs
            .filter(|(name, attr)| default(*name) != Some(*attr))
            .collect();
        kept.sort_unstable_by_key(|(name, _)| *name);
        kept
    }
    fn attr(&self, op: OpId, name: Name) -> Option<Attr> {
        Ir::attr(self, op, &name)
    }
    fn operands(&self, op: OpId) -> SmallVec<[Value; 4]> {
        Ir::operands(self, op).collect()
    }
}

impl TermBuilder for Rewriter<'_> {
    type Value = Value;
    type Values<'a>
        = &'a Ir
    where
        Self: 'a;
    type Built = Value;
    type Op = OpId;

    fn values(&self) -> &Ir {
        self.ir()
    }
    fn value(&self, value: Value) -> Value {
        value
    }
    fn ty(&self, value: &Value) -> Type {
        self.ir().ty(*value)
    }
    fn text_type(&self, text: &str) -> Option<Type> {
        crate::literal::scalar(text)
    }
    fn constant(&mut self, dialect: &str, attr: Attr, ty: Type) -> Option<Value> {
        materialize(self, dialect, attr, ty)
    }
    fn op(
        &mut self,
        name: Name,
        attrs: Vec<(Name, Attr)>,
        ty: Option<Type>,
        operands: Vec<Value>,
    ) -> Result<OpId, Decline> {
        let mut state = OpState::new(name);
        state.operands = operands.into_iter().collect();
        state.results.extend(ty);
        for (name, attr) in attrs {
            state.set_attr(name, attr);
        }
        Ok(self.try_create(state)?)
    }
    fn result(&mut self, op: &OpId, index: usize) -> Option<Value> {
        self.ir().results(*op).nth(index)
    }
}
