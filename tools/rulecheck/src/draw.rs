//! Values for the leaves of an instance: for each way in which rules are wrong some that show it.
//!
//! All leaves of an instance are drawn in one style, so that what is compared can be exact where it
//! must be. Whole numbers show wrong indices and factors, since sums and products of them are exact
//! in any order; fractions show roundings, powers of two what scales; the extremes of a type show
//! overflow, infinities, NaN, signed zeros and subnormals. A rule that regroups floats says nothing
//! of the extremes of floats: it gets fractions instead, but the extremes of integers, which wrap.

use tir::data::{Array, DType};
use tir::interp::tensor_form;
use tir::{Attr, Class, Data, FloatType, Type};

use crate::plan::Plan;
use tir::data::Random;

/// A number for an element of any type: its value as a float, and as an integer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    float: f64,
    int: i64,
}

impl Number {
    /// A whole number.
    pub(crate) fn whole(n: i64) -> Self {
        let float = n as f64;
        Self { float, int: n }
    }
    /// An element of an array.
    pub(crate) fn of(array: &Array, index: usize) -> Self {
        let float = array.get_f64(index).unwrap_or_default();
        let int = array.get_int(index).map_or(float as i64, |n| n as i64);
        Self { float, int }
    }
    /// Whether it is this whole number.
    pub(crate) fn is(self, n: i64) -> bool {
        self.float == n as f64 && self.int == n
    }
}

/// How the values of an instance are drawn.
#[derive(Clone, Copy)]
enum Style {
    /// From a small number on, seven.
    Whole(i64),
    /// Eighths and thirds up to 8, of one sign or both.
    Fractions { positive: bool },
    /// Powers of two, of both signs, whose exponents are at most so large.
    Powers(i64),
    /// So many percent of the elements are extremes of their type; the others fractions.
    Extremes(usize),
}

impl Style {
    fn draw(class: Class, random: &mut Random) -> Self {
        let wide = matches!(class, Class::Exact | Class::NoNans);
        let whole = [-3, -3, -3, 0, 1, 1];
        match random.below(100) {
            0..38 => Style::Whole(random.pick(&whole).unwrap_or_default()),
            38..60 => Style::Fractions {
                positive: random.percent(40),
            },
            60..70 => Style::Powers(if wide { 40 } else { 6 }),
            _ => Style::Extremes(random.pick(&[3, 20, 60]).unwrap_or_default()),
        }
    }

    fn number(self, ty: Type, class: Class, random: &mut Random) -> Number {
        let elem = ty.elem();
        let bits = elem.bits().unwrap_or(64).clamp(1, 64);
        match self {
            Style::Whole(low) => Number::whole(low + random.below(7) as i64),
            Style::Fractions { positive } => fraction(positive, random),
            Style::Powers(most) => {
                let exponent = random.below(2 * most as usize + 1) as i64 - most;
                let sign = if random.percent(50) { 1 } else { -1 };
                let shift = exponent.unsigned_abs() % u64::from(bits);
                Number {
                    float: sign as f64 * (exponent as f64).exp2(),
                    int: sign << shift,
                }
            }
            Style::Extremes(percent) if random.percent(percent) => Number {
                int: integer(bits, random),
                float: match class {
                    Class::Exact => float(elem, true, random),
                    Class::NoNans => float(elem, false, random),
                    Class::Reassociating | Class::Contracting => fraction(false, random).float,
                },
            },
            Style::Extremes(_) => fraction(false, random),
        }
    }
}

/// A number of moderate size with a fraction; any whole one where there are none.
fn fraction(positive: bool, random: &mut Random) -> Number {
    let part = random.pick(&[8.0, 8.0, 3.0, 10.0]).unwrap_or(8.0);
    let n = 1 + random.below(64) as i64;
    let n = if positive || random.percent(50) {
        n
    } else {
        -n
    };
    Number {
        float: n as f64 / part,
        int: n,
    }
}

/// An extreme of the integers of so many bits, one beside it, or any.
fn integer(bits: u32, random: &mut Random) -> i64 {
    let least = i64::MIN >> (64 - bits);
    let most = !least;
    let all = [least, least, most, least + 1, most - 1, -1, 0, 1, 2, -2];
    match random.percent(70) {
        true => random.pick(&all).unwrap_or_default(),
        false => (random.next_u64() as i64) >> (64 - bits),
    }
}

/// An extreme of the floats of a type.
fn float(elem: Type, nan: bool, random: &mut Random) -> f64 {
    let double = elem.get::<FloatType>() == Some(&FloatType::F64);
    let [most, normal, least] = match double {
        true => [f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1)],
        false => [
            f64::from(f32::MAX),
            f64::from(f32::MIN_POSITIVE),
            f64::from(f32::from_bits(1)),
        ],
    };
    let root = if double { 1e160 } else { 1e20 };
    let all = [
        0.0,
        most,
        normal,
        least,
        f64::INFINITY,
        0.5,
        1.5,
        2.5,
        root,
        1.0 / root,
        1.0,
        f64::NAN,
    ];
    let count = all.len() - usize::from(!nan);
    let x = all[random.below(count)];
    if random.percent(50) { -x } else { x }
}

/// Values for the leaves, for a rule of a class.
pub(crate) fn values(plan: &Plan, class: Class, seed: u64) -> Option<Vec<Data>> {
    let mut random = Random::new(seed);
    let style = Style::draw(class, &mut random);
    let mut one = |leaf: &crate::plan::Leaf| {
        let count = leaf.ty.elements().unwrap_or(1);
        let number = |_| style.number(leaf.ty, class, &mut random);
        let numbers: Vec<Number> = (0..count).map(number).collect();
        data(leaf.ty, &numbers)
    };
    plan.leaves.iter().map(&mut one).collect()
}

/// The value of a type that has these numbers.
pub(crate) fn data(ty: Type, numbers: &[Number]) -> Option<Data> {
    if ty.shape().is_none() {
        let n = *numbers.first()?;
        let attr = match ty.is_float() {
            true => Attr::float(n.float, ty),
            false => Attr::int(n.int, ty),
        };
        return tir::interp::constant(attr, ty).ok();
    }
    let (dtype, shape) = tensor_form(ty).ok()?;
    let (shape, n) = (&shape[..], numbers.iter());
    let array = match dtype {
        DType::F32 => Array::from_vec(shape, n.map(|n| n.float as f32).collect()),
        DType::F64 => Array::from_vec(shape, n.map(|n| n.float).collect()),
        DType::I8 => Array::from_vec(shape, n.map(|n| n.int as i8).collect()),
        DType::I16 => Array::from_vec(shape, n.map(|n| n.int as i16).collect()),
        DType::I32 => Array::from_vec(shape, n.map(|n| n.int as i32).collect()),
        DType::I64 => Array::from_vec(shape, n.map(|n| n.int).collect()),
        DType::Bool => Array::from_bools(shape, &n.map(|n| n.int & 1 != 0).collect::<Vec<_>>()),
        _ => return None,
    };
    Some(Data::Tensor(array.ok()?))
}
