//! Convolutions and matrix products.

use std::borrow::Cow;
use std::num::Wrapping;

use tir::{Data, Evaluate, Failure, OpRef, Value};

use super::panel::{LANES, dot, rows};
use super::real::{
    Compute, Real, Ring, buffer, compute, compute_whole, product, result_form, size,
};
use crate::shape::{Window, axis, broadcast, ranked, tensor};
use crate::{Conv2d, Conv2dInteger, Gemm, MatMul, MatMulInteger, ModeProduct};

impl Evaluate for Conv2d {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let conv = Conv::new(op, [self.x, self.w], self.groups, self.windows(op)?)?;
        compute(op, inputs, &conv)
    }
}
impl Evaluate for Conv2dInteger {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let conv = Conv::new(op, [self.x, self.w], self.groups, self.windows(op)?)?;
        let padding = Wrapping(self.padding as i32);
        compute_whole(op, inputs, |inputs| conv.sums(inputs, padding))
    }
}

struct Conv {
    batch: usize,
    channels: usize,
    outputs: usize,
    groups: usize,
    input: [usize; 2],
    windows: [Window; 2],
}

/// One dimension of a window: which phases of the stride its elements fall on.
///
/// Element `k` reads input `out · stride + k · dilation - low`. With `k · dilation = q · stride +
/// p`, that is element `out + q` of phase `p`: every `stride`-th input from `p - low` on. So a
/// strided convolution is one without stride over the phases.
struct Axis {
    window: Window,
    out: usize,
    /// Elements of a phase.
    len: usize,
    /// The phases that are read.
    phases: Vec<i64>,
    /// For each element of the window, which phase (as an index into `phases`) and how far in it.
    taps: Vec<(usize, usize)>,
}

impl Axis {
    fn new(window: Window) -> Result<Self, Failure> {
        let out = size(window.output()?)?;
        let (mut phases, mut taps) = (Vec::new(), Vec::new());
        let mut reach = 0;
        for k in 0..window.kernel {
            let at = k * window.dilation;
            let (q, p) = (size(at / window.stride)?, at % window.stride);
            let phase = phases.iter().position(|known| *known == p);
            let phase = phase.unwrap_or_else(|| {
                phases.push(p);
                phases.len() - 1
            });
            taps.push((phase, q));
            reach = reach.max(q);
        }
        Ok(Self {
            window,
            out,
            len: out + reach,
            phases,
            taps,
        })
    }

    /// The elements of a phase that lie in the input: the first one, and where it is read.
    fn inside(&self, phase: i64, input: usize) -> (usize, usize, usize) {
        let Window { stride, low, .. } = self.window;
        let start = phase - low;
        // The first element that is not before the input.
        let first = if start < 0 {
            (-start).div_ceil_to(stride)
        } else {
            0
        };
        let source = start + first * stride;
        let input = input as i64;
        let count = if source < input {
            (input - source).div_ceil_to(stride)
        } else {
            0
        };
        let first = (first as usize).min(self.len);
        (
            first,
            source as usize,
            (count as usize).min(self.len - first),
        )
    }
}

trait CeilDiv {
    fn div_ceil_to(self, by: Self) -> Self;
}
impl CeilDiv for i64 {
    /// For positive numbers.
    fn div_ceil_to(self, by: i64) -> i64 {
        (self - 1) / by + 1
    }
}

impl Compute for Conv {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        self.sums(inputs, T::ZERO)
    }
}

impl Conv {
    fn new(
        op: OpRef<'_>,
        [x, w]: [Value; 2],
        groups: i64,
        windows: [Window; 2],
    ) -> Result<Self, Failure> {
        let ([n, c, height, width], _) = ranked(op, x, "x")?;
        let ([o, ..], _) = ranked::<4>(op, w, "w")?;
        Ok(Self {
            batch: size(n)?,
            channels: size(c)?,
            outputs: size(o)?,
            groups: size(groups)?.max(1),
            input: [size(height)?, size(width)?],
            windows,
        })
    }

    /// The sums of products, with `padding` around the input.
    fn sums<T: Ring>(&self, inputs: &[Cow<'_, [T]>], padding: T) -> Result<Vec<T>, Failure> {
        let [x, w, bias @ ..] = inputs else {
            return Err("expects an input and weights".into());
        };
        let bias = bias.first();
        let [rows_axis, cols] = self.windows.map(Axis::new);
        let (rows_axis, cols) = (rows_axis?, cols?);
        let (per_group, out_group) = (self.channels / self.groups, self.outputs / self.groups);
        let plane = product(&[rows_axis.len, cols.len])?;
        let planes = product(&[per_group, rows_axis.phases.len(), cols.phases.len()])?;
        let offsets = self.offsets(&rows_axis, &cols, per_group, plane);
        let mut padded = buffer(product(&[planes, plane])? + LANES, padding)?;
        let area = rows_axis.out * cols.out;
        let mut y = buffer(product(&[self.batch, self.outputs, area])?, T::ZERO)?;
        if y.is_empty() {
            return Ok(y);
        }
        if offsets.is_empty() {
            // Without input channels there is nothing to add the bias to.
            for (i, y) in y.chunks_exact_mut(area).enumerate() {
                let bias = bias.and_then(|b| b.get(i % self.outputs)).copied();
                y.fill(bias.unwrap_or(T::ZERO));
            }
            return Ok(y);
        }
        let len = (rows_axis.out - 1) * cols.len + cols.out;
        let image = self.input[0] * self.input[1];
        for n in 0..self.batch {
            for g in 0..self.groups {
                for c in 0..per_group {
                    let channel = (n * self.channels + g * per_group + c) * image;
                    let size = planes / per_group * plane;
                    let target = &mut padded[c * size..(c + 1) * size];
                    self.fill(&x[channel..channel + image], target, &rows_axis, &cols);
                }
                let first = g * out_group;
                let weights = &w[first * offsets.len()..(first + out_group) * offsets.len()];
                rows(weights, &offsets, &padded, len, |o, values| {
                    let o = first + o;
                    let bias = bias.and_then(|b| b.get(o)).copied().unwrap_or(T::ZERO);
                    let y = &mut y[(n * self.outputs + o) * area..][..area];
                    // Between the rows lies what only the padded input has.
                    for (to, from) in y.chunks_exact_mut(cols.out).zip(values.chunks(cols.len)) {
                        for (to, from) in to.iter_mut().zip(from) {
                            *to = *from + bias;
                        }
                    }
                })?;
            }
        }
        Ok(y)
    }

    /// Where each element of the window starts to read, for all channels of a group.
    fn offsets(&self, rows: &Axis, cols: &Axis, channels: usize, plane: usize) -> Vec<usize> {
        let mut offsets = Vec::with_capacity(channels * rows.taps.len() * cols.taps.len());
        for c in 0..channels {
            for (row_phase, down) in &rows.taps {
                for (col_phase, right) in &cols.taps {
                    let index = (c * rows.phases.len() + row_phase) * cols.phases.len() + col_phase;
                    offsets.push(index * plane + down * cols.len + right);
                }
            }
        }
        offsets
    }

    /// Puts a channel into its phases; what is around it stays as it is.
    fn fill<T: Ring>(&self, image: &[T], target: &mut [T], rows: &Axis, cols: &Axis) {
        let [height, width] = self.input;
        let plane = rows.len * cols.len;
        let mut planes = target.chunks_exact_mut(plane);
        for row_phase in &rows.phases {
            let (top, source_row, count) = rows.inside(*row_phase, height);
            for (col_phase, plane) in cols.phases.iter().zip(&mut planes) {
                let (left, source_col, wide) = cols.inside(*col_phase, width);
                let (down, step) = (rows.window.stride as usize, cols.window.stride as usize);
                if wide == 0 {
                    continue;
                }
                for r in 0..count {
                    let source = &image[(source_row + r * down) * width + source_col..];
                    let target = &mut plane[(top + r) * cols.len + left..][..wide];
                    for (to, from) in target.iter_mut().zip(source.iter().step_by(step)) {
                        *to = *from;
                    }
                }
            }
        }
    }
}

impl Evaluate for MatMul {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        compute(op, inputs, &Product::new(op, self.a, self.b)?)
    }
}
impl Evaluate for MatMulInteger {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let product = Product::new(op, self.a, self.b)?;
        compute_whole(op, inputs, |inputs| product.both(inputs))
    }
}
impl Evaluate for ModeProduct {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (shape, _) = tensor(op, self.x, "x")?;
        let ([m, k], _) = ranked::<2>(op, self.m, "m")?;
        let shape: Result<Vec<usize>, _> = shape.iter().map(|d| size(*d)).collect();
        let shape = shape?;
        let at = axis(self.axis, shape.len())?;
        let (outer, inner) = (&shape[..at], &shape[at + 1..]);
        let along = Along(Product {
            m: size(m)?,
            k: size(k)?,
            n: product(inner)?,
            pairs: (0..product(outer)?).map(|at| (0, at)).collect(),
        });
        compute(op, inputs, &along)
    }
}

/// A matrix, given second, times matrices.
struct Along(Product);
impl Compute for Along {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let [x, m, ..] = inputs else {
            return Err("expects a tensor and a matrix".into());
        };
        self.0.sums(m, x)
    }
}

/// Products of matrices: which of `a` with which of `b`.
struct Product {
    m: usize,
    k: usize,
    n: usize,
    pairs: Vec<(usize, usize)>,
}
impl Compute for Product {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        self.both(inputs)
    }
}

impl Product {
    fn new(op: OpRef<'_>, a: Value, b: Value) -> Result<Self, Failure> {
        let (a, _) = tensor(op, a, "a")?;
        let (b, _) = tensor(op, b, "b")?;
        let (Some((a_outer, &[m, k])), Some((b_outer, &[_, n]))) =
            (a.split_last_chunk::<2>(), b.split_last_chunk::<2>())
        else {
            return Err("expects matrices".into());
        };
        let outer = broadcast(a_outer, b_outer)?;
        let unsigned = |shape: &[i64]| {
            shape
                .iter()
                .map(|d| size(*d))
                .collect::<Result<Vec<_>, _>>()
        };
        let (outer, a_outer, b_outer) = (unsigned(&outer)?, unsigned(a_outer)?, unsigned(b_outer)?);
        Ok(Self {
            m: size(m)?,
            k: size(k)?,
            n: size(n)?,
            pairs: (0..product(&outer)?)
                .map(|i| {
                    (
                        super::elementwise::source(i, &outer, &a_outer),
                        super::elementwise::source(i, &outer, &b_outer),
                    )
                })
                .collect(),
        })
    }

    fn both<T: Ring>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let [a, b, ..] = inputs else {
            return Err("expects two matrices".into());
        };
        self.sums(a, b)
    }

    fn sums<T: Ring>(&self, a: &[T], b: &[T]) -> Result<Vec<T>, Failure> {
        let &Self { m, k, n, .. } = self;
        let mut out = buffer(product(&[self.pairs.len(), m, n])?, T::ZERO)?;
        let offsets: Vec<usize> = (0..k).map(|t| t * n).collect();
        let mut right = buffer(product(&[k, n])? + LANES, T::ZERO)?;
        if k == 0 || m * n == 0 {
            return Ok(out);
        }
        for ((i, j), out) in self.pairs.iter().zip(out.chunks_exact_mut(m * n)) {
            right[..k * n].copy_from_slice(&b[j * k * n..(j + 1) * k * n]);
            let left = &a[i * m * k..(i + 1) * m * k];
            rows(left, &offsets, &right, n, |row, values| {
                out[row * n..(row + 1) * n].copy_from_slice(values);
            })?;
        }
        Ok(out)
    }
}

impl Evaluate for Gemm {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let ([rows, cols], _) = ranked::<2>(op, self.a, "a")?;
        let (_, shape) = result_form(op)?;
        let &[m, n] = &shape[..] else {
            return Err("expects a matrix as result".into());
        };
        let addend = match self.c {
            Some(c) => tensor(op, c, "c")?.0,
            None => Vec::new(),
        };
        let affine = Affine {
            product: Product {
                m,
                k: size(if self.trans_a { rows } else { cols })?,
                n,
                pairs: vec![(0, 0)],
            },
            trans_a: self.trans_a,
            trans_b: self.trans_b,
            addend: addend.iter().map(|d| size(*d)).collect::<Result<_, _>>()?,
        };
        compute(op, inputs, &affine)
    }
}

struct Affine {
    product: Product,
    trans_a: bool,
    trans_b: bool,
    /// The shape of `c`.
    addend: Vec<usize>,
}
impl Compute for Affine {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let [a, b, c @ ..] = inputs else {
            return Err("expects two matrices".into());
        };
        let &Product { m, k, n, .. } = &self.product;
        let a = match self.trans_a {
            true => Cow::Owned(transposed(a, k, m)?),
            false => Cow::Borrowed(&a[..]),
        };
        let mut out = if self.trans_b {
            let mut out = buffer(product(&[m, n])?, T::ZERO)?;
            if k > 0 && n > 0 {
                for (row, out) in a.chunks_exact(k).zip(out.chunks_exact_mut(n)) {
                    for (col, out) in b.chunks_exact(k).zip(out) {
                        *out = dot(row, col);
                    }
                }
            }
            out
        } else {
            self.product.run(&[a, Cow::Borrowed(&b[..])])?
        };
        if let Some(c) = c.first() {
            for (i, out) in out.iter_mut().enumerate() {
                *out = *out + c[super::elementwise::source(i, &[m, n], &self.addend)];
            }
        }
        Ok(out)
    }
}

/// The transpose of a matrix of so many rows and columns.
fn transposed<T: Real>(x: &[T], rows: usize, cols: usize) -> Result<Vec<T>, Failure> {
    let mut out = buffer(product(&[rows, cols])?, T::ZERO)?;
    for (r, row) in x.chunks_exact(cols.max(1)).enumerate() {
        for (c, value) in row.iter().enumerate() {
            out[c * rows + r] = *value;
        }
    }
    Ok(out)
}
