//! Rules made ready for an e-graph, and the places where they apply.

use std::ops::Deref;
use std::sync::Arc;

use egg::Id;
use tir::rewrite::{Functions, term};
use tir::{Attr, Name, Rule, Traits, Type};

use crate::graph::{Graph, GraphExt};
use crate::node::{Head, Node};
use crate::symmetry::likeness;

/// What a variable of a rule is bound to: classes, attributes, types.
pub type Binding = term::Binding<Id>;

/// Bindings by [`Var`](tir::rewrite::Var).
pub type Bindings = term::Bindings<Id>;

/// A place where a rule applies.
#[derive(Clone, Debug)]
pub struct Match {
    /// The class of each root.
    pub roots: Vec<Id>,
    /// What the variables stand for.
    pub bindings: Bindings,
    /// The e-nodes that the ops and literals of the left side stand for, by the order in which
    /// [`Compiled`] numbers terms.
    pub nodes: Vec<Option<BoundNode>>,
    /// The same of terms that stand for several values; empty if the rule has none.
    pub several: Vec<Vec<Node>>,
}

/// The e-node that a term of the left side stands for.
#[derive(Clone, Debug)]
pub struct BoundNode {
    /// The e-node.
    pub node: Node,
    /// Whether its two operands stand for those of the term in the other order.
    pub swapped: bool,
}

/// A rule made ready to look for, and what its several roots have to do with each other.
pub struct Compiled {
    inner: term::Compiled,
    /// By root, how many operands it looks down.
    pub(crate) depths: Vec<usize>,
    /// Whether its two roots are alike, so that one order of them is enough.
    pub(crate) mirrored: bool,
    /// Whether they are but for what its guards say.
    pub(crate) alike: bool,
}

impl Deref for Compiled {
    type Target = term::Compiled;
    fn deref(&self) -> &term::Compiled {
        &self.inner
    }
}

impl Compiled {
    /// Makes a rule ready: for each choice of ops that its variables stand for one, so that limits
    /// on matches do not depend on how many ops there are.
    pub fn new(rule: Arc<Rule>, functions: Arc<Functions>) -> Vec<Self> {
        let likeness = likeness(&rule);
        let all = term::Compiled::new(rule, functions)
            .for_each_op()
            .into_iter();
        let one = |inner: term::Compiled| Self {
            depths: inner.roots.iter().map(|root| inner.depth(*root)).collect(),
            inner,
            mirrored: likeness.mirrored,
            alike: likeness.alike,
        };
        all.map(one).collect()
    }

    /// How many operands down the left side looks.
    pub fn max_depth(&self) -> usize {
        self.depths.iter().copied().max().unwrap_or(0)
    }
}

/// What guards and functions see of the classes of a graph.
pub struct ClassValues<'a>(
    /// The graph.
    pub &'a Graph,
);

impl term::TermValues for ClassValues<'_> {
    type Value = Id;
    fn ty(&self, class: Id) -> Type {
        self.0.ty(class)
    }
    fn constant(&self, class: Id) -> Option<Attr> {
        self.0.constant(class)
    }
}

/// The e-node of the constant that a class is.
pub fn constant_node(graph: &Graph, class: Id) -> Option<&Node> {
    let index = graph[class].data.constant?;
    let is_it = |node: &&Node| {
        let info = graph.name_of(node).and_then(Name::info);
        matches!(node.head, Head::Op { attrs, .. } if attrs == index)
            && info.is_some_and(|info| info.has(Traits::ConstantLike))
    };
    graph[class].nodes.iter().find(is_it)
}
