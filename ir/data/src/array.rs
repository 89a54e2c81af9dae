//! Dense arrays over shared bytes, and typed views of them.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use half::{bf16, f16};

use crate::{DType, DataError};

/// A dense array: little endian, row major, `data.len() == dtype.byte_len(shape)`.
///
/// Cloning shares the bytes. Two arrays are equal if type, shape and bytes are equal: NaNs with
/// equal bits are equal, `0.0` and `-0.0` are not.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Array {
    dtype: DType,
    shape: Vec<usize>,
    data: Bytes,
}

/// A Rust type that is the element type of an array, with the same bytes.
pub trait Element: bytemuck::Pod + Send + Sync {
    /// The corresponding element type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($t:ty => $d:ident),*) => {
        $(impl Element for $t {
            const DTYPE: DType = DType::$d;
        })*
    };
}

elements!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
          f16 => F16, bf16 => BF16, f32 => F32, f64 => F64);

/// Keeps a typed vector alive as the owner of its bytes.
struct Owned<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Owned<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl Array {
    /// An array over existing bytes.
    ///
    /// # Errors
    /// If the length of `data` is not that of `dtype` and `shape`.
    pub fn new(dtype: DType, shape: &[usize], data: Bytes) -> Result<Array, DataError> {
        match dtype.byte_len(shape) {
            Some(n) if n == data.len() => Ok(Array {
                dtype,
                shape: shape.to_vec(),
                data,
            }),
            Some(n) => Err(DataError::new(format!(
                "{} bytes of data, expected {n} for {}",
                data.len(),
                TypeName(dtype, shape)
            ))),
            None => Err(too_large(dtype, shape)),
        }
    }

    /// An array of `values` in row-major order; takes the vector over without copying it.
    ///
    /// # Errors
    /// If the number of values is not the product of `shape`.
    pub fn from_vec<T: Element>(shape: &[usize], values: Vec<T>) -> Result<Array, DataError> {
        Array::new(T::DTYPE, shape, Bytes::from_owner(Owned(values)))
    }

    /// An array of booleans in row-major order.
    ///
    /// # Errors
    /// If the number of values is not the product of `shape`.
    pub fn from_bools(shape: &[usize], values: &[bool]) -> Result<Array, DataError> {
        Array::new(
            DType::Bool,
            shape,
            values
                .iter()
                .map(|&v| u8::from(v))
                .collect::<Vec<u8>>()
                .into(),
        )
    }

    /// An array of rank 0.
    pub fn scalar<T: Element>(value: T) -> Array {
        Array {
            dtype: T::DTYPE,
            shape: Vec::new(),
            data: Bytes::copy_from_slice(bytemuck::bytes_of(&value)),
        }
    }

    /// An array of zeros (`false` for bool).
    ///
    /// # Errors
    /// If its size in bytes overflows, or is more than there is memory.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Array, DataError> {
        let len = free_len(dtype, shape)?;
        Ok(Array {
            dtype,
            shape: shape.to_vec(),
            data: filled(len, |_| Ok::<(), DataError>(()))?,
        })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape, outermost dimension first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The bytes: little endian, row major, no padding.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The bytes, shared.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.data.len() / self.dtype.size()
    }

    /// True if there is no element.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The same elements under another shape of equally many.
    ///
    /// # Errors
    /// If the numbers of elements differ.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Array, DataError> {
        Array::new(self.dtype, shape, self.data.clone())
    }

    /// The elements as a slice of `T`, or `None` if the element type is another.
    /// Borrowed where the bytes are aligned for `T` (always for arrays built here), else a copy.
    pub fn as_slice<T: Element>(&self) -> Option<Cow<'_, [T]>> {
        if self.dtype != T::DTYPE {
            return None;
        }
        Some(match bytemuck::try_cast_slice(&self.data) {
            Ok(slice) => Cow::Borrowed(slice),
            Err(_) => Cow::Owned(bytemuck::allocation::pod_collect_to_vec(&self.data)),
        })
    }

    /// [`Array::as_slice`] for f32.
    pub fn as_f32(&self) -> Option<Cow<'_, [f32]>> {
        self.as_slice()
    }

    /// [`Array::as_slice`] for i64.
    pub fn as_i64(&self) -> Option<Cow<'_, [i64]>> {
        self.as_slice()
    }

    /// Element `index` in row-major order as f64 (rounded for 64-bit integers beyond 2^53;
    /// booleans are 0 and 1), or `None` past the end.
    pub fn get_f64(&self, index: usize) -> Option<f64> {
        let size = self.dtype.size();
        let start = index.checked_mul(size)?;
        let b = self.data.get(start..start.checked_add(size)?)?;
        let at = |i: usize| b.get(i).copied().unwrap_or(0);
        let b2 = [at(0), at(1)];
        let b4 = [at(0), at(1), at(2), at(3)];
        let b8 = [at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)];
        Some(match self.dtype {
            DType::Bool => f64::from(u8::from(at(0) != 0)),
            DType::I8 => f64::from(at(0) as i8),
            DType::U8 => f64::from(at(0)),
            DType::I16 => f64::from(i16::from_le_bytes(b2)),
            DType::U16 => f64::from(u16::from_le_bytes(b2)),
            DType::F16 => f16::from_le_bytes(b2).to_f64(),
            DType::BF16 => bf16::from_le_bytes(b2).to_f64(),
            DType::I32 => f64::from(i32::from_le_bytes(b4)),
            DType::U32 => f64::from(u32::from_le_bytes(b4)),
            DType::F32 => f64::from(f32::from_le_bytes(b4)),
            DType::I64 => i64::from_le_bytes(b8) as f64,
            DType::U64 => u64::from_le_bytes(b8) as f64,
            DType::F64 => f64::from_le_bytes(b8),
        })
    }

    /// Element `index` in row-major order as an exact integer (booleans are 0 and 1);
    /// `None` past the end or for a floating-point array.
    pub fn get_int(&self, index: usize) -> Option<i128> {
        match self.dtype {
            DType::I64 | DType::U64 => {
                let start = index.checked_mul(8)?;
                let b: [u8; 8] = self
                    .data
                    .get(start..start.checked_add(8)?)?
                    .try_into()
                    .ok()?;
                Some(match self.dtype {
                    DType::I64 => i128::from(i64::from_le_bytes(b)),
                    _ => i128::from(u64::from_le_bytes(b)),
                })
            }
            d if d.is_float() => None,
            _ => self.get_f64(index).map(|v| v as i128),
        }
    }

    /// All elements as f64, in row-major order; see [`Array::get_f64`].
    pub fn iter_f64(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.len()).map(|i| self.get_f64(i).unwrap_or(f64::NAN))
    }

    /// The elements of an integer or boolean array as i64: shapes, axes, indices.
    /// `None` for a floating-point array or if a value does not fit.
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        (0..self.len())
            .map(|i| self.get_int(i).and_then(|v| i64::try_from(v).ok()))
            .collect()
    }

    /// The SHA-256 of the bytes (not of type and shape), as 64 lower-case hexadecimal digits.
    pub fn sha256(&self) -> String {
        use sha2::Digest;
        let digest = sha2::Sha256::digest(&self.data);
        digest.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The index per dimension of row-major element `linear`, modulo the array's size.
    pub fn unravel(&self, linear: usize) -> Vec<usize> {
        unravel(&self.shape, linear)
    }
}

/// So many bytes, aligned for every element type: zeros that are given to `fill`.
pub(crate) fn filled<E>(
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Bytes, E> {
    let mut words = vec![0u64; len.div_ceil(8)];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    fill(&mut bytes[..len])?;
    Ok(Bytes::from_owner(Owned(words)).slice(..len))
}

/// The index per dimension of row-major element `linear` of `shape`.
pub(crate) fn unravel(shape: &[usize], mut linear: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &d) in index.iter_mut().zip(shape).rev() {
        *i = linear % d.max(1);
        linear /= d.max(1);
    }
    index
}

/// The bytes of an array that is to be made, if there is memory for them: an allocation that fails
/// later would end the process.
pub(crate) fn free_len(dtype: DType, shape: &[usize]) -> Result<usize, DataError> {
    let len = dtype
        .byte_len(shape)
        .ok_or_else(|| too_large(dtype, shape))?;
    let free = Vec::<u8>::new().try_reserve_exact(len);
    free.map_err(|_| {
        let name = TypeName(dtype, shape);
        DataError::new(format!("no memory for {name}, which has {len} bytes"))
    })?;
    Ok(len)
}

pub(crate) fn too_large(dtype: DType, shape: &[usize]) -> DataError {
    DataError::new(format!(
        "the size in bytes of {} overflows",
        TypeName(dtype, shape)
    ))
}

/// Prints `2x3xf32`.
pub(crate) struct TypeName<'a>(pub DType, pub &'a [usize]);

impl fmt::Display for TypeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A hostile header may name very many dimensions; a message needs only the first.
        for d in self.1.iter().take(16) {
            write!(f, "{d}x")?;
        }
        if self.1.len() > 16 {
            write!(f, "…x")?;
        }
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array<{}>[", TypeName(self.dtype, &self.shape))?;
        for (k, v) in self.iter_f64().take(8).enumerate() {
            write!(f, "{}{v}", if k > 0 { ", " } else { "" })?;
        }
        f.write_str(if self.len() > 8 { ", …]" } else { "]" })
    }
}
