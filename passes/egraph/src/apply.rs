//! Adding the right side of a rule to an e-graph.

use egg::Id;
use tir::rewrite::term::{TermBuilder, Unbuilt, build};
use tir::rewrite::{TermKind, Which};
use tir::{Attr, Decline, Name, TensorType, Type};

use crate::graph::{Graph, GraphExt};
use crate::matching::{Binding, BoundNode, ClassValues, Compiled, Match};
use crate::node::{Head, Node};
use crate::one_op::{self, OpCache};
use crate::proof::journal::Tree;

/// Why nothing was added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Declined {
    /// A function of the rule gave nothing: the rule does not apply here.
    Uncomputed,
    /// The right side is not well typed.
    Untyped,
    /// The right side has another type than the left.
    Clash {
        /// Of the left side.
        left: Type,
        /// Of the right side.
        right: Type,
    },
}

/// Adds the right side of a rule; gives a class and a term for each root. Nothing is united yet.
pub fn add_right(
    graph: &mut Graph,
    op_cache: &mut OpCache,
    rule: &Compiled,
    found: &Match,
) -> Result<Vec<(Id, Tree)>, Declined> {
    let types: Vec<Type> = found.roots.iter().map(|root| graph.ty(*root)).collect();
    let mut nodes = Nodes { graph, op_cache };
    let made = build(rule, &found.bindings, &mut nodes, &types);
    let made = made.map_err(|why| match why {
        Unbuilt::Uncomputed => Declined::Uncomputed,
        Unbuilt::Untyped(_) => Declined::Untyped,
    })?;
    for (left, (id, _)) in types.into_iter().zip(&made) {
        let right = graph.ty(*id);
        // Rules say nothing of how tensors are stored: where both sides are stored differently they are not equal.
        if left != right && plain(left) == plain(right) {
            return Err(Declined::Untyped);
        }
        if left != right {
            return Err(Declined::Clash { left, right });
        }
    }
    Ok(made)
}

/// A type without what it says of storage.
fn plain(ty: Type) -> Type {
    let tensor = ty.get::<TensorType>().cloned();
    tensor.map_or(ty, |tensor| {
        Type::new(TensorType {
            encoding: None,
            ..tensor
        })
    })
}

/// Makes e-nodes, and terms that say how they were made.
struct Nodes<'a> {
    graph: &'a mut Graph,
    op_cache: &'a mut OpCache,
}

impl TermBuilder for Nodes<'_> {
    type Value = Id;
    type Values<'a>
        = ClassValues<'a>
    where
        Self: 'a;
    type Built = (Id, Tree);
    type Op = (Id, Tree);

    fn values(&self) -> ClassValues<'_> {
        ClassValues(self.graph)
    }
    fn value(&self, class: Id) -> (Id, Tree) {
        (class, Tree::of(self.graph, class))
    }
    fn ty(&self, (class, _): &(Id, Tree)) -> Type {
        self.graph.ty(*class)
    }
    fn text_type(&self, text: &str) -> Option<Type> {
        tir::parse_type(text).ok()
    }
    fn constant(&mut self, dialect: &str, attr: Attr, ty: Type) -> Option<(Id, Tree)> {
        let node = one_op::constant(self.graph, dialect, attr, ty)?;
        let tree = Tree::Node(node.head, Vec::new());
        Some((self.graph.add(node), tree))
    }
    fn op(
        &mut self,
        name: Name,
        attrs: Vec<(Name, Attr)>,
        ty: Option<Type>,
        operands: Vec<(Id, Tree)>,
    ) -> Result<(Id, Tree), Decline> {
        let (children, trees): (Vec<Id>, Vec<Tree>) = operands.into_iter().unzip();
        let types: Vec<Type> = ty.into_iter().collect();
        let head = self
            .op_cache
            .head(self.graph, name, &attrs, &types, &children);
        let head = head.ok_or("an op is not well typed")?;
        let id = self.graph.add(Node::new(head, children));
        Ok((id, Tree::Node(head, trees)))
    }
    fn result(&mut self, (id, tree): &(Id, Tree), index: usize) -> Option<(Id, Tree)> {
        match (self.graph.types(*id).len(), index) {
            (1, 0) => Some((*id, tree.clone())),
            (n, index) if index < n => {
                let head = Head::Result(index as u32);
                let value = self.graph.add(Node::new(head, [*id]));
                Some((value, Tree::Node(head, vec![tree.clone()])))
            }
            _ => None,
        }
    }
}

/// The number of the result that a term of the left side is.
fn result_of(found: &Match, which: Which) -> usize {
    match which {
        Which::At(at) => at,
        Which::Var(var) => match &found.bindings[var.0] {
            Some(Binding::Attr(Some(number))) => number.as_int().unwrap_or(0) as usize,
            // Matching binds it together with the op.
            other => panic!("internal error: the number of a result is bound to {other:?}"),
        },
    }
}

/// The term that a match found for a term of the left side, by its number.
pub fn left_tree(graph: &Graph, rule: &Compiled, found: &Match, at: usize) -> Tree {
    let numbered = &rule.terms[at];
    if let TermKind::Var(var) = &numbered.term.kind {
        return match &found.bindings[var.0] {
            Some(Binding::Value(id)) => Tree::of(graph, *id),
            // Where an operand stands in a left side, matching binds a variable to a class and to nothing else.
            other => panic!("internal error: an operand is bound to {other:?}"),
        };
    }
    // A match is of all of a left side: each term that is an op has a node.
    let Some(BoundNode { node, swapped }) = &found.nodes[at] else {
        panic!(
            "internal error: term {at} of '{}' matched nothing",
            rule.rule.name
        );
    };
    let mut terms = numbered.operands.clone();
    if *swapped {
        terms.reverse();
    }
    let last = terms.last().copied();
    let several = last.and_then(|last| Some((terms.len() - 1, found.several.get(last)?)));
    let several = several.filter(|(_, nodes)| !nodes.is_empty());
    let children = node.children.iter().enumerate().map(|(i, child)| {
        if let Some((first, nodes)) = several
            && i >= first
        {
            let node = &nodes[i - first];
            let below = node.children.iter().map(|c| Tree::of(graph, *c));
            return Tree::Node(node.head, below.collect());
        }
        let term = terms.get(i).copied();
        let tail = |at: &usize| rule.is_tail(*at);
        match term.filter(|at| !tail(at)) {
            Some(at) => left_tree(graph, rule, found, at),
            None => Tree::of(graph, *child),
        }
    });
    // In the order of the rule: it matches so whichever order is tried first.
    let mut children: Vec<Tree> = children.collect();
    if *swapped {
        children.reverse();
    }
    let tree = Tree::Node(node.head, children);
    match (&numbered.term.kind, node.head) {
        (TermKind::Op(op), Head::Op { types, .. })
            if graph.analysis.tables.types.get(types).len() != 1 =>
        {
            let result = result_of(found, op.result);
            Tree::Node(Head::Result(result as u32), vec![tree])
        }
        _ => tree,
    }
}
