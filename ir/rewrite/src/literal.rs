//! Values written in rules: what they match, and what is made of them.

use tir_core::{
    Attr, AttrValue, DenseElements, FieldInfo, FloatAttr, FloatType, Type, float_bits, sign_extend,
};

use crate::rule::Literal;

impl Literal {
    /// Whether an attribute (of a field, whose keywords then count) is this value, or a splat of
    /// it.
    pub fn matches(&self, attr: Attr, field: Option<&FieldInfo>) -> bool {
        let splat = || attr.get::<DenseElements>().filter(|d| d.is_splat());
        match self {
            Literal::Int(n) => match splat() {
                Some(d) if !d.ty.elem().is_float() => sign_extend(d.bits(0), d.ty.elem()) == *n,
                Some(_) => false,
                None => attr.as_int() == Some(*n),
            },
            Literal::Bool(wanted) => match splat() {
                Some(d) => d.ty.elem().bits() == Some(1) && (d.bits(0) & 1 != 0) == *wanted,
                None => attr.as_int().is_some_and(|n| (n != 0) == *wanted),
            },
            Literal::Float(x) => match splat() {
                Some(d) => match d.ty.elem().get::<FloatType>() {
                    Some(format) => d.bits(0) == float_bits(*x, *format),
                    None => false,
                },
                None => attr
                    .get::<FloatAttr>()
                    .is_some_and(|f| Attr::float(*x, f.ty) == attr),
            },
            Literal::Str(text) => attr.as_str() == Some(text.as_str()),
            Literal::Ints(wanted) => Vec::<i64>::from_attr(attr).as_ref() == Some(wanted),
            Literal::Word(word) => {
                let words = field.and_then(|f| f.keywords);
                match words.and_then(|w| (w.parse)(word)) {
                    Some(wanted) => wanted == attr,
                    None => attr.as_str() == Some(word.as_str()),
                }
            }
        }
    }

    /// The attribute of a field that is this value; of the type of the field's default, else of
    /// `i64` or `f32`.
    pub fn attr(&self, field: Option<&FieldInfo>) -> Option<Attr> {
        let ty = field.and_then(|f| f.default?.type_of());
        Some(match self {
            Literal::Int(n) => Attr::int(*n, ty.unwrap_or_else(|| Type::int(64))),
            Literal::Float(x) => Attr::float(*x, ty.unwrap_or_else(Type::f32)),
            Literal::Bool(b) => Attr::bool(*b),
            Literal::Str(text) => Attr::str(text),
            Literal::Ints(all) => Attr::ints(all),
            Literal::Word(word) => match field.and_then(|f| f.keywords) {
                Some(words) => (words.parse)(word)?,
                None => Attr::str(word),
            },
        })
    }

    /// The constant of a type that is this value: a number, or a splat.
    pub fn constant(&self, ty: Type) -> Option<Attr> {
        let elem = ty.elem();
        let (number, integer) = match self {
            Literal::Int(n) => (*n as f64, *n),
            Literal::Bool(b) => (f64::from(u8::from(*b)), i64::from(*b)),
            Literal::Float(x) => (*x, 0),
            _ => return None,
        };
        let format = elem.get::<FloatType>();
        if format.is_none() && matches!(self, Literal::Float(_)) {
            return None;
        }
        if ty.shape().is_none() {
            return match format {
                Some(_) => Some(Attr::float(number, elem)),
                None if elem.is_int() || elem.is_index() => Some(Attr::int(integer, elem)),
                None => None,
            };
        }
        ty.elements()?;
        let bits = match format {
            Some(format) => float_bits(number, *format),
            None => integer as u64,
        };
        let data = bits.to_le_bytes().get(..ty.bytes()?)?.into();
        Some(Attr::new(DenseElements { ty, data }))
    }
}

/// The type that prints like this, if it is a scalar.
pub(crate) fn scalar(text: &str) -> Option<Type> {
    if text == "index" {
        return Some(Type::index());
    }
    if let Some(width) = text.strip_prefix('i') {
        let width: u32 = width.parse().ok()?;
        return Some(Type::int(width));
    }
    let format = FloatType::ALL.into_iter().find(|t| t.to_string() == text)?;
    Some(Type::new(format))
}
