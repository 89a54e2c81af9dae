//! Sums of products of bytes: what processors compute several steps of at once.

use tir::{IntType, Ir, Type, Value};
use tir_arith::{ExtSI, ExtUI, MulI};

use crate::generic::{Combine, Generic};

impl Generic {
    /// Whether it adds up products of its two inputs, integers of 8 bits each of which is widened to `i32` as its type
    /// says, and computes nothing else.
    pub fn sums_products_of_bytes(&self, ir: &Ir) -> bool {
        self.is_sum_of_products_of_bytes(ir).unwrap_or(false)
    }

    fn is_sum_of_products_of_bytes(&self, ir: &Ir) -> Option<bool> {
        let block = ir.entry(self.body)?;
        let args: Vec<Value> = ir.args(block).collect();
        let ops = ir.ops_in(block).count();
        let yielded: Vec<Value> = ir.operands(ir.last(block)?).collect();
        // Two casts, a product, and what ends the region.
        let (&[x, y], &[sum], 4) = (&args[..], &yielded[..], ops) else {
            return None;
        };
        let product: MulI = ir.def(sum)?;
        let factors = [widened(ir, product.lhs)?, widened(ir, product.rhs)?];
        let bytes = [x, y].iter().all(|value| ir.ty(*value).bits() == Some(8));
        let both = factors == [x, y] || factors == [y, x];
        Some(self.combine == Some(Combine::Add) && both && bytes && ir.ty(sum) == Type::int(32))
    }
}

/// The integer that a value is as a wider one, widened as its type says.
fn widened(ir: &Ir, value: Value) -> Option<Value> {
    if let Some(op) = ir.def::<ExtUI>(value) {
        return unsigned(ir.ty(op.input)).then_some(op.input);
    }
    let op = ir.def::<ExtSI>(value)?;
    (!unsigned(ir.ty(op.input))).then_some(op.input)
}

fn unsigned(ty: Type) -> bool {
    let int: Option<&IntType> = ty.get();
    int.is_some_and(IntType::is_unsigned)
}
