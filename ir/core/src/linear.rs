//! Linear forms over iterators, maps of them, and intervals of indices.
//!
//! An [`AffineExpr`] is what text says; a [`LinearExpr`] is the normal form `Σ c(i)·d(i) + k` of
//! one without `floordiv`, `ceildiv` and `mod`. It has no fixed number of iterators: those beyond
//! its last coefficient have no part in it, so iterators can be added behind without touching it,
//! and two forms are equal exactly where they are the same function.
//!
//! Arithmetic is checked: what leaves 64 bits is `None`, never a wrong number.

use std::ops::{Deref, DerefMut};

use crate::affine::{AffineExpr, AffineMap};

/// `Σ c(i)·d(i) + k`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct LinearExpr {
    /// Coefficients; the last one is not 0.
    coefficients: Vec<i64>,
    /// The constant.
    pub constant: i64,
}

impl LinearExpr {
    /// The form with these coefficients and this constant.
    pub fn new(mut coefficients: Vec<i64>, constant: i64) -> Self {
        while coefficients.last() == Some(&0) {
            coefficients.pop();
        }
        Self {
            coefficients,
            constant,
        }
    }
    /// A number.
    pub fn number(constant: i64) -> Self {
        Self::new(Vec::new(), constant)
    }
    /// `d(d)`.
    pub fn dim(d: usize) -> Self {
        Self::term(d, 1)
    }
    /// `c·d(d)`.
    pub fn term(d: usize, c: i64) -> Self {
        let mut coefficients = vec![0; d + 1];
        coefficients[d] = c;
        Self::new(coefficients, 0)
    }
    /// The coefficient of an iterator.
    pub fn at(&self, d: usize) -> i64 {
        self.coefficients.get(d).copied().unwrap_or(0)
    }
    /// Iterators with a part in it, and their coefficients, none of which is 0.
    pub fn terms(&self) -> impl Iterator<Item = (usize, i64)> + Clone + '_ {
        let all = self.coefficients.iter().copied().enumerate();
        all.filter(|(_, c)| *c != 0)
    }
    /// Whether no iterator has a part in it.
    pub fn is_number(&self) -> bool {
        self.coefficients.is_empty()
    }
    /// The iterator that it is, if it is one.
    pub fn as_dim(&self) -> Option<usize> {
        let (d, c) = self.terms().next()?;
        (*self == Self::dim(d) && c == 1).then_some(d)
    }
    /// The same form with another constant.
    pub fn with_constant(&self, constant: i64) -> Self {
        Self {
            coefficients: self.coefficients.clone(),
            constant,
        }
    }
    /// The same form without an iterator; those behind it move up by one.
    pub fn without(&self, d: usize) -> Self {
        let mut coefficients = self.coefficients.clone();
        if d < coefficients.len() {
            coefficients.remove(d);
        }
        Self::new(coefficients, self.constant)
    }
    /// `self + other·n`.
    pub fn plus(&self, other: &Self, n: i64) -> Option<Self> {
        let count = self.coefficients.len().max(other.coefficients.len());
        let add = |a: i64, b: i64| a.checked_add(b.checked_mul(n)?);
        let sums = (0..count).map(|d| add(self.at(d), other.at(d)));
        let constant = add(self.constant, other.constant)?;
        Some(Self::new(sums.collect::<Option<_>>()?, constant))
    }
    /// `Σ form·factor`.
    pub fn sum<'a>(parts: impl IntoIterator<Item = (&'a Self, i64)>) -> Option<Self> {
        let mut all = parts.into_iter();
        all.try_fold(Self::default(), |sum, (form, n)| sum.plus(form, n))
    }
    /// The same with each iterator replaced; one without a replacement stays.
    pub fn replace(&self, dims: &[Self]) -> Option<Self> {
        let mut out = Self::number(self.constant);
        for (d, c) in self.terms() {
            out = match dims.get(d) {
                Some(form) => out.plus(form, c)?,
                None => out.plus(&Self::dim(d), c)?,
            };
        }
        Some(out)
    }
    /// The value at a point.
    pub fn eval(&self, point: &[i64]) -> Option<i64> {
        self.terms().try_fold(self.constant, |sum, (d, c)| {
            sum.checked_add(c.checked_mul(*point.get(d)?)?)
        })
    }
    /// The values over iterators that run from 0 up to their range. One without a range, or with
    /// an empty one, counts as standing at 0.
    pub fn range(&self, ranges: &[i64]) -> Option<Interval> {
        let last = |d: usize| ranges.get(d).map_or(0, |n| (n - 1).max(0));
        self.over(|d| Interval::new(0, last(d)))
    }
    /// The values over iterators in intervals.
    pub fn over(&self, dims: impl Fn(usize) -> Interval) -> Option<Interval> {
        let start = Interval::point(self.constant);
        self.terms().try_fold(start, |sum, (d, c)| {
            sum.plus(dims(d).times(Interval::point(c))?)
        })
    }

    /// How many numbers from 0 to below `size` it gives, each counted once, with `d(i)` from 0 to below
    /// `ranges[i]`. `None` where looking through all but one of its iterators takes more than 65,536
    /// steps, or where a number leaves 64 bits.
    pub fn values(&self, ranges: &[i64], size: i64) -> Option<i64> {
        const MOST: usize = 1 << 16;
        let range = |d: usize| ranges.get(d).copied();
        let (longest, stride) = self.terms().max_by_key(|(d, _)| range(*d)).unzip();
        let (stride, count) = match (stride, longest.map(range)) {
            (Some(stride), Some(count)) => (stride, count?),
            _ => (1, 1),
        };
        // Down from the last trip is up from the first.
        let first = match stride < 0 {
            true => stride.checked_mul(count.checked_sub(1)?)?,
            false => 0,
        };
        let stride = stride.checked_abs()?;
        let mut offsets = vec![self.constant.checked_add(first)?];
        for (d, c) in self.terms().filter(|(d, _)| Some(*d) != longest) {
            let trips = range(d)?.max(0);
            let all = usize::try_from(trips).ok()?.checked_mul(offsets.len())?;
            if all > MOST {
                return None;
            }
            let mut next = Vec::with_capacity(all);
            for trip in 0..trips {
                let by = c.checked_mul(trip)?;
                for offset in &offsets {
                    next.push(offset.checked_add(by)?);
                }
            }
            offsets = next;
        }
        // From each offset on, numbers a stride apart. Two offsets meet where their distance is a
        // multiple of it: of each such class, the union of ranges of trips.
        let mut spans = Vec::with_capacity(offsets.len());
        for offset in offsets {
            let (class, at) = (offset.rem_euclid(stride), offset.div_euclid(stride));
            let end = match size > class {
                true => (size - class - 1) / stride + 1,
                false => 0,
            };
            let (from, to) = (at.max(0), at.checked_add(count)?.min(end));
            if from < to {
                spans.push((class, from, to));
            }
        }
        spans.sort_unstable();
        let (mut values, mut known) = (0, (-1, 0));
        for (class, from, to) in spans {
            let from = if known.0 == class {
                from.max(known.1)
            } else {
                from
            };
            if from < to {
                values += to - from;
                known = (class, to);
            }
        }
        Some(values)
    }
}

impl AffineExpr {
    /// As a linear form of `dims` dimensions; `None` where it is not linear in them alone.
    pub fn linear(&self, dims: usize) -> Option<LinearExpr> {
        let mut coefficients = vec![0; dims];
        let mut constant = 0;
        self.add_linear(1, &mut coefficients, &mut constant)?;
        Some(LinearExpr::new(coefficients, constant))
    }

    fn add_linear(&self, factor: i64, coefficients: &mut [i64], constant: &mut i64) -> Option<()> {
        match self {
            AffineExpr::Dim(i) => {
                let c = coefficients.get_mut(*i)?;
                *c = c.checked_add(factor)?;
            }
            AffineExpr::Const(c) => *constant = constant.checked_add(c.checked_mul(factor)?)?,
            AffineExpr::Add(a, b) => {
                a.add_linear(factor, coefficients, constant)?;
                b.add_linear(factor, coefficients, constant)?;
            }
            AffineExpr::Mul(a, b) => match (&**a, &**b) {
                (AffineExpr::Const(c), e) | (e, AffineExpr::Const(c)) => {
                    e.add_linear(factor.checked_mul(*c)?, coefficients, constant)?
                }
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }
}

impl AffineMap {
    /// As linear forms; `None` if a result is not linear in the dimensions alone.
    pub fn linear(&self) -> Option<LinearMap> {
        self.exprs.iter().map(|e| e.linear(self.dims)).collect()
    }
}

impl From<&LinearExpr> for AffineExpr {
    fn from(form: &LinearExpr) -> Self {
        let sum = form.terms().fold(AffineExpr::Const(0), |sum, (d, c)| {
            sum + AffineExpr::Dim(d) * AffineExpr::Const(c)
        });
        sum + AffineExpr::Const(form.constant)
    }
}

/// A position: a linear form for each dimension.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct LinearMap(pub Vec<LinearExpr>);

impl LinearMap {
    /// Each dimension at an iterator of its own, in order.
    pub fn identity(rank: usize) -> Self {
        (0..rank).map(LinearExpr::dim).collect()
    }
    /// Whether it is the identity.
    pub fn is_identity(&self) -> bool {
        let mut all = self.iter().enumerate();
        all.all(|(d, form)| form.as_dim() == Some(d))
    }
    /// The positions of `self` at the positions of `inner`.
    pub fn compose(&self, inner: &LinearMap) -> Option<Self> {
        self.iter().map(|form| form.replace(inner)).collect()
    }
    /// As a map of so many iterators.
    pub fn affine(&self, dims: usize) -> AffineMap {
        AffineMap::new(dims, self.iter().map(AffineExpr::from).collect())
    }
    /// Whether an iterator has a part in some dimension.
    pub fn uses(&self, d: usize) -> bool {
        self.iter().any(|form| form.at(d) != 0)
    }
}
impl Deref for LinearMap {
    type Target = Vec<LinearExpr>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
impl DerefMut for LinearMap {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
impl FromIterator<LinearExpr> for LinearMap {
    fn from_iter<T: IntoIterator<Item = LinearExpr>>(forms: T) -> Self {
        Self(forms.into_iter().collect())
    }
}

/// The indices from `low` to `high`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interval {
    /// The lowest.
    pub low: i64,
    /// The highest; not below `low`.
    pub high: i64,
}

impl Interval {
    /// The indices between two, both included, in either order.
    pub fn new(a: i64, b: i64) -> Self {
        Self {
            low: a.min(b),
            high: a.max(b),
        }
    }
    /// One index.
    pub fn point(n: i64) -> Self {
        Self::new(n, n)
    }
    /// Sums.
    pub fn plus(self, other: Self) -> Option<Self> {
        Some(Self {
            low: self.low.checked_add(other.low)?,
            high: self.high.checked_add(other.high)?,
        })
    }
    /// Differences.
    pub fn minus(self, other: Self) -> Option<Self> {
        Some(Self {
            low: self.low.checked_sub(other.high)?,
            high: self.high.checked_sub(other.low)?,
        })
    }
    /// Products.
    pub fn times(self, other: Self) -> Option<Self> {
        let product = |a: i64, b: i64| a.checked_mul(b);
        let all = [
            product(self.low, other.low)?,
            product(self.low, other.high)?,
            product(self.high, other.low)?,
            product(self.high, other.high)?,
        ];
        let (low, high) = (all.iter().min()?, all.iter().max()?);
        Some(Self::new(*low, *high))
    }
    /// Whether all are indices of `size` elements.
    pub fn is_inside(self, size: i64) -> bool {
        self.low >= 0 && self.high < size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_equal_where_the_functions_are() {
        let long = LinearExpr::new(vec![2, 0, 0], 1);
        assert_eq!(long, LinearExpr::new(vec![2], 1));
        assert_eq!(LinearExpr::dim(3).as_dim(), Some(3));
        assert_eq!(LinearExpr::term(3, 2).as_dim(), None);
        assert_eq!(LinearExpr::dim(3).with_constant(1).as_dim(), None);
    }

    #[test]
    fn replacing_is_composition() {
        // 3·d0 + d1 + 4 at d0 = d1 + 1, d1 = 2·d0
        let outer = LinearExpr::new(vec![3, 1], 4);
        let inner = [LinearExpr::new(vec![0, 1], 1), LinearExpr::term(0, 2)];
        let both = outer.replace(&inner).unwrap();
        assert_eq!(both, LinearExpr::new(vec![2, 3], 7));
        assert_eq!(both.eval(&[5, 6]), outer.eval(&[7, 10]));
    }

    #[test]
    fn values_are_those_that_points_give() {
        let mut seed = 1u64;
        let mut draw = |below: i64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) as i64 % below
        };
        for _ in 0..3000 {
            let form = LinearExpr::new(vec![draw(7) - 3, draw(7) - 3, draw(5) - 2], draw(13) - 6);
            let (ranges, size) = ([draw(6), draw(6), draw(4)], draw(20));
            let mut reached = std::collections::BTreeSet::new();
            for i in 0..ranges[0] {
                for j in 0..ranges[1] {
                    for k in 0..ranges[2] {
                        reached.extend(form.eval(&[i, j, k]).filter(|v| (0..size).contains(v)));
                    }
                }
            }
            // Iterators without a part in it may have no trips: what counts is the form.
            let trips = form.terms().all(|(d, _)| ranges[d] > 0) && ranges.contains(&0);
            if !trips {
                assert_eq!(
                    form.values(&ranges, size),
                    Some(reached.len() as i64),
                    "{form:?} {ranges:?} {size}"
                );
            }
        }
        let wide = LinearExpr::new(vec![1, 1 << 20], 0);
        assert_eq!(wide.values(&[1 << 20, 1 << 17], i64::MAX), None);
        assert_eq!(
            LinearExpr::dim(0).values(&[1 << 40], 1 << 39),
            Some(1 << 39)
        );
    }

    #[test]
    fn ranges_take_the_sign_of_each_coefficient() {
        let form = LinearExpr::new(vec![2, -3], 1);
        assert_eq!(form.range(&[4, 3]), Some(Interval::new(-5, 7)));
        // an empty range counts as one that stands at 0
        assert_eq!(form.range(&[0, 3]), Some(Interval::new(-5, 1)));
    }

    #[test]
    fn what_leaves_64_bits_is_none() {
        let form = LinearExpr::term(0, i64::MAX);
        assert_eq!(form.plus(&form, 1), None);
        assert_eq!(form.range(&[3]), None);
        assert_eq!(form.replace(&[LinearExpr::term(0, 2)]), None);
        assert_eq!(Interval::point(i64::MIN).times(Interval::point(-1)), None);
    }
}
