//! Real numbers as small integers: one generic each, in whose region single scales and zero points
//! that are constants are numbers.

use tir::data::Array;
use tir::interp::{attr_of, elements, failure};
use tir::rewrite::{PatternSet, Rewriter};
use tir::{AffineMap, Decline, OpId, Type, Value};
use tir_accel::MachineInfo;
use tir_arith::{AddF, AddI, DivF, MaxSI, MaximumF, MinSI, MinimumF, MulF, ShLI, ShRSI, SubI};
use tir_graph::{Dequantize, Quantize, Requantize, bounds};
use tir_math::RoundEven;

use super::nest::{E, elementwise, form, map, number};
use super::select::converted;

pub(super) fn patterns(set: &mut PatternSet, steps: Steps) {
    set.on("quantize-to-generic", quantize);
    set.on("dequantize-to-generic", dequantize);
    match steps {
        Steps::Floats => set.on("requantize-to-generic", requantize),
        Steps::Shifts => set.on("requantize-to-generic", requantize_by_shifts),
    };
}

/// How sums of integers are scaled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Steps {
    Floats,
    /// Where the numbers are the same.
    Shifts,
}

impl Steps {
    /// Shifts where vector units compute them, and none computes floats.
    pub(super) fn on(machine: Option<&MachineInfo>) -> Self {
        let vectors = || machine.into_iter().flat_map(|info| &info.vectors);
        let takes = |ty: Type| vectors().any(|v| v.types.contains(&ty));
        match takes(Type::int(32)) && !takes(Type::f32()) {
            true => Self::Shifts,
            false => Self::Floats,
        }
    }
}

/// A scale or zero point: a number that is known, or an input.
enum Parameter {
    Known(f64),
    Input(usize),
}

/// What the region of a generic reads.
struct Inputs(Vec<(Value, AffineMap)>);

impl Inputs {
    fn new(rw: &Rewriter<'_>, x: Value) -> Result<Self, Decline> {
        let rank = form(rw, x)?.0.len();
        Ok(Self(vec![(x, AffineMap::identity(rank))]))
    }
    /// A number for all elements, or one for each of a dimension.
    fn parameter(
        &mut self,
        rw: &Rewriter<'_>,
        value: Value,
        axis: i64,
    ) -> Result<Parameter, Decline> {
        let (shape, _) = form(rw, value)?;
        let one = shape.iter().all(|d| *d == 1);
        if let Some(constant) = rw.constant(value)
            && one
            && let Ok(array) = elements(constant)
            && let Some(known) = array.iter_f64().next()
        {
            return Ok(Parameter::Known(known));
        }
        let rank = self.0[0].1.dims;
        let at = usize::try_from(axis).map_err(|_| "has a negative axis")?;
        let place = if one { E::Const(0) } else { E::Dim(at) };
        let exprs: Vec<E> = shape.iter().map(|_| place.clone()).collect();
        self.0.push((value, map(rank, exprs)));
        Ok(Parameter::Input(self.0.len() - 1))
    }
}

/// A parameter in a region, as a number of a type.
fn taken(rw: &mut Rewriter<'_>, parameter: &Parameter, args: &[Value], elem: Type) -> Value {
    match *parameter {
        Parameter::Known(value) => number(rw, value, elem),
        Parameter::Input(at) => converted(rw, args[at], elem),
    }
}

/// `saturate(round(scaled) + zero)`.
fn saturated(
    rw: &mut Rewriter<'_>,
    scaled: Value,
    zero: &Option<Parameter>,
    args: &[Value],
    elem: Type,
) -> Value {
    let f32 = Type::f32();
    let mut y = rw.add(RoundEven::new(scaled));
    if let Some(zero) = zero
        && !matches!(zero, Parameter::Known(0.0))
    {
        let zero = taken(rw, zero, args, f32);
        y = rw.add(AddF::new(y, zero));
    }
    if let Some([low, high]) = bounds(elem) {
        let low = number(rw, low as f64, f32);
        let high = number(rw, high as f64, f32);
        y = rw.add(MaximumF::new(y, low));
        y = rw.add(MinimumF::new(y, high));
    }
    converted(rw, y, elem)
}

fn quantize(quantize: Quantize, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let Quantize {
        x,
        scale,
        zero,
        axis,
        y,
    } = quantize;
    narrowed(rw, op, x, (scale, zero, axis), y.0, |rw, x, scale| {
        rw.add(DivF::new(x, scale))
    })
}

fn requantize(requantize: Requantize, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let Requantize {
        x,
        factor,
        zero,
        axis,
        y,
    } = requantize;
    narrowed(rw, op, x, (factor, zero, axis), y.0, |rw, x, factor| {
        rw.add(MulF::new(x, factor))
    })
}

/// `k` if a number is `2^-k`.
fn shift(factor: f64) -> Option<i64> {
    let k = -factor.log2();
    (k.fract() == 0.0 && (0.0..=16.0).contains(&k) && 2f64.powf(-k) == factor).then_some(k as i64)
}

/// By shifts, where factors are powers of two: `(x + half - even) >> k`, where `even` is 1 if the
/// number below is even, so that ties go to the even number.
///
/// `x` is kept in bounds first, at which the result is the least and greatest of its type. Within
/// them numbers are exact in `f32`, which is asked for: so both ways give the same.
fn requantize_by_shifts(
    requantize: Requantize,
    op: OpId,
    rw: &mut Rewriter<'_>,
) -> Result<(), Decline> {
    let known = |value: Value| {
        let array = elements(rw.constant(value)?).ok()?;
        Some(array.iter_f64().collect::<Vec<f64>>())
    };
    let elem = requantize.y.0.elem();
    let shifts: Option<Vec<i64>> =
        known(requantize.factor).and_then(|all| all.into_iter().map(shift).collect());
    let zero = match requantize.zero {
        Some(zero) => known(zero).filter(|z| z.len() == 1).map(|z| z[0] as i64),
        None => Some(0),
    };
    let (Some(shifts), Some(zero), Some([low, high])) = (shifts, zero, bounds(elem)) else {
        return self::requantize(requantize, op, rw);
    };
    let (low, high) = (low as i64 - zero, high as i64 - zero);
    let largest = shifts.iter().copied().max().unwrap_or(0);
    // A shift by nothing has no half.
    let some = shifts.iter().all(|k| *k > 0) || largest == 0;
    if low.abs().max(high.abs()) << largest > 1 << 24 || !some {
        return self::requantize(requantize, op, rw);
    }
    let mut inputs = Inputs::new(rw, requantize.x)?;
    let same = shifts.iter().all(|k| *k == shifts[0]);
    let by_element = match same {
        true => None,
        false => {
            let shifts = shifts.iter().map(|k| *k as i32).collect::<Vec<i32>>();
            let array = Array::from_vec(&[shifts.len()], shifts).map_err(failure)?;
            let value = super::nest::elements(rw, attr_of(&array));
            Some(inputs.parameter(rw, value, requantize.axis)?)
        }
    };
    let ty = requantize.y.0;
    let y = elementwise(rw, ty, &inputs.0, |rw, args| {
        let i32 = Type::int(32);
        let whole = |rw: &mut Rewriter<'_>, n: i64| number(rw, n as f64, i32);
        let by = match &by_element {
            Some(parameter) => taken(rw, parameter, args, i32),
            None => whole(rw, shifts[0]),
        };
        // A number in steps of the result.
        let steps = |rw: &mut Rewriter<'_>, n: i64| match same {
            true => whole(rw, n << shifts[0]),
            false => {
                let n = whole(rw, n);
                left(rw, n, by)
            }
        };
        let (low, high) = (steps(rw, low), steps(rw, high));
        let x = rw.add(MaxSI {
            lhs: args[0],
            rhs: low,
        });
        let x = rw.add(MinSI { lhs: x, rhs: high });
        let add_zero = |rw: &mut Rewriter<'_>, y: Value| match zero {
            0 => y,
            _ => {
                let zero = whole(rw, zero);
                sum(rw, y, zero)
            }
        };
        if largest == 0 {
            let y = add_zero(rw, x);
            return converted(rw, y, elem);
        }
        let (one, top) = (whole(rw, 1), whole(rw, 31));
        // -1 if the number below is even, else 0.
        let below = right(rw, x, by);
        let next = sum(rw, below, one);
        let next = left(rw, next, top);
        let even = right(rw, next, top);
        let half = match same {
            true => whole(rw, 1 << (shifts[0] - 1)),
            false => {
                let step = steps(rw, 1);
                right(rw, step, one)
            }
        };
        let up = sum(rw, even, half);
        let up = sum(rw, x, up);
        let y = right(rw, up, by);
        let y = add_zero(rw, y);
        converted(rw, y, elem)
    });
    rw.replace(op, &[y]);
    Ok(())
}

fn sum(rw: &mut Rewriter<'_>, lhs: Value, rhs: Value) -> Value {
    let overflow = None;
    rw.add(AddI { lhs, rhs, overflow })
}

fn left(rw: &mut Rewriter<'_>, lhs: Value, rhs: Value) -> Value {
    let overflow = None;
    rw.add(ShLI { lhs, rhs, overflow })
}

fn right(rw: &mut Rewriter<'_>, lhs: Value, rhs: Value) -> Value {
    let exact = None;
    rw.add(ShRSI { lhs, rhs, exact })
}

fn narrowed(
    rw: &mut Rewriter<'_>,
    op: OpId,
    x: Value,
    (scale, zero, axis): (Value, Option<Value>, i64),
    ty: Type,
    scaled: impl FnOnce(&mut Rewriter<'_>, Value, Value) -> Value,
) -> Result<(), Decline> {
    let mut inputs = Inputs::new(rw, x)?;
    let scale = inputs.parameter(rw, scale, axis)?;
    let zero = zero
        .map(|zero| inputs.parameter(rw, zero, axis))
        .transpose()?;
    let y = elementwise(rw, ty, &inputs.0, |rw, args| {
        let x = converted(rw, args[0], Type::f32());
        let scale = taken(rw, &scale, args, Type::f32());
        let scaled = scaled(rw, x, scale);
        saturated(rw, scaled, &zero, args, ty.elem())
    });
    rw.replace(op, &[y]);
    Ok(())
}

fn dequantize(dequantize: Dequantize, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let Dequantize {
        x,
        scale,
        zero,
        axis,
        y,
    } = dequantize;
    let mut inputs = Inputs::new(rw, x)?;
    let scale = inputs.parameter(rw, scale, axis)?;
    let zero = zero
        .map(|zero| inputs.parameter(rw, zero, axis))
        .transpose()?;
    let y = elementwise(rw, y.0, &inputs.0, |rw, args| {
        let mut x = converted(rw, args[0], Type::int(32));
        if let Some(zero) = &zero
            && !matches!(zero, Parameter::Known(0.0))
        {
            let rhs = taken(rw, zero, args, Type::int(32));
            let (lhs, overflow) = (x, None);
            x = rw.add(SubI { lhs, rhs, overflow });
        }
        let x = converted(rw, x, Type::f32());
        let scale = taken(rw, &scale, args, Type::f32());
        rw.add(MulF::new(x, scale))
    });
    rw.replace(op, &[y]);
    Ok(())
}
