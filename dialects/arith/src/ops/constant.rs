//! Constants.

use tir::constraints::is_scalar;
use tir::{Attr, Builder, DenseElements, Failure, Fold, Folds, Infer, Op, OpRef, Type, Value};

/// A constant: an integer, index, float, or elements of a tensor or vector.
#[derive(Op)]
#[op("arith.constant", Pure, ConstantLike, results(result), infer, fold)]
#[asm("attr-dict $value")]
pub struct Constant {
    /// The value; its type is that of the result.
    pub value: Attr,
}
impl Infer for Constant {
    fn infer(&self, _: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        match self.value.type_of() {
            Some(ty) => Ok(vec![ty]),
            None => Err(format!("has the value {}, which has no type", self.value).into()),
        }
    }
}
impl Fold for Constant {
    fn fold(&self, _: OpRef<'_>) -> Option<Folds> {
        Some(self.value.into())
    }
}
/// The constant of a type with this value, if arith has one for it.
pub fn materialize(b: &mut Builder<'_>, value: Attr, ty: Type) -> Option<Value> {
    let fits = value.type_of() == Some(ty) && (is_scalar(ty) || value.is::<DenseElements>());
    fits.then(|| b.add(Constant { value }))
}

/// `arith.constant N : index`.
pub fn constant_index(b: &mut Builder<'_>, value: i64) -> Value {
    constant_int(b, value, Type::index())
}
/// An integer constant.
pub fn constant_int(b: &mut Builder<'_>, value: i64, ty: Type) -> Value {
    b.add(Constant {
        value: Attr::int(value, ty),
    })
}
/// A float constant.
pub fn constant_float(b: &mut Builder<'_>, value: f64, ty: Type) -> Value {
    b.add(Constant {
        value: Attr::float(value, ty),
    })
}
