//! Elementwise ops, with broadcasting.

use std::borrow::Cow;

use tir::data::{Array, DType};
use tir::interp::{FloatOp, IntOp, Kind, ScalarOp, elementwise, failure};
use tir::{Attr, Data, Evaluate, Failure, OpRef, Type};

use super::real::{Compute, Real, compute, result_form, tensors};
use crate::{Add, Div, Mul, Relu, Sub};

/// The row-major position in a tensor of `shape` that position `index` of a tensor of `whole`
/// reads when the first is broadcast to the second.
pub(super) fn source(mut index: usize, whole: &[usize], shape: &[usize]) -> usize {
    let (mut at, mut stride) = (0, 1);
    for (i, size) in whole.iter().rev().enumerate() {
        let here = index % size.max(&1);
        index /= size.max(&1);
        let dim = shape.len().checked_sub(i + 1).and_then(|d| shape.get(d));
        if let Some(dim) = dim {
            at += if *dim == 1 { 0 } else { here * stride };
            stride *= dim;
        }
    }
    at
}

/// Lengths `(outer, same, inner)` so that position `(o, s, i)` of the whole reads position `s` of
/// the tensor; `None` if it is not broadcast like that.
fn runs(whole: &[usize], shape: &[usize]) -> Option<[usize; 3]> {
    let missing = whole.len().checked_sub(shape.len())?;
    let padded = |d: usize| {
        d.checked_sub(missing)
            .and_then(|d| shape.get(d))
            .copied()
            .unwrap_or(1)
    };
    let same: Vec<bool> = (0..whole.len()).map(|d| padded(d) == whole[d]).collect();
    let wide = |d: &usize| whole[*d] != 1;
    let first = (0..whole.len()).filter(wide).position(|d| same[d]);
    let dims: Vec<usize> = (0..whole.len()).filter(wide).collect();
    let Some(first) = first else {
        return Some([whole.iter().product(), 1, 1]);
    };
    let kept = dims[first..].iter().take_while(|d| same[**d]).count();
    let tail = &dims[first + kept..];
    if tail.iter().any(|d| same[*d]) {
        return None;
    }
    let total = |dims: &[usize]| dims.iter().map(|d| whole[*d]).product();
    Some([
        total(&dims[..first]),
        total(&dims[first..first + kept]),
        total(tail),
    ])
}

/// The elements of a tensor, broadcast to a shape.
fn spread<'a, T: Copy>(x: &'a [T], shape: &[usize], whole: &[usize]) -> Cow<'a, [T]> {
    if shape == whole {
        return Cow::Borrowed(x);
    }
    let len: usize = whole.iter().product();
    if len == 0 {
        return Cow::Borrowed(&[]);
    }
    Cow::Owned(match runs(whole, shape) {
        Some([outer, _, 1]) => x.repeat(outer),
        Some([outer, same, inner]) => {
            let one: Vec<T> = x[..same]
                .iter()
                .flat_map(|v| std::iter::repeat_n(*v, inner))
                .collect();
            one.repeat(outer)
        }
        None => (0..len).map(|i| x[source(i, whole, shape)]).collect(),
    })
}

/// An operation on pairs of elements.
struct Binary {
    kind: FloatOp,
    shapes: [Vec<usize>; 2],
    whole: Vec<usize>,
}
impl Compute for Binary {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let [x, y] = inputs else {
            return Err("expects two operands".into());
        };
        let x = spread(x, &self.shapes[0], &self.whole);
        let y = spread(y, &self.shapes[1], &self.whole);
        let pairs = x.iter().copied().zip(y.iter().copied());
        Ok(match self.kind {
            FloatOp::Add => pairs.map(|(x, y)| x + y).collect(),
            FloatOp::Sub => pairs.map(|(x, y)| x - y).collect(),
            FloatOp::Mul => pairs.map(|(x, y)| x * y).collect(),
            FloatOp::Div => pairs.map(|(x, y)| x / y).collect(),
            _ => return Err("is no operation of graph".into()),
        })
    }
}

fn binary(
    op: OpRef<'_>,
    inputs: &[Data],
    float: FloatOp,
    int: [IntOp; 2],
) -> Result<Vec<Data>, Failure> {
    let (dtype, whole) = result_form(op)?;
    let arrays = tensors(inputs)?;
    let [x, y] = arrays[..] else {
        return Err("expects two operands".into());
    };
    if dtype.is_float() {
        let shapes = [x.shape().to_vec(), y.shape().to_vec()];
        let kind = float;
        return compute(
            op,
            inputs,
            &Binary {
                kind,
                shapes,
                whole,
            },
        );
    }
    let spread = |a: &Array| -> Result<Data, Failure> {
        let bytes: Vec<&[u8]> = a.bytes().chunks_exact(dtype.size()).collect();
        let bytes: Vec<u8> = spread(&bytes, a.shape(), &whole).concat();
        Array::new(dtype, &whole, bytes.into())
            .map(Data::Tensor)
            .map_err(failure)
    };
    let unsigned = matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64);
    let kind = Kind::of_dtype(dtype);
    let scalar = ScalarOp::Int(int[usize::from(unsigned)], kind);
    Ok(vec![elementwise(
        scalar,
        &[spread(x)?, spread(y)?],
        elem(op),
    )?])
}

/// The type of the elements of the op's first result.
fn elem(op: OpRef<'_>) -> Type {
    let result = op.ir.results(op.id).next();
    result.map_or(Type::none(), |v| op.ir.ty(v).elem())
}

macro_rules! binaries {
    ($($name:ident $float:ident $signed:ident $unsigned:ident;)*) => {$(
        impl Evaluate for $name {
            fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
                binary(op, inputs, FloatOp::$float, [IntOp::$signed, IntOp::$unsigned])
            }
        }
    )*};
}
binaries! {
    Add Add Add Add;
    Sub Sub Sub Sub;
    Mul Mul Mul Mul;
    Div Div DivS DivU;
}

struct Positive;
impl Compute for Positive {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure> {
        let x = inputs
            .first()
            .ok_or_else(|| Failure::from("expects an operand"))?;
        Ok(x.iter().map(|v| v.maximum(T::ZERO)).collect())
    }
}
impl Evaluate for Relu {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (dtype, _) = result_form(op)?;
        if dtype.is_float() {
            return compute(op, inputs, &Positive);
        }
        let kind = Kind::of_dtype(dtype);
        let zero = tir::interp::constant(Attr::int(0, elem(op)), elem(op))?;
        let [x] = inputs else {
            return Err("expects an operand".into());
        };
        let max = ScalarOp::Int(IntOp::MaxS, kind);
        Ok(vec![elementwise(max, &[x.clone(), zero], elem(op))?])
    }
}
