//! Changes of layout next to each other and to transposes, which are then the same memory.
//!
//! They are patterns: which layouts there are is for the choice that made the changes to say, and
//! the types of rules do not name them.

use tir::rewrite::{Decline, Rewriter};
use tir::{Op, OpId, PatternSet, Ret, Type, Value};

use crate::layout::Layout;
use crate::{Relayout, Transpose};

pub(super) fn register(set: &mut PatternSet) {
    set.on("merge-relayouts", merge);
    set.on("relayout-of-transpose", of_transpose);
    set.on("transpose-of-relayout", of_relayout);
}

fn merge(Relayout { x, y }: Relayout, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let inner = rw.def::<Relayout>(x).ok_or("changes no changed layout")?;
    let source = inner.x;
    let y = rw.add(Relayout {
        x: source,
        y: Ret(y.0),
    });
    rw.replace(op, &[y]);
    Ok(())
}

/// A transpose that is stored as what it transposes only renames dimensions.
fn of_transpose(
    Relayout { x, y }: Relayout,
    op: OpId,
    rw: &mut Rewriter<'_>,
) -> Result<(), Decline> {
    let transpose = rw.def::<Transpose>(x).ok_or("changes no transpose")?;
    let source = transpose.x;
    if Layout::of(rw.ty(x)).is_some() || !same_memory(rw.ty(source), y.0, &transpose) {
        return Err("is stored differently".into());
    }
    rename(op, source, &transpose, y.0, rw);
    Ok(())
}

/// A transpose to a plain tensor of what was plain in that order before it was changed.
fn of_relayout(transpose: Transpose, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let inner = rw
        .def::<Relayout>(transpose.x)
        .ok_or("transposes no changed layout")?;
    let (source, result) = (inner.x, rw.ty(rw.result(op, 0)));
    let plain = Layout::of(result).is_none() && Layout::of(rw.ty(transpose.x)).is_none();
    if !plain || Layout::of(rw.ty(source)).is_none() {
        return Err("moves no elements back".into());
    }
    if !same_memory(rw.ty(source), result, &transpose) {
        return Err("is stored differently".into());
    }
    rename(op, source, &transpose, result, rw);
    Ok(())
}

fn same_memory(from: Type, to: Type, transpose: &Transpose) -> bool {
    let order = transpose.perm.iter().map(|d| usize::try_from(*d).ok());
    let order: Option<Vec<usize>> = order.collect();
    let kept = order.and_then(|order| Layout::renamed(Layout::of(from), &order));
    let stored = kept.map(|kept| Layout::on(Some(&kept), to));
    (Layout::of(from).is_some() || Layout::of(to).is_some()) && stored == Some(to)
}

fn rename(op: OpId, source: Value, transpose: &Transpose, to: Type, rw: &mut Rewriter<'_>) {
    let Transpose { perm, .. } = transpose;
    let mut state = Transpose {
        x: source,
        perm: perm.clone(),
    }
    .state();
    state.results = [to].into_iter().collect();
    let renamed = rw.create(state);
    let y = rw.result(renamed, 0);
    rw.replace(op, &[y]);
}
