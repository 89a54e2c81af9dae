//! Numbers that ops have as attributes.

use tir::{Attr, AttrValue, FloatType, Type};

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
