//! Floats that ops compute in, and the choice between them at run time.

use std::borrow::Cow;
use std::num::Wrapping;
use std::ops::{Add, Div, Mul, Sub};

use tir::data::{Array, Bytes, DType, Element};
use tir::interp::{FloatFn, Kind, ScalarOp, elem_of, failure, tensor_form};
use tir::{Data, Failure, FloatType, OpRef, float_bits};

use crate::bounds;

/// What products are summed in: floats, or integers that wrap.
pub(super) trait Ring: Copy + Add<Output = Self> + Mul<Output = Self> {
    const ZERO: Self;
}
impl Ring for Wrapping<i32> {
    const ZERO: Self = Wrapping(0);
}

/// `f32` or `f64`.
pub(super) trait Real:
    Ring + Element + Sub<Output = Self> + Div<Output = Self> + PartialOrd
{
    const LOWEST: Self;
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
    /// The larger, as `arith.maximumf`: NaN if either is.
    fn maximum(self, other: Self) -> Self;
    /// The smaller, as `arith.minimumf`: NaN if either is.
    fn minimum(self, other: Self) -> Self;
    /// A function of one number, as `math` computes it.
    fn function(self, function: FloatFn) -> Self;
}
macro_rules! real {
    ($($t:ident $kind:ident $bits:ident;)*) => {$(
        impl Ring for $t {
            const ZERO: Self = 0.0;
        }
        impl Real for $t {
            const LOWEST: Self = $t::NEG_INFINITY;
            fn of(value: f64) -> Self {
                value as $t
            }
            fn wide(self) -> f64 {
                self.into()
            }
            fn maximum(self, other: Self) -> Self {
                if self > other || self.is_nan() {
                    self
                } else if self == other {
                    // -0 is below +0.
                    $t::from_bits(self.to_bits() & other.to_bits())
                } else {
                    other
                }
            }
            fn minimum(self, other: Self) -> Self {
                if self < other || self.is_nan() {
                    self
                } else if self == other {
                    // -0 is below +0.
                    $t::from_bits(self.to_bits() | other.to_bits())
                } else {
                    other
                }
            }
            fn function(self, function: FloatFn) -> Self {
                let op = ScalarOp::FloatFn(function, Kind::$kind);
                let value = op.apply([self.to_bits().into(), 0, 0]);
                value.map_or($t::NAN, |bits| $t::from_bits(bits as $bits))
            }
        }
    )*};
}
real! {
    f32 F32 u32;
    f64 F64 u64;
}

/// A computation on the elements of tensors, in any of the float types; an op that takes integers
/// too gives whole numbers for whole numbers.
pub(super) trait Compute {
    fn run<T: Real>(&self, inputs: &[Cow<'_, [T]>]) -> Result<Vec<T>, Failure>;
}

/// Runs a computation in the type of the operands' elements; the type of the op's only result
/// says the shape of what it gives.
pub(super) fn compute(
    op: OpRef<'_>,
    inputs: &[Data],
    what: &impl Compute,
) -> Result<Vec<Data>, Failure> {
    let (dtype, shape) = result_form(op)?;
    let arrays = tensors(inputs)?;
    if let Some(array) = arrays.iter().find(|a| a.dtype() != dtype) {
        return Err(format!("computes {dtype} from {}", array.dtype()).into());
    }
    let array = match dtype {
        DType::F32 => typed::<f32>(&arrays, &shape, what)?,
        DType::F64 => typed::<f64>(&arrays, &shape, what)?,
        DType::F16 => narrow(&arrays, &shape, dtype, FloatType::F16, what)?,
        DType::BF16 => narrow(&arrays, &shape, dtype, FloatType::BF16, what)?,
        // Integers of 32 bits are exact in f64.
        DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32 | DType::U32 => {
            let widen = |a: &&Array| Cow::Owned(a.iter_f64().collect::<Vec<_>>());
            let inputs: Vec<Cow<'_, [f64]>> = arrays.iter().map(widen).collect();
            let values = what.run(&inputs)?;
            let [low, high] = bounds(elem_of(dtype)).unwrap_or_default();
            let whole = values.iter().map(|v| (*v as i128).clamp(low, high) as i64);
            let bytes = whole.flat_map(|v| v.to_le_bytes().into_iter().take(dtype.size()));
            Array::new(dtype, &shape, bytes.collect::<Bytes>()).map_err(failure)?
        }
        _ => return Err(format!("is not defined on elements of type {dtype}").into()),
    };
    Ok(vec![array.into()])
}

/// The operands as arrays.
pub(super) fn tensors(inputs: &[Data]) -> Result<Vec<&Array>, Failure> {
    inputs.iter().map(Data::as_tensor).collect()
}

/// Integers of any type as `i32`, the upper bits cut.
pub(super) fn whole(array: &Array) -> Result<Vec<Wrapping<i32>>, Failure> {
    let at = |i| array.get_int(i).map(|n| Wrapping(n as i32));
    let all: Option<Vec<_>> = (0..array.len()).map(at).collect();
    all.ok_or_else(|| format!("is not defined on elements of type {}", array.dtype()).into())
}

/// Runs a computation on integers taken as `i32`.
pub(super) fn compute_whole(
    op: OpRef<'_>,
    inputs: &[Data],
    what: impl FnOnce(&[Cow<'_, [Wrapping<i32>]>]) -> Result<Vec<Wrapping<i32>>, Failure>,
) -> Result<Vec<Data>, Failure> {
    let (_, shape) = result_form(op)?;
    let inputs = tensors(inputs)?
        .into_iter()
        .map(|x| whole(x).map(Cow::Owned));
    let values = what(&inputs.collect::<Result<Vec<_>, _>>()?)?;
    let values = values.into_iter().map(|n| n.0).collect();
    let array = Array::from_vec::<i32>(&shape, values).map_err(failure)?;
    Ok(vec![array.into()])
}

/// Element type and shape of the op's first result.
pub(super) fn result_form(op: OpRef<'_>) -> Result<(DType, Vec<usize>), Failure> {
    let result = op.ir.results(op.id).next();
    let result = result.ok_or_else(|| Failure::from("has no result"))?;
    tensor_form(op.ir.ty(result))
}

fn typed<T: Real>(
    arrays: &[&Array],
    shape: &[usize],
    what: &impl Compute,
) -> Result<Array, Failure> {
    let inputs: Option<Vec<_>> = arrays.iter().map(|a| a.as_slice::<T>()).collect();
    let inputs = inputs.ok_or_else(|| Failure::from("has operands of several types"))?;
    Array::from_vec(shape, what.run(&inputs)?).map_err(failure)
}

/// In f32, rounded to a 16-bit format at the end.
fn narrow(
    arrays: &[&Array],
    shape: &[usize],
    dtype: DType,
    format: FloatType,
    what: &impl Compute,
) -> Result<Array, Failure> {
    let widen = |a: &&Array| Cow::Owned(a.iter_f64().map(|v| v as f32).collect::<Vec<_>>());
    let inputs: Vec<Cow<'_, [f32]>> = arrays.iter().map(widen).collect();
    let values = what.run(&inputs)?;
    let bytes = values
        .iter()
        .flat_map(|v| (float_bits(f64::from(*v), format) as u16).to_le_bytes());
    Array::new(dtype, shape, bytes.collect::<Bytes>()).map_err(failure)
}

/// A buffer of so many copies of a value, or the failure that there is no memory for it.
pub(super) fn buffer<T: Copy>(len: usize, value: T) -> Result<Vec<T>, Failure> {
    let mut out = Vec::new();
    out.try_reserve_exact(len)
        .map_err(|_| format!("needs memory for {len} elements"))?;
    out.resize(len, value);
    Ok(out)
}

/// The product of sizes, or the failure that it is too large.
pub(super) fn product(sizes: &[usize]) -> Result<usize, Failure> {
    let product = sizes.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    product.ok_or_else(|| Failure::from("needs more memory than can be addressed"))
}

/// Sizes of a verified op as unsigned numbers.
pub(super) fn size(value: i64) -> Result<usize, Failure> {
    usize::try_from(value).map_err(|_| format!("has a size of {value}").into())
}
