//! E-matching: where the left side of a rule stands in an e-graph, all of its roots together.
//!
//! The matcher is that of [`tir::rewrite::term`]; here is what an e-graph has to say to it: the
//! e-nodes of a class are the definitions of a value, and a root is looked for above a variable
//! that is bound already, or among all classes that hold its op. Only places are looked at of which
//! a root changed since the rule was last looked for, to the depth of the rule.

use egg::Id;
use rustc_hash::FxHashSet;
use tir::rewrite::term::{Driver, Search, TermGraph, TermValues};
use tir::rewrite::{OpTerm, TermKind, Which};
use tir::{Attr, Name, SmallVec, Type};

use crate::graph::GraphExt;
use crate::matching::{Binding, Bindings, BoundNode, Compiled, Match, constant_node};
use crate::node::{Head, Index, Node};
use crate::view::View;

/// The classes of the roots of a match, and what its variables stand for.
pub type MatchKey = (Vec<Id>, Bindings);

/// What is looked for.
pub struct Query<'a> {
    /// Where.
    pub view: &'a View<'a>,
    /// Only places of which a root changed at this time or later, to the depth of the rule.
    pub since: u32,
    /// Places that are known already, and are left out.
    pub known: &'a FxHashSet<MatchKey>,
    /// One more than this many places are enough.
    pub limit: usize,
    /// E-nodes that are tried for terms of the rule, at most.
    pub tries: u64,
}

/// What was found.
pub struct Found {
    /// The places.
    pub matches: Vec<Match>,
    /// Whether there may be more: as many e-nodes were tried as may be.
    pub cut_off: bool,
}

impl Compiled {
    /// The places where it applies, in the order of their classes.
    pub fn find(&self, query: &Query<'_>) -> Found {
        let tables = &query.view.graph.analysis.tables;
        let mut names = Vec::with_capacity(self.terms.len());
        for numbered in &self.terms {
            let name = match &numbered.term.kind {
                // A variable stands for one op: there is a rule for each.
                TermKind::Op(op) | TermKind::Each(op) => {
                    let name = self.op_names(op).first();
                    name.and_then(|name| tables.names.find(name))
                }
                _ => Some(Index::default()),
            };
            match name {
                Some(index) => names.push(index),
                // No op of this name is in the graph.
                None => {
                    return Found {
                        matches: Vec::new(),
                        cut_off: false,
                    };
                }
            }
        }
        let view = query.view;
        let driver = Roots {
            query,
            rule: self,
            fresh: false,
            found: Vec::new(),
            tried: 0,
        };
        let found = Search::run(&Classes { view, names }, self, driver);
        Found {
            cut_off: found.is_cut_off(),
            matches: found.found,
        }
    }
}

/// The classes of a graph as values of terms.
struct Classes<'a> {
    view: &'a View<'a>,
    /// By term, the index of its op.
    names: Vec<Index>,
}

impl TermValues for Classes<'_> {
    type Value = Id;
    fn ty(&self, class: Id) -> Type {
        self.view.ty(class)
    }
    fn constant(&self, class: Id) -> Option<Attr> {
        self.view.constant(class)
    }
}

impl<'a> TermGraph for Classes<'a> {
    type Node = &'a Node;

    fn definers(&self, class: Id, at: usize, term: &OpTerm) -> SmallVec<[(&'a Node, usize); 2]> {
        let view = self.view;
        let name = self.names[at];
        let mut found = SmallVec::new();
        let nodes = &view.class(class).nodes[..];
        // E-nodes of a class are sorted: leaves, results, then ops by name.
        let results = nodes
            .iter()
            .skip_while(|node| matches!(node.head, Head::Leaf(_)));
        for node in results {
            let Head::Result(index) = node.head else {
                break;
            };
            if term.result.may_be(index as usize) {
                let nodes = named(&view.class(node.children[0]).nodes, name);
                found.extend(nodes.map(|node| (node, index as usize)));
            }
        }
        if term.result.may_be(0) && view.is_value(class) {
            found.extend(named(nodes, name).map(|node| (node, 0)));
        }
        found
    }
    fn constant_node(&self, class: Id) -> Option<&'a Node> {
        constant_node(self.view.graph, class)
    }
    fn name(&self, node: &'a Node) -> Name {
        // Definers are ops.
        let name = self.view.graph.name_of(node);
        name.expect("a definer is an op")
    }
    fn attrs(&self, node: &'a Node) -> Vec<(Name, Attr)> {
        self.view.graph.attrs_of(node).to_vec()
    }
    fn attr(&self, node: &'a Node, name: Name) -> Option<Attr> {
        let found = self
            .view
            .graph
            .attrs_of(node)
            .iter()
            .find(|(key, _)| *key == name);
        found.map(|(_, attr)| *attr)
    }
    fn operands(&self, node: &'a Node) -> SmallVec<[Id; 4]> {
        node.children.clone()
    }
}

/// The ops of a name without regions among sorted e-nodes.
fn named(nodes: &[Node], name: Index) -> impl Iterator<Item = &Node> {
    let first = nodes.partition_point(|node| node.name() < Some(name));
    let is_it = move |node: &&Node| node.name() == Some(name);
    let nodes = nodes[first..].iter().take_while(is_it);
    nodes.filter(|node| matches!(node.head, Head::Op { region: None, .. }))
}

/// Tries the classes that roots may be, and keeps the places that are new.
struct Roots<'a> {
    query: &'a Query<'a>,
    rule: &'a Compiled,
    /// Whether any of the roots has changed.
    fresh: bool,
    found: Vec<Match>,
    /// E-nodes that were tried for terms.
    tried: u64,
}

impl Roots<'_> {
    fn is_cut_off(&self) -> bool {
        self.tried > self.query.tries
    }
}

/// A search in an e-graph.
type InGraph<'a, 'b> = Search<'b, Classes<'a>, Roots<'a>>;

impl<'a> Driver<Classes<'a>> for Roots<'a> {
    fn root(search: &mut InGraph<'a, '_>, at: usize) {
        let Roots {
            query, rule, fresh, ..
        } = search.driver;
        let number = search.roots.len();
        let is_last = number + 1 == rule.roots.len();
        for class in candidates(search, at) {
            let ordered = || search.roots.iter().all(|other| *other < class);
            if search.roots.contains(&class) || rule.mirrored && !ordered() {
                continue;
            }
            let changed = query.view.changed(class, rule.depths[number]) >= query.since;
            if is_last && !fresh && !changed {
                continue;
            }
            search.driver.fresh = fresh || changed;
            search.enter_root(at, class);
            if search.driver.is_done() {
                break;
            }
        }
        search.driver.fresh = fresh;
    }

    fn found(search: &mut InGraph<'a, '_>) {
        let place = (search.roots.to_vec(), search.bindings.clone());
        if search.driver.query.known.contains(&place) {
            return;
        }
        let node = |definer: &Option<(&Node, bool)>| {
            definer.map(|(node, swapped)| BoundNode {
                node: node.clone(),
                swapped,
            })
        };
        let nodes = search.definers.iter().map(node).collect();
        let several = search.several.iter();
        let several = several.map(|nodes| nodes.iter().map(|node| (*node).clone()).collect());
        let several = several.collect();
        search.driver.found.push(Match {
            roots: place.0,
            bindings: place.1,
            nodes,
            several,
        });
    }

    fn tries(&mut self) {
        self.tried += 1;
    }

    fn is_done(&self) -> bool {
        self.found.len() > self.query.limit || self.is_cut_off()
    }
}

/// The classes in which a root may stand, ascending: above a variable that is bound already,
/// else all that hold the op.
fn candidates(search: &InGraph<'_, '_>, root: usize) -> Vec<Id> {
    let mut path = Vec::new();
    let mut classes = match anchor(search, root, &mut path) {
        Some(class) => {
            let mut classes = vec![class];
            for term in path.iter().rev() {
                classes = above(search, &classes, *term);
                classes.sort_unstable();
                classes.dedup();
            }
            return classes;
        }
        None => {
            let (view, name) = (search.graph.view, search.graph.names[root]);
            let holding = view.holding(name);
            if search.rule.roots.len() == 1 && !view.in_tuples(name) {
                // Of one root only what changed counts.
                let (depth, since) = (search.rule.depth(root), search.driver.query.since);
                let new = |class: &&Id| view.changed(**class, depth) >= since;
                return holding.iter().filter(new).copied().collect();
            }
            holding.to_vec()
        }
    };
    let TermKind::Op(op) = &search.rule.terms[root].term.kind else {
        return Vec::new();
    };
    if op.result != Which::At(0) || search.graph.view.in_tuples(search.graph.names[root]) {
        let mut values = Vec::new();
        for class in classes {
            value_of(search.graph.view, class, op.result, &mut values);
        }
        values.sort_unstable();
        values.dedup();
        classes = values;
    }
    classes
}

/// A bound variable below a term, and the terms on the way down to it.
fn anchor(search: &InGraph<'_, '_>, at: usize, path: &mut Vec<usize>) -> Option<Id> {
    path.push(at);
    for operand in &search.rule.terms[at].operands {
        if let TermKind::Var(var) = search.rule.terms[*operand].term.kind {
            match &search.bindings[var.0] {
                Some(Binding::Value(class)) => return Some(*class),
                Some(Binding::Values(all)) if !all.is_empty() => return Some(all[0]),
                _ => {}
            }
        }
    }
    for operand in &search.rule.terms[at].operands {
        if let Some(class) = anchor(search, *operand, path) {
            return Some(class);
        }
    }
    path.pop();
    None
}

/// The classes of a term's op that use one of these.
fn above(search: &InGraph<'_, '_>, classes: &[Id], term: usize) -> Vec<Id> {
    let mut found = Vec::new();
    let TermKind::Op(op) = &search.rule.terms[term].term.kind else {
        return found;
    };
    let graph = search.graph.view.graph;
    for class in classes {
        for parent in search.graph.view.class(*class).parents() {
            if graph.nodes()[usize::from(parent)].name() == Some(search.graph.names[term]) {
                value_of(search.graph.view, graph.find(parent), op.result, &mut found);
            }
        }
    }
    found
}

/// The classes of results of an op in this class.
fn value_of(view: &View<'_>, class: Id, result: Which, found: &mut Vec<Id>) {
    if result.may_be(0) && view.is_value(class) {
        found.push(class);
        return;
    }
    let graph = view.graph;
    for parent in view.class(class).parents() {
        if let Head::Result(index) = graph.nodes()[usize::from(parent)].head
            && result.may_be(index as usize)
        {
            found.push(graph.find(parent));
        }
    }
}
