//! Elementary functions as a few multiply-adds and changes of bits: what a processor computes for a whole vector at once,
//! where a library computes one number after the other.
//!
//! # Terms
//!
//! A number `x` is reduced to a small interval, a polynomial gives the function there, and the result is put together from
//! it. An *ulp* is the distance of two neighbours at the exact result; all here stay below two of them, denormal results,
//! zeros with their sign, infinities and NaN included. Computing is in `f32`; narrower floats are widened before and
//! rounded behind, wider ones have no form here.
//!
//! The polynomials are minimax for the relative error of the function: least squares whose weights are multiplied by the
//! error until that is level (Lawson's algorithm, C. L. Lawson, 1961), a coefficient at a time rounded to `f32` and the
//! others fitted again. Powers of two are split as W. J. Cody and W. Waite do (Software Manual for the Elementary
//! Functions, 1980).

use tir::rewrite::interfaces::Typed;
use tir::{At, Attr, Builder, DenseElements, Hook, Ir, Op, OpId, Type, Value};
use tir_arith::{
    AddF, AddI, AndI, Bitcast, CmpF, CmpFPredicate, Constant, DivF, ExtF, MulF, OrI, Select, ShLI,
    ShRSI, SubF, SubI, TruncF,
};

use crate::ops::{AbsF, Erf, Exp, Exp2, Fma, Log, Log1p, Tanh};

/// A function of one number that has an approximation.
pub trait Approximate: Op {
    /// The function of `x`, numbers of `f32`, alone or as a vector.
    fn approximate(code: &mut Code<'_>, x: Value) -> Value;
}

/// [`Approximate`] as an interface.
pub trait Approximation: Send + Sync {
    /// Puts the approximation before an op, and gives its value; none if the op is of a type that has none.
    fn build(&self, ir: &mut Ir, op: OpId) -> Option<Value>;
}

impl<T: Approximate> Approximation for Typed<T> {
    fn build(&self, ir: &mut Ir, op: OpId) -> Option<Value> {
        let (x, ty) = (ir.operands(op).next()?, ir.ty(ir.result(op, 0)));
        let single = ty.with_elem(Type::f32());
        let narrow = ty.elem().float_width()? < 32;
        if !narrow && ty != single {
            return None;
        }
        let mut code = Code {
            b: ir.at(At::Before(op)),
            ty: single,
        };
        if !narrow {
            return Some(T::approximate(&mut code, x));
        }
        let x = code.b.add(ExtF::new(x, single));
        let y = T::approximate(&mut code, x);
        Some(code.b.add(TruncF::new(y, ty)))
    }
}

/// The hook of an op that has an approximation.
pub fn approximation<T: Approximate>() -> Hook {
    Hook::interface::<dyn Approximation>(Typed::<T>::NEW)
}

/// Where code of one shape is put.
pub struct Code<'a> {
    b: Builder<'a>,
    /// `f32`, or a vector of it.
    ty: Type,
}

/// 1.5 · 2²³: added to a number below 2²², it leaves the nearest whole number in the low bits.
const WHOLE: f32 = 12_582_912.0;
/// The logarithm of two, to a multiple of 2⁻¹⁴, and the rest of it.
const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];
const SIGN: i64 = -0x8000_0000;

impl Code<'_> {
    fn ints(&self) -> Type {
        self.ty.with_elem(Type::int(32))
    }

    fn constant(&mut self, ty: Type, bits: u32, scalar: Attr) -> Value {
        let value = match ty.shape() {
            None => scalar,
            Some(_) => Attr::new(DenseElements {
                ty,
                data: bits.to_le_bytes().into(),
            }),
        };
        self.b.add(Constant { value })
    }

    /// A number.
    pub fn float(&mut self, value: f32) -> Value {
        let scalar = Attr::float(f64::from(value), Type::f32());
        self.constant(self.ty, value.to_bits(), scalar)
    }

    fn int(&mut self, value: i64) -> Value {
        self.constant(self.ints(), value as u32, Attr::int(value, Type::int(32)))
    }

    fn add(&mut self, lhs: Value, rhs: Value) -> Value {
        self.b.add(AddF::new(lhs, rhs))
    }

    fn sub(&mut self, lhs: Value, rhs: Value) -> Value {
        self.b.add(SubF::new(lhs, rhs))
    }

    fn mul(&mut self, lhs: Value, rhs: Value) -> Value {
        self.b.add(MulF::new(lhs, rhs))
    }

    fn div(&mut self, lhs: Value, rhs: Value) -> Value {
        self.b.add(DivF::new(lhs, rhs))
    }

    fn addi(&mut self, lhs: Value, rhs: Value) -> Value {
        let overflow = None;
        self.b.add(AddI { lhs, rhs, overflow })
    }

    fn subi(&mut self, lhs: Value, rhs: Value) -> Value {
        let overflow = None;
        self.b.add(SubI { lhs, rhs, overflow })
    }

    fn shli(&mut self, lhs: Value, rhs: Value) -> Value {
        let overflow = None;
        self.b.add(ShLI { lhs, rhs, overflow })
    }

    fn shrsi(&mut self, lhs: Value, rhs: Value) -> Value {
        let exact = None;
        self.b.add(ShRSI { lhs, rhs, exact })
    }

    fn andi(&mut self, lhs: Value, rhs: Value) -> Value {
        self.b.add(AndI { lhs, rhs })
    }

    fn ori(&mut self, lhs: Value, rhs: Value) -> Value {
        self.b.add(OrI { lhs, rhs })
    }

    /// `a · b + c`, rounded once.
    fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        let fastmath = None;
        self.b.add(Fma { a, b, c, fastmath })
    }

    fn is(&mut self, lhs: Value, predicate: CmpFPredicate, rhs: Value) -> Value {
        let fastmath = None;
        self.b.add(CmpF {
            predicate,
            lhs,
            rhs,
            fastmath,
        })
    }

    fn select(&mut self, condition: Value, true_value: Value, false_value: Value) -> Value {
        self.b.add(Select {
            condition,
            true_value,
            false_value,
        })
    }

    fn bits(&mut self, x: Value) -> Value {
        let ints = self.ints();
        self.b.add(Bitcast::new(x, ints))
    }

    fn number(&mut self, bits: Value) -> Value {
        let ty = self.ty;
        self.b.add(Bitcast::new(bits, ty))
    }

    /// `x`, but not below `low`; NaN stays.
    fn at_least(&mut self, low: f32, x: Value) -> Value {
        let low = self.float(low);
        let below = self.is(low, CmpFPredicate::Ogt, x);
        self.select(below, low, x)
    }

    /// `x`, but not above `high`; NaN stays.
    fn at_most(&mut self, high: f32, x: Value) -> Value {
        let high = self.float(high);
        let above = self.is(high, CmpFPredicate::Olt, x);
        self.select(above, high, x)
    }

    /// The polynomial with these coefficients, that of the highest power first (W. G. Horner's scheme).
    fn polynomial(&mut self, x: Value, coefficients: &[f32]) -> Value {
        let mut rest = coefficients.iter();
        let first = rest.next().copied().unwrap_or_default();
        let mut sum = self.float(first);
        for next in rest {
            let next = self.float(*next);
            sum = self.fma(sum, x, next);
        }
        sum
    }

    /// The sum of a whole number in the low bits, as [`WHOLE`] leaves it: the number as a float, and as an integer.
    fn whole(&mut self, sum: Value) -> [Value; 2] {
        let magic = self.float(WHOLE);
        let float = self.sub(sum, magic);
        let bits = self.bits(sum);
        let zero = self.int(i64::from(WHOLE.to_bits()));
        [float, self.subi(bits, zero)]
    }

    /// Two to the power of a whole number from -126 to 127.
    fn power(&mut self, exponent: Value) -> Value {
        let (bias, places) = (self.int(127), self.int(23));
        let biased = self.addi(exponent, bias);
        let bits = self.shli(biased, places);
        self.number(bits)
    }

    /// `x` times two to the power of a whole number from -252 to 254: in two steps, of which only the second one rounds.
    fn scaled(&mut self, x: Value, exponent: Value) -> Value {
        let one = self.int(1);
        let half = self.shrsi(exponent, one);
        let rest = self.subi(exponent, half);
        let (half, rest) = (self.power(half), self.power(rest));
        let x = self.mul(x, half);
        self.mul(x, rest)
    }

    /// e to the power of `x` as a number from 0.7 to 1.5 and the exponent of a power of two.
    fn exponential(&mut self, x: Value) -> [Value; 2] {
        let (by_ln_2, magic) = (self.float(std::f32::consts::LOG2_E), self.float(WHOLE));
        let sum = self.fma(x, by_ln_2, magic);
        let [n, exponent] = self.whole(sum);
        let (high, low) = (self.float(-LN_2[0]), self.float(-LN_2[1]));
        let r = self.fma(n, high, x);
        let r = self.fma(n, low, r);
        let q = [
            0.001_382_144_6,
            0.008_368_662,
            0.041_668_255,
            0.166_665_21,
            0.499_999_94,
        ];
        let q = self.polynomial(r, &q);
        let one = self.float(1.0);
        let linear = self.fma(q, r, one);
        [self.fma(linear, r, one), exponent]
    }

    /// e to the power of `x`, which is from -87 to 88.
    fn moderate_exponential(&mut self, x: Value) -> Value {
        let [y, exponent] = self.exponential(x);
        let power = self.power(exponent);
        self.mul(y, power)
    }

    /// A number that is not negative, with the sign of another one.
    fn signed(&mut self, size: Value, like: Value) -> Value {
        let mask = self.int(SIGN);
        let (size, like) = (self.bits(size), self.bits(like));
        let sign = self.andi(like, mask);
        let bits = self.ori(size, sign);
        self.number(bits)
    }

    /// The natural logarithm.
    fn logarithm(&mut self, x: Value) -> Value {
        // A denormal number is made a normal one first.
        let (least, shift) = (self.float(f32::MIN_POSITIVE), self.float(8_388_608.0));
        let tiny = self.is(x, CmpFPredicate::Olt, least);
        let larger = self.mul(x, shift);
        let normal = self.select(tiny, larger, x);
        let (none, places) = (self.int(0), self.int(23));
        let shifted = self.select(tiny, places, none);
        // 2^e · m, m from √½ to √2.
        let bits = self.bits(normal);
        let root = self.int(i64::from(std::f32::consts::FRAC_1_SQRT_2.to_bits()));
        let above = self.subi(bits, root);
        let e = self.shrsi(above, places);
        let exponent = self.shli(e, places);
        let m = self.subi(bits, exponent);
        let m = self.number(m);
        let e = self.subi(e, shifted);
        let e = self.b.add(tir_arith::SIToFP::new(e, self.ty));
        let one = self.float(1.0);
        let f = self.sub(m, one);
        let q = self.polynomial(
            f,
            &[
                -0.076_231_7,
                0.129_147_29,
                -0.132_475,
                0.141_805_96,
                -0.166_084_3,
                0.200_020_13,
                -0.250_016_1,
                0.333_333_25,
                -0.499_999_88,
            ],
        );
        let square = self.mul(f, f);
        let (high, low) = (self.float(LN_2[0]), self.float(LN_2[1]));
        let rest = self.mul(e, low);
        let rest = self.fma(square, q, rest);
        let y = self.add(f, rest);
        let y = self.fma(e, high, y);
        // Infinity and NaN are their own logarithms; that of zero, and of what is below.
        let infinity = self.float(f32::INFINITY);
        let finite = self.is(x, CmpFPredicate::Olt, infinity);
        let y = self.select(finite, y, x);
        let zero = self.float(0.0);
        let (least, nan) = (self.float(f32::NEG_INFINITY), self.float(f32::NAN));
        let at_zero = self.is(x, CmpFPredicate::Oeq, zero);
        let y = self.select(at_zero, least, y);
        let negative = self.is(x, CmpFPredicate::Olt, zero);
        self.select(negative, nan, y)
    }
}

impl Approximate for Exp {
    fn approximate(code: &mut Code<'_>, x: Value) -> Value {
        // Beyond it is zero, or infinity.
        let x = code.at_least(-104.0, x);
        let x = code.at_most(89.0, x);
        let [y, exponent] = code.exponential(x);
        code.scaled(y, exponent)
    }
}

impl Approximate for Exp2 {
    fn approximate(code: &mut Code<'_>, x: Value) -> Value {
        let x = code.at_least(-151.0, x);
        let x = code.at_most(129.0, x);
        let magic = code.float(WHOLE);
        let sum = code.add(x, magic);
        let [n, exponent] = code.whole(sum);
        let f = code.sub(x, n);
        let q = code.polynomial(
            f,
            &[
                0.000_153_264_93,
                0.001_339_081_2,
                0.009_618_506,
                0.055_503_6,
                0.240_226_48,
                std::f32::consts::LN_2,
            ],
        );
        let one = code.float(1.0);
        let y = code.fma(q, f, one);
        code.scaled(y, exponent)
    }
}

impl Approximate for Log {
    fn approximate(code: &mut Code<'_>, x: Value) -> Value {
        code.logarithm(x)
    }
}

impl Approximate for Log1p {
    fn approximate(code: &mut Code<'_>, x: Value) -> Value {
        // What the sum loses is added behind: log(1 + x) = log u + (1 + x - u) / u, nearly.
        let one = code.float(1.0);
        let u = code.add(x, one);
        let held = code.sub(u, one);
        let lost = code.sub(x, held);
        let lost = code.div(lost, u);
        let log = code.logarithm(u);
        let y = code.add(log, lost);
        // At the ends nothing is lost, and the division is none.
        let (zero, infinity) = (code.float(0.0), code.float(f32::INFINITY));
        let positive = code.is(u, CmpFPredicate::Ogt, zero);
        let y = code.select(positive, y, log);
        let finite = code.is(u, CmpFPredicate::Olt, infinity);
        let y = code.select(finite, y, log);
        let none = code.is(u, CmpFPredicate::Oeq, one);
        code.select(none, x, y)
    }
}

impl Approximate for Tanh {
    fn approximate(code: &mut Code<'_>, x: Value) -> Value {
        let size = code.b.add(AbsF::new(x));
        // Near zero an odd polynomial, of the square.
        let square = code.mul(size, size);
        let p = [
            -0.005_897_966_7,
            0.020_798_625,
            -0.053_784_717,
            0.133_319_36,
            -0.333_333,
        ];
        let p = code.polynomial(square, &p);
        let cube = code.mul(square, size);
        let near = code.fma(p, cube, size);
        // Elsewhere 1 - 2 / (e^2x + 1).
        let (one, two) = (code.float(1.0), code.float(2.0));
        let most = code.at_most(10.0, size);
        let double = code.add(most, most);
        let exp = code.moderate_exponential(double);
        let below = code.add(exp, one);
        let quotient = code.div(two, below);
        let far = code.sub(one, quotient);
        let end = code.float(0.6);
        let is_near = code.is(size, CmpFPredicate::Olt, end);
        let y = code.select(is_near, near, far);
        code.signed(y, x)
    }
}

impl Approximate for Erf {
    fn approximate(code: &mut Code<'_>, x: Value) -> Value {
        let size = code.b.add(AbsF::new(x));
        // Near zero an odd polynomial, of the square.
        let square = code.mul(size, size);
        let p = code.polynomial(
            square,
            &[
                -0.000_600_384_2,
                0.004_995_859,
                -0.026_768_582,
                0.112_818_77,
                -0.376_125,
                0.128_379_15,
            ],
        );
        let near = code.fma(p, size, size);
        // Elsewhere 1 - e^(x q(x)): the logarithm of what is missing to 1 is nearly a polynomial.
        let most = code.at_most(4.0, size);
        let q = code.polynomial(
            most,
            &[
                -1.123_191_1e-5,
                0.000_322_812_7,
                -0.003_642_506,
                0.023_762_183,
                -0.106_237_04,
                -0.635_151_2,
                -1.128_648_5,
            ],
        );
        let log = code.mul(q, most);
        let missing = code.moderate_exponential(log);
        let one = code.float(1.0);
        let far = code.sub(one, missing);
        let end = code.float(0.92);
        let is_near = code.is(size, CmpFPredicate::Olt, end);
        let y = code.select(is_near, near, far);
        code.signed(y, x)
    }
}
