//! The e-graph of a block, and what is known of its classes.

use std::cmp::Ordering;

use egg::{DidMerge, EGraph, Id};
use tir::interp::EvaluateOp;
use tir::{Attr, Name, OpInfo, Traits, Type};

use crate::node::{Head, Index, Node, Tables};

/// What is known of a class. Types are part of the e-nodes, so all nodes of a class have equal
/// ones: a union of unequal types is refused before it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassData {
    /// The types: one for a value, those of all results for a tuple.
    pub types: Index,
    /// The attributes of the constant that it is.
    pub constant: Option<Index>,
    /// Whether it is computed from constants alone, so that it need not be computed at run time.
    pub known: bool,
    /// When this or a class that joined it was made, joined or came to be known more of, by
    /// [`Analysis::clock`].
    pub changed: u32,
    /// The first op of the block that it was made for: whose value it is, or which rules began from.
    pub origin: Option<u32>,
}

/// The analysis of the e-graph: tables, and facts bottom-up.
#[derive(Default)]
pub struct Analysis {
    /// What the numbers in e-nodes stand for.
    pub tables: Tables,
    /// The time, which whoever looks for changes moves on.
    pub clock: u32,
    /// What classes that are made now are made for, by its number among the ops of the block.
    pub origin: Option<u32>,
}

/// The e-graph.
pub type Graph = EGraph<Node, Analysis>;

impl egg::Analysis<Node> for Analysis {
    type Data = ClassData;

    fn make(graph: &mut Graph, node: &Node, _: Id) -> ClassData {
        let Analysis {
            clock: changed,
            origin,
            ..
        } = graph.analysis;
        match node.head {
            Head::Leaf(index) => {
                let ty = graph.analysis.tables.leaves[index as usize];
                ClassData {
                    types: graph.analysis.tables.types.add(vec![ty]),
                    constant: None,
                    known: false,
                    changed,
                    origin,
                }
            }
            Head::Result(index) => {
                let tuple = graph[node.children[0]].data;
                let tables = &mut graph.analysis.tables;
                let ty = tables.types.get(tuple.types)[index as usize];
                ClassData {
                    types: tables.types.add(vec![ty]),
                    constant: None,
                    known: tuple.known,
                    changed,
                    origin,
                }
            }
            Head::Op {
                name,
                attrs,
                types,
                region,
            } => {
                let name = *graph.analysis.tables.names.get(name);
                let info = name.info();
                let constant = info.is_some_and(|i| i.has(Traits::ConstantLike));
                let folds =
                    |info: &OpInfo| info.can_fold() || info.interface::<dyn EvaluateOp>().is_some();
                let computed = region.is_none()
                    && !node.children.is_empty()
                    && info.is_some_and(folds)
                    && node.children.iter().all(|id| graph[*id].data.known);
                ClassData {
                    types,
                    constant: constant.then_some(attrs),
                    known: constant || computed,
                    changed,
                    origin,
                }
            }
        }
    }

    fn merge(&mut self, a: &mut ClassData, b: ClassData) -> DidMerge {
        let before = *a;
        // Two roundings of one value may meet; the one that was there first stays.
        a.constant = match (a.constant, b.constant) {
            (Some(x), Some(y)) => Some(x.min(y)),
            (x, y) => x.or(y),
        };
        a.known |= b.known;
        // It is also asked when nothing joins but what is known of operands changed: so too much
        // may be said to have changed, never too little.
        a.changed = self.clock;
        a.origin = match (a.origin, b.origin) {
            (Some(x), Some(y)) => Some(x.min(y)),
            (x, y) => x.or(y),
        };
        let told = |facts: &ClassData| (facts.constant, facts.known);
        DidMerge(told(a) != told(&before), told(a) != told(&b))
    }
}

/// Questions to a graph.
pub trait GraphExt {
    /// The type of a class that is a value.
    fn ty(&self, id: Id) -> Type;
    /// The types of a class.
    fn types(&self, id: Id) -> &[Type];
    /// The constant that a class is.
    fn constant(&self, id: Id) -> Option<Attr>;
    /// The name of the op of a node.
    fn name_of(&self, node: &Node) -> Option<Name>;
    /// The attributes of the op of a node.
    fn attrs_of(&self, node: &Node) -> &[(Name, Attr)];
    /// The classes in order of their numbers.
    fn ids(&self) -> Vec<Id>;
}

impl GraphExt for Graph {
    fn ty(&self, id: Id) -> Type {
        self.types(id)[0]
    }
    fn types(&self, id: Id) -> &[Type] {
        self.analysis.tables.types.get(self[id].data.types)
    }
    fn constant(&self, id: Id) -> Option<Attr> {
        let attrs = self.analysis.tables.attrs.get(self[id].data.constant?);
        value_of(attrs)
    }
    fn name_of(&self, node: &Node) -> Option<Name> {
        Some(*self.analysis.tables.names.get(node.name()?))
    }
    fn attrs_of(&self, node: &Node) -> &[(Name, Attr)] {
        match node.head {
            Head::Op { attrs, .. } => self.analysis.tables.attrs.get(attrs),
            _ => &[],
        }
    }
    fn ids(&self) -> Vec<Id> {
        let mut ids: Vec<Id> = self.classes().map(|class| class.id).collect();
        ids.sort_unstable_by(by_number);
        ids
    }
}

/// The attribute `value` of a constant.
pub fn value_of(attrs: &[(Name, Attr)]) -> Option<Attr> {
    let found = attrs.iter().find(|(name, _)| *name == "value")?;
    Some(found.1)
}

fn by_number(a: &Id, b: &Id) -> Ordering {
    usize::from(*a).cmp(&usize::from(*b))
}
