//! Numbers and elements of constants out of text.

use pest::iterators::Pair;
use tir_core::{
    Attr, DenseArray, DenseElements, Failure, FloatAttr, FloatType, IntAttr, IntType, OpaqueAttr,
    Sign, Type, float_bits, float_value,
};

use crate::attr::{Reading, below};
use crate::tree::Rule;

/// A number with its type, `i64` or `f64` if none is said.
pub(crate) fn number(r: &Reading<'_>, text: &str, ty: Option<Type>) -> Result<Attr, Failure> {
    let hex = text.trim_start_matches('-').starts_with("0x");
    let decimal = !hex && text.contains(['.', 'e', 'E']);
    let ty = ty.unwrap_or_else(|| {
        if decimal {
            Type::new(FloatType::F64)
        } else {
            Type::int(64)
        }
    });
    if let Some(&format) = ty.get::<FloatType>() {
        let bits = float(r, text, format)?;
        return Ok(Attr::new(FloatAttr {
            bits: float_value(bits, format).to_bits(),
            ty,
        }));
    }
    if ty.float_width().is_some() {
        // A float of a format that is not computed with stays text.
        let digits = |b: u8| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E');
        if !hex && !text.bytes().all(digits) {
            return Err(r.error(text, format!("`{text}` is not a number")));
        }
        return Ok(Attr::new(OpaqueAttr {
            text: format!("{text} : {ty}").into(),
            ty: Some(ty),
        }));
    }
    if decimal {
        return Err(r.error(text, format!("`{text}` is a float, but its type is {ty}")));
    }
    if ty.is_int() || ty.is_index() {
        let value = integer(r, text, ty)?;
        return Ok(Attr::new(IntAttr { value, ty }));
    }
    Err(r.error(
        text,
        format!("a number is of an integer or float type, not {ty}"),
    ))
}

/// An integer that fits its type, sign-extended for signless ones.
fn integer(r: &Reading<'_>, text: &str, ty: Type) -> Result<i128, Failure> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let parsed = match digits.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16),
        None => digits.parse::<u128>(),
    };
    let fail = |why: &str| Err(r.error(text, format!("`{text}` {why}")));
    let Ok(magnitude) = parsed else {
        return match digits.bytes().all(|b| b.is_ascii_digit()) {
            true => fail("is too large"),
            false => fail("is not an integer"),
        };
    };
    let (width, sign) = match ty.get::<IntType>() {
        Some(int) => (int.width, int.sign),
        None => (64, Sign::Signed),
    };
    // The number of values, less one; of wider types only what 128 bits hold has a literal.
    let most = u128::MAX >> (128 - width.clamp(1, 128));
    let (low, high) = match sign {
        Sign::Signless if width <= 128 => (most / 2 + 1, most),
        Sign::Unsigned => (0, most),
        _ => (most / 2 + 1, most / 2),
    };
    if magnitude > if negative { low } else { high } {
        return match width > 128 {
            true => fail("is too large"),
            false => Err(r.error(text, format!("{text} does not fit {ty}"))),
        };
    }
    let value = match negative {
        true => (magnitude as i128).wrapping_neg(),
        false => magnitude as i128,
    };
    Ok(match sign {
        Sign::Signless if width == 1 => i128::from(value != 0),
        // The upper half is written for the negative numbers too.
        Sign::Signless if width < 128 && value > (most / 2) as i128 => value - most as i128 - 1,
        _ => value,
    })
}

/// The bits of a float in its format.
fn float(r: &Reading<'_>, text: &str, format: FloatType) -> Result<u64, Failure> {
    let bad = |why: &str| r.error(text, format!("`{text}` {why}"));
    if let Some(hex) = text.strip_prefix("0x") {
        let bits = u64::from_str_radix(hex, 16).map_err(|_| bad("is not a number"))?;
        let width = format.bits();
        if width < 64 && bits >> width != 0 {
            return Err(bad(&format!("has more than the {width} bits of {format}")));
        }
        return Ok(bits);
    }
    if !text
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E'))
    {
        return Err(bad("is not a number"));
    }
    if format == FloatType::F32 {
        let value: f32 = text.parse().map_err(|_| bad("is not a number"))?;
        return Ok(u64::from(value.to_bits()));
    }
    let value: f64 = text.parse().map_err(|_| bad("is not a number"))?;
    Ok(float_bits(value, format))
}

/// `array<i64: 1, 2>`.
pub(crate) fn dense_array(r: &Reading<'_>, pair: Pair<'_, Rule>) -> Result<Attr, Failure> {
    let text = pair.as_str();
    let mut parts = below(pair);
    let Some(elem) = parts.next() else {
        return Err(r.error(text, "expected the type of an item"));
    };
    let elem = r.ty(elem)?;
    if elem.bits().is_none_or(|bits| bits > 64) {
        return Err(r.error(text, format!("items are integers or floats, not {elem}")));
    }
    let mut bits = Vec::new();
    if let Some(body) = parts.next() {
        for item in body.as_str().split(',') {
            let item = item.trim();
            bits.push(match elem.get::<FloatType>() {
                Some(&format) => float_value(float(r, item, format)?, format).to_bits() as i64,
                None => scalar(r, item, elem)? as i64,
            });
        }
    }
    Ok(Attr::new(DenseArray { elem, bits }))
}

/// An integer or truth value; unsigned 64-bit ones as their bits.
fn scalar(r: &Reading<'_>, text: &str, elem: Type) -> Result<i128, Failure> {
    match text {
        "true" if elem.bits() == Some(1) => Ok(1),
        "false" if elem.bits() == Some(1) => Ok(0),
        "" => Err(r.error(text, "expected a number")),
        _ => integer(r, text, elem),
    }
}

/// `dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>`.
pub(crate) fn dense(r: &Reading<'_>, pair: Pair<'_, Rule>) -> Result<Attr, Failure> {
    let whole = pair.as_str();
    let mut parts = below(pair);
    let (Some(body), Some(ty)) = (parts.next(), parts.next()) else {
        return Err(r.error(whole, "expected elements and a type"));
    };
    let at = ty.as_str();
    let ty = r.ty(ty)?;
    // Elements are written as they are stored.
    let elem = ty.elem().storage();
    let Some(shape) = ty.shape() else {
        return Err(r.error(
            at,
            format!("elements are of a tensor or vector type, not {ty}"),
        ));
    };
    let Some(size) = elem
        .bits()
        .and_then(|bits| (bits <= 128).then(|| ty.bytes()))
        .flatten()
    else {
        // Elements without a meaning here (complex, strings) stay text.
        let text: String = format!("dense<{}> : {ty}", body.as_str().trim());
        return Ok(Attr::new(OpaqueAttr {
            text: text.into(),
            ty: Some(ty),
        }));
    };
    let Some(count) = ty.elements() else {
        return Err(r.error(at, format!("elements need a static shape, found {ty}")));
    };
    let body = body.as_str().trim();
    let data = if body.starts_with('"') {
        hex_data(r, body, elem, count, size)?
    } else {
        let mut list = List {
            r,
            text: body,
            at: 0,
            elem,
            size,
            data: Vec::new(),
        };
        list.ws();
        if body.is_empty() {
            if count != 0 {
                return Err(r.error(whole, format!("expected {count} elements, found none")));
            }
        } else if body.starts_with('[') {
            list.nested(shape)?;
            list.ws();
        } else {
            list.element()?;
            list.ws();
        }
        if list.at < body.len() {
            return Err(r.error(&body[list.at..], "expected `>`"));
        }
        list.data
    };
    Ok(Attr::new(DenseElements {
        ty,
        data: data.into(),
    }))
}

fn hex_data(
    r: &Reading<'_>,
    text: &str,
    elem: Type,
    count: usize,
    size: usize,
) -> Result<Vec<u8>, Failure> {
    let digits = text
        .strip_prefix("\"0x")
        .and_then(|rest| rest.strip_suffix('"'));
    let Some(digits) = digits.filter(|digits| digits.len() % 2 == 0 && digits.is_ascii()) else {
        return Err(r.error(text, "expected \"0x…\" with two hex digits for each byte"));
    };
    let Some(bytes) = hex_bytes(digits) else {
        return Err(r.error(text, "expected hex digits"));
    };
    if elem.bits() == Some(1) {
        // Eight to a byte.
        if count == 1 || bytes.len() == count.div_ceil(8) {
            let bit = |i: usize| bytes.get(i / 8).map_or(0, |b| b >> (i % 8) & 1);
            return Ok((0..count).map(bit).collect());
        }
        if let [0 | 255] = bytes[..] {
            return Ok(vec![bytes[0] & 1]);
        }
    } else if bytes.len() == size || count.checked_mul(size) == Some(bytes.len()) {
        return Ok(bytes);
    }
    let message = format!(
        "{} bytes do not make {count} elements of {elem}",
        bytes.len()
    );
    Err(r.error(text, message))
}

/// `dense_resource<key> : tensor<…>` where the metadata of the file holds the key: a string of
/// hexadecimal digits, four bytes of alignment and then those of the elements.
pub(crate) fn resource(r: &Reading<'_>, text: &str, blob: &str, ty: Type) -> Result<Attr, Failure> {
    let elem = ty.elem().storage();
    let whole = ty.elements().zip(ty.bytes());
    let Some((count, size)) = whole.filter(|_| ty.shape().is_some()) else {
        return Err(r.error(text, format!("a resource has no elements of type {ty}")));
    };
    let digits = blob.trim_matches('"').strip_prefix("0x").unwrap_or("");
    let data = digits.get(8..).and_then(hex_bytes);
    match data.filter(|data| count.checked_mul(size) == Some(data.len())) {
        Some(data) => Ok(Attr::new(DenseElements {
            ty,
            data: data.into(),
        })),
        None => {
            let message =
                format!("the bytes of the resource do not make {count} elements of {elem}");
            Err(r.error(text, message))
        }
    }
}

fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    let value = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| Some(value(pair[0])? << 4 | value(*pair.get(1)?)?))
        .collect()
}

/// Reads nested lists of elements.
struct List<'a> {
    r: &'a Reading<'a>,
    text: &'a str,
    at: usize,
    elem: Type,
    size: usize,
    data: Vec<u8>,
}

impl List<'_> {
    fn ws(&mut self) {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }
    fn nested(&mut self, shape: &[i64]) -> Result<(), Failure> {
        let Some((want, rest)) = shape.split_first() else {
            return self.element();
        };
        self.ws();
        let start = self.at;
        if self.text.as_bytes().get(self.at) != Some(&b'[') {
            return Err(self.r.error(&self.text[self.at..], "expected `[`"));
        }
        self.at += 1;
        let mut found = 0;
        loop {
            self.ws();
            match self.text.as_bytes().get(self.at) {
                Some(b']') if found == 0 => break,
                None => return Err(self.r.error(&self.text[start..], "`[` is not closed")),
                _ => {}
            }
            self.nested(rest)?;
            found += 1;
            self.ws();
            match self.text.as_bytes().get(self.at) {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.r.error(&self.text[self.at..], "expected `,` or `]`")),
            }
        }
        self.at += 1;
        if found != *want {
            let message = format!("expected {want} elements, found {found}");
            return Err(self.r.error(&self.text[start..self.at], message));
        }
        Ok(())
    }
    fn element(&mut self) -> Result<(), Failure> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.');
        while bytes.get(self.at).is_some_and(part) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        if text.is_empty() {
            return Err(self.r.error(&self.text[start..], "expected a number"));
        }
        let bits = match self.elem.get::<FloatType>() {
            Some(&format) => float(self.r, text, format)?.into(),
            None => scalar(self.r, text, self.elem)? as u128,
        };
        let width = self.elem.bits().unwrap_or(64).clamp(1, 128);
        let le = (bits & (u128::MAX >> (128 - width))).to_le_bytes();
        self.data.extend_from_slice(&le[..self.size.min(16)]);
        Ok(())
    }
}
