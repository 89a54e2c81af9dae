//! The terms of a left side by number, and when what they bind is bound.

use tir_core::{FieldInfo, Name, SmallVec, Traits};

use crate::rule::{AttrTerm, Call, OpTerm, Rule, Term, TermKind, TypeTerm, Var, VarKind, Which};

/// A term on the left side, its operands by number.
#[derive(Clone)]
pub struct Numbered {
    /// The term.
    pub term: Term,
    /// Numbers of its operands.
    pub operands: Vec<usize>,
    /// What the op says of the attributes that the term names.
    pub(super) fields: Vec<Option<&'static FieldInfo>>,
    /// Whether the op commutes.
    pub(super) commutes: bool,
    /// Its operands that earlier terms bind, with their places.
    pub(super) earlier: SmallVec<[(usize, Var); 2]>,
}

/// Numbers a term and its operands behind those that there are; gives its number.
pub(super) fn number(term: &Term, all: &mut Vec<Numbered>) -> usize {
    let at = all.len();
    let (mut fields, mut commutes) = (Vec::new(), false);
    if let TermKind::Op(op) | TermKind::Each(op) = &term.kind {
        let info = op.name.info();
        let field = |(name, _): &(Name, AttrTerm)| info.and_then(|info| info.field(name));
        fields = op.attrs.iter().map(field).collect();
        commutes = info.is_some_and(|info| info.has(Traits::Commutative));
    }
    all.push(Numbered {
        term: term.clone(),
        operands: Vec::new(),
        fields,
        commutes,
        earlier: SmallVec::new(),
    });
    if let TermKind::Op(op) = &term.kind {
        all[at].operands = op.operands.iter().map(|t| number(t, all)).collect();
    }
    at
}

/// Notes of each term which of its operands are values that the terms before it bind.
pub(super) fn bind_earlier(rule: &Rule, terms: &mut [Numbered]) {
    let mut bound = vec![false; rule.vars.len()];
    for at in 0..terms.len() {
        let one = |(place, operand): (usize, &usize)| match terms[*operand].term.kind {
            TermKind::Var(var) => {
                let known = bound[var.0] && rule.vars[var.0].1 != VarKind::Values;
                known.then_some((place, var))
            }
            _ => None,
        };
        terms[at].earlier = terms[at]
            .operands
            .iter()
            .enumerate()
            .filter_map(one)
            .collect();
        if let TermKind::Var(var) = terms[at].term.kind {
            bound[var.0] = true;
        }
    }
}

/// For each guard the first term before which all of its variables are bound.
pub(super) fn ready(rule: &Rule, terms: &[Numbered]) -> Vec<Vec<usize>> {
    let mut bound = vec![terms.len(); rule.vars.len()];
    for (at, numbered) in terms.iter().enumerate().rev() {
        if let Some(TypeTerm::Var(var)) = &numbered.term.ty {
            bound[var.0] = at + 1;
        }
        match &numbered.term.kind {
            TermKind::Var(var) => bound[var.0] = at + 1,
            TermKind::Op(op) => {
                let attrs = op.attrs.iter().filter_map(|(_, attr)| match attr {
                    AttrTerm::Var(var) => Some(*var),
                    _ => None,
                });
                let all = attrs.chain(op.var).chain(result_var(op));
                all.for_each(|var| bound[var.0] = at + 1);
            }
            TermKind::Each(op) => {
                let attrs = op.attrs.iter().filter_map(|(_, attr)| match attr {
                    AttrTerm::Var(var) => Some(*var),
                    _ => None,
                });
                let operands = op.operands.iter().filter_map(|operand| match operand.kind {
                    TermKind::Var(var) => Some(var),
                    _ => None,
                });
                let all = attrs.chain(op.var).chain(result_var(op)).chain(operands);
                all.for_each(|var| bound[var.0] = at + 1);
            }
            TermKind::Literal(_) => {}
        }
    }
    let mut ready = vec![Vec::new(); terms.len() + 1];
    for (at, guard) in rule.guards.iter().enumerate() {
        ready[last(guard, &bound)].push(at);
    }
    ready
}

/// The variable that the number of its result is.
pub(super) fn result_var(op: &OpTerm) -> Option<Var> {
    match op.result {
        Which::Var(var) => Some(var),
        Which::At(_) => None,
    }
}

fn last(call: &Call, bound: &[usize]) -> usize {
    let one = |arg: &AttrTerm| match arg {
        AttrTerm::Var(var) => bound[var.0],
        AttrTerm::Literal(_) => 0,
        AttrTerm::Call(call) => last(call, bound),
    };
    call.args.iter().map(one).max().unwrap_or(0)
}
