//! The ops of fixed.

use tir::{Cost, Failure, Fold, Folds, Infer, Op, OpRef, Ret, Type, Value, Verify, Work};
use tir_graph::fusion::{Fusable, FusionKind};

use crate::point::{FLOATS, POINTS, Point};

/// The most bits of which f32 holds every integer.
pub(crate) const FLOAT_BITS: u32 = 24;

/// To the nearest fixed-point number, ties to even; numbers out of range become the nearest in
/// range, NaN becomes 0.
#[derive(Op)]
#[op(
    "fixed.quantize",
    Pure,
    Elementwise,
    fold,
    verify,
    evaluate,
    cost,
    tir_graph::fusion::fusion
)]
#[asm("$x attr-dict `:` type($x) `to` type($q)")]
pub struct Quantize {
    /// Floats.
    #[is(FLOATS)]
    pub x: Value,
    /// At most 24 bits: a float has no more.
    #[is(POINTS)]
    pub q: Ret,
}
impl Verify for Quantize {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (from, to) = (op.ir.ty(self.x), self.q.0);
        if from.with_elem(to.elem()) != to {
            return Err(format!("changes the shape from {from} to {to}").into());
        }
        match Point::of(to).map(Point::bits) {
            Some(bits) if bits > FLOAT_BITS => {
                Err(format!("rounds to {bits} bits, expected at most {FLOAT_BITS}").into())
            }
            _ => Ok(()),
        }
    }
}
impl Fold for Quantize {
    /// What was made a float of a number, which is exact, becomes that number again.
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        let Dequantize { q } = op.ir.def(self.x)?;
        (op.ir.ty(q) == self.q.0).then(|| q.into())
    }
}
impl Fusable for Quantize {
    const KIND: FusionKind = FusionKind::Injective;
}
impl Cost for Quantize {
    /// A product, two bounds, a rounding and a conversion for each number.
    fn work(&self, op: OpRef<'_>) -> Work {
        scalars(op, 5)
    }
}

/// To f32: exact up to 24 bits, else to the nearest.
#[derive(Op)]
#[op(
    "fixed.dequantize",
    Pure,
    Elementwise,
    results(x),
    infer,
    evaluate,
    cost,
    tir_graph::fusion::fusion
)]
#[asm("$q attr-dict `:` type($q)")]
pub struct Dequantize {
    /// Fixed-point numbers.
    #[is(POINTS)]
    pub q: Value,
}
impl Infer for Dequantize {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![op.ir.ty(self.q).with_elem(Type::f32())])
    }
}
impl Fusable for Dequantize {
    const KIND: FusionKind = FusionKind::Injective;
}
impl Cost for Dequantize {
    /// A conversion and a product for each number.
    fn work(&self, op: OpRef<'_>) -> Work {
        scalars(op, 2)
    }
}

/// Exact product of two matrices: M x K and K x N numbers give M x N of 32 bits, with the fraction
/// bits of both.
#[derive(Op)]
#[op(
    "fixed.matmul",
    Pure,
    results(y),
    infer,
    evaluate,
    cost,
    tir_graph::fusion::fusion
)]
#[asm("$a `,` $b attr-dict `:` type($a) `,` type($b)")]
pub struct MatMul {
    /// Left matrix, M x K.
    #[is(POINTS)]
    pub a: Value,
    /// Right matrix, K x N.
    #[is(POINTS)]
    pub b: Value,
}
impl Infer for MatMul {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (a, b) = (op.ir.ty(self.a), op.ir.ty(self.b));
        let (Some(p), Some(q)) = (Point::of(a), Point::of(b)) else {
            return Err(format!("multiplies {a} with {b}, expected fixed-point numbers").into());
        };
        let Some([m, k, n]) = sizes(a, b) else {
            return Err(format!("multiplies {a} with {b}, expected M x K and K x N").into());
        };
        let most = (1 << (Point::MAX_BITS - 1)) - 1;
        let sum = p.greatest_sum(q, k);
        if sum > most {
            let error = format!("sums {k} products up to {sum}, expected up to {most}");
            return Err(error.into());
        }
        let elem = Point::new(Point::MAX_BITS, p.fraction() + q.fraction())?;
        Ok(vec![Type::tensor([m, n], Type::new(elem))])
    }
}
impl Fusable for MatMul {
    const KIND: FusionKind = FusionKind::ComplexOutFusable;
}
impl Cost for MatMul {
    /// Products of integers are no work for a matrix unit of floats: each is one scalar operation,
    /// each sum another.
    fn work(&self, op: OpRef<'_>) -> Work {
        let sizes = sizes(op.ir.ty(self.a), op.ir.ty(self.b));
        let [_, k, _] = sizes.unwrap_or_default();
        scalars(op, 2 * k.unsigned_abs())
    }
}

/// M, K and N of a product of matrices.
pub(crate) fn sizes(a: Type, b: Type) -> Option<[i64; 3]> {
    match (a.shape()?, b.shape()?) {
        ([m, k], [k2, n]) if k == k2 => Some([*m, *k, *n]),
        _ => None,
    }
}

/// So many scalar operations for each element of the result.
fn scalars(op: OpRef<'_>, each: u64) -> Work {
    let work = Work::by_types(op);
    Work {
        scalars: work.scalars.saturating_mul(each),
        ..work
    }
}
