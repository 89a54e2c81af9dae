//! Importers of reductions that are compositions: what is done to elements before, how they are put
//! together, and what is done to the result.

use tir_core::Value;
use tir_graph::accumulator;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::make::Make;
use super::normalize::{Axes, Reduced};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// Sum of absolute values.
    L1,
    /// Root of the sum of squares.
    L2,
    /// Logarithm of the sum.
    LogSum,
    /// Logarithm of the sum of exponentials; the largest element is taken off first.
    LogSumExp,
    /// Product.
    Prod,
    SumSquare,
}

pub(super) fn composed(cx: &mut Cx<'_>, node: &Node, place: Axes, of: Of) -> Outcome<()> {
    let Reduced { x, axes, keepdims } = Reduced::read(cx, node, place)?;
    let axes: Vec<usize> = axes.iter().map(|d| *d as usize).collect();
    let mut m = Make::new(cx, node);
    let (shape, elem) = (m.shape(x), m.elem(x));
    let x = m.cast(x, accumulator(elem))?;
    let y = match of {
        Of::L1 => {
            let size = m.abs(x)?;
            m.sum(size, &axes)?
        }
        Of::L2 | Of::SumSquare => {
            let square = m.mul(x, x)?;
            let sum = m.sum(square, &axes)?;
            match of {
                Of::L2 => root(&mut m, sum)?,
                _ => sum,
            }
        }
        Of::LogSum => {
            let sum = m.sum(x, &axes)?;
            logarithm(&mut m, sum)?
        }
        Of::LogSumExp => log_sum_exp(&mut m, x, &axes)?,
        Of::Prod => product(&mut m, x, &axes)?,
    };
    let y = m.cast(y, elem)?;
    let kept =
        shape
            .iter()
            .enumerate()
            .filter_map(|(d, size)| match (axes.contains(&d), keepdims) {
                (false, _) => Some(*size),
                (true, true) => Some(1),
                (true, false) => None,
            });
    let y = m.reshape(y, &kept.collect::<Vec<i64>>())?;
    m.done(y)
}

/// A function of floats, of integers too, which are cut to the result.
fn as_floats(
    m: &mut Make<'_, '_>,
    x: Value,
    of: impl FnOnce(&mut Make<'_, '_>, Value) -> Outcome<Value>,
) -> Outcome<Value> {
    let elem = m.elem(x);
    if elem.is_float() {
        return of(m, x);
    }
    let x = m.cast(x, tir_interp::elem_of(tir_data::DType::F64))?;
    let y = of(m, x)?;
    m.cast(y, elem)
}

fn root(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    as_floats(m, x, |m, x| m.sqrt(x))
}

fn logarithm(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    as_floats(m, x, |m, x| m.log(x))
}

pub(super) fn log_sum_exp(m: &mut Make<'_, '_>, x: Value, axes: &[usize]) -> Outcome<Value> {
    as_floats(m, x, |m, x| {
        let most = m.largest(x, axes)?;
        // Of infinite ones nothing is taken off.
        let size = m.abs(most)?;
        let finite = m.below(size, f64::INFINITY)?;
        let zero = m.like(x, 0.0)?;
        let most = m.choose(finite, most, zero)?;
        let rest = m.sub(x, most)?;
        let rest = m.exp(rest)?;
        let sum = m.sum(rest, axes)?;
        let log = m.log(sum)?;
        m.add(log, most)
    })
}

/// The product over dimensions, which stay with size 1: halves are multiplied until one element is left.
pub(super) fn product(m: &mut Make<'_, '_>, mut x: Value, axes: &[usize]) -> Outcome<Value> {
    for d in axes {
        if m.shape(x)[*d] == 0 {
            let mut shape = m.shape(x);
            shape[*d] = 1;
            let one = m.like(x, 1.0)?;
            x = m.expand(one, &shape)?;
        }
        while m.shape(x)[*d] > 1 {
            let count = m.shape(x)[*d];
            let half = count / 2;
            let low = m.along(x, *d, 0, half, 1)?;
            let high = m.along(x, *d, half, half, 1)?;
            let mut y = m.mul(low, high)?;
            if count % 2 == 1 {
                let last = m.along(x, *d, count - 1, 1, 1)?;
                y = m.concat(vec![y, last], *d)?;
            }
            x = y;
        }
    }
    Ok(x)
}
