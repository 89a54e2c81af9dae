//! Constants, and the same elements in another shape or order.

use tir::rewrite::{PatternSet, Rewriter};
use tir::{Decline, OpId, Ret, Type, Value};
use tir_graph::{Constant, Reshape, Transpose};
use tir_tensor::{CollapseShape, ExpandShape, reassociation};

use super::nest::{E, elements, elementwise, empty, form, map};

pub(super) fn patterns(set: &mut PatternSet) {
    set.on("constant-to-arith", |Constant { value }, op, rw| {
        let y = elements(rw, value);
        rw.replace(op, &[y]);
        Ok(())
    });
    set.on("reshape-to-views", reshape);
    set.on("transpose-to-generic", transpose);
}

/// Groups of dimensions of two shapes with the same numbers of elements, as fine as possible.
fn common(from: &[i64], to: &[i64]) -> Vec<[Vec<i64>; 2]> {
    let mut groups: Vec<[Vec<i64>; 2]> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        let (mut a, mut b) = (from[i], to[j]);
        let mut group = [vec![i as i64], vec![j as i64]];
        (i, j) = (i + 1, j + 1);
        while a != b {
            if a < b && i < from.len() {
                a *= from[i];
                group[0].push(i as i64);
                i += 1;
            } else if a > b && j < to.len() {
                b *= to[j];
                group[1].push(j as i64);
                j += 1;
            } else {
                break;
            }
        }
        groups.push(group);
    }
    // Unit dimensions may be left at the end of one.
    if let Some(last) = groups.last_mut() {
        last[0].extend(i as i64..from.len() as i64);
        last[1].extend(j as i64..to.len() as i64);
    }
    groups
}

fn reshape(Reshape { x, y }: Reshape, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
    let (from, elem) = form(rw, x)?;
    let to = y.0.shape().unwrap_or(&[]);
    let value = if y.0 == rw.ty(x) {
        x
    } else if from.contains(&0) {
        empty(rw, y.0)
    } else {
        reshaped(rw, x, from, to, elem)
    };
    rw.replace(op, &[value]);
    Ok(())
}

pub(super) fn reshaped(
    rw: &mut Rewriter<'_>,
    x: Value,
    from: &[i64],
    to: &[i64],
    elem: Type,
) -> Value {
    let groups = common(from, to);
    let [outer, inner]: [Vec<Vec<i64>>; 2] =
        [0, 1].map(|side| groups.iter().map(|group| group[side].clone()).collect());
    // To and from a scalar there are no groups.
    let middle: Vec<i64> = outer
        .iter()
        .map(|g| g.iter().map(|d| from[*d as usize]).product())
        .collect();
    let mut value = x;
    if middle != from {
        value = rw.add(CollapseShape {
            src: value,
            reassociation: reassociation(&outer),
            result: Ret(Type::tensor(middle.clone(), elem)),
        });
    }
    if middle != to {
        value = rw.add(ExpandShape {
            static_output_shape: None,
            src: value,
            reassociation: reassociation(&inner),
            result: Ret(Type::tensor(to, elem)),
        });
    }
    value
}

fn transpose(
    Transpose { x, perm }: Transpose,
    op: OpId,
    rw: &mut Rewriter<'_>,
) -> Result<(), Decline> {
    let (shape, _) = form(rw, x)?;
    let ty = rw.ty(rw.result(op, 0));
    let mut exprs = vec![E::Const(0); shape.len()];
    for (i, d) in perm.iter().enumerate() {
        let place = usize::try_from(*d).ok().and_then(|d| exprs.get_mut(d));
        *place.ok_or("names a dimension that is not there")? = E::Dim(i);
    }
    let inputs = [(x, map(shape.len(), exprs))];
    let y = elementwise(rw, ty, &inputs, |_, args| args[0]);
    rw.replace(op, &[y]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::common;

    #[test]
    fn groups() {
        assert_eq!(
            common(&[2, 3, 4], &[6, 4]),
            [[vec![0, 1], vec![0]], [vec![2], vec![1]]]
        );
        assert_eq!(common(&[4, 6], &[6, 4]), [[vec![0, 1], vec![0, 1]]]);
        assert_eq!(
            common(&[1, 64, 1, 1], &[1, 64]),
            [[vec![0], vec![0]], [vec![1, 2, 3], vec![1]]]
        );
        assert_eq!(common(&[3], &[1, 1, 3]), [[vec![0], vec![0, 1, 2]]]);
        assert!(common(&[1, 1], &[]).is_empty());
    }
}
