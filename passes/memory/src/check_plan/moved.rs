//! How much of its tile a transfer certainly moves: what lies outside of the tensor stays where it is.

use tir::interfaces::counter;
use tir::{Definition, Interval, Ir, Value};
use tir_accel::DmaStart;
use tir_accel::transfer::Pattern;
use tir_arith::{AddI, MaxSI, MinSI, MulI, OpFoldResult, RemUI, SubI, mixed_values};

/// What of its tile a transfer moves, wherever its offsets lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moved {
    /// Perhaps nothing.
    Unknown,
    /// Some element, in each run.
    Some,
    /// All elements, in each run.
    All,
}

/// Positions of the tile that are looked at in a dimension of the tensor.
const POSITIONS: i64 = 4096;
/// Values that are followed to say where an offset lies.
const DEPTH: usize = 8;

/// How much a transfer certainly moves.
pub(super) fn moved(ir: &Ir, transfer: &DmaStart) -> Moved {
    let types = [transfer.far, transfer.tile].map(|v| ir.ty(v));
    let Ok(pattern) = Pattern::new(types[0], types[1], &transfer.access) else {
        return Moved::Unknown;
    };
    let offsets = mixed_values(&transfer.offsets, &transfer.static_offsets);
    let offsets = offsets.into_iter().map(|offset| match offset {
        OpFoldResult::Number(n) => Some(Interval::point(n)),
        OpFoldResult::Value(value) => range(ir, value, DEPTH),
    });
    let Some(offsets) = offsets.collect::<Option<Vec<Interval>>>() else {
        return Moved::Unknown;
    };
    if pattern.tile_shape.iter().any(|n| *n < 1) || offsets.len() != pattern.access.len() {
        return Moved::Unknown;
    }
    let mut dims = offsets.iter().enumerate();
    if dims.all(|(s, offset)| pattern.is_inside(s, *offset)) {
        return Moved::All;
    }
    // Positions may be chosen dimension by dimension where none of the tile steps in two of the tensor.
    let steps = |d: usize| pattern.access.iter().filter(|form| form.at(d) != 0).count();
    if (0..pattern.tile_shape.len()).any(|d| steps(d) > 1) {
        return Moved::Unknown;
    }
    let mut dims = offsets.iter().enumerate();
    match dims.all(|(s, offset)| meets(&pattern, s, *offset)) {
        true => Moved::Some,
        false => Moved::Unknown,
    }
}

/// Whether some position of the tile lies inside of a dimension of the tensor with each offset.
fn meets(pattern: &Pattern, s: usize, offset: Interval) -> bool {
    let (form, size) = (&pattern.access[s], pattern.far_shape[s]);
    let dims: Vec<(i64, i64)> = (form.terms())
        .map(|(d, c)| (c, pattern.tile_shape[d]))
        .collect();
    let count = dims
        .iter()
        .try_fold(1i64, |all, (_, n)| all.checked_mul(*n));
    let Some(count) = count.filter(|n| *n <= POSITIONS) else {
        return false;
    };
    (0..count).any(|number| {
        let (mut at, mut left) = (Some(form.constant), number);
        for (c, n) in &dims {
            let step = c.checked_mul(left % n);
            at = at.zip(step).and_then(|(at, step)| at.checked_add(step));
            left /= n;
        }
        let at = at.and_then(|at| Interval::point(at).plus(offset));
        at.is_some_and(|at| at.is_inside(size))
    })
}

/// The numbers that an index may be; not narrower than what runs see.
fn range(ir: &Ir, value: Value, depth: usize) -> Option<Interval> {
    if let Some(n) = ir.constant_int(value) {
        return Some(Interval::point(n));
    }
    let depth = depth.checked_sub(1)?;
    let of = |value: Value| range(ir, value, depth);
    if let Definition::Argument(block, _) = ir.definition(value) {
        let found = counter(ir, ir.block_parent(block)?);
        return found.filter(|(own, _)| *own == value).map(|(_, all)| all);
    }
    if let Some(op) = ir.def::<AddI>(value) {
        return of(op.lhs)?.plus(of(op.rhs)?);
    }
    if let Some(op) = ir.def::<SubI>(value) {
        return of(op.lhs)?.minus(of(op.rhs)?);
    }
    if let Some(op) = ir.def::<MulI>(value) {
        return of(op.lhs)?.times(of(op.rhs)?);
    }
    if let Some(op) = ir.def::<MinSI>(value) {
        let (a, b) = (of(op.lhs)?, of(op.rhs)?);
        return Some(Interval::new(a.low.min(b.low), a.high.min(b.high)));
    }
    if let Some(op) = ir.def::<MaxSI>(value) {
        let (a, b) = (of(op.lhs)?, of(op.rhs)?);
        return Some(Interval::new(a.low.max(b.low), a.high.max(b.high)));
    }
    let op: RemUI = ir.def(value)?;
    let n = ir.constant_int(op.rhs).filter(|n| *n > 0)?;
    Some(Interval::new(0, n - 1))
}
