//! Shape arithmetic that the ops share.

use tir::{Failure, LinearExpr, OpRef, TensorType, Type, Value};

/// The shape and element type of a statically shaped tensor operand.
pub fn tensor(op: OpRef<'_>, value: Value, name: &str) -> Result<(Vec<i64>, Type), Failure> {
    let ty = op.ir.ty(value);
    match ty.get::<TensorType>() {
        Some(t) if t.shape.iter().all(|d| *d >= 0) => {
            crate::layout::accepts(op, ty, name)?;
            Ok((t.shape.clone(), t.elem))
        }
        _ => Err(
            format!("expects a statically shaped tensor as operand '{name}', found {ty}").into(),
        ),
    }
}

/// The same, of a given rank.
pub fn ranked<const N: usize>(
    op: OpRef<'_>,
    value: Value,
    name: &str,
) -> Result<([i64; N], Type), Failure> {
    let (shape, elem) = tensor(op, value, name)?;
    match <[i64; N]>::try_from(shape) {
        Ok(shape) => Ok((shape, elem)),
        Err(shape) => {
            let rank = shape.len();
            Err(format!("has operand '{name}' of rank {rank}, expected {N}").into())
        }
    }
}

/// The shape that two shapes broadcast to, as numpy does it.
pub fn broadcast(a: &[i64], b: &[i64]) -> Result<Vec<i64>, Failure> {
    let rank = a.len().max(b.len());
    let dim = |shape: &[i64], i: usize| {
        let missing = rank - shape.len();
        if i < missing { 1 } else { shape[i - missing] }
    };
    (0..rank)
        .map(|i| match (dim(a, i), dim(b, i)) {
            (x, y) if x == y => Ok(x),
            (1, x) | (x, 1) => Ok(x),
            (x, y) => Err(Failure::from(format!(
                "cannot broadcast {a:?} with {b:?}: dimension {i} is {x} and {y}"
            ))),
        })
        .collect()
}

/// A sliding window in one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Elements of the input.
    pub input: i64,
    /// Elements of the kernel.
    pub kernel: i64,
    /// Distance between windows.
    pub stride: i64,
    /// Distance between the elements of the kernel.
    pub dilation: i64,
    /// Padding before.
    pub low: i64,
    /// Padding after.
    pub high: i64,
    /// Whether a last window may stick out behind.
    pub ceil: bool,
}

impl Window {
    /// The number of windows.
    pub fn output(self) -> Result<i64, Failure> {
        let Window {
            input,
            kernel,
            stride,
            dilation,
            low,
            high,
            ..
        } = self;
        if kernel < 1 || stride < 1 || dilation < 1 || low < 0 || high < 0 {
            return Err(format!(
                "has kernel {kernel}, stride {stride}, dilation {dilation}, pads {low} and {high}: \
                 expected at least 1, 1, 1, 0 and 0"
            )
            .into());
        }
        let overflow = || Failure::from("has a window beyond 64 bits");
        let span = (kernel - 1)
            .checked_mul(dilation)
            .and_then(|s| s.checked_add(1));
        let span = span.ok_or_else(overflow)?;
        let padded = input.checked_add(low).and_then(|n| n.checked_add(high));
        let padded = padded.ok_or_else(overflow)?;
        if padded < span {
            return Err(
                format!("has a window of {span} on an input of {padded} with padding").into(),
            );
        }
        let room = padded - span;
        let mut count = room / stride + 1;
        // The last window must begin inside the input or the padding before it.
        if self.ceil && room % stride != 0 && count * stride < input + low {
            count += 1;
        }
        Ok(count)
    }

    /// How many elements of the input some window reads: between windows that are further apart than
    /// they are wide, and behind the last one, elements stay unread. All of them where that would take
    /// long to find out.
    pub fn read(self) -> Result<i64, Failure> {
        let count = self.output()?;
        let position = LinearExpr::new(vec![self.stride, self.dilation], -self.low);
        let read = position.values(&[count, self.kernel], self.input);
        Ok(read.unwrap_or(self.input))
    }
}

/// Windows of the two last dimensions: `pads` is top, left, bottom, right.
#[allow(clippy::too_many_arguments)]
pub fn windows(
    input: [i64; 2],
    kernel: &[i64],
    strides: &[i64],
    pads: &[i64],
    dilations: &[i64],
    ceil: bool,
) -> Result<[Window; 2], Failure> {
    let (&[kh, kw], &[sh, sw], &[top, left, bottom, right], &[dh, dw]) =
        (kernel, strides, pads, dilations)
    else {
        return Err(format!(
            "has {} kernel sizes, {} strides, {} pads and {} dilations, expected 2, 2, 4 and 2",
            kernel.len(),
            strides.len(),
            pads.len(),
            dilations.len()
        )
        .into());
    };
    let window = |input, kernel, stride, dilation, low, high| Window {
        input,
        kernel,
        stride,
        dilation,
        low,
        high,
        ceil,
    };
    Ok([
        window(input[0], kh, sh, dh, top, bottom),
        window(input[1], kw, sw, dw, left, right),
    ])
}

/// A dimension of so many, counted from the first.
pub fn axis(axis: i64, rank: usize) -> Result<usize, Failure> {
    let at = usize::try_from(axis).ok().filter(|at| *at < rank);
    at.ok_or_else(|| format!("has axis {axis} for rank {rank}").into())
}

/// A list with a number for each dimension.
pub fn list(name: &str, list: &[i64], rank: usize) -> Result<(), Failure> {
    if list.len() != rank {
        let found = list.len();
        return Err(format!("has {found} {name} for rank {rank}").into());
    }
    Ok(())
}
