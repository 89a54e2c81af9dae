//! Rules whose two roots are alike, so that one order of them is enough.

use tir::Rule;
use tir::rewrite::{AttrTerm, Call, Term, TermKind, TypeTerm, Var, Which};

/// How two roots of a rule are like each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Likeness {
    /// They differ in the names of variables only.
    pub alike: bool,
    /// The guards say the same of both as well.
    pub mirrored: bool,
}

/// How the roots of a rule are like each other.
pub(crate) fn likeness(rule: &Rule) -> Likeness {
    let none = Likeness {
        alike: false,
        mirrored: false,
    };
    let [a, b] = &rule.left[..] else { return none };
    let mut swap: Vec<Option<Var>> = vec![None; rule.vars.len()];
    if !alike(a, b, &mut swap) {
        return none;
    }
    let involution =
        |(at, to): (usize, &Option<Var>)| to.is_none_or(|to| swap[to.0] == Some(Var(at)));
    if !swap.iter().enumerate().all(involution) {
        return none;
    }
    let renamed = |call: &Call| rename(call, &swap);
    let mut guards = rule.guards.iter();
    Likeness {
        alike: true,
        mirrored: guards.all(|guard| rule.guards.contains(&renamed(guard))),
    }
}

fn pair(a: Var, b: Var, swap: &mut [Option<Var>]) -> bool {
    for (from, to) in [(a, b), (b, a)] {
        if swap[from.0].is_some_and(|known| known != to) {
            return false;
        }
        swap[from.0] = Some(to);
    }
    true
}

fn alike(a: &Term, b: &Term, swap: &mut [Option<Var>]) -> bool {
    let types = match (&a.ty, &b.ty) {
        (Some(TypeTerm::Var(x)), Some(TypeTerm::Var(y))) => pair(*x, *y, swap),
        (x, y) => x == y,
    };
    let kinds = match (&a.kind, &b.kind) {
        (TermKind::Var(x), TermKind::Var(y)) => pair(*x, *y, swap),
        (TermKind::Op(x), TermKind::Op(y)) | (TermKind::Each(x), TermKind::Each(y)) => {
            let ops = match (x.var, y.var) {
                (Some(x), Some(y)) => pair(x, y, swap),
                (None, None) => x.name == y.name,
                _ => false,
            };
            let results = match (x.result, y.result) {
                (Which::Var(x), Which::Var(y)) => pair(x, y, swap),
                (x, y) => x == y,
            };
            let heads = ops
                && results
                && x.operands.len() == y.operands.len()
                && x.attrs.len() == y.attrs.len();
            heads
                && x.operands
                    .iter()
                    .zip(&y.operands)
                    .all(|(x, y)| alike(x, y, swap))
                && x.attrs.iter().zip(&y.attrs).all(|((m, x), (n, y))| {
                    m == n
                        && match (x, y) {
                            (AttrTerm::Var(x), AttrTerm::Var(y)) => pair(*x, *y, swap),
                            (x, y) => x == y,
                        }
                })
        }
        (x, y) => x == y,
    };
    types && kinds
}

fn rename(call: &Call, swap: &[Option<Var>]) -> Call {
    let args = call.args.iter().map(|arg| match arg {
        AttrTerm::Var(var) => AttrTerm::Var(swap[var.0].unwrap_or(*var)),
        AttrTerm::Call(call) => AttrTerm::Call(rename(call, swap)),
        AttrTerm::Literal(literal) => AttrTerm::Literal(literal.clone()),
    });
    Call {
        function: call.function,
        args: args.collect(),
    }
}
