//! An instance of the left side of a rule, as data that can be changed and built again.

use std::collections::{BTreeMap, BTreeSet};

use tir::rewrite::{Literal, Rule, TermKind, Var, VarKind};
use tir::{Attr, Name, OpRef, Type, Value};

/// A value of the left side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    /// By index in [`Plan::leaves`].
    Leaf(usize),
    /// A result of an op, by index in [`Plan::nodes`].
    Node(usize, usize),
}

/// What a leaf of the left side stands for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Origin {
    /// A value that the rule binds.
    Var,
    /// A value that must be a constant.
    Constant,
    /// A constant of this value.
    Literal(Literal),
}

/// A leaf: an argument, or a constant.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// What it stands for.
    pub origin: Origin,
    /// Its type.
    pub ty: Type,
    /// What the tool calls it in counterexamples.
    pub name: Name,
}

/// An op.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its name.
    pub name: Name,
    /// Its operands.
    pub operands: Vec<Operand>,
    /// Its attributes: names, and slots in [`Plan::attrs`].
    pub attrs: Vec<(Name, usize)>,
    /// Its result types where the op does not infer them.
    pub said: Vec<Type>,
}

/// An instance of the left side.
#[derive(Clone, Default, Debug)]
pub(crate) struct Plan {
    /// Its leaves, variables and literals.
    pub leaves: Vec<Leaf>,
    /// Attributes; those that one variable stands for are one.
    pub attrs: Vec<Option<Attr>>,
    /// Slots of attributes whose value the rule says.
    pub fixed: Vec<usize>,
    /// Its ops, operands first.
    pub nodes: Vec<Node>,
    /// Its roots.
    pub roots: Vec<Operand>,
}

impl Plan {
    /// The types that may be changed: those of leaves, and those that ops are told.
    pub(crate) fn types(&self) -> Vec<Type> {
        let leaves = self.leaves.iter().map(|leaf| leaf.ty);
        let said = self.nodes.iter().flat_map(|node| node.said.iter().copied());
        leaves.chain(said).collect()
    }
    /// With other types, in the order of [`types`](Self::types).
    pub(crate) fn with_types(&self, types: &[Type]) -> Plan {
        let mut plan = self.clone();
        let mut types = types.iter().copied();
        for leaf in &mut plan.leaves {
            leaf.ty = types.next().unwrap_or(leaf.ty);
        }
        for ty in plan.nodes.iter_mut().flat_map(|node| &mut node.said) {
            *ty = types.next().unwrap_or(*ty);
        }
        plan
    }
    /// Attributes that are free and have a default, by op and name, and whether one of them is
    /// something else.
    pub(crate) fn unusual(&self) -> BTreeMap<(&'static str, &'static str), bool> {
        let mut unusual = BTreeMap::new();
        for node in &self.nodes {
            for (name, slot) in &node.attrs {
                let field = node.name.info().and_then(|info| info.field(name));
                let default = field.and_then(|field| field.default);
                if default.is_some() && !self.fixed.contains(slot) {
                    let other = self.attrs[*slot].is_some() && self.attrs[*slot] != default;
                    *unusual
                        .entry((node.name.as_str(), name.as_str()))
                        .or_default() |= other;
                }
            }
        }
        unusual
    }
    /// Whether an op makes elements of another type of those of a leaf that it reads.
    pub(crate) fn changes_elements(&self) -> bool {
        let changes = |node: &Node| match (node.operands.first(), node.said.first()) {
            (Some(Operand::Leaf(leaf)), Some(said)) => self.leaves[*leaf].ty.elem() != said.elem(),
            _ => false,
        };
        self.nodes.iter().any(changes)
    }
    /// How large it is: elements first, then ranks, then numbers in attributes.
    pub(crate) fn size(&self) -> (u64, u64, u64) {
        let types = self.types();
        // An empty tensor is no smaller than one that has something there: it shows less.
        let elements = |ty: &Type| -> u64 {
            let dims = ty.shape().unwrap_or(&[]).iter();
            dims.map(|d| d.unsigned_abs().max(1)).product::<u64>()
        };
        let ranks = |ty: &Type| ty.shape().map_or(0, |s| s.len() as u64);
        let sizes = types.iter().map(elements);
        let numbers = self.attrs.iter().flatten().map(|attr| numbers(*attr));
        (
            sizes.sum(),
            types.iter().map(ranks).sum(),
            numbers.sum::<u64>(),
        )
    }
}

fn numbers(attr: Attr) -> u64 {
    let ints: Option<Vec<i64>> = tir::AttrValue::from_attr(attr);
    let ints = ints.or_else(|| Some(vec![attr.as_int()?]));
    let ints = ints.unwrap_or_default();
    ints.iter().map(|n| n.unsigned_abs()).sum::<u64>() + ints.len() as u64
}

/// How often each variable that is no constant occurs on a side.
pub(crate) fn occurrences(rule: &Rule, side: &[tir::rewrite::Term]) -> Vec<usize> {
    fn count(rule: &Rule, term: &tir::rewrite::Term, counts: &mut [usize]) {
        match &term.kind {
            TermKind::Var(Var(v)) if rule.vars[*v].1 != VarKind::Constant => counts[*v] += 1,
            TermKind::Op(op) | TermKind::Each(op) => {
                op.operands.iter().for_each(|t| count(rule, t, counts));
            }
            _ => {}
        }
    }
    let mut counts = vec![0; rule.vars.len()];
    side.iter().for_each(|term| count(rule, term, &mut counts));
    counts
}

/// The measure that rules of kind `reduce` lower, of a value read as a tree: ops that depend on
/// something else than constants, elements of their results, all ops but constants.
pub(crate) fn measure(ir: &tir::Ir, value: Value) -> (u64, u64, u64) {
    fn visit(ir: &tir::Ir, value: Value) -> (bool, [u64; 3]) {
        let Some(op) = ir.owner(value) else {
            return (true, [0; 3]);
        };
        let OpRef { id, .. } = ir.op(op);
        if ir.has(id, tir::Traits::ConstantLike) {
            return (false, [0; 3]);
        }
        let (mut varies, mut sums) = (false, [0, 0, 1]);
        for operand in ir.operands(id) {
            let (v, s) = visit(ir, operand);
            varies |= v;
            (0..3).for_each(|i| sums[i] += s[i]);
        }
        if varies {
            let elements = ir
                .results(id)
                .map(|v| ir.ty(v).elements().map_or(1, |n| n as u64));
            sums[0] += 1;
            sums[1] += elements.sum::<u64>();
        }
        (varies, sums)
    }
    let (_, [varying, elements, all]) = visit(ir, value);
    (varying, elements, all)
}

/// The element types among these types, by name.
pub(crate) fn elems(types: &[Type]) -> BTreeSet<String> {
    types.iter().map(|ty| ty.elem().to_string()).collect()
}
