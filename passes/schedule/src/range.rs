//! Bounds of indices: which values an index takes, and whether a tile lies inside of its source.

use tir::{Ir, Value};
use tir_arith::{AddI, DivUI, MulI, RemUI, SubI};

use crate::index::{Counter, Ix};

/// The lowest and highest value of an index, as far as loops and arithmetic say.
pub fn range(ir: &Ir, value: Value) -> Option<(i64, i64)> {
    if let Some(n) = ir.constant_int(value) {
        return Some((n, n));
    }
    let Some(op) = ir.owner(value) else {
        let holder = ir.value_block(value).and_then(|b| ir.block_parent(b))?;
        let counter = Counter::of(ir, holder).filter(|c| c.iv == value && c.trips > 0)?;
        return Some((
            counter.low,
            counter.low + (counter.trips - 1) * counter.step,
        ));
    };
    let side = |v: Value| range(ir, v);
    if let Some(sum) = ir.get::<AddI>(op) {
        let (a, b) = (side(sum.lhs)?, side(sum.rhs)?);
        Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?))
    } else if let Some(sum) = ir.get::<SubI>(op) {
        let (a, b) = (side(sum.lhs)?, side(sum.rhs)?);
        Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?))
    } else if let Some(product) = ir.get::<MulI>(op) {
        let (a, b) = (side(product.lhs)?, side(product.rhs)?);
        let all = [
            a.0.checked_mul(b.0)?,
            a.0.checked_mul(b.1)?,
            a.1.checked_mul(b.0)?,
            a.1.checked_mul(b.1)?,
        ];
        Some((*all.iter().min()?, *all.iter().max()?))
    } else if let Some(rest) = ir.get::<RemUI>(op) {
        let n = ir.constant_int(rest.rhs).filter(|n| *n > 0)?;
        let all = side(rest.lhs).filter(|a| a.0 >= 0 && a.1 < n);
        Some(all.unwrap_or((0, n - 1)))
    } else if let Some(quotient) = ir.get::<DivUI>(op) {
        let n = ir.constant_int(quotient.rhs).filter(|n| *n > 0)?;
        let a = side(quotient.lhs).filter(|a| a.0 >= 0)?;
        Some((a.0 / n, a.1 / n))
    } else {
        None
    }
}

/// Whether positions along one dimension of a large buffer, which has `size`, all lie inside of it:
/// an offset and a linear form of the positions of a tile, the constant last.
pub fn inside(ir: &Ir, offset: Ix, form: &[i64], tile: &[i64], size: i64) -> bool {
    let reach = match offset {
        Ix::C(n) => Some((n, n)),
        Ix::V(value) => range(ir, value),
    };
    let Some((mut low, mut high)) = reach else {
        return false;
    };
    for (c, n) in form.iter().zip(tile) {
        low += (c * (n - 1)).min(0);
        high += (c * (n - 1)).max(0);
    }
    let plus = form.last().copied().unwrap_or(0);
    low + plus >= 0 && high + plus < size
}
