//! Images in another size, one dimension at a time.

use std::borrow::Cow;

use tir::data::Array;
use tir::interp::failure;
use tir::{Data, Evaluate, Failure, OpRef};

use super::real::{Compute, Real, buffer, compute, product, result_form, tensors};
use crate::Resize;
use crate::ops::resize::{ResizeMode, Tap};

/// A dimension of a row-major array: what is outside, its size, what is inside.
struct Axis {
    outer: usize,
    input: usize,
    inner: usize,
    taps: Vec<Tap>,
}

/// The dimensions that change, in order, each with the sizes that those before it have then.
fn axes(op: &Resize, from: &[usize], to: &[usize]) -> Result<Vec<Axis>, Failure> {
    let mut shape = from.to_vec();
    let mut axes = Vec::new();
    for d in 0..shape.len() {
        let (input, output) = (shape[d], to[d]);
        let Some(taps) = op.taps(d, input as i64, output as i64) else {
            continue;
        };
        axes.push(Axis {
            outer: product(&shape[..d])?,
            input,
            inner: product(&shape[d + 1..])?,
            taps,
        });
        shape[d] = output;
    }
    Ok(axes)
}

struct Linear(Vec<Axis>);
impl Compute for Linear {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let x = inputs
            .first()
            .ok_or_else(|| Failure::from("expects an operand"))?;
        let mut now: Cow<'_, [T]> = Cow::Borrowed(x);
        for Axis {
            outer,
            input,
            inner,
            taps,
        } in &self.0
        {
            let mut next = buffer(product(&[*outer, taps.len(), *inner])?, T::ZERO)?;
            if next.is_empty() {
                return Ok(next);
            }
            let mut rows = next.chunks_exact_mut(*inner);
            for image in now.chunks_exact(input * inner) {
                for (tap, row) in taps.iter().zip(&mut rows) {
                    let (high, low) = (
                        T::of(f64::from(tap.weight)),
                        T::of(f64::from(1.0 - tap.weight)),
                    );
                    let a = &image[tap.low * inner..][..*inner];
                    let b = &image[tap.high * inner..][..*inner];
                    for (place, (a, b)) in row.iter_mut().zip(a.iter().zip(b)) {
                        *place = *a * low + *b * high;
                    }
                }
            }
            now = Cow::Owned(next);
        }
        Ok(now.into_owned())
    }
}

impl Evaluate for Resize {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (dtype, shape) = result_form(op)?;
        let [x] = tensors(inputs)?[..] else {
            return Err("expects one operand".into());
        };
        let axes = axes(self, x.shape(), &shape)?;
        if self.mode == ResizeMode::Linear {
            return compute(op, inputs, &Linear(axes));
        }
        let size = dtype.size();
        let mut now = Cow::Borrowed(x.bytes());
        for axis in &axes {
            let inner = axis.inner * size;
            let mut next = Vec::with_capacity(axis.outer * axis.taps.len() * inner);
            for o in 0..axis.outer {
                for tap in &axis.taps {
                    let start = (o * axis.input + tap.low) * inner;
                    next.extend_from_slice(&now[start..start + inner]);
                }
            }
            now = Cow::Owned(next);
        }
        let y = Array::new(dtype, &shape, now.into_owned().into()).map_err(failure)?;
        Ok(vec![y.into()])
    }
}
