//! Elementwise ops, with broadcasting: one pass over the elements for each scalar operation, each
//! rounded to the element type.

use tir::data::{Array, DType};
use tir::interp::{
    FloatCmp, FloatFn, FloatOp, IntCmp, IntFn, IntOp, Kind, ScalarOp, elem_of, elementwise, failure,
};
use tir::{Data, Evaluate, Failure, OpRef};

use super::real::{result_form, tensors};
use crate::ops::elementwise::*;
use crate::pointwise::{Pointwise, Scalar, Scalars};

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

/// A tensor, broadcast to a shape.
fn spread(x: &Array, whole: &[usize]) -> Result<Array, Failure> {
    if x.shape() == whole {
        return Ok(x.clone());
    }
    let (size, bytes) = (x.dtype().size(), x.bytes());
    let len: usize = whole.iter().product();
    let all = x.dtype().byte_len(whole);
    let all = all.ok_or("the size of a tensor overflows")?;
    let mut out = Vec::new();
    let room = out.try_reserve_exact(all);
    room.map_err(|_| format!("no memory for {all} bytes"))?;
    if len > 0 {
        match runs(whole, x.shape()) {
            Some([outer, same, inner]) => {
                for value in bytes.chunks_exact(size).take(same) {
                    (0..inner).for_each(|_| out.extend_from_slice(value));
                }
                let one = out.len();
                (1..outer).for_each(|_| out.extend_from_within(..one));
            }
            None => {
                for i in 0..len {
                    let at = source(i, whole, x.shape()) * size;
                    out.extend_from_slice(&bytes[at..at + size]);
                }
            }
        }
    }
    Array::new(x.dtype(), whole, out.into()).map_err(failure)
}

/// Whether integers have no sign; truth values are 0 and 1.
pub(super) fn unsigned(dtype: DType) -> bool {
    use DType::{Bool, U8, U16, U32, U64};
    matches!(dtype, Bool | U8 | U16 | U32 | U64)
}

/// Scalar operations on all elements at once; the operands' elements are of this type.
struct Elements(DType);

impl Elements {
    fn scalar(&self, op: Scalar) -> Result<ScalarOp, Failure> {
        let kind = Kind::of_dtype(self.0);
        if kind.is_float() {
            float(op, kind)
        } else {
            int(op, kind, unsigned(self.0))
        }
        .ok_or_else(|| format!("{op:?} is not defined on elements of type {}", self.0).into())
    }
}

fn float(op: Scalar, kind: Kind) -> Option<ScalarOp> {
    let two = |op| Some(ScalarOp::Float(op, kind));
    let one = |op| Some(ScalarOp::FloatFn(op, kind));
    let compare = |op| Some(ScalarOp::CmpFloat(op, kind));
    match op {
        Scalar::Add => two(FloatOp::Add),
        Scalar::Sub => two(FloatOp::Sub),
        Scalar::Mul => two(FloatOp::Mul),
        Scalar::Div => two(FloatOp::Div),
        Scalar::Max => two(FloatOp::Maximum),
        Scalar::Min => two(FloatOp::Minimum),
        Scalar::Pow => two(FloatOp::Pow),
        Scalar::Neg => one(FloatFn::Neg),
        Scalar::Abs => one(FloatFn::Abs),
        Scalar::Exp => one(FloatFn::Exp),
        Scalar::Log => one(FloatFn::Log),
        Scalar::Sqrt => one(FloatFn::Sqrt),
        Scalar::Sin => one(FloatFn::Sin),
        Scalar::Cos => one(FloatFn::Cos),
        Scalar::Tanh => one(FloatFn::Tanh),
        Scalar::Erf => one(FloatFn::Erf),
        Scalar::Floor => one(FloatFn::Floor),
        Scalar::Ceil => one(FloatFn::Ceil),
        Scalar::Round => one(FloatFn::RoundEven),
        Scalar::Equal => compare(FloatCmp::Oeq),
        Scalar::Less => compare(FloatCmp::Olt),
        Scalar::LessEqual => compare(FloatCmp::Ole),
        Scalar::Greater => compare(FloatCmp::Ogt),
        Scalar::GreaterEqual => compare(FloatCmp::Oge),
        Scalar::And | Scalar::Or | Scalar::Xor => None,
    }
}

fn int(op: Scalar, kind: Kind, unsigned: bool) -> Option<ScalarOp> {
    let two = |signed, other| Some(ScalarOp::Int(if unsigned { other } else { signed }, kind));
    let compare = |signed, other| {
        Some(ScalarOp::CmpInt(
            if unsigned { other } else { signed },
            kind,
        ))
    };
    match op {
        Scalar::Add => two(IntOp::Add, IntOp::Add),
        Scalar::Sub => two(IntOp::Sub, IntOp::Sub),
        Scalar::Mul => two(IntOp::Mul, IntOp::Mul),
        Scalar::Div => two(IntOp::DivS, IntOp::DivU),
        Scalar::Max => two(IntOp::MaxS, IntOp::MaxU),
        Scalar::Min => two(IntOp::MinS, IntOp::MinU),
        Scalar::And => two(IntOp::And, IntOp::And),
        Scalar::Or => two(IntOp::Or, IntOp::Or),
        Scalar::Xor => two(IntOp::Xor, IntOp::Xor),
        Scalar::Abs if unsigned => Some(ScalarOp::Copy(kind)),
        Scalar::Abs => Some(ScalarOp::IntFn(IntFn::Abs, kind)),
        Scalar::Equal => compare(IntCmp::Eq, IntCmp::Eq),
        Scalar::Less => compare(IntCmp::Slt, IntCmp::Ult),
        Scalar::LessEqual => compare(IntCmp::Sle, IntCmp::Ule),
        Scalar::Greater => compare(IntCmp::Sgt, IntCmp::Ugt),
        Scalar::GreaterEqual => compare(IntCmp::Sge, IntCmp::Uge),
        _ => None,
    }
}

impl Scalars for Elements {
    type V = Data;
    fn number(&mut self, value: f64) -> Result<Data, Failure> {
        let kind = Kind::of_dtype(self.0);
        let number = match self.0.is_float() {
            true => tir::interp::Scalar::float(value, kind),
            // The nearest one that the type has: a bound beyond its range bounds nothing.
            false => {
                let bits = match self.0 {
                    DType::Bool => 1,
                    dtype => 8 * dtype.size() as u32,
                };
                let least = if unsigned(self.0) {
                    0
                } else {
                    -1i128 << (bits - 1)
                };
                let most = least + (1i128 << bits) - 1;
                tir::interp::Scalar::int((value as i128).clamp(least, most) as i64, kind)
            }
        };
        Ok(Data::Scalar(number))
    }
    fn apply(&mut self, op: Scalar, args: &[Data]) -> Result<Data, Failure> {
        if let (Scalar::Neg, false, [x]) = (op, self.0.is_float(), args) {
            let zero = self.number(0.0)?;
            return self.two(Scalar::Sub, &zero, x);
        }
        let scalar = self.scalar(op)?;
        let truth = scalar.kind() == Kind::BOOL;
        let dtype = if truth { DType::Bool } else { self.0 };
        elementwise(scalar, args, elem_of(dtype))
    }
}

/// Evaluates an op by what it computes of each element.
pub(super) fn pointwise<T: Pointwise>(
    this: &T,
    op: OpRef<'_>,
    inputs: &[Data],
) -> Result<Vec<Data>, Failure> {
    let (_, whole) = result_form(op)?;
    let arrays = tensors(inputs)?;
    let dtype = arrays.first().ok_or("has no operand")?.dtype();
    let args = arrays.iter().map(|x| spread(x, &whole).map(Data::Tensor));
    let args: Vec<Data> = args.collect::<Result<_, _>>()?;
    Ok(vec![this.compute(&mut Elements(dtype), &args)?])
}

macro_rules! pointwise {
    ($($name:ident)*) => {$(
        impl Evaluate for $name {
            fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
                pointwise(self, op, inputs)
            }
        }
    )*};
}
pointwise! {
    Relu Clip LeakyRelu Sigmoid HardSigmoid HardSwish Gelu Reciprocal Neg Abs Exp Log Sqrt Sin Cos
    Tanh Erf Floor Ceil Round Add Sub Mul Div Max Min Pow Equal Less LessEqual Greater GreaterEqual
    And Or Xor
}
