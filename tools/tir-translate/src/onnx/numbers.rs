//! Constants of any element type.

use tir_core::{Type, Value};
use tir_data::{Array, DType, DataError};
use tir_interp::{Kind, Scalar};
use tir_onnx::Node;

use super::import::{Cx, Outcome};

/// An array of numbers, each rounded to the element type; integers must be whole and in range.
///
/// # Errors
/// If a number is not one of the type.
pub(super) fn array(dtype: DType, shape: &[usize], values: &[f64]) -> Result<Array, DataError> {
    let (kind, size) = (Kind::of_dtype(dtype), dtype.size());
    let mut bytes = vec![0; values.len() * size];
    for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(size)) {
        let scalar = match kind.is_float() {
            true => Scalar::float(*value, kind),
            false => {
                let whole = *value as i128;
                let out = || DataError::new(format!("{value} is no {dtype}"));
                if whole as f64 != *value {
                    return Err(out());
                }
                // What has no sign is held as the bits that it has.
                let bits = i64::try_from(whole).or_else(|_| u64::try_from(whole).map(|n| n as i64));
                let scalar = Scalar::int(bits.map_err(|_| out())?, kind);
                kind.write(scalar.bits, bytes).ok_or_else(out)?;
                let found = Array::new(dtype, &[], bytes.to_vec().into())?;
                if found.get_int(0) != Some(whole) {
                    return Err(out());
                }
                continue;
            }
        };
        kind.write(scalar.bits, bytes)
            .ok_or_else(|| DataError::new(format!("{value} is no {dtype}")))?;
    }
    Array::new(dtype, shape, bytes.into())
}

/// Numbers as a constant of an element type, for a node.
pub(super) fn constant(
    cx: &mut Cx,
    node: &Node,
    elem: Type,
    shape: &[i64],
    values: &[f64],
) -> Outcome<Value> {
    let fail = |why: String| Some(node.error(why));
    let dtype = tir_interp::dtype_of(elem)
        .ok_or_else(|| fail(format!("needs a number of {elem}, which has no array")))?;
    let sizes: Result<Vec<usize>, _> = shape.iter().map(|d| usize::try_from(*d)).collect();
    let sizes = sizes.map_err(|_| fail(format!("makes numbers of shape {shape:?}")))?;
    let array = array(dtype, &sizes, values).map_err(|e| fail(e.message))?;
    Ok(cx.constant(&array, "number"))
}
