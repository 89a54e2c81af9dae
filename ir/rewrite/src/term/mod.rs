//! Terms of rules in whatever has values that ops define: one matcher, and one builder.
//!
//! A left side is looked for in a [`TermGraph`]: in IR, where a value is defined by one op, or in an
//! e-graph, where the e-nodes of a class are equal definitions of it. [`Compiled`] numbers the terms
//! of a left side, each before its operands, and asks a guard as soon as its variables are bound.
//! [`Search`] goes through the terms in this order: a term has its value from the op above it, or is
//! a root, whose value a [`Driver`] says. A right side is made by [`build`] with a [`TermBuilder`].
//!
//! *Invariants.* While term `n` is tried, just the variables of the terms before it are bound, and
//! those terms have values: bindings are undone on the way back. Operands of a commutative op of two
//! are tried in both orders, as written first. So the first match does not depend on the graph's
//! inner order beyond the order in which it gives definitions.

mod build;
mod matcher;
mod numbered;

pub use build::{TermBuilder, Unbuilt, build};
pub use matcher::{Compiled, Definer, Driver, Search};
pub use numbered::Numbered;

use tir_core::{Attr, Name, SmallVec, Type};

use crate::rule::{Arg, AttrTerm, Call, Functions, OpTerm};

/// What a variable is bound to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Binding<V> {
    /// A value.
    Value(V),
    /// Several.
    Values(Vec<V>),
    /// An attribute, or that there is none.
    Attr(Option<Attr>),
    /// A type.
    Type(Type),
    /// An op, with those of its attributes that the rule does not name: sorted by name, without
    /// those at their default.
    Op(Name, Vec<(Name, Attr)>),
}

/// Bindings by [`Var`](crate::rule::Var).
pub type Bindings<V> = Vec<Option<Binding<V>>>;

/// What guards and functions see of values.
pub trait TermValues {
    /// A value.
    type Value: Copy + PartialEq;
    /// Its type.
    fn ty(&self, value: Self::Value) -> Type;
    /// The constant that it is.
    fn constant(&self, value: Self::Value) -> Option<Attr>;
}

/// Values and the ops that define them.
pub trait TermGraph: TermValues {
    /// An op that defines values.
    type Node: Copy;
    /// The ops of this term, number `at` of its rule, of which the value is a result that it may
    /// say, with the number of the result. For a variable, of any name.
    fn definers(
        &self,
        value: Self::Value,
        at: usize,
        term: &OpTerm,
    ) -> SmallVec<[(Self::Node, usize); 2]>;
    /// The op of the constant that a value is.
    fn constant_node(&self, value: Self::Value) -> Option<Self::Node>;
    /// The name of an op.
    fn name(&self, node: Self::Node) -> Name;
    /// All attributes of an op that are not at their default, sorted by name.
    fn attrs(&self, node: Self::Node) -> Vec<(Name, Attr)>;
    /// An attribute of an op, without its default.
    fn attr(&self, node: Self::Node, name: Name) -> Option<Attr>;
    /// The operands of an op.
    fn operands(&self, node: Self::Node) -> SmallVec<[Self::Value; 4]>;
}

/// What a function that a rule names is given for an argument.
pub fn argument<G: TermValues>(
    graph: &G,
    bindings: &Bindings<G::Value>,
    arg: &AttrTerm,
    functions: &Functions,
) -> Option<Arg> {
    let value = |v: &G::Value| (graph.ty(*v), graph.constant(*v));
    Some(match arg {
        AttrTerm::Var(var) => match bindings[var.0].as_ref()? {
            Binding::Value(v) => {
                let (ty, constant) = value(v);
                Arg::Value(ty, constant)
            }
            Binding::Values(all) => Arg::Values(all.iter().map(value).collect()),
            Binding::Attr(Some(attr)) => Arg::Attr(*attr),
            Binding::Attr(None) => Arg::Absent,
            Binding::Type(ty) => Arg::Type(*ty),
            Binding::Op(name, _) => Arg::Op(*name),
        },
        AttrTerm::Literal(literal) => Arg::Attr(literal.attr(None)?),
        AttrTerm::Call(call) => Arg::Attr(computed(graph, bindings, call, functions)?),
    })
}

/// The arguments of a call; `None` if one is not bound or cannot be computed.
fn arguments<G: TermValues>(
    graph: &G,
    bindings: &Bindings<G::Value>,
    call: &Call,
    functions: &Functions,
) -> Option<Vec<Arg>> {
    let args = call.args.iter();
    args.map(|arg| argument(graph, bindings, arg, functions))
        .collect()
}

/// What an attribute function gives.
pub fn computed<G: TermValues>(
    graph: &G,
    bindings: &Bindings<G::Value>,
    call: &Call,
    functions: &Functions,
) -> Option<Attr> {
    functions.compute(call.function, &arguments(graph, bindings, call, functions)?)
}
