//! Elementwise operators, with broadcasting.

use tir::rewrite::{PatternSet, Rewriter};
use tir::{AffineMap, Decline, IntType, OpId, Sign, Type, Value};
use tir_arith::{AddF, AddI, DivF, DivSI, DivUI, MaxSI, MaximumF, MulF, MulI, SubF, SubI};
use tir_graph::{Add, Div, Mul, Relu, Sub};

use super::nest::{broadcast, elementwise, form, number};

pub(super) fn patterns(set: &mut PatternSet) {
    set.on("relu-to-generic", relu);
    set.on("add-to-generic", |Add { x, y }, op, rw| {
        binary(rw, op, [x, y], |rw, a, b, kind| match kind {
            Scalar::Float => rw.add(AddF::new(a, b)),
            _ => rw.add(AddI {
                lhs: a,
                rhs: b,
                overflow: None,
            }),
        })
    });
    set.on("sub-to-generic", |Sub { x, y }, op, rw| {
        binary(rw, op, [x, y], |rw, a, b, kind| match kind {
            Scalar::Float => rw.add(SubF::new(a, b)),
            _ => rw.add(SubI {
                lhs: a,
                rhs: b,
                overflow: None,
            }),
        })
    });
    set.on("mul-to-generic", |Mul { x, y }, op, rw| {
        binary(rw, op, [x, y], |rw, a, b, kind| match kind {
            Scalar::Float => rw.add(MulF::new(a, b)),
            _ => rw.add(MulI {
                lhs: a,
                rhs: b,
                overflow: None,
            }),
        })
    });
    set.on("div-to-generic", |Div { x, y }, op, rw| {
        binary(rw, op, [x, y], |rw, a, b, kind| match kind {
            Scalar::Float => rw.add(DivF::new(a, b)),
            Scalar::Signed => rw.add(DivSI { lhs: a, rhs: b }),
            Scalar::Unsigned => rw.add(DivUI { lhs: a, rhs: b }),
        })
    });
}

/// What arithmetic an element type has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalar {
    Float,
    Signed,
    Unsigned,
}
impl Scalar {
    fn of(elem: Type) -> Self {
        match elem.get::<IntType>() {
            None => Self::Float,
            Some(IntType {
                sign: Sign::Unsigned,
                ..
            }) => Self::Unsigned,
            Some(_) => Self::Signed,
        }
    }
}

fn binary(
    rw: &mut Rewriter<'_>,
    op: OpId,
    operands: [Value; 2],
    compute: impl FnOnce(&mut Rewriter<'_>, Value, Value, Scalar) -> Value,
) -> Result<(), Decline> {
    let result = rw.result(op, 0);
    let (whole, elem) = form(rw, result)?;
    let ty = rw.ty(result);
    let mut inputs = Vec::new();
    for value in operands {
        let (shape, _) = form(rw, value)?;
        inputs.push((value, broadcast(shape, whole, whole.len())));
    }
    // A value with itself is one input.
    let twice = operands[0] == operands[1];
    inputs.truncate(if twice { 1 } else { 2 });
    let y = elementwise(rw, ty, &inputs, |rw, args| {
        let second = args.get(1).copied().unwrap_or(args[0]);
        compute(rw, args[0], second, Scalar::of(elem))
    });
    rw.replace(op, &[y]);
    Ok(())
}

fn relu(Relu { x }: Relu, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (shape, elem) = form(rw, x)?;
    let ty = rw.ty(x);
    let inputs = [(x, AffineMap::identity(shape.len()))];
    let y = elementwise(rw, ty, &inputs, |rw, args| {
        let zero = number(rw, 0.0, elem);
        match Scalar::of(elem) {
            Scalar::Float => rw.add(MaximumF::new(args[0], zero)),
            Scalar::Signed => rw.add(MaxSI {
                lhs: args[0],
                rhs: zero,
            }),
            Scalar::Unsigned => args[0],
        }
    });
    rw.replace(op, &[y]);
    Ok(())
}
