//! Whether both sides of a rule agree as its class says.

use tir::data::{Array, DType};
use tir::{Class, Data};

/// What was found at the roots.
pub(crate) enum Compared {
    /// So many elements agree.
    Equal(usize),
    /// The class says nothing of such values.
    Outside,
}

/// How far floats of both sides may be apart, of the largest number that goes in or is computed on
/// the left: for other orders of sums of some thousand numbers, or for some roundings.
fn tolerance(class: Class, dtype: DType) -> f64 {
    match (class, dtype) {
        (Class::Exact | Class::NoNans, _) => 0.0,
        (_, DType::F16) => 32.0 * (-10f64).exp2(),
        (_, DType::BF16) => 32.0 * (-7f64).exp2(),
        (Class::Reassociating, DType::F64) => 1e-10,
        (Class::Reassociating, _) => 1e-4,
        (Class::Contracting, DType::F64) => 32.0 * f64::EPSILON,
        (Class::Contracting, _) => 32.0 * f64::from(f32::EPSILON),
    }
}

/// Compares the roots of both sides; `inner` is what goes in and is computed on the left, which
/// only the exact class need not know. An error says what differs.
pub(crate) fn compare(
    class: Class,
    left: &[Data],
    right: &[Data],
    inner: &[Data],
) -> Result<Compared, String> {
    let mut largest = f64::MIN_POSITIVE;
    for data in inner.iter().chain(left) {
        let Ok(array) = data.to_array() else { continue };
        if array.dtype().is_float() {
            for x in array.iter_f64() {
                let outside = match class {
                    Class::Exact => false,
                    Class::NoNans => false,
                    Class::Reassociating | Class::Contracting => x.is_infinite(),
                };
                if outside {
                    return Ok(Compared::Outside);
                }
                if x.is_finite() {
                    largest = largest.max(x.abs());
                }
            }
        }
    }
    let nan = |data: &Data| {
        let array = data.to_array().ok().filter(|a| a.dtype().is_float());
        array.is_some_and(|a| a.iter_f64().any(f64::is_nan))
    };
    // Numbers of moderate size overflow in f16, and what these classes say is of numbers that do not.
    let overflows = |data: &Data| {
        let array = data.to_array().ok().filter(|a| a.dtype() == DType::F16);
        array.is_some_and(|a| a.iter_f64().any(|x| !x.is_finite()))
    };
    if matches!(class, Class::Reassociating | Class::Contracting) && right.iter().any(overflows) {
        return Ok(Compared::Outside);
    }
    if class == Class::NoNans && inner.iter().any(nan) {
        return Ok(Compared::Outside);
    }
    let mut count = 0;
    for (k, (a, b)) in left.iter().zip(right).enumerate() {
        let (Ok(a), Ok(b)) = (a.to_array(), b.to_array()) else {
            return Err(format!("result {k} cannot be compared"));
        };
        if (a.dtype(), a.shape()) != (b.dtype(), b.shape()) {
            return Err(format!(
                "result {k} is {a:?} on the left and {b:?} on the right"
            ));
        }
        for i in 0..a.len() {
            match agree(class, &a, &b, i, largest) {
                Some(true) => count += 1,
                Some(false) => {
                    let at = a.unravel(i);
                    let root = match left.len() {
                        1 => String::new(),
                        _ => format!(" of root {k}"),
                    };
                    let (x, y) = (text(&a, i), text(&b, i));
                    return Err(format!(
                        "at {at:?}{root} the left side is {x}, the right side {y}"
                    ));
                }
                None => {}
            }
        }
    }
    Ok(Compared::Equal(count))
}

/// Whether an element of both sides agrees; `None` if the class says nothing of it.
fn agree(class: Class, a: &Array, b: &Array, i: usize, largest: f64) -> Option<bool> {
    if !a.dtype().is_float() {
        return Some(a.get_int(i) == b.get_int(i));
    }
    let (x, y) = (a.get_f64(i)?, b.get_f64(i)?);
    let both_nan = x.is_nan() && y.is_nan();
    match class {
        Class::Exact => Some(both_nan || x.to_bits() == y.to_bits()),
        Class::NoNans => (!x.is_nan()).then_some(x == y),
        Class::Reassociating | Class::Contracting => {
            // Whole numbers that the type holds are sums without a rounding.
            let exact = match a.dtype() {
                DType::F16 | DType::BF16 => 0.0,
                _ => 1e6,
            };
            let whole = x.fract() == 0.0 && y.fract() == 0.0 && x.abs() < exact;
            let near = match whole {
                true => 0.0,
                false => tolerance(class, a.dtype()) * largest,
            };
            Some(both_nan || (x - y).abs() <= near)
        }
    }
}

fn text(array: &Array, i: usize) -> String {
    match array.get_int(i).filter(|_| !array.dtype().is_float()) {
        Some(n) => n.to_string(),
        None => array.get_f64(i).unwrap_or(f64::NAN).to_string(),
    }
}
