//! `.safetensors`: many named arrays in one file, each mapped when it is read.

use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::{Array, DType, DataError, FilePart, Staged};

/// An open `.safetensors` file, and where each array lies in it.
///
/// Opening checks the whole header: types, shapes, and that the arrays cover the data exactly.
#[derive(Clone, Debug)]
pub struct SafeTensors {
    path: Option<PathBuf>,
    data: Source,
    index: Metadata,
}

/// Bytes in memory or in a file.
#[derive(Clone, Debug)]
enum Source {
    Memory(Bytes),
    File(FilePart),
}

impl Source {
    fn len(&self) -> usize {
        match self {
            Source::Memory(bytes) => bytes.len(),
            Source::File(part) => part.len(),
        }
    }
    fn slice(&self, bytes: Range<usize>) -> Option<Source> {
        Some(match self {
            Source::Memory(all) => {
                all.get(bytes.clone())?;
                Source::Memory(all.slice(bytes))
            }
            Source::File(part) => Source::File(part.slice(bytes)?),
        })
    }
    fn bytes(&self) -> Result<Bytes, DataError> {
        match self {
            Source::Memory(bytes) => Ok(bytes.clone()),
            Source::File(part) => part.bytes(),
        }
    }
}

impl SafeTensors {
    /// Opens a file; each array is a map of its part, which leaves memory with it.
    ///
    /// # Errors
    /// If it cannot be mapped or is malformed, with file and place.
    pub fn open(path: &Path) -> Result<SafeTensors, DataError> {
        let opened = FilePart::open(path).and_then(|part| SafeTensors::of(Source::File(part)));
        let mut opened = opened.map_err(|e| e.in_file(path))?;
        opened.path = Some(path.to_path_buf());
        Ok(opened)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// If they are malformed, with the byte offset or the tensor's name.
    pub fn decode(file: Bytes) -> Result<SafeTensors, DataError> {
        SafeTensors::of(Source::Memory(file))
    }

    fn of(file: Source) -> Result<SafeTensors, DataError> {
        let prefix = match file.slice(0..8) {
            Some(prefix) => prefix.bytes()?,
            None => Bytes::new(),
        };
        let Some(prefix) = prefix.first_chunk::<8>() else {
            let why = format!(
                "header length is cut off: the file has {} bytes, at least 8 expected",
                file.len()
            );
            return Err(DataError::at_byte(0, why));
        };
        let length = u64::from_le_bytes(*prefix);
        let end = usize::try_from(length).ok().and_then(|n| n.checked_add(8));
        let Some((end, header)) = end.and_then(|end| Some((end, file.slice(8..end)?))) else {
            let why = format!(
                "header length is {length}, but only {} bytes follow",
                file.len() - 8
            );
            return Err(DataError::at_byte(0, why));
        };
        let header = header.bytes()?;
        let index: Metadata =
            serde_json::from_slice(&header).map_err(|e| json_error(&header, &e))?;
        let data = file.len() - end;
        if index.data_len() != data {
            let why = format!(
                "{data} bytes of data, but the header describes {}",
                index.data_len()
            );
            return Err(DataError::at_byte(end, why));
        }
        let data = file.slice(end..file.len());
        Ok(SafeTensors {
            path: None,
            data: data.unwrap_or(Source::Memory(Bytes::new())),
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

    /// The array of this name.
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
        let data = self.data.slice(start..end).ok_or_else(|| {
            DataError::new(format!(
                "bytes {start}..{end} are beyond the data's {}",
                self.data.len()
            ))
        })?;
        Array::new(dtype, &info.shape, data.bytes()?)
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
    let arrays: Vec<(&str, &Array)> = arrays.into_iter().collect();
    let forms = arrays
        .iter()
        .map(|(name, array)| (*name, array.dtype(), array.shape().to_vec()));
    stage_safetensors_with(path, forms.collect(), |k| Ok(arrays[k].1.data().clone()))
}

/// Name, element type and shape of an array.
pub type Form<'a> = (&'a str, DType, Vec<usize>);

/// As [`stage_safetensors`], for names, element types and shapes; `bytes` gives those of the array of a number when they
/// are written, so that one array is in memory at a time.
///
/// # Errors
/// If a name occurs twice, the file cannot be written, `bytes` fails or gives more or fewer than an array has.
pub fn stage_safetensors_with(
    path: &Path,
    arrays: Vec<Form<'_>>,
    mut bytes: impl FnMut(usize) -> Result<Bytes, DataError>,
) -> Result<Staged, DataError> {
    let mut arrays: Vec<(usize, Form<'_>)> = arrays.into_iter().enumerate().collect();
    arrays.sort_by(|(_, (n, a, _)), (_, (m, b, _))| {
        let rank = |dtype: DType| std::cmp::Reverse(to_file(dtype));
        rank(*a).cmp(&rank(*b)).then(n.cmp(m))
    });
    let (order, arrays): (Vec<usize>, Vec<_>) = arrays.into_iter().unzip();
    let (header, lengths) = header(&arrays).map_err(|e| e.in_file(path))?;
    let length = (header.len() as u64).to_le_bytes();
    Staged::write_with(path, |file| {
        file.put(&length)?;
        file.put(&header)?;
        for (k, wanted) in order.into_iter().zip(lengths) {
            let bytes = bytes(k)?;
            if bytes.len() != wanted {
                let why = format!("{} bytes for an array of {wanted}", bytes.len());
                return Err(DataError::new(why).in_file(path));
            }
            file.put(&bytes)?;
        }
        Ok(())
    })
}

/// The header, and the bytes of each array.
fn header(arrays: &[Form<'_>]) -> Result<(Vec<u8>, Vec<usize>), DataError> {
    let mut names: Vec<&str> = arrays.iter().map(|(n, ..)| *n).collect();
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
    let (mut infos, mut lengths) = (Vec::with_capacity(arrays.len()), Vec::new());
    for (name, dtype, shape) in arrays {
        let length = dtype.byte_len(shape);
        let length = length.ok_or_else(|| crate::array::too_large(*dtype, shape))?;
        let start = offset;
        offset += length;
        lengths.push(length);
        infos.push((
            name.to_string(),
            TensorInfo {
                dtype: to_file(*dtype),
                shape: shape.clone(),
                data_offsets: (start, offset),
            },
        ));
    }
    let index = Metadata::new(None, infos).map_err(|e| DataError::new(e.to_string()))?;
    let mut header = serde_json::to_vec(&index).map_err(|e| DataError::new(e.to_string()))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok((header, lengths))
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
