//! `graph.relayout` on what is stored: dimensions are expanded into the blocks of both layouts,
//! ordered anew by one elementwise nest, and collapsed.

use tir::rewrite::Rewriter;
use tir::{Ir, OpId, Ret, Type, Value};
use tir_graph::layout::{Layout, physical_type};
use tir_tensor::{CollapseShape, ExpandShape, reassociation};

use super::super::nest::{E, elementwise, map};
use super::super::views::reshaped;

/// Replaces a relayout between two types; its operand has been made plain.
pub(super) fn expand(ir: &mut Ir, op: OpId, from: Type, to: Type) {
    let Some(x) = ir.operands(op).next() else {
        return;
    };
    let mut rw = Rewriter::new(ir, op);
    let y = stored(&mut rw, x, from, to);
    rw.replace(op, &[y]);
}

fn stored(rw: &mut Rewriter<'_>, x: Value, from: Type, to: Type) -> Value {
    let shape = from.shape().unwrap_or(&[]);
    let plain = |layout: Option<&'static Layout>| match layout {
        Some(layout) => (layout.axes().to_vec(), layout.blocks().to_vec()),
        None => {
            let axis = |dim| tir_graph::layout::Axis { dim, inner: false };
            ((0..shape.len()).map(axis).collect(), vec![1; shape.len()])
        }
    };
    let (from_axes, from_blocks) = plain(Layout::of(from));
    let (to_axes, to_blocks) = plain(Layout::of(to));
    let nested = |d: usize| {
        let (a, b) = (from_blocks[d], to_blocks[d]);
        a.max(b) % a.min(b) == 0
    };
    if !(0..shape.len()).all(nested) {
        let middle = Layout::on(None, from);
        let x = stored(rw, x, from, middle);
        return stored(rw, x, middle, to);
    }
    // The pieces of each dimension, outermost first: (dimension, elements in one step).
    let pieces = |d: usize, block: i64, inner: bool| -> Vec<[i64; 2]> {
        let mut steps = vec![
            1,
            from_blocks[d].min(to_blocks[d]),
            from_blocks[d].max(to_blocks[d]),
        ];
        steps.dedup();
        let mine = steps
            .into_iter()
            .rev()
            .filter(|step| (*step < block) == inner);
        mine.map(|step| [d as i64, step]).collect()
    };
    let groups = |axes: &[tir_graph::layout::Axis], blocks: &[i64]| -> Vec<Vec<[i64; 2]>> {
        let group = |a: &tir_graph::layout::Axis| pieces(a.dim, blocks[a.dim], a.inner);
        axes.iter().map(group).collect()
    };
    let (outer, inner) = (
        groups(&from_axes, &from_blocks),
        groups(&to_axes, &to_blocks),
    );
    let size = |[d, step]: [i64; 2]| {
        let d = d as usize;
        let blocks = [from_blocks[d], to_blocks[d]].into_iter();
        let next = blocks.filter(|block| *block > step).min();
        next.unwrap_or(shape[d]) / step
    };
    let (outer_order, inner_order): (Vec<[i64; 2]>, Vec<[i64; 2]>) =
        (outer.concat(), inner.concat());
    let real = |order: &[[i64; 2]]| -> Vec<[i64; 2]> {
        order.iter().copied().filter(|p| size(*p) != 1).collect()
    };
    let (elem, target) = (from.elem(), physical_type(to));
    if real(&outer_order) == real(&inner_order) {
        let source = physical_type(from);
        let (source, target) = (source.shape().unwrap_or(&[]), target.shape().unwrap_or(&[]));
        return reshaped(rw, x, source, target, elem);
    }
    let sizes = |order: &[[i64; 2]]| -> Vec<i64> { order.iter().map(|p| size(*p)).collect() };
    let mut y = x;
    if outer.iter().any(|g| g.len() > 1) {
        y = rw.add(ExpandShape {
            static_output_shape: None,
            src: y,
            reassociation: reassociation(&numbered(&outer)),
            result: Ret(Type::tensor(sizes(&outer_order), elem)),
        });
    }
    let place = |piece: &[i64; 2]| inner_order.iter().position(|p| p == piece).unwrap_or(0);
    let exprs: Vec<E> = outer_order.iter().map(|p| E::Dim(place(p))).collect();
    let read = (y, map(exprs.len(), exprs));
    let ordered = Type::tensor(sizes(&inner_order), elem);
    y = elementwise(rw, ordered, &[read], |_, args| args[0]);
    if inner.iter().any(|g| g.len() > 1) {
        y = rw.add(CollapseShape {
            src: y,
            reassociation: reassociation(&numbered(&inner)),
            result: Ret(target),
        });
    }
    y
}

/// Groups of consecutive numbers as long as these.
fn numbered(groups: &[Vec<[i64; 2]>]) -> Vec<Vec<i64>> {
    let mut next = 0;
    let group = |group: &Vec<[i64; 2]>| {
        let from = next;
        next += group.len() as i64;
        (from..next).collect()
    };
    groups.iter().map(group).collect()
}
