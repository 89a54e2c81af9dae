//! numpy's `.npy`: reading versions 1 to 3, writing version 1 (2 if the header is long).
//!
//! Read are the little- and big-endian forms of every [`DType`], in C and in Fortran order; the
//! result is always little endian and row major. bf16, which numpy lacks, is `<V2`, as the Python
//! package `ml_dtypes` writes it.

use std::path::Path;

use bytes::Bytes;

use crate::array::TypeName;
use crate::{Array, DType, DataError, Staged};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a `.npy` file by mapping it; the array shares the map where byte order and layout allow.
///
/// # Errors
/// If it cannot be read or is malformed, with file and place.
pub fn read(path: &Path) -> Result<Array, DataError> {
    crate::map_file(path)
        .and_then(decode)
        .map_err(|e| e.in_file(path))
}

/// Writes a `.npy` file: the name holds either the whole new file or what it held before.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, array: &Array) -> Result<(), DataError> {
    Staged::write(path, &[&encode_header(array), array.bytes()])?.commit()
}

/// The bytes of a `.npy` file that holds `array`: the same as numpy's, C order.
pub fn encode(array: &Array) -> Vec<u8> {
    let mut out = encode_header(array);
    out.extend_from_slice(array.bytes());
    out
}

fn encode_header(array: &Array) -> Vec<u8> {
    let dims: Vec<String> = array.shape().iter().map(usize::to_string).collect();
    let shape = match dims.as_slice() {
        [one] => format!("({one},)"),
        dims => format!("({})", dims.join(", ")),
    };
    let descr = descr(array.dtype());
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // The data starts at a multiple of 64; the header ends in spaces and a newline.
    let padded = |prefix: usize| (prefix + dict.len() + 1).next_multiple_of(64) - prefix;
    let mut out = MAGIC.to_vec();
    let len = match u16::try_from(padded(10)) {
        Ok(len) => {
            out.extend([1, 0]);
            out.extend(len.to_le_bytes());
            usize::from(len)
        }
        Err(_) => {
            let len = padded(12);
            out.extend([2, 0]);
            out.extend((len as u32).to_le_bytes());
            len
        }
    };
    let end = out.len() + len;
    out.extend(dict.bytes());
    out.resize(end - 1, b' ');
    out.push(b'\n');
    out
}

fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::F16 => "<f2",
        DType::BF16 => "<V2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
    }
}

/// Reads the bytes of a `.npy` file. Shares `file` where byte order and layout allow.
///
/// # Errors
/// If they are malformed, with the byte offset or the header field.
pub fn decode(file: Bytes) -> Result<Array, DataError> {
    let (header, data_start) = split(&file)?;
    let header = Parser {
        bytes: header,
        pos: 0,
        start: data_start - header.len(),
    }
    .parse()?;
    let Fields {
        dtype,
        big_endian,
        fortran,
        shape,
    } = header;
    let data = file.slice(data_start..);
    let Some(expected) = dtype.byte_len(&shape) else {
        let why = format!("the size in bytes of {} overflows", TypeName(dtype, &shape));
        return Err(DataError::at_part("header field 'shape'", why));
    };
    if data.len() != expected {
        let why = format!(
            "{} bytes of data, expected {expected} for {}",
            data.len(),
            TypeName(dtype, &shape)
        );
        return Err(DataError::at_byte(data_start, why));
    }
    // Everything allocated from here on is as long as the data, which is there.
    let size = dtype.size();
    let data = if big_endian && size > 1 {
        let mut swapped = data.to_vec();
        swapped.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        Bytes::from(swapped)
    } else {
        data
    };
    let data = if fortran && shape.len() > 1 {
        row_major(&data, size, &shape)
    } else {
        data
    };
    Array::new(dtype, &shape, data)
}

/// The header's text and the offset of the data.
fn split(file: &[u8]) -> Result<(&[u8], usize), DataError> {
    if file.get(..6) != Some(MAGIC) {
        return Err(DataError::at_byte(
            0,
            "is no .npy file: it does not start with \\x93NUMPY",
        ));
    }
    let cut = |at: usize, what: &str| {
        DataError::at_byte(
            at,
            format!("{what} is cut off: the file has {} bytes", file.len()),
        )
    };
    let Some(&[major, minor]) = file.get(6..8) else {
        return Err(cut(6, "version"));
    };
    let (len, start): (usize, usize) = match major {
        1 => match file.get(8..10) {
            Some(&[a, b]) => (usize::from(u16::from_le_bytes([a, b])), 10),
            _ => return Err(cut(8, "header length")),
        },
        2 | 3 => match file.get(8..12) {
            Some(&[a, b, c, d]) => (u32::from_le_bytes([a, b, c, d]) as usize, 12),
            _ => return Err(cut(8, "header length")),
        },
        _ => {
            return Err(DataError::at_byte(
                6,
                format!("version is {major}.{minor}, expected 1.0, 2.0 or 3.0"),
            ));
        }
    };
    let end = start.saturating_add(len);
    match file.get(start..end) {
        Some(header) => Ok((header, end)),
        None => Err(DataError::at_byte(
            8,
            format!(
                "header length is {len}, but only {} bytes follow",
                file.len() - start
            ),
        )),
    }
}

/// Transposes column-major elements of `size` bytes to row-major order.
fn row_major(data: &[u8], size: usize, shape: &[usize]) -> Bytes {
    let mut out = Vec::with_capacity(data.len());
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = size;
    for &d in shape {
        strides.push(stride);
        stride = stride.saturating_mul(d); // used only if no dimension is 0, when it is in range
    }
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    while let Some(element) = data.get(at..at + size) {
        out.extend_from_slice(element);
        if out.len() == data.len() {
            break;
        }
        for ((i, &d), &s) in index.iter_mut().zip(shape).zip(&strides).rev() {
            *i += 1;
            at += s;
            if *i < d {
                break;
            }
            at -= s * d;
            *i = 0;
        }
    }
    Bytes::from(out)
}

/// What a header says.
struct Fields {
    dtype: DType,
    big_endian: bool,
    fortran: bool,
    shape: Vec<usize>,
}

/// Reads a header: a Python dictionary literal with the keys descr, fortran_order and shape.
struct Parser<'a> {
    bytes: &'a [u8],
    pos: usize,
    /// Offset of `bytes` in the file.
    start: usize,
}

impl<'a> Parser<'a> {
    fn parse(mut self) -> Result<Fields, DataError> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.accept(b'}') {
            let at = self.pos;
            let key = self.string()?;
            self.expect(b':')?;
            let fresh = match key {
                b"descr" => descr.replace(self.descr()?).is_none(),
                b"fortran_order" => fortran.replace(self.boolean()?).is_none(),
                b"shape" => shape.replace(self.shape()?).is_none(),
                _ => {
                    let key = String::from_utf8_lossy(key);
                    return Err(self.error(at, format!("header has the unknown field {key:?}")));
                }
            };
            if !fresh {
                return Err(self.error(at, "header has this field twice"));
            }
            if !self.accept(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        if self.peek().is_some() {
            return Err(self.error(self.pos, "header goes on after its closing brace"));
        }
        let missing =
            |name: &str| DataError::at_part(format!("header field '{name}'"), "is missing");
        let (dtype, big_endian) = descr.ok_or_else(|| missing("descr"))?;
        let fortran = fortran.ok_or_else(|| missing("fortran_order"))?;
        let shape = shape.ok_or_else(|| missing("shape"))?;
        Ok(Fields {
            dtype,
            big_endian,
            fortran,
            shape,
        })
    }

    fn error(&self, pos: usize, message: impl Into<String>) -> DataError {
        DataError::at_byte(self.start + pos, message)
    }

    /// The next byte that is no white space, not consumed.
    fn peek(&mut self) -> Option<u8> {
        while self
            .bytes
            .get(self.pos)
            .is_some_and(u8::is_ascii_whitespace)
        {
            self.pos += 1;
        }
        self.bytes.get(self.pos).copied()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.pos += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), DataError> {
        if self.accept(byte) {
            return Ok(());
        }
        Err(self.unexpected(&format!("'{}'", char::from(byte))))
    }

    fn unexpected(&self, expected: &str) -> DataError {
        match self.bytes.get(self.pos) {
            Some(&b) => self.error(
                self.pos,
                format!("header has '{}', expected {expected}", b.escape_ascii()),
            ),
            None => self.error(self.pos, format!("header ends, expected {expected}")),
        }
    }

    fn string(&mut self) -> Result<&'a [u8], DataError> {
        let Some(quote @ (b'\'' | b'"')) = self.peek() else {
            return Err(self.unexpected("a string"));
        };
        let rest = self.bytes.get(self.pos + 1..).unwrap_or_default();
        let Some(len) = rest.iter().position(|&b| b == quote) else {
            return Err(self.error(self.pos, "header has a string that does not end"));
        };
        self.pos += len + 2;
        Ok(rest.get(..len).unwrap_or_default())
    }

    /// Element type, and whether it is big endian.
    fn descr(&mut self) -> Result<(DType, bool), DataError> {
        if matches!(self.peek(), Some(b'[')) {
            return Err(self.error(
                self.pos,
                "header field 'descr' is a structured type; only plain ones can be read",
            ));
        }
        let at = self.pos;
        let text = self.string()?;
        let (order, kind) = match text {
            [order @ (b'<' | b'>' | b'|' | b'='), kind @ ..] => (*order, kind),
            kind => (b'=', kind),
        };
        let dtype = DType::ALL
            .into_iter()
            .find(|&d| descr(d).as_bytes().get(1..) == Some(kind));
        match dtype {
            Some(dtype) => Ok((dtype, order == b'>')),
            None => {
                let text = text.escape_ascii();
                Err(self.error(
                    at,
                    format!("header field 'descr' is '{text}', no element type that can be read"),
                ))
            }
        }
    }

    fn boolean(&mut self) -> Result<bool, DataError> {
        self.peek();
        let rest = self.bytes.get(self.pos..).unwrap_or_default();
        for (word, value) in [("True", true), ("False", false)] {
            if rest.starts_with(word.as_bytes()) {
                self.pos += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected("True or False"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, DataError> {
        let mut shape = Vec::new();
        self.expect(b'(')?;
        while !self.accept(b')') {
            shape.push(self.number()?);
            if !self.accept(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn number(&mut self) -> Result<usize, DataError> {
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return Err(self.unexpected("a dimension"));
        }
        let at = self.pos;
        let mut value = 0usize;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.pos) {
            let next = value
                .checked_mul(10)
                .and_then(|v| v.checked_add(usize::from(digit - b'0')));
            value = next.ok_or_else(|| {
                self.error(at, "header field 'shape' has a dimension beyond 64 bits")
            })?;
            self.pos += 1;
        }
        self.pos += usize::from(self.bytes.get(self.pos) == Some(&b'L')); // Python 2's long
        Ok(value)
    }
}
