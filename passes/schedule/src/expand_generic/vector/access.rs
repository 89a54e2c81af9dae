//! Vectors from memory and to it, all elements or the first ones.

use tir::{Builder, Value};
use tir_arith::{constant_float, constant_index, constant_int};
use tir_vector::{Broadcast, CreateMask, Load, MaskedLoad, MaskedStore, Store};

/// Loads a vector of so many elements.
pub(in crate::expand_generic) fn load(
    b: &mut Builder<'_>,
    base: Value,
    at: &[Value],
    length: i64,
) -> Value {
    let elem = b.ty(base).elem();
    b.add(Load {
        base,
        indices: at.to_vec(),
        result: tir::Ret(tir_vector::of(length, elem)),
    })
}

/// The first elements of a vector of so many: others are zero, and not read.
pub(in crate::expand_generic) fn load_first(
    b: &mut Builder<'_>,
    base: Value,
    at: &[Value],
    length: i64,
    held: i64,
) -> Value {
    if held >= length {
        return load(b, base, at, length);
    }
    let elem = b.ty(base).elem();
    let zero = match elem.is_float() {
        true => constant_float(b, 0.0, elem),
        false => constant_int(b, 0, elem),
    };
    let pass_thru = broadcast(b, zero, length);
    if held <= 0 {
        return pass_thru;
    }
    let mask = first(b, length, held);
    b.add(MaskedLoad {
        base,
        indices: at.to_vec(),
        mask,
        pass_thru,
        result: tir::Ret(tir_vector::of(length, elem)),
    })
}

/// Writes the first elements of a vector.
pub(in crate::expand_generic) fn store_first(
    b: &mut Builder<'_>,
    value: Value,
    base: Value,
    at: &[Value],
    held: i64,
) {
    let length = b.ty(value).shape().and_then(|s| s.first().copied());
    match length.filter(|length| held < *length) {
        None => store(b, value, base, at),
        Some(length) => {
            let mask = first(b, length, held);
            b.add(MaskedStore {
                base,
                indices: at.to_vec(),
                mask,
                value,
            });
        }
    }
}

/// A mask of the first elements of so many.
fn first(b: &mut Builder<'_>, length: i64, held: i64) -> Value {
    let size = constant_index(b, held);
    let result = tir::Ret(tir_vector::of(length, tir::Type::int(1)));
    b.add(CreateMask { size, result })
}

/// A vector of so many equal elements.
pub(in crate::expand_generic) fn broadcast(
    b: &mut Builder<'_>,
    source: Value,
    length: i64,
) -> Value {
    let result = tir::Ret(tir_vector::of(length, b.ty(source)));
    b.add(Broadcast { source, result })
}

/// Writes a vector.
pub(in crate::expand_generic) fn store(
    b: &mut Builder<'_>,
    value: Value,
    base: Value,
    at: &[Value],
) {
    b.add(Store {
        value,
        base,
        indices: at.to_vec(),
    });
}
