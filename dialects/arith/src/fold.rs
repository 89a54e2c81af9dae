//! Arithmetic on constants, shared by the folds.

use tir::{Attr, FloatType, Folds, OpRef, Type, Value, float_bits, float_value, sign_extend};

/// An integer of some width.
#[derive(Clone, Copy, Debug)]
pub struct Int {
    /// Sign-extended to 64 bits.
    pub value: i64,
    /// Its bits, 64 for index.
    pub width: u32,
}

impl Int {
    /// The constant behind a scalar integer or index value of at most 64 bits.
    pub fn of(op: OpRef<'_>, value: Value) -> Option<Self> {
        let ty = op.ir.ty(value);
        let width = ty.bits().filter(|width| !ty.is_float() && *width <= 64)?;
        let value = op.ir.constant_int(value)?;
        // A true i1 may be written as 1 or -1.
        let value = sign_extend(value as u64, Type::int(width));
        Some(Self { value, width })
    }
    /// Read without sign.
    pub fn unsigned(self) -> u64 {
        let shift = 64 - self.width;
        ((self.value as u64) << shift) >> shift
    }
}

pub(crate) fn fold_int(
    op: OpRef<'_>,
    x: Value,
    y: Value,
    compute: fn(Int, Int) -> Option<i64>,
) -> Option<Folds> {
    let (a, b) = (Int::of(op, x)?, Int::of(op, y)?);
    let ty = op.ir.ty(x);
    let value = sign_extend(compute(a, b)? as u64, ty);
    // i1 constants are written 0 and 1.
    let value = if a.width == 1 { value & 1 } else { value };
    Some(Attr::int(value, ty).into())
}

/// The constant behind a scalar float value.
pub(crate) fn float(op: OpRef<'_>, value: Value) -> Option<f64> {
    op.ir.constant(value)?.as_float()
}

pub(crate) fn fold_float(
    op: OpRef<'_>,
    x: Value,
    y: Value,
    compute: fn(f64, f64) -> f64,
) -> Option<Folds> {
    let (a, b) = (float(op, x)?, float(op, y)?);
    let ty = op.ir.ty(x);
    // An operation in f64 rounded once more to a format of less than half its digits is the
    // operation in that format (Figueroa, "When is double rounding innocuous?").
    let format = *ty.get::<FloatType>()?;
    let value = float_value(float_bits(compute(a, b), format), format);
    Some(Attr::float(value, ty).into())
}

pub(crate) fn is_int(op: OpRef<'_>, value: Value, n: i64) -> bool {
    Int::of(op, value).is_some_and(|int| int.value == sign_extend(n as u64, Type::int(int.width)))
}
/// Whether it is this number, sign of zero included.
pub(crate) fn is_float(op: OpRef<'_>, value: Value, n: f64) -> bool {
    float(op, value).is_some_and(|x| x.to_bits() == n.to_bits())
}
pub(crate) fn same(x: Value, y: Value) -> Option<Folds> {
    (x == y).then(|| x.into())
}
