//! Builtin attributes that hold elements: arrays, dense constants, blobs.

use std::fmt::{self, Display, Write};

use super::{ArrayAttr, Attr, AttrData, TypeAttr, builtin, float_text, float_value};
use crate::fmt::quote;
use crate::registry::{ParseAttr, TextCx};
use crate::types::{FloatType, IntType, Sign, Type};

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
            } else if is_unsigned(self.elem) {
                write!(f, "{}", bits as u64)?;
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
    /// The little-endian bits of the element at a row-major position; of an integer of more than
    /// 64 bits the low ones.
    pub fn bits(&self, index: usize) -> u64 {
        self.wide_bits(index) as u64
    }
    /// All bits of the element at a row-major position, which are at most 128.
    pub fn wide_bits(&self, index: usize) -> u128 {
        let size = self.ty.bytes().unwrap_or(1).max(1);
        let at = if self.is_splat() { 0 } else { index * size };
        let mut bytes = [0; 16];
        let len = size.min(16);
        if let Some(source) = self.data.get(at..at + len) {
            bytes[..len].copy_from_slice(source);
        }
        u128::from_le_bytes(bytes)
    }
    /// The integer at a row-major position: sign-extended unless its type has no sign. Of an unsigned one of 128 bits its bits.
    pub fn int(&self, index: usize) -> i128 {
        let elem = self.ty.elem().storage();
        match is_unsigned(elem) {
            true => self.unsigned(index) as i128,
            false if elem.bits().is_none_or(|bits| bits <= 64) => {
                sign_extend(self.bits(index), elem).into()
            }
            false => {
                let shift = 128 - elem.bits().map_or(128, |bits| bits.min(128));
                (self.wide_bits(index) << shift) as i128 >> shift
            }
        }
    }
    /// The bits of an element that its type has, as a number without sign.
    fn unsigned(&self, index: usize) -> u128 {
        let bits = self.ty.elem().storage().bits();
        let shift = 128 - bits.map_or(128, |bits| bits.clamp(1, 128));
        self.wide_bits(index) << shift >> shift
    }
    /// The element at a row-major position as a number.
    pub fn number(&self, index: usize) -> f64 {
        let bits = self.bits(index);
        let elem = self.ty.elem().storage();
        match elem.get::<FloatType>() {
            Some(&format) => float_value(bits, format),
            None if is_unsigned(elem) => self.unsigned(index) as f64,
            None => self.int(index) as f64,
        }
    }
    fn element(&self, f: &mut fmt::Formatter<'_>, index: usize) -> fmt::Result {
        let elem = self.ty.elem().storage();
        let bits = self.bits(index);
        match elem.get::<FloatType>() {
            Some(&format) => f.write_str(&float_text(float_value(bits, format), elem)),
            None if elem.bits() == Some(1) => f.write_str(if bits == 0 { "false" } else { "true" }),
            None if is_unsigned(elem) => write!(f, "{}", self.unsigned(index)),
            None => write!(f, "{}", self.int(index)),
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

fn is_unsigned(ty: Type) -> bool {
    let int = ty.storage().get::<IntType>();
    int.is_some_and(|int| int.sign == Sign::Unsigned)
}

/// The integer of a type behind little-endian bits; unsigned types are not sign-extended.
pub fn sign_extend(bits: u64, ty: Type) -> i64 {
    let unsigned = ty
        .storage()
        .get::<IntType>()
        .is_some_and(|t| t.sign == Sign::Unsigned);
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
impl ParseAttr for BlobAttr {
    const DOC: &'static str = "Elements that lie in a .safetensors file beside the program.";
    fn parse(body: Option<&str>, cx: &dyn TextCx) -> Result<Self, String> {
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
