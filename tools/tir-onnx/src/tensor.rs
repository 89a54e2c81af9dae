//! `TensorProto` to array: typed fields, raw bytes, and bytes in a file beside the model.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use tir_data::{Array, Bytes, DType, DataError};

use crate::ElementType;
use crate::proto::TensorProto;

/// Reads tensors; keeps the maps of external files.
pub(crate) struct Tensors<'a> {
    /// The model's folder; `None` if it did not come from a file.
    folder: Option<&'a Path>,
    files: HashMap<PathBuf, Bytes>,
}

impl<'a> Tensors<'a> {
    pub(crate) fn new(folder: Option<&'a Path>) -> Tensors<'a> {
        Tensors {
            folder,
            files: HashMap::new(),
        }
    }

    /// The tensor's array. Errors have no place: the caller knows what the tensor is.
    pub(crate) fn read(&mut self, tensor: &TensorProto) -> Result<Array, DataError> {
        let fail = |why: String| Err(DataError::new(why));
        let element = ElementType(tensor.data_type);
        let Some(dtype) = element.dtype() else {
            return fail(format!("element type {element} cannot be read"));
        };
        if tensor.segment.is_some() {
            return fail("is split into segments, which cannot be read".into());
        }
        let mut shape = Vec::with_capacity(tensor.dims.len());
        for &d in &tensor.dims {
            match usize::try_from(d) {
                Ok(d) => shape.push(d),
                Err(_) => return fail(format!("dimension {d} is negative")),
            }
        }
        let Some(len) = dtype.byte_len(&shape) else {
            return fail("its size in bytes overflows".into());
        };
        let fields = filled(tensor);
        let data = match (tensor.data_location, fields.as_slice()) {
            (0, []) => Bytes::new(),
            (0, ["raw_data"]) => tensor.raw_data.clone().unwrap_or_default(),
            (0, [field]) if *field == typed_field(dtype) => typed_data(tensor, dtype)?,
            (0, [field]) => {
                return fail(format!(
                    "has its data in {field}, expected {} or raw_data for {dtype}",
                    typed_field(dtype)
                ));
            }
            (1, []) => self.external(tensor, len)?,
            (0 | 1, _) => {
                return fail(format!("has data in several places: {}", fields.join(", ")));
            }
            (other, _) => return fail(format!("data_location is {other}, expected 0 or 1")),
        };
        Array::new(dtype, &shape, data)
    }

    /// `len` bytes of the file that `external_data` names.
    fn external(&mut self, tensor: &TensorProto, len: usize) -> Result<Bytes, DataError> {
        let entry = |key: &str| {
            tensor
                .external_data
                .iter()
                .find(|e| e.key == key)
                .map(|e| e.value.as_str())
        };
        let number = |key: &str| match entry(key) {
            None => Ok(None),
            Some(text) => text.parse::<usize>().map(Some).map_err(|_| {
                DataError::new(format!(
                    "external_data has {key} '{text}', expected a number"
                ))
            }),
        };
        let location =
            entry("location").ok_or_else(|| DataError::new("external_data has no location"))?;
        let offset = number("offset")?.unwrap_or(0);
        if let Some(stated) = number("length")?.filter(|&n| n != len) {
            return Err(DataError::new(format!(
                "external_data has length {stated}, but type and shape need {len}"
            )));
        }
        let file = self.external_file(location)?;
        match offset.checked_add(len).filter(|&end| end <= file.len()) {
            Some(end) => Ok(file.slice(offset..end)),
            None => Err(DataError::new(format!(
                "needs {len} bytes from offset {offset} of '{location}', which has {}",
                file.len()
            ))),
        }
    }

    fn external_file(&mut self, location: &str) -> Result<Bytes, DataError> {
        let refuse = |why: &str| DataError::new(format!("external file '{location}' {why}"));
        let folder = self
            .folder
            .ok_or_else(|| refuse("cannot be found: the model is not read from a file"))?;
        let inside = Path::new(location)
            .components()
            .all(|c| matches!(c, Component::Normal(_)));
        if location.is_empty() || location.contains('\\') || !inside {
            return Err(refuse("is not a plain path below the model's folder"));
        }
        let unreadable = |e: std::io::Error| refuse(&format!("cannot be opened: {e}"));
        let path = folder.join(location).canonicalize().map_err(unreadable)?;
        // A symbolic link may still lead out.
        if !path.starts_with(folder.canonicalize().map_err(unreadable)?) {
            return Err(refuse("lies outside the model's folder"));
        }
        if let Some(file) = self.files.get(&path) {
            return Ok(file.clone());
        }
        let file = tir_data::map_file(&path).map_err(|e| refuse(&e.message))?;
        self.files.insert(path, file.clone());
        Ok(file)
    }
}

/// The names of the fields that hold data.
fn filled(tensor: &TensorProto) -> Vec<&'static str> {
    let fields = [
        (
            "raw_data",
            tensor.raw_data.as_ref().is_none_or(|b| b.is_empty()),
        ),
        ("float_data", tensor.float_data.is_empty()),
        ("int32_data", tensor.int32_data.is_empty()),
        ("string_data", tensor.string_data.is_empty()),
        ("int64_data", tensor.int64_data.is_empty()),
        ("double_data", tensor.double_data.is_empty()),
        ("uint64_data", tensor.uint64_data.is_empty()),
    ];
    fields
        .into_iter()
        .filter(|(_, empty)| !empty)
        .map(|(name, _)| name)
        .collect()
}

/// The field that holds elements of `dtype`, if they are not raw.
fn typed_field(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float_data",
        DType::F64 => "double_data",
        DType::I64 => "int64_data",
        DType::U32 | DType::U64 => "uint64_data",
        _ => "int32_data",
    }
}

fn typed_data(tensor: &TensorProto, dtype: DType) -> Result<Bytes, DataError> {
    fn flat<const N: usize>(values: impl Iterator<Item = [u8; N]>) -> Bytes {
        values.flatten().collect::<Vec<u8>>().into()
    }
    /// Narrows wide values, refusing those out of range.
    fn narrow<W: Copy + std::fmt::Display, T: TryFrom<W>, const N: usize>(
        values: &[W],
        dtype: DType,
        bytes: impl Fn(T) -> [u8; N],
    ) -> Result<Bytes, DataError> {
        let mut out = Vec::with_capacity(values.len() * N);
        for &v in values {
            let narrow = T::try_from(v);
            out.extend(bytes(narrow.map_err(|_| {
                DataError::new(format!("value {v} is out of the range of {dtype}"))
            })?));
        }
        Ok(out.into())
    }
    let ints = &tensor.int32_data;
    Ok(match dtype {
        DType::F32 => flat(tensor.float_data.iter().map(|v| v.to_le_bytes())),
        DType::F64 => flat(tensor.double_data.iter().map(|v| v.to_le_bytes())),
        DType::I64 => flat(tensor.int64_data.iter().map(|v| v.to_le_bytes())),
        DType::U64 => flat(tensor.uint64_data.iter().map(|v| v.to_le_bytes())),
        DType::U32 => narrow(&tensor.uint64_data, dtype, u32::to_le_bytes)?,
        DType::I32 => flat(ints.iter().map(|v| v.to_le_bytes())),
        DType::I16 => narrow(ints, dtype, i16::to_le_bytes)?,
        DType::I8 => narrow(ints, dtype, i8::to_le_bytes)?,
        DType::U8 => narrow(ints, dtype, u8::to_le_bytes)?,
        DType::Bool => flat(ints.iter().map(|&v| [u8::from(v != 0)])),
        // Half floats are stored as their bits.
        DType::U16 | DType::F16 | DType::BF16 => narrow(ints, dtype, u16::to_le_bytes)?,
    })
}
