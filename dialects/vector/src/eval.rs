//! Running the ops of vector: a vector is an array.

use std::ops::Range;

use tir::data::Array;
use tir::interp::{View, tensor_form};
use tir::{Compiler, Data, Failure, IntType, LowerToEval, OpRef, Type, Value};

use crate::{
    Broadcast, CreateMask, Dot, Interleave, Load, MaskedLoad, MaskedStore, Shuffle, Store,
};

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

/// The parts of a row whose elements a mask holds, as ranges.
fn held(mask: &Data) -> Result<Vec<Range<usize>>, Failure> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for (k, bit) in mask.as_tensor()?.bytes().iter().enumerate() {
        match all.last_mut() {
            _ if *bit == 0 => {}
            Some(last) if last.end == k => last.end += 1,
            _ => all.push(k..k + 1),
        }
    }
    Ok(all)
}

/// The part of the row that begins at some indices.
fn part(base: &Data, indices: &[Data], range: &Range<usize>) -> Result<View, Failure> {
    let mut indices = indices.to_vec();
    if let Some(last) = indices.last_mut() {
        *last = Data::index(last.as_int()? + range.start as i64);
    }
    row(base, &indices, range.len() as i64)
}

impl LowerToEval for MaskedLoad {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        let ty = self.result.0;
        cx.native_by_ref(&operands, &[op.ir.result(op.id, 0)], move |env, data| {
            let [base, indices @ .., mask, others] = data else {
                return Err("has too few operands".into());
            };
            let others = others.as_tensor()?;
            let (size, mut bytes) = (others.dtype().size(), others.bytes().to_vec());
            for range in held(mask)? {
                let part = part(base, indices, &range)?;
                let read = env.view_to_array(&part, ty.elem())?;
                bytes[range.start * size..range.end * size].copy_from_slice(read.bytes());
            }
            Ok(vec![vector(ty, bytes)?])
        });
        Ok(())
    }
}

impl LowerToEval for MaskedStore {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands: Vec<Value> = op.ir.operands(op.id).collect();
        cx.native_by_ref(&operands, &[], move |env, data| {
            let [base, indices @ .., mask, value] = data else {
                return Err("has too few operands".into());
            };
            let value = value.as_tensor()?;
            let size = value.dtype().size();
            for range in held(mask)? {
                let part = part(base, indices, &range)?;
                env.write_view(&part, &value.bytes()[range.start * size..range.end * size])?;
            }
            Ok(Vec::new())
        });
        Ok(())
    }
}

impl LowerToEval for CreateMask {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let ty = self.result.0;
        cx.native(&[self.size], &[op.ir.result(op.id, 0)], move |_, data| {
            let size = data.first().ok_or("has no operand")?.as_int()?;
            let length = ty.shape().and_then(|s| s.first().copied()).unwrap_or(0);
            let bits = (0..length).map(|k| u8::from(k < size));
            Ok(vec![vector(ty, bits.collect())?])
        });
        Ok(())
    }
}

/// A vector of elements of two others, counted through the first and then the second: `order` gives them, of the length of one.
fn chosen<'m>(
    cx: &mut Compiler<'m>,
    operands: [Value; 2],
    result: Value,
    ty: Type,
    order: impl Fn(usize) -> Vec<usize> + Send + Sync + 'm,
) {
    cx.native_by_ref(&operands, &[result], move |_, data| {
        let [lhs, rhs] = data else {
            return Err("has no two operands".into());
        };
        let (lhs, rhs) = (lhs.as_tensor()?, rhs.as_tensor()?);
        let size = lhs.dtype().size();
        let (first, second) = (lhs.bytes().chunks(size), rhs.bytes().chunks(size));
        let length = first.len();
        let all: Vec<&[u8]> = first.chain(second).collect();
        let order = order(length).into_iter();
        let bytes = order.flat_map(|k| all[k]).copied().collect();
        Ok(vec![vector(ty, bytes)?])
    });
}

impl LowerToEval for Shuffle {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let mask: Vec<usize> = self.mask.iter().map(|k| *k as usize).collect();
        let result = op.ir.result(op.id, 0);
        chosen(cx, [self.lhs, self.rhs], result, self.result.0, move |_| {
            mask.clone()
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

/// An array of a vector's type.
fn vector(ty: Type, bytes: Vec<u8>) -> Result<Data, Failure> {
    let (dtype, shape) = tensor_form(ty)?;
    let array = Array::new(dtype, &shape, bytes.into());
    Ok(Data::Tensor(
        array.map_err(|e| Failure::from(e.to_string()))?,
    ))
}

impl LowerToEval for Interleave {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let in_turn = |n| (0..n).flat_map(|k| [k, n + k]).collect();
        let result = op.ir.result(op.id, 0);
        chosen(cx, [self.lhs, self.rhs], result, self.result.0, in_turn);
        Ok(())
    }
}

impl LowerToEval for Dot {
    fn lower<'m>(&self, op: OpRef<'m>, cx: &mut Compiler<'m>) -> Result<(), Failure> {
        let operands = [self.few, self.many, self.sums];
        let ty = op.ir.ty(self.sums);
        let widened = |value: Value| -> fn(u8) -> i32 {
            let int: Option<&IntType> = op.ir.ty(value).elem().get();
            match int.is_some_and(IntType::is_unsigned) {
                true => |n| n.into(),
                false => |n| (n as i8).into(),
            }
        };
        let (one, other) = (widened(self.few), widened(self.many));
        cx.native_by_ref(&operands, &[op.ir.result(op.id, 0)], move |_, data| {
            let [few, many, sums] = data else {
                return Err("has no three operands".into());
            };
            let (few, many, sums) = (few.as_tensor()?, many.as_tensor()?, sums.as_tensor()?);
            let few: Vec<i32> = few.bytes().iter().map(|n| one(*n)).collect();
            let groups = many.bytes().chunks(few.len().max(1));
            let mut bytes = Vec::with_capacity(sums.bytes().len());
            for (sum, group) in sums.bytes().chunks(4).zip(groups) {
                let mut sum = sum.try_into().map_or(0, i32::from_le_bytes);
                for (x, y) in few.iter().zip(group) {
                    sum = sum.wrapping_add(x.wrapping_mul(other(*y)));
                }
                bytes.extend(sum.to_le_bytes());
            }
            Ok(vec![vector(ty, bytes)?])
        });
        Ok(())
    }
}
