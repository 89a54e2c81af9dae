//! E-nodes: an op with its classes of operands, as numbers into tables.

use egg::{Id, Language};
use rustc_hash::FxHashMap;
use std::hash::Hash;
use tir::{Attr, Name, SmallVec, Type};

/// A number into one of the [`Tables`]. Numbers are handed out in order of insertion, so that
/// comparing them never compares addresses.
pub type Index = u32;

/// What an e-node is besides its children.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Head {
    /// A value that is not looked into: a block argument, a result of an op with effects, a value
    /// of another block.
    Leaf(Index),
    /// Result `.0` of an op that has not exactly one.
    Result(Index),
    /// An op.
    Op {
        /// Its name.
        name: Index,
        /// Its attributes.
        attrs: Index,
        /// Its result types.
        types: Index,
        /// Its regions, if it has any; the values they use from outside are the last children.
        region: Option<Index>,
    },
}

/// An e-node.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Node {
    /// What it is.
    pub head: Head,
    /// Classes of its operands.
    pub children: SmallVec<[Id; 4]>,
}

impl Node {
    /// A node.
    pub fn new(head: Head, children: impl IntoIterator<Item = Id>) -> Self {
        let children = children.into_iter().collect();
        Self { head, children }
    }
    /// The name of the op, if it is one.
    pub fn name(&self) -> Option<Index> {
        match self.head {
            Head::Op { name, .. } => Some(name),
            _ => None,
        }
    }
}

/// Kinds of e-nodes that are looked up together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sort {
    /// Leaves.
    Leaf,
    /// Results.
    Result,
    /// Ops of a name.
    Op(Index),
}

impl Language for Node {
    type Discriminant = Sort;
    fn discriminant(&self) -> Sort {
        match self.head {
            Head::Leaf(_) => Sort::Leaf,
            Head::Result(_) => Sort::Result,
            Head::Op { name, .. } => Sort::Op(name),
        }
    }
    fn matches(&self, other: &Self) -> bool {
        self.head == other.head && self.children.len() == other.children.len()
    }
    fn children(&self) -> &[Id] {
        &self.children
    }
    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}

/// Things by number, each once.
pub struct Table<T> {
    all: Vec<T>,
    index: FxHashMap<T, Index>,
}
impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            index: FxHashMap::default(),
        }
    }
}
impl<T: Clone + Eq + Hash> Table<T> {
    /// The number of a thing, a new one if it has none yet.
    pub fn add(&mut self, thing: T) -> Index {
        if let Some(index) = self.index.get(&thing) {
            return *index;
        }
        let index = self.all.len() as Index;
        self.all.push(thing.clone());
        self.index.insert(thing, index);
        index
    }
    /// The number of a thing, if it has one.
    pub fn find(&self, thing: &T) -> Option<Index> {
        self.index.get(thing).copied()
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// The thing of a number.
    pub fn get(&self, index: Index) -> &T {
        &self.all[index as usize]
    }
}

/// What the numbers in e-nodes stand for.
#[derive(Default)]
pub struct Tables {
    /// Names of ops.
    pub names: Table<Name>,
    /// Lists of attributes, sorted by name, without those that are at their default.
    pub attrs: Table<Vec<(Name, Attr)>>,
    /// Lists of types.
    pub types: Table<Vec<Type>>,
    /// The types of leaves.
    pub leaves: Vec<Type>,
}

impl Tables {
    /// The head of an op without regions. Attributes at their default are left out.
    pub fn op(
        &mut self,
        name: Name,
        attrs: impl IntoIterator<Item = (Name, Attr)>,
        types: Vec<Type>,
    ) -> Head {
        let info = name.info();
        let default = |key: Name| info?.field(&key)?.default;
        let kept = attrs.into_iter();
        let mut kept: Vec<(Name, Attr)> = kept.filter(|(k, v)| default(*k) != Some(*v)).collect();
        kept.sort_by_key(|(key, _)| *key);
        Head::Op {
            name: self.names.add(name),
            attrs: self.attrs.add(kept),
            types: self.types.add(types),
            region: None,
        }
    }
}
