//! Real numbers as small integers: one generic each, in whose region single scales and zero points
//! that are constants are numbers.

use tir::interp::elements;
use tir::rewrite::{PatternSet, Rewriter};
use tir::{AffineMap, Decline, OpId, Type, Value};
use tir_arith::{AddF, DivF, MaximumF, MinimumF, MulF, SubI};
use tir_graph::{Dequantize, Quantize, Requantize, bounds};
use tir_math::RoundEven;

use super::nest::{E, elementwise, form, map, number};
use super::select::converted;

pub(super) fn patterns(set: &mut PatternSet) {
    set.on("quantize-to-generic", quantize);
    set.on("dequantize-to-generic", dequantize);
    set.on("requantize-to-generic", requantize);
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
