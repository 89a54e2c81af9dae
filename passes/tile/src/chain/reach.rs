//! Which indices of a tile are computed, and what lies at the others.

use tir::{AffineExpr, Attr, IntType, Ir, Type};

use super::border::Origins;
use super::stage::{Around, Maker, No};
use crate::group::{Group, Operand};
use crate::layout::{Axis, Tile};
use crate::plan::Plan;

/// Zero bits of a type.
pub(crate) fn zero(elem: Type) -> Option<Attr> {
    match elem.float_width() {
        Some(_) => Some(Attr::float(0.0, elem)),
        None => elem.is::<IntType>().then(|| Attr::int(0, elem)),
    }
}

/// The constant that an operand is outside of its tensor.
pub(super) fn outside(ir: &Ir, operand: &Operand) -> Result<Attr, No> {
    let value = match operand.padding {
        Some(padding) => ir.constant(padding),
        None => zero(ir.ty(operand.source).elem()),
    };
    value.ok_or(No::Never("what is read outside is no constant"))
}

/// The positions in a tensor's dimension that the result of a maker has.
pub(super) fn part(maker: &Maker<'_>, s: usize) -> Option<(i64, i64)> {
    let digits = maker.group.digits()?;
    let sizes = digits.get(s)?.iter().map(|d| maker.group.domain[*d]);
    let start = maker.at.get(s).copied().unwrap_or(0);
    Some((start, start + sizes.fold(1, i64::saturating_mul)))
}

/// The indices of a tile that a maker computes inside of some loops; none if it computes none.
pub(super) type Within = Result<Option<Vec<(i64, i64)>>, No>;

/// The dimensions of an operand beyond whose end a reduction reads that is rounded up: what lies there is to be zero.
/// `None` if it reads something else instead.
pub(super) fn ends(reader: &Group, plan: &Plan, number: usize) -> Option<Vec<usize>> {
    let (operand, space) = (&reader.operands[number], &plan.space);
    let rounded = |d: &usize| space.covered(*d) * space.block[*d] != reader.domain[*d];
    let mut ends = Vec::new();
    for d in reader.iterators(true).filter(rounded) {
        let read = operand.map.exprs.iter().enumerate();
        for (s, at) in read.filter(|(_, at)| at.uses(d)) {
            let counts = *at == AffineExpr::Dim(d) && operand.shape[s] == reader.domain[d];
            if !counts {
                return None;
            }
            ends.push(s);
        }
    }
    Some(ends)
}

/// The indices of a tile that a part of its tensor has, of those inside; `None` if none. In each dimension the part has positions
/// from `of` on, in `rows` all.
pub(super) fn within(
    of: &dyn Fn(usize) -> Option<(i64, i64)>,
    tile: &Tile,
    (shape, origins): (&[i64], &Origins),
    inside: &[(i64, i64)],
    loops: &[Around],
    rows: Option<usize>,
    step: &dyn Fn(usize, &Around) -> i64,
) -> Within {
    let mut inside = inside.to_vec();
    for (s, (low, high)) in origins.iter().copied().enumerate() {
        if rows == Some(s) {
            continue;
        }
        let (start, end) = of(s).ok_or(No::Never("a part has another order"))?;
        let here: Vec<usize> = (0..inside.len())
            .filter(|t| tile.dims[*t].source.0 == s && tile.dims[*t].source.1 != 0)
            .collect();
        let first: i64 = here
            .iter()
            .map(|t| inside[*t].0 * tile.dims[*t].source.1)
            .sum();
        let last = here
            .iter()
            .map(|t| (inside[*t].0 + inside[*t].1 - 1) * tile.dims[*t].source.1)
            .sum::<i64>();
        if low + first >= start && high + last < end {
            continue;
        }
        // Of sequences that are computed as one the shorter ones end beyond the tensor.
        let several = |t: &usize| matches!(tile.dims[*t].axis, Axis::Phase(..)) && inside[*t].1 > 1;
        if (start, end) == (0, shape[s]) && here.iter().any(several) {
            continue;
        }
        if high + last < start || low + first >= end {
            return Ok(None);
        }
        if low != high {
            let mut moving = loops
                .iter()
                .enumerate()
                .filter(|(_, around)| step(s, around) != 0 && around.trips > 1);
            let (Some((level, around)), None) = (moving.next(), moving.next()) else {
                return Err(No::Never("parts begin inside of a tile"));
            };
            let bound = if low + first < start { start } else { end };
            let (far, step) = (bound - low - first, step(s, around));
            if step <= 0 || far % step != 0 {
                return Err(No::Never("parts begin inside of a tile"));
            }
            return Err(No::Cut {
                level,
                trip: around.start + far / step,
            });
        }
        // The dimension of the largest steps counts blocks of the part.
        let outer = here.iter().copied().max_by_key(|t| tile.dims[*t].source.1);
        let t = outer.ok_or(No::Never("parts begin inside of a tile"))?;
        let step = tile.dims[t].source.1;
        let rest = last - (inside[t].0 + inside[t].1 - 1) * step - (first - inside[t].0 * step);
        let from = (start - low).max(first);
        let to = (end - low).min(last + 1);
        let (own, count) = (inside[t].0 * step, inside[t].1);
        if (from - own) % step != 0
            || to - from < rest + 1
            || (to - from) % step != 0 && to != last + 1
        {
            return Err(No::Never("parts begin inside of a tile"));
        }
        let skipped = (from - own) / step;
        let blocks = ((to - from) + step - 1) / step;
        inside[t] = (inside[t].0 + skipped, blocks.min(count - skipped));
    }
    Ok(Some(inside))
}
