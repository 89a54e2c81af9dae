//! Elements that only move, or of which one is taken, keep their integers.

use tir::rewrite::Rewriter;
use tir::{Ir, OpId, Ret, Value};
use tir_graph::{Dequantize, MaxPool, Quantize, Reshape, Transpose};

use super::parameters::{single, zero_of};
use super::sweep;

/// An op that moves elements, on integers.
fn on_integers(rw: &mut Rewriter<'_>, op: OpId, x: Value) -> Option<Value> {
    let elem = rw.ty(x).elem();
    let result = rw.results(op).next()?;
    let ty = rw.ty(result).with_elem(elem);
    if let Some(Reshape { .. }) = rw.get::<Reshape>(op) {
        Some(rw.add(Reshape { x, y: Ret(ty) }))
    } else if let Some(transpose) = rw.get::<Transpose>(op) {
        Some(rw.add(Transpose { x, ..transpose }))
    } else {
        let pool = rw.get::<MaxPool>(op)?;
        Some(rw.add(MaxPool { x, ..pool }))
    }
}

/// `move(dequantize(x))` of one scale is `dequantize(move(x))`: what follows reads integers where it can.
pub(super) fn later(ir: &mut Ir, op: OpId) -> bool {
    let operand = ir.operand(op, 0);
    let known = || {
        let dequantize: Dequantize = ir.def(operand)?;
        zero_of(ir, dequantize.zero)?;
        let scale = single(ir, dequantize.scale)?;
        (scale.is_normal() && scale > 0.0).then_some(dequantize)
    };
    let Some(dequantize) = known() else {
        return false;
    };
    let ty = ir.ty(ir.result(op, 0));
    let mut rw = Rewriter::new(ir, op);
    let Some(x) = on_integers(&mut rw, op, dequantize.x) else {
        return false;
    };
    let y = rw.add(Dequantize {
        x,
        y: Ret(ty),
        ..dequantize
    });
    rw.replace(op, &[y]);
    sweep(rw, operand);
    true
}

/// `quantize(dequantize(x))` of one scale is `x`.
pub(super) fn moved(ir: &mut Ir, op: OpId) -> bool {
    let parts = || {
        let quantize = ir.get::<Quantize>(op)?;
        let dequantize = ir.def::<Dequantize>(quantize.x)?;
        let scale = single(ir, quantize.scale)?;
        let same = scale == single(ir, dequantize.scale)?
            && zero_of(ir, quantize.zero)? == zero_of(ir, dequantize.zero)?
            && quantize.y.0.elem() == ir.ty(dequantize.x).elem();
        let whole = scale.is_normal() && scale > 0.0;
        (same && whole).then_some((quantize.x, dequantize.x))
    };
    let Some((unused, x)) = parts() else {
        return false;
    };
    let mut rw = Rewriter::new(ir, op);
    rw.replace(op, &[x]);
    sweep(rw, unused);
    true
}
