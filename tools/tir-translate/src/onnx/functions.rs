//! Importers of elementwise functions that are compositions.

use tir_core::{Type, Value};
use tir_graph::accumulator;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::make::Make;

/// A function of one operand, computed in the type that sums are accumulated in.
pub(super) fn of_one(
    cx: &mut Cx<'_>,
    node: &Node,
    compute: impl FnOnce(&mut Make<'_, '_>, Value) -> Outcome<Value>,
) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&[])?;
    let x = m.operand(0)?;
    let elem = m.elem(x);
    let wide = m.cast(x, accumulator(elem))?;
    let y = compute(&mut m, wide)?;
    let y = m.cast(y, elem)?;
    m.done(y)
}

pub(super) fn tan(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let sin = m.op(tir_graph::Sin { x })?;
    let cos = m.op(tir_graph::Cos { x })?;
    m.div(sin, cos)
}

pub(super) fn cosh(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let (up, minus) = (m.exp(x)?, m.neg(x)?);
    let down = m.exp(minus)?;
    let sum = m.add(up, down)?;
    m.times(sum, 0.5)
}

/// `2t / (1 - t²)`, where t is the tangent of half, near 0, where the difference of exponentials cancels.
pub(super) fn sinh(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let (up, minus) = (m.exp(x)?, m.neg(x)?);
    let down = m.exp(minus)?;
    let far = m.sub(up, down)?;
    let far = m.times(far, 0.5)?;
    let half = m.times(x, 0.5)?;
    let t = m.tanh(half)?;
    let (twice, square) = (m.times(t, 2.0)?, m.mul(t, t)?);
    let rest = m.neg(square)?;
    let rest = m.plus(rest, 1.0)?;
    let near = m.div(twice, rest)?;
    let size = m.abs(x)?;
    let small = m.below(size, 1.0)?;
    m.choose(small, near, far)
}

/// `max(x, 0) + min(alpha · (exp(x / alpha) - 1), 0)`.
pub(super) fn celu(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["alpha"])?;
    let (x, alpha) = (m.operand(0)?, m.float("alpha", 1.0)?);
    let (high, low) = (m.relu(x)?, m.at_most(x, 0.0)?);
    let low = m.times(low, 1.0 / alpha)?;
    let low = m.exp(low)?;
    let low = m.plus(low, -1.0)?;
    let low = m.times(low, alpha)?;
    let y = m.add(high, low)?;
    m.done(y)
}

/// `x` where it is not negative, else `slope · x`; slopes broadcast to `x`, until version 6 one for each channel.
pub(super) fn prelu(cx: &mut Cx<'_>, node: &Node, channels: bool) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(if channels { &["consumed_inputs"] } else { &[] })?;
    let (x, mut slope) = (m.operand(0)?, m.operand(1)?);
    let (rank, count) = (m.rank(x), m.shape(slope).iter().product::<i64>());
    if channels && rank > 2 && count > 1 {
        let mut form = vec![1; rank - 1];
        form[0] = count;
        slope = m.reshape(slope, &form)?;
    }
    let scaled = m.mul(x, slope)?;
    let negative = m.below(x, 0.0)?;
    let y = m.choose(negative, scaled, x)?;
    m.done(y)
}

/// -1, 0 or 1 where x is negative, 0 or positive, of any number type.
pub(super) fn sign(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let elem = m.elem(x);
    let zero = m.like(x, 0.0)?;
    let (above, below) = (m.greater(x, zero)?, m.less(x, zero)?);
    let (above, below) = (m.cast(above, elem)?, m.cast(below, elem)?);
    m.sub(above, below)
}

/// `ln(1 + x)`: with u = 1 + x rounded it is `ln(u) · x / (u - 1)`, and x where u is 1 (W. Kahan; see D. Goldberg, "What Every
/// Computer Scientist Should Know About Floating-Point Arithmetic", 1991, theorem 4).
fn log_of_more(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let u = m.plus(x, 1.0)?;
    let more = m.plus(u, -1.0)?;
    let same = m.equals(more, 0.0)?;
    let one = m.like(x, 1.0)?;
    let safe = m.choose(same, one, more)?;
    let log = m.log(u)?;
    let slope = m.div(x, safe)?;
    let product = m.mul(log, slope)?;
    let infinite = m.equals(u, f64::INFINITY)?;
    let product = m.choose(infinite, u, product)?;
    m.choose(same, x, product)
}

/// `ln(1 + eˣ)`, which is `max(x, 0) + ln(1 + e^-|x|)`: no exponential overflows.
pub(super) fn softplus(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let (high, size) = (m.relu(x)?, m.abs(x)?);
    let below = m.like(size, 0.0)?;
    let below = m.sub(below, size)?;
    let power = m.exp(below)?;
    let log = log_of_more(m, power)?;
    m.add(high, log)
}

/// `sign(x) · ln(1 + |x| + x² / (1 + √(x² + 1)))`.
pub(super) fn asinh(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let (size, square) = (m.abs(x)?, m.mul(x, x)?);
    let root = m.plus(square, 1.0)?;
    let root = m.sqrt(root)?;
    let below = m.plus(root, 1.0)?;
    let part = m.div(square, below)?;
    let more = m.add(size, part)?;
    let log = log_of_more(m, more)?;
    let sign = sign(m, x)?;
    m.mul(sign, log)
}

/// `ln(x + √((x - 1)(x + 1)))`.
pub(super) fn acosh(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let (less, more) = (m.plus(x, -1.0)?, m.plus(x, 1.0)?);
    let root = m.mul(less, more)?;
    let root = m.sqrt(root)?;
    let sum = m.add(less, root)?;
    log_of_more(m, sum)
}

/// `ln(1 + 2x / (1 - x)) / 2`, of |x|.
pub(super) fn atanh(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let size = m.abs(x)?;
    let (minus, twice) = (m.neg(size)?, m.times(size, 2.0)?);
    let rest = m.plus(minus, 1.0)?;
    let more = m.div(twice, rest)?;
    let log = log_of_more(m, more)?;
    let half = m.times(log, 0.5)?;
    let sign = sign(m, x)?;
    m.mul(sign, half)
}

/// The angle whose tangent is x: of |x| beyond 1 that of 1 / |x|, taken from a right angle, halved until it is small
/// (`atan(x) = 2 · atan(x / (1 + √(1 + x²)))`, three times), and then Taylor's series, whose rest is less than
/// 10⁻¹⁶ of it there.
pub(super) fn atan(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    const HALVINGS: usize = 3;
    const TERMS: i32 = 8;
    let size = m.abs(x)?;
    let large = m.above(size, 1.0)?;
    let one = m.like(x, 1.0)?;
    let safe = m.choose(large, size, one)?;
    let inverse = m.reciprocal(safe)?;
    let mut t = m.choose(large, inverse, size)?;
    for _ in 0..HALVINGS {
        let square = m.mul(t, t)?;
        let root = m.plus(square, 1.0)?;
        let root = m.sqrt(root)?;
        let below = m.plus(root, 1.0)?;
        t = m.div(t, below)?;
    }
    let square = m.mul(t, t)?;
    let mut sum = m.like(x, 0.0)?;
    for k in (0..TERMS).rev() {
        let term = f64::from(1 - 2 * (k % 2)) / f64::from(2 * k + 1);
        sum = m.mul(sum, square)?;
        sum = m.plus(sum, term)?;
    }
    let angle = m.mul(sum, t)?;
    let angle = m.times(angle, f64::from(1 << HALVINGS))?;
    let minus = m.neg(angle)?;
    let other = m.plus(minus, std::f64::consts::FRAC_PI_2)?;
    let angle = m.choose(large, other, angle)?;
    let sign = sign(m, x)?;
    m.mul(sign, angle)
}

/// `atan(x / √((1 - x)(1 + x)))`.
pub(super) fn asin(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let minus = m.neg(x)?;
    let (less, more) = (m.plus(minus, 1.0)?, m.plus(x, 1.0)?);
    let root = m.mul(less, more)?;
    let root = m.sqrt(root)?;
    let tangent = m.div(x, root)?;
    atan(m, tangent)
}

/// `2 · atan(√((1 - x) / (1 + x)))`.
pub(super) fn acos(m: &mut Make<'_, '_>, x: Value) -> Outcome<Value> {
    let minus = m.neg(x)?;
    let (less, more) = (m.plus(minus, 1.0)?, m.plus(x, 1.0)?);
    let tangent = m.div(less, more)?;
    let tangent = m.sqrt(tangent)?;
    let half = atan(m, tangent)?;
    m.times(half, 2.0)
}

pub(super) fn is_nan(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&[])?;
    let x = m.operand(0)?;
    let same = m.equal(x, x)?;
    let y = m.not(same)?;
    m.done(y)
}

pub(super) fn is_inf(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["detect_negative", "detect_positive"])?;
    let x = m.operand(0)?;
    let (negative, positive) = (
        m.int("detect_negative", 1)? != 0,
        m.int("detect_positive", 1)? != 0,
    );
    let y = match (negative, positive) {
        (true, true) => {
            let size = m.abs(x)?;
            m.equals(size, f64::INFINITY)?
        }
        (false, true) => m.equals(x, f64::INFINITY)?,
        (true, false) => m.equals(x, f64::NEG_INFINITY)?,
        (false, false) => {
            let none = m.less(x, x)?;
            m.and(none, none)?
        }
    };
    m.done(y)
}

/// The sign in any number type.
pub(super) fn sign_of(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&[])?;
    let x = m.operand(0)?;
    let y = sign(&mut m, x)?;
    m.done(y)
}

pub(super) fn bitwise_not(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&[])?;
    let x = m.operand(0)?;
    let elem = m.elem(x);
    let Some([low, high]) = tir_graph::bounds(elem) else {
        return m.fail(format!("takes {elem}, expected integers"));
    };
    let y = if low < 0 {
        // -1 has all bits.
        let all = m.like(x, -1.0)?;
        m.xor(x, all)?
    } else {
        // What is left of the largest number; which may be more than a float holds.
        let half = m.like(x, ((high + 1) / 2) as f64)?;
        let one = m.like(x, 1.0)?;
        let less = m.sub(half, one)?;
        let all = m.add(half, less)?;
        m.sub(all, x)?
    };
    m.done(y)
}

/// Bits moved to the left or to the right, numbers with a sign with copies of it: moved one, two, four, … places, each step
/// where the number of places has that bit, by products with powers of two and quotients rounded down. By as many places as
/// there are bits, or by less than none, all are gone.
pub(super) fn bit_shift(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["direction"])?;
    let (x, by) = (m.operand(0)?, m.operand(1)?);
    let elem = m.elem(x);
    let left = match m.word("direction", "")?.as_str() {
        "LEFT" => true,
        "RIGHT" => false,
        other => {
            return m.fail(format!(
                "attribute 'direction' is '{other}', expected LEFT or RIGHT"
            ));
        }
    };
    let Some(bounds) = tir_graph::bounds(elem) else {
        return m.fail(format!("shifts {elem}, expected integers"));
    };
    let (width, signed) = (elem.bits().unwrap_or(0) as i64, bounds[0] < 0);
    let zero = m.like(x, 0.0)?;
    let mut y = x;
    let mut step = width / 2;
    let most = m.like(by, (width - 1) as f64)?;
    let outside = m.greater(by, most)?;
    let mut rest = m.min(by, most)?;
    while step > 0 {
        let size = m.like(by, step as f64)?;
        let here = m.greater_equal(rest, size)?;
        let less = m.sub(rest, size)?;
        rest = m.choose(here, less, rest)?;
        let power = m.like(x, 2f64.powi(step as i32))?;
        let moved = match left {
            true => m.mul(y, power)?,
            false => {
                let quotient = m.div(y, power)?;
                if signed {
                    // Quotients go towards zero, and lose one where something is cut off below it.
                    let whole = m.mul(quotient, power)?;
                    let above = m.greater(whole, y)?;
                    let above = m.cast(above, elem)?;
                    m.sub(quotient, above)?
                } else {
                    quotient
                }
            }
        };
        y = m.choose(here, moved, y)?;
        step /= 2;
    }
    let gone = if signed && !left {
        let negative = m.less(x, zero)?;
        let all = m.like(x, -1.0)?;
        m.choose(negative, all, zero)?
    } else {
        zero
    };
    let y = m.choose(outside, gone, y)?;
    let none = m.like(by, 0.0)?;
    let negative = m.less(by, none)?;
    let y = m.choose(negative, gone, y)?;
    m.done(y)
}

/// The remainder, with the sign of the divisor; with `fmod` that of the dividend.
pub(super) fn modulo(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let mut m = Make::new(cx, node);
    m.attributes(&["fmod"])?;
    let as_c = m.flag("fmod")?;
    let (x, y) = (m.operand(0)?, m.operand(1)?);
    let elem = m.elem(x);
    let rest = if elem.is_float() {
        // The quotient towards zero, in the widest type: what it rounds is less than the remainder.
        let wide = Type::new(tir_core::FloatType::F64);
        let (a, b) = (m.cast(x, wide)?, m.cast(y, wide)?);
        let quotient = m.div(a, b)?;
        let (down, up) = (m.floor(quotient)?, m.ceil(quotient)?);
        let negative = m.below(quotient, 0.0)?;
        let whole = m.choose(negative, up, down)?;
        let product = m.mul(whole, b)?;
        let rest = m.sub(a, product)?;
        // Nothing is taken of what is divided by infinity.
        let (size, sizes) = (m.abs(a)?, m.abs(b)?);
        let finite = m.below(size, f64::INFINITY)?;
        let endless = m.equals(sizes, f64::INFINITY)?;
        let endless = m.and(finite, endless)?;
        let rest = m.choose(endless, a, rest)?;
        let rest = match as_c {
            true => rest,
            false => with_sign(&mut m, rest, b)?,
        };
        m.cast(rest, elem)?
    } else {
        let quotient = m.div(x, y)?;
        let product = m.mul(quotient, y)?;
        let rest = m.sub(x, product)?;
        let unsigned = tir_graph::bounds(elem).is_some_and(|[low, _]| low == 0);
        if as_c || unsigned {
            rest
        } else {
            with_sign(&mut m, rest, y)?
        }
    };
    m.done(rest)
}

/// A remainder with the sign of the divisor, which is added where the signs differ.
fn with_sign(m: &mut Make<'_, '_>, rest: Value, y: Value) -> Outcome<Value> {
    let zero = m.like(rest, 0.0)?;
    let (below, divisor) = (m.less(rest, zero)?, m.less(y, zero)?);
    let differ = m.xor(below, divisor)?;
    let none = m.equal(rest, zero)?;
    let some = m.not(none)?;
    let other = m.and(differ, some)?;
    let sum = m.add(rest, y)?;
    m.choose(other, sum, rest)
}

/// `x` to the power of `y`, in the type of `x`: whole constant powers of integers are products; others of
/// integers are computed in f64, which is exact up to 2^53.
pub(super) fn pow(cx: &mut Cx<'_>, node: &Node) -> Outcome<()> {
    let known = cx.elements(node, 1);
    let mut m = Make::new(cx, node);
    m.attributes(&[])?;
    let x = m.operand(0)?;
    let elem = m.elem(x);
    if !elem.is_float()
        && let Some(exponent) = known.filter(|a| a.len() == 1).and_then(|a| a.get_f64(0))
        && exponent.fract() == 0.0
        && (0.0..=64.0).contains(&exponent)
    {
        let mut left = exponent as u32;
        let (mut square, mut y) = (x, m.like(x, 1.0)?);
        while left > 0 {
            if left % 2 == 1 {
                y = m.mul(y, square)?;
            }
            left /= 2;
            if left > 0 {
                square = m.mul(square, square)?;
            }
        }
        let shape = m.shape(x);
        let y = m.expand(y, &shape)?;
        return m.done(y);
    }
    let exponent = m.operand(1)?;
    let wide = match elem.is_float() {
        true => elem,
        false => Type::new(tir_core::FloatType::F64),
    };
    let (base, exponent) = (m.cast(x, wide)?, m.cast(exponent, wide)?);
    let y = m.pow(base, exponent)?;
    let y = m.cast(y, elem)?;
    m.done(y)
}
