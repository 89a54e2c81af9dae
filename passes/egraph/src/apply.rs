//! Adding the right side of a rule to an e-graph.

use egg::Id;
use tir::rewrite::{AttrTerm, Literal, OpTerm, Term, TermKind, TypeTerm};
use tir::{Attr, Name, Traits, Type, TypeAttr};

use crate::graph::{Ask, Graph};
use crate::matching::{Bindings, Bound, Compiled, Match, Pick, computed};
use crate::node::{Head, Node};
use crate::proof::journal::Tree;
use crate::scratch::{self, Scratch};

/// Why nothing was added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Declined {
    /// A function of the rule gave nothing: the rule does not apply here.
    Uncomputed,
    /// The right side is not well typed.
    Untyped,
    /// The right side has another type than the left.
    Clash {
        /// Of the left side.
        left: Type,
        /// Of the right side.
        right: Type,
    },
}

/// Adds the right side of a rule; gives a class and a term for each root. Nothing is united yet.
pub fn add_right(
    graph: &mut Graph,
    scratch: &mut Scratch,
    rule: &Compiled,
    found: &Match,
) -> Result<Vec<(Id, Tree)>, Declined> {
    let mut build = Build {
        graph,
        scratch,
        rule,
        bindings: &found.bindings,
    };
    let mut made = Vec::with_capacity(found.roots.len());
    for (term, root) in rule.rule.right.iter().zip(&found.roots) {
        let left = build.graph.ty(*root);
        let (id, tree) = build.term(term, Some(left))?;
        let right = build.graph.ty(id);
        if left != right {
            return Err(Declined::Clash { left, right });
        }
        made.push((id, tree));
    }
    Ok(made)
}

struct Build<'a> {
    graph: &'a mut Graph,
    scratch: &'a mut Scratch,
    rule: &'a Compiled,
    bindings: &'a Bindings,
}

impl Build<'_> {
    fn computed(&self, call: &tir::rewrite::Call) -> Result<Attr, Declined> {
        let attr = computed(self.graph, self.bindings, call, &self.rule.functions);
        attr.ok_or(Declined::Uncomputed)
    }

    fn term(&mut self, term: &Term, expected: Option<Type>) -> Result<(Id, Tree), Declined> {
        let said = match &term.ty {
            None => None,
            Some(TypeTerm::Var(var)) => match &self.bindings[var.0] {
                Some(Bound::Type(ty)) => Some(*ty),
                _ => return Err(Declined::Untyped),
            },
            Some(TypeTerm::Text(text)) => {
                Some(tir::parse_type(text).map_err(|_| Declined::Untyped)?)
            }
            Some(TypeTerm::Call(call)) => {
                let ty = self.computed(call)?.get::<TypeAttr>();
                Some(ty.ok_or(Declined::Untyped)?.0)
            }
        };
        let expected = said.or(expected);
        match &term.kind {
            TermKind::Var(var) => match &self.bindings[var.0] {
                Some(Bound::Value(id)) => Ok((*id, Tree::of(self.graph, *id))),
                _ => Err(Declined::Untyped),
            },
            TermKind::Literal(literal) => self.literal(literal, expected),
            TermKind::Op(op) => self.op(op, said, expected),
        }
    }

    fn literal(
        &mut self,
        literal: &Literal,
        expected: Option<Type>,
    ) -> Result<(Id, Tree), Declined> {
        let ty = expected.ok_or(Declined::Untyped)?;
        let attr = literal.constant(ty).ok_or(Declined::Untyped)?;
        let TermKind::Op(op) = &self.rule.rule.left[0].kind else {
            return Err(Declined::Untyped);
        };
        let node = scratch::constant(self.graph, op.name.dialect(), attr, ty);
        let node = node.ok_or(Declined::Untyped)?;
        let tree = Tree::Node(node.head, Vec::new());
        Ok((self.graph.add(node), tree))
    }

    fn op(
        &mut self,
        term: &OpTerm,
        said: Option<Type>,
        expected: Option<Type>,
    ) -> Result<(Id, Tree), Declined> {
        let info = term.name.info();
        // Constants among the operands of an op on one type take the type of the others.
        let same = info.is_some_and(|info| info.has(Traits::SameType));
        let mut shared = said.or(if same { expected } else { None });
        let mut operands: Vec<Option<Vec<(Id, Tree)>>> = vec![None; term.operands.len()];
        for (slot, operand) in operands.iter_mut().zip(&term.operands) {
            if let TermKind::Var(var) = operand.kind
                && let Some(Bound::Values(all)) = &self.bindings[var.0]
            {
                let all = all.iter().map(|id| (*id, Tree::of(self.graph, *id)));
                *slot = Some(all.collect());
            } else if !matches!(operand.kind, TermKind::Literal(_)) {
                let value = self.term(operand, None)?;
                if same {
                    shared = Some(self.graph.ty(value.0));
                }
                *slot = Some(vec![value]);
            }
        }
        for (slot, operand) in operands.iter_mut().zip(&term.operands) {
            if slot.is_none() {
                let ty = if same { shared } else { None };
                *slot = Some(vec![self.term(operand, ty)?]);
            }
        }
        let operands = operands.into_iter().flatten().flatten();
        let (children, trees): (Vec<Id>, Vec<Tree>) = operands.unzip();
        let attrs = self.attrs(term)?;
        let infers = info.is_some_and(|info| info.infers());
        let types = said.or(if infers { None } else { expected });
        let types: Vec<Type> = types.into_iter().collect();
        let head = self
            .scratch
            .head(self.graph, term.name, &attrs, &types, &children);
        let head = head.ok_or(Declined::Untyped)?;
        let id = self.graph.add(Node::new(head, children));
        let tree = Tree::Node(head, trees);
        let results = self.graph.types(id).len();
        match (results, term.result) {
            (1, 0) => Ok((id, tree)),
            (n, index) if index < n => {
                let head = Head::Result(index as u32);
                let value = self.graph.add(Node::new(head, [id]));
                Ok((value, Tree::Node(head, vec![tree])))
            }
            _ => Err(Declined::Untyped),
        }
    }

    fn attrs(&self, term: &OpTerm) -> Result<Vec<(Name, Attr)>, Declined> {
        let info = term.name.info();
        let mut attrs = Vec::with_capacity(term.attrs.len());
        for (name, attr) in &term.attrs {
            let field = info.and_then(|info| info.field(name));
            let attr = match attr {
                AttrTerm::Literal(literal) => Some(literal.attr(field).ok_or(Declined::Untyped)?),
                AttrTerm::Var(var) => match &self.bindings[var.0] {
                    Some(Bound::Attr(attr)) => *attr,
                    Some(Bound::Value(id)) => self.graph.constant(*id),
                    Some(Bound::Type(ty)) => Some(Attr::ty(*ty)),
                    _ => return Err(Declined::Untyped),
                },
                AttrTerm::Call(call) => Some(self.computed(call)?),
            };
            attrs.extend(attr.map(|attr| (*name, attr)));
        }
        Ok(attrs)
    }
}

/// The term that a match found for a term of the left side, by its number.
pub fn left_tree(graph: &Graph, rule: &Compiled, found: &Match, at: usize) -> Tree {
    let numbered = &rule.terms[at];
    if let TermKind::Var(var) = &numbered.term.kind {
        return match &found.bindings[var.0] {
            Some(Bound::Value(id)) => Tree::of(graph, *id),
            other => panic!("internal error: an operand is bound to {other:?}"),
        };
    }
    let Some(Pick { node, swapped }) = &found.picks[at] else {
        panic!(
            "internal error: term {at} of '{}' matched nothing",
            rule.rule.name
        );
    };
    let mut terms = numbered.operands.clone();
    if *swapped {
        terms.reverse();
    }
    let children = node.children.iter().enumerate().map(|(i, child)| {
        let term = terms.get(i).copied();
        let tail = |at: &usize| rule.is_tail(*at);
        match term.filter(|at| !tail(at)) {
            Some(at) => left_tree(graph, rule, found, at),
            None => Tree::of(graph, *child),
        }
    });
    // In the order of the rule: it matches so whichever order is tried first.
    let mut children: Vec<Tree> = children.collect();
    if *swapped {
        children.reverse();
    }
    let tree = Tree::Node(node.head, children);
    match (&numbered.term.kind, node.head) {
        (TermKind::Op(op), Head::Op { types, .. })
            if graph.analysis.tables.types.get(types).len() != 1 =>
        {
            Tree::Node(Head::Result(op.result as u32), vec![tree])
        }
        _ => tree,
    }
}
