//! `!fixed.point<8, 4>`: so many bits, of which so many stand behind the binary point.

use std::fmt;

use tir::{Constraint, ParseType, TensorType, TextCx, Type, TypeData};

/// A fixed-point number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Point {
    bits: u32,
    fraction: u32,
}

impl Point {
    /// The most bits: a sum of products has as many.
    pub const MAX_BITS: u32 = 32;

    /// A number of `bits` bits (2 to 32), `fraction` of them (fewer than `bits`) behind the point.
    ///
    /// # Errors
    /// If one of them is out of its range.
    pub fn new(bits: u32, fraction: u32) -> Result<Self, String> {
        if !(2..=Self::MAX_BITS).contains(&bits) {
            let most = Self::MAX_BITS;
            return Err(format!("has {bits} bits, expected 2 to {most}"));
        }
        if fraction >= bits {
            return Err(format!(
                "has {fraction} fraction bits of {bits}, expected fewer"
            ));
        }
        Ok(Self { bits, fraction })
    }
    /// The numbers that a type is made of: itself, or the elements of a tensor.
    pub fn of(ty: Type) -> Option<Self> {
        ty.elem().get().copied()
    }
    /// Bits of the integer.
    pub fn bits(self) -> u32 {
        self.bits
    }
    /// Bits behind the point.
    pub fn fraction(self) -> u32 {
        self.fraction
    }
    /// What 1 is stored as.
    pub fn one(self) -> f64 {
        f64::from(self.fraction).exp2()
    }
    /// The least and the greatest integer.
    pub fn range(self) -> [f64; 2] {
        let half = f64::from(self.bits - 1).exp2();
        [-half, half - 1.0]
    }
    /// The greatest sum of `k` products of numbers of these kinds, as an integer.
    pub fn greatest_sum(self, other: Self, k: i64) -> i128 {
        i128::from(k) << (self.bits + other.bits - 2)
    }
}

impl TypeData for Point {
    const NAME: &'static str = "fixed.point";

    fn storage(&self) -> Option<Type> {
        Some(Type::int(self.bits.next_power_of_two().max(8)))
    }
}
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.bits, self.fraction)
    }
}
impl ParseType for Point {
    const DOC: &'static str = "An integer of so many bits, so many of them behind the point.";

    fn parse(body: Option<&str>, _: &dyn TextCx) -> Result<Self, String> {
        let body = body.unwrap_or_default();
        let numbers = body.split(',').map(|number| number.trim().parse().ok());
        match numbers.collect::<Option<Vec<u32>>>().as_deref() {
            Some([bits, fraction]) => Self::new(*bits, *fraction),
            _ => Err(format!("expects <bits, fraction bits>, found <{body}>")),
        }
    }
}

/// Expects fixed-point numbers.
pub(crate) static POINTS: Constraint =
    Constraint::new("a ranked tensor of fixed-point numbers", |ty| {
        ty.is::<TensorType>() && Point::of(ty).is_some()
    });
/// Expects what is rounded to them.
pub(crate) static FLOATS: Constraint = Constraint::new("a ranked tensor of f32", |ty| {
    ty.is::<TensorType>() && ty.elem() == Type::f32()
});
