//! Guards on what becomes of constants that a rule brings together.
//!
//! `(x · a) · b` may be finite where `a · b` is not, and `a · b` may be zero where neither is. A rule
//! that leaves two constants to be folded into one asks here whether the one is a normal number. Bounds
//! on the magnitudes of the elements decide, so a rule may be kept from what would be right, never the
//! other way round. Integers wrap, so that it makes no difference in which order they are combined.

use std::cell::RefCell;
use std::collections::HashMap;

use tir::{Arg, Attr, FloatType, PatternSet, interp};

/// Magnitudes of the elements of a constant.
#[derive(Clone, Copy)]
struct Extremes {
    largest: f64,
    /// Of those that are not zero; infinite if all are.
    smallest: f64,
}

thread_local! {
    /// By constant: weights are asked about again and again.
    static KNOWN: RefCell<HashMap<Attr, Option<Extremes>>> = RefCell::new(HashMap::new());
}

/// The magnitudes in a constant; `None` if it is not at hand or an element is no finite number.
fn extremes(attr: Attr) -> Option<Extremes> {
    if let Some(known) = KNOWN.with(|known| known.borrow().get(&attr).copied()) {
        return known;
    }
    let compute = || {
        let array = interp::elements(attr).ok()?;
        let mut found = Extremes {
            largest: 0.0,
            smallest: f64::INFINITY,
        };
        for x in array.iter_f64().map(f64::abs) {
            if !x.is_finite() {
                return None;
            }
            found.largest = found.largest.max(x);
            if x > 0.0 {
                found.smallest = found.smallest.min(x);
            }
        }
        Some(found)
    };
    let found = compute();
    KNOWN.with(|known| known.borrow_mut().insert(attr, found));
    found
}

/// The least and the largest normal number of a format.
fn limits(format: FloatType) -> (f64, f64) {
    match format {
        FloatType::F16 => (2f64.powi(-14), 65504.0),
        FloatType::BF16 => (f32::MIN_POSITIVE.into(), f32::from_bits(0x7F7F_0000).into()),
        FloatType::F32 => (f32::MIN_POSITIVE.into(), f32::MAX.into()),
        FloatType::F64 => (f64::MIN_POSITIVE, f64::MAX),
    }
}

/// Whether a condition holds for the magnitudes in all these constants, and the limits of their
/// format; it does for integers.
fn holds<const N: usize>(args: &[Arg], condition: fn([Extremes; N], (f64, f64)) -> bool) -> bool {
    let check = || {
        let elem = args.first()?.ty()?.elem();
        let Some(format) = elem.get::<FloatType>() else {
            return Some(true);
        };
        let found: Option<Vec<Extremes>> = args.iter().map(|a| extremes(a.attr()?)).collect();
        Some(condition(found?.try_into().ok()?, limits(*format)))
    };
    check() == Some(true)
}

/// Whether a guard on two constants holds for every two of these values that are constants.
fn pairs(args: &[Arg], holds: fn(&[Arg]) -> bool) -> bool {
    let constants: Vec<&Arg> = args.iter().filter(|a| a.attr().is_some()).collect();
    let mut pairs = constants.iter().enumerate().flat_map(|(i, a)| {
        let rest = constants[i + 1..].iter();
        rest.map(move |b| [(*a).clone(), (*b).clone()])
    });
    pairs.all(|pair| holds(&pair))
}

fn sum_is_finite(args: &[Arg]) -> bool {
    holds(args, |[a, b], (_, most)| a.largest + b.largest <= most)
}
fn product_is_normal(args: &[Arg]) -> bool {
    holds(args, |[a, b], (least, most)| {
        a.largest * b.largest <= most && a.smallest * b.smallest >= least
    })
}

/// Adds the guards.
pub(super) fn register(set: &mut PatternSet) {
    // A sum that is less than a normal number is exact.
    set.guard("sum-is-finite", sum_is_finite)
        .guard("product-is-normal", product_is_normal)
        .guard("sums-are-finite", |args| pairs(args, sum_is_finite))
        .guard("products-are-normal", |args| pairs(args, product_is_normal))
        // Of factors that are summed afterwards: single ones may vanish beside the others.
        .guard("product-is-finite", |args| {
            holds(args, |[a, b], (least, most)| {
                let largest = a.largest * b.largest;
                largest <= most && (largest >= least || largest == 0.0)
            })
        })
        .guard("reciprocal-is-normal", |args| {
            holds(args, |[c], (least, most)| {
                1.0 / c.smallest <= most && 1.0 / c.largest >= least
            })
        });
}
