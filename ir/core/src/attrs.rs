//! Attributes: interned handles, the trait of an attribute's data, and the builtin attributes.

use std::any::Any;
use std::fmt::{self, Debug, Display, Write};
use std::hash::{Hash, Hasher};

use crate::affine::AffineMap;
use crate::intern::{Cell, Local, Object, Table, kind_hash};
use crate::loc::Loc;
use crate::name::Name;
use crate::types::{FloatType, Type, comma};

/// The data of a kind of attribute; see [`TypeData`](crate::TypeData).
pub trait AttrData: Any + Eq + Hash + Debug + Display + Send + Sync {
    /// The name, `dialect.attr` (`#dialect.attr<…>` in text). Without a dot the attribute is
    /// builtin and `Display` prints all of it.
    const NAME: &'static str;
}

pub(crate) trait AttrObject: Object + Debug + Display {
    fn kind(&self) -> &'static str;
}
struct Wrap<T>(T);
impl<T: AttrData> Object for Wrap<T> {
    fn as_any(&self) -> &dyn Any {
        &self.0
    }
}
impl<T: Debug> Debug for Wrap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl<T: Display> Display for Wrap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl<T: AttrData> AttrObject for Wrap<T> {
    fn kind(&self) -> &'static str {
        T::NAME
    }
}

static ATTRS: Table<dyn AttrObject> = Table::new();
thread_local! { static LOCAL: Local<dyn AttrObject> = Local::new(); }

/// An attribute: `Copy`, compared by identity.
#[derive(Clone, Copy)]
pub struct Attr(&'static Cell<dyn AttrObject>);

impl Attr {
    /// The attribute with this data.
    pub fn new<T: AttrData>(data: T) -> Self {
        let hash = kind_hash(T::NAME, &data);
        Self(LOCAL.with(|local| {
            local.intern(&ATTRS, hash, data, |data| {
                Box::new(Wrap(data)) as Box<dyn AttrObject>
            })
        }))
    }

    /// The data, if the attribute is of this kind.
    pub fn get<T: AttrData>(self) -> Option<&'static T> {
        Object::as_any(&*self.0.object).downcast_ref()
    }

    /// Whether the attribute is of this kind.
    pub fn is<T: AttrData>(self) -> bool {
        self.get::<T>().is_some()
    }

    /// The name of its kind: `integer`, `array`, `graph.layout`.
    pub fn kind(self) -> &'static str {
        self.0.object.kind()
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
            _ => value,
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

    /// The type of a typed attribute: of an integer, float, elements or blob.
    pub fn type_of(self) -> Option<Type> {
        if let Some(a) = self.get::<IntAttr>() {
            Some(a.ty)
        } else if let Some(a) = self.get::<FloatAttr>() {
            Some(a.ty)
        } else if let Some(a) = self.get::<DenseElements>() {
            Some(a.ty)
        } else if let Some(a) = self.get::<BlobAttr>() {
            Some(a.ty)
        } else {
            self.get::<StrAttr>()?.ty
        }
    }
}

impl PartialEq for Attr {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl Eq for Attr {}
impl Hash for Attr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}
impl Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        if kind.contains('.') {
            let body = self.0.object.to_string();
            write!(f, "#{kind}")?;
            if !body.is_empty() {
                write!(f, "<{body}>")?;
            }
            Ok(())
        } else {
            Display::fmt(&*self.0.object, f)
        }
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

builtin! {
    /// `unit`: presence says it all.
    UnitAttr {} "unit"
}
impl Display for UnitAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unit")
    }
}

builtin! {
    /// `4 : i32`, `true`.
    IntAttr {
        /// The value, sign-extended for signless types.
        pub value: i128,
        /// An integer type or `index`.
        pub ty: Type,
    } "integer"
}
impl Display for IntAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ty.bits() == Some(1) {
            f.write_str(if self.value == 0 { "false" } else { "true" })
        } else {
            write!(f, "{} : {}", self.value, self.ty)
        }
    }
}

builtin! {
    /// `1.0 : f32`.
    FloatAttr {
        /// The bits of the value as an `f64`.
        pub bits: u64,
        /// A float type.
        pub ty: Type,
    } "float"
}

/// The text of a float of a type that reads back to the same bits: the shortest decimal with a
/// point, or the bits of its own format in hexadecimal for infinities and NaNs.
pub fn float_text(value: f64, ty: Type) -> String {
    let format = ty.get::<FloatType>().copied().unwrap_or(FloatType::F64);
    if !value.is_finite() {
        let bits = float_bits(value, format);
        return format!("0x{bits:0width$X}", width = format.bits() as usize / 4);
    }
    let text = match format {
        FloatType::F64 => format!("{value:e}"),
        _ => format!("{:e}", value as f32),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-5..=15).contains(&exponent) {
        let plain = match format {
            FloatType::F64 => value.to_string(),
            _ => (value as f32).to_string(),
        };
        if plain.contains('.') {
            plain
        } else {
            plain + ".0"
        }
    } else {
        let point = if mantissa.contains('.') { "" } else { ".0" };
        format!("{mantissa}{point}E{exponent:+03}")
    }
}

/// The bits of a number in a format, rounded to nearest even.
pub fn float_bits(value: f64, format: FloatType) -> u64 {
    match format {
        FloatType::F64 => value.to_bits(),
        FloatType::F32 => {
            if value.is_nan() {
                let bits = value.to_bits();
                (((bits >> 32) & 0x8000_0000) | 0x7F80_0000 | ((bits >> 29) & 0x007F_FFFF)).max(1)
            } else {
                u64::from((value as f32).to_bits())
            }
        }
        FloatType::BF16 => u64::from(narrow(value, 8, 7)),
        FloatType::F16 => u64::from(narrow(value, 5, 10)),
    }
}

/// The number behind the bits of a format; exact.
pub fn float_value(bits: u64, format: FloatType) -> f64 {
    match format {
        FloatType::F64 => f64::from_bits(bits),
        FloatType::F32 => {
            let bits = bits as u32;
            if f32::from_bits(bits).is_nan() {
                let sign = u64::from(bits >> 31) << 63;
                f64::from_bits(sign | 0x7FF0_0000_0000_0000 | (u64::from(bits & 0x007F_FFFF) << 29))
            } else {
                f64::from(f32::from_bits(bits))
            }
        }
        FloatType::BF16 => float_value((bits & 0xFFFF) << 16, FloatType::F32),
        FloatType::F16 => {
            let sign = (bits >> 15) & 1;
            let exponent = (bits >> 10) & 0x1F;
            let mantissa = bits & 0x3FF;
            let magnitude = match exponent {
                0 => mantissa as f64 * 2f64.powi(-24),
                31 if mantissa == 0 => f64::INFINITY,
                31 => f64::from_bits(0x7FF0_0000_0000_0000 | (mantissa << 42)),
                e => (1.0 + mantissa as f64 / 1024.0) * 2f64.powi(e as i32 - 15),
            };
            f64::from_bits(magnitude.to_bits() | (sign << 63))
        }
    }
}

/// Rounds to a 16-bit format with these numbers of exponent and mantissa bits.
fn narrow(value: f64, exponent_bits: u32, mantissa_bits: u32) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    let max_exponent = (1i32 << exponent_bits) - 1;
    let bias = max_exponent >> 1;
    let infinity = (max_exponent as u16) << mantissa_bits;
    if value.is_nan() {
        let payload = (value.to_bits() >> (52 - mantissa_bits)) as u16 & ((1 << mantissa_bits) - 1);
        return sign | infinity | payload.max(1);
    }
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        return sign | infinity;
    }
    // The unit in the last place at this magnitude, not below that of the subnormals.
    let exponent = if magnitude == 0.0 {
        -2000
    } else {
        ((magnitude.to_bits() >> 52) as i32) - 1023
    };
    let exponent = exponent.max(1 - bias);
    let unit = 2f64.powi(exponent - mantissa_bits as i32);
    let steps = (magnitude / unit).round_ties_even() as u32;
    let code = steps + (((exponent + bias - 1) as u32) << mantissa_bits);
    if code >= u32::from(infinity) {
        sign | infinity
    } else {
        sign | code as u16
    }
}

impl Display for FloatAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = float_text(f64::from_bits(self.bits), self.ty);
        write!(f, "{text} : {}", self.ty)
    }
}

/// Writes a string in quotes, escaped so that the parser reads it back.
pub fn quote(f: &mut impl Write, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            c if (c as u32) < 0x20 || c as u32 == 0x7F => write!(f, "\\{:02X}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

builtin! {
    /// `"text"`, `"text" : !type`.
    StrAttr {
        /// The text.
        pub value: Box<str>,
        /// A type, in the rare case that one is said.
        pub ty: Option<Type>,
    } "string"
}
impl Display for StrAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quote(f, &self.value)?;
        match self.ty {
            Some(ty) => write!(f, " : {ty}"),
            None => Ok(()),
        }
    }
}

builtin! {
    /// `@module::@function`.
    SymbolRef {
        /// The names from the outermost in; never empty.
        pub path: Vec<Name>,
    } "symbol"
}

/// Writes a symbol name as it stands after `@`.
pub fn symbol_text(f: &mut impl Write, name: &str) -> fmt::Result {
    let mut chars = name.chars();
    let plain = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.'));
    f.write_char('@')?;
    if plain {
        f.write_str(name)
    } else {
        quote(f, name)
    }
}
impl Display for SymbolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.path.iter().enumerate() {
            if i > 0 {
                f.write_str("::")?;
            }
            symbol_text(f, name)?;
        }
        Ok(())
    }
}

builtin! {
    /// A type as an attribute.
    TypeAttr(Type); "type"
}
impl Display for TypeAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

builtin! {
    /// `[a, b]`.
    ArrayAttr(Vec<Attr>); "array"
}
impl Display for ArrayAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        comma(f, &self.0)?;
        f.write_char(']')
    }
}

builtin! {
    /// `{a = 1 : i32, b}`; made by [`DictAttr::new`], which sorts by key.
    DictAttr {
        entries: Vec<(Name, Attr)>,
    } "dictionary"
}
impl DictAttr {
    /// A dictionary of these entries; of two with one key the last stays.
    pub fn new(mut entries: Vec<(Name, Attr)>) -> Self {
        entries.reverse();
        entries.sort_by_key(|entry| entry.0);
        entries.dedup_by_key(|entry| entry.0);
        Self { entries }
    }
    /// The entries, sorted by key.
    pub fn entries(&self) -> &[(Name, Attr)] {
        &self.entries
    }
    /// The attribute under a key.
    pub fn get(&self, key: &str) -> Option<Attr> {
        let found = self.entries.iter().find(|(name, _)| *name == key)?;
        Some(found.1)
    }
}

/// Writes `{a = 1 : i32, b}`.
pub fn dictionary_text(f: &mut impl Write, entries: &[(Name, Attr)]) -> fmt::Result {
    f.write_char('{')?;
    for (i, (key, value)) in entries.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        key_text(f, key)?;
        if !value.is::<UnitAttr>() {
            write!(f, " = {value}")?;
        }
    }
    f.write_char('}')
}

/// Writes the key of a dictionary entry, in quotes where it is not an identifier.
pub fn key_text(f: &mut impl Write, key: &str) -> fmt::Result {
    let mut chars = key.chars();
    let head = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let plain = head
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.'))
        && !key.ends_with('.')
        && !key.contains("..");
    if plain {
        f.write_str(key)
    } else {
        quote(f, key)
    }
}
impl Display for DictAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dictionary_text(f, &self.entries)
    }
}

builtin! {
    /// `array<i64: 1, 2>`, `array<f32: 1.0>`, `array<i1: true>`.
    DenseArray {
        /// An integer or float type.
        pub elem: Type,
        /// The items: integers as they are, floats as the bits of an `f64`.
        pub bits: Vec<i64>,
    } "dense_array"
}
impl Display for DenseArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "array<{}", self.elem)?;
        for (i, &bits) in self.bits.iter().enumerate() {
            f.write_str(if i == 0 { ": " } else { ", " })?;
            if self.elem.is_float() {
                f.write_str(&float_text(f64::from_bits(bits as u64), self.elem))?;
            } else if self.elem.bits() == Some(1) {
                f.write_str(if bits == 0 { "false" } else { "true" })?;
            } else {
                write!(f, "{bits}")?;
            }
        }
        f.write_char('>')
    }
}

builtin! {
    /// `dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>`: elements kept in memory, for small constants.
    DenseElements {
        /// A statically shaped tensor or vector type.
        pub ty: Type,
        /// The elements, little endian, row-major, each [`Type::bytes`] long; one element alone
        /// is a splat.
        pub data: Box<[u8]>,
    } "dense"
}
impl DenseElements {
    /// The number of elements stored: one for a splat.
    pub fn stored(&self) -> usize {
        self.data.len() / self.ty.bytes().unwrap_or(1).max(1)
    }
    /// Whether one stored element stands for all.
    pub fn is_splat(&self) -> bool {
        self.stored() == 1
    }
    /// The little-endian bits of the element at a row-major position.
    pub fn bits(&self, index: usize) -> u64 {
        let size = self.ty.bytes().unwrap_or(1).max(1);
        let at = if self.is_splat() { 0 } else { index * size };
        let mut bytes = [0; 8];
        let len = size.min(8);
        if let Some(source) = self.data.get(at..at + len) {
            bytes[..len].copy_from_slice(source);
        }
        u64::from_le_bytes(bytes)
    }
    /// The element at a row-major position as a number.
    pub fn number(&self, index: usize) -> f64 {
        let bits = self.bits(index);
        let elem = self.ty.elem();
        match elem.get::<FloatType>() {
            Some(&format) => float_value(bits, format),
            None => sign_extend(bits, elem) as f64,
        }
    }
    fn element(&self, f: &mut fmt::Formatter<'_>, index: usize) -> fmt::Result {
        let elem = self.ty.elem();
        let bits = self.bits(index);
        match elem.get::<FloatType>() {
            Some(&format) => f.write_str(&float_text(float_value(bits, format), elem)),
            None if elem.bits() == Some(1) => f.write_str(if bits == 0 { "false" } else { "true" }),
            None => write!(f, "{}", sign_extend(bits, elem)),
        }
    }
    fn nested(&self, f: &mut fmt::Formatter<'_>, shape: &[i64], at: &mut usize) -> fmt::Result {
        let Some((&n, rest)) = shape.split_first() else {
            self.element(f, *at)?;
            *at += 1;
            return Ok(());
        };
        f.write_char('[')?;
        for i in 0..n {
            if i > 0 {
                f.write_str(", ")?;
            }
            self.nested(f, rest, at)?;
        }
        f.write_char(']')
    }
}

/// The integer of a type behind little-endian bits; unsigned types are not sign-extended.
pub fn sign_extend(bits: u64, ty: Type) -> i64 {
    let unsigned = ty
        .get::<crate::types::IntType>()
        .is_some_and(|t| t.sign == crate::types::Sign::Unsigned);
    let width = ty.bits().unwrap_or(64).clamp(1, 64);
    let shift = 64 - width;
    if unsigned {
        ((bits << shift) >> shift) as i64
    } else {
        ((bits << shift) as i64) >> shift
    }
}
impl Display for DenseElements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dense<")?;
        if self.is_splat() {
            self.element(f, 0)?;
        } else if self.ty.elements() != Some(0) {
            self.nested(f, self.ty.shape().unwrap_or(&[]), &mut 0)?;
        }
        write!(f, "> : {}", self.ty)
    }
}

builtin! {
    /// `affine_map<(d0) -> (d0)>`.
    AffineMapAttr(AffineMap); "affine_map"
}
impl Display for AffineMapAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "affine_map<{}>", self.0)
    }
}

builtin! {
    /// `strided<[4, 1], offset: ?>` as an attribute of its own.
    LayoutAttr(crate::types::Layout); "strided"
}
impl Display for LayoutAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

builtin! {
    /// `loc("file":1:2)` as an attribute.
    LocAttr(Loc); "loc"
}
impl Display for LocAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

builtin! {
    /// An attribute of a dialect that is not loaded, or of a builtin kind that has no meaning
    /// here (`affine_set<…>`, `sparse<…>`): kept as text.
    OpaqueAttr {
        /// All of its text.
        pub text: Box<str>,
    } "opaque"
}
impl Display for OpaqueAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

builtin! {
    /// `#tir.blob<"net.safetensors", "conv1.w", "sha256:…", tensor<…>>`: elements that lie in a
    /// file beside the program, or were made by a pass and are written there with it.
    BlobAttr {
        /// Path of the `.safetensors`, relative to the `.tir`; empty while only in memory.
        pub file: Box<str>,
        /// The key in it.
        pub key: Box<str>,
        /// `sha256:` and the hash of the elements, in hexadecimal.
        pub hash: Box<str>,
        /// A statically shaped tensor type.
        pub ty: Type,
    } "tir.blob"
}
impl Display for BlobAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for text in [&self.file, &self.key, &self.hash] {
            quote(f, text)?;
            f.write_str(", ")?;
        }
        write!(f, "{}", self.ty)
    }
}
impl crate::registry::ParseAttr for BlobAttr {
    const DOC: &'static str = "Elements that lie in a .safetensors file beside the program.";
    fn parse(body: Option<&str>, cx: &dyn crate::registry::TextCx) -> Result<Self, String> {
        let list = cx.parse_attr(&format!("[{}]", body.unwrap_or_default()))?;
        let items = list.get::<ArrayAttr>().map_or(&[][..], |array| &array.0);
        let [file, key, hash, ty] = items else {
            return Err("expects file, key, hash and type".to_string());
        };
        let text = |attr: &Attr, what: &str| {
            let text = attr.as_str().map(Box::from);
            text.ok_or_else(|| format!("expects the {what} as a string, found {attr}"))
        };
        let Some(ty) = ty.get::<TypeAttr>() else {
            return Err(format!("expects a type, found {ty}"));
        };
        if ty.0.elements().is_none() || ty.0.shape().is_none() {
            return Err(format!("expects a statically shaped type, found {}", ty.0));
        }
        Ok(Self {
            file: text(file, "file")?,
            key: text(key, "key")?,
            hash: text(hash, "hash")?,
            ty: ty.0,
        })
    }
}
