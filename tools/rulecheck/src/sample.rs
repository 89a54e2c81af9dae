//! Random instances of the left side of a rule: types and attributes under which its ops verify.

mod vary;
mod wanted;

use std::collections::BTreeMap;

use tir::data::Random;
use tir::rewrite::{AttrTerm, OpTerm, Rule, Term, TermKind, TypeTerm, Var, VarKind, Which};
use tir::{
    AttrValue, BlockId, FieldInfo, Ir, Name, OpInfo, OpState, Role, Type, TypeAttr, Value,
    verify_local,
};

use crate::corpus::Corpus;
use crate::generate::{Around, InstanceStyle};
use crate::plan::{Leaf, Node, Operand, Origin, Plan};

use wanted::Wanted;

/// Attempts for each op before the whole instance is begun anew.
const TRIES: usize = 12;
/// Most elements of a result.
const RESULT: usize = 1 << 16;

/// Makes one instance, or gives up.
pub(crate) struct Sampler<'a> {
    rule: &'a Rule,
    style: InstanceStyle,
    random: &'a mut Random,
    corpus: &'a mut Corpus,
    plan: Plan,
    /// An arena in which types are inferred and ops verified.
    ir: Ir,
    block: BlockId,
    values: Vec<Value>,
    ops: Vec<tir::OpId>,
    terms: Vec<&'a OpTerm>,
    bound: Vec<Option<Binding>>,
    /// Whether ops that the rule says twice are one.
    share: bool,
}

#[derive(Clone)]
enum Binding {
    Leaf(usize),
    Leaves(Vec<usize>),
    Slot(usize),
    Type(Type),
}

/// The rule whose left side is any instance of an op, to learn what fits it.
pub(crate) fn any(op: &OpInfo) -> Option<Rule> {
    let mut vars = Vec::new();
    let operands = op.fields.iter().filter_map(|field| {
        let kind = match field.role {
            Role::Operand => VarKind::Value,
            Role::OptionalOperand | Role::Operands => VarKind::Values,
            _ => return None,
        };
        vars.push((field.name, kind));
        Some(Term {
            kind: TermKind::Var(Var(vars.len() - 1)),
            ty: None,
        })
    });
    let operands: Vec<Term> = operands.collect();
    let term = Term {
        kind: TermKind::Op(OpTerm {
            name: op.name,
            var: None,
            operands,
            attrs: Vec::new(),
            result: Which::At(0),
        }),
        ty: None,
    };
    Some(Rule {
        name: Name::new("any"),
        kind: tir::rewrite::Kind::Equal,
        class: tir::Class::Exact,
        vars,
        left: vec![term],
        right: Vec::new(),
        guards: Vec::new(),
        ops: Vec::new(),
        loc: tir::Loc::UNKNOWN,
    })
}

impl<'a> Sampler<'a> {
    pub(crate) fn new(rule: &'a Rule, corpus: &'a mut Corpus, random: &'a mut Random) -> Self {
        // An op that is not known: it expects nothing of what is in it.
        let mut ir = Ir::new("rulecheck.scratch");
        let (root, region) = (ir.root(), ir.new_region());
        ir.attach_region(root, region);
        let block = ir.new_block(region);
        Self {
            style: InstanceStyle::new(rule, corpus, random),
            share: random.percent(60),
            bound: vec![None; rule.vars.len()],
            plan: Plan::default(),
            values: Vec::new(),
            ops: Vec::new(),
            terms: Vec::new(),
            rule,
            random,
            corpus,
            ir,
            block,
        }
    }

    /// An instance of the left side whose ops verify.
    pub(crate) fn sample(mut self) -> Option<Plan> {
        let built = self.roots();
        self.corpus.begun(self.style.elem, built.is_some());
        built.map(|()| self.plan)
    }

    fn roots(&mut self) -> Option<()> {
        for term in &self.rule.left {
            let TermKind::Op(op) = &term.kind else {
                return None;
            };
            let root = self.op(op, term.ty.as_ref())?;
            self.plan.roots.push(root);
        }
        Some(())
    }

    fn value(&self, operand: Operand) -> Value {
        match operand {
            Operand::Leaf(i) => self.values[i],
            Operand::Node(i, result) => self.ir.result(self.ops[i], result),
        }
    }

    fn op(&mut self, term: &'a OpTerm, ty: Option<&TypeTerm>) -> Option<Operand> {
        let info = term.name.info()?;
        let same = |t: &&OpTerm| {
            t.name == term.name && t.operands == term.operands && t.attrs == term.attrs
        };
        if self.share
            && let Some(at) = self.terms.iter().position(same)
        {
            return self.result(at, term.result, ty);
        }
        let mut operands: Vec<Vec<Operand>> = vec![Vec::new(); term.operands.len()];
        for (slot, child) in operands.iter_mut().zip(&term.operands) {
            if let TermKind::Op(op) = &child.kind {
                slot.push(self.op(op, child.ty.as_ref())?);
            }
        }
        // Leaves whose types are not said yet.
        let mut open = Vec::new();
        for (slot, child) in operands.iter_mut().zip(&term.operands) {
            let origin = match &child.kind {
                TermKind::Op(_) => continue,
                // Rules are drawn with a term for each value.
                TermKind::Each(_) => return None,
                TermKind::Literal(literal) => Origin::Literal(literal.clone()),
                TermKind::Var(Var(v)) => match &self.bound[*v] {
                    Some(Binding::Leaf(leaf)) => {
                        let leaf = *leaf;
                        slot.push(Operand::Leaf(leaf));
                        // One that stands here twice gets its type with the op.
                        if !open.contains(&leaf) {
                            self.typed(Operand::Leaf(leaf), child.ty.as_ref())?;
                        }
                        continue;
                    }
                    Some(Binding::Leaves(leaves)) => {
                        slot.extend(leaves.iter().map(|leaf| Operand::Leaf(*leaf)));
                        continue;
                    }
                    _ => match self.rule.vars[*v].1 {
                        VarKind::Constant => Origin::Constant,
                        _ => Origin::Var,
                    },
                },
            };
            let var = match child.kind {
                TermKind::Var(var) => Some(var.0),
                _ => None,
            };
            let name = var.map_or(Name::new("c"), |v| self.rule.vars[v].0);
            let many = var.is_some_and(|v| self.rule.vars[v].1 == VarKind::Values);
            let others = term.operands.len() - 1;
            let count = match many {
                true => self.corpus.count(term.name, others, self.random),
                false => 1,
            };
            let leaves: Vec<usize> = (0..count)
                .map(|_| self.leaf(origin.clone(), name))
                .collect();
            slot.extend(leaves.iter().map(|leaf| Operand::Leaf(*leaf)));
            match (var, many) {
                (Some(v), true) => self.bound[v] = Some(Binding::Leaves(leaves.clone())),
                (Some(v), false) => self.bound[v] = Some(Binding::Leaf(leaves[0])),
                _ => {}
            }
            let said = match &child.ty {
                Some(TypeTerm::Text(text)) => Some(tir::parse_type(text).ok()?),
                Some(TypeTerm::Var(var)) => match &self.bound[var.0] {
                    Some(Binding::Type(ty)) => Some(*ty),
                    _ => None,
                },
                _ => None,
            };
            match said {
                Some(ty) => leaves.iter().for_each(|leaf| self.set_type(*leaf, ty)),
                None => open.extend(leaves),
            }
        }
        let operands: Vec<Operand> = operands.into_iter().flatten().collect();
        let slots = self.slots(term, info)?;
        let fixed = self.plan.attrs.clone();
        let node = Node {
            name: term.name,
            operands,
            attrs: slots.iter().map(|(name, slot, _)| (*name, *slot)).collect(),
            said: Vec::new(),
        };
        let wanted = Wanted::new(self, term, ty)?;
        // Operands that may be absent are drawn once the others fit.
        let required = info.fields.iter().filter(|f| f.role == Role::Operand);
        let (required, many) = (required.count(), |f: &FieldInfo| f.role == Role::Operands);
        let is_extra = |operand: &Operand| matches!(operand, Operand::Leaf(l) if open.contains(l));
        let splits = !info.fields.iter().any(many)
            && node.operands.len() > required
            && node.operands[required..].iter().all(is_extra);
        for _ in 0..TRIES {
            self.plan.attrs.clone_from(&fixed);
            let mut found = match splits {
                false => self.attempt(&node, &slots, &open, &wanted, info),
                true => {
                    let mut first = node.clone();
                    first.operands.truncate(required);
                    let found = self.attempt(&first, &slots, &open, &wanted, info);
                    found.and_then(|op| {
                        let said = self.ir.result_types(op);
                        let wanted = match said[..] {
                            [ty] if !info.infers() => &Wanted::Is(ty),
                            _ => &wanted,
                        };
                        self.ir.erase(op);
                        let kept: Vec<_> = slots.iter().map(|s| (s.0, s.1, false)).collect();
                        let drawn = |leaf: &usize| first.operands.contains(&Operand::Leaf(*leaf));
                        let rest: Vec<usize> = open.iter().filter(|l| !drawn(l)).copied().collect();
                        let mut again = || self.attempt(&node, &kept, &rest, wanted, info);
                        (0..TRIES).find_map(|_| again())
                    })
                }
            };
            if let Some(op) = &mut found {
                self.vary(&node, &slots, op, &wanted);
            }
            if let Some(op) = found {
                if self.fits(op, &wanted) == usize::MAX {
                    return self.settle(term, ty, node, op, &open);
                }
                self.ir.erase(op);
            }
        }
        self.corpus.stuck_at(term.name);
        None
    }

    /// Keeps an op that verifies.
    fn settle(
        &mut self,
        term: &'a OpTerm,
        ty: Option<&TypeTerm>,
        mut node: Node,
        op: tir::OpId,
        open: &[usize],
    ) -> Option<Operand> {
        let info = node.name.info()?;
        if !info.infers() {
            node.said = self.ir.result_types(op);
            if let ([result], Some(first)) = (&node.said[..], node.operands.first()) {
                let first = self.ir.ty(self.value(*first));
                self.corpus.result(node.name, first, *result);
            }
        }
        self.corpus.operands(node.name, node.operands.len());
        for (i, operand) in node.operands.iter().enumerate() {
            let ty = self.ir.ty(self.value(*operand));
            self.corpus.operand(node.name, i, ty);
        }
        for (name, slot) in &node.attrs {
            let attr = self.plan.attrs[*slot];
            self.corpus.attr(node.name, *name, attr, self.random);
        }
        self.plan.nodes.push(node);
        self.ops.push(op);
        self.terms.push(term);
        for child in &term.operands {
            if let (TermKind::Var(Var(v)), Some(ty)) = (&child.kind, &child.ty)
                && let Some(Binding::Leaf(leaf)) = self.bound[*v]
                && open.contains(&leaf)
            {
                self.typed(Operand::Leaf(leaf), Some(ty))?;
            }
        }
        self.result(self.ops.len() - 1, term.result, ty)
    }

    /// A result of an op, if it has so many, of the type that the rule says.
    fn result(&mut self, node: usize, result: Which, ty: Option<&TypeTerm>) -> Option<Operand> {
        // Rules are drawn with a number.
        let Which::At(result) = result else {
            return None;
        };
        let there = self.ir.results(self.ops[node]).len() > result;
        there.then_some(())?;
        self.typed(Operand::Node(node, result), ty)
    }

    fn leaf(&mut self, origin: Origin, name: Name) -> usize {
        let ty = Type::f32();
        self.plan.leaves.push(Leaf { origin, ty, name });
        self.values.push(self.ir.add_arg(self.block, ty));
        self.values.len() - 1
    }
    fn set_type(&mut self, leaf: usize, ty: Type) {
        self.plan.leaves[leaf].ty = ty;
        self.ir.set_type(self.values[leaf], ty);
    }

    /// Checks or binds what a rule says of the type of a value.
    fn typed(&mut self, operand: Operand, ty: Option<&TypeTerm>) -> Option<Operand> {
        let found = self.ir.ty(self.value(operand));
        let fits = match ty {
            None => true,
            Some(TypeTerm::Text(text)) => found.to_string() == text.as_str(),
            Some(TypeTerm::Call(_)) => false,
            Some(TypeTerm::Var(var)) => match &self.bound[var.0] {
                Some(Binding::Type(bound)) => *bound == found,
                _ => {
                    self.bound[var.0] = Some(Binding::Type(found));
                    true
                }
            },
        };
        fits.then_some(operand)
    }

    /// The attributes of an op: name, slot, and whether the slot is free to choose.
    fn slots(&mut self, term: &OpTerm, info: &OpInfo) -> Option<Vec<(Name, usize, bool)>> {
        let mut slots = Vec::new();
        for field in info.fields.iter().filter(|f| f.role.is_attribute()) {
            let said = term.attrs.iter().find(|(name, _)| *name == field.name);
            let (slot, free) = match said.map(|(_, attr)| attr) {
                Some(AttrTerm::Literal(literal)) => {
                    self.plan.attrs.push(Some(literal.attr(Some(field))?));
                    self.plan.fixed.push(self.plan.attrs.len() - 1);
                    (self.plan.attrs.len() - 1, false)
                }
                Some(AttrTerm::Var(var)) => match self.bound[var.0] {
                    Some(Binding::Slot(slot)) => (slot, false),
                    _ => {
                        self.plan.attrs.push(None);
                        let slot = self.plan.attrs.len() - 1;
                        self.bound[var.0] = Some(Binding::Slot(slot));
                        (slot, true)
                    }
                },
                Some(AttrTerm::Call(_)) => return None,
                None => {
                    self.plan.attrs.push(None);
                    (self.plan.attrs.len() - 1, true)
                }
            };
            slots.push((field.name, slot, free));
        }
        Some(slots)
    }

    /// The op with random types of its open leaves and random free attributes, if it verifies.
    fn attempt(
        &mut self,
        node: &Node,
        slots: &[(Name, usize, bool)],
        open: &[usize],
        wanted: &Wanted,
        info: &OpInfo,
    ) -> Option<tir::OpId> {
        let twins: Vec<usize> = (0..self.plan.nodes.len())
            .filter(|i| self.plan.nodes[*i].name == node.name)
            .collect();
        let twin = self.random.pick(&twins);
        let all: Vec<Type> = self.plan.leaves.iter().map(|leaf| leaf.ty).collect();
        let mut waiting = open.to_vec();
        for (i, operand) in node.operands.iter().enumerate() {
            let Operand::Leaf(leaf) = *operand else {
                continue;
            };
            if !waiting.contains(&leaf) {
                continue;
            }
            waiting.retain(|l| *l != leaf);
            let others = node.operands.iter().enumerate();
            let is_drawn =
                |o: &Operand| !matches!(o, Operand::Leaf(l) if *l == leaf || waiting.contains(l));
            let mut near: Vec<Type> = others
                .filter(|(_, o)| is_drawn(o))
                .map(|(_, o)| self.ir.ty(self.value(*o)))
                .collect();
            if let Wanted::Is(ty) = wanted {
                near.push(*ty);
            }
            let alike = twins
                .iter()
                .filter_map(|t| self.plan.nodes[*t].operands.get(i));
            let alike: Vec<Type> = alike.map(|o| self.ir.ty(self.value(*o))).collect();
            let around = Around {
                near: &near,
                alike: &alike,
                all: &all,
            };
            let ty = self
                .style
                .operand(node.name, i, &around, self.corpus, self.random)?;
            let ty = self.style.constrained(ty, info, i, self.random);
            self.set_type(leaf, ty);
        }
        let near: Vec<Type> = node
            .operands
            .iter()
            .map(|o| self.ir.ty(self.value(*o)))
            .collect();
        let copy = self.random.percent(50);
        for (name, slot, free) in slots {
            if !free {
                continue;
            }
            let same = |t: usize| {
                let theirs = self.plan.nodes[t].attrs.iter().find(|(n, _)| n == name)?;
                self.plan.attrs[theirs.1]
            };
            self.plan.attrs[*slot] = match (twin.and_then(same), copy) {
                (Some(attr), true) if self.random.percent(85) => Some(attr),
                _ => {
                    let field = info.field(name)?;
                    self.style
                        .attr(node.name, field, &near, self.corpus, self.random)
                }
            };
        }
        let results = match info.infers() {
            true => Vec::new(),
            false => {
                let many = info.fields.iter().any(|f| f.role == Role::Results);
                let count = info
                    .fields
                    .iter()
                    .filter(|f| f.role == Role::Result)
                    .count();
                let count = (!many).then_some(count);
                let alike = twin.map(|t| self.plan.nodes[t].said.clone());
                match (alike, wanted.of(self)) {
                    (_, Some(ty)) if count == Some(1) => vec![ty],
                    (Some(said), _) if !said.is_empty() && self.random.percent(40) => said,
                    _ => {
                        let style = &self.style;
                        style.results(node.name, count, &near, self.corpus, self.random)?
                    }
                }
            }
        };
        self.make(node, slots, results)
    }

    /// The op with what was drawn, if it verifies.
    fn make(
        &mut self,
        node: &Node,
        slots: &[(Name, usize, bool)],
        results: Vec<Type>,
    ) -> Option<tir::OpId> {
        let operands = node.operands.iter().map(|o| self.value(*o)).collect();
        let attrs = slots
            .iter()
            .map(|(name, slot, _)| (*name, self.plan.attrs[*slot]));
        let state = state(node.name, operands, attrs, results);
        let op = self.ir.create(state).ok()?;
        self.ir.insert(op, self.block);
        let is_small = |v| self.ir.ty(v).elements().is_none_or(|n| n <= RESULT);
        if verify_local(&self.ir).is_err() || !self.ir.results(op).all(is_small) {
            self.ir.erase(op);
            return None;
        }
        Some(op)
    }
}

/// What an op is created from.
pub(crate) fn state(
    name: Name,
    operands: Vec<Value>,
    attrs: impl Iterator<Item = (Name, Option<tir::Attr>)>,
    results: Vec<Type>,
) -> OpState {
    let mut state = OpState::new(name);
    state.operands = operands.into_iter().collect();
    state.results = results.into_iter().collect();
    for (name, attr) in attrs {
        if let Some(attr) = attr {
            state.set_attr(name, attr);
        }
    }
    state
}

/// The ops of a rule's left side by name.
pub(crate) fn ops(rule: &Rule) -> BTreeMap<String, Name> {
    fn visit(term: &Term, names: &mut BTreeMap<String, Name>) {
        if let TermKind::Op(op) = &term.kind {
            names.insert(op.name.to_string(), op.name);
            op.operands.iter().for_each(|t| visit(t, names));
        }
    }
    let mut names = BTreeMap::new();
    rule.left.iter().for_each(|term| visit(term, &mut names));
    names
}

/// The integers of an attribute, if it is a list of them.
pub(crate) fn ints(attr: tir::Attr) -> Option<Vec<i64>> {
    match attr.get::<TypeAttr>() {
        Some(_) => None,
        None => Vec::<i64>::from_attr(attr),
    }
}
