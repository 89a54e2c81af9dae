//! The functions that rules name, and definitions put in the place of their names.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use tir_core::{Attr, Diagnostic, Dialect, Name, OpInfo, Traits};

use super::check::check_call;
use super::{
    About, Arg, AttrFn, AttrTerm, Call, Definition, GuardFn, Rule, Term, TermKind, TypeTerm,
};
use crate::arith::{BUILTINS, Builtin};

/// Says whether an op is in a class, by its traits and interfaces.
pub type OpClass = fn(&OpInfo) -> bool;

/// The functions that rules name.
#[derive(Clone, Default)]
pub struct Functions {
    /// Guards.
    pub guards: BTreeMap<Name, GuardFn>,
    /// Functions that compute attributes.
    pub attrs: BTreeMap<Name, AttrFn>,
    /// Classes of ops besides [traits](Traits), which are classes by their names in lower case:
    /// `same-type`.
    pub classes: BTreeMap<Name, OpClass>,
    /// What guards, functions and classes say of themselves.
    pub about: BTreeMap<Name, About>,
    /// Guards and functions that are defined by others, such as those of a file of rules: they are
    /// replaced by what they mean when a rule is read.
    pub definitions: BTreeMap<Name, Definition>,
    /// The pure ops of the loaded dialects, once somebody asked: what variables may stand for.
    pure: OnceLock<Vec<&'static OpInfo>>,
}

impl Functions {
    /// What a function gives, or whether a guard holds; `None` if there is none of this name.
    pub fn compute(&self, name: Name, args: &[Arg]) -> Option<Attr> {
        if let Some(function) = self.attrs.get(&name) {
            return function(args);
        }
        if name.as_str() == EACH {
            return self.each(args).map(Attr::bool);
        }
        if let Some(guard) = self.guards.get(&name) {
            return Some(Attr::bool(guard(args)));
        }
        (Builtin::named(name)?.compute)(args)
    }
    /// Whether a condition holds.
    pub fn holds(&self, name: Name, args: &[Arg]) -> bool {
        match self.guards.get(&name) {
            Some(guard) => guard(args),
            None => self.compute(name, args) == Some(Attr::bool(true)),
        }
    }
    /// Whether a condition, the first argument, holds at each place of the lists of values among the
    /// others; `None` where they differ in length.
    fn each(&self, args: &[Arg]) -> Option<bool> {
        let (name, rest) = args.split_first()?;
        let name = Name::new(name.attr()?.as_str()?);
        let lengths = rest.iter().filter_map(|arg| match arg {
            Arg::Values(all) => Some(all.len()),
            _ => None,
        });
        let lengths: Vec<usize> = lengths.collect();
        let count = *lengths.first()?;
        lengths.iter().all(|n| *n == count).then_some(())?;
        let at = |i: usize| {
            let one = |arg: &Arg| match arg {
                Arg::Values(all) => Arg::Value(all[i].0, all[i].1),
                other => other.clone(),
            };
            rest.iter().map(one).collect::<Vec<Arg>>()
        };
        Some((0..count).all(|i| self.holds(name, &at(i))))
    }
    /// Whether there is a guard or a function of a name.
    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }
    /// Whether there is a class of ops of a name.
    pub(crate) fn has_class(&self, name: &str) -> bool {
        self.classes.contains_key(&Name::new(name)) || trait_of(name).is_some()
    }
    /// The names of all guards and functions.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.guards.keys().chain(self.attrs.keys());
        let own = own.chain(self.definitions.keys()).map(|name| name.as_str());
        own.chain(BUILTINS.iter().map(|builtin| builtin.name))
    }
    /// The pure ops that are in all of these classes; none if there is no such class. Those that may stop the program are
    /// in none of classes that do not say so.
    pub fn in_classes(&self, classes: &[Name]) -> Vec<&'static OpInfo> {
        let mut ops = self.pure_ops().to_vec();
        if !classes.iter().any(|class| is_stop_class(*class)) {
            ops.retain(|op| !op.has(Traits::MayStop));
        }
        for class in classes {
            match self.classes.get(class) {
                Some(class) => ops.retain(|op| class(op)),
                None => {
                    let bit = trait_of(class);
                    ops.retain(|op| bit.is_some_and(|bit| op.has(bit)));
                }
            }
        }
        ops
    }
    /// The pure ops of the dialects that are loaded when this is first asked, in order.
    fn pure_ops(&self) -> &[&'static OpInfo] {
        self.pure.get_or_init(|| {
            let ops = Dialect::all().into_iter().flat_map(|dialect| dialect.ops);
            let infos = ops.filter_map(|spec| Name::new(spec.name).info());
            infos.filter(|info| info.has(Traits::Pure)).collect()
        })
    }
    /// The names of all classes of ops.
    pub fn class_names(&self) -> Vec<String> {
        let own = self.classes.keys().map(|name| name.to_string());
        own.chain(Traits::all().map(kebab)).collect()
    }
}

/// Whether a class is of ops that may stop the program.
pub(crate) fn is_stop_class(class: Name) -> bool {
    let bit = trait_of(class.as_str());
    [Traits::MayStop, Traits::IntegersMayStop]
        .map(Some)
        .contains(&bit)
}

/// The trait that a class is called by.
fn trait_of(class: &str) -> Option<Traits> {
    let name = Traits::all().find(|name| kebab(name) == class)?;
    Traits::named(name)
}

/// `SameType` as rules write it: `same-type`.
fn kebab(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// The guard that asks another one of each of several values: `(each same-type ?xs ?ys)`.
pub(super) const EACH: &str = "each";

impl Rule {
    /// Puts what definitions mean in the place of their names. They must be
    /// [known](Rule::check) by now, with as many arguments.
    pub fn expand(&mut self, functions: &Functions) {
        if functions.definitions.is_empty() {
            return;
        }
        let guards = self.guards.iter();
        self.guards = guards.flat_map(|call| expanded(call, functions)).collect();
        for term in self.left.iter_mut().chain(&mut self.right) {
            expand_term(term, functions);
        }
    }
}

/// What a call means: several where a definition says so.
fn expanded(call: &Call, functions: &Functions) -> Vec<Call> {
    let args: Vec<AttrTerm> = call
        .args
        .iter()
        .map(|a| expanded_attr(a, functions))
        .collect();
    match functions.definitions.get(&call.function) {
        // What a definition means was expanded when it was made.
        Some(definition) => definition.with(&args),
        None => vec![Call {
            function: call.function,
            args,
        }],
    }
}

fn expanded_call(call: &Call, functions: &Functions) -> Call {
    let mut calls = expanded(call, functions);
    match calls.len() {
        1 => calls.remove(0),
        _ => Call {
            function: Name::new("and"),
            args: calls.into_iter().map(AttrTerm::Call).collect(),
        },
    }
}

fn expanded_attr(attr: &AttrTerm, functions: &Functions) -> AttrTerm {
    match attr {
        AttrTerm::Call(call) => AttrTerm::Call(expanded_call(call, functions)),
        other => other.clone(),
    }
}

fn expand_term(term: &mut Term, functions: &Functions) {
    if let Some(TypeTerm::Call(call)) = &mut term.ty {
        *call = expanded_call(call, functions);
    }
    if let TermKind::Op(op) | TermKind::Each(op) = &mut term.kind {
        for (_, attr) in &mut op.attrs {
            *attr = expanded_attr(attr, functions);
        }
        op.operands
            .iter_mut()
            .for_each(|t| expand_term(t, functions));
    }
}

impl Functions {
    /// Adds a definition, in which those before it may stand.
    ///
    /// # Errors
    /// If there is something of this name already, or the body names what is not known.
    pub fn define(&mut self, mut definition: Definition) -> Result<(), (Name, Diagnostic)> {
        let name = definition.name;
        if self.names().any(|known| known == name.as_str()) {
            let text = format!("there is a guard or function '{name}' already");
            return Err((name, text.into()));
        }
        let body = definition.body.iter();
        body.clone()
            .try_for_each(|call| check_call("function", call, self))?;
        definition.body = body.flat_map(|call| expanded(call, self)).collect();
        self.definitions.insert(name, definition);
        Ok(())
    }
}
