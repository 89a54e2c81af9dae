//! Comparing two arrays as numpy's `allclose` does, with an account of the difference.

use std::fmt;

use crate::Array;
use crate::array::TypeName;

/// The outcome of [`compare`].
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// True if type and shape agree and no element is beyond tolerance.
    pub ok: bool,
    /// Set if types or shapes differ; nothing else was compared then.
    pub incomparable: Option<String>,
    /// Number of elements compared.
    pub elements: usize,
    /// Number of elements beyond tolerance.
    pub mismatches: usize,
    /// The element whose error is the largest multiple of its tolerance; `None` if all are equal.
    pub worst: Option<Worst>,
    /// Largest |actual - expected|; infinite where one is NaN or the infinities differ.
    pub max_abs_error: f64,
    /// Largest |actual - expected| / |expected| over elements with expected ≠ 0.
    pub max_rel_error: f64,
}

/// One element of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct Worst {
    /// Its index per dimension.
    pub index: Vec<usize>,
    /// The expected value.
    pub expected: f64,
    /// The actual value.
    pub actual: f64,
}

/// Compares elementwise: close means |actual - expected| ≤ `atol` + `rtol` · |expected|.
///
/// Floats are compared as f64, integers exactly (their difference is then rounded to f64).
/// NaN is close to NaN and to nothing else (numpy's `equal_nan=True`); an infinity is close only
/// to itself. Arrays of different type or shape are not compared: [`Comparison::incomparable`].
pub fn compare(expected: &Array, actual: &Array, rtol: f64, atol: f64) -> Comparison {
    let mut c = Comparison {
        ok: true,
        incomparable: None,
        elements: expected.len(),
        mismatches: 0,
        worst: None,
        max_abs_error: 0.0,
        max_rel_error: 0.0,
    };
    if expected.dtype() != actual.dtype() || expected.shape() != actual.shape() {
        c.ok = false;
        c.elements = 0;
        c.incomparable = Some(format!(
            "type is {}, expected {}",
            TypeName(actual.dtype(), actual.shape()),
            TypeName(expected.dtype(), expected.shape())
        ));
        return c;
    }
    let mut worst: Option<(f64, f64, usize)> = None; // error / tolerance, error, element
    match (expected.as_f32(), actual.as_f32()) {
        (Some(e), Some(a)) => {
            for (k, (&e, &a)) in e.iter().zip(a.iter()).enumerate() {
                let (e, a) = (f64::from(e), f64::from(a));
                c.take(&mut worst, k, e, abs_error(e, a), rtol, atol);
            }
        }
        _ => {
            for k in 0..expected.len() {
                let e = expected.get_f64(k).unwrap_or(f64::NAN);
                let error = match (expected.get_int(k), actual.get_int(k)) {
                    (Some(e), Some(a)) => (a - e).unsigned_abs() as f64,
                    _ => abs_error(e, actual.get_f64(k).unwrap_or(f64::NAN)),
                };
                c.take(&mut worst, k, e, error, rtol, atol);
            }
        }
    }
    c.worst = worst.map(|(_, _, k)| Worst {
        index: expected.unravel(k),
        expected: expected.get_f64(k).unwrap_or(f64::NAN),
        actual: actual.get_f64(k).unwrap_or(f64::NAN),
    });
    c.ok = c.mismatches == 0;
    c
}

/// |a - e|, 0 for equal infinities and for two NaNs, infinite for one NaN.
fn abs_error(e: f64, a: f64) -> f64 {
    if e == a || (e.is_nan() && a.is_nan()) {
        0.0
    } else if e.is_nan() || a.is_nan() {
        f64::INFINITY
    } else {
        (a - e).abs()
    }
}

impl Comparison {
    fn take(
        &mut self,
        worst: &mut Option<(f64, f64, usize)>,
        k: usize,
        e: f64,
        error: f64,
        rtol: f64,
        atol: f64,
    ) {
        if error == 0.0 {
            return;
        }
        // An expected infinity must not make everything close; an expected NaN has no magnitude.
        let tolerance = if e.is_finite() {
            atol + rtol * e.abs()
        } else {
            0.0
        };
        let close = error <= tolerance;
        if !close {
            self.mismatches += 1;
        }
        let ratio = error / tolerance;
        if worst.is_none_or(|(r, w, _)| ratio > r || (ratio == r && error > w)) {
            *worst = Some((ratio, error, k));
        }
        self.max_abs_error = self.max_abs_error.max(error);
        if e != 0.0 {
            let rel = if e.is_finite() {
                error / e.abs()
            } else {
                f64::INFINITY
            };
            self.max_rel_error = self.max_rel_error.max(rel);
        }
    }
}

impl fmt::Display for Comparison {
    /// One line: `max error 1.2e-7 (relative 3.4e-6), at [0, 3]: 1.5, expected 1.25; 3 of 10 beyond tolerance`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.incomparable {
            return f.write_str(why);
        }
        let Some(w) = &self.worst else {
            return f.write_str("equal");
        };
        write!(
            f,
            "max error {:.2e} (relative {:.2e})",
            self.max_abs_error, self.max_rel_error
        )?;
        write!(
            f,
            ", worst at {:?}: {}, expected {}",
            w.index, w.actual, w.expected
        )?;
        match self.mismatches {
            0 => Ok(()),
            n => write!(f, "; {n} of {} beyond tolerance", self.elements),
        }
    }
}
