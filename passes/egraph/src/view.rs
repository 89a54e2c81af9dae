//! A clean e-graph made ready to look into: classes by number, classes by op, and when a class
//! last changed.

use egg::{EClass, Id};
use tir::{Attr, Type};

use crate::graph::{ClassData, Graph, GraphExt, value_of};
use crate::node::{Head, Index, Node};

/// What can be asked of a graph that is not changing, without a hash table in between.
pub struct View<'a> {
    /// The graph.
    pub graph: &'a Graph,
    classes: Vec<Option<&'a EClass<Node, ClassData>>>,
    /// Classes by the index of the ops in them, ascending.
    holding: Vec<Vec<Id>>,
    /// By the index of an op, whether some of those classes are no values.
    in_tuples: Vec<bool>,
    /// By depth and class: the last time that something changed in the class, or in one at most
    /// so many operands below it.
    stamps: Vec<Vec<u32>>,
}

impl<'a> View<'a> {
    /// Looks at a graph that has been rebuilt; changes are asked for to this depth.
    pub fn new(graph: &'a Graph, depth: usize) -> Self {
        let ids = graph.ids();
        let count = ids.last().map_or(0, |id| usize::from(*id) + 1);
        let mut classes = vec![None; count];
        let mut holding: Vec<Vec<Id>> = Vec::new();
        let mut in_tuples = Vec::new();
        let mut own = vec![0; count];
        for id in &ids {
            let class = &graph[*id];
            classes[usize::from(*id)] = Some(class);
            own[usize::from(*id)] = class.data.changed;
            for name in class.nodes.iter().filter_map(Node::name) {
                if holding.len() <= name as usize {
                    holding.resize_with(name as usize + 1, Vec::new);
                    in_tuples.resize(name as usize + 1, false);
                }
                in_tuples[name as usize] |= graph.types(*id).len() != 1;
                let list = &mut holding[name as usize];
                if list.last() != Some(id) {
                    list.push(*id);
                }
            }
        }
        let mut view = Self {
            graph,
            classes,
            holding,
            in_tuples,
            stamps: vec![own],
        };
        for _ in 0..depth {
            view.deepen(&ids);
        }
        view
    }

    /// Stamps one operand deeper. An op with several results and those results count as one, so
    /// ops come first.
    fn deepen(&mut self, ids: &[Id]) {
        let above = &self.stamps[self.stamps.len() - 1];
        let mut next = above.clone();
        let (values, tuples): (Vec<Id>, Vec<Id>) = ids.iter().partition(|id| self.is_value(**id));
        for id in tuples.iter().chain(&values) {
            let mut stamp = next[usize::from(*id)];
            for node in &self.class(*id).nodes {
                let below = match node.head {
                    Head::Result(_) => &next,
                    _ => above,
                };
                let below = node.children.iter().map(|child| below[usize::from(*child)]);
                stamp = below.fold(stamp, u32::max);
            }
            next[usize::from(*id)] = stamp;
        }
        self.stamps.push(next);
    }

    /// A class by its canonical number.
    pub fn class(&self, id: Id) -> &'a EClass<Node, ClassData> {
        // A view is of a graph that was rebuilt: matches and nodes in it name classes by canonical numbers.
        self.classes[usize::from(id)].expect("the number of a class in a view is canonical")
    }
    /// One more than the largest number of a class.
    pub fn count(&self) -> usize {
        self.classes.len()
    }
    /// The types of a class.
    pub fn types(&self, id: Id) -> &'a [Type] {
        let graph: &'a Graph = self.graph;
        graph.analysis.tables.types.get(self.class(id).data.types)
    }
    /// The type of a class that is a value.
    pub fn ty(&self, id: Id) -> Type {
        self.types(id)[0]
    }
    /// Whether a class is a value, not the results of an op together.
    pub fn is_value(&self, id: Id) -> bool {
        self.types(id).len() == 1
    }
    /// The constant that a class is.
    pub fn constant(&self, id: Id) -> Option<Attr> {
        let index = self.class(id).data.constant?;
        value_of(self.graph.analysis.tables.attrs.get(index))
    }
    /// The classes that hold ops of a name, ascending.
    pub fn holding(&self, name: Index) -> &[Id] {
        self.holding.get(name as usize).map_or(&[], |all| &all[..])
    }
    /// Whether a class that holds ops of a name is no value, but results of an op together.
    pub fn in_tuples(&self, name: Index) -> bool {
        self.in_tuples.get(name as usize) == Some(&true)
    }
    /// The last time that something changed in a class or at most so many operands below it.
    pub fn changed(&self, id: Id, depth: usize) -> u32 {
        self.stamps[depth.min(self.stamps.len() - 1)][usize::from(id)]
    }
}
