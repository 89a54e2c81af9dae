//! Running the ops of vector: a vector is an array.

use tir::data::Array;
use tir::interp::{View, tensor_form};
use tir::{Compiler, Data, Failure, LowerToEval, OpRef, Value};

use crate::{Broadcast, Load, Store};

/// The row of a buffer that begins at some indices.
fn row(base: &Data, indices: &[Data], length: i64) -> Result<View, Failure> {
    let base = base.as_view()?;
    let rank = base.shape.len();
    let offsets = indices.iter().map(Data::as_int);
    let offsets = offsets.collect::<Result<Vec<i64>, _>>()?;
    let mut sizes = vec![1; rank];
    if let Some(last) = sizes.last_mut() {
        *last = length;
    }
    let part = base.part(&offsets, &sizes, &vec![1; rank])?;
    Ok(part.drop_dims(|d| d + 1 == rank))
}

impl LowerToEval for Load {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        let ty = self.result.0;
        let length = ty.shape().and_then(|s| s.first().copied()).unwrap_or(0);
        cx.native_by_ref(&operands, &[op.ir.result(op.id, 0)], move |env, data| {
            let (base, indices) = data.split_first().ok_or("has no operands")?;
            let row = row(base, indices, length)?;
            Ok(vec![Data::Tensor(env.view_to_array(&row, ty.elem())?)])
        });
        Ok(())
    }
}

impl LowerToEval for Store {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        cx.native_by_ref(&operands, &[], move |env, data| {
            let [value, base, indices @ ..] = data else {
                return Err("has too few operands".into());
            };
            let value = value.as_tensor()?;
            let length = value.shape().first().map_or(0, |n| *n as i64);
            let row = row(base, indices, length)?;
            env.write_view(&row, value.bytes())?;
            Ok(Vec::new())
        });
        Ok(())
    }
}

impl LowerToEval for Broadcast {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let (dtype, shape) = tensor_form(self.result.0)?;
        let count: usize = shape.iter().product();
        cx.native(&[self.source], &[op.ir.result(op.id, 0)], move |_, data| {
            let scalar = data.first().ok_or("has no operand")?.to_array()?;
            let bytes = scalar.bytes().repeat(count);
            let array = Array::new(dtype, &shape, bytes.into());
            let array = array.map_err(|e| Failure::from(e.to_string()))?;
            Ok(vec![Data::Tensor(array)])
        });
        Ok(())
    }
}
