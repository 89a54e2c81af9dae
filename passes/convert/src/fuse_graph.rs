//! `fuse-graph`: which operators run as one.
//!
//! The classes and their rules are TVM's (Chen et al., "TVM: An Automated End-to-End Optimizing
//! Compiler for Deep Learning", OSDI 2018, section 3), the choice is greedy along immediate
//! post-dominators: an op goes with the first one that everything computed from it runs through,
//! together with all that is between.

use std::collections::{HashMap, HashSet};

use tir::{
    At, BlockId, Ir, OpId, Pass, PassCx, PassResult, RegionId, Rets, Traits, Type, Value, pass,
};
use tir_graph::fusion::{FusionClass, FusionKind};
use tir_graph::{Fused, Yield};

pass! {
    /// Puts operators that run as one into `graph.fused`: elementwise ones behind a convolution or
    /// matrix product, injective ones before a reduction, and injective ones among themselves.
    ///
    /// Only what nobody else needs is fused forward.
    pub struct FuseGraph = "fuse-graph" {}
}

impl Pass for FuseGraph {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.each(ir, &|ir, cx| {
            let groups = fuse(ir);
            cx.count("groups", groups);
            if groups == 0 {
                cx.unchanged();
            }
            Ok(())
        })
    }
}

/// Makes the groups of all blocks of an arena; says how many.
fn fuse(ir: &mut Ir) -> usize {
    let mut blocks: Vec<BlockId> = Vec::new();
    let ops = std::iter::once(ir.root()).chain(ir.walk_ids());
    for op in ops {
        // What is in a group already stays as it is.
        if !ir.is::<Fused>(op) {
            let regions: Vec<RegionId> = ir.regions(op).collect();
            blocks.extend(
                regions
                    .into_iter()
                    .flat_map(|r| ir.blocks(r).collect::<Vec<_>>()),
            );
        }
    }
    let groups: Vec<Vec<OpId>> = blocks
        .iter()
        .flat_map(|block| Flow::new(ir, *block).groups())
        .collect();
    for group in &groups {
        outline(ir, group);
    }
    groups.len()
}

/// The class of an op, if it has one.
fn kind(ir: &Ir, op: OpId) -> Option<FusionKind> {
    Some(ir.info(op)?.interface::<dyn FusionClass>()?.kind())
}

/// How values flow in a block.
struct Flow<'a> {
    ir: &'a Ir,
    /// The ops in order.
    ops: Vec<OpId>,
    /// For each op those that use its results, in order; each comes later.
    users: Vec<Vec<usize>>,
    /// The immediate post-dominator; `None` where the ways part for good.
    next: Vec<Option<usize>>,
    /// The group an op is in.
    group: Vec<Option<usize>>,
    groups: Vec<Vec<usize>>,
}

impl<'a> Flow<'a> {
    fn new(ir: &'a Ir, block: BlockId) -> Self {
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
        let next = post_dominators(&users);
        let group = vec![None; ops.len()];
        Self {
            ir,
            ops,
            users,
            next,
            group,
            groups: Vec::new(),
        }
    }

    fn kind(&self, at: usize) -> FusionKind {
        kind(self.ir, self.ops[at]).unwrap_or(FusionKind::Opaque)
    }
    fn is_elementwise(&self, at: usize) -> bool {
        self.kind(at) == FusionKind::Injective && self.ir.has(self.ops[at], Traits::Elementwise)
    }
    fn shape(&self, at: usize) -> Option<&'static [i64]> {
        let result = self.ir.results(self.ops[at]).next()?;
        self.ir.ty(result).shape()
    }

    fn groups(mut self) -> Vec<Vec<OpId>> {
        // From the end, so that of two convolutions that meet the later one goes on: what the
        // earlier one computed is there by then.
        for at in (0..self.ops.len()).rev() {
            if self.kind(at) == FusionKind::ComplexOutFusable {
                self.grow(at, |flow, op| {
                    flow.is_elementwise(op) && flow.shape(op) == flow.shape(at)
                });
            }
        }
        for at in (0..self.ops.len()).rev() {
            if self.kind(at) == FusionKind::Reduction && self.group[at].is_none() {
                self.start(at);
            }
        }
        for at in (0..self.ops.len()).rev() {
            self.join(at);
        }
        for at in 0..self.ops.len() {
            if self.kind(at) == FusionKind::Injective && self.group[at].is_none() {
                self.grow(at, |flow, op| flow.kind(op) == FusionKind::Injective);
            }
        }
        let groups = self.groups.into_iter().filter(|group| group.len() > 1);
        let ops = &self.ops;
        groups
            .map(|mut group| {
                group.sort_unstable();
                group.into_iter().map(|at| ops[at]).collect()
            })
            .collect()
    }

    fn start(&mut self, at: usize) -> usize {
        self.group[at] = Some(self.groups.len());
        self.groups.push(vec![at]);
        self.groups.len() - 1
    }
    fn put(&mut self, at: usize, group: usize) {
        self.group[at] = Some(group);
        self.groups[group].push(at);
    }

    /// Goes on from post-dominator to post-dominator while all that is passed is free and fits.
    fn grow(&mut self, seed: usize, fits: impl Fn(&Self, usize) -> bool) {
        let group = self.start(seed);
        let mut at = seed;
        while let Some(sink) = self.next[at] {
            let Some(passed) = self.between(at, sink, &fits) else {
                break;
            };
            for op in passed {
                self.put(op, group);
            }
            at = sink;
        }
    }

    /// All ops on ways from one op to its post-dominator, that included, if they fit.
    fn between(
        &self,
        from: usize,
        sink: usize,
        fits: &impl Fn(&Self, usize) -> bool,
    ) -> Option<Vec<usize>> {
        let (mut seen, mut work) = (HashSet::new(), self.users[from].clone());
        while let Some(op) = work.pop() {
            if !seen.insert(op) {
                continue;
            }
            if self.group[op].is_some() || !fits(self, op) {
                return None;
            }
            if op != sink {
                work.extend(&self.users[op]);
            }
        }
        let mut passed: Vec<usize> = seen.into_iter().collect();
        passed.sort_unstable();
        Some(passed)
    }

    /// Puts an injective op into the group of those that use it, if that is one and takes it in:
    /// a reduction takes any, elementwise ops those of their shape, convolutions none.
    fn join(&mut self, at: usize) {
        if self.kind(at) != FusionKind::Injective || self.group[at].is_some() {
            return;
        }
        let mut users = self.users[at].iter();
        let Some(group) = users.next().and_then(|user| self.group[*user]) else {
            return;
        };
        let takes = |user: usize| match self.kind(user) {
            FusionKind::Reduction => true,
            FusionKind::Injective => self.is_elementwise(at) && self.shape(at) == self.shape(user),
            _ => false,
        };
        if self.users[at]
            .iter()
            .all(|user| self.group[*user] == Some(group) && takes(*user))
        {
            self.put(at, group);
        }
    }
}

/// The immediate post-dominator of each op of a block, given its users, which all come later.
fn post_dominators(users: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut next: Vec<Option<usize>> = vec![None; users.len()];
    for at in (0..users.len()).rev() {
        let mut all = users[at].iter().copied();
        let first = all.next();
        next[at] = all.fold(first, |meet, user| common(&next, meet, Some(user)));
    }
    next
}

/// Where two ways along post-dominators meet. The later one stands, the earlier one goes on.
fn common(next: &[Option<usize>], mut a: Option<usize>, mut b: Option<usize>) -> Option<usize> {
    while a != b {
        match (a, b) {
            (Some(x), Some(y)) if x < y => a = next[x],
            (Some(_), Some(y)) => b = next[y],
            _ => return None,
        }
    }
    a
}

/// Moves ops into a group at the place of the last one, whose results alone are needed outside.
fn outline(ir: &mut Ir, group: &[OpId]) {
    let Some(last) = group.last() else {
        return;
    };
    let old: Vec<Value> = ir.results(*last).collect();
    let types: Vec<Type> = ir.result_types(*last);
    let body = ir.new_region();
    let block = ir.new_block(body);
    let new = ir.add(
        At::After(*last),
        Fused {
            body,
            results: Rets(types),
        },
    );
    for op in group {
        ir.move_op(*op, block);
    }
    for (old, new) in old.iter().zip(&new) {
        ir.replace_uses(*old, *new);
        let hint = ir.hint(*old);
        ir.set_hint(*new, hint);
    }
    ir.add(block, Yield { values: old });
}
