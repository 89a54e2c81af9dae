//! Reductions, and what is normalised by them.

use std::borrow::Cow;

use tir::data::Array;
use tir::interp::{FloatFn, IntOp, Kind, ScalarOp, failure};
use tir::{Data, Evaluate, Failure, OpRef};

use super::elementwise::{pointwise, source, unsigned};
use super::real::{Compute, Real, buffer, compute, product, result_form, size, tensors};
use crate::ops::normalize::{BatchNorm, LayerNorm, Softmax};
use crate::ops::reduce::{ReduceMax, ReduceMean, ReduceMin, ReduceSum, reduced};
use crate::shape::tensor;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinds {
    Sum,
    Mean,
    Max,
    Min,
}

/// A reduction of a tensor of a shape.
struct Reduce {
    kind: Kinds,
    shape: Vec<usize>,
    reduced: Vec<bool>,
}

impl Reduce {
    /// The size of what is left, and the position in it for each element of the input.
    fn places(&self) -> Result<(usize, Vec<usize>), Failure> {
        let kept = self.shape.iter().zip(&self.reduced);
        let kept: Vec<usize> = kept.map(|(n, gone)| if *gone { 1 } else { *n }).collect();
        let all = product(&self.shape)?;
        let places = (0..all).map(|i| source(i, &self.shape, &kept));
        Ok((product(&kept)?, places.collect()))
    }
    fn count(&self) -> usize {
        let sizes = self.shape.iter().zip(&self.reduced);
        sizes.filter(|(_, gone)| **gone).map(|(n, _)| n).product()
    }
}

impl Compute for Reduce {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let [x] = inputs else {
            return Err("expects one operand".into());
        };
        let (len, places) = self.places()?;
        let start = match self.kind {
            Kinds::Sum | Kinds::Mean => T::ZERO,
            Kinds::Max => T::LOWEST,
            Kinds::Min => T::ZERO - T::LOWEST,
        };
        let mut y = buffer(len, start)?;
        for (x, at) in x.iter().zip(places) {
            let y = &mut y[at];
            *y = match self.kind {
                Kinds::Sum | Kinds::Mean => *y + *x,
                Kinds::Max => y.maximum(*x),
                Kinds::Min => y.minimum(*x),
            };
        }
        if self.kind == Kinds::Mean {
            let count = T::of(self.count() as f64);
            y.iter_mut().for_each(|y| *y = *y / count);
        }
        Ok(y)
    }
}

fn reduce(op: OpRef<'_>, inputs: &[Data], axes: &[i64], kind: Kinds) -> Result<Vec<Data>, Failure> {
    let (dtype, shape) = result_form(op)?;
    let [x] = tensors(inputs)?[..] else {
        return Err("expects one operand".into());
    };
    let reduce = Reduce {
        kind,
        shape: x.shape().to_vec(),
        reduced: reduced(axes, x.shape().len())?,
    };
    if dtype.is_float() {
        return compute(op, inputs, &reduce);
    }
    let scalar = Kind::of_dtype(dtype);
    let (how, start) = match (kind, unsigned(dtype)) {
        (Kinds::Max, false) => (IntOp::MaxS, least(scalar)),
        (Kinds::Max, true) => (IntOp::MaxU, 0),
        (Kinds::Min, false) => (IntOp::MinS, !least(scalar)),
        (Kinds::Min, true) => (IntOp::MinU, -1),
        _ => (IntOp::Add, 0),
    };
    let (len, places) = reduce.places()?;
    let start = tir::interp::Scalar::int(start, scalar).bits;
    let mut y = buffer(len, start)?;
    for (bytes, at) in x.bytes().chunks_exact(dtype.size()).zip(places) {
        let x = scalar.read(bytes).ok_or("has an element cut off")?;
        y[at] = ScalarOp::Int(how, scalar).apply([y[at], x, 0])?;
    }
    let mut bytes = vec![0; len * dtype.size()];
    for (y, bytes) in y.iter().zip(bytes.chunks_exact_mut(dtype.size())) {
        scalar.write(*y, bytes);
    }
    let y = Array::new(dtype, &shape, bytes.into()).map_err(failure)?;
    Ok(vec![y.into()])
}

/// The least integer of a kind.
fn least(kind: Kind) -> i64 {
    i64::MIN >> (64 - kind.width())
}

macro_rules! reductions {
    ($($name:ident $kind:ident;)*) => {$(
        impl Evaluate for $name {
            fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
                reduce(op, inputs, &self.axes, Kinds::$kind)
            }
        }
    )*};
}
reductions! {
    ReduceSum Sum;
    ReduceMean Mean;
    ReduceMax Max;
    ReduceMin Min;
}

impl Evaluate for BatchNorm {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        // Channels are the second dimension.
        let [x, by_channel @ ..] = &tensors(inputs)?[..] else {
            return Err("expects an input".into());
        };
        let mut shape = vec![1; x.shape().len() - 1];
        let mut args = vec![inputs[0].clone()];
        for array in by_channel {
            shape[0] = array.len();
            args.push(array.reshaped(&shape).map_err(failure)?.into());
        }
        pointwise(self, op, &args)
    }
}

/// Along an axis: `outer` times `len` times `inner` elements.
struct Along {
    len: usize,
    inner: usize,
}
impl Compute for Along {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let [x] = inputs else {
            return Err("expects one operand".into());
        };
        let mut y = x.to_vec();
        for block in y.chunks_exact_mut((self.len * self.inner).max(1)) {
            for i in 0..self.inner {
                let line = || (i..self.len * self.inner).step_by(self.inner);
                let largest = line().fold(T::LOWEST, |m, at| m.maximum(block[at]));
                let mut sum = T::ZERO;
                for at in line() {
                    block[at] = (block[at] - largest).function(FloatFn::Exp);
                    sum = sum + block[at];
                }
                line().for_each(|at| block[at] = block[at] / sum);
            }
        }
        Ok(y)
    }
}
impl Evaluate for Softmax {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (_, shape) = result_form(op)?;
        let (outer, rest) = shape.split_at(size(self.axis)?.min(shape.len()));
        let _ = outer;
        let [len, inner @ ..] = rest else {
            return Err("has an axis beyond its rank".into());
        };
        let along = Along {
            len: *len,
            inner: product(inner)?,
        };
        compute(op, inputs, &along)
    }
}

/// The last dimensions of a shape together.
struct Last {
    shape: Vec<usize>,
    axis: usize,
    epsilon: f64,
    /// Shapes of scale and bias.
    others: Vec<Vec<usize>>,
}
impl Compute for Last {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let [x, others @ ..] = inputs else {
            return Err("expects an input".into());
        };
        let count = product(&self.shape[self.axis..])?;
        let n = T::of(count as f64);
        let mut y = x.to_vec();
        for line in y.chunks_exact_mut(count.max(1)) {
            let mean = line.iter().fold(T::ZERO, |s, v| s + *v) / n;
            line.iter_mut().for_each(|v| *v = *v - mean);
            let var = line.iter().fold(T::ZERO, |s, v| s + *v * *v) / n;
            let spread = (var + T::of(self.epsilon)).function(FloatFn::Sqrt);
            line.iter_mut().for_each(|v| *v = *v / spread);
        }
        for (k, (other, shape)) in others.iter().zip(&self.others).enumerate() {
            for (i, y) in y.iter_mut().enumerate() {
                let other = other[source(i, &self.shape, shape)];
                *y = if k == 0 { *y * other } else { *y + other };
            }
        }
        Ok(y)
    }
}
impl Evaluate for LayerNorm {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (_, shape) = result_form(op)?;
        let mut others = Vec::new();
        for value in [Some(self.scale), self.bias].into_iter().flatten() {
            let sizes = tensor(op, value, "scale")?.0;
            others.push(sizes.iter().map(|d| size(*d)).collect::<Result<_, _>>()?);
        }
        let last = Last {
            axis: size(self.axis)?.min(shape.len()),
            shape,
            epsilon: self.epsilon.0,
            others,
        };
        compute(op, inputs, &last)
    }
}
