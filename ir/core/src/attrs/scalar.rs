//! Builtin attributes that are one number, or nothing.

use std::fmt::{self, Display};

use super::{AttrData, builtin, float_text};
use crate::types::{IntType, Type};

builtin! {
    /// `unit`: presence says it all.
    UnitAttr {} "unit"
}
impl Display for UnitAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unit")
    }
}

builtin! {
    /// `4 : i32`, `true`.
    IntAttr {
        /// The value, sign-extended for signless types.
        pub value: i128,
        /// An integer type or `index`.
        pub ty: Type,
    } "integer"
}
impl Display for IntAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ty == Type::int(1) {
            f.write_str(if self.value == 0 { "false" } else { "true" })
        } else if self.value < 0 && self.ty.get::<IntType>().is_some_and(IntType::is_unsigned) {
            // Of 128 bits, the upper half.
            write!(f, "{} : {}", self.value as u128, self.ty)
        } else {
            write!(f, "{} : {}", self.value, self.ty)
        }
    }
}

builtin! {
    /// `1.0 : f32`.
    FloatAttr {
        /// The bits of the value as an `f64`.
        pub bits: u64,
        /// A float type.
        pub ty: Type,
    } "float"
}

impl Display for FloatAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = float_text(f64::from_bits(self.bits), self.ty);
        write!(f, "{text} : {}", self.ty)
    }
}
