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

mod check;
mod functions;
mod instances;
mod print;

use std::fmt;

use tir_core::{Attr, Failure, Loc, Name, Type};

pub(crate) use functions::is_stop_class;
pub use functions::{Functions, OpClass};

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

impl Rule {
    /// Reads the text of a rule.
    pub fn parse(text: &RuleText) -> Result<Rule, Failure> {
        crate::rule_text::parse(text)
    }

    /// The same, saying where in the texts an error is.
    pub fn read(text: &RuleText) -> Result<Rule, crate::RuleError> {
        crate::rule_text::read(text)
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
