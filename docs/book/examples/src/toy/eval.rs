//! How the ops of toy run on whole tensors: the reference that every later level is compared with.

use tir::data::{Array, DType};
use tir::interp::failure;
use tir::{Data, Evaluate, Failure, OpRef};

use crate::toy::modulo::Mod;
use crate::toy::ops::{Add, MatMul, Mul, Power, Transpose};

// ANCHOR: evaluate
/// A tensor like the op's result, each element computed from its place and the inputs.
fn each(
    op: OpRef<'_>,
    inputs: &[Data],
    element: impl Fn(usize, &[&Array], i128) -> Option<i128>,
) -> Result<Vec<Data>, Failure> {
    let ty = op.ir.ty(op.ir.result(op.id, 0));
    let modulus = Mod::of(ty).ok_or("holds no residues")?.modulus.into();
    let shape = ty.shape().unwrap_or_default();
    let shape: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
    let inputs = inputs.iter().map(Data::as_tensor);
    let inputs: Vec<&Array> = inputs.collect::<Result<_, _>>()?;
    let mut bytes = Vec::new();
    for at in 0..shape.iter().product() {
        let number = element(at, &inputs, modulus).ok_or("is given no integers")?;
        bytes.extend((number.rem_euclid(modulus) as i32).to_le_bytes());
    }
    let array = Array::new(DType::I32, &shape, bytes.into()).map_err(failure)?;
    Ok(vec![Data::Tensor(array)])
}

impl Evaluate for Add {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        each(op, inputs, |at, x, _| {
            Some(x[0].get_int(at)? + x[1].get_int(at)?)
        })
    }
}
// ANCHOR_END: evaluate
impl Evaluate for Mul {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        each(op, inputs, |at, x, _| {
            Some(x[0].get_int(at)? * x[1].get_int(at)?)
        })
    }
}
impl Evaluate for Power {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        each(op, inputs, |at, x, n| {
            let base = x[0].get_int(at)?;
            Some((0..self.exponent).fold(1, |power, _| power * base % n))
        })
    }
}
impl Evaluate for Transpose {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        each(op, inputs, |at, x, _| {
            let [rows, columns] = *x[0].shape() else {
                return None;
            };
            x[0].get_int(at % rows * columns + at / rows)
        })
    }
}
impl Evaluate for MatMul {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        each(op, inputs, |at, x, _| {
            let (k, n) = (x[0].shape()[1], x[1].shape()[1]);
            let products = (0..k).map(|i| {
                let (a, b) = (x[0].get_int(at / n * k + i)?, x[1].get_int(i * n + at % n)?);
                Some(a * b)
            });
            products.sum()
        })
    }
}
