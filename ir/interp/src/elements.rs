//! Constants as arrays: elements in the text, and blobs through the store of `tir_data::blob`.

use tir_core::{Attr, BlobAttr, DenseElements, Failure, IntType, Sign, Type};
use tir_core::{FloatType, TensorType};
use tir_data::{Array, DType, blob};

use crate::data::{failure, tensor_form};
use crate::env::dense_array;

/// The most bytes that a constant has in the text; more lie in a file beside it.
pub const DENSE_BYTES: usize = 1024;

/// The array of `dense<…>` or `#tir.blob<…>`. The content of a blob must have been loaded.
pub fn elements(attr: Attr) -> Result<Array, Failure> {
    if let Some(dense) = attr.get::<DenseElements>() {
        return dense_array(dense);
    }
    let Some(blob) = attr.get::<BlobAttr>() else {
        let text: String = attr.to_string().chars().take(60).collect();
        return Err(format!("expects elements, found {text}").into());
    };
    let Some(data) = blob::get(&blob.hash).map_err(failure)? else {
        let (file, key) = (&blob.file, &blob.key);
        return Err(format!("blob '{key}' of '{file}' is not loaded").into());
    };
    let (dtype, shape) = tensor_form(blob.ty)?;
    Array::new(dtype, &shape, data).map_err(failure)
}

/// The attribute of an array: in the text up to [`DENSE_BYTES`], else a blob in memory, which gets
/// a file when the program is saved.
pub fn attr_of(array: &Array) -> Attr {
    attr_named(array, "constant")
}

/// The same; `key` is what the blob is to be called in its file, where that is free.
pub fn attr_named(array: &Array, key: &str) -> Attr {
    let ty = type_of(array);
    if array.bytes().len() <= DENSE_BYTES {
        let data = array.bytes();
        let size = array.dtype().size();
        // One element alone says a splat.
        let splat = data.chunks_exact(size).all(|c| data.get(..size) == Some(c));
        let data = if splat {
            data.get(..size).unwrap_or(data)
        } else {
            data
        };
        return Attr::new(DenseElements {
            ty,
            data: data.into(),
        });
    }
    let hash = blob::insert(array).into();
    Attr::new(BlobAttr {
        file: "".into(),
        key: key.into(),
        hash,
        ty,
    })
}

/// The tensor type of an array.
pub fn type_of(array: &Array) -> Type {
    let shape: Vec<i64> = array.shape().iter().map(|&d| d as i64).collect();
    Type::new(TensorType {
        shape,
        elem: elem_of(array.dtype()),
        encoding: None,
    })
}

/// The type of the elements of an array.
pub fn elem_of(dtype: DType) -> Type {
    let sign = match dtype {
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => Sign::Unsigned,
        _ => Sign::Signless,
    };
    let width = match dtype {
        DType::Bool => 1,
        other => other.size() as u32 * 8,
    };
    match dtype {
        DType::F16 => Type::new(FloatType::F16),
        DType::BF16 => Type::new(FloatType::BF16),
        DType::F32 => Type::f32(),
        DType::F64 => Type::new(FloatType::F64),
        _ => Type::new(IntType { width, sign }),
    }
}
