//! What index expressions take, where their types alone do not say.

use tir::cost::{Cost, Product, Work, bytes};
use tir::{AffineMap, Definition, Ir, OpRef, Type, Value};
use tir_arith::{MulF, MulI};

use crate::{
    CollapseShape, Combine, Empty, ExpandShape, ExtractSlice, Generic, InsertSlice, TransferRead,
    TransferWrite,
};

/// The argument of the region that a value is, casts aside.
fn argument(ir: &Ir, value: Value) -> Option<usize> {
    let Some(op) = ir.owner(value) else {
        return match ir.definition(value) {
            Definition::Argument(_, index) => Some(index),
            _ => None,
        };
    };
    let mut operands = ir.operands(op);
    match (operands.next(), operands.next()) {
        (Some(inner), None) => argument(ir, inner),
        _ => None,
    }
}

impl Generic {
    /// The inputs whose product is summed up, if that is all that it does.
    fn factors(&self, ir: &Ir) -> Option<(usize, usize)> {
        let block = ir.entry(self.body)?;
        let end = ir.last(block)?;
        let mut yields = ir.operands(end);
        let (Some(value), None) = (yields.next(), yields.next()) else {
            return None;
        };
        let op = ir.owner(value)?;
        let product = ir.is::<MulF>(op) || ir.is::<MulI>(op);
        let mut operands = ir.operands(op);
        let (a, b) = (operands.next()?, operands.next()?);
        let summed = product && self.combine == Some(Combine::Add);
        summed.then_some((argument(ir, a)?, argument(ir, b)?))
    }
}

/// The bytes of what a map reads of a value of a type: where it steps over elements, not all.
fn read(ty: Type, map: &AffineMap, domain: &[i64]) -> u64 {
    let all = bytes(ty);
    let (Some(shape), Some(exprs)) = (ty.shape(), map.linear()) else {
        return all;
    };
    let parted = (0..domain.len()).all(|d| exprs.iter().filter(|e| e.at(d) != 0).count() < 2);
    let mut elements = ty.elements().unwrap_or(0) as u64;
    if !parted || elements == 0 {
        return all;
    }
    let each = all / elements;
    for (size, expr) in shape.iter().zip(&exprs[..]) {
        let read = expr.values(domain, *size).unwrap_or(*size);
        elements = elements / *size as u64 * read as u64;
    }
    each.saturating_mul(elements)
}

/// A sum of products is one of matrices, by which factor has which iterators; anything else is an
/// operation at each point.
impl Cost for Generic {
    fn work(&self, op: OpRef<'_>) -> Work {
        let ir = op.ir;
        let Ok(domain) = self.domain(ir) else {
            return Work::by_types(op);
        };
        let range = |d: usize| u64::try_from(domain[d]).unwrap_or(0);
        let before = |v: &Value| match self.combine.is_some() {
            true => bytes(ir.ty(*v)),
            false => 0,
        };
        let reads = self.inputs.iter().zip(&self.indexing_maps);
        let reads = reads.map(|(v, map)| read(ir.ty(*v), map, &domain));
        let mut work = Work {
            reads: reads.chain(self.outputs.iter().map(before)).collect(),
            writes: self.results.0.iter().map(|ty| bytes(*ty)).collect(),
            ..Work::default()
        };
        let all = |dims: &dyn Fn(usize) -> bool| {
            let dims = (0..domain.len()).filter(|d| dims(*d));
            dims.map(range).fold(1, u64::saturating_mul)
        };
        let Some((a, b)) = self.factors(ir) else {
            work.scalars = all(&|_| true);
            return work;
        };
        let has = |map: usize, d: usize| {
            let exprs = &self.indexing_maps[map].exprs;
            exprs.iter().any(|e| e.uses(d))
        };
        let (in_a, in_b) = (|d| has(a, d), |d| has(b, d));
        let out = |d| has(self.inputs.len(), d);
        let mut product = Product {
            times: all(&|d| out(d) && in_a(d) == in_b(d)),
            m: all(&|d| out(d) && in_a(d) && !in_b(d)),
            n: all(&|d| out(d) && in_b(d) && !in_a(d)),
            k: all(&|d| !out(d)),
        };
        if product.times > 1 && (product.m == 1 || product.n == 1) {
            // Each with factors of its own.
            product.times = product.times.saturating_mul(product.k);
            product.k = 1;
        }
        work.products.push(product);
        work
    }
}

macro_rules! free {
    ($($name:ident $work:ident)*) => {$(
        impl Cost for $name {
            fn work(&self, op: OpRef<'_>) -> Work {
                Work::$work(op)
            }
        }
    )*};
}
free! {
    Empty none
    CollapseShape none
    ExpandShape none
    ExtractSlice kept
    InsertSlice moved
    TransferRead kept
    TransferWrite moved
}
