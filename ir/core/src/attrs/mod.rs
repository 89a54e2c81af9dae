//! Attributes: interned handles, the trait of an attribute's data, and the builtin attributes.

mod elements;
mod float;
mod nested;
mod scalar;
mod text;
mod wrapped;

use std::fmt::{self, Debug, Display};
use std::hash::Hash;

use crate::affine::AffineMap;
use crate::handle::{Handle, Kinded};
use crate::intern::{Local, Table};
use crate::name::Name;
use crate::types::{FloatType, Type};

pub use elements::{BlobAttr, DenseArray, DenseElements, sign_extend};
pub use float::{float_bits, float_text, float_value};
pub use nested::{ArrayAttr, DictAttr, dictionary_text, key_text};
pub use scalar::{FloatAttr, IntAttr, UnitAttr};
pub use text::{OpaqueAttr, StrAttr, SymbolRef, symbol_text};
pub use wrapped::{AffineMapAttr, LayoutAttr, LocAttr, TypeAttr};

/// The data of a kind of attribute; see [`TypeData`](crate::TypeData).
pub trait AttrData: std::any::Any + Eq + Hash + Debug + Display + Send + Sync {
    /// The name, `dialect.attr` (`#dialect.attr<…>` in text). Without a dot the attribute is
    /// builtin and `Display` prints all of it.
    const NAME: &'static str;
}

static ATTRS: Table<dyn Kinded> = Table::new();
thread_local! { static LOCAL: Local<dyn Kinded> = Local::new(); }

/// An attribute: `Copy`, compared by identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attr(Handle);

impl Attr {
    /// The attribute with this data.
    pub fn new<T: AttrData>(data: T) -> Self {
        Self(LOCAL.with(|local| Handle::new(&ATTRS, local, T::NAME, None, data)))
    }

    /// The names behind `@` in its text.
    pub(crate) fn symbols(self) -> &'static [Name] {
        self.0.symbols()
    }

    /// The data, if the attribute is of this kind.
    pub fn get<T: AttrData>(self) -> Option<&'static T> {
        self.0.get()
    }

    /// Whether the attribute is of this kind.
    pub fn is<T: AttrData>(self) -> bool {
        self.get::<T>().is_some()
    }

    /// The name of its kind: `integer`, `array`, `graph.layout`.
    pub fn kind(self) -> &'static str {
        self.0.kind()
    }

    /// `unit`.
    pub fn unit() -> Self {
        Self::new(UnitAttr {})
    }
    /// An integer of a type.
    pub fn int(value: i64, ty: Type) -> Self {
        Self::new(IntAttr {
            value: value.into(),
            ty,
        })
    }
    /// An integer of type `i64`.
    pub fn i64(value: i64) -> Self {
        Self::int(value, Type::int(64))
    }
    /// An integer of type `index`.
    pub fn index(value: i64) -> Self {
        Self::int(value, Type::index())
    }
    /// `true` or `false`, an integer of type `i1`.
    pub fn bool(value: bool) -> Self {
        Self::int(value.into(), Type::int(1))
    }
    /// A float of a float type, rounded to it.
    pub fn float(value: f64, ty: Type) -> Self {
        let value = match ty.get::<FloatType>() {
            Some(FloatType::F32) => f64::from(value as f32),
            Some(FloatType::F64) | None => value,
            Some(narrow) => float_value(float_bits(value, *narrow), *narrow),
        };
        Self::new(FloatAttr {
            bits: value.to_bits(),
            ty,
        })
    }
    /// A string.
    pub fn str(value: &str) -> Self {
        Self::new(StrAttr {
            value: value.into(),
            ty: None,
        })
    }
    /// A reference to a symbol of the nearest symbol table.
    pub fn symbol(name: Name) -> Self {
        Self::new(SymbolRef { path: vec![name] })
    }
    /// A type as an attribute.
    pub fn ty(ty: Type) -> Self {
        Self::new(TypeAttr(ty))
    }
    /// `[a, b]`.
    pub fn array(items: impl Into<Vec<Attr>>) -> Self {
        Self::new(ArrayAttr(items.into()))
    }
    /// `array<i64: 1, 2>`.
    pub fn ints(items: &[i64]) -> Self {
        Self::new(DenseArray {
            elem: Type::int(64),
            bits: items.to_vec(),
        })
    }
    /// An affine map.
    pub fn map(map: AffineMap) -> Self {
        Self::new(AffineMapAttr(map))
    }

    /// The value of an integer attribute, of any integer type or `index`.
    pub fn as_int(self) -> Option<i64> {
        i64::try_from(self.get::<IntAttr>()?.value).ok()
    }
    /// The value of a float attribute.
    pub fn as_float(self) -> Option<f64> {
        Some(f64::from_bits(self.get::<FloatAttr>()?.bits))
    }
    /// The text of a string attribute.
    pub fn as_str(self) -> Option<&'static str> {
        Some(&self.get::<StrAttr>()?.value)
    }

    /// The type of a typed attribute: of an integer, float, elements, blob, or text that has one.
    pub fn type_of(self) -> Option<Type> {
        if let Some(a) = self.get::<IntAttr>() {
            Some(a.ty)
        } else if let Some(a) = self.get::<FloatAttr>() {
            Some(a.ty)
        } else if let Some(a) = self.get::<DenseElements>() {
            Some(a.ty)
        } else if let Some(a) = self.get::<BlobAttr>() {
            Some(a.ty)
        } else if let Some(a) = self.get::<OpaqueAttr>() {
            a.ty
        } else {
            self.get::<StrAttr>()?.ty
        }
    }
}

impl Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, '#')
    }
}
impl Debug for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

macro_rules! builtin {
    ($(#[$doc:meta])* $name:ident $body:tt $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub struct $name $body
        impl AttrData for $name { const NAME: &'static str = $kind; }
    };
    ($(#[$doc:meta])* $name:ident($($inner:ty),*); $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub struct $name($(/** The content. */ pub $inner),*);
        impl AttrData for $name { const NAME: &'static str = $kind; }
    };
}
use builtin;
