//! What scalar operations compute: each function once, for registers and for columns.

use half::{bf16, f16};
use tir_core::float_bits;

use crate::ops::{CastOp, FloatCmp, FloatFn, FloatOp, IntCmp, IntFn, IntOp, ScalarOp, Trap};
use crate::scalar::{Class, Kind};
use crate::word::{Ints, Word};

/// Receives the function behind an operation, typed by the class of its operands.
pub(crate) trait Visit: Sized {
    type Out;
    /// What comes of a form that is not received.
    fn other(self) -> Self::Out;
    fn i1(self, _: impl Fn(i64) -> i64) -> Self::Out {
        self.other()
    }
    fn i2(self, _: impl Fn(i64, i64) -> i64) -> Self::Out {
        self.other()
    }
    fn i2_try(self, _: Trap, _: impl Fn(i64, i64) -> Option<i64>) -> Self::Out {
        self.other()
    }
    fn f1(self, _: impl Fn(f32) -> f32) -> Self::Out {
        self.other()
    }
    fn f2(self, _: impl Fn(f32, f32) -> f32) -> Self::Out {
        self.other()
    }
    fn f3(self, _: impl Fn(f32, f32, f32) -> f32) -> Self::Out {
        self.other()
    }
    fn d1(self, _: impl Fn(f64) -> f64) -> Self::Out {
        self.other()
    }
    fn d2(self, _: impl Fn(f64, f64) -> f64) -> Self::Out {
        self.other()
    }
    fn d3(self, _: impl Fn(f64, f64, f64) -> f64) -> Self::Out {
        self.other()
    }
    fn f2_i(self, _: impl Fn(f32, f32) -> bool) -> Self::Out {
        self.other()
    }
    fn d2_i(self, _: impl Fn(f64, f64) -> bool) -> Self::Out {
        self.other()
    }
    fn select(self, _: Class) -> Self::Out {
        self.other()
    }
    fn copy(self, _: Class) -> Self::Out {
        self.other()
    }
    fn convert(self, _: Class, _: Class, _: impl Fn(u64) -> u64) -> Self::Out {
        self.other()
    }
}

pub(crate) struct One(pub [u64; 3]);

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}
fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}
fn fr(value: f32) -> Result<u64, Trap> {
    Ok(value.to_bits().into())
}

impl Visit for One {
    type Out = Result<u64, Trap>;
    fn other(self) -> Self::Out {
        Err("an operation of another form")
    }
    #[inline(always)]
    fn i1(self, g: impl Fn(i64) -> i64) -> Self::Out {
        Ok(g(self.0[0] as i64) as u64)
    }
    #[inline(always)]
    fn i2(self, g: impl Fn(i64, i64) -> i64) -> Self::Out {
        Ok(g(self.0[0] as i64, self.0[1] as i64) as u64)
    }
    #[inline(always)]
    fn i2_try(self, trap: Trap, g: impl Fn(i64, i64) -> Option<i64>) -> Self::Out {
        g(self.0[0] as i64, self.0[1] as i64)
            .map(|v| v as u64)
            .ok_or(trap)
    }
    #[inline(always)]
    fn f1(self, g: impl Fn(f32) -> f32) -> Self::Out {
        fr(g(f(self.0[0])))
    }
    #[inline(always)]
    fn f2(self, g: impl Fn(f32, f32) -> f32) -> Self::Out {
        fr(g(f(self.0[0]), f(self.0[1])))
    }
    #[inline(always)]
    fn f3(self, g: impl Fn(f32, f32, f32) -> f32) -> Self::Out {
        fr(g(f(self.0[0]), f(self.0[1]), f(self.0[2])))
    }
    #[inline(always)]
    fn d1(self, g: impl Fn(f64) -> f64) -> Self::Out {
        Ok(g(d(self.0[0])).to_bits())
    }
    #[inline(always)]
    fn d2(self, g: impl Fn(f64, f64) -> f64) -> Self::Out {
        Ok(g(d(self.0[0]), d(self.0[1])).to_bits())
    }
    #[inline(always)]
    fn d3(self, g: impl Fn(f64, f64, f64) -> f64) -> Self::Out {
        Ok(g(d(self.0[0]), d(self.0[1]), d(self.0[2])).to_bits())
    }
    #[inline(always)]
    fn f2_i(self, g: impl Fn(f32, f32) -> bool) -> Self::Out {
        Ok(g(f(self.0[0]), f(self.0[1])).into())
    }
    #[inline(always)]
    fn d2_i(self, g: impl Fn(f64, f64) -> bool) -> Self::Out {
        Ok(g(d(self.0[0]), d(self.0[1])).into())
    }
    #[inline(always)]
    fn select(self, _: Class) -> Self::Out {
        Ok(if self.0[0] != 0 { self.0[1] } else { self.0[2] })
    }
    #[inline(always)]
    fn copy(self, _: Class) -> Self::Out {
        Ok(self.0[0])
    }
    #[inline(always)]
    fn convert(self, _: Class, _: Class, g: impl Fn(u64) -> u64) -> Self::Out {
        Ok(g(self.0[0]))
    }
}

/// Rounds to a 16-bit kind; double rounding through `f32` is exact for + - * / and sqrt.
#[inline]
fn round(value: f32, kind: Kind) -> f32 {
    match kind {
        Kind::F16 => f16::from_f32(value).to_f32(),
        Kind::BF16 => bf16::from_f32(value).to_f32(),
        _ => value,
    }
}

#[inline(always)]
pub(crate) fn dispatch<V: Visit>(op: ScalarOp, v: V) -> V::Out {
    match op {
        ScalarOp::Int(op, kind) => int::<i64, V>(op, kind.width(), v),
        ScalarOp::Float(op, kind) => float(op, kind, v),
        ScalarOp::IntFn(op, kind) => int_fn::<i64, V>(op, kind.width(), v),
        ScalarOp::FloatFn(op, kind) => float_fn(op, kind, v),
        ScalarOp::CmpInt(cmp, kind) => cmp_int::<i64, V>(cmp, kind.width(), v),
        ScalarOp::CmpFloat(cmp, kind) => cmp_float(cmp, kind, v),
        ScalarOp::Select(kind) => v.select(kind.class()),
        ScalarOp::Copy(kind) => v.copy(kind.class()),
        ScalarOp::Fma(Kind::F64) => v.d3(f64::mul_add),
        ScalarOp::Fma(Kind::F32) => v.f3(f32::mul_add),
        // Of 16-bit floats the product is exact in f64, and the sum is rounded to odd.
        ScalarOp::Fma(kind) => {
            v.f3(move |a, b, c| narrow(odd_sum(f64::from(a) * f64::from(b), c.into()), kind))
        }
        ScalarOp::Cast(how, from, to) => v.convert(from.class(), to.class(), move |bits| {
            cast(how, from, to, bits)
        }),
    }
}

impl<V: Visit> Ints<i64> for V {
    type Out = V::Out;
    #[inline(always)]
    fn i1(self, f: impl Fn(i64) -> i64) -> V::Out {
        Visit::i1(self, f)
    }
    #[inline(always)]
    fn i2(self, f: impl Fn(i64, i64) -> i64) -> V::Out {
        Visit::i2(self, f)
    }
    #[inline(always)]
    fn i2_try(self, trap: Trap, f: impl Fn(i64, i64) -> Option<i64>) -> V::Out {
        Visit::i2_try(self, trap, f)
    }
}

/// Integer arithmetic in words that numbers of `w` bits fit.
#[inline(always)]
pub(crate) fn int<W: Word, V: Ints<W>>(op: IntOp, w: u32, v: V) -> V::Out {
    const SHIFT: Trap = "a shift by the width or more";
    const ZERO: Trap = "division by zero";
    const RANGE: Trap = "division by zero, or a quotient that overflows";
    let u = move |x: W| x.unsigned(w);
    let s = move |x: W| x.signed(w);
    let wrap = move |x: W| x.wrap(w);
    let ok = move |x: W| Some(x.wrap(w));
    let is = |holds: bool| if holds { W::ONE } else { W::ZERO };
    let minus_one = W::ZERO.sub(W::ONE);
    // The quotient of the least number and -1 does not fit.
    let fits = move |a: W, b: W| {
        b != W::ZERO && !(b == minus_one && a == W::MIN.sar(W::BITS - w.min(W::BITS)))
    };
    let shift = move |b: W| u(b).to_u32().filter(|by| *by < w);
    match op {
        IntOp::Add if w >= W::BITS => v.i2(W::add),
        IntOp::Mul if w >= W::BITS => v.i2(W::mul),
        IntOp::Add => v.i2(move |a, b| wrap(a.add(b))),
        IntOp::Sub => v.i2(move |a, b| wrap(a.sub(b))),
        IntOp::Mul => v.i2(move |a, b| wrap(a.mul(b))),
        IntOp::DivS => v.i2_try(RANGE, move |a, b| {
            let (a, b) = (s(a), s(b));
            fits(a, b).then(|| a / b).and_then(ok)
        }),
        IntOp::CeilDivS => v.i2_try(RANGE, move |a, b| {
            let (a, b) = (s(a), s(b));
            let up = |q: W| q.add(is(a % b != W::ZERO && (a < W::ZERO) == (b < W::ZERO)));
            fits(a, b).then(|| up(a / b)).and_then(ok)
        }),
        IntOp::FloorDivS => v.i2_try(RANGE, move |a, b| {
            let (a, b) = (s(a), s(b));
            let down = |q: W| q.sub(is(a % b != W::ZERO && (a < W::ZERO) != (b < W::ZERO)));
            fits(a, b).then(|| down(a / b)).and_then(ok)
        }),
        IntOp::RemS => v.i2_try(ZERO, move |a, b| {
            let (a, b) = (s(a), s(b));
            (b != W::ZERO).then(|| a.remainder(b)).and_then(ok)
        }),
        IntOp::DivU => v.i2_try(ZERO, move |a, b| {
            (b != W::ZERO).then(|| u(a).udiv(u(b))).and_then(ok)
        }),
        IntOp::RemU => v.i2_try(ZERO, move |a, b| {
            (b != W::ZERO).then(|| u(a).urem(u(b))).and_then(ok)
        }),
        IntOp::CeilDivU => v.i2_try(ZERO, move |a, b| {
            (b != W::ZERO).then(|| u(a).udiv_ceil(u(b))).and_then(ok)
        }),
        IntOp::And => v.i2(|a, b| a & b),
        IntOp::Or => v.i2(|a, b| a | b),
        IntOp::Xor => v.i2(|a, b| a ^ b),
        IntOp::Shl => v.i2_try(SHIFT, move |a, b| Some(wrap(a.shl(shift(b)?)))),
        IntOp::ShrU => v.i2_try(SHIFT, move |a, b| Some(wrap(u(a).shr(shift(b)?)))),
        IntOp::ShrS => v.i2_try(SHIFT, move |a, b| Some(wrap(s(a).sar(shift(b)?)))),
        IntOp::MinS => v.i2(move |a, b| if s(a) < s(b) { a } else { b }),
        IntOp::MaxS => v.i2(move |a, b| if s(a) > s(b) { a } else { b }),
        IntOp::MinU => v.i2(|a, b| if a.ucmp(b).is_lt() { a } else { b }),
        IntOp::MaxU => v.i2(|a, b| if a.ucmp(b).is_gt() { a } else { b }),
        IntOp::MulHighS => v.i2(move |a, b| wrap(s(a).mul_high(s(b), w, true))),
        IntOp::MulHighU => v.i2(move |a, b| wrap(u(a).mul_high(u(b), w, false))),
        // A sum that is cut is below both.
        IntOp::CarryU => v.i2(move |a, b| is(u(u(a).add(u(b))).ucmp(u(a)).is_lt())),
        IntOp::Pow => v.i2(move |a, b| {
            let base = s(a);
            match s(b).to_u32() {
                Some(n) => wrap(base.pow(n)),
                None if base == W::ONE => W::ONE,
                None if base == minus_one => wrap(if b & W::ONE == W::ZERO {
                    W::ONE
                } else {
                    minus_one
                }),
                None => W::ZERO,
            }
        }),
    }
}

#[inline(always)]
pub(crate) fn int_fn<W: Word, V: Ints<W>>(op: IntFn, w: u32, v: V) -> V::Out {
    let count = move |n: u32| W::small(n).wrap(w);
    match op {
        IntFn::Abs => v.i1(move |a| a.signed(w).abs().wrap(w)),
        IntFn::LeadingZeros => v.i1(move |a| count(a.unsigned(w).leading_zeros() - (W::BITS - w))),
        IntFn::TrailingZeros => v.i1(move |a| count(a.unsigned(w).trailing_zeros().min(w))),
        IntFn::Ones => v.i1(move |a| count(a.unsigned(w).ones())),
    }
}

#[inline(always)]
pub(crate) fn cmp_int<W: Word, V: Ints<W>>(cmp: IntCmp, w: u32, v: V) -> V::Out {
    let s = move |x: W| x.signed(w);
    let is = |holds: bool| if holds { W::ONE } else { W::ZERO };
    match cmp {
        IntCmp::Eq => v.i2(move |a, b| is(a == b)),
        IntCmp::Ne => v.i2(move |a, b| is(a != b)),
        IntCmp::Slt => v.i2(move |a, b| is(s(a) < s(b))),
        IntCmp::Sle => v.i2(move |a, b| is(s(a) <= s(b))),
        IntCmp::Sgt => v.i2(move |a, b| is(s(a) > s(b))),
        IntCmp::Sge => v.i2(move |a, b| is(s(a) >= s(b))),
        IntCmp::Ult => v.i2(move |a, b| is(a.ucmp(b).is_lt())),
        IntCmp::Ule => v.i2(move |a, b| is(a.ucmp(b).is_le())),
        IntCmp::Ugt => v.i2(move |a, b| is(a.ucmp(b).is_gt())),
        IntCmp::Uge => v.i2(move |a, b| is(a.ucmp(b).is_ge())),
    }
}

/// Whether the order holds between two numbers.
#[inline(always)]
fn holds<T: PartialOrd>(cmp: FloatCmp, a: T, b: T) -> bool {
    use std::cmp::Ordering::*;
    let order = a.partial_cmp(&b);
    match cmp {
        FloatCmp::False => false,
        FloatCmp::Oeq => order == Some(Equal),
        FloatCmp::Ogt => order == Some(Greater),
        FloatCmp::Oge => matches!(order, Some(Greater | Equal)),
        FloatCmp::Olt => order == Some(Less),
        FloatCmp::Ole => matches!(order, Some(Less | Equal)),
        FloatCmp::One => matches!(order, Some(Less | Greater)),
        FloatCmp::Ord => order.is_some(),
        FloatCmp::Ueq => matches!(order, None | Some(Equal)),
        FloatCmp::Ugt => matches!(order, None | Some(Greater)),
        FloatCmp::Uge => matches!(order, None | Some(Greater | Equal)),
        FloatCmp::Ult => matches!(order, None | Some(Less)),
        FloatCmp::Ule => matches!(order, None | Some(Less | Equal)),
        FloatCmp::Une => order != Some(Equal),
        FloatCmp::Uno => order.is_none(),
        FloatCmp::True => true,
    }
}

fn cmp_float<V: Visit>(cmp: FloatCmp, kind: Kind, v: V) -> V::Out {
    match (kind, cmp) {
        (Kind::F64, cmp) => v.d2_i(move |a, b| holds(cmp, a, b)),
        (_, FloatCmp::Ogt) => v.f2_i(|a, b| a > b),
        (_, FloatCmp::Olt) => v.f2_i(|a, b| a < b),
        (_, cmp) => v.f2_i(move |a, b| holds(cmp, a, b)),
    }
}

/// Takes the function of a float operation.
trait With2<T> {
    type Out;
    fn call(self, f: impl Fn(T, T) -> T) -> Self::Out;
}
struct Single2<V>(V);
struct Double2<V>(V);
struct Half2<V>(V, Kind);
impl<V: Visit> With2<f32> for Single2<V> {
    type Out = V::Out;
    #[inline(always)]
    fn call(self, f: impl Fn(f32, f32) -> f32) -> V::Out {
        self.0.f2(f)
    }
}
impl<V: Visit> With2<f64> for Double2<V> {
    type Out = V::Out;
    #[inline(always)]
    fn call(self, f: impl Fn(f64, f64) -> f64) -> V::Out {
        self.0.d2(f)
    }
}
impl<V: Visit> With2<f32> for Half2<V> {
    type Out = V::Out;
    #[inline(always)]
    fn call(self, f: impl Fn(f32, f32) -> f32) -> V::Out {
        let kind = self.1;
        self.0.f2(move |a, b| round(f(a, b), kind))
    }
}
macro_rules! float_binary {
    ($w:expr, $op:expr, $t:ty, $pow:path, $atan2:path) => {{
        let with = $w;
        match $op {
            FloatOp::Add => with.call(|a: $t, b: $t| a + b),
            FloatOp::Sub => with.call(|a: $t, b: $t| a - b),
            FloatOp::Mul => with.call(|a: $t, b: $t| a * b),
            FloatOp::Div => with.call(|a: $t, b: $t| a / b),
            FloatOp::Rem => with.call(|a: $t, b: $t| a % b),
            // Of two zeros the negative one is less.
            FloatOp::Minimum => with.call(|a: $t, b: $t| {
                if a.is_nan() || b.is_nan() {
                    <$t>::NAN
                } else if a < b || (a == b && a.is_sign_negative()) {
                    a
                } else {
                    b
                }
            }),
            FloatOp::Maximum => with.call(|a: $t, b: $t| {
                if a.is_nan() || b.is_nan() {
                    <$t>::NAN
                } else if a > b || (a == b && !a.is_sign_negative()) {
                    a
                } else {
                    b
                }
            }),
            FloatOp::MinNum => with.call(|a: $t, b: $t| {
                if a < b || (a == b && a.is_sign_negative()) || b.is_nan() {
                    a
                } else {
                    b
                }
            }),
            FloatOp::MaxNum => with.call(|a: $t, b: $t| {
                if a > b || (a == b && !a.is_sign_negative()) || b.is_nan() {
                    a
                } else {
                    b
                }
            }),
            FloatOp::Pow => with.call($pow),
            FloatOp::Atan2 => with.call($atan2),
            FloatOp::CopySign => with.call(<$t>::copysign),
        }
    }};
}

fn pow_single(a: f32, b: f32) -> f32 {
    libm::pow(a.into(), b.into()) as f32
}
fn atan2_single(a: f32, b: f32) -> f32 {
    libm::atan2(a.into(), b.into()) as f32
}
// What is rounded to 16 bits afterwards: to odd first, so that it is as if rounded once.
fn pow_half(a: f32, b: f32) -> f32 {
    odd_single(libm::pow(a.into(), b.into()))
}
fn atan2_half(a: f32, b: f32) -> f32 {
    odd_single(libm::atan2(a.into(), b.into()))
}

/// Rounded to odd: towards zero, and to the odd one of the two neighbours if it is not exact.
/// Rounding the result to a format of at least two digits less gives what rounding `x` gives
/// (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
fn odd_single(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) == x || x.is_nan() {
        return near;
    }
    let bits = near.to_bits();
    let below = bits - u32::from(f64::from(near).abs() > x.abs());
    f32::from_bits(below | 1)
}
/// The sum of two numbers, rounded to odd.
fn odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // The error of the sum, exactly (Knuth's TwoSum).
    let shadow = sum - a;
    let error = (a - (sum - shadow)) + (b - shadow);
    if error == 0.0 || !sum.is_finite() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // Even and not exact: the odd neighbour on the side of the error.
    let up = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if up {
        sum.to_bits() + 1
    } else {
        sum.to_bits() - 1
    })
}
/// Rounded to a 16-bit kind.
fn narrow(value: f64, kind: Kind) -> f32 {
    match kind.format() {
        Some(format) => f32::from_bits(kind.decode(float_bits(value, format)) as u32),
        None => value as f32,
    }
}

fn float<V: Visit>(op: FloatOp, kind: Kind, v: V) -> V::Out {
    match kind {
        Kind::F64 => float_binary!(Double2(v), op, f64, libm::pow, libm::atan2),
        Kind::F16 | Kind::BF16 => float_binary!(Half2(v, kind), op, f32, pow_half, atan2_half),
        _ => float_binary!(Single2(v), op, f32, pow_single, atan2_single),
    }
}

fn double(op: FloatFn) -> fn(f64) -> f64 {
    match op {
        FloatFn::Neg => |a| -a,
        FloatFn::Abs => f64::abs,
        FloatFn::Sqrt => f64::sqrt,
        FloatFn::Rsqrt => |a| 1.0 / a.sqrt(),
        FloatFn::Cbrt => libm::cbrt,
        FloatFn::Exp => libm::exp,
        FloatFn::Exp2 => libm::exp2,
        FloatFn::Expm1 => libm::expm1,
        FloatFn::Log => libm::log,
        FloatFn::Log2 => libm::log2,
        FloatFn::Log10 => libm::log10,
        FloatFn::Log1p => libm::log1p,
        FloatFn::Sin => libm::sin,
        FloatFn::Cos => libm::cos,
        FloatFn::Tan => libm::tan,
        FloatFn::Asin => libm::asin,
        FloatFn::Acos => libm::acos,
        FloatFn::Atan => libm::atan,
        FloatFn::Sinh => libm::sinh,
        FloatFn::Cosh => libm::cosh,
        FloatFn::Tanh => libm::tanh,
        FloatFn::Asinh => libm::asinh,
        FloatFn::Acosh => libm::acosh,
        FloatFn::Atanh => libm::atanh,
        FloatFn::Erf => libm::erf,
        FloatFn::Erfc => libm::erfc,
        FloatFn::Ceil => f64::ceil,
        FloatFn::Floor => f64::floor,
        FloatFn::Trunc => f64::trunc,
        FloatFn::Round => f64::round,
        FloatFn::RoundEven => f64::round_ties_even,
    }
}

fn float_fn<V: Visit>(op: FloatFn, kind: Kind, v: V) -> V::Out {
    match (kind, op) {
        (Kind::F64, op) => v.d1(double(op)),
        (Kind::F32, FloatFn::Neg) => v.f1(|a| -a),
        (Kind::F32, FloatFn::Abs) => v.f1(f32::abs),
        (Kind::F32, FloatFn::Sqrt) => v.f1(f32::sqrt),
        (Kind::F32, op) => {
            // Rounded once from double precision, as a fold does it.
            let g = double(op);
            v.f1(move |a| g(a.into()) as f32)
        }
        (kind, op) => {
            let g = double(op);
            v.f1(move |a| narrow(g(a.into()), kind))
        }
    }
}

fn cast(how: CastOp, from: Kind, to: Kind, bits: u64) -> u64 {
    let (w_from, w_to) = (from.width(), to.width());
    let int = bits as i64;
    match how {
        CastOp::IntS => int.signed(w_from).wrap(w_to) as u64,
        CastOp::IntU => int.unsigned(w_from).wrap(w_to) as u64,
        CastOp::SiToFp => {
            let value = int.signed(w_from);
            float_of(value < 0, value.unsigned_abs().into(), to)
        }
        CastOp::UiToFp => float_of(false, (int.unsigned(w_from) as u64).into(), to),
        CastOp::FpToSi => int_of(number(from, bits), w_to, true) as u64,
        CastOp::FpToUi => int_of(number(from, bits), w_to, false) as u64,
        CastOp::Float => match to {
            Kind::F64 => number(from, bits).to_bits(),
            Kind::F32 => (number(from, bits) as f32).to_bits().into(),
            to => narrow(number(from, bits), to).to_bits().into(),
        },
        CastOp::Bits => to.decode(from.encode(bits)),
    }
}

/// The number in a register of a float kind.
pub(crate) fn number(kind: Kind, register: u64) -> f64 {
    match kind.class() {
        Class::Double => f64::from_bits(register),
        _ => f64::from(f32::from_bits(register as u32)),
    }
}

/// The register of a float kind that holds an integer, rounded once.
pub(crate) fn float_of(negative: bool, magnitude: u128, to: Kind) -> u64 {
    match to {
        Kind::F64 => {
            let value = magnitude as f64;
            if negative { -value } else { value }.to_bits()
        }
        Kind::F32 => {
            let value = magnitude as f32;
            if negative { -value } else { value }.to_bits().into()
        }
        to => {
            // To odd first: the digits that an f64 has not are told by the last one it has.
            let extra = (128 - magnitude.leading_zeros()).saturating_sub(f64::MANTISSA_DIGITS);
            let kept = magnitude >> extra;
            let rest = u128::from(kept << extra != magnitude);
            let value = (kept | rest) as f64 * 2f64.powi(extra as i32);
            let value = if negative { -value } else { value };
            narrow(value, to).to_bits().into()
        }
    }
}

/// A float as an integer of a width, sign-extended: rounded towards zero; what is out of range
/// becomes the nearest integer there is, NaN becomes 0. This is the one rule of conversions from
/// floats to integers, at every level and in folds (MLIR leaves them undefined).
pub(crate) fn int_of(value: f64, width: u32, signed: bool) -> i128 {
    let most = u128::MAX >> (128 - width.clamp(1, 128));
    if signed {
        let most = (most >> 1) as i128;
        (value as i128).clamp(!most, most).wrap(width)
    } else {
        ((value as u128).min(most) as i128).wrap(width)
    }
}
