//! Rules as data: what the greedy driver and the e-graph both read.
//!
//! *Terms.* A **term** is an op applied to terms, or a **variable**, which stands for a value, a list
//! of values, an attribute or a type. The **left** side is matched, the **right** side built; a
//! **guard** is a condition on what variables stand for. **Roots** are the values that are replaced.
//! A **class** says what holds of floats (LLVM's fast-math flags).
//!
//! *Invariants.* Every variable of the right side and of guards stands on the left side. Both sides
//! have as many roots, and a root's type is that of the value it replaces. All names of functions and
//! ops are known when a rule is made, so that matching does not fail.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use tir_core::{
    Attr, Diagnostic, Dialect, Failure, Loc, Name, OpInfo, Role, Traits, Type, closest,
};

use crate::arith::{BUILTINS, Builtin};

/// What a rule may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It lowers a measure: the greedy driver and the e-graph use it. The measure of a term is
    /// compared part by part, the first difference counts: how many of its ops depend on something
    /// else than constants; how many elements the results of these ops have; how many ops it has.
    /// A term is read as a tree, and no variable but a constant may occur more often on the right
    /// than on the left: then it falls in whole programs too, for all such rules together, and the
    /// greedy driver ends.
    Reduce,
    /// Both sides are as good: only the e-graph uses it.
    Equal,
}

/// How the numbers of both sides of a rule agree. Rules on integers are exact whatever their class
/// is; a class says what holds of floats, in the words of LLVM's fast-math flags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Class {
    /// Both sides are equal bit by bit, on infinities, signed zeros and subnormals too; where one is
    /// NaN the other is, of any payload and sign.
    #[default]
    Exact,
    /// Equal where nothing that goes in, comes out or is computed on the left is NaN; a zero may
    /// have either sign.
    NoNans,
    /// Equal for real numbers: sums and products are grouped or distributed in another way, so that
    /// roundings differ, and large or small numbers may overflow or underflow on one side alone.
    /// Where the left side is NaN without an infinity on the way (the root of -1), the right is.
    Reassociating,
    /// Equal for real numbers, with other roundings on the way but the same grouping: a quotient is
    /// a product with the reciprocal, a product and a sum are one operation. NaN as above.
    Contracting,
}

impl Class {
    /// All classes, in order.
    pub const ALL: [Class; 4] = [
        Class::Exact,
        Class::NoNans,
        Class::Reassociating,
        Class::Contracting,
    ];
    /// The word for it in texts and flags.
    pub fn keyword(self) -> &'static str {
        match self {
            Class::Exact => "exact",
            Class::NoNans => "nnan_nsz",
            Class::Reassociating => "reassoc",
            Class::Contracting => "contract",
        }
    }
    /// The class behind a word.
    pub fn from_keyword(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.keyword() == word)
    }
}

/// The text of a rule as `rule!` makes it.
#[derive(Clone, Copy, Debug)]
pub struct RuleText {
    /// Its name.
    pub name: &'static str,
    /// What it may be used for.
    pub kind: Kind,
    /// How the numbers of both sides agree.
    pub class: Class,
    /// Its left side: one term or several.
    pub left: &'static str,
    /// Its right side: as many terms.
    pub right: &'static str,
    /// Its guards: any number of `(name args…)`.
    pub guard: &'static str,
    /// Where it is written: file, line, column.
    pub place: (&'static str, u32, u32),
}

/// Writes a rule: `rule!("drop-add-zero", "(arith.addi ?x 0)" => "?x")`, with guards
/// `rule!("…", "…" => "…", if "(is-small ?x)")`; `rule!(equal "…", …)` for one that only the
/// e-graph uses. A rule is [exact](Class::Exact) unless `nnan_nsz`, `reassoc` or `contract` stands
/// before its name (behind `equal`, if that is there).
///
/// Terms: `(dialect.op term… {attr = value})`, with `.1` behind for its second result, `.?k` for
/// any of them (`?k` is its number, counted from 0), and `:?T` or `:i32` behind for its type; `?x` any value; `?xs...` all further operands; `#c` a
/// constant; `0`, `1.0`, `-0.0`, `true` a constant of this value, or a splat of it. Attributes: `?a`,
/// `3`, `1.5`, `"text"`, `[0, 2, 1]`, a keyword of the attribute, `true`, `(function args…)` on
/// the right. A type on the right may be computed too: `(graph.reshape ?x):(type-of ?a ?y)`.
/// `(?f:elementwise+commutative ?x ?y)` is any op of these classes, which are traits, and classes
/// that dialects add; `(?f ?x)` elsewhere is the same op with the same attributes.
/// `?xs...` stands last on the left, anywhere on the right. An op that the right side says twice
/// (or two results of it) is made once.
///
/// A rule with several roots has as many terms on either side; the first on the left is replaced
/// by the first on the right, and so on.
#[macro_export]
macro_rules! rule {
    (@class) => { $crate::Class::Exact };
    (@class nnan_nsz) => { $crate::Class::NoNans };
    (@class reassoc) => { $crate::Class::Reassociating };
    (@class contract) => { $crate::Class::Contracting };
    (equal $($class:ident)? $name:literal, $left:literal => $right:literal $(, if $guard:literal)? $(,)?) => {
        $crate::rule!(@ Equal, [$($class)?], $name, $left, $right, concat!("" $(, $guard)?))
    };
    ($($class:ident)? $name:literal, $left:literal => $right:literal $(, if $guard:literal)? $(,)?) => {
        $crate::rule!(@ Reduce, [$($class)?], $name, $left, $right, concat!("" $(, $guard)?))
    };
    (@ $kind:ident, [$($class:ident)?], $name:literal, $left:literal, $right:literal, $guard:expr) => {
        $crate::RuleText {
            name: $name,
            kind: $crate::Kind::$kind,
            class: $crate::rule!(@class $($class)?),
            left: $left,
            right: $right,
            guard: $guard,
            place: (file!(), line!(), column!()),
        }
    };
}

/// A rule: each value on the left may be replaced by the one on the right at its place.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name: reads well after "apply".
    pub name: Name,
    /// What it may be used for.
    pub kind: Kind,
    /// How the numbers of both sides agree.
    pub class: Class,
    /// What its variables are called and what they stand for, by [`Var::0`].
    pub vars: Vec<(Name, VarKind)>,
    /// The roots to find.
    pub left: Vec<Term>,
    /// What each of them becomes; as many.
    pub right: Vec<Term>,
    /// All must hold.
    pub guards: Vec<Guard>,
    /// For each variable that stands for an op, the classes of ops that it must be in, all of them.
    pub ops: Vec<(Var, Vec<Name>)>,
    /// Where it is written.
    pub loc: Loc,
}

/// A variable: an index into [`Rule::vars`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Var(
    /// The index.
    pub usize,
);

/// What a variable stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VarKind {
    /// A value.
    Value,
    /// A value that is a constant.
    Constant,
    /// Any number of values.
    Values,
    /// An attribute.
    Attr,
    /// A type.
    Type,
    /// An op with those of its attributes that the rule does not name.
    Op,
}

/// In messages: what a variable of this kind stands for.
impl fmt::Display for VarKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VarKind::Value => "a value",
            VarKind::Constant => "a constant",
            VarKind::Values => "several values",
            VarKind::Attr => "an attribute",
            VarKind::Type => "a type",
            VarKind::Op => "an op",
        })
    }
}

/// A value in a rule.
#[derive(Clone, PartialEq, Debug)]
pub struct Term {
    /// What it is.
    pub kind: TermKind,
    /// Its type, where it is said.
    pub ty: Option<TypeTerm>,
}

/// What a term is.
#[derive(Clone, PartialEq, Debug)]
pub enum TermKind {
    /// `?x`, `#c` or `?xs...`.
    Var(Var),
    /// A constant of this value, or a splat of it.
    Literal(Literal),
    /// A result of an op.
    Op(OpTerm),
    /// A result of an op for each of several values: `(graph.relu ?xs)...`, an operand. The
    /// variables in it that stand for several values stand for one in each.
    Each(OpTerm),
}

/// A result of an op in a rule.
#[derive(Clone, PartialEq, Debug)]
pub struct OpTerm {
    /// The name of the op; of a variable, its name as it is written, `?f`.
    pub name: Name,
    /// The variable that stands for the op, if it is not said by name.
    pub var: Option<Var>,
    /// Its operands.
    pub operands: Vec<Term>,
    /// Its attributes. On the left further ones may be there; on the right there are no others.
    pub attrs: Vec<(Name, AttrTerm)>,
    /// Which result.
    pub result: Which,
}

/// Which result of an op a term is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// This one, counted from 0.
    At(usize),
    /// Any on the left, which binds its number; the one of this number on the right.
    Var(Var),
}

impl Which {
    /// Whether an op with so many results may have it.
    pub fn fits(self, results: usize) -> bool {
        match self {
            Which::At(at) => at < results,
            Which::Var(_) => results > 0,
        }
    }
    /// Whether it may be the result of this number.
    pub fn may_be(self, number: usize) -> bool {
        match self {
            Which::At(at) => at == number,
            Which::Var(_) => true,
        }
    }
}

/// An attribute in a rule.
#[derive(Clone, PartialEq, Debug)]
pub enum AttrTerm {
    /// Binds it, or is equal to what is bound.
    Var(Var),
    /// This value.
    Literal(Literal),
    /// Computed; only on the right.
    Call(Call),
}

/// A type in a rule.
#[derive(Clone, PartialEq, Debug)]
pub enum TypeTerm {
    /// Binds it, or is equal to what is bound.
    Var(Var),
    /// The type that prints like this.
    Text(Name),
    /// Computed by an attribute function that gives a type attribute; only on the right.
    Call(Call),
}

/// A value that is written down. Floats compare by bits: `0.0` is not `-0.0`.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Literal {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(Name),
    Ints(Vec<i64>),
    /// A keyword of an enumeration attribute.
    Word(Name),
}

/// A function by name and its arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The function.
    pub function: Name,
    /// Its arguments: variables, literals, calls.
    pub args: Vec<AttrTerm>,
}

/// A condition.
pub type Guard = Call;

/// What a function that a rule names is given.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// A value: its type, and the constant behind it if it is one.
    Value(Type, Option<Attr>),
    /// Several values.
    Values(Vec<(Type, Option<Attr>)>),
    /// An attribute.
    Attr(Attr),
    /// A type.
    Type(Type),
    /// An attribute that the op has not.
    Absent,
    /// An op.
    Op(Name),
}

impl Arg {
    /// The type of a value, or the type.
    pub fn ty(&self) -> Option<Type> {
        match self {
            Arg::Value(ty, _) | Arg::Type(ty) => Some(*ty),
            _ => None,
        }
    }
    /// The constant behind a value, or the attribute.
    pub fn attr(&self) -> Option<Attr> {
        match self {
            Arg::Value(_, constant) => *constant,
            Arg::Attr(attr) => Some(*attr),
            _ => None,
        }
    }
    /// The integer that it is.
    pub fn int(&self) -> Option<i64> {
        self.attr()?.as_int()
    }
    /// The integers that it is.
    pub fn ints(&self) -> Option<Vec<i64>> {
        tir_core::AttrValue::from_attr(self.attr()?)
    }
}

/// Says whether a rule applies; sees types, attributes and constants, never uses.
pub type GuardFn = fn(&[Arg]) -> bool;
/// Computes an attribute, or a type as a type attribute; `None`: the rule does not apply.
pub type AttrFn = fn(&[Arg]) -> Option<Attr>;

/// What a guard, function or class says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// Its arguments as they are written; empty for a class.
    pub args: &'static str,
    /// What it is, in a sentence.
    pub doc: &'static str,
}

/// A guard or a function that is defined by others: `rule.define` in a file.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its name.
    pub name: Name,
    /// The names of its parameters, which are the variables of the body.
    pub params: Vec<Name>,
    /// Calls; of several, all must hold.
    pub body: Vec<Call>,
}

impl Definition {
    /// Reads a definition: parameters from the left side of a text, its body from the guard.
    pub fn read(text: &RuleText) -> Result<Definition, crate::RuleError> {
        crate::rule_text::definition(text)
    }

    /// What it means with these arguments.
    fn with(&self, args: &[AttrTerm]) -> Vec<Call> {
        let given = |arg: &AttrTerm| match arg {
            AttrTerm::Var(var) => Some(args[var.0].clone()),
            _ => None,
        };
        self.body.iter().map(|call| call.map_args(&given)).collect()
    }
}

impl Call {
    /// The call with other terms in the place of arguments, wherever `other` gives one.
    fn map_args(&self, other: &dyn Fn(&AttrTerm) -> Option<AttrTerm>) -> Call {
        let one = |arg: &AttrTerm| match (other(arg), arg) {
            (Some(other), _) => other,
            (None, AttrTerm::Call(call)) => AttrTerm::Call(call.map_args(other)),
            (None, arg) => arg.clone(),
        };
        Call {
            function: self.function,
            args: self.args.iter().map(one).collect(),
        }
    }
}

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
    /// The names of all guards and functions.
    fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.guards.keys().chain(self.attrs.keys());
        let own = own.chain(self.definitions.keys()).map(|name| name.as_str());
        own.chain(BUILTINS.iter().map(|builtin| builtin.name))
    }
    /// The pure ops that are in all of these classes; none if there is no such class.
    pub fn in_classes(&self, classes: &[Name]) -> Vec<&'static OpInfo> {
        let mut ops = self.pure_ops().to_vec();
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

impl Rule {
    /// Reads the text of a rule.
    pub fn parse(text: &RuleText) -> Result<Rule, Failure> {
        crate::rule_text::parse(text)
    }

    /// The same, saying where in the texts an error is.
    pub fn read(text: &RuleText) -> Result<Rule, crate::RuleError> {
        crate::rule_text::read(text)
    }

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

    /// The texts of its left side, right side and guards, as [`RuleText`] has them.
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

    /// By variable that stands for an op, the loaded ops that it may be: they are in its classes and
    /// [pure](Traits::Pure), and take the operands, attributes and results that the rule says.
    pub fn ops_of(&self, functions: &Functions) -> Vec<(Var, Vec<Name>)> {
        if self.ops.is_empty() {
            return Vec::new();
        }
        let mut terms = Vec::new();
        for term in self.left.iter().chain(&self.right) {
            op_terms(term, &mut terms);
        }
        let one = |(var, classes): &(Var, Vec<Name>)| {
            let is_it = |term: &&&OpTerm| term.var == Some(*var);
            let terms: Vec<&OpTerm> = terms.iter().filter(is_it).copied().collect();
            let all = functions.in_classes(classes).into_iter();
            let fit = all.filter(|info| terms.iter().all(|term| self.takes(info, term)));
            (*var, fit.map(|info| info.name).collect())
        };
        self.ops.iter().map(one).collect()
    }

    /// Whether an op has what a term says of it.
    fn takes(&self, info: &OpInfo, term: &OpTerm) -> bool {
        let count = |role: Role| info.fields.iter().filter(|f| f.role == role).count();
        let open = info.fields.iter().any(|f| f.role.is_variadic());
        // In a term that stands for several, variables stand for one value each.
        let mut all = self.left.iter().chain(&self.right);
        let each = all.any(|root| is_each(root, term));
        let tail = !each
            && term.operands.iter().any(|operand| match &operand.kind {
                TermKind::Var(var) => self.vars[var.0].1 == VarKind::Values,
                TermKind::Each(_) => true,
                _ => false,
            });
        let (found, fixed) = (term.operands.len(), count(Role::Operand));
        let operands = match (tail, open) {
            (false, false) => found == fixed,
            (false, true) => found >= fixed,
            (true, _) => true,
        };
        let attribute = |name: &Name| info.field(name).is_some_and(|f| f.role.is_attribute());
        operands
            && info.result_count().is_none_or(|n| term.result.fits(n))
            && count(Role::Region) + count(Role::Regions) == 0
            && term.attrs.iter().all(|(name, _)| attribute(name))
    }

    /// The attributes that the rule names of the op that a variable stands for.
    pub fn named_attrs(&self, var: Var) -> Vec<Name> {
        let mut terms = Vec::new();
        for term in self.left.iter().chain(&self.right) {
            op_terms(term, &mut terms);
        }
        let terms = terms.into_iter().filter(|term| term.var == Some(var));
        let mut names: Vec<Name> = terms
            .flat_map(|t| &t.attrs)
            .map(|(name, _)| *name)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The rule for each choice of ops that its variables may stand for, with all their attributes
    /// as variables; itself if it has none. No choice is left out: two variables have the product.
    pub fn instances(&self, functions: &Functions) -> Vec<Rule> {
        let mut made = vec![self.clone()];
        for (var, names) in self.ops_of(functions) {
            let named = self.named_attrs(var);
            let one = |rule: Rule| {
                let named = &named;
                names
                    .iter()
                    .filter_map(move |name| rule.with_op(var, *name, named))
            };
            made = made.into_iter().flat_map(one).collect();
        }
        made
    }

    /// The rule with this op for a variable.
    fn with_op(&self, var: Var, name: Name, named: &[Name]) -> Option<Rule> {
        let mut rule = self.clone();
        let fields = name.info()?.fields.iter();
        let mut rest = Vec::new();
        for field in fields.filter(|f| f.role.is_attribute() && !named.contains(&f.name)) {
            let text = format!("{}_{}", self.vars[var.0].0, field.name);
            rule.vars.push((Name::new(&text), VarKind::Attr));
            rest.push((field.name, AttrTerm::Var(Var(rule.vars.len() - 1))));
        }
        rule.ops.retain(|(other, _)| *other != var);
        for term in rule.left.iter_mut().chain(&mut rule.right) {
            replace_op(term, var, name, &rest);
        }
        Some(rule)
    }

    /// Whether it has terms that stand for any result of an op.
    pub fn has_results(&self) -> bool {
        let mut terms = Vec::new();
        for term in self.left.iter().chain(&self.right) {
            op_terms(term, &mut terms);
        }
        terms.iter().any(|t| matches!(t.result, Which::Var(_)))
    }

    /// The rule in which such terms stand for the result of this number: what it says of that.
    pub fn with_results(&self, number: usize) -> Rule {
        let mut rule = self.clone();
        let mut vars = Vec::new();
        let sides = rule.left.iter_mut().chain(&mut rule.right);
        sides.for_each(|term| fix_results(term, number, &mut vars));
        let fixed = |arg: &AttrTerm| match arg {
            AttrTerm::Var(var) if vars.contains(var) => {
                Some(AttrTerm::Literal(Literal::Int(number as i64)))
            }
            _ => None,
        };
        rule.guards = rule.guards.iter().map(|g| g.map_args(&fixed)).collect();
        let sides = rule.left.iter_mut().chain(&mut rule.right);
        sides.for_each(|term| fix_attrs(term, &fixed));
        rule
    }

    /// Whether it has terms that stand for several values each.
    pub fn has_lists(&self) -> bool {
        fn has(term: &Term) -> bool {
            match &term.kind {
                TermKind::Each(_) => true,
                TermKind::Op(op) => op.operands.iter().any(has),
                _ => false,
            }
        }
        self.left.iter().chain(&self.right).any(has)
    }

    /// The rule in which terms that stand for several values stand there so many times, with a
    /// variable for each value: what it says of so many.
    pub fn with_lists(&self, count: usize) -> Rule {
        let mut rule = self.clone();
        let mut ones: BTreeMap<Var, Vec<Var>> = BTreeMap::new();
        let mut terms = Vec::new();
        for term in self.left.iter().chain(&self.right) {
            op_terms(term, &mut terms);
        }
        let roots = || self.left.iter().chain(&self.right);
        for op in terms
            .into_iter()
            .filter(|op| roots().any(|root| is_each(root, op)))
        {
            for operand in &op.operands {
                if let TermKind::Var(var) = operand.kind
                    && self.vars[var.0].1 == VarKind::Values
                    && !ones.contains_key(&var)
                {
                    let name = |i: usize| Name::new(&format!("{}_{i}", self.vars[var.0].0));
                    let first = rule.vars.len();
                    rule.vars
                        .extend((0..count).map(|i| (name(i), VarKind::Value)));
                    ones.insert(var, (first..first + count).map(Var).collect());
                }
            }
        }
        for term in rule.left.iter_mut().chain(&mut rule.right) {
            spread(term, &ones, count);
        }
        let guards = self.guards.iter().flat_map(|guard| {
            let args = match (guard.function.as_str(), &guard.args[..]) {
                (EACH, [AttrTerm::Literal(Literal::Word(word)), args @ ..]) => (*word, args),
                _ => return vec![guard.clone()],
            };
            let one = |i: usize| Call {
                function: args.0,
                args: args.1.iter().map(|arg| nth_of(arg, &ones, i)).collect(),
            };
            (0..count).map(one).collect()
        });
        rule.guards = guards.collect();
        rule
    }

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

    /// The one root, if the rule has one and the left side of it is an op.
    pub fn root(&self) -> Option<&OpTerm> {
        match (&self.left[..], self.right.len()) {
            (
                [
                    Term {
                        kind: TermKind::Op(op),
                        ..
                    },
                ],
                1,
            ) => Some(op),
            _ => None,
        }
    }
}

/// Whether a term, or one below it, stands for several by this op.
fn is_each(term: &Term, op: &OpTerm) -> bool {
    match &term.kind {
        TermKind::Each(each) if std::ptr::eq(each, op) => true,
        TermKind::Op(outer) => outer.operands.iter().any(|operand| is_each(operand, op)),
        _ => false,
    }
}

fn op_terms<'a>(term: &'a Term, all: &mut Vec<&'a OpTerm>) {
    if let TermKind::Op(op) | TermKind::Each(op) = &term.kind {
        all.push(op);
        op.operands
            .iter()
            .for_each(|operand| op_terms(operand, all));
    }
}

fn replace_op(term: &mut Term, var: Var, name: Name, attrs: &[(Name, AttrTerm)]) {
    let (TermKind::Op(op) | TermKind::Each(op)) = &mut term.kind else {
        return;
    };
    if op.var == Some(var) {
        (op.name, op.var) = (name, None);
        op.attrs.extend_from_slice(attrs);
    }
    for operand in &mut op.operands {
        replace_op(operand, var, name, attrs);
    }
}

/// Makes terms that stand for any result stand for this one; adds the variables of their numbers.
fn fix_results(term: &mut Term, number: usize, vars: &mut Vec<Var>) {
    let (TermKind::Op(op) | TermKind::Each(op)) = &mut term.kind else {
        return;
    };
    if let Which::Var(var) = op.result {
        op.result = Which::At(number);
        vars.push(var);
    }
    let operands = op.operands.iter_mut();
    operands.for_each(|operand| fix_results(operand, number, vars));
}

/// Puts other terms in the place of attributes, in calls too, wherever `other` gives one.
fn fix_attrs(term: &mut Term, other: &dyn Fn(&AttrTerm) -> Option<AttrTerm>) {
    if let Some(TypeTerm::Call(call)) = &mut term.ty {
        *call = call.map_args(other);
    }
    if let TermKind::Op(op) | TermKind::Each(op) = &mut term.kind {
        for (_, attr) in &mut op.attrs {
            *attr = match (other(attr), &*attr) {
                (Some(other), _) => other,
                (None, AttrTerm::Call(call)) => AttrTerm::Call(call.map_args(other)),
                (None, attr) => attr.clone(),
            };
        }
        let operands = op.operands.iter_mut();
        operands.for_each(|operand| fix_attrs(operand, other));
    }
}

/// The guard that asks another one of each of several values: `(each same-type ?xs ?ys)`.
pub(crate) const EACH: &str = "each";

fn nth_of(arg: &AttrTerm, ones: &BTreeMap<Var, Vec<Var>>, i: usize) -> AttrTerm {
    match arg {
        AttrTerm::Var(var) => AttrTerm::Var(ones.get(var).map_or(*var, |ones| ones[i])),
        other => other.clone(),
    }
}

fn spread(term: &mut Term, ones: &BTreeMap<Var, Vec<Var>>, count: usize) {
    let TermKind::Op(op) = &mut term.kind else {
        return;
    };
    let one = |operand: &Term| -> Vec<Term> {
        let var = |var: Var| Term {
            kind: TermKind::Var(var),
            ty: operand.ty.clone(),
        };
        match &operand.kind {
            TermKind::Var(list) if ones.contains_key(list) => {
                ones[list].iter().map(|one| var(*one)).collect()
            }
            TermKind::Each(each) => {
                let copy = |i: usize| {
                    let mut each = each.clone();
                    for inner in &mut each.operands {
                        if let TermKind::Var(list) = &mut inner.kind
                            && let Some(ones) = ones.get(list)
                        {
                            *list = ones[i];
                        }
                    }
                    Term {
                        kind: TermKind::Op(each),
                        ty: operand.ty.clone(),
                    }
                };
                (0..count).map(copy).collect()
            }
            _ => {
                let mut operand = operand.clone();
                spread(&mut operand, ones, count);
                vec![operand]
            }
        }
    };
    op.operands = op.operands.iter().flat_map(one).collect();
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

/// An error and the word that it is about.
type Wrong = (Name, Diagnostic);

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

fn check_call(what: &str, call: &Call, functions: &Functions) -> Result<(), Wrong> {
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
    let arity = match (functions.definitions.get(&name), Builtin::named(name)) {
        _ if own => None,
        (Some(definition), _) => Some(definition.params.len()),
        (None, Some(builtin)) => builtin.arity(),
        (None, None) => return Err(unknown(what, &name, functions.names())),
    };
    let found = call.args.len();
    if let Some(arity) = arity.filter(|arity| *arity != found) {
        let s = if arity == 1 { "" } else { "s" };
        let text = format!("'{name}' takes {arity} argument{s}, found {found}");
        return Err((name, text.into()));
    }
    call.args.iter().try_for_each(|a| check_attr(a, functions))
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
