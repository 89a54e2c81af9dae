//! Conditions on types that ops name with `#[is(…)]`. "Like" means a scalar, or a vector or
//! tensor of it.

use tir_core::{Constraint, MemRefType, TensorType, Type};

macro_rules! constraints {
    ($($name:ident $what:literal $kind:ident $test:expr;)*) => {$(
        #[doc = concat!("Expects ", $what, ".")]
        pub static $name: Constraint = Constraint::$kind($what, $test);
    )*};
}

constraints! {
    INDEX "an index" one Type::index;
    INT "an integer" new Type::is_int;
    BOOL "an i1" one || Type::int(1);
    SCALAR "an integer, index or float" new |ty| is_scalar(ty) || is_scalar(ty.storage());
    INT_LIKE "an integer or index, or a vector or tensor of them" new |ty| like(ty, |e| e.is_int() || e.is_index());
    BOOL_LIKE "an i1, or a vector or tensor of it" new |ty| like(ty, |e| e == Type::int(1));
    FLOAT_LIKE "a float, or a vector or tensor of it" new |ty| like(ty, |e| e.float_width().is_some());
    NUMBER_LIKE "an integer, index or float, or a vector or tensor of them" new |ty| like(ty, |e| is_scalar(e) || e.float_width().is_some());
    TENSOR "a ranked tensor" new |ty| ty.is::<TensorType>();
    INT_TENSOR "a ranked tensor of integers" new |ty| ty.is::<TensorType>() && ty.elem().is_int();
    NUMBER_TENSOR "a ranked tensor of integers or floats" new |ty| ty.is::<TensorType>() && (ty.elem().is_int() || ty.elem().is_float());
    FLOAT_TENSOR "a ranked tensor of floats" new |ty| ty.is::<TensorType>() && ty.elem().is_float();
    SHAPED "a ranked tensor or memref" new |ty| ty.is::<TensorType>() || ty.is::<MemRefType>();
    MEMREF "a ranked memref" new |ty| ty.is::<MemRefType>();
}

/// Whether it is an integer, index or float.
pub fn is_scalar(ty: Type) -> bool {
    ty.is_int() || ty.is_index() || ty.is_float()
}

fn like(ty: Type, holds: fn(Type) -> bool) -> bool {
    holds(ty.elem()) && !ty.is::<MemRefType>()
}
