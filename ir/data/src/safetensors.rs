//! `.safetensors`: many named arrays in one file, mapped when read.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::{Array, DType, DataError, Staged};

/// An open `.safetensors` file: its bytes and where each array lies in them.
///
/// Opening checks the whole header: types, shapes, and that the arrays cover the data exactly.
#[derive(Clone, Debug)]
pub struct SafeTensors {
    path: Option<PathBuf>,
    data: Bytes,
    index: Metadata,
}

impl SafeTensors {
    /// Opens a file by mapping it; arrays share the map and keep it alive.
    ///
    /// # Errors
    /// If it cannot be mapped or is malformed, with file and place.
    pub fn open(path: &Path) -> Result<SafeTensors, DataError> {
        let opened = crate::map_file(path).and_then(SafeTensors::decode);
        let mut opened = opened.map_err(|e| e.in_file(path))?;
        opened.path = Some(path.to_path_buf());
        Ok(opened)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// If they are malformed, with the byte offset or the tensor's name.
    pub fn decode(file: Bytes) -> Result<SafeTensors, DataError> {
        let Some(prefix) = file.first_chunk::<8>() else {
            let why = format!(
                "header length is cut off: the file has {} bytes, at least 8 expected",
                file.len()
            );
            return Err(DataError::at_byte(0, why));
        };
        let length = u64::from_le_bytes(*prefix);
        let end = usize::try_from(length).ok().and_then(|n| n.checked_add(8));
        let Some((end, header)) = end.and_then(|end| Some((end, file.get(8..end)?))) else {
            let why = format!(
                "header length is {length}, but only {} bytes follow",
                file.len() - 8
            );
            return Err(DataError::at_byte(0, why));
        };
        let index: Metadata = serde_json::from_slice(header).map_err(|e| json_error(header, &e))?;
        let data = file.slice(end..);
        if index.data_len() != data.len() {
            let why = format!(
                "{} bytes of data, but the header describes {}",
                data.len(),
                index.data_len()
            );
            return Err(DataError::at_byte(end, why));
        }
        Ok(SafeTensors {
            path: None,
            data,
            index,
        })
    }

    /// The names of the arrays, in the order of their bytes.
    pub fn names(&self) -> Vec<String> {
        self.index.offset_keys()
    }

    /// True if the file holds an array of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.index.info(name).is_some()
    }

    /// The array of this name; shares the file's bytes.
    ///
    /// # Errors
    /// If there is none, or its element type is none of [`DType`].
    pub fn get(&self, name: &str) -> Result<Array, DataError> {
        self.find(name).map_err(|e| {
            let e = e.in_part(format!("tensor '{name}'"));
            match &self.path {
                Some(path) => e.in_file(path),
                None => e,
            }
        })
    }

    fn find(&self, name: &str) -> Result<Array, DataError> {
        let info = self
            .index
            .info(name)
            .ok_or_else(|| DataError::new("is not in the file"))?;
        let dtype = from_file(info.dtype)
            .ok_or_else(|| DataError::new(format!("element type {} cannot be read", info.dtype)))?;
        let (start, end) = info.data_offsets;
        if start > end || end > self.data.len() {
            return Err(DataError::new(format!(
                "bytes {start}..{end} are beyond the data's {}",
                self.data.len()
            )));
        }
        Array::new(dtype, &info.shape, self.data.slice(start..end))
    }
}

/// serde_json gives line and column; the file's reader wants a byte.
fn json_error(header: &[u8], error: &serde_json::Error) -> DataError {
    let lines = error.line().saturating_sub(1);
    let line_start: usize = header
        .split_inclusive(|&b| b == b'\n')
        .take(lines)
        .map(<[u8]>::len)
        .sum();
    let at = (line_start + error.column().saturating_sub(1)).min(header.len());
    // What follows " at line" repeats the place.
    let message = error.to_string();
    let message = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(m, _)| m);
    DataError::at_byte(8 + at, format!("header: {message}"))
}

/// Writes arrays to a file; the name holds either the whole new file or what it held before.
/// Order in the file: larger elements first (which aligns them), then by name; so the same arrays
/// give the same bytes.
///
/// # Errors
/// If a name occurs twice or the file cannot be written.
pub fn write_safetensors<'a>(
    path: &Path,
    arrays: impl IntoIterator<Item = (&'a str, &'a Array)>,
) -> Result<(), DataError> {
    stage_safetensors(path, arrays)?.commit()
}

/// As [`write_safetensors`], up to the rename: the caller commits.
///
/// # Errors
/// If a name occurs twice or the file cannot be written.
pub fn stage_safetensors<'a>(
    path: &Path,
    arrays: impl IntoIterator<Item = (&'a str, &'a Array)>,
) -> Result<Staged, DataError> {
    let mut arrays: Vec<(&str, &Array)> = arrays.into_iter().collect();
    arrays.sort_by(|(n, a), (m, b)| {
        let rank = |a: &Array| std::cmp::Reverse(to_file(a.dtype()));
        rank(a).cmp(&rank(b)).then(n.cmp(m))
    });
    let header = header(&arrays).map_err(|e| e.in_file(path))?;
    let length = (header.len() as u64).to_le_bytes();
    let mut parts: Vec<&[u8]> = vec![&length, &header];
    parts.extend(arrays.iter().map(|(_, a)| a.bytes()));
    Staged::write(path, &parts)
}

fn header(arrays: &[(&str, &Array)]) -> Result<Vec<u8>, DataError> {
    let mut names: Vec<&str> = arrays.iter().map(|(n, _)| *n).collect();
    names.sort_unstable();
    if let Some(twice) = names
        .windows(2)
        .find_map(|w| (w.first() == w.last()).then(|| w.first()))
    {
        return Err(DataError::new(format!(
            "tensor '{}' is given twice",
            twice.unwrap_or(&"")
        )));
    }
    if names.contains(&"__metadata__") {
        return Err(DataError::new(
            "'__metadata__' is no name for a tensor in this format",
        ));
    }
    let mut offset = 0;
    let mut infos = Vec::with_capacity(arrays.len());
    for (name, array) in arrays {
        let start = offset;
        offset += array.bytes().len();
        let (dtype, shape) = (to_file(array.dtype()), array.shape().to_vec());
        infos.push((
            name.to_string(),
            TensorInfo {
                dtype,
                shape,
                data_offsets: (start, offset),
            },
        ));
    }
    let index = Metadata::new(None, infos).map_err(|e| DataError::new(e.to_string()))?;
    let mut header = serde_json::to_vec(&index).map_err(|e| DataError::new(e.to_string()))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}

fn to_file(dtype: DType) -> Dtype {
    match dtype {
        DType::Bool => Dtype::BOOL,
        DType::I8 => Dtype::I8,
        DType::I16 => Dtype::I16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::U8 => Dtype::U8,
        DType::U16 => Dtype::U16,
        DType::U32 => Dtype::U32,
        DType::U64 => Dtype::U64,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
    }
}

fn from_file(dtype: Dtype) -> Option<DType> {
    DType::ALL.into_iter().find(|&d| to_file(d) == dtype)
}
