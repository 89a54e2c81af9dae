//! Terms, each once: what e-nodes stood for when they were added.

use egg::Id;

use crate::graph::Graph;
use crate::node::{Head, Node, Table};
use crate::proof::journal::Tree;

/// A term: its number in [`Terms`].
pub type Term = usize;

/// Terms by number; the children of a term have smaller numbers.
#[derive(Default)]
pub struct Terms {
    table: Table<Node>,
    /// The term of an e-node by the number under which it was added.
    of_id: Vec<Term>,
}

impl Terms {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The term of a head and terms for its children.
    pub fn add(&mut self, head: Head, children: impl IntoIterator<Item = Term>) -> Term {
        let children = children.into_iter().map(Id::from);
        self.table.add(Node::new(head, children)) as Term
    }
    /// What a term is besides its children.
    pub fn head(&self, term: Term) -> Head {
        self.table.get(term as u32).head
    }
    /// The children of a term.
    pub fn children(&self, term: Term) -> impl ExactSizeIterator<Item = Term> + '_ {
        let children = self.table.get(term as u32).children.iter();
        children.map(|id| usize::from(*id))
    }
    /// The term that an e-node was when it was added under this number: of its children, what
    /// their classes were called by then.
    pub fn of_id(&mut self, graph: &Graph, id: Id) -> Term {
        let id = usize::from(id);
        // A class is called by the number of an e-node in it, which is there before its users.
        while self.of_id.len() <= id {
            let node = &graph.nodes()[self.of_id.len()];
            let children = node.children.iter().map(|c| self.of_id[usize::from(*c)]);
            let children: Vec<Term> = children.collect();
            let term = self.add(node.head, children);
            self.of_id.push(term);
        }
        self.of_id[id]
    }
    /// The term of a tree.
    pub fn of_tree(&mut self, graph: &Graph, tree: &Tree) -> Term {
        match tree {
            Tree::Class(id) => self.of_id(graph, *id),
            Tree::Node(head, children) => {
                let children = children.iter().map(|child| self.of_tree(graph, child));
                let children: Vec<Term> = children.collect();
                self.add(*head, children)
            }
        }
    }
}
