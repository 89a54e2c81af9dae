//! Positions that are linear in iterators, written so that iterators can be added behind.

use tir::{AffineExpr, AffineMap};

/// `Σ c[i]·d(i) + k`; iterators beyond the list have no part in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Coefficients.
    pub c: Vec<i64>,
    /// The constant.
    pub k: i64,
}

impl Row {
    /// A number.
    pub fn number(k: i64) -> Self {
        Self { c: Vec::new(), k }
    }
    /// An iterator.
    pub fn dim(d: usize) -> Self {
        let mut c = vec![0; d + 1];
        c[d] = 1;
        Self { c, k: 0 }
    }
    /// The coefficient of an iterator.
    pub fn at(&self, d: usize) -> i64 {
        self.c.get(d).copied().unwrap_or(0)
    }
    /// Iterators with a part in it, and their coefficients.
    pub fn terms(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        self.c.iter().copied().enumerate().filter(|(_, c)| *c != 0)
    }
    /// The iterator that it is, if it is one.
    pub fn as_dim(&self) -> Option<usize> {
        let mut terms = self.terms();
        let first = terms.next()?;
        (terms.next().is_none() && first.1 == 1 && self.k == 0).then_some(first.0)
    }
    /// `self += other · n`.
    fn add(&mut self, other: &Row, n: i64) {
        if self.c.len() < other.c.len() {
            self.c.resize(other.c.len(), 0);
        }
        for (to, c) in self.c.iter_mut().zip(&other.c) {
            *to += c * n;
        }
        self.k += other.k * n;
        self.trim();
    }
    fn trim(&mut self) {
        while self.c.last() == Some(&0) {
            self.c.pop();
        }
    }
    /// The same with each iterator replaced.
    pub fn replace(&self, dims: &[Row]) -> Row {
        let mut out = Row::number(self.k);
        for (d, c) in self.terms() {
            match dims.get(d) {
                Some(row) => out.add(row, c),
                None => out.add(&Row::dim(d), c),
            }
        }
        out
    }
    /// `Σ rows · factors`.
    pub fn sum(parts: impl IntoIterator<Item = (Row, i64)>) -> Row {
        let mut out = Row::default();
        for (row, n) in parts {
            out.add(&row, n);
        }
        out
    }
    /// Least and greatest value over iterators from 0 up to their range.
    pub fn range(&self, domain: &[i64]) -> (i64, i64) {
        let (mut low, mut high) = (self.k, self.k);
        for (d, c) in self.terms() {
            let reach = c * (domain.get(d).copied().unwrap_or(1) - 1).max(0);
            low += reach.min(0);
            high += reach.max(0);
        }
        (low, high)
    }
    /// As an expression.
    pub fn expr(&self) -> AffineExpr {
        let mut form = self.c.clone();
        form.push(self.k);
        AffineExpr::from_linear(&form)
    }
}

/// A position: a row for each dimension.
pub type Rows = Vec<Row>;

/// The rows of a map; `None` if it is not linear.
pub fn rows(map: &AffineMap) -> Option<Rows> {
    let row = |e: &AffineExpr| {
        let mut c = e.linear(map.dims)?;
        let k = c.pop()?;
        let mut row = Row { c, k };
        row.trim();
        Some(row)
    };
    map.exprs.iter().map(row).collect()
}

/// The map of so many iterators.
pub fn map(dims: usize, rows: &[Row]) -> AffineMap {
    AffineMap::new(dims, rows.iter().map(Row::expr).collect())
}

/// `outer` at the positions of `inner`.
pub fn compose(outer: &[Row], inner: &[Row]) -> Rows {
    outer.iter().map(|row| row.replace(inner)).collect()
}

/// Whether each position is at an iterator of its own, in order.
pub fn is_identity(rows: &[Row]) -> bool {
    let mut all = rows.iter().enumerate();
    all.all(|(i, row)| row.as_dim() == Some(i))
}
