//! Words that integers are computed in: 64 bits in registers, 128 bits for wider types.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::{BitAnd, BitOr, BitXor, Div, Not, Rem};

use crate::ops::Trap;

/// A signed machine word. A number of `w` bits is held in it sign-extended, one of one bit as 0 or
/// 1; its reading without sign is held zero-extended.
pub(crate) trait Word:
    Copy
    + Ord
    + Debug
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
{
    const BITS: u32;
    const ZERO: Self;
    const ONE: Self;
    const MIN: Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn remainder(self, other: Self) -> Self;
    fn abs(self) -> Self;
    fn pow(self, exponent: u32) -> Self;
    fn shl(self, by: u32) -> Self;
    /// Shifts copies of the sign in.
    fn sar(self, by: u32) -> Self;
    /// Shifts zeros in.
    fn shr(self, by: u32) -> Self;
    fn udiv(self, other: Self) -> Self;
    fn urem(self, other: Self) -> Self;
    fn udiv_ceil(self, other: Self) -> Self;
    fn ucmp(self, other: Self) -> Ordering;
    /// The product of two numbers of `w` bits, shifted right by `w`.
    fn mul_high(self, other: Self, w: u32, signed: bool) -> Self;
    fn leading_zeros(self) -> u32;
    fn trailing_zeros(self) -> u32;
    fn ones(self) -> u32;
    fn small(value: u32) -> Self;
    /// The number read without sign, if it is a `u32`.
    fn to_u32(self) -> Option<u32>;

    /// Cut to a width and sign-extended.
    #[inline(always)]
    fn wrap(self, w: u32) -> Self {
        match w {
            1 => self & Self::ONE,
            w if w >= Self::BITS => self,
            w => self.shl(Self::BITS - w).sar(Self::BITS - w),
        }
    }
    /// Zero-extended from a width.
    #[inline(always)]
    fn unsigned(self, w: u32) -> Self {
        match w {
            w if w >= Self::BITS => self,
            w => self & Self::ONE.shl(w).sub(Self::ONE),
        }
    }
    /// With its sign: one bit is 0 or -1.
    #[inline(always)]
    fn signed(self, w: u32) -> Self {
        match w {
            1 => Self::ZERO.sub(self & Self::ONE),
            _ => self,
        }
    }
}

macro_rules! word {
    ($($signed:ident $unsigned:ident $high:expr;)*) => {$(
        impl Word for $signed {
            const BITS: u32 = $signed::BITS;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const MIN: Self = $signed::MIN;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn remainder(self, other: Self) -> Self { self.wrapping_rem(other) }
            fn abs(self) -> Self { self.wrapping_abs() }
            fn pow(self, exponent: u32) -> Self { self.wrapping_pow(exponent) }
            #[inline(always)]
            fn shl(self, by: u32) -> Self { self << by }
            #[inline(always)]
            fn sar(self, by: u32) -> Self { self >> by }
            #[inline(always)]
            fn shr(self, by: u32) -> Self { (self as $unsigned >> by) as $signed }
            fn udiv(self, other: Self) -> Self { (self as $unsigned / other as $unsigned) as $signed }
            fn urem(self, other: Self) -> Self { (self as $unsigned % other as $unsigned) as $signed }
            fn udiv_ceil(self, other: Self) -> Self {
                (self as $unsigned).div_ceil(other as $unsigned) as $signed
            }
            #[inline(always)]
            fn ucmp(self, other: Self) -> Ordering { (self as $unsigned).cmp(&(other as $unsigned)) }
            fn mul_high(self, other: Self, w: u32, signed: bool) -> Self {
                let high: fn($signed, $signed, u32, bool) -> $signed = $high;
                high(self, other, w, signed)
            }
            fn leading_zeros(self) -> u32 { $signed::leading_zeros(self) }
            fn trailing_zeros(self) -> u32 { $signed::trailing_zeros(self) }
            fn ones(self) -> u32 { $signed::count_ones(self) }
            fn small(value: u32) -> Self { value.into() }
            #[inline(always)]
            fn to_u32(self) -> Option<u32> { u32::try_from(self).ok() }
        }
    )*};
}
word! {
    i64 u64 |a, b, w, signed| match signed {
        true => ((i128::from(a) * i128::from(b)) >> w) as i64,
        false => ((u128::from(a as u64) * u128::from(b as u64)) >> w) as i64,
    };
    i128 u128 |a, b, w, signed| {
        let (mut high, low) = wide_product(a as u128, b as u128);
        if signed {
            // Read without sign, a negative factor is 2^128 more.
            high = high.wrapping_sub(if a < 0 { b as u128 } else { 0 });
            high = high.wrapping_sub(if b < 0 { a as u128 } else { 0 });
        }
        match w {
            128.. => high as i128,
            w => (high << (128 - w) | low >> w) as i128,
        }
    };
}

/// The two halves of a product of 256 bits.
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    let halves = |x: u128| (x >> 64, x & u128::from(u64::MAX));
    let ((a1, a0), (b1, b0)) = (halves(a), halves(b));
    let (mid, over) = (a1 * b0).overflowing_add(a0 * b1);
    let (low, carry) = (a0 * b0).overflowing_add(mid << 64);
    let high = a1 * b1 + (mid >> 64) + (u128::from(over) << 64) + u128::from(carry);
    (high, low)
}

/// Receives a function on words of a type.
pub(crate) trait Ints<W>: Sized {
    type Out;
    fn i1(self, f: impl Fn(W) -> W) -> Self::Out;
    fn i2(self, f: impl Fn(W, W) -> W) -> Self::Out;
    fn i2_try(self, trap: Trap, f: impl Fn(W, W) -> Option<W>) -> Self::Out;
}
