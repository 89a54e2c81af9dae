//! Run-time values: scalars, tensors, views of memory, and what dialects bring.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use bytes::BytesMut;
use tir_core::{Failure, IntType, Sign, TensorType, Type, VectorType};
use tir_data::{Array, Bytes, DType, DataError};

use crate::scalar::{Kind, Scalar, dtype_of};
use crate::view::View;
use crate::wide::Wide;

/// What [`Data::Unknown`] is called in messages.
pub(crate) const UNKNOWN: &str = "a value that depends on data";

/// A value while a program runs. Cloning one shares what it holds.
#[derive(Clone, Default)]
pub enum Data {
    /// Nothing: a register that was not written yet, or whose value was moved on.
    #[default]
    None,
    /// An integer, index or float.
    Scalar(Scalar),
    /// An integer of more than 64 bits.
    Wide(Wide),
    /// A tensor. [`update`] changes it in place where nobody shares it.
    Tensor(Array),
    /// A memref: a view of a buffer.
    View(Rc<View>),
    /// A token, or anything else a dialect brings.
    Object(Rc<dyn Any>),
    /// A scalar that depends on data, in a run without data.
    Unknown,
}

impl Data {
    /// An `index`.
    pub fn index(value: i64) -> Self {
        Self::Scalar(Scalar::index(value))
    }
    /// An object of a dialect.
    pub fn object<T: Any>(value: T) -> Self {
        Self::Object(Rc::new(value))
    }
    /// A seeded random value of a scalar or statically shaped tensor type.
    pub fn random(ty: Type, seed: u64) -> Result<Self, Failure> {
        if let Some(kind) = Kind::of(ty) {
            return Ok(Self::Scalar(Scalar::random(kind, seed)));
        }
        let (dtype, shape) = tensor_form(ty)?;
        Array::random(dtype, &shape, seed)
            .map(Self::Tensor)
            .map_err(failure)
    }

    /// The integer or index it is.
    pub fn as_int(&self) -> Result<i64, Failure> {
        match self {
            Self::Scalar(s) => s.as_int().ok_or_else(|| self.is_not("an integer")),
            _ => Err(self.is_not("an integer")),
        }
    }
    /// The number it is.
    pub fn as_f64(&self) -> Result<f64, Failure> {
        Ok(self.as_scalar()?.as_f64())
    }
    /// The scalar it is.
    pub fn as_scalar(&self) -> Result<Scalar, Failure> {
        match self {
            Self::Scalar(scalar) => Ok(*scalar),
            _ => Err(self.is_not("a scalar")),
        }
    }
    /// The tensor it is.
    pub fn as_tensor(&self) -> Result<&Array, Failure> {
        match self {
            Self::Tensor(array) => Ok(array),
            _ => Err(self.is_not("a tensor")),
        }
    }
    /// The tensor it is, taken out, so that it can be changed in place if nobody shares it.
    pub fn take_tensor(&mut self) -> Result<Array, Failure> {
        match std::mem::take(self) {
            Self::Tensor(array) => Ok(array),
            other => {
                let error = other.is_not("a tensor");
                *self = other;
                Err(error)
            }
        }
    }
    /// The view it is.
    pub fn as_view(&self) -> Result<&Rc<View>, Failure> {
        match self {
            Self::View(view) => Ok(view),
            _ => Err(self.is_not("a memref")),
        }
    }
    /// The object of this Rust type it is.
    pub fn as_object<T: Any>(&self) -> Result<&T, Failure> {
        match self {
            Self::Object(object) => object.downcast_ref(),
            _ => None,
        }
        .ok_or_else(|| self.is_not(std::any::type_name::<T>()))
    }
    /// As an array: tensors as they are, scalars with rank 0.
    pub fn to_array(&self) -> Result<Array, Failure> {
        match self {
            Self::Tensor(array) => Ok(array.clone()),
            Self::Scalar(scalar) => scalar_array(*scalar),
            _ => Err(self.is_not("a tensor or scalar")),
        }
    }
    /// Whether it depends on data, in a run without data.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
    /// What it is, in a word.
    pub fn what(&self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Scalar(s) if s.kind.is_float() => "a float",
            Self::Scalar(_) | Self::Wide(_) => "an integer",
            Self::Tensor(_) => "a tensor",
            Self::View(_) => "a memref",
            Self::Object(_) => "an object",
            Self::Unknown => UNKNOWN,
        }
    }
    fn is_not(&self, expected: &str) -> Failure {
        format!("expected {expected}, found {}", self.what()).into()
    }

    /// Whether it is a value of a type: kind, element type and every static dimension.
    pub fn check(&self, ty: Type) -> Result<(), Failure> {
        let fits = match self {
            Self::Scalar(s) => Kind::of(ty) == Some(s.kind),
            Self::Wide(w) => Kind::wide(ty) == Some(Kind::Int(w.width)),
            Self::Tensor(a) => {
                (ty.is::<TensorType>() || ty.is::<VectorType>())
                    && dtype_of(ty.elem()) == Some(a.dtype())
                    && shape_fits(ty, a.shape().iter().map(|&d| d as i64))
            }
            Self::View(v) => {
                Kind::of(ty.elem()).is_some_and(|k| k.is_stored_as(v.kind))
                    && shape_fits(ty, v.shape.iter().copied())
            }
            Self::Object(_) => Kind::wide(ty).is_none() && ty.shape().is_none(),
            Self::Unknown => Kind::wide(ty).is_some(),
            Self::None => false,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("expected a value of type {ty}, found {self:?}").into())
        }
    }
}

fn shape_fits(ty: Type, shape: impl ExactSizeIterator<Item = i64>) -> bool {
    ty.shape().is_some_and(|dims| {
        dims.len() == shape.len() && dims.iter().zip(shape).all(|(&d, n)| d < 0 || d == n)
    })
}

/// A rank-0 array of a scalar.
fn scalar_array(scalar: Scalar) -> Result<Array, Failure> {
    let dtype = match scalar.kind {
        Kind::Int(1) => DType::Bool,
        Kind::F16 => DType::F16,
        Kind::BF16 => DType::BF16,
        Kind::F32 => DType::F32,
        Kind::F64 => DType::F64,
        kind => match kind.bytes() {
            1 => DType::I8,
            2 => DType::I16,
            4 => DType::I32,
            _ => DType::I64,
        },
    };
    let mut bytes = vec![0; dtype.size()];
    // Narrow odd widths are sign-extended to the bytes they take.
    let kind = Kind::of_dtype(dtype);
    kind.write(scalar.bits, &mut bytes)
        .ok_or("scalar of unknown size")?;
    Array::new(dtype, &[], bytes.into()).map_err(failure)
}

/// Element type and shape of the arrays of a statically shaped tensor (or memref) type.
pub fn tensor_form(ty: Type) -> Result<(DType, Vec<usize>), Failure> {
    let dims = ty.shape().ok_or_else(|| format!("{ty} has no shape"))?;
    let dtype = dtype_of(ty.elem()).ok_or_else(|| format!("{} cannot be held", ty.elem()))?;
    let shape = dims.iter().map(|&d| usize::try_from(d));
    let shape = shape.collect::<Result<Vec<_>, _>>();
    Ok((
        dtype,
        shape.map_err(|_| format!("{ty} has a dynamic shape"))?,
    ))
}

/// The bytes of a tensor, to change: its own if this is the only handle to bytes that were
/// allocated here, else a copy.
pub(crate) fn unshare(array: Array) -> Result<BytesMut, Failure> {
    let data = array.data().clone();
    drop(array);
    if data.is_empty() {
        return Ok(BytesMut::new());
    }
    let owned = data
        .try_into_mut()
        .or_else(|shared| Bytes::from(shared.to_vec()).try_into_mut());
    owned.map_err(|_| "a fresh buffer is shared".into())
}

/// Changes the bytes of a tensor: in place if this is the only handle to bytes that were
/// allocated here, else in a copy.
pub fn update<R>(array: Array, change: impl FnOnce(&mut [u8]) -> R) -> Result<(Array, R), Failure> {
    let (dtype, shape) = (array.dtype(), array.shape().to_vec());
    let mut bytes = unshare(array)?;
    let result = change(&mut bytes);
    let array = Array::new(dtype, &shape, bytes.freeze()).map_err(failure)?;
    Ok((array, result))
}

/// The bits that a type of integers has of its elements' bytes, if it has not all, and whether it has a sign.
fn part_of_bytes(elem: Type) -> Option<(u32, bool)> {
    let elem = elem.storage();
    let int = elem.get::<IntType>()?;
    let bits = elem.bits()?;
    let whole = bits == 1 || bits >= 64 || bits == 8 * u32::try_from(elem.bytes()?).ok()?;
    (!whole).then_some((bits, int.sign != Sign::Unsigned))
}

/// A tensor of integers that have fewer bits than their bytes, such as `i4`, with each as its bytes say it: what lies above its bits is
/// its sign, or zero.
///
/// # Errors
/// If there is no memory for it.
pub fn fitted(array: Array, ty: Type) -> Result<Array, Failure> {
    let Some((bits, signed)) = part_of_bytes(ty.elem()) else {
        return Ok(array);
    };
    let size = array.dtype().size();
    let shift = 64 - bits;
    let fitted = update(array, |bytes| {
        for element in bytes.chunks_exact_mut(size) {
            let mut wide = [0; 8];
            let held = size.min(8);
            wide[..held].copy_from_slice(&element[..held]);
            let up = u64::from_le_bytes(wide) << shift;
            let value = match signed {
                true => ((up as i64) >> shift) as u64,
                false => up >> shift,
            };
            element[..held].copy_from_slice(&value.to_le_bytes()[..held]);
        }
    })?;
    Ok(fitted.0)
}

/// Operands as [`fitted`] to their types; `None` where they are as they are.
pub(crate) fn fitted_all(inputs: &[Data], types: &[Type]) -> Result<Option<Vec<Data>>, Failure> {
    if !types.iter().any(|ty| part_of_bytes(ty.elem()).is_some()) {
        return Ok(None);
    }
    let one = |(data, ty): (&Data, &Type)| match data {
        Data::Tensor(array) => fitted(array.clone(), *ty).map(Data::Tensor),
        other => Ok(other.clone()),
    };
    inputs
        .iter()
        .zip(types)
        .map(one)
        .collect::<Result<_, _>>()
        .map(Some)
}

/// An array of zeros that [`update`] changes in place.
pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Array, Failure> {
    let len = dtype.byte_len(shape).filter(|&n| n <= isize::MAX as usize);
    let len = len.ok_or("the size of a tensor overflows")?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| format!("no memory for a tensor of {len} bytes"))?;
    bytes.resize(len, 0);
    Array::new(dtype, shape, Bytes::from(bytes)).map_err(failure)
}

/// The failure that says what a data error says.
pub fn failure(error: DataError) -> Failure {
    error.to_string().into()
}

/// The array of elements of a type from their dense row-major bytes.
///
/// # Errors
/// If arrays do not hold the type, or the bytes are not as many as the shape says.
pub fn array_of(elem: Type, shape: &[i64], bytes: Vec<u8>) -> Result<Array, Failure> {
    let dtype = dtype_of(elem).ok_or_else(|| format!("{elem} cannot be held"))?;
    let shape = shape.iter().map(|d| usize::try_from(*d).unwrap_or(0));
    Array::new(dtype, &shape.collect::<Vec<_>>(), bytes.into()).map_err(failure)
}

impl From<Scalar> for Data {
    fn from(scalar: Scalar) -> Self {
        Self::Scalar(scalar)
    }
}
impl From<Array> for Data {
    fn from(array: Array) -> Self {
        Self::Tensor(array)
    }
}
impl From<View> for Data {
    fn from(view: View) -> Self {
        Self::View(Rc::new(view))
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(s) => match s.as_int() {
                Some(v) => write!(f, "{v} : {:?}", s.kind),
                None => write!(f, "{:?} : {:?}", s.as_f64(), s.kind),
            },
            Self::Wide(w) => write!(f, "{} : i{}", w.value(), w.width),
            Self::Tensor(a) => write!(f, "{a:?}"),
            Self::View(v) => write!(f, "{v:?}"),
            Self::None | Self::Object(_) | Self::Unknown => f.write_str(self.what()),
        }
    }
}
