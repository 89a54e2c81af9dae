//! How values flow between the ops of a block, and what a set of them moves if it runs as one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tir::{BlockId, Ir, OpId, Type, Value};
use tir_graph::fusion::{FusionInfo, FusionKind, anchor, edge_fuses};

/// How values flow in a block.
pub(super) struct Flow {
    /// The ops in order.
    pub ops: Vec<OpId>,
    /// What fusion looks at of each.
    pub parts: Vec<FusionInfo>,
    /// For each op those that use its results, in order; each comes later.
    pub users: Vec<Vec<usize>>,
    /// For each op those whose results it uses, in order; each comes earlier.
    pub producers: Vec<Vec<usize>>,
    /// For each op the values it reads that no fusable op of the block computes, and their bytes.
    pub outer: Vec<BTreeMap<Value, i64>>,
    /// Bytes of each op's results.
    pub bytes: Vec<i64>,
    /// Ops that every group that needs their result computes for itself.
    pub copied: BTreeSet<usize>,
}

/// Bytes of a value; 0 if its size is not known.
fn bytes(ty: Type) -> i64 {
    let count = ty
        .elements()
        .unwrap_or(0)
        .saturating_mul(ty.bytes().unwrap_or(0));
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Flow {
    /// The flow of a block.
    pub(super) fn new(ir: &Ir, block: BlockId) -> Self {
        let ops: Vec<OpId> = ir.ops_in(block).collect();
        let places: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, op)| (*op, i)).collect();
        let users = ops.iter().map(|op| {
            let uses = ir.results(*op).flat_map(|v| ir.uses(v));
            let users = uses.filter_map(|u| places.get(&ir.ancestor_in(u.op, block)?).copied());
            let mut users: Vec<usize> = users.collect();
            users.sort_unstable();
            users.dedup();
            users
        });
        let users: Vec<Vec<usize>> = users.collect();
        let mut producers = vec![Vec::new(); ops.len()];
        for (at, users) in users.iter().enumerate() {
            for user in users {
                producers[*user].push(at);
            }
        }
        let parts: Vec<FusionInfo> = ops.iter().map(|op| FusionInfo::of(ir, *op)).collect();
        let outer = ops.iter().map(|op| {
            let far = ir.operands(*op).filter(|value| {
                let place = ir.owner(*value).and_then(|op| places.get(&op));
                place.is_none_or(|at| parts[*at].kind == FusionKind::Opaque)
            });
            far.map(|value| (value, bytes(ir.ty(value)))).collect()
        });
        let outer = outer.collect();
        let size = |op: &OpId| ir.results(*op).map(|v| bytes(ir.ty(v))).sum();
        let bytes = ops.iter().map(size).collect();
        Self {
            ops,
            parts,
            users,
            producers,
            outer,
            bytes,
            copied: BTreeSet::new(),
        }
    }

    /// The class of an op.
    pub(super) fn kind(&self, at: usize) -> FusionKind {
        self.parts[at].kind
    }
    /// Whether an op may be in a group at all.
    pub(super) fn is_fusable(&self, at: usize) -> bool {
        self.kind(at) != FusionKind::Opaque
    }

    /// Whether a set of ops becomes a group: it has at least so many, or one that is a group even
    /// alone.
    pub(super) fn is_group(&self, set: &BTreeSet<usize>, least: usize) -> bool {
        let steps = set.iter().any(|at| self.parts[*at].steps);
        !set.is_empty() && (set.len() >= least || steps)
    }

    /// Ops of a set whose results are needed outside of it.
    pub(super) fn leaving(&self, set: &BTreeSet<usize>) -> Vec<usize> {
        let leaves = |at: &usize| self.users[*at].iter().any(|user| !set.contains(user));
        let copied = |at: &usize| self.copied.contains(at);
        set.iter()
            .copied()
            .filter(|at| leaves(at) && !copied(at))
            .collect()
    }

    /// Whether a set of ops can be one loop nest. `several`: more than one op of it may be needed
    /// outside, if all are elementwise and of one shape, so that one nest writes them together.
    pub(super) fn runs_as_one(&self, set: &BTreeSet<usize>, several: bool) -> bool {
        if set.len() < 2 {
            return true;
        }
        let all: Vec<usize> = set.iter().copied().collect();
        let parts: Vec<FusionInfo> = all.iter().map(|at| self.parts[*at]).collect();
        let Some(deciding) = anchor(&parts) else {
            return false;
        };
        let edges = all.iter().all(|at| {
            let inner = self.users[*at].iter().filter(|user| set.contains(user));
            inner
                .into_iter()
                .all(|user| edge_fuses(&self.parts[*at], &self.parts[*user]))
        });
        let leaving = self.leaving(set);
        let [first, rest @ ..] = &leaving[..] else {
            return false;
        };
        if !edges {
            return false;
        }
        if rest.is_empty() {
            return true;
        }
        let one_shape = |at: &usize| {
            let part = &self.parts[*at];
            part.is_elementwise_like(&self.parts[*first]) || all[deciding] == *at
        };
        let (first, kind) = (&self.parts[*first], self.parts[all[deciding]].kind);
        let same = leaving
            .iter()
            .all(|at| self.parts[*at].shape() == first.shape());
        several && kind != FusionKind::Reduction && same && leaving.iter().all(one_shape)
    }

    /// Bytes that a set of ops reads and writes as one nest: each value from outside once, each
    /// result that is needed outside once.
    pub(super) fn traffic(&self, set: &BTreeSet<usize>) -> Traffic {
        let mut outer: BTreeMap<Value, i64> = BTreeMap::new();
        let mut inner: BTreeSet<usize> = BTreeSet::new();
        for at in set {
            outer.extend(&self.outer[*at]);
            let far = self.producers[*at].iter().copied();
            inner.extend(far.filter(|p| !set.contains(p) && self.is_fusable(*p)));
        }
        let read = outer.values().sum::<i64>() + inner.iter().map(|p| self.bytes[*p]).sum::<i64>();
        let written = self.leaving(set).iter().map(|at| self.bytes[*at]).sum();
        Traffic { read, written }
    }
}

/// Bytes read and written by a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Traffic {
    /// Bytes read.
    pub read: i64,
    /// Bytes written.
    pub written: i64,
}
impl Traffic {
    /// Bytes in all.
    pub(super) fn total(&self) -> i64 {
        self.read + self.written
    }
}
