//! Sums of what a product gives, as products with ones.
//!
//! A unit that adds up tiles element by element wants other numbers beside each other than a product gives, so
//! an average of all that one product computes could not read its tiles where they are. Where a machine
//! has a unit for the product, the sum is one too: with a row of ones, in the same order. What is added up is the
//! same, and beyond the range of the sum the ones end. A constant that the sum is multiplied with, as for an average, is
//! there in the place of one.

use std::collections::HashMap;

use tir::interp::{Data, Scalar, attr_of};
use tir::{AffineExpr, AffineMap, At, Attr, Builder, DenseElements, Ir, OpId, Rets, Type, Value};
use tir_arith::{DivF, MulF};
use tir_graph::Constant;
use tir_tensor::{CollapseShape, Combine, ExpandShape, Generic, Yield};

use crate::plan::Target;
use crate::widen::takes;

/// How many generics a sum is looked for a product behind at most.
const FAR: usize = 8;

/// Makes products of sums that read what a product computes, if a unit takes both.
pub(crate) fn sums(func: &mut Ir, target: &Target<'_>, group: &mut HashMap<OpId, usize>) {
    for op in func.walk_ids() {
        if !func.contains(op) || func.parent(op) != Some(func.root()) {
            continue;
        }
        let Some(sum) = func.get::<Generic>(op) else {
            continue;
        };
        let Some(row) = row(func, &sum) else {
            continue;
        };
        if !is_product(func, sum.inputs[0], target) {
            continue;
        }
        let Some((end, factor)) = scaled(func, op) else {
            continue;
        };
        let Some((new, ones)) = product(func, end, &sum, &row, factor) else {
            continue;
        };
        let fits = func
            .get::<Generic>(new)
            .is_some_and(|generic| takes(func, &generic, target));
        if !fits {
            func.erase(new);
            func.erase(ones);
            continue;
        }
        if let Some(number) = group.remove(&end) {
            group.insert(new, number);
        }
        let results: Vec<Value> = func.results(new).collect();
        func.replace(end, &results);
        if end != op {
            group.remove(&op);
            func.erase(op);
        }
    }
}

/// The iterators of a row of ones that a sum may have as another input: one of a single point that counts a
/// dimension of the result alone, then those of the sum. `None` where a generic is no sum of floats.
fn row(ir: &Ir, sum: &Generic) -> Option<Vec<usize>> {
    let ([source], [out], Some(Combine::Add)) = (&sum.inputs[..], &sum.outputs[..], sum.combine)
    else {
        return None;
    };
    let elem = ir.ty(*source).elem();
    if !sum.takes_elements(ir) || !elem.is_float() || elem != ir.ty(*out).elem() {
        return None;
    }
    let (reductions, domain) = (sum.reductions(), sum.domain(ir).ok()?);
    let [from, to] = &sum.indexing_maps[..] else {
        return None;
    };
    let used = |map: &AffineMap, d: usize| map.exprs.iter().any(|e| e.uses(d));
    // What counts one element, what is summed may have in any of its dimensions.
    let plainly = |d: usize| {
        from.exprs
            .iter()
            .all(|e| !e.uses(d) || *e == AffineExpr::Dim(d))
    };
    let free = |d: &usize| domain[*d] == 1 && plainly(*d) && used(to, *d);
    let one = (0..domain.len()).find(free)?;
    let summed = (0..domain.len()).filter(|d| reductions[*d]);
    // A sum over one dimension right behind the other; a window would be read several times.
    let plain = summed
        .clone()
        .all(|d| from.exprs.contains(&AffineExpr::Dim(d)));
    let several = summed.clone().any(|d| domain[d] > 1);
    (plain && several).then(|| std::iter::once(one).chain(summed).collect())
}

/// The last op of a sum, and what it is multiplied with: the sum itself and one, or the step behind it that
/// scales it by a constant. `None` where another step follows, which a unit would do for all rows of a block.
fn scaled(ir: &Ir, op: OpId) -> Option<(OpId, Attr)> {
    let elem = ir.ty(ir.result(op, 0)).elem();
    let steps = |op: OpId| {
        let readers = ir.uses(ir.result(op, 0)).map(|u| u.op);
        let step = |op: &OpId| ir.get::<Generic>(*op).is_some_and(|g| g.combine.is_none());
        readers.filter(step).collect::<Vec<OpId>>()
    };
    let [step] = steps(op)[..] else {
        return steps(op).is_empty().then(|| (op, Attr::float(1.0, elem)));
    };
    let alone = ir.uses(ir.result(op, 0)).count() == 1;
    let generic: Generic = ir.get(step).filter(|_| alone && steps(step).is_empty())?;
    let block = ir.entry(generic.body)?;
    let end: Yield = ir.get(ir.last(block)?)?;
    let [value] = end.values[..] else { return None };
    let arg = ir.args(block).next()?;
    let (factor, divided) = if let Some(MulF { lhs, rhs, .. }) = ir.def(value) {
        match [lhs, rhs] {
            [lhs, rhs] if lhs == arg => (rhs, false),
            [lhs, rhs] if rhs == arg => (lhs, false),
            _ => return None,
        }
    } else {
        let DivF { lhs, rhs, .. } = ir.def(value)?;
        (lhs == arg).then_some((rhs, true))?
    };
    let maps = &generic.indexing_maps;
    let same = generic.inputs[..] == [ir.result(op, 0)] && maps.iter().all(AffineMap::is_identity);
    let factor = ir.constant(factor)?;
    let factor = match divided {
        true => Attr::float(1.0 / factor.as_float()?, elem),
        false => factor,
    };
    (same && factor.type_of() == Some(elem)).then_some((step, factor))
}

/// Whether a value comes from a product on a unit, through elementwise steps.
fn is_product(ir: &Ir, mut value: Value, target: &Target<'_>) -> bool {
    for _ in 0..FAR {
        let Some(op) = ir.owner(value) else {
            return false;
        };
        if let Some(view) = ir.get::<ExpandShape>(op) {
            value = view.src;
        } else if let Some(view) = ir.get::<CollapseShape>(op) {
            value = view.src;
        } else if let Some(generic) = ir.get::<Generic>(op) {
            if generic.combine.is_some() {
                return generic.inputs.len() == 2 && takes(ir, &generic, target);
            }
            let same = |v: &&Value| ir.ty(**v).shape() == ir.ty(value).shape();
            let Some(next) = generic.inputs.iter().find(same) else {
                return false;
            };
            value = *next;
        } else {
            return false;
        }
    }
    false
}

/// The product of a row of one number and what is summed, before an op; and the row.
fn product(
    func: &mut Ir,
    op: OpId,
    sum: &Generic,
    row: &[usize],
    factor: Attr,
) -> Option<(OpId, OpId)> {
    let domain = sum.domain(func).ok()?;
    let elem = func.ty(sum.inputs[0]).elem();
    let shape: Vec<i64> = row.iter().map(|d| domain[*d]).collect();
    let one = Scalar::from_attr(factor)?;
    let one = attr_of(&Data::Scalar(one).to_array().ok()?);
    let data = one.get::<DenseElements>()?.data.clone();
    let ty = Type::tensor(shape, elem);
    let value = Attr::new(DenseElements { ty, data });
    let region = func.new_region();
    let block = func.new_block(region);
    let args = [func.add_arg(block, elem), func.add_arg(block, elem)];
    let mut b = Builder::new(func, At::End(block));
    let product = b.add(MulF::new(args[0], args[1]));
    b.add(Yield {
        values: vec![product],
    });
    let (loc, result) = (func.loc(op), func.ty(sum.outputs[0]));
    let mut b = func.at(At::Before(op));
    b.loc = loc;
    let ones = b.add(Constant { value });
    let mut maps = sum.indexing_maps.clone();
    if let (Some(from), Some(one)) = (maps.first_mut(), row.first()) {
        let still = |e: &AffineExpr| {
            if e.uses(*one) {
                AffineExpr::Const(0)
            } else {
                e.clone()
            }
        };
        from.exprs = from.exprs.iter().map(still).collect();
    }
    maps.insert(0, AffineMap::project(domain.len(), row));
    let results = b.add(Generic {
        inputs: vec![ones, sum.inputs[0]],
        outputs: sum.outputs.clone(),
        indexing_maps: maps,
        iterator_types: sum.iterator_types.clone(),
        combine: sum.combine,
        sizes: None,
        body: region,
        results: Rets(vec![result]),
    });
    let made = results.first()?;
    Some((func.owner(*made)?, func.owner(ones)?))
}
