//! Parts of tensors, and tensors put together.

use tir::data::{Array, DType};
use tir::interp::{BufferId, View, failure};
use tir::{Attr, Data, Evaluate, Failure, OpRef, Type};

use super::real::{buffer, product, result_form, tensors};
use crate::{Concat, Expand, Pad, Slice, Split};

/// The elements of a view of an array, as an array.
pub(crate) fn gathered(x: &Array, view: &View) -> Result<Array, Failure> {
    let shape: Vec<usize> = view.shape.iter().map(|n| *n as usize).collect();
    let bytes = view.gather(x.bytes())?;
    Array::new(x.dtype(), &shape, bytes.into()).map_err(failure)
}

/// The elements of an array from some on, of this shape and with these steps.
fn part(x: &Array, starts: &[i64], shape: &[usize], steps: &[i64]) -> Result<Data, Failure> {
    let shape: Vec<i64> = shape.iter().map(|n| *n as i64).collect();
    let view = View::of_array(x).part(starts, &shape, steps)?;
    Ok(gathered(x, &view)?.into())
}

/// Writes an array over the elements of a dense one from some on.
fn put(x: &Array, out: &mut [u8], shape: &[usize], starts: &[i64]) -> Result<(), Failure> {
    let shape: Vec<i64> = shape.iter().map(|n| *n as i64).collect();
    let source = View::of_array(x);
    let all = View::dense(BufferId::NONE, source.kind, &shape);
    let steps = vec![1; shape.len()];
    Ok(all
        .part(starts, &source.shape, &steps)?
        .scatter(out, x.bytes())?)
}

fn only(inputs: &[Data]) -> Result<&Array, Failure> {
    match tensors(inputs)?[..] {
        [x] => Ok(x),
        _ => Err("expects one operand".into()),
    }
}

impl Evaluate for Concat {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (dtype, shape) = result_form(op)?;
        let size = dtype.size();
        let at = crate::shape::axis(self.axis, shape.len())?;
        let mut out = buffer(product(&shape)?.saturating_mul(size), 0u8)?;
        let mut starts = vec![0; shape.len()];
        for x in tensors(inputs)? {
            put(x, &mut out, &shape, &starts)?;
            starts[at] += x.shape()[at] as i64;
        }
        let y = Array::new(dtype, &shape, out.into()).map_err(failure)?;
        Ok(vec![y.into()])
    }
}

impl Evaluate for Split {
    fn evaluate(&self, _: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let x = only(inputs)?;
        let at = crate::shape::axis(self.axis, x.shape().len())?;
        let mut starts = vec![0; x.shape().len()];
        let mut parts = Vec::new();
        for size in &self.sizes {
            let mut shape = x.shape().to_vec();
            // The verifier lets no negative size through.
            shape[at] = usize::try_from(*size).map_err(|_| "has a negative size")?;
            parts.push(part(x, &starts, &shape, &vec![1; shape.len()])?);
            starts[at] += shape[at] as i64;
        }
        Ok(parts)
    }
}

impl Evaluate for Slice {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (_, shape) = result_form(op)?;
        Ok(vec![part(
            only(inputs)?,
            &self.starts,
            &shape,
            &self.steps,
        )?])
    }
}

/// So many copies of a number, as bytes.
fn splat(value: Attr, elem: Type, dtype: DType, count: usize) -> Result<Vec<u8>, Failure> {
    let size = dtype.size();
    let mut one = vec![0; size];
    let wrong = || Failure::from(format!("pads with {value}, which is no {elem}"));
    let Data::Scalar(scalar) = tir::interp::constant(value, elem)? else {
        return Err(wrong());
    };
    let kind = scalar.kind;
    kind.write(scalar.bits, &mut one).ok_or_else(wrong)?;
    let mut out = buffer(count.saturating_mul(size), 0u8)?;
    if one.iter().any(|b| *b != 0) {
        out.chunks_exact_mut(size)
            .for_each(|place| place.copy_from_slice(&one));
    }
    Ok(out)
}

impl Evaluate for Pad {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (dtype, shape) = result_form(op)?;
        let x = only(inputs)?;
        let elem = op.ir.ty(self.x).elem();
        let mut out = splat(self.value, elem, dtype, product(&shape)?)?;
        put(x, &mut out, &shape, &self.low)?;
        let y = Array::new(dtype, &shape, out.into()).map_err(failure)?;
        Ok(vec![y.into()])
    }
}

impl Evaluate for Expand {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (_, shape) = result_form(op)?;
        let x = only(inputs)?;
        let view = View::of_array(x);
        let missing = shape.len() - x.shape().len().min(shape.len());
        let step = |d: usize| match d.checked_sub(missing) {
            Some(e) if x.shape()[e] == shape[d] => view.strides[e],
            _ => 0,
        };
        let strides = (0..shape.len()).map(step);
        let wide = view.elsewhere(0, shape.iter().map(|n| *n as i64), strides);
        Ok(vec![gathered(x, &wide)?.into()])
    }
}
