//! Types: interned handles, the trait of a type's data, and the builtin types.

use std::any::Any;
use std::fmt::{self, Debug, Display, Write};
use std::hash::Hash;

use crate::affine::AffineMap;
use crate::attrs::Attr;
use crate::fmt::comma;
use crate::handle::{Handle, Kinded};
use crate::intern::{Local, Table};
use crate::name::Name;

/// The data of a kind of type. A dialect writes a struct, derives `Eq` and `Hash`, implements
/// `Display` for what stands between `<` and `>` (nothing printed: no angle brackets), and names
/// it here.
pub trait TypeData: Any + Eq + Hash + Debug + Display + Send + Sync {
    /// The name, `dialect.type` (`!dialect.type<…>` in text). Without a dot the type is builtin
    /// and `Display` prints all of it.
    const NAME: &'static str;

    /// The integer, index or float that a value is in memory. A type that says one may be the
    /// element of tensors and buffers: it has a size, constants, and runs.
    fn storage(&self) -> Option<Type> {
        None
    }
}

static TYPES: Table<dyn Kinded> = Table::new();
thread_local! { static LOCAL: Local<dyn Kinded> = Local::new(); }

/// A type: `Copy`, compared by identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type(Handle);

impl Type {
    /// The names behind `@` in its text.
    pub(crate) fn symbols(self) -> &'static [Name] {
        self.0.symbols()
    }

    /// The type with this data.
    pub fn new<T: TypeData>(data: T) -> Self {
        let storage = data.storage().map(|ty| ty.0);
        Self(LOCAL.with(|local| Handle::new(&TYPES, local, T::NAME, storage, data)))
    }

    /// The data, if the type is of this kind.
    pub fn get<T: TypeData>(self) -> Option<&'static T> {
        self.0.get()
    }

    /// Whether the type is of this kind.
    pub fn is<T: TypeData>(self) -> bool {
        self.get::<T>().is_some()
    }

    /// The integer, index or float that a value of this type is in memory: the type itself, or
    /// what a dialect's type says.
    pub fn storage(self) -> Type {
        self.0.storage().map_or(self, Self)
    }

    /// The name of its kind: `integer`, `tensor`, `accel.token`.
    pub fn kind(self) -> &'static str {
        self.0.kind()
    }

    /// The signless integer type of `width` bits.
    pub fn int(width: u32) -> Self {
        Self::new(IntType {
            width,
            sign: Sign::Signless,
        })
    }
    /// `index`: the type of sizes and positions.
    pub fn index() -> Self {
        Self::new(IndexType)
    }
    /// `f32`.
    pub fn f32() -> Self {
        Self::new(FloatType::F32)
    }
    /// `none`.
    pub fn none() -> Self {
        Self::new(NoneType)
    }
    /// A function type.
    pub fn function(inputs: impl Into<Vec<Type>>, results: impl Into<Vec<Type>>) -> Self {
        Self::new(FunctionType {
            inputs: inputs.into(),
            results: results.into(),
        })
    }
    /// A ranked tensor without encoding.
    pub fn tensor(shape: impl Into<Vec<i64>>, elem: Type) -> Self {
        Self::new(TensorType {
            shape: shape.into(),
            elem,
            encoding: None,
        })
    }
    /// A memref with the identity layout, in a space of the attached machine by name.
    pub fn memref(shape: impl Into<Vec<i64>>, elem: Type, space: Option<Attr>) -> Self {
        Self::new(MemRefType {
            shape: shape.into(),
            elem,
            layout: Layout::Identity,
            space,
        })
    }

    /// The shape, where the type has one (tensor, memref, vector).
    pub fn shape(self) -> Option<&'static [i64]> {
        if let Some(t) = self.get::<TensorType>() {
            Some(&t.shape)
        } else if let Some(t) = self.get::<MemRefType>() {
            Some(&t.shape)
        } else {
            self.get::<VectorType>().map(|t| &*t.shape)
        }
    }

    /// The element type of a shaped type; any other type is its own element.
    pub fn elem(self) -> Type {
        if let Some(t) = self.get::<TensorType>() {
            t.elem
        } else if let Some(t) = self.get::<MemRefType>() {
            t.elem
        } else if let Some(t) = self.get::<VectorType>() {
            t.elem
        } else {
            self.get::<UnrankedType>().map_or(self, |t| t.elem)
        }
    }

    /// The same shaped type with another shape or element type; other types are replaced by `elem`.
    pub fn with_elem(self, elem: Type) -> Type {
        if let Some(t) = self.get::<TensorType>() {
            Type::new(TensorType { elem, ..t.clone() })
        } else if let Some(t) = self.get::<MemRefType>() {
            Type::new(MemRefType { elem, ..t.clone() })
        } else if let Some(t) = self.get::<VectorType>() {
            Type::new(VectorType { elem, ..t.clone() })
        } else {
            elem
        }
    }

    /// Whether it is an integer of any width and sign.
    pub fn is_int(self) -> bool {
        self.is::<IntType>()
    }
    /// Whether it is `index`.
    pub fn is_index(self) -> bool {
        self.is::<IndexType>()
    }
    /// Whether it is a float of a format that is computed with.
    pub fn is_float(self) -> bool {
        self.is::<FloatType>()
    }
    /// The bits of a float of any format, also of those that are only read and printed: `f80`,
    /// `f128`, `tf32`, `f8E4M3FN` and their like.
    pub fn float_width(self) -> Option<u32> {
        if let Some(float) = self.get::<FloatType>() {
            return Some(float.bits());
        }
        match &*self.get::<OpaqueType>()?.text {
            "f80" => Some(80),
            "f128" => Some(128),
            "tf32" => Some(19),
            text => {
                let digits = text.strip_prefix('f')?.split_once('E')?.0;
                digits.parse().ok().filter(|width| *width <= 8)
            }
        }
    }

    /// The number of bits a scalar of this type takes in memory; `index` counts as 64. `None`
    /// for what is not a scalar.
    pub fn bits(self) -> Option<u32> {
        let stored = self.storage();
        if let Some(t) = stored.get::<IntType>() {
            Some(t.width)
        } else if stored.is_index() {
            Some(64)
        } else {
            stored.get::<FloatType>().map(|t| t.bits())
        }
    }

    /// The number of bytes an element of this type takes in memory (its bits, rounded up to a
    /// power of two of bytes).
    pub fn bytes(self) -> Option<usize> {
        let bits = self.elem().bits()? as usize;
        Some(bits.div_ceil(8).next_power_of_two())
    }

    /// The number of elements of a statically shaped type; 1 for a scalar, `None` if a dimension
    /// is dynamic or the product overflows.
    pub fn elements(self) -> Option<usize> {
        let Some(shape) = self.shape() else {
            return Some(1);
        };
        shape
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?))
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, '!')
    }
}
impl Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

/// The value of a dimension that is only known at run time; printed `?`.
pub const DYNAMIC: i64 = i64::MIN;

/// Whether an integer type says how its bits are read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sign {
    /// `i32`: the operation says.
    Signless,
    /// `si32`.
    Signed,
    /// `ui32`.
    Unsigned,
}

/// `i32`, `si8`, `ui16`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IntType {
    /// Bits: 1 to 64 in tensors and buffers of programs that run, 1 to 128 in scalars and constants
    /// (text takes up to 2^24 - 1).
    pub width: u32,
    /// How its bits are read.
    pub sign: Sign,
}
impl IntType {
    /// Whether it is `uiN`.
    pub fn is_unsigned(&self) -> bool {
        self.sign == Sign::Unsigned
    }
}
impl TypeData for IntType {
    const NAME: &'static str = "integer";
}
impl Display for IntType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.sign {
            Sign::Signless => "",
            Sign::Signed => "s",
            Sign::Unsigned => "u",
        };
        write!(f, "{sign}i{}", self.width)
    }
}

/// `index`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IndexType;
impl TypeData for IndexType {
    const NAME: &'static str = "index";
}
impl Display for IndexType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("index")
    }
}

/// `none`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NoneType;
impl TypeData for NoneType {
    const NAME: &'static str = "none";
}
impl Display for NoneType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("none")
    }
}

/// The float formats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum FloatType {
    F16,
    BF16,
    F32,
    F64,
}
impl FloatType {
    /// All formats.
    pub const ALL: [FloatType; 4] = [Self::F16, Self::BF16, Self::F32, Self::F64];
    /// Bits of a number.
    pub fn bits(self) -> u32 {
        match self {
            Self::F16 | Self::BF16 => 16,
            Self::F32 => 32,
            Self::F64 => 64,
        }
    }
}
impl TypeData for FloatType {
    const NAME: &'static str = "float";
}
impl Display for FloatType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// `(i32, f32) -> i1`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FunctionType {
    /// Types of the arguments.
    pub inputs: Vec<Type>,
    /// Types of the results.
    pub results: Vec<Type>,
}
impl TypeData for FunctionType {
    const NAME: &'static str = "function";
}
impl Display for FunctionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('(')?;
        comma(f, &self.inputs)?;
        f.write_str(") -> ")?;
        match &self.results[..] {
            [one] if !one.is::<FunctionType>() => write!(f, "{one}"),
            many => {
                f.write_char('(')?;
                comma(f, many)?;
                f.write_char(')')
            }
        }
    }
}

/// `tuple<i32, f32>`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TupleType(
    /// Types of the members.
    pub Vec<Type>,
);
impl TypeData for TupleType {
    const NAME: &'static str = "tuple";
}
impl Display for TupleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tuple<")?;
        comma(f, &self.0)?;
        f.write_char('>')
    }
}

fn dims(f: &mut fmt::Formatter<'_>, shape: &[i64]) -> fmt::Result {
    for &dim in shape {
        if dim == DYNAMIC {
            f.write_str("?x")?;
        } else {
            write!(f, "{dim}x")?;
        }
    }
    Ok(())
}

/// `tensor<1x?x4xf32, #encoding>`. In graph the encoding is a `#graph.layout`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// Dimensions, outermost first; [`DYNAMIC`] where only known at run time.
    pub shape: Vec<i64>,
    /// Type of an element.
    pub elem: Type,
    /// What a dialect says of how it is stored.
    pub encoding: Option<Attr>,
}
impl TypeData for TensorType {
    const NAME: &'static str = "tensor";
}
impl Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        dims(f, &self.shape)?;
        write!(f, "{}", self.elem)?;
        if let Some(encoding) = self.encoding {
            write!(f, ", {encoding}")?;
        }
        f.write_char('>')
    }
}

/// `vector<4x[4]xf32>`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VectorType {
    /// Dimensions, outermost first.
    pub shape: Vec<i64>,
    /// Which dimensions are scalable; as long as `shape`.
    pub scalable: Vec<bool>,
    /// Type of an element.
    pub elem: Type,
}
impl TypeData for VectorType {
    const NAME: &'static str = "vector";
}
impl Display for VectorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("vector<")?;
        for (dim, scalable) in self.shape.iter().zip(&self.scalable) {
            if *scalable {
                write!(f, "[{dim}]x")?;
            } else {
                write!(f, "{dim}x")?;
            }
        }
        write!(f, "{}>", self.elem)
    }
}

/// `tensor<*xf32>` and `memref<*xf32, space>`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UnrankedType {
    /// Whether it is a memref.
    pub memref: bool,
    /// Type of an element.
    pub elem: Type,
    /// Memory space of a memref.
    pub space: Option<Attr>,
}
impl TypeData for UnrankedType {
    const NAME: &'static str = "unranked";
}
impl Display for UnrankedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = if self.memref { "memref" } else { "tensor" };
        write!(f, "{head}<*x{}", self.elem)?;
        if let Some(space) = self.space {
            write!(f, ", {space}")?;
        }
        f.write_char('>')
    }
}

/// How the elements of a memref lie in memory, in elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// Dense, row-major, at offset 0.
    Identity,
    /// `strided<[s0, s1], offset: o>`; [`DYNAMIC`] where only known at run time.
    Strided {
        /// Distance between neighbours in each dimension.
        strides: Vec<i64>,
        /// Place of the first element.
        offset: i64,
    },
    /// Any map from position to place.
    Map(AffineMap),
}

/// `memref<16x64xf16, strided<[64, 1], offset: ?>, "spm">`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MemRefType {
    /// Dimensions, outermost first; [`DYNAMIC`] where only known at run time.
    pub shape: Vec<i64>,
    /// Type of an element.
    pub elem: Type,
    /// Where the elements lie.
    pub layout: Layout,
    /// The memory space; none is the default space.
    pub space: Option<Attr>,
}
impl TypeData for MemRefType {
    const NAME: &'static str = "memref";
}
impl MemRefType {
    /// The strides of a dense row-major buffer of this shape.
    pub fn dense_strides(shape: &[i64]) -> Vec<i64> {
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = if strides[i] == DYNAMIC || shape[i] == DYNAMIC {
                DYNAMIC
            } else {
                strides[i].saturating_mul(shape[i])
            };
        }
        strides
    }

    /// Strides and offset in elements, [`DYNAMIC`] where unknown; `None` for a map that is not
    /// strided.
    pub fn strides(&self) -> Option<(Vec<i64>, i64)> {
        match &self.layout {
            Layout::Identity => Some((Self::dense_strides(&self.shape), 0)),
            Layout::Strided { strides, offset } => Some((strides.clone(), *offset)),
            Layout::Map(_) => None,
        }
    }

    /// Whether its elements lie one behind the other in row-major order, wherever the first one
    /// lies. The stride of a dimension of one element means nothing, and no element is out of
    /// order in an empty buffer.
    pub fn is_dense(&self) -> bool {
        let dense = Self::dense_strides(&self.shape);
        self.strides().is_some_and(|(strides, _)| {
            let mut dims = self.shape.iter().zip(strides.iter().zip(&dense));
            self.shape.contains(&0) || dims.all(|(n, (s, d))| *n == 1 || *s != DYNAMIC && s == d)
        })
    }

    /// Whether neighbours in its last dimension lie beside each other; always so for one element.
    pub fn has_dense_rows(&self) -> bool {
        let row = self.shape.last() == Some(&1);
        let last = |(strides, _): (Vec<i64>, i64)| strides.last().is_none_or(|s| *s == 1);
        row || self.strides().is_some_and(last)
    }

    /// The name of its memory space, where the space is a string.
    pub fn space_name(&self) -> Option<Name> {
        let text = self.space?.get::<crate::attrs::StrAttr>()?;
        Some(Name::new(&text.value))
    }
}
pub(crate) struct DimText(pub i64);
impl Display for DimText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == DYNAMIC {
            f.write_char('?')
        } else {
            write!(f, "{}", self.0)
        }
    }
}
impl Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Identity => Ok(()),
            Layout::Strided { strides, offset } => {
                f.write_str("strided<[")?;
                comma(f, strides.iter().map(|&s| DimText(s)))?;
                f.write_char(']')?;
                if *offset != 0 {
                    write!(f, ", offset: {}", DimText(*offset))?;
                }
                f.write_char('>')
            }
            Layout::Map(map) => write!(f, "affine_map<{map}>"),
        }
    }
}
impl Display for MemRefType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memref<")?;
        dims(f, &self.shape)?;
        write!(f, "{}", self.elem)?;
        if self.layout != Layout::Identity {
            write!(f, ", {}", self.layout)?;
        }
        if let Some(space) = self.space {
            write!(f, ", {space}")?;
        }
        f.write_char('>')
    }
}

/// A type of a dialect that is not loaded, or `complex<f32>` and its like: kept as text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OpaqueType {
    /// All of its text.
    pub text: Box<str>,
}
impl TypeData for OpaqueType {
    const NAME: &'static str = "opaque";
}
impl Display for OpaqueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
