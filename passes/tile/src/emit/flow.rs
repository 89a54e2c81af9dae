//! Loops and branches that carry values.

use tir::{Builder, Rets, Type, Value};
use tir_arith::{CmpI, CmpIPredicate, OpFoldResult, constant_index};
use tir_loop::{Bounds, For, If, Yield};

/// An iteration: from its index and the carried values to those of the next.
pub(super) type LoopBody<'f> = &'f mut dyn FnMut(&mut Builder<'_>, Value, Vec<Value>) -> Vec<Value>;

/// Values from values.
pub(super) type Through<'f> = &'f mut dyn FnMut(&mut Builder<'_>, Vec<Value>) -> Vec<Value>;

/// Values from values, in a step with a number.
pub(super) type Numbered<'f> =
    &'f mut dyn FnMut(&mut Builder<'_>, OpFoldResult, Vec<Value>) -> Vec<Value>;

/// A loop from 0 to `trips` that carries values.
pub(super) fn counted(
    b: &mut Builder<'_>,
    trips: i64,
    parallel: bool,
    init: Vec<Value>,
    body: LoopBody<'_>,
) -> Vec<Value> {
    counted_from(b, [0, trips], parallel, init, body)
}

/// A loop from one number to before another that carries values.
pub(super) fn counted_from(
    b: &mut Builder<'_>,
    [low, high]: [i64; 2],
    parallel: bool,
    init: Vec<Value>,
    body: LoopBody<'_>,
) -> Vec<Value> {
    let types: Vec<Type> = init.iter().map(|v| b.ty(*v)).collect();
    let mut args = vec![Type::index()];
    args.extend(&types);
    let region = b.body(&args, |b, args| {
        let values = body(b, args[0], args[1..].to_vec());
        b.add(Yield { values });
    });
    let bounds = [low, high, 1].map(Bounds::Static);
    b.add(For {
        parallel,
        ..For::new(bounds, init, region, types)
    })
}

/// Whether `0 <= index < end`.
pub(super) fn below(b: &mut Builder<'_>, index: Value, end: i64) -> Value {
    let rhs = constant_index(b, end);
    // Below zero is far above, unsigned.
    b.add(CmpI {
        predicate: CmpIPredicate::Ult,
        lhs: index,
        rhs,
    })
}

/// A branch that leaves values as they are unless a condition holds.
pub(super) fn when(
    b: &mut Builder<'_>,
    condition: Value,
    values: Vec<Value>,
    then: Through<'_>,
) -> Vec<Value> {
    let results = Rets(values.iter().map(|v| b.ty(*v)).collect());
    let kept = values.clone();
    let then_region = b.body(&[], |b, _| {
        let values = then(b, values.clone());
        b.add(Yield { values });
    });
    let else_region = b.body(&[], |b, _| {
        b.add(Yield { values: kept });
    });
    b.add(If {
        condition,
        then_region,
        else_region,
        results,
    })
}

/// Values through some steps, each with its number; one step is no loop.
pub(super) fn several(
    b: &mut Builder<'_>,
    count: i64,
    values: Vec<Value>,
    step: Numbered<'_>,
) -> Vec<Value> {
    if count == 1 {
        return step(b, OpFoldResult::Number(0), values);
    }
    counted(b, count, false, values, &mut |b, iv, values| {
        step(b, OpFoldResult::Value(iv), values)
    })
}
