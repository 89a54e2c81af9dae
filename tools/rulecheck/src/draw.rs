//! Values for the leaves of an instance: for each way in which rules are wrong some that show it.
//!
//! All leaves of an instance are drawn in one style, so that what is compared can be exact where it
//! must be. Whole numbers show wrong indices and factors, since sums and products of them are exact
//! in any order; fractions show roundings, powers of two what scales; the extremes of a type show
//! overflow, infinities, NaN, signed zeros and subnormals, and what narrower types cut or round. A rule
//! that regroups floats says nothing of the extremes of floats: it gets fractions instead, but the
//! extremes of integers, which wrap.
//!
//! What is wrong for one extreme alone, or for two that meet, is seldom met by drawing each element
//! anew. So a **palette** of a few numbers is drawn for some instances, of which all elements are; and
//! elements **repeat** what stands at their place in another leaf, or its opposite.

use tir::data::{Array, DType};
use tir::interp::tensor_form;
use tir::{Attr, Class, Data, FloatType, IntType, Sign, Type, float_bits};

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
    fn opposite(self) -> Self {
        Self {
            float: -self.float,
            int: self.int.wrapping_neg(),
        }
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
    /// All elements are of a few numbers, most of them extremes of their type.
    Palette,
}

/// Numbers of a palette.
const COLOURS: usize = 3;

/// The numbers of the instance for each element type.
type Palettes = Vec<(Type, [Number; COLOURS])>;

impl Style {
    fn draw(class: Class, random: &mut Random) -> Self {
        let wide = matches!(class, Class::Exact | Class::NoNans);
        let whole = [-3, -3, -3, 0, 1, 1];
        match random.below(100) {
            0..35 => Style::Whole(random.pick(&whole).unwrap_or_default()),
            35..55 => Style::Fractions {
                positive: random.percent(40),
            },
            55..63 => Style::Powers(if wide { 40 } else { 6 }),
            63..80 => Style::Palette,
            _ => Style::Extremes(random.pick(&[3, 20, 60]).unwrap_or_default()),
        }
    }

    fn number(
        self,
        elem: Type,
        class: Class,
        palettes: &mut Palettes,
        random: &mut Random,
    ) -> Number {
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
            Style::Extremes(percent) if random.percent(percent) => extreme(elem, class, random),
            Style::Extremes(_) => fraction(false, random),
            Style::Palette => {
                let known = palettes.iter().position(|(ty, _)| *ty == elem);
                let at = known.unwrap_or_else(|| {
                    let one = |_| match random.percent(75) {
                        true => extreme(elem, class, random),
                        false => fraction(false, random),
                    };
                    palettes.push((elem, std::array::from_fn(one)));
                    palettes.len() - 1
                });
                palettes[at].1[random.below(COLOURS)]
            }
        }
    }
}

/// An extreme of a type, for a rule of a class.
fn extreme(elem: Type, class: Class, random: &mut Random) -> Number {
    let bits = elem.bits().unwrap_or(64).clamp(1, 64);
    Number {
        int: integer(bits, random),
        float: match class {
            Class::Exact => float(elem, true, random),
            Class::NoNans => float(elem, false, random),
            Class::Reassociating | Class::Contracting => fraction(false, random).float,
        },
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

/// An element type: one of those that are asked for, or a usual one.
pub(crate) fn elem(types: &[Type], random: &mut Random) -> Type {
    if !types.is_empty()
        && random.percent(60)
        && let Some(ty) = random.pick(types)
    {
        return ty;
    }
    // Of many types the usual ones; a few that rules seldom tell apart from these, and wrong ones do not.
    let unsigned = || {
        let (width, sign) = (8, Sign::Unsigned);
        Type::new(IntType { width, sign })
    };
    match random.below(20 * RARE) {
        n if n < 9 * RARE => match n {
            0..10 => Type::new(FloatType::F16),
            10..16 => Type::new(FloatType::BF16),
            16..22 => unsigned(),
            _ => Type::f32(),
        },
        n if n < 12 * RARE => Type::new(FloatType::F64),
        n if n < 18 * RARE => Type::int(random.pick(&[32, 32, 8, 8, 16]).unwrap_or(32)),
        n if n < 19 * RARE => Type::int(64),
        _ => Type::int(1),
    }
}

/// Parts of one in twenty draws.
const RARE: usize = 20;

/// An extreme of the integers of so many bits, one beside it, or any.
fn integer(bits: u32, random: &mut Random) -> i64 {
    let least = i64::MIN >> (64 - bits);
    let most = !least;
    let all = [least, least, most, least + 1, most - 1, -1, 0, 1, 2, -2];
    match random.below(10) {
        0..6 => random.pick(&all).unwrap_or_default(),
        // About the range of a narrower type, and about the integers that an `f32` or `f64` holds.
        6 => {
            let width = random.pick(&[7, 8, 15, 16, 24, 31, 32, 53]).unwrap_or(7);
            let edge = 1i64 << width.min(bits - 1);
            let near = edge + random.below(3) as i64 - 1;
            let sign = if random.percent(50) { 1 } else { -1 };
            (sign * near).clamp(least, most)
        }
        _ => (random.next_u64() as i64) >> (64 - bits),
    }
}

/// An extreme of the floats of a type.
fn float(elem: Type, nan: bool, random: &mut Random) -> f64 {
    let format = elem.get::<FloatType>().copied();
    let [most, normal, least] = match format {
        Some(FloatType::F64) => [f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1)],
        Some(FloatType::F16) => [65504.0, (-14f64).exp2(), (-24f64).exp2()],
        Some(FloatType::BF16) => [
            (1.0 - (-8f64).exp2()) * 128f64.exp2(),
            (-126f64).exp2(),
            (-133f64).exp2(),
        ],
        _ => [
            f64::from(f32::MAX),
            f64::from(f32::MIN_POSITIVE),
            f64::from(f32::from_bits(1)),
        ],
    };
    let root = match format {
        Some(FloatType::F64) => 1e160,
        Some(FloatType::F16) => 300.0,
        _ => 1e20,
    };
    // Just below a whole number, and beyond the range of a type of integers.
    let below = |n: f64| match format {
        Some(FloatType::F64) => n.next_down(),
        Some(FloatType::F16) => n * (1.0 - (-11f64).exp2()),
        Some(FloatType::BF16) => n * (1.0 - (-8f64).exp2()),
        _ => f64::from((n as f32).next_down()),
    };
    let small = 1.0 + random.below(4) as f64;
    let edge = f64::from(1u32 << random.pick(&[7, 8, 15, 16, 24, 31]).unwrap_or(7));
    let all = [
        0.0,
        most,
        // What is twice as large is none; what is four times as large is none though half of that is.
        most * 0.375,
        normal,
        least,
        f64::INFINITY,
        0.5,
        1.5,
        2.5,
        root,
        1.0 / root,
        1.0,
        below(small),
        edge + 1.5,
        0.0,
        f64::INFINITY,
        f64::NAN,
        f64::NAN,
    ];
    let count = all.len() - 2 * usize::from(!nan);
    let x = all[random.below(count)];
    if random.percent(50) { -x } else { x }
}

/// Values for the leaves, for a rule of a class.
pub(crate) fn values(plan: &Plan, class: Class, seed: u64) -> Option<Vec<Data>> {
    let mut random = Random::new(seed);
    let style = Style::draw(class, &mut random);
    // How many percent of the elements are those of another leaf, or their opposites.
    let repeated = random.pick(&[0, 0, 0, 30, 60]).unwrap_or(0);
    let mut palettes = Palettes::new();
    let mut drawn: Vec<(Type, Vec<Number>)> = Vec::new();
    let mut all = Vec::with_capacity(plan.leaves.len());
    for leaf in &plan.leaves {
        let (elem, count) = (leaf.ty.elem(), leaf.ty.elements().unwrap_or(1));
        let like: Vec<usize> = (0..drawn.len())
            .filter(|i| drawn[*i].0 == elem && !drawn[*i].1.is_empty())
            .collect();
        let like = random.pick(&like);
        let mut number = |at: usize| match like {
            Some(other) if random.percent(repeated) => {
                let numbers = &drawn[other].1;
                let same = numbers[at % numbers.len()];
                match random.percent(30) {
                    true => same.opposite(),
                    false => same,
                }
            }
            _ => style.number(elem, class, &mut palettes, &mut random),
        };
        let numbers: Vec<Number> = (0..count).map(&mut number).collect();
        all.push(data(leaf.ty, &numbers)?);
        drawn.push((elem, numbers));
    }
    Some(all)
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
        DType::U8 => Array::from_vec(shape, n.map(|n| n.int as u8).collect()),
        DType::U16 => Array::from_vec(shape, n.map(|n| n.int as u16).collect()),
        DType::U32 => Array::from_vec(shape, n.map(|n| n.int as u32).collect()),
        DType::U64 => Array::from_vec(shape, n.map(|n| n.int as u64).collect()),
        DType::F16 | DType::BF16 => {
            let format = *ty.elem().storage().get::<FloatType>()?;
            let bits = n.map(|n| float_bits(n.float, format) as u16);
            let bytes: Vec<u8> = bits.flat_map(u16::to_le_bytes).collect();
            Array::new(dtype, shape, bytes.into())
        }
        DType::Bool => Array::from_bools(shape, &n.map(|n| n.int & 1 != 0).collect::<Vec<_>>()),
    };
    Some(Data::Tensor(array.ok()?))
}
