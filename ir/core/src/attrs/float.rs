//! Floats of every format: their text and their bits.

use crate::types::{FloatType, Type};

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
