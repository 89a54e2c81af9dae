//! Scalar operations on columns of values.

use tir_core::{Failure, Type};
use tir_data::Array;

use crate::data::{Data, failure};
use crate::ops::ScalarOp;
use crate::scalar::{Kind, dtype_of};

/// A scalar operation element by element: operands are tensors of one shape, or scalars that
/// stand for every element. `elem` is the element type of the result.
pub fn elementwise(op: ScalarOp, inputs: &[Data], elem: Type) -> Result<Data, Failure> {
    let shape = inputs
        .iter()
        .find_map(|d| d.as_tensor().ok())
        .ok_or("no operand is a tensor")?;
    let shape = shape.shape().to_vec();
    let (kinds, count) = op.inputs();
    if inputs.len() != count {
        return Err(format!("{} operands, expected {count}", inputs.len()).into());
    }
    let arrays: Vec<Array> = inputs
        .iter()
        .map(Data::to_array)
        .collect::<Result<_, _>>()?;
    for (array, data) in arrays.iter().zip(inputs) {
        if matches!(data, Data::Tensor(_)) && array.shape() != shape {
            return Err(format!("operands of shapes {:?} and {shape:?}", array.shape()).into());
        }
    }
    let dtype = dtype_of(elem).ok_or_else(|| format!("{elem} cannot be held"))?;
    let kind = Kind::of(elem).ok_or("elements of an unknown kind")?;
    let elements: usize = shape.iter().product();
    let mut out = vec![0u8; elements * dtype.size()];
    for (i, place) in out.chunks_exact_mut(dtype.size()).enumerate() {
        let mut args = [0; 3];
        for ((arg, array), kind) in args.iter_mut().zip(&arrays).zip(kinds) {
            let size = array.dtype().size();
            let at = if array.shape() == shape { i * size } else { 0 };
            *arg = array
                .bytes()
                .get(at..)
                .and_then(|b| kind.read(b))
                .ok_or("an operand is too short")?;
        }
        kind.write(op.apply(args)?, place)
            .ok_or("a result is too long")?;
    }
    Array::new(dtype, &shape, out.into())
        .map(Data::Tensor)
        .map_err(failure)
}
