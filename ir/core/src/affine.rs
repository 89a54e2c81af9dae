//! Affine expressions and maps: the index arithmetic of `tensor` and `memref`.

use std::fmt::{self, Display, Write};
use std::ops::{Add, Mul};

use crate::linear::{LinearExpr, LinearMap};

/// An expression over dimensions and symbols. Built through the operators and methods, which
/// keep sums and products in a simple form.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AffineExpr {
    /// `d0`: an iterator.
    Dim(usize),
    /// `s0`: a symbol.
    Sym(usize),
    /// A number.
    Const(i64),
    /// A sum.
    Add(Box<AffineExpr>, Box<AffineExpr>),
    /// A product; one side is a number in what is affine.
    Mul(Box<AffineExpr>, Box<AffineExpr>),
    /// `floordiv`.
    FloorDiv(Box<AffineExpr>, Box<AffineExpr>),
    /// `ceildiv`.
    CeilDiv(Box<AffineExpr>, Box<AffineExpr>),
    /// `mod`, never negative.
    Mod(Box<AffineExpr>, Box<AffineExpr>),
}
use AffineExpr as E;

impl AffineExpr {
    /// `self floordiv n`.
    pub fn floor_div(self, n: i64) -> Self {
        match self {
            E::Const(a) if n > 0 => E::Const(a.div_euclid(n)),
            e if n == 1 => e,
            e => E::FloorDiv(Box::new(e), Box::new(E::Const(n))),
        }
    }

    /// `self mod n`.
    pub fn modulo(self, n: i64) -> Self {
        match self {
            E::Const(a) if n > 0 => E::Const(a.rem_euclid(n)),
            _ if n == 1 => E::Const(0),
            e => E::Mod(Box::new(e), Box::new(E::Const(n))),
        }
    }

    /// The value for these dimensions and symbols; `None` for a missing one, a division by zero
    /// or below, or an overflow.
    pub fn eval(&self, dims: &[i64], syms: &[i64]) -> Option<i64> {
        Some(match self {
            E::Dim(i) => *dims.get(*i)?,
            E::Sym(i) => *syms.get(*i)?,
            E::Const(c) => *c,
            E::Add(a, b) => a.eval(dims, syms)?.checked_add(b.eval(dims, syms)?)?,
            E::Mul(a, b) => a.eval(dims, syms)?.checked_mul(b.eval(dims, syms)?)?,
            E::FloorDiv(a, b) => {
                let n = b.eval(dims, syms).filter(|n| *n > 0)?;
                a.eval(dims, syms)?.div_euclid(n)
            }
            E::CeilDiv(a, b) => {
                let n = b.eval(dims, syms).filter(|n| *n > 0)?;
                -(a.eval(dims, syms)?.checked_neg()?.div_euclid(n))
            }
            E::Mod(a, b) => {
                let n = b.eval(dims, syms).filter(|n| *n > 0)?;
                a.eval(dims, syms)?.rem_euclid(n)
            }
        })
    }

    /// As a linear form of `dims` dimensions; `None` where it is not linear in them alone.
    pub fn linear(&self, dims: usize) -> Option<LinearExpr> {
        let mut coefficients = vec![0; dims];
        let mut constant = 0;
        self.add_linear(1, &mut coefficients, &mut constant)?;
        Some(LinearExpr::new(coefficients, constant))
    }

    fn add_linear(&self, factor: i64, coefficients: &mut [i64], constant: &mut i64) -> Option<()> {
        match self {
            E::Dim(i) => {
                let c = coefficients.get_mut(*i)?;
                *c = c.checked_add(factor)?;
            }
            E::Const(c) => *constant = constant.checked_add(c.checked_mul(factor)?)?,
            E::Add(a, b) => {
                a.add_linear(factor, coefficients, constant)?;
                b.add_linear(factor, coefficients, constant)?;
            }
            E::Mul(a, b) => match (&**a, &**b) {
                (E::Const(c), e) | (e, E::Const(c)) => {
                    e.add_linear(factor.checked_mul(*c)?, coefficients, constant)?
                }
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }

    /// With every dimension replaced.
    pub fn replace(&self, dims: &[AffineExpr]) -> Self {
        let two = |a: &E, b: &E| (Box::new(a.replace(dims)), Box::new(b.replace(dims)));
        match self {
            E::Dim(i) => dims.get(*i).cloned().unwrap_or(E::Dim(*i)),
            E::Sym(_) | E::Const(_) => self.clone(),
            E::Add(a, b) => a.replace(dims) + b.replace(dims),
            E::Mul(a, b) => a.replace(dims) * b.replace(dims),
            E::FloorDiv(a, b) => match (a.replace(dims), b.replace(dims)) {
                (a, E::Const(n)) => a.floor_div(n),
                (a, b) => E::FloorDiv(Box::new(a), Box::new(b)),
            },
            E::CeilDiv(a, b) => {
                let (a, b) = two(a, b);
                E::CeilDiv(a, b)
            }
            E::Mod(a, b) => match (a.replace(dims), b.replace(dims)) {
                (a, E::Const(n)) => a.modulo(n),
                (a, b) => E::Mod(Box::new(a), Box::new(b)),
            },
        }
    }

    /// Whether the dimension appears.
    pub fn uses(&self, dim: usize) -> bool {
        match self {
            E::Dim(i) => *i == dim,
            E::Sym(_) | E::Const(_) => false,
            E::Add(a, b) | E::Mul(a, b) | E::FloorDiv(a, b) | E::CeilDiv(a, b) | E::Mod(a, b) => {
                a.uses(dim) || b.uses(dim)
            }
        }
    }
}

impl Add for AffineExpr {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        match (self, other) {
            (E::Const(a), E::Const(b)) => E::Const(a.saturating_add(b)),
            (E::Const(0), e) | (e, E::Const(0)) => e,
            (E::Const(c), e) => E::Add(Box::new(e), Box::new(E::Const(c))),
            (a, b) => E::Add(Box::new(a), Box::new(b)),
        }
    }
}
impl Mul for AffineExpr {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        match (self, other) {
            (E::Const(a), E::Const(b)) => E::Const(a.saturating_mul(b)),
            (E::Const(0), _) | (_, E::Const(0)) => E::Const(0),
            (E::Const(1), e) | (e, E::Const(1)) => e,
            (E::Const(c), e) => E::Mul(Box::new(e), Box::new(E::Const(c))),
            (a, b) => E::Mul(Box::new(a), Box::new(b)),
        }
    }
}

impl AffineExpr {
    fn strength(&self) -> u8 {
        match self {
            E::Add(..) => 1,
            E::Dim(_) | E::Sym(_) | E::Const(_) => 3,
            _ => 2,
        }
    }
    fn write(&self, f: &mut fmt::Formatter<'_>, least: u8) -> fmt::Result {
        let parens = self.strength() < least;
        if parens {
            f.write_char('(')?;
        }
        let mut infix = |a: &E, op: &str, b: &E, left: u8, right: u8| {
            a.write(f, left)?;
            f.write_str(op)?;
            b.write(f, right)
        };
        match self {
            E::Dim(i) => write!(f, "d{i}")?,
            E::Sym(i) => write!(f, "s{i}")?,
            E::Const(c) => write!(f, "{c}")?,
            E::Add(a, b) => match &**b {
                E::Const(c) if *c < 0 && *c != i64::MIN => infix(a, " - ", &E::Const(-c), 1, 2)?,
                _ => infix(a, " + ", b, 1, 1)?,
            },
            E::Mul(a, b) => infix(a, " * ", b, 2, 3)?,
            E::FloorDiv(a, b) => infix(a, " floordiv ", b, 2, 3)?,
            E::CeilDiv(a, b) => infix(a, " ceildiv ", b, 2, 3)?,
            E::Mod(a, b) => infix(a, " mod ", b, 2, 3)?,
        }
        if parens {
            f.write_char(')')?;
        }
        Ok(())
    }
}
impl Display for AffineExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

/// `(d0, d1)[s0] -> (d0 + s0, d1)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AffineMap {
    /// Number of dimensions.
    pub dims: usize,
    /// Number of symbols.
    pub syms: usize,
    /// The results.
    pub exprs: Vec<AffineExpr>,
}

impl AffineMap {
    /// A map without symbols; the results use only its dimensions.
    pub fn new(dims: usize, exprs: Vec<AffineExpr>) -> Self {
        Self {
            dims,
            syms: 0,
            exprs,
        }
    }
    /// `(d0, …) -> (d0, …)`.
    pub fn identity(dims: usize) -> Self {
        Self::new(dims, (0..dims).map(E::Dim).collect())
    }
    /// `(d0, …) -> (the chosen ones)`.
    pub fn project(dims: usize, chosen: &[usize]) -> Self {
        Self::new(dims, chosen.iter().map(|&d| E::Dim(d)).collect())
    }
    /// Whether it is the identity.
    pub fn is_identity(&self) -> bool {
        self.syms == 0 && *self == Self::identity(self.dims)
    }
    /// The dimensions that are its results, if each result is a plain dimension used once.
    pub fn as_projection(&self) -> Option<Vec<usize>> {
        let mut seen = vec![false; self.dims];
        let dim = |e: &E| match e {
            E::Dim(d) if *d < self.dims && !std::mem::replace(&mut seen[*d], true) => Some(*d),
            _ => None,
        };
        self.exprs.iter().map(dim).collect()
    }
    /// Whether it is a reordering of all its dimensions.
    pub fn is_permutation(&self) -> bool {
        self.exprs.len() == self.dims && self.as_projection().is_some()
    }
    /// As linear forms; `None` if a result is not linear in the dimensions alone.
    pub fn linear(&self) -> Option<LinearMap> {
        self.exprs.iter().map(|e| e.linear(self.dims)).collect()
    }
    /// The results for these dimensions.
    pub fn eval(&self, dims: &[i64]) -> Option<Vec<i64>> {
        self.exprs.iter().map(|e| e.eval(dims, &[])).collect()
    }
    /// `self ∘ inner`: the results of `inner` are the dimensions of `self`.
    pub fn compose(&self, inner: &AffineMap) -> Self {
        let exprs = self.exprs.iter().map(|e| e.replace(&inner.exprs)).collect();
        Self {
            dims: inner.dims,
            syms: inner.syms.max(self.syms),
            exprs,
        }
    }
}
impl Display for AffineMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('(')?;
        crate::fmt::comma(f, (0..self.dims).map(|i| format!("d{i}")))?;
        f.write_char(')')?;
        if self.syms > 0 {
            f.write_char('[')?;
            crate::fmt::comma(f, (0..self.syms).map(|i| format!("s{i}")))?;
            f.write_char(']')?;
        }
        f.write_str(" -> (")?;
        crate::fmt::comma(f, &self.exprs)?;
        f.write_char(')')
    }
}
