//! Loops as counters, and the ops that compute an index.

use std::collections::HashSet;

use tir::{Access, At, Builder, Ir, Mapping, OpId, Rets, Value};
use tir_arith::OpFoldResult;
use tir_loop::{For, If, Yield};
use tir_memref::alias::{Origin, may_alias};

/// A loop of a known number of iterations.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// The `loop.for`.
    pub op: OpId,
    /// Its index.
    pub iv: Value,
    /// Its lower bound.
    pub low: i64,
    /// Its step.
    pub step: i64,
    /// Its number of iterations.
    pub trips: i64,
}

impl Counter {
    /// The loop at an op, if it has numbers for bounds.
    pub fn of(ir: &Ir, op: OpId) -> Option<Self> {
        let looped = ir.get::<For>(op)?;
        let [low, _, step] = looped.static_range()?;
        let iv = ir.args(ir.entry(looped.body)?).next()?;
        Some(Self {
            op,
            iv,
            low,
            step,
            trips: looped.trip_count()?,
        })
    }
    /// The iteration, from 0.
    pub fn count(&self, b: &mut Builder<'_>) -> OpFoldResult {
        OpFoldResult::Value(self.iv)
            .minus(b, self.low)
            .floor_div(b, self.step)
    }
    /// The index of an iteration.
    pub fn index(&self, b: &mut Builder<'_>, count: OpFoldResult) -> OpFoldResult {
        count.times(b, self.step).plus(b, self.low)
    }
}

/// The iteration of a nest, outermost loop first, counted through.
pub fn linear(b: &mut Builder<'_>, nest: &[Counter]) -> OpFoldResult {
    let mut sum = OpFoldResult::Number(0);
    for counter in nest {
        let count = counter.count(b);
        sum = sum.times(b, counter.trips).plus(b, count);
    }
    sum
}

/// The indices of a nest in an iteration counted through.
pub fn indices(b: &mut Builder<'_>, nest: &[Counter], linear: OpFoldResult) -> Vec<OpFoldResult> {
    let mut inner: i64 = nest.iter().map(|c| c.trips).product();
    let mut out = Vec::new();
    for (depth, counter) in nest.iter().enumerate() {
        inner /= counter.trips.max(1);
        let count = linear.floor_div(b, inner);
        let count = if depth == 0 {
            count
        } else {
            count.modulo(b, counter.trips)
        };
        out.push(counter.index(b, count));
    }
    out
}

/// All iterations of a nest.
pub fn total(nest: &[Counter]) -> i64 {
    nest.iter().fold(1, |n, c| n.saturating_mul(c.trips))
}

/// The ops below `scope` that compute values, in program order; `None` if one of them does more
/// than compute.
pub fn slice(ir: &Ir, values: &[Value], scope: OpId) -> Option<Vec<OpId>> {
    let mut found = HashSet::new();
    let mut work: Vec<Value> = values.to_vec();
    while let Some(value) = work.pop() {
        let Some(op) = ir
            .owner(value)
            .filter(|op| *op != scope && ir.is_below(*op, scope))
        else {
            continue;
        };
        if !ir.is_pure(op) || ir.regions(op).len() > 0 {
            return None;
        }
        if found.insert(op) {
            work.extend(ir.operands(op));
        }
    }
    Some(
        ir.walk_below(scope)
            .into_iter()
            .filter(|op| found.contains(op))
            .collect(),
    )
}

/// Copies ops to a place.
pub fn copy(b: &mut Builder<'_>, ops: &[OpId], map: &mut Mapping) {
    for op in ops {
        let new = b.ir.duplicate(*op, b.at, map);
        if let At::Start(_) | At::After(_) = b.at {
            b.at = At::After(new);
        }
    }
}

/// A branch without results; gives a place at the end of its first region.
pub fn guard(b: &mut Builder<'_>, condition: Value) -> At {
    let then_region = b.body(&[], |b, _| {
        b.add(Yield { values: vec![] });
    });
    let else_region = b.ir.new_region();
    let block = b.ir.entry(then_region);
    b.add(If {
        condition,
        then_region,
        else_region,
        results: Rets(vec![]),
    });
    match block.and_then(|block| b.ir.first(block)) {
        Some(end) => At::Before(end),
        None => b.at,
    }
}

/// Whether an op, or what is below it, may write one of some buffers.
pub fn writes(ir: &Ir, op: OpId, buffers: &[Origin]) -> bool {
    let Some(effects) = ir.effects(op) else {
        return true;
    };
    let mut written = effects
        .iter()
        .filter(|e| matches!(e.access, Access::Write | Access::Free));
    written.any(|e| e.on.is_none_or(|v| may_alias(ir, v, buffers)))
}

/// Erases ops that compute what nobody uses.
pub fn drop_unused(ir: &mut Ir) {
    for op in ir.walk_ids().into_iter().rev() {
        let plain = ir.regions(op).len() == 0 && ir.child(op).is_none();
        let unused = ir.results(op).len() > 0 && ir.results(op).all(|v| ir.is_unused(v));
        if plain && unused && ir.is_pure(op) {
            ir.erase(op);
        }
    }
}
