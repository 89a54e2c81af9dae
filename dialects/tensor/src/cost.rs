//! What index expressions take, where their types alone do not say.

use tir::cost::{Cost, Product, Work, bytes};
use tir::{Definition, Ir, OpRef, Value};
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

/// A sum of products is one of matrices, by which factor has which iterators; anything else is an
/// operation at each point.
impl Cost for Generic {
    fn work(&self, op: OpRef<'_>) -> Work {
        let ir = op.ir;
        let Ok(domain) = self.domain(ir) else {
            return Work::by_types(op);
        };
        let range = |d: usize| u64::try_from(domain[d]).unwrap_or(0);
        let read = |v: &Value| bytes(ir.ty(*v));
        let before = |v| if self.combine.is_some() { read(v) } else { 0 };
        let reads = self.inputs.iter().map(read);
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
