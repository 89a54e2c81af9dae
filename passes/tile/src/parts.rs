//! Tensors that are put together from others.

use tir::{DYNAMIC, Ir, Value};
use tir_tensor::{Empty, InsertSlice};

/// A tensor that is put into another, and where it begins there.
pub(crate) type Part = (Value, Vec<i64>);

/// What is put into a tensor as a whole at a place that is known, the first one first, and the tensor that it is put into;
/// `None` if a slice is put into it in another way.
pub(crate) fn inserted(ir: &Ir, mut whole: Value) -> Option<(Vec<Part>, Value)> {
    let mut found = Vec::new();
    while let Some(insert) = ir.def::<InsertSlice>(whole) {
        let ones = insert.static_strides.iter().all(|stride| *stride == 1);
        let known = [&insert.static_offsets, &insert.static_sizes];
        let same = ir.ty(insert.source).shape() == Some(&insert.static_sizes[..]);
        if !ones || !same || known.iter().any(|all| all.contains(&DYNAMIC)) {
            return None;
        }
        found.push((insert.source, insert.static_offsets.clone()));
        whole = insert.dest;
    }
    found.reverse();
    Some((found, whole))
}

/// The tensors of a value that they cover without meeting, one behind another along one dimension, and where each
/// begins; itself if nothing is put into it.
pub(crate) fn parts(ir: &Ir, value: Value) -> Option<Vec<Part>> {
    let (mut found, whole) = inserted(ir, value)?;
    if found.is_empty() {
        return Some(vec![(value, Vec::new())]);
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    let shape = ir.ty(value).shape()?;
    let mut moving = (0..shape.len()).filter(|s| found.iter().any(|(_, at)| at[*s] != 0));
    let (Some(s), None) = (moving.next(), moving.next()) else {
        return None;
    };
    let mut left: i64 = shape.iter().product();
    let mut end = 0;
    for (source, at) in &found {
        if at[s] != end {
            return None;
        }
        let own = ir.ty(*source).shape()?;
        left -= own.iter().product::<i64>();
        end += own[s];
    }
    (left == 0 && ir.def::<Empty>(whole).is_some()).then_some(found)
}
