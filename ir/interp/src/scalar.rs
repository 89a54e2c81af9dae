//! Scalars as registers hold them: kinds, values, and their form in memory and attributes.

use half::{bf16, f16};
use tir_core::{Attr, FloatAttr, FloatType, IntAttr, IntType, Sign, Type, float_bits, float_value};
use tir_data::{DType, Random};

use crate::word::Word;

/// The kind of a scalar. It says how a 64-bit register is read.
///
/// Integers are held sign-extended from their width, `i1` as 0 or 1; `f16`, `bf16` and `f32` as
/// the bits of an `f32` (which holds all three exactly), `f64` as its own bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    /// An integer of 1 to 64 bits; of up to 128 in operations on [wide](Kind::wide) values.
    Int(u8),
    /// `index`: 64 bits.
    Index,
    F16,
    BF16,
    F32,
    F64,
}

/// How the lanes of a register are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Int,
    Single,
    Double,
}

impl Kind {
    /// `i1`.
    pub const BOOL: Kind = Kind::Int(1);

    /// The kind of a scalar type, of a dialect's by what it is stored as; `None` for other types
    /// and integers of more than 64 bits.
    pub fn of(ty: Type) -> Option<Kind> {
        let ty = ty.storage();
        if let Some(format) = ty.get::<FloatType>() {
            return Some(match format {
                FloatType::F16 => Kind::F16,
                FloatType::BF16 => Kind::BF16,
                FloatType::F32 => Kind::F32,
                FloatType::F64 => Kind::F64,
            });
        }
        if ty.is_index() {
            return Some(Kind::Index);
        }
        let width = ty.get::<IntType>()?.width;
        (1..=64).contains(&width).then_some(Kind::Int(width as u8))
    }

    /// The kind of a scalar type, integers of up to 128 bits included: those of more than 64 have
    /// no register, see [`Wide`](crate::Wide).
    pub fn wide(ty: Type) -> Option<Kind> {
        let width = ty.storage().get::<IntType>().map(|int| int.width);
        match width {
            Some(width @ 65..=128) => Some(Kind::Int(width as u8)),
            _ => Kind::of(ty),
        }
    }

    /// The kind that holds the elements of an array.
    pub fn of_dtype(dtype: DType) -> Kind {
        match dtype {
            DType::Bool => Kind::BOOL,
            DType::F16 => Kind::F16,
            DType::BF16 => Kind::BF16,
            DType::F32 => Kind::F32,
            DType::F64 => Kind::F64,
            int => Kind::Int((int.size() * 8) as u8),
        }
    }

    /// The bytes of one in memory.
    pub fn bytes(self) -> usize {
        match self {
            Kind::Int(width) => (width as usize).div_ceil(8).next_power_of_two(),
            Kind::F16 | Kind::BF16 => 2,
            Kind::F32 => 4,
            Kind::Index | Kind::F64 => 8,
        }
    }

    /// The bits of one: 64 for `index`.
    pub fn width(self) -> u32 {
        match self {
            Kind::Int(width) => width.into(),
            Kind::F16 | Kind::BF16 => 16,
            Kind::F32 => 32,
            Kind::Index | Kind::F64 => 64,
        }
    }

    /// Whether it is a float.
    pub fn is_float(self) -> bool {
        !matches!(self, Kind::Int(_) | Kind::Index)
    }

    /// The float format.
    pub fn format(self) -> Option<FloatType> {
        match self {
            Kind::F16 => Some(FloatType::F16),
            Kind::BF16 => Some(FloatType::BF16),
            Kind::F32 => Some(FloatType::F32),
            Kind::F64 => Some(FloatType::F64),
            _ => None,
        }
    }

    /// Whether memory holds both alike: floats of one format, integers of as many bytes.
    pub fn is_stored_as(self, other: Kind) -> bool {
        self == other || !self.is_float() && !other.is_float() && self.bytes() == other.bytes()
    }

    pub(crate) fn class(self) -> Class {
        match self {
            Kind::Int(_) | Kind::Index => Class::Int,
            Kind::F64 => Class::Double,
            _ => Class::Single,
        }
    }

    /// The register that holds these bits of memory (low bits, zero above).
    #[inline]
    pub fn decode(self, bits: u64) -> u64 {
        match self {
            Kind::Int(1) => (bits & 0xFF != 0).into(),
            Kind::Int(width) => wrap(bits as i64, width) as u64,
            Kind::F16 => f16::from_bits(bits as u16).to_f32().to_bits().into(),
            Kind::BF16 => bf16::from_bits(bits as u16).to_f32().to_bits().into(),
            Kind::F32 => bits & 0xFFFF_FFFF,
            Kind::Index | Kind::F64 => bits,
        }
    }

    /// The bits in memory of what a register holds.
    #[inline]
    pub fn encode(self, register: u64) -> u64 {
        match self {
            Kind::Int(width) if width < 64 => register & ((1 << width) - 1),
            Kind::F16 => f16::from_f32(f32::from_bits(register as u32))
                .to_bits()
                .into(),
            Kind::BF16 => bf16::from_f32(f32::from_bits(register as u32))
                .to_bits()
                .into(),
            _ => register,
        }
    }

    /// The register that the first bytes hold; `None` if there are too few.
    #[inline]
    pub fn read(self, bytes: &[u8]) -> Option<u64> {
        let bits = match self.bytes() {
            1 => u64::from(*bytes.first()?),
            2 => u16::from_le_bytes(*bytes.first_chunk()?).into(),
            4 => u32::from_le_bytes(*bytes.first_chunk()?).into(),
            _ => u64::from_le_bytes(*bytes.first_chunk()?),
        };
        Some(self.decode(bits))
    }

    /// Writes a register to the first bytes; `None` if there are too few.
    #[inline]
    pub fn write(self, register: u64, bytes: &mut [u8]) -> Option<()> {
        let size = self.bytes();
        let bits = self.encode(register).to_le_bytes();
        bytes.get_mut(..size)?.copy_from_slice(bits.get(..size)?);
        Some(())
    }
}

/// An integer cut to a width and sign-extended; one bit is 0 or 1.
#[inline]
pub(crate) fn wrap(value: i64, width: u8) -> i64 {
    value.wrap(width.into())
}

/// The element type of an array of these scalars; integers of odd widths take the next larger.
pub fn dtype_of(ty: Type) -> Option<DType> {
    let unsigned = ty
        .storage()
        .get::<IntType>()
        .is_some_and(|t| t.sign == Sign::Unsigned);
    Some(match Kind::of(ty)? {
        Kind::Int(1) => DType::Bool,
        Kind::F16 => DType::F16,
        Kind::BF16 => DType::BF16,
        Kind::F32 => DType::F32,
        Kind::F64 => DType::F64,
        kind => match (kind.bytes(), unsigned) {
            (1, false) => DType::I8,
            (2, false) => DType::I16,
            (4, false) => DType::I32,
            (_, false) => DType::I64,
            (1, true) => DType::U8,
            (2, true) => DType::U16,
            (4, true) => DType::U32,
            (_, true) => DType::U64,
        },
    })
}

/// A scalar: a kind, and a register of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    /// Its kind.
    pub kind: Kind,
    /// The register, in the form that [`Kind`] says.
    pub bits: u64,
}

impl Scalar {
    /// An integer or index, cut to the kind's width; a float kind gets the rounded number.
    pub fn int(value: i64, kind: Kind) -> Self {
        let bits = match kind {
            Kind::Int(width) => wrap(value, width) as u64,
            Kind::Index => value as u64,
            _ => return Self::float(value as f64, kind),
        };
        Self { kind, bits }
    }
    /// An `index`.
    pub fn index(value: i64) -> Self {
        Self::int(value, Kind::Index)
    }
    /// An `i1`.
    pub fn bool(value: bool) -> Self {
        Self::int(value.into(), Kind::BOOL)
    }
    /// An `f32`.
    pub fn f32(value: f32) -> Self {
        let bits = value.to_bits().into();
        Self {
            kind: Kind::F32,
            bits,
        }
    }
    /// A number rounded to the kind.
    pub fn float(value: f64, kind: Kind) -> Self {
        match kind.format() {
            Some(format) => {
                let bits = kind.decode(float_bits(value, format));
                Self { kind, bits }
            }
            None => Self::int(value as i64, kind),
        }
    }
    /// The value of an integer or index; `None` for a float.
    pub fn as_int(self) -> Option<i64> {
        (!self.kind.is_float()).then_some(self.bits as i64)
    }
    /// The value as a number; exact but for integers beyond 2^53.
    pub fn as_f64(self) -> f64 {
        match self.kind.class() {
            Class::Int => self.bits as i64 as f64,
            Class::Single => f32::from_bits(self.bits as u32).into(),
            Class::Double => f64::from_bits(self.bits),
        }
    }
    /// The scalar of an integer or float attribute.
    pub fn from_attr(attr: Attr) -> Option<Self> {
        if let Some(int) = attr.get::<IntAttr>() {
            return Some(Self::int(int.value as i64, Kind::of(int.ty)?));
        }
        let float = attr.get::<FloatAttr>()?;
        let kind = Kind::of(float.ty)?;
        Some(Self::float(f64::from_bits(float.bits), kind))
    }
    /// As an attribute of a scalar type of its kind.
    pub fn to_attr(self, ty: Type) -> Attr {
        match self.kind.format() {
            Some(format) => {
                let bits = float_value(self.kind.encode(self.bits), format).to_bits();
                Attr::new(FloatAttr { bits, ty })
            }
            None => {
                let unsigned = ty
                    .get::<IntType>()
                    .is_some_and(|t| t.sign == Sign::Unsigned);
                // One bit is -1 where MLIR sign-extends it, but prints as `true` either way.
                let value = if unsigned {
                    i128::from(self.kind.encode(self.bits))
                } else {
                    i128::from(self.bits as i64)
                };
                Attr::new(IntAttr { value, ty })
            }
        }
    }
    /// A seeded random scalar: what a one-element [`tir_data::Array::random`] holds.
    pub fn random(kind: Kind, seed: u64) -> Self {
        let top = Random::new(seed).next_u64();
        let unit = |bits: u32| {
            let half = (1u64 << (bits - 1)) as f64;
            ((top >> (64 - bits)) as f64 - half) / half
        };
        match kind {
            Kind::F64 => Self::float(unit(53), kind),
            Kind::F32 => Self::float(unit(24), kind),
            Kind::F16 => Self::float(unit(11), kind),
            Kind::BF16 => Self::float(unit(8), kind),
            Kind::Int(1) => Self::bool(top >> 63 == 1),
            _ => Self::int((top >> 60) as i64 - 8, kind),
        }
    }
}
