//! Going through an arena and those below it; the order of ops.

use crate::id::{BlockId, OpId, OpKey};
use crate::ir::{Ir, OpRef};

impl Ir {
    /// The isolated op in a slot.
    #[inline]
    pub fn child(&self, slot: OpId) -> Option<&Ir> {
        self.data(slot).child.as_deref()
    }

    /// The isolated op in a slot, to change.
    #[inline]
    pub fn child_mut(&mut self, slot: OpId) -> Option<&mut Ir> {
        self.data_mut(slot).child.as_deref_mut()
    }

    /// The slots of this arena in program order.
    #[inline]
    pub fn slots(&self) -> Vec<OpId> {
        let mut slots = self.walk_ids();
        slots.retain(|op| self.data(*op).child.is_some());
        slots
    }

    /// The isolated ops directly below, all at once, in program order: what passes run on in
    /// parallel.
    pub fn children_mut(&mut self) -> Vec<(OpId, &mut Ir)> {
        let order: Vec<OpId> = self.slots();
        let tag = self.tag;
        let mut found: std::collections::HashMap<OpKey, &mut Ir, rustc_hash::FxBuildHasher> = self
            .ops
            .iter_mut()
            .filter_map(|(key, data)| Some((key, data.child.as_deref_mut()?)))
            .collect();
        order
            .into_iter()
            .filter_map(|id| Some((id, found.remove(&id.key(tag))?)))
            .collect()
    }

    /// Two isolated ops: one to read, one to change. `None` if they are one, or not slots.
    #[inline]
    pub fn pair(&mut self, read: OpId, write: OpId) -> Option<(&Ir, &mut Ir)> {
        let keys = [read.key(self.tag), write.key(self.tag)];
        let [read, write] = self.ops.get_disjoint_mut(keys)?;
        Some((read.child.as_deref()?, write.child.as_deref_mut()?))
    }

    /// The ops of this arena below the root, in program order, holders first. Isolated ops show
    /// as their slots.
    #[inline]
    pub fn walk_ids(&self) -> Vec<OpId> {
        let mut out = Vec::with_capacity(self.ops.len());
        self.collect(self.root, &mut out);
        out
    }

    /// The ops below an op in this arena, in program order, holders first.
    #[inline]
    pub fn walk_below(&self, op: OpId) -> Vec<OpId> {
        let mut out = Vec::new();
        self.collect(op.key(self.tag), &mut out);
        out
    }

    fn collect(&self, op: OpKey, out: &mut Vec<OpId>) {
        for region in &self.ops[op].regions {
            for block in &self.regions[*region].blocks {
                let mut next = self.blocks[*block].first;
                while let Some(op) = next {
                    out.push(OpId::new(op, self.tag));
                    let data = &self.ops[op];
                    if !data.regions.is_empty() {
                        self.collect(op, out);
                    }
                    next = data.next;
                }
            }
        }
    }

    /// Visits the root and every op below, in program order, holders first, across isolated ops.
    #[inline]
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(OpRef<'a>)) {
        visit(self.root_ref());
        self.walk_under(self.root, visit);
    }

    fn walk_under<'a>(&'a self, op: OpKey, visit: &mut dyn FnMut(OpRef<'a>)) {
        for region in &self.ops[op].regions {
            for block in &self.regions[*region].blocks {
                let mut next = self.blocks[*block].first;
                while let Some(op) = next {
                    visit(self.op(OpId::new(op, self.tag)));
                    let data = &self.ops[op];
                    match &data.child {
                        Some(child) => child.walk_under(child.root, visit),
                        None => self.walk_under(op, visit),
                    }
                    next = data.next;
                }
            }
        }
    }

    /// Visits every arena, children before the one that holds them.
    #[inline]
    pub fn walk_irs_mut(&mut self, visit: &mut dyn FnMut(&mut Ir)) {
        for (_, child) in self.children_mut() {
            child.walk_irs_mut(visit);
        }
        visit(self);
    }

    /// The number of ops, the root and those of isolated ops below included.
    #[inline]
    pub fn op_count(&self) -> usize {
        let children = self.ops.values().filter_map(|data| data.child.as_deref());
        self.ops.len() + children.map(|child| child.op_count() - 1).sum::<usize>()
    }

    /// Whether `a` comes before `b` in one block.
    #[inline]
    pub fn is_before(&self, a: OpId, b: OpId) -> bool {
        let (a, b) = (self.data(a), self.data(b));
        a.block.is_some() && a.block == b.block && a.order < b.order
    }

    /// Whether `op` is `ancestor` or stands below it in this arena.
    #[inline]
    pub fn is_below(&self, op: OpId, ancestor: OpId) -> bool {
        std::iter::successors(Some(op), |op| self.parent(*op)).any(|op| op == ancestor)
    }

    /// The op of `block` that is `op` or holds it.
    #[inline]
    pub fn ancestor_in(&self, op: OpId, block: BlockId) -> Option<OpId> {
        std::iter::successors(Some(op), |op| self.parent(*op))
            .find(|op| self.block_of(*op) == Some(block))
    }
}
