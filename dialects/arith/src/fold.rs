//! How ops fold: as one scalar operation, or by what they ask of constants.

use tir::interp::{ScalarOp, fold_by_scalar, int_constant, splat_float, splat_int};
use tir::{Attr, Failure, Folds, Ir, OpRef, Value};

/// An op that is one scalar operation on its operands in their order.
pub trait ScalarLike {
    /// Which one it is, for the types that it is used with.
    fn scalar(&self, ir: &Ir) -> Result<ScalarOp, Failure>;
}

/// What it gives for constant operands.
pub fn fold(this: &impl ScalarLike, op: OpRef<'_>) -> Option<Folds> {
    fold_by_scalar(op, || this.scalar(op.ir).ok())
}

/// Whether every element of a value is this integer, -1 being all bits.
pub(crate) fn is_int(op: OpRef<'_>, value: Value, n: i128) -> bool {
    let found = op.ir.constant(value).and_then(splat_int);
    // One bit is 0 or 1.
    found.is_some_and(|(value, width)| value == if width == 1 { n & 1 } else { n })
}
/// Whether every element of a value is this number, sign of zero included.
pub(crate) fn is_float(op: OpRef<'_>, value: Value, n: f64) -> bool {
    let found = op.ir.constant(value).and_then(splat_float);
    found.is_some_and(|x| x.to_bits() == n.to_bits())
}
pub(crate) fn same(x: Value, y: Value) -> Option<Folds> {
    (x == y).then(|| x.into())
}
/// The constant of the type of `x` whose elements are all `n`.
pub(crate) fn number(op: OpRef<'_>, x: Value, n: i128) -> Option<Folds> {
    int_constant(n, op.ir.ty(x)).map(Folds::from)
}
/// Truth values for all elements of a type.
pub(crate) fn truth(holds: bool, ty: tir::Type) -> Option<Folds> {
    match ty.shape() {
        None => Some(Attr::bool(holds).into()),
        Some(_) => int_constant(holds.into(), ty).map(Folds::from),
    }
}
