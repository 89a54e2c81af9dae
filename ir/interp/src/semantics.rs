//! What scalar operations compute: each function once, for registers and for columns.

use half::{bf16, f16};

use crate::ops::{CastOp, FloatCmp, FloatFn, FloatOp, IntCmp, IntFn, IntOp, ScalarOp, Trap};
use crate::scalar::{Class, Kind, wrap};

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
        ScalarOp::Int(op, kind) => int(op, kind.width() as u8, v),
        ScalarOp::Float(op, kind) => float(op, kind, v),
        ScalarOp::IntFn(op, kind) => int_fn(op, kind.width() as u8, v),
        ScalarOp::FloatFn(op, kind) => float_fn(op, kind, v),
        ScalarOp::CmpInt(cmp, kind) => cmp_int(cmp, kind == Kind::BOOL, v),
        ScalarOp::CmpFloat(cmp, kind) => cmp_float(cmp, kind, v),
        ScalarOp::Select(kind) => v.select(kind.class()),
        ScalarOp::Copy(kind) => v.copy(kind.class()),
        ScalarOp::Fma(Kind::F64) => v.d3(f64::mul_add),
        ScalarOp::Fma(Kind::F32) => v.f3(f32::mul_add),
        // Products and sums of 16-bit floats are near enough to exact in f64.
        ScalarOp::Fma(kind) => v.f3(move |a, b, c| {
            let exact = f64::from(a) * f64::from(b) + f64::from(c);
            match kind {
                Kind::F16 => f16::from_f64(exact).to_f32(),
                _ => bf16::from_f64(exact).to_f32(),
            }
        }),
        ScalarOp::Cast(how, from, to) => v.convert(from.class(), to.class(), move |bits| {
            cast(how, from, to, bits)
        }),
    }
}

/// The unsigned number behind a sign-extended register.
#[inline(always)]
fn unsigned(value: i64, width: u8) -> u64 {
    if width >= 64 {
        value as u64
    } else {
        value as u64 & ((1 << width) - 1)
    }
}
/// The signed number behind a register: one bit is 0 or -1.
#[inline(always)]
fn signed(value: i64, width: u8) -> i64 {
    if width == 1 { -(value & 1) } else { value }
}

fn int<V: Visit>(op: IntOp, w: u8, v: V) -> V::Out {
    const SHIFT: Trap = "a shift by the width or more";
    const ZERO: Trap = "division by zero";
    const RANGE: Trap = "division by zero, or a quotient that overflows";
    let u = move |x: i64| unsigned(x, w);
    let s = move |x: i64| signed(x, w);
    let ok = move |x: i64| Some(wrap(x, w));
    // The quotient of the least number and -1 does not fit.
    let fits =
        move |a: i64, b: i64| b != 0 && !(b == -1 && a == i64::MIN >> (64 - u32::from(w.min(64))));
    match op {
        IntOp::Add if w >= 64 => v.i2(i64::wrapping_add),
        IntOp::Mul if w >= 64 => v.i2(i64::wrapping_mul),
        IntOp::Add => v.i2(move |a, b| wrap(a.wrapping_add(b), w)),
        IntOp::Sub => v.i2(move |a, b| wrap(a.wrapping_sub(b), w)),
        IntOp::Mul => v.i2(move |a, b| wrap(a.wrapping_mul(b), w)),
        IntOp::DivS => v.i2_try(RANGE, move |a, b| {
            let (a, b) = (s(a), s(b));
            fits(a, b).then(|| a / b).and_then(ok)
        }),
        IntOp::CeilDivS => v.i2_try(RANGE, move |a, b| {
            let (a, b) = (s(a), s(b));
            let up = |q: i64| q + i64::from(a % b != 0 && (a < 0) == (b < 0));
            fits(a, b).then(|| up(a / b)).and_then(ok)
        }),
        IntOp::FloorDivS => v.i2_try(RANGE, move |a, b| {
            let (a, b) = (s(a), s(b));
            let down = |q: i64| q - i64::from(a % b != 0 && (a < 0) != (b < 0));
            fits(a, b).then(|| down(a / b)).and_then(ok)
        }),
        IntOp::RemS => v.i2_try(ZERO, move |a, b| {
            let (a, b) = (s(a), s(b));
            (b != 0).then(|| a.wrapping_rem(b)).and_then(ok)
        }),
        IntOp::DivU => v.i2_try(ZERO, move |a, b| ok(u(a).checked_div(u(b))? as i64)),
        IntOp::RemU => v.i2_try(ZERO, move |a, b| ok(u(a).checked_rem(u(b))? as i64)),
        IntOp::CeilDivU => v.i2_try(ZERO, move |a, b| {
            (b != 0).then(|| u(a).div_ceil(u(b)) as i64).and_then(ok)
        }),
        IntOp::And => v.i2(|a, b| a & b),
        IntOp::Or => v.i2(|a, b| a | b),
        IntOp::Xor => v.i2(|a, b| a ^ b),
        IntOp::Shl => v.i2_try(SHIFT, move |a, b| {
            (u(b) < w.into()).then(|| wrap(a << b, w))
        }),
        IntOp::ShrU => v.i2_try(SHIFT, move |a, b| {
            (u(b) < w.into()).then(|| wrap((u(a) >> b) as i64, w))
        }),
        IntOp::ShrS => v.i2_try(SHIFT, move |a, b| {
            (u(b) < w.into()).then(|| wrap(s(a) >> b, w))
        }),
        IntOp::MinS => v.i2(move |a, b| if s(a) < s(b) { a } else { b }),
        IntOp::MaxS => v.i2(move |a, b| if s(a) > s(b) { a } else { b }),
        IntOp::MinU => v.i2(|a, b| if (a as u64) < b as u64 { a } else { b }),
        IntOp::MaxU => v.i2(|a, b| if a as u64 > b as u64 { a } else { b }),
        IntOp::MulHighS => {
            v.i2(move |a, b| wrap(((i128::from(s(a)) * i128::from(s(b))) >> w) as i64, w))
        }
        IntOp::MulHighU => {
            v.i2(move |a, b| wrap(((u128::from(u(a)) * u128::from(u(b))) >> w) as i64, w))
        }
        IntOp::CarryU => {
            v.i2(move |a, b| i64::from((u128::from(u(a)) + u128::from(u(b))) >> w != 0))
        }
        IntOp::Pow => v.i2(move |a, b| {
            let base = s(a);
            match (base, u32::try_from(b)) {
                (_, Ok(n)) => wrap(base.wrapping_pow(n), w),
                (1, _) => 1,
                (-1, _) => wrap(if b & 1 == 0 { 1 } else { -1 }, w),
                _ => 0,
            }
        }),
    }
}

fn int_fn<V: Visit>(op: IntFn, w: u8, v: V) -> V::Out {
    let skip = 64 - u32::from(w);
    match op {
        IntFn::Abs => v.i1(move |a| wrap(signed(a, w).wrapping_abs(), w)),
        IntFn::LeadingZeros => {
            v.i1(move |a| wrap((unsigned(a, w).leading_zeros() - skip).into(), w))
        }
        IntFn::TrailingZeros => {
            v.i1(move |a| wrap(unsigned(a, w).trailing_zeros().min(w.into()).into(), w))
        }
        IntFn::Ones => v.i1(move |a| wrap(unsigned(a, w).count_ones().into(), w)),
    }
}

fn cmp_int<V: Visit>(cmp: IntCmp, bit: bool, v: V) -> V::Out {
    let s = move |x: i64| if bit { -x } else { x };
    match cmp {
        IntCmp::Eq => v.i2(|a, b| (a == b).into()),
        IntCmp::Ne => v.i2(|a, b| (a != b).into()),
        IntCmp::Slt => v.i2(move |a, b| (s(a) < s(b)).into()),
        IntCmp::Sle => v.i2(move |a, b| (s(a) <= s(b)).into()),
        IntCmp::Sgt => v.i2(move |a, b| (s(a) > s(b)).into()),
        IntCmp::Sge => v.i2(move |a, b| (s(a) >= s(b)).into()),
        IntCmp::Ult => v.i2(|a, b| ((a as u64) < b as u64).into()),
        IntCmp::Ule => v.i2(|a, b| (a as u64 <= b as u64).into()),
        IntCmp::Ugt => v.i2(|a, b| (a as u64 > b as u64).into()),
        IntCmp::Uge => v.i2(|a, b| (a as u64 >= b as u64).into()),
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

fn float<V: Visit>(op: FloatOp, kind: Kind, v: V) -> V::Out {
    match kind {
        Kind::F64 => float_binary!(Double2(v), op, f64, libm::pow, libm::atan2),
        Kind::F16 | Kind::BF16 => float_binary!(Half2(v, kind), op, f32, pow_single, atan2_single),
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
            v.f1(move |a| match kind {
                Kind::F16 => f16::from_f64(g(a.into())).to_f32(),
                _ => bf16::from_f64(g(a.into())).to_f32(),
            })
        }
    }
}

fn cast(how: CastOp, from: Kind, to: Kind, bits: u64) -> u64 {
    let number = || match from.class() {
        Class::Double => f64::from_bits(bits),
        _ => f64::from(f32::from_bits(bits as u32)),
    };
    let w_from = from.width() as u8;
    let w_to = to.width() as u8;
    let float = |value: f64| match to {
        Kind::F64 => value.to_bits(),
        Kind::F16 => f16::from_f64(value).to_f32().to_bits().into(),
        Kind::BF16 => bf16::from_f64(value).to_f32().to_bits().into(),
        _ => (value as f32).to_bits().into(),
    };
    match how {
        CastOp::IntS => wrap(signed(bits as i64, w_from), w_to) as u64,
        CastOp::IntU => wrap(unsigned(bits as i64, w_from) as i64, w_to) as u64,
        CastOp::SiToFp => {
            let value = signed(bits as i64, w_from);
            // Straight to f32: through f64 it would be rounded twice.
            if to == Kind::F32 {
                (value as f32).to_bits().into()
            } else {
                float(value as f64)
            }
        }
        CastOp::UiToFp => {
            let value = unsigned(bits as i64, w_from);
            if to == Kind::F32 {
                (value as f32).to_bits().into()
            } else {
                float(value as f64)
            }
        }
        CastOp::FpToSi => {
            let least = i64::MIN >> (64 - u32::from(w_to));
            wrap((number() as i64).clamp(least, !least), w_to) as u64
        }
        CastOp::FpToUi => {
            let most = u64::MAX >> (64 - u32::from(w_to));
            wrap((number() as u64).min(most) as i64, w_to) as u64
        }
        CastOp::Float => float(number()),
        CastOp::Bits => to.decode(from.encode(bits)),
    }
}
