//! The type that a rule says the result of an op has.

use tir::Type;
use tir::rewrite::{OpTerm, Term, TermKind, TypeTerm, Var};

use super::{Binding, Sampler};

/// The type that a rule says the result of an op has.
pub(super) enum Wanted {
    Unknown,
    Is(Type),
    /// That of a leaf among its operands.
    Of(usize),
}

impl Wanted {
    pub(super) fn new(sampler: &Sampler<'_>, term: &OpTerm, ty: Option<&TypeTerm>) -> Option<Self> {
        Some(match ty {
            Some(TypeTerm::Text(text)) => Wanted::Is(tir::parse_type(text).ok()?),
            Some(TypeTerm::Var(var)) => match &sampler.bound[var.0] {
                Some(Binding::Type(ty)) => Wanted::Is(*ty),
                _ => {
                    let says =
                        |child: &&Term| matches!(&child.ty, Some(TypeTerm::Var(v)) if v == var);
                    let leaf =
                        term.operands
                            .iter()
                            .filter(says)
                            .find_map(|child| match &child.kind {
                                TermKind::Var(Var(v)) => match &sampler.bound[*v] {
                                    Some(Binding::Leaf(leaf)) => Some(*leaf),
                                    _ => None,
                                },
                                _ => None,
                            });
                    leaf.map_or(Wanted::Unknown, Wanted::Of)
                }
            },
            _ => Wanted::Unknown,
        })
    }
    pub(super) fn of(&self, sampler: &Sampler<'_>) -> Option<Type> {
        match self {
            Wanted::Unknown => None,
            Wanted::Is(ty) => Some(*ty),
            Wanted::Of(leaf) => Some(sampler.plan.leaves[*leaf].ty),
        }
    }
}
