//! The ops of toy.

use tir::{Failure, Fold, Folds, Infer, Op, OpRef, Type, Value, Verify};
use tir_graph::fusion::{Fusable, FusionKind};

use crate::toy::modulo::RESIDUES;

// ANCHOR: add
/// Sum of residues.
#[derive(Op)]
#[op(
    "toy.add",
    Pure,
    Commutative,
    SameType,
    Elementwise,
    results(sum),
    evaluate
)]
#[asm("$a `,` $b attr-dict `:` type($sum)")]
pub struct Add {
    /// One summand.
    #[is(RESIDUES)]
    pub a: Value,
    /// The other one.
    #[is(RESIDUES)]
    pub b: Value,
}
// ANCHOR_END: add

/// Product of residues, element by element.
#[derive(Op)]
#[op(
    "toy.mul",
    Pure,
    Commutative,
    SameType,
    Elementwise,
    results(product),
    evaluate
)]
#[asm("$a `,` $b attr-dict `:` type($product)")]
pub struct Mul {
    /// One factor.
    #[is(RESIDUES)]
    pub a: Value,
    /// The other one.
    #[is(RESIDUES)]
    pub b: Value,
}

// ANCHOR: power
/// Each residue to a power.
#[derive(Op)]
#[op(
    "toy.power",
    Pure,
    SameType,
    Elementwise,
    results(y),
    fold,
    verify,
    evaluate
)]
#[asm("$x `pow` $exponent attr-dict `:` type($y)")]
pub struct Power {
    /// The base.
    #[is(RESIDUES)]
    pub x: Value,
    /// The exponent, at least 1.
    pub exponent: i64,
}
impl Verify for Power {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        match self.exponent {
            1.. => Ok(()),
            n => Err(format!("has exponent {n}, expected at least 1").into()),
        }
    }
}
impl Fold for Power {
    /// The first power is the base.
    fn fold(&self, _: OpRef<'_>) -> Option<Folds> {
        (self.exponent == 1).then(|| self.x.into())
    }
}
// ANCHOR_END: power

// ANCHOR: transpose
/// A matrix with rows and columns exchanged.
#[derive(Op)]
#[op("toy.transpose", Pure, results(y), infer, fold, evaluate)]
#[asm("$x attr-dict `:` type($x)")]
pub struct Transpose {
    /// The matrix.
    #[is(RESIDUES)]
    pub x: Value,
}
impl Infer for Transpose {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let ty = op.ir.ty(self.x);
        match ty.shape() {
            Some([m, n]) => Ok(vec![Type::tensor([*n, *m], ty.elem())]),
            _ => Err(format!("transposes a {ty}, expected a matrix").into()),
        }
    }
}
impl Fold for Transpose {
    /// Twice transposed is not transposed.
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        let Transpose { x } = op.ir.def(self.x)?;
        Some(x.into())
    }
}
// ANCHOR_END: transpose

// ANCHOR: matmul
/// Product of matrices of residues: M x K and K x N give M x N.
#[derive(Op)]
#[op(
    "toy.matmul",
    Pure,
    results(y),
    infer,
    evaluate,
    tir_graph::fusion::fusion
)]
#[asm("$a `,` $b attr-dict `:` type($a) `,` type($b)")]
pub struct MatMul {
    /// Left matrix, M x K.
    #[is(RESIDUES)]
    pub a: Value,
    /// Right matrix, K x N.
    #[is(RESIDUES)]
    pub b: Value,
}
impl Infer for MatMul {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        let (a, b) = (op.ir.ty(self.a), op.ir.ty(self.b));
        match (a.shape(), b.shape()) {
            (Some([m, k]), Some([l, n])) if k == l && a.elem() == b.elem() => {
                Ok(vec![Type::tensor([*m, *n], a.elem())])
            }
            _ => Err(format!("multiplies {a} with {b}, expected M x K with K x N").into()),
        }
    }
}
/// Elementwise ops behind it may be computed in its loop nest.
impl Fusable for MatMul {
    const KIND: FusionKind = FusionKind::ComplexOutFusable;
}
// ANCHOR_END: matmul
