//! How the ops of fixed run on whole tensors.

use tir::data::{Array, DType};
use tir::interp::{
    CastOp, FloatFn, FloatOp, Kind, Scalar, ScalarOp, elementwise, failure, tensor_form,
};
use tir::{Data, Evaluate, Failure, OpRef, Type};

use crate::ops::{Dequantize, MatMul, Quantize, sizes};
use crate::point::Point;

fn point(ty: Type) -> Result<(Point, Kind), Failure> {
    let found = Point::of(ty).zip(Kind::of(ty.elem()));
    found.ok_or_else(|| format!("{ty} holds no fixed-point numbers").into())
}

fn number(value: f64) -> Data {
    Data::Scalar(Scalar::float(value, Kind::F32))
}

impl Evaluate for Quantize {
    fn evaluate(&self, _: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (to, kind) = point(self.q.0)?;
        let [low, high] = to.range().map(number);
        let f32 =
            |op, x: Data, y| elementwise(ScalarOp::Float(op, Kind::F32), &[x, y], Type::f32());
        let x = inputs.first().cloned().unwrap_or_default();
        let x = f32(FloatOp::Mul, x, number(to.one()))?;
        let x = f32(FloatOp::Maximum, x, low)?;
        let x = f32(FloatOp::Minimum, x, high)?;
        let round = ScalarOp::FloatFn(FloatFn::RoundEven, Kind::F32);
        let x = elementwise(round, &[x], Type::f32())?;
        let convert = ScalarOp::Cast(CastOp::FpToSi, Kind::F32, kind);
        Ok(vec![elementwise(convert, &[x], self.q.0.elem())?])
    }
}

impl Evaluate for Dequantize {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (from, kind) = point(op.ir.ty(self.q))?;
        let convert = ScalarOp::Cast(CastOp::SiToFp, kind, Kind::F32);
        let x = elementwise(convert, inputs, Type::f32())?;
        let scale = ScalarOp::Float(FloatOp::Mul, Kind::F32);
        let unit = number(from.one().recip());
        Ok(vec![elementwise(scale, &[x, unit], Type::f32())?])
    }
}

impl Evaluate for MatMul {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let [a, b] = inputs else {
            return Err("expects two operands".into());
        };
        let (a, b) = (a.as_tensor()?, b.as_tensor()?);
        let sizes = sizes(op.ir.ty(self.a), op.ir.ty(self.b)).ok_or("multiplies no matrices")?;
        let [_, k, n] = sizes.map(|size| size as usize);
        let (_, shape) = tensor_form(op.ir.ty(op.ir.result(op.id, 0)))?;
        let mut bytes = Vec::with_capacity(4 * shape.iter().product::<usize>());
        for at in 0..shape.iter().product() {
            let (row, column) = (at / n, at % n);
            let products = (0..k).map(|i| {
                let (x, y) = (a.get_int(row * k + i)?, b.get_int(i * n + column)?);
                i32::try_from(x * y).ok()
            });
            // The op's types say that no sum leaves 32 bits.
            let sum: Option<i32> = products.sum();
            bytes.extend(sum.ok_or("holds no integers")?.to_le_bytes());
        }
        let y = Array::new(DType::I32, &shape, bytes.into()).map_err(failure)?;
        Ok(vec![Data::Tensor(y)])
    }
}
