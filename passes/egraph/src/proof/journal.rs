//! What was learned, in order.

use std::collections::BTreeSet;

use egg::Id;
use tir::Class;

use crate::graph::Graph;
use crate::matching::{Compiled, constant_node};
use crate::node::Head;

/// A term as it was built or found.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Tree {
    /// What a class was called by.
    Class(Id),
    /// An e-node with terms for its children.
    Node(Head, Vec<Tree>),
}

impl Tree {
    /// A class: the constant that it is known to be, else what it is called by.
    pub fn of(graph: &Graph, class: Id) -> Tree {
        match constant_node(graph, class) {
            Some(node) => Tree::Node(node.head, Vec::new()),
            None => Tree::Class(class),
        }
    }
}

/// Why terms are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A rule, by its place in the list.
    Rule(usize),
    /// An op folds.
    Fold,
    /// An op computes in another layout.
    Layout,
    /// The program is brought into its canonical form.
    Canonicalize,
}

impl Reason {
    /// As proofs and reports say it.
    pub fn text(self, rules: &[Compiled]) -> String {
        match self {
            Reason::Rule(at) => format!("rule {}", rules[at].rule.name),
            Reason::Fold => "fold".to_string(),
            Reason::Layout => "layout".to_string(),
            Reason::Canonicalize => "canonicalize".to_string(),
        }
    }
}

/// Terms on the left, each equal to the one on the right at its place.
#[derive(Clone, Debug)]
pub struct Equation {
    /// Why.
    pub reason: Reason,
    /// Terms on the left.
    pub left: Vec<Tree>,
    /// Terms on the right, as many.
    pub right: Vec<Tree>,
    /// Classes of ops that were made on the way, besides those of the terms.
    pub made: Vec<Id>,
}

/// What was learned, in order, if anybody wants to know.
#[derive(Default, Debug)]
pub struct Journal {
    /// Whether anybody wants to know.
    pub on: bool,
    /// The equations.
    pub equations: Vec<Equation>,
    /// The classes of the rules that made the canonical form, if that is equal by one of them.
    pub canonical: BTreeSet<Class>,
}

impl Journal {
    /// Writes down that one term is equal to another.
    pub fn note(&mut self, reason: Reason, left: Tree, right: Tree) {
        self.add(Equation {
            reason,
            left: vec![left],
            right: vec![right],
            made: Vec::new(),
        });
    }

    /// Writes down an equation.
    pub fn add(&mut self, equation: Equation) {
        if self.on {
            self.equations.push(equation);
        }
    }
}
