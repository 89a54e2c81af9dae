//! ONNX's element types: a code, its name, and the array element type it is, if any.

use std::fmt;

use tir_data::DType;

/// An element type as the file states it; not every one can be held in an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ElementType(
    /// The code: `TensorProto.DataType`.
    pub i32,
);

impl ElementType {
    /// The array element type, or `None` for strings, complex numbers and types below 16-bit floats.
    pub fn dtype(self) -> Option<DType> {
        Some(match self.0 {
            1 => DType::F32,
            2 => DType::U8,
            3 => DType::I8,
            4 => DType::U16,
            5 => DType::I16,
            6 => DType::I32,
            7 => DType::I64,
            9 => DType::Bool,
            10 => DType::F16,
            11 => DType::F64,
            12 => DType::U32,
            13 => DType::U64,
            16 => DType::BF16,
            _ => return None,
        })
    }

    /// The code of an array's elements.
    pub fn of(dtype: DType) -> ElementType {
        ElementType(match dtype {
            DType::F32 => 1,
            DType::U8 => 2,
            DType::I8 => 3,
            DType::U16 => 4,
            DType::I16 => 5,
            DType::I32 => 6,
            DType::I64 => 7,
            DType::Bool => 9,
            DType::F16 => 10,
            DType::F64 => 11,
            DType::U32 => 12,
            DType::U64 => 13,
            DType::BF16 => 16,
        })
    }

    /// The name of a type without [`ElementType::dtype`].
    fn other_name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "undefined",
            8 => "string",
            14 => "complex64",
            15 => "complex128",
            17 => "float8e4m3fn",
            18 => "float8e4m3fnuz",
            19 => "float8e5m2",
            20 => "float8e5m2fnuz",
            21 => "uint4",
            22 => "int4",
            23 => "float4e2m1",
            24 => "float8e8m0",
            _ => return None,
        })
    }
}

impl fmt::Display for ElementType {
    /// `f32` as in [`DType`], ONNX's name where there is none, the code where neither.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.dtype(), self.other_name()) {
            (Some(dtype), _) => dtype.fmt(f),
            (None, Some(name)) => f.pad(name),
            (None, None) => write!(f, "{}", self.0),
        }
    }
}
