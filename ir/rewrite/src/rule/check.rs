//! Whether all that a rule names is known.

use tir_core::{Diagnostic, Dialect, Failure, Name, Role, closest};

use super::functions::EACH;
use super::{About, AttrTerm, Call, Functions, Literal, Rule, Term, TermKind, TypeTerm, Which};
use crate::arith::Builtin;

impl Rule {
    /// Checks it against the ops and functions that are known. Ops of dialects that are not
    /// loaded are let through: the rule never applies.
    pub fn check(&self, functions: &Functions) -> Result<(), Failure> {
        self.check_words(functions).map_err(|(_, error)| error)
    }

    /// The same; an error comes with the word of the rule that it is about.
    pub fn check_words(&self, functions: &Functions) -> Result<(), (Name, Failure)> {
        let here = |(word, error): Wrong| {
            let name = self.name;
            let error = error.context(format!("rule '{name}': ")).or_at(self.loc);
            (word, Box::new(error))
        };
        for word in self.ops.iter().flat_map(|(_, classes)| classes) {
            let names = functions.class_names();
            if !names.iter().any(|name| name == word.as_str()) {
                let names = names.iter().map(String::as_str);
                return Err(here(unknown("class of ops", word, names)));
            }
        }
        for guard in &self.guards {
            let what = match Builtin::named(guard.function) {
                Some(builtin) if !functions.guards.contains_key(&guard.function) => {
                    builtin.is_condition()
                }
                _ => true,
            };
            if !what {
                let name = guard.function;
                let text = format!("'{name}' is no condition: compare what it gives");
                return Err(here((name, text.into())));
            }
            check_call("guard", guard, functions).map_err(here)?;
        }
        for term in self.left.iter().chain(&self.right) {
            check_term(term, functions).map_err(here)?;
        }
        Ok(())
    }
}

/// An error and the word that it is about.
pub(super) type Wrong = (Name, Diagnostic);

fn unknown<'a>(what: &str, name: &str, names: impl IntoIterator<Item = &'a str>) -> Wrong {
    let error = Diagnostic::error(format!("unknown {what} '{name}'"));
    let error = match closest(name, names) {
        Some(near) => error.note(format!("did you mean '{near}'?")),
        None => error,
    };
    (Name::new(name), error)
}

fn check_term(term: &Term, functions: &Functions) -> Result<(), Wrong> {
    if let Some(TypeTerm::Call(call)) = &term.ty {
        check_call("function", call, functions)?;
    }
    let (TermKind::Op(op) | TermKind::Each(op)) = &term.kind else {
        return Ok(());
    };
    match op.name.info() {
        None if op.var.is_some() => {}
        None => {
            if let Some(dialect) = Dialect::named(op.name.dialect()) {
                let names = dialect.ops.iter().map(|spec| spec.name);
                return Err(unknown("op", &op.name, names));
            }
        }
        Some(info) => {
            let fixed = info.fields.iter().filter(|f| f.role == Role::Operand);
            let fixed = fixed.count();
            let open = info.fields.iter().any(|f| f.role.is_variadic());
            let found = op.operands.len();
            if !info.fields.is_empty() && found != fixed && !open {
                let what = format!("'{}' has {fixed} operands, found {found}", op.name);
                return Err((op.name, what.into()));
            }
            if let Which::At(at) = op.result
                && info.result_count().is_some_and(|n| at >= n)
            {
                let what = format!("'{}' has no result {at}", op.name);
                return Err((op.name, what.into()));
            }
            for (name, attr) in &op.attrs {
                let words = info.field(name).and_then(|f| f.keywords);
                if let (Some(words), AttrTerm::Literal(Literal::Word(word))) = (words, attr)
                    && (words.parse)(word).is_none()
                {
                    let what = format!("keyword of attribute '{name}':");
                    return Err(unknown(&what, word, words.all.iter().copied()));
                }
                if info.field(name).is_none_or(|f| !f.role.is_attribute()) {
                    let known = info.fields.iter().filter(|f| f.role.is_attribute());
                    let what = format!("attribute of '{}':", op.name);
                    return Err(unknown(&what, name, known.map(|f| f.name.as_str())));
                }
            }
        }
    }
    for (_, attr) in &op.attrs {
        check_attr(attr, functions)?;
    }
    op.operands
        .iter()
        .try_for_each(|t| check_term(t, functions))
}

fn check_attr(attr: &AttrTerm, functions: &Functions) -> Result<(), Wrong> {
    match attr {
        AttrTerm::Call(call) => check_call("function", call, functions),
        _ => Ok(()),
    }
}

/// The most calls and other terms that a call may stand for, once what definitions mean is in the place of their names.
const LARGEST: usize = 10_000;

/// How many terms a call stands for; `given` are those of arguments in the body of a definition.
fn size(call: &Call, functions: &Functions, given: &[usize]) -> usize {
    let args = call.args.iter().map(|arg| match arg {
        AttrTerm::Call(call) => size(call, functions, given),
        AttrTerm::Var(var) => given.get(var.0).copied().unwrap_or(1),
        _ => 1,
    });
    let args: Vec<usize> = args.collect();
    match functions.definitions.get(&call.function) {
        // What a definition means has no definitions in it.
        Some(definition) => {
            let parts = definition
                .body
                .iter()
                .map(|part| size(part, functions, &args));
            parts.fold(0, usize::saturating_add)
        }
        None => args.into_iter().fold(1, usize::saturating_add),
    }
}

/// How many arguments a guard or function of a dialect takes, by what it says of itself, and whether more are allowed.
fn takes(about: &About) -> (usize, bool) {
    let args = about.args.split_whitespace();
    let (several, one): (Vec<&str>, Vec<&str>) = args.partition(|arg| arg.ends_with("..."));
    (one.len() + several.len(), !several.is_empty())
}

pub(super) fn check_call(what: &str, call: &Call, functions: &Functions) -> Result<(), Wrong> {
    let name = call.function;
    if name.as_str() == EACH {
        let Some((AttrTerm::Literal(Literal::Word(word)), rest)) = call.args.split_first() else {
            let text = "'each' takes the name of a guard and what it is asked of";
            return Err((name, text.into()));
        };
        let inner = Call {
            function: *word,
            args: rest.to_vec(),
        };
        return check_call(what, &inner, functions);
    }
    let own = functions.guards.contains_key(&name) || functions.attrs.contains_key(&name);
    let exactly = |n: usize| Some((n, false));
    let arity = match (functions.definitions.get(&name), Builtin::named(name)) {
        _ if own => functions.about.get(&name).map(takes),
        (Some(definition), _) => exactly(definition.params.len()),
        (None, Some(builtin)) => builtin.arity().and_then(exactly),
        (None, None) => return Err(unknown(what, &name, functions.names())),
    };
    let found = call.args.len();
    let wrong = |(arity, more): &(usize, bool)| found < *arity || found > *arity && !more;
    if let Some((arity, more)) = arity.filter(wrong) {
        let (or_more, s) = (
            if more { " or more" } else { "" },
            if arity == 1 { "" } else { "s" },
        );
        let text = format!("'{name}' takes {arity}{or_more} argument{s}, found {found}");
        return Err((name, text.into()));
    }
    if size(call, functions, &[]) > LARGEST {
        let text = format!("'{name}' means more than {LARGEST} calls, by the definitions in it");
        return Err((name, text.into()));
    }
    call.args.iter().try_for_each(|a| check_attr(a, functions))
}
