//! Parts of tensors, and tensors put together.

use tir::data::{Array, DType};
use tir::interp::{failure, tensor_form};
use tir::{Attr, Data, Evaluate, Failure, OpRef, Type};

use super::real::{buffer, product, result_form, tensors};
use crate::{Concat, Expand, Pad, Slice, Split};

/// A regular box of bytes: where its first element lies, and the distance of elements for each
/// dimension.
struct Place {
    at: i64,
    steps: Vec<i64>,
}

/// Distances in bytes of the elements of a dense array.
fn strides(shape: &[usize], size: usize) -> Vec<i64> {
    let mut strides = vec![size as i64; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d].max(1) as i64;
    }
    strides
}

impl Place {
    fn dense(shape: &[usize], size: usize) -> Self {
        let steps = strides(shape, size);
        Self { at: 0, steps }
    }
    /// From element `starts` on, so many of them at a time.
    fn within(shape: &[usize], size: usize, starts: &[i64], steps: Option<&[i64]>) -> Self {
        let mut bytes = strides(shape, size);
        let at = bytes.iter().zip(starts).map(|(s, n)| s * n).sum();
        for (d, step) in bytes.iter_mut().enumerate() {
            *step *= steps.map_or(1, |steps| steps[d]);
        }
        Self { at, steps: bytes }
    }
}

/// Copies a box of elements of `size` bytes from one box to another.
fn blit(from: &[u8], a: &Place, to: &mut [u8], b: &Place, shape: &[usize], size: usize) {
    if shape.contains(&0) {
        return;
    }
    // What is contiguous on both sides is one run.
    let (mut run, mut rank) = (size, shape.len());
    while rank > 0 && a.steps[rank - 1] == run as i64 && b.steps[rank - 1] == run as i64 {
        run *= shape[rank - 1];
        rank -= 1;
    }
    let mut index = vec![0usize; rank];
    let (mut at, mut place) = (a.at, b.at);
    loop {
        let (i, j) = (at as usize, place as usize);
        to[j..j + run].copy_from_slice(&from[i..i + run]);
        let mut d = rank;
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            (at, place) = (at + a.steps[d], place + b.steps[d]);
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
            at -= a.steps[d] * shape[d] as i64;
            place -= b.steps[d] * shape[d] as i64;
        }
    }
}

/// An array of a box of another.
fn taken(x: &Array, from: &Place, shape: &[usize]) -> Result<Data, Failure> {
    let size = x.dtype().size();
    let mut out = buffer(product(shape)?.saturating_mul(size), 0u8)?;
    blit(
        x.bytes(),
        from,
        &mut out,
        &Place::dense(shape, size),
        shape,
        size,
    );
    let y = Array::new(x.dtype(), shape, out.into()).map_err(failure)?;
    Ok(y.into())
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
            let target = Place::within(&shape, size, &starts, None);
            let source = Place::dense(x.shape(), size);
            blit(x.bytes(), &source, &mut out, &target, x.shape(), size);
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
        for part in &self.parts.0 {
            let (dtype, shape) = tensor_form(*part)?;
            let from = Place::within(x.shape(), dtype.size(), &starts, None);
            parts.push(taken(x, &from, &shape)?);
            starts[at] += shape[at] as i64;
        }
        Ok(parts)
    }
}

impl Evaluate for Slice {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (dtype, shape) = result_form(op)?;
        let x = only(inputs)?;
        let from = Place::within(x.shape(), dtype.size(), &self.starts, Some(&self.steps));
        Ok(vec![taken(x, &from, &shape)?])
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
        let size = dtype.size();
        let mut out = splat(self.value, elem, dtype, product(&shape)?)?;
        let target = Place::within(&shape, size, &self.low, None);
        let source = Place::dense(x.shape(), size);
        blit(x.bytes(), &source, &mut out, &target, x.shape(), size);
        let y = Array::new(dtype, &shape, out.into()).map_err(failure)?;
        Ok(vec![y.into()])
    }
}

impl Evaluate for Expand {
    fn evaluate(&self, op: OpRef<'_>, inputs: &[Data]) -> Result<Vec<Data>, Failure> {
        let (dtype, shape) = result_form(op)?;
        let x = only(inputs)?;
        let own = strides(x.shape(), dtype.size());
        let missing = shape.len() - x.shape().len().min(shape.len());
        let step = |d: usize| match d.checked_sub(missing) {
            Some(e) if x.shape()[e] == shape[d] => own[e],
            _ => 0,
        };
        let steps = (0..shape.len()).map(step).collect();
        Ok(vec![taken(x, &Place { at: 0, steps }, &shape)?])
    }
}
