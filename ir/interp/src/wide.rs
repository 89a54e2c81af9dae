//! Scalars by their bits: integers of more than 64 bits, which no register holds, and folding.
//!
//! A register holds at most 64 bits. A value of an integer type of 65 to 128 bits is a [`Wide`]
//! object in a running program, and one scalar operation on it a call of [`ScalarOp::on_bits`],
//! which is also what folds use: for kinds that registers hold it is [`ScalarOp::apply`], for
//! wider ones the same functions of `semantics` on words of 128 bits.

use tir_core::{
    Attr, DenseElements, Failure, FloatAttr, FloatType, Folds, IntAttr, IntType, OpRef, Sign,
    SmallVec, Type, float_bits, float_value,
};

use crate::data::Data;
use crate::ops::{CastOp, FloatFn, ScalarOp, Trap};
use crate::scalar::{Kind, Scalar};
use crate::semantics::{cmp_int, float_of, int, int_fn, int_of, number};
use crate::word::{Ints, Word};

/// The most elements that a folded constant stores; a splat stores one.
const FOLD_ELEMENTS: usize = 1 << 14;

/// An integer of 65 to 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Wide {
    /// Its bits, zero above the width.
    pub bits: u128,
    /// How many there are.
    pub width: u8,
}

impl Wide {
    /// The number, with its sign.
    pub fn value(self) -> i128 {
        (self.bits as i128).wrap(self.width.into())
    }
}

/// The low bits of a number.
fn low(value: i128, width: u32) -> u128 {
    value.unsigned(width) as u128
}

/// Two operands on words of 128 bits.
struct Pair([i128; 2]);
impl Ints<i128> for Pair {
    type Out = Result<i128, Trap>;
    fn i1(self, f: impl Fn(i128) -> i128) -> Self::Out {
        Ok(f(self.0[0]))
    }
    fn i2(self, f: impl Fn(i128, i128) -> i128) -> Self::Out {
        Ok(f(self.0[0], self.0[1]))
    }
    fn i2_try(self, trap: Trap, f: impl Fn(i128, i128) -> Option<i128>) -> Self::Out {
        f(self.0[0], self.0[1]).ok_or(trap)
    }
}

impl ScalarOp {
    /// The result for operands given as memory holds them: low bits, zero above. Integers may have
    /// up to 128 bits here. A NaN that arithmetic makes or hands on is the quiet one without sign.
    pub fn on_bits(self, args: [u128; 3]) -> Result<u128, Trap> {
        match self {
            Self::Copy(_) | Self::Cast(CastOp::Bits, ..) => return Ok(args[0]),
            Self::Select(_) => return Ok(if args[0] & 1 == 1 { args[1] } else { args[2] }),
            Self::FloatFn(FloatFn::Neg, kind) => return Ok(args[0] ^ (1 << (kind.width() - 1))),
            Self::FloatFn(FloatFn::Abs, kind) => return Ok(args[0] & !(1 << (kind.width() - 1))),
            _ => {}
        }
        let (kinds, count) = self.inputs();
        let kinds = &kinds[..count];
        let result = self.kind();
        if kinds.iter().chain([&result]).any(|kind| kind.width() > 64) {
            return self.on_wide(args);
        }
        let mut registers = [0; 3];
        for ((register, bits), kind) in registers.iter_mut().zip(args).zip(kinds) {
            *register = kind.decode(bits as u64);
        }
        let register = self.apply(registers)?;
        if result.is_float() && number(result, register).is_nan() {
            let nan = result.format().map_or(0, |f| float_bits(f64::NAN, f));
            return Ok((nan & !(1 << (result.width() - 1))).into());
        }
        Ok(result.encode(register).into())
    }

    fn on_wide(self, args: [u128; 3]) -> Result<u128, Trap> {
        let signed = |bits: u128, kind: Kind| (bits as i128).wrap(kind.width());
        let pair = |kind: Kind| Pair([signed(args[0], kind), signed(args[1], kind)]);
        let register = |kind: Kind| kind.decode(args[0] as u64);
        let value = match self {
            Self::Int(op, kind) => int::<i128, _>(op, kind.width(), pair(kind))?,
            Self::IntFn(op, kind) => int_fn::<i128, _>(op, kind.width(), pair(kind))?,
            Self::CmpInt(op, kind) => cmp_int::<i128, _>(op, kind.width(), pair(kind))?,
            Self::Cast(how, from, to) => match how {
                CastOp::IntS => signed(args[0], from).signed(from.width()),
                CastOp::IntU => args[0] as i128,
                CastOp::SiToFp => {
                    let value = signed(args[0], from);
                    let register = float_of(value < 0, value.unsigned_abs(), to);
                    return Ok(to.encode(register).into());
                }
                CastOp::UiToFp => {
                    return Ok(to.encode(float_of(false, args[0], to)).into());
                }
                CastOp::FpToSi => int_of(number(from, register(from)), to.width(), true),
                CastOp::FpToUi => int_of(number(from, register(from)), to.width(), false),
                CastOp::Float | CastOp::Bits => return Err("an operation of another form"),
            },
            _ => return Err("an operation of another form"),
        };
        Ok(low(value, self.kind().width()))
    }

    /// Runs it on scalars of which at least one is [`Wide`].
    pub(crate) fn on_data(self, inputs: &[Data]) -> Result<Data, Failure> {
        let mut args = [0; 3];
        for (arg, data) in args.iter_mut().zip(inputs) {
            *arg = match data {
                Data::Wide(wide) => wide.bits,
                other => {
                    let scalar = other.as_scalar()?;
                    scalar.kind.encode(scalar.bits).into()
                }
            };
        }
        let bits = self.on_bits(args)?;
        let kind = self.kind();
        Ok(match kind.width() {
            width @ 65.. => Data::Wide(Wide {
                bits,
                width: width as u8,
            }),
            _ => Data::Scalar(Scalar {
                kind,
                bits: kind.decode(bits as u64),
            }),
        })
    }
}

/// The bits of the elements of a constant.
enum Elements {
    One(u128),
    Dense(&'static DenseElements),
}

impl Elements {
    fn of(attr: Attr) -> Option<Self> {
        if let Some(int) = attr.get::<IntAttr>() {
            let width = int.ty.bits().filter(|width| *width <= 128)?;
            return Some(Self::One(low(int.value, width)));
        }
        if let Some(float) = attr.get::<FloatAttr>() {
            let format = *float.ty.get::<FloatType>()?;
            return Some(Self::One(
                float_bits(f64::from_bits(float.bits), format).into(),
            ));
        }
        attr.get::<DenseElements>().map(Self::Dense)
    }
    fn get(&self, index: usize) -> u128 {
        match self {
            Self::One(bits) => *bits,
            Self::Dense(dense) => dense.wide_bits(index),
        }
    }
    /// How many elements are stored.
    fn stored(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Dense(dense) => dense.stored(),
        }
    }
}

/// The constant of a scalar type that is these bits of memory.
pub(crate) fn attr_of_bits(bits: u128, ty: Type) -> Option<Attr> {
    let stored = ty.storage();
    if let Some(format) = stored.get::<FloatType>() {
        let bits = float_value(bits as u64, *format).to_bits();
        return Some(Attr::new(FloatAttr { bits, ty }));
    }
    let width = stored.bits()?;
    let unsigned = stored
        .get::<IntType>()
        .is_some_and(|int| int.sign == Sign::Unsigned);
    let value = match unsigned {
        true => bits as i128,
        false => (bits as i128).wrap(width),
    };
    Some(Attr::new(IntAttr { value, ty }))
}

/// What a scalar operation gives for constant operands, as a constant of this type: element by
/// element where the type has a shape. `None` if an operand is no number or has other elements,
/// an element has no result (a division by zero), or more than 16,384 elements would be stored.
pub fn fold_scalar(op: ScalarOp, operands: &[Attr], ty: Type) -> Option<Attr> {
    let (kinds, count) = op.inputs();
    if operands.len() != count || Kind::wide(ty.elem()) != Some(op.kind()) {
        return None;
    }
    for (attr, kind) in operands.iter().zip(kinds) {
        let of = attr.type_of()?;
        // A condition alone is that of all elements.
        let shaped = of.shape() == ty.shape() || of.shape().is_none() && kind == Kind::BOOL;
        if !shaped || Kind::wide(of.elem()) != Some(kind) {
            return None;
        }
    }
    let elements: Vec<Elements> = operands
        .iter()
        .map(|attr| Elements::of(*attr))
        .collect::<Option<_>>()?;
    let one = |index: usize| -> Option<u128> {
        let mut args = [0; 3];
        for (arg, elements) in args.iter_mut().zip(&elements) {
            *arg = elements.get(index);
        }
        op.on_bits(args).ok()
    };
    if ty.shape().is_none() {
        return attr_of_bits(one(0)?, ty);
    }
    let stored = elements.iter().map(Elements::stored);
    let all = ty.elements()?;
    // No elements are stored of what has none, and of a splat one.
    let stored = stored.fold(1, |most, n| match (most, n) {
        (0, _) | (_, 0) => 0,
        (most, n) => most.max(n),
    });
    if stored > FOLD_ELEMENTS || stored > all {
        return None;
    }
    let size = ty.bytes()?;
    let mut data = Vec::with_capacity(stored * size);
    for index in 0..stored {
        data.extend(one(index)?.to_le_bytes().iter().take(size));
    }
    Some(Attr::new(DenseElements {
        ty,
        data: data.into(),
    }))
}

/// [`fold_scalar`] of an op that is a scalar operation on its operands in their order.
pub fn fold_by_scalar(op: OpRef<'_>, how: impl FnOnce() -> Option<ScalarOp>) -> Option<Folds> {
    let mut constants: SmallVec<[Attr; 3]> = SmallVec::new();
    for operand in op.ir.operands(op.id) {
        constants.push(op.ir.constant(operand)?);
    }
    let ty = op.ir.ty(op.ir.results(op.id).next()?);
    fold_scalar(how()?, &constants, ty).map(Folds::from)
}

/// The element of a constant tensor or vector at a row-major position.
pub fn element(attr: Attr, index: usize) -> Option<Attr> {
    let ty = attr.type_of()?;
    let dense = attr.get::<DenseElements>()?;
    (index < ty.elements()?).then(|| attr_of_bits(dense.wide_bits(index), ty.elem()))?
}

/// The integer that a constant is, or all of its elements are, and its width: sign-extended, one
/// bit as 0 or 1. `None` for floats, and for integers of more than 128 bits.
pub fn splat_int(attr: Attr) -> Option<(i128, u32)> {
    let elem = attr.type_of()?.elem();
    let elements = Elements::of(attr)?;
    let width = elem
        .bits()
        .filter(|width| *width <= 128 && !elem.storage().is_float())?;
    (elements.stored() == 1).then(|| ((elements.get(0) as i128).wrap(width), width))
}

/// The float that a constant is, or all of its elements are.
pub fn splat_float(attr: Attr) -> Option<f64> {
    let format = *attr.type_of()?.elem().get::<FloatType>()?;
    let elements = Elements::of(attr)?;
    (elements.stored() == 1).then(|| float_value(elements.get(0) as u64, format))
}

/// The constant of a type, all elements of which are this integer.
pub fn int_constant(value: i128, ty: Type) -> Option<Attr> {
    let width = ty.elem().bits().filter(|width| *width <= 128)?;
    let bits = low(value, width);
    if ty.shape().is_none() {
        return attr_of_bits(bits, ty);
    }
    ty.elements().filter(|n| *n > 0)?;
    let data = bits.to_le_bytes().get(..ty.bytes()?)?.into();
    Some(Attr::new(DenseElements { ty, data }))
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;
    use crate::ops::IntOp;

    #[test]
    fn high_halves_of_wide_products() {
        let kind = Kind::Int(128);
        let high =
            |op, a: i128, b: i128| ScalarOp::Int(op, kind).on_bits([a as u128, b as u128, 0]);
        assert_eq!(high(IntOp::MulHighU, -1, -1), Ok(u128::MAX - 1));
        assert_eq!(high(IntOp::MulHighS, -1, -1), Ok(0));
        assert_eq!(high(IntOp::MulHighS, i128::MIN, 4), Ok(-2i128 as u128));
        assert_eq!(1i128.ucmp(-1), Ordering::Less);
        assert_eq!(
            ScalarOp::Int(IntOp::CarryU, kind).on_bits([u128::MAX, 1, 0]),
            Ok(1)
        );
    }
}
