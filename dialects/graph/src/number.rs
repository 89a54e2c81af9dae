//! Numbers that ops have as attributes, and the type that sums are accumulated in.

use tir::{Attr, AttrValue, FloatType, IntType, Sign, Type};

/// A number of an op: `alpha = 0.2 : f64` in text; an integer is taken too. It is rounded to the
/// element type where it is used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Number(pub f64);

impl AttrValue for Number {
    const WHAT: &'static str = "a number";
    fn to_attr(&self) -> Attr {
        Attr::float(self.0, Type::new(FloatType::F64))
    }
    fn from_attr(attr: Attr) -> Option<Self> {
        let whole = || attr.as_int().map(|n| n as f64);
        attr.as_float().or_else(whole).map(Number)
    }
}

/// The type in which operators that sum elements of this type do so: `f32` for floats of 16 bits,
/// the type itself for all others.
///
/// It holds for every operator with a sum in it (products of matrices, convolutions, reductions,
/// means, pools, normalizations, linear resizing), for the whole of it and at every level: the
/// operands are extended, all arithmetic is done in this type, and the result is rounded once, at
/// the end. Elementwise operators have no sums: each of their steps rounds to the element type.
pub fn accumulator(elem: Type) -> Type {
    match elem.get::<FloatType>() {
        Some(FloatType::F16 | FloatType::BF16) => Type::f32(),
        _ => elem,
    }
}

/// The least and the greatest integer of an element type; `None` for what is no integer of at most
/// 64 bits.
pub fn bounds(elem: Type) -> Option<[i128; 2]> {
    let int = elem.get::<IntType>().filter(|int| int.width <= 64)?;
    Some(match int.sign == Sign::Unsigned || int.width == 1 {
        true => [0, (1 << int.width) - 1],
        false => [-(1 << (int.width - 1)), (1 << (int.width - 1)) - 1],
    })
}

/// Whether an integer type holds a number.
pub(crate) fn holds(elem: Type, number: i64) -> bool {
    bounds(elem).is_some_and(|[low, high]| (low..=high).contains(&number.into()))
}
