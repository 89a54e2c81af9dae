//! Pooling.

use std::borrow::Cow;

use tir::{Data, Evaluate, Failure, OpRef};

use super::real::{Compute, Real, buffer, compute, product, size};
use crate::shape::{Window, ranked};
use crate::{AvgPool, GlobalAvgPool, MaxPool};

/// What is computed of a window.
enum Kind {
    Max,
    /// Whether padding counts.
    Mean(bool),
}

struct Pool {
    kind: Kind,
    images: usize,
    input: [usize; 2],
    windows: [Window; 2],
}

impl Window {
    /// The elements of window `at` that lie in the input: the first and the behind last, in steps
    /// of the dilation.
    pub(crate) fn inside(&self, at: i64) -> impl Iterator<Item = usize> + Clone {
        let start = at * self.stride - self.low;
        let all = (0..self.kernel).map(move |k| start + k * self.dilation);
        let input = self.input;
        all.filter(move |i| (0..input).contains(i))
            .map(|i| i as usize)
    }
    /// The elements that an average divides by: those inside of the input, or inside of the
    /// padded input. A window that sticks out of the padding (`ceil_mode`) counts only what is
    /// inside of it.
    pub fn count(&self, at: i64, padding: bool) -> usize {
        if !padding {
            return self.inside(at).count();
        }
        let start = at * self.stride - self.low;
        let end = self.input + self.high;
        let all = (0..self.kernel).map(|k| start + k * self.dilation);
        all.filter(|i| *i < end).count()
    }
}

impl Compute for Pool {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let x = inputs
            .first()
            .ok_or_else(|| Failure::from("expects an operand"))?;
        let [rows, cols] = &self.windows;
        let (height, width) = (rows.output()?, cols.output()?);
        let area = product(&[size(height)?, size(width)?])?;
        let image = self.input[0] * self.input[1];
        let mut y = buffer(product(&[self.images, area])?, T::ZERO)?;
        if area == 0 || image == 0 {
            return Ok(y);
        }
        for (x, y) in x.chunks_exact(image).zip(y.chunks_exact_mut(area)) {
            let mut places = y.iter_mut();
            for r in 0..height {
                for (c, place) in (0..width).zip(&mut places) {
                    let lines = rows.inside(r).map(|i| &x[i * self.input[1]..]);
                    let inside = cols.inside(c);
                    let values = lines.flat_map(|line| inside.clone().map(|j| line[j]));
                    *place = match self.kind {
                        Kind::Max => values.fold(T::LOWEST, T::maximum),
                        Kind::Mean(padding) => {
                            let count = rows.count(r, padding) * cols.count(c, padding);
                            values.fold(T::ZERO, |s, v| s + v) / T::of(count as f64)
                        }
                    };
                }
            }
        }
        Ok(y)
    }
}

fn pool(
    op: OpRef<'_>,
    inputs: &[Data],
    kind: Kind,
    x: tir::Value,
    windows: [Window; 2],
) -> Result<Vec<Data>, Failure> {
    let ([n, c, h, w], _) = ranked(op, x, "x")?;
    let pool = Pool {
        kind,
        images: product(&[size(n)?, size(c)?])?,
        input: [size(h)?, size(w)?],
        windows,
    };
    compute(op, inputs, &pool)
}

impl Evaluate for MaxPool {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        pool(op, inputs, Kind::Max, self.x, self.windows(op)?)
    }
}
impl Evaluate for AvgPool {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let kind = Kind::Mean(self.count_include_pad);
        pool(op, inputs, kind, self.x, self.windows(op)?)
    }
}

struct Mean {
    /// Elements of an image.
    image: usize,
    images: usize,
}
impl Compute for Mean {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let x = inputs
            .first()
            .ok_or_else(|| Failure::from("expects an operand"))?;
        let mean = |i: usize| {
            let image = &x[i * self.image..(i + 1) * self.image];
            image.iter().fold(T::ZERO, |s, v| s + *v) / T::of(self.image as f64)
        };
        Ok((0..self.images).map(mean).collect())
    }
}
impl Evaluate for GlobalAvgPool {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let ([n, c, h, w], _) = ranked(op, self.x, "x")?;
        let mean = Mean {
            image: product(&[size(h)?, size(w)?])?,
            images: product(&[size(n)?, size(c)?])?,
        };
        compute(op, inputs, &mean)
    }
}
