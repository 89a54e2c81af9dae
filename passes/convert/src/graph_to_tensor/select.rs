//! Elements chosen by other tensors, and elements of another type.

use tir::data::Array;
use tir::interp::{attr_of, failure};
use tir::rewrite::{PatternSet, Rewriter};
use tir::{AffineMap, Decline, Failure, IntType, OpId, Ret, Sign, Type, Value};
use tir_arith::{
    AddI, CmpF, CmpFPredicate, CmpI, CmpIPredicate, ExtF, ExtSI, ExtUI, FPToSI, FPToUI, OrI,
    SIToFP, Select, TruncF, TruncI, UIToFP,
};
use tir_graph::{Cast, Where};
use tir_tensor::Combine;

use super::nest::{Reduction, broadcast, elements, elementwise, form, number};

pub(super) fn patterns(set: &mut PatternSet) {
    set.on("where-to-generic", choose);
    set.on("cast-to-generic", cast);
}

/// 0, 1, … as a constant of so many integers.
fn counting(rw: &mut Rewriter<'_>, count: i64) -> Result<Value, Failure> {
    let numbers: Vec<i64> = (0..count).collect();
    let array = Array::from_vec(&[numbers.len()], numbers).map_err(failure)?;
    Ok(elements(rw, attr_of(&array)))
}

/// A number as an `i64`.
fn widened(rw: &mut Rewriter<'_>, value: Value) -> Value {
    let (ty, wide) = (rw.ty(value), Type::int(64));
    if ty.bits() == Some(64) {
        return value;
    }
    match unsigned(ty) {
        true => rw.add(ExtUI {
            input: value,
            output: Ret(wide),
        }),
        false => rw.add(ExtSI {
            input: value,
            output: Ret(wide),
        }),
    }
}

/// The sum, over all elements of a dimension of `x`, of those whose number is the wanted one: one.
///
/// `x_map` and `index_map` give positions for the iterators of the result, in `x` without that
/// dimension's, which is the iterator `dims`.
pub(super) fn chosen(
    rw: &mut Rewriter<'_>,
    ty: Type,
    (x, x_map): (Value, AffineMap),
    (indices, index_map): (Value, AffineMap),
    count: i64,
) -> Result<Value, Decline> {
    let dims = x_map.dims - 1;
    let elem = ty.elem();
    let numbers = counting(rw, count)?;
    let sum = Reduction {
        ty,
        start: None,
        combine: Combine::Add,
        iterators: [dims, 1],
        sizes: None,
    };
    let number_map = AffineMap::project(dims + 1, &[dims]);
    let inputs = [(x, x_map), (indices, index_map), (numbers, number_map)];
    let is = |rw: &mut Rewriter<'_>, lhs, rhs| {
        rw.add(CmpI {
            predicate: CmpIPredicate::Eq,
            lhs,
            rhs,
        })
    };
    Ok(sum.make(rw, &inputs, |rw, args| {
        let signed = !unsigned(rw.ty(args[1]));
        let index = widened(rw, args[1]);
        let mut here = is(rw, index, args[2]);
        if signed {
            // A negative number counts from the end.
            let all = number(rw, count as f64, Type::int(64));
            let moved = rw.add(AddI {
                lhs: index,
                rhs: all,
                overflow: None,
            });
            let from_end = is(rw, moved, args[2]);
            here = rw.add(OrI {
                lhs: here,
                rhs: from_end,
            });
        }
        let zero = number(rw, 0.0, elem);
        rw.add(Select {
            condition: here,
            true_value: args[0],
            false_value: zero,
        })
    }))
}

fn choose(choose: Where, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let ty = rw.ty(rw.result(op, 0));
    let whole = ty.shape().unwrap_or(&[]);
    let mut inputs: Vec<(Value, AffineMap)> = Vec::new();
    let mut places = Vec::new();
    for value in [choose.condition, choose.x, choose.y] {
        // A value that stands twice is one input.
        let known = inputs.iter().position(|(v, _)| *v == value);
        places.push(known.unwrap_or(inputs.len()));
        if known.is_none() {
            let (shape, _) = form(rw, value)?;
            inputs.push((value, broadcast(shape, whole, whole.len())));
        }
    }
    let y = elementwise(rw, ty, &inputs, |rw, args| {
        let [condition, x, y] = [0, 1, 2].map(|i: usize| args[places[i]]);
        rw.add(Select {
            condition,
            true_value: x,
            false_value: y,
        })
    });
    rw.replace(op, &[y]);
    Ok(())
}

pub(super) fn unsigned(ty: Type) -> bool {
    ty.get::<IntType>()
        .is_some_and(|int| int.sign == Sign::Unsigned || int.width == 1)
}

fn cast(Cast { x, y }: Cast, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (shape, _) = form(rw, x)?;
    let to = y.0.elem();
    let inputs = [(x, AffineMap::identity(shape.len()))];
    let y = elementwise(rw, y.0, &inputs, |rw, args| converted(rw, args[0], to));
    rw.replace(op, &[y]);
    Ok(())
}

/// A number as one of another type.
pub(super) fn converted(rw: &mut Rewriter<'_>, x: Value, to: Type) -> Value {
    let from = rw.ty(x);
    let wide = |ty: Type| ty.bits().unwrap_or(0);
    if from == to {
        return x;
    }
    if to == Type::int(1) {
        let zero = number(rw, 0.0, from);
        return match from.is_float() {
            true => rw.add(CmpF {
                predicate: CmpFPredicate::Une,
                lhs: x,
                rhs: zero,
                fastmath: None,
            }),
            false => rw.add(CmpI {
                predicate: CmpIPredicate::Ne,
                lhs: x,
                rhs: zero,
            }),
        };
    }
    match (from.is_float(), to.is_float()) {
        (true, true) if wide(from) < wide(to) => rw.add(ExtF::new(x, to)),
        (true, true) if wide(from) > wide(to) => rw.add(TruncF::new(x, to)),
        (true, true) => {
            // Two formats of 16 bits meet in f32.
            let middle = rw.add(ExtF::new(x, Type::f32()));
            rw.add(TruncF::new(middle, to))
        }
        (true, false) if unsigned(to) => rw.add(FPToUI {
            input: x,
            output: Ret(to),
        }),
        (true, false) => rw.add(FPToSI {
            input: x,
            output: Ret(to),
        }),
        (false, true) if unsigned(from) => rw.add(UIToFP {
            input: x,
            output: Ret(to),
        }),
        (false, true) => rw.add(SIToFP {
            input: x,
            output: Ret(to),
        }),
        (false, false) if wide(from) < wide(to) && unsigned(from) => rw.add(ExtUI {
            input: x,
            output: Ret(to),
        }),
        (false, false) if wide(from) < wide(to) => rw.add(ExtSI {
            input: x,
            output: Ret(to),
        }),
        (false, false) if wide(from) > wide(to) => rw.add(TruncI::new(x, to)),
        (false, false) => rw.add(tir_arith::Bitcast {
            input: x,
            output: Ret(to),
        }),
    }
}
