//! Affine maps out of what pest reads.

use pest::iterators::Pair;
use tir_core::{AffineExpr, AffineMap, Failure};

use crate::attr::{Reading, below};
use crate::tree::Rule;

/// An expression has at most this many operators.
const OPERATORS: usize = 1000;

struct Scope<'a> {
    dims: Vec<&'a str>,
    syms: Vec<&'a str>,
    operators: std::cell::Cell<usize>,
}

/// A map, of rule `affine_map`.
pub(crate) fn map(r: &Reading<'_>, pair: Pair<'_, Rule>) -> Result<AffineMap, Failure> {
    let mut scope = Scope {
        dims: Vec::new(),
        syms: Vec::new(),
        operators: std::cell::Cell::new(0),
    };
    let mut exprs = Vec::new();
    for part in below(pair) {
        match part.as_rule() {
            Rule::map_dims => scope.dims = below(part).map(|pair| pair.as_str()).collect(),
            Rule::map_syms => scope.syms = below(part).map(|pair| pair.as_str()).collect(),
            _ => exprs.push(expr(r, part, &scope)?),
        }
    }
    for (i, name) in scope.dims.iter().chain(&scope.syms).enumerate() {
        if scope
            .dims
            .iter()
            .chain(&scope.syms)
            .take(i.min(64))
            .any(|other| other == name)
        {
            return Err(r.error(name, format!("`{name}` is declared twice")));
        }
    }
    Ok(AffineMap {
        dims: scope.dims.len(),
        syms: scope.syms.len(),
        exprs,
    })
}

fn expr(r: &Reading<'_>, pair: Pair<'_, Rule>, scope: &Scope<'_>) -> Result<AffineExpr, Failure> {
    let text = pair.as_str();
    let count = scope.operators.get() + 1;
    scope.operators.set(count);
    if count > OPERATORS {
        return Err(r.error(
            text,
            format!("an affine map of more than {OPERATORS} operators"),
        ));
    }
    let rule = pair.as_rule();
    let mut parts = below(pair);
    match rule {
        Rule::expr | Rule::term => {
            let Some(first) = parts.next() else {
                return Err(r.error(text, "expected an affine expression"));
            };
            let mut left = expr(r, first, scope)?;
            while let (Some(op), Some(right)) = (parts.next(), parts.next()) {
                let at = right.as_str();
                let right = expr(r, right, scope)?;
                left = binary(r, left, op.as_str(), right, at)?;
            }
            Ok(left)
        }
        _ => {
            let mut negative = false;
            for part in parts {
                let text = part.as_str();
                let found = match part.as_rule() {
                    Rule::minus => {
                        negative = !negative;
                        continue;
                    }
                    Rule::integer => {
                        let digits = if negative {
                            format!("-{text}")
                        } else {
                            text.into()
                        };
                        negative = false;
                        let number = digits.parse();
                        AffineExpr::Const(
                            number.map_err(|_| r.error(text, format!("{text} is too large")))?,
                        )
                    }
                    Rule::ident => {
                        let dim = scope.dims.iter().position(|name| *name == text);
                        let sym = scope.syms.iter().position(|name| *name == text);
                        match (dim, sym) {
                            (Some(i), _) => AffineExpr::Dim(i),
                            (_, Some(i)) => AffineExpr::Sym(i),
                            _ => {
                                let message =
                                    format!("`{text}` is not a dimension or symbol of the map");
                                return Err(r.error(text, message));
                            }
                        }
                    }
                    _ => expr(r, part, scope)?,
                };
                return Ok(if negative {
                    found * AffineExpr::Const(-1)
                } else {
                    found
                });
            }
            Err(r.error(text, "expected an affine expression"))
        }
    }
}

fn binary(
    r: &Reading<'_>,
    left: AffineExpr,
    op: &str,
    right: AffineExpr,
    at: &str,
) -> Result<AffineExpr, Failure> {
    let constant = matches!(right, AffineExpr::Const(_));
    if !constant
        && (op == "*" && !matches!(left, AffineExpr::Const(_)) || !matches!(op, "*" | "+" | "-"))
    {
        // Semi-affine: allowed where the right side is made of symbols alone.
        let mut symbolic = true;
        visit(&right, &mut |e| {
            symbolic &= !matches!(e, AffineExpr::Dim(_))
        });
        if !symbolic {
            return Err(r.error(at, format!("the right side of `{op}` holds a dimension")));
        }
    }
    if matches!(op, "floordiv" | "ceildiv" | "mod")
        && let AffineExpr::Const(n) = right
        && n <= 0
    {
        return Err(r.error(
            at,
            format!("the right side of `{op}` is {n}, expected above 0"),
        ));
    }
    let two = |l, r| (Box::new(l), Box::new(r));
    Ok(match (op, right) {
        ("+", right) => left + right,
        ("-", AffineExpr::Const(n)) => left + AffineExpr::Const(n.saturating_neg()),
        ("-", right) => left + right * AffineExpr::Const(-1),
        ("*", right) => left * right,
        ("floordiv", AffineExpr::Const(n)) => left.floor_div(n),
        ("mod", AffineExpr::Const(n)) => left.modulo(n),
        ("floordiv", right) => {
            let (l, r) = two(left, right);
            AffineExpr::FloorDiv(l, r)
        }
        ("ceildiv", right) => {
            let (l, r) = two(left, right);
            AffineExpr::CeilDiv(l, r)
        }
        (_, right) => {
            let (l, r) = two(left, right);
            AffineExpr::Mod(l, r)
        }
    })
}

fn visit(e: &AffineExpr, f: &mut dyn FnMut(&AffineExpr)) {
    f(e);
    match e {
        AffineExpr::Add(a, b)
        | AffineExpr::Mul(a, b)
        | AffineExpr::FloorDiv(a, b)
        | AffineExpr::CeilDiv(a, b)
        | AffineExpr::Mod(a, b) => {
            visit(a, f);
            visit(b, f);
        }
        _ => {}
    }
}
