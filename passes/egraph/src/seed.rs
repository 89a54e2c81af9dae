//! Choices that extraction starts from: the greedy canonical form, as it is and in each layout.
//!
//! They are what a compiler without an e-graph makes: rules applied greedily, then every op that
//! can be brought into one layout, then greedy fusion, whose legality is what the cost of an
//! e-node assumes. Since they are among the choices, none is made that is dearer.

use egg::Id;
use rustc_hash::FxHashMap;
use tir::{Name, Op, Traits};
use tir_graph::Relayout;
use tir_graph::layout::Layout;

use crate::extract::canonical;
use crate::graph::{Graph, GraphExt};
use crate::node::{Head, Node};

/// The e-node of each class.
pub type Seed = FxHashMap<Id, Node>;

/// The seeds of a program whose ops are in these classes, operands first: without a change of
/// layout, then in each layout.
pub fn seeds(graph: &Graph, ops: &[Id], layouts: &[Layout]) -> Vec<Seed> {
    let ways = std::iter::once(None).chain(layouts.iter().map(Some));
    ways.map(|layout| seed(graph, ops, layout)).collect()
}

fn seed(graph: &Graph, ops: &[Id], layout: Option<&Layout>) -> Seed {
    let mut seed = Seed::default();
    for id in ops {
        let class = graph.find(*id);
        if seed.contains_key(&class) {
            continue;
        }
        let node = canonical(graph, *id);
        for child in &node.children {
            given(graph, *child, &mut seed);
        }
        let stored = layout.and_then(|layout| stored(graph, class, &node, layout));
        match stored {
            Some((there, inner, back)) if !seed.contains_key(&there) => {
                for child in &inner.children {
                    given(graph, *child, &mut seed);
                }
                seed.insert(there, inner);
                seed.insert(class, back);
            }
            _ => {
                seed.insert(class, node);
            }
        }
        for (index, _) in graph.types(class).iter().enumerate() {
            let result = Node::new(Head::Result(index as u32), [class]);
            if let Some(id) = graph.lookup(result.clone()) {
                seed.entry(graph.find(id)).or_insert(result);
            }
        }
    }
    seed
}

/// An op of a class in a layout: the class where it is stored so, its e-node there, and the one
/// that brings it back.
fn stored(graph: &Graph, class: Id, node: &Node, layout: &Layout) -> Option<(Id, Node, Node)> {
    let (name, attrs) = (graph.name_of(node)?, graph.attrs_of(node));
    (graph.types(class).len() == 1 && name != Relayout::name()).then_some(())?;
    graph[class].nodes.iter().find_map(|back| {
        let there = source(graph, back)?;
        (Layout::of(graph.ty(there)) == Some(layout)).then_some(())?;
        let mut inside = graph[there].nodes.iter();
        let is_it = |n: &&Node| graph.name_of(n) == Some(name) && graph.attrs_of(n) == attrs;
        let inner = inside.find(|n| is_it(n) && on(graph, n, node))?;
        Some((there, inner.clone(), back.clone()))
    })
}

/// What a change of layout changes.
fn source(graph: &Graph, node: &Node) -> Option<Id> {
    let change = graph.name_of(node) == Some(Relayout::name());
    change.then(|| graph.find(node.children[0]))
}

/// Whether an op is on the operands of another one, however they are stored.
fn on(graph: &Graph, inner: &Node, node: &Node) -> bool {
    let from = |a: Id, b: Id| {
        let mut sources = graph[a].nodes.iter().filter_map(|n| source(graph, n));
        sources.any(|source| source == b)
    };
    let same = |a: Id, b: Id| {
        let constants = graph[a].data.constant.is_some() && graph[b].data.constant.is_some();
        a == b || constants || from(a, b) || from(b, a)
    };
    inner.children.len() == node.children.len()
        && inner.children.iter().zip(&node.children).all(|(a, b)| {
            let (a, b) = (graph.find(*a), graph.find(*b));
            same(a, b)
        })
}

/// Chooses for a class that is no op's: a leaf, a constant, or a change of layout of what is
/// chosen by now.
fn given(graph: &Graph, class: Id, seed: &mut Seed) {
    let class = graph.find(class);
    if seed.contains_key(&class) {
        return;
    }
    let constant = |node: &&Node| {
        let info = graph.name_of(node).and_then(Name::info);
        info.is_some_and(|info| info.has(Traits::ConstantLike))
    };
    let chosen = |node: &&Node| source(graph, node).is_some_and(|id| seed.contains_key(&id));
    let leaf = |node: &&Node| matches!(node.head, Head::Leaf(_));
    let nodes = &graph[class].nodes;
    let mut found = nodes.iter().find(leaf);
    found = found.or_else(|| nodes.iter().find(constant));
    found = found.or_else(|| nodes.iter().find(chosen));
    if let Some(node) = found {
        seed.insert(class, node.clone());
    }
}
