//! Which tensors share a buffer: sets that may overlap, and sets that are one buffer.

use std::collections::HashMap;

use crate::buffers::AllocationSite;
use tir::Value;

/// Where the buffer of a set comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// It is allocated for this.
    Allocated(AllocationSite),
    /// An argument of the function.
    Argument,
    /// A constant.
    Constant,
    /// A part of another buffer.
    View,
}

/// Tensors by the buffer they lie in (MLIR's `OneShotAnalysisState`: alias and equivalence sets).
#[derive(Default)]
pub struct Aliases {
    ids: HashMap<Value, usize>,
    /// Union-find: tensors that are the same buffer, element for element.
    same: Vec<usize>,
    /// Union-find: tensors whose buffers overlap.
    near: Vec<usize>,
    /// Where the buffer comes from, for the representative in `same`.
    roots: Vec<Root>,
    /// The tensors of a set, for the representative in `near`.
    members: Vec<Vec<Value>>,
    /// Whether the buffer may be written, for the representative in `near`.
    fixed: Vec<bool>,
}

fn find(parents: &[usize], mut id: usize) -> usize {
    while parents[id] != id {
        id = parents[id];
    }
    id
}

impl Aliases {
    /// A tensor with a buffer of its own.
    pub fn add(&mut self, value: Value, root: Root) {
        let id = self.same.len();
        self.ids.insert(value, id);
        self.same.push(id);
        self.near.push(id);
        self.roots.push(root);
        self.members.push(vec![value]);
        self.fixed
            .push(matches!(root, Root::Argument | Root::Constant));
    }
    /// A tensor that lies in the buffer of `base`: all of it, or a part.
    pub fn join(&mut self, value: Value, base: Value, whole: bool) {
        if !self.ids.contains_key(&value) {
            self.add(value, Root::View);
        }
        let (Some(&new), Some(&old)) = (self.ids.get(&value), self.ids.get(&base)) else {
            return;
        };
        if whole {
            let (a, b) = (find(&self.same, new), find(&self.same, old));
            self.same[a] = b;
        }
        let (a, b) = (find(&self.near, new), find(&self.near, old));
        if a != b {
            // The smaller set joins the larger one.
            let (a, b) = if self.members[a].len() > self.members[b].len() {
                (b, a)
            } else {
                (a, b)
            };
            self.near[a] = b;
            let moved = std::mem::take(&mut self.members[a]);
            self.members[b].extend(moved);
            self.fixed[b] |= self.fixed[a];
        }
    }
    /// Whether it is known.
    pub fn knows(&self, value: Value) -> bool {
        self.ids.contains_key(&value)
    }
    /// Whether two tensors are one buffer.
    pub fn same(&self, a: Value, b: Value) -> bool {
        match (self.ids.get(&a), self.ids.get(&b)) {
            (Some(&a), Some(&b)) => find(&self.same, a) == find(&self.same, b),
            _ => false,
        }
    }
    /// Whether the buffers of two tensors may overlap.
    pub fn near(&self, a: Value, b: Value) -> bool {
        match (self.ids.get(&a), self.ids.get(&b)) {
            (Some(&a), Some(&b)) => find(&self.near, a) == find(&self.near, b),
            _ => false,
        }
    }
    /// All tensors whose buffers may overlap with that of this one.
    pub fn members(&self, value: Value) -> &[Value] {
        match self.ids.get(&value) {
            Some(&id) => &self.members[find(&self.near, id)],
            None => &[],
        }
    }
    /// Whether the buffer may not be written.
    pub fn is_fixed(&self, value: Value) -> bool {
        self.ids
            .get(&value)
            .is_none_or(|&id| self.fixed[find(&self.near, id)])
    }
    /// Where the buffer comes from.
    pub fn root(&self, value: Value) -> Option<Root> {
        let id = self.ids.get(&value)?;
        Some(self.roots[find(&self.same, *id)])
    }
}
