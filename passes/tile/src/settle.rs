//! Materializes what only moves elements and is part of no loop nest as a copy nest: reads of parts
//! whose result is needed as a whole, and what is put into a larger tensor without being computed
//! there; results of the function that are no more than a view of what it was given. Reads of reads become one read before,
//! where no padding of one comes between.

use std::collections::{HashMap, HashSet};

use tir::{
    AffineExpr, AffineMap, At, BlockId, Builder, DYNAMIC, Interval, Ir, LinearMap, OpId, Ret, Rets,
    TensorType, Type, Value,
};
use tir_loop::For;
use tir_tensor::generic::iterators;
use tir_tensor::{
    CollapseShape, ExpandShape, Generic, InsertSlice, TransferRead, TransferWrite, Yield,
};

use crate::near::{Side, side};

/// Makes every whole-tensor read one that a loop nest takes in, and every part that is put
/// somewhere the result of a nest. What is made is in the group of what it is made for.
pub(crate) fn settle(func: &mut Ir, group: &mut HashMap<OpId, usize>) {
    let ops: Vec<OpId> = func.walk_ids();
    for op in &ops {
        if whole_read(func, *op).is_some() {
            join(func, *op, group);
        }
    }
    let ops: Vec<OpId> = func.walk_ids();
    for op in &ops {
        if func.contains(*op) && whole_read(func, *op).is_some() {
            keep(func, *op, group);
        }
    }
    let mut taken = HashSet::new();
    for op in &ops {
        if !func.contains(*op) {
            continue;
        }
        if let Some(InsertSlice { source, dest, .. }) = func.get(*op) {
            // Parts of tiles are written where they are computed.
            if [dest, source]
                .iter()
                .any(|v| matches!(side(func, *v), Some(Side::Near(_))))
            {
                continue;
            }
            // What is computed by a nest, or was tiled before, can be computed there; with dimensions joined what only moves
            // elements (for what computes them copies were quicker, decision 272).
            let computed = collapsed(func, source);
            let nest = func
                .owner(computed)
                .filter(|p| match func.get::<Generic>(*p) {
                    Some(nest) => computed == source || nest.moves(func),
                    None => {
                        computed == source && (func.is::<For>(*p) || func.is::<TransferWrite>(*p))
                    }
                });
            let here = func.block_of(*op);
            let free = nest.is_some_and(|p| func.block_of(p) == here) && taken.insert(computed);
            if !free {
                let copy = copied(func, At::Before(*op), source);
                func.set_operand(*op, 0, copy);
            }
        }
    }
}

/// Computes each result of the function that is a view of an argument or of another result: each has memory of its own,
/// and left to bufferization the thread would copy it, element by element.
pub(crate) fn results(ir: &mut Ir) {
    let regions = ir.regions(ir.root());
    let blocks: Vec<BlockId> = regions.filter_map(|region| ir.entry(region)).collect();
    for block in blocks {
        let Some(end) = ir.last(block) else { continue };
        let mut given: HashSet<Value> = ir.args(block).collect();
        for (number, value) in ir.operands(end).collect::<Vec<_>>().into_iter().enumerate() {
            let tensor = ir.ty(value).get::<TensorType>();
            let shape = tensor.map_or(&[][..], |tensor| &tensor.shape);
            let some = !shape.is_empty() && shape.iter().all(|n| *n > 0);
            if !given.insert(shown(ir, value)) && some {
                let copy = copied(ir, At::Before(end), value);
                ir.set_operand(end, number, copy);
            }
        }
    }
}

/// What a tensor shows with dimensions joined.
fn collapsed(ir: &Ir, mut value: Value) -> Value {
    while let Some(view) = ir.def::<CollapseShape>(value) {
        value = view.src;
    }
    value
}

/// What a tensor shows in another shape.
fn shown(ir: &Ir, mut value: Value) -> Value {
    loop {
        value = if let Some(view) = ir.def::<CollapseShape>(value) {
            view.src
        } else if let Some(view) = ir.def::<ExpandShape>(value) {
            view.src
        } else {
            return value;
        };
    }
}

/// A read of a tensor at places that are known.
fn whole_read(ir: &Ir, op: OpId) -> Option<TransferRead> {
    let read: TransferRead = ir.get(op)?;
    (read.space.is_none() && !read.static_offsets.contains(&DYNAMIC)).then_some(read)
}

/// Positions that a read touches in each dimension of its source.
fn reach(read: &TransferRead) -> Option<Vec<Interval>> {
    let shape = read.result.0.shape()?;
    let bound = |(expr, offset): (&AffineExpr, &i64)| {
        let touched = expr.linear(shape.len())?.range(shape)?;
        touched.plus(Interval::point(*offset))
    };
    let all = read.access.exprs.iter().zip(&read.static_offsets);
    all.map(bound).collect()
}

/// Whether a read never leaves its source.
fn stays_inside(ir: &Ir, read: &TransferRead) -> bool {
    let shape = ir.ty(read.source).shape().unwrap_or(&[]);
    let inside = |(touched, n): (&Interval, &i64)| touched.is_inside(*n);
    reach(read).is_some_and(|all| all.iter().zip(shape).all(inside))
}

/// Whether a read shows all of its source as it is, with padding around it.
pub(crate) fn only_pads(ir: &Ir, read: &TransferRead) -> bool {
    let shape = ir.ty(read.source).shape().unwrap_or(&[]);
    let whole = |(touched, n): (&Interval, &i64)| touched.low <= 0 && touched.high >= n - 1;
    read.access == AffineMap::identity(shape.len())
        && reach(read).is_some_and(|all| all.iter().zip(shape).all(whole))
}

/// Makes a read of a read one read, where no padding of one comes between.
fn join(ir: &mut Ir, op: OpId, group: &mut HashMap<OpId, usize>) {
    let Some(outer) = whole_read(ir, op) else {
        return;
    };
    let Some(inner) = ir.owner(outer.source).and_then(|p| whole_read(ir, p)) else {
        return;
    };
    let equal = match (outer.padding, inner.padding) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            a == b || ir.constant(a).is_some() && ir.constant(a) == ir.constant(b)
        }
        _ => false,
    };
    if !(stays_inside(ir, &outer) || equal && only_pads(ir, &inner)) {
        return;
    }
    let moved = inner.access.exprs.iter().zip(&inner.static_offsets);
    let dims = outer.access.dims;
    // Where the outer read begins in the result of the inner one.
    let starts: Vec<AffineExpr> = (outer.access.exprs.iter().zip(&outer.static_offsets))
        .map(|(e, offset)| e.clone() + AffineExpr::Const(*offset))
        .collect();
    let starts = AffineMap::new(dims, starts);
    let exprs: Vec<AffineExpr> = moved
        .map(|(e, offset)| e.clone() + AffineExpr::Const(*offset))
        .collect();
    let whole = AffineMap::new(inner.access.dims, exprs).compose(&starts);
    let Some(forms) = whole.linear() else { return };
    let offsets: Vec<i64> = forms.iter().map(|form| form.constant).collect();
    let moved: LinearMap = forms.iter().map(|form| form.with_constant(0)).collect();
    let mut b = Builder::new(ir, At::Before(op));
    let read = b.add(TransferRead {
        source: inner.source,
        padding: inner.padding,
        static_offsets: offsets,
        access: moved.affine(dims),
        ..outer
    });
    if let (Some(made), Some(number)) = (ir.owner(read), group.get(&op).copied()) {
        group.insert(made, number);
    }
    ir.replace(op, &[read]);
}

/// A read that something else than a nest uses gets a nest of its own for those uses.
fn keep(ir: &mut Ir, op: OpId, group: &mut HashMap<OpId, usize>) {
    let value = ir.result(op, 0);
    let others: Vec<tir::Use> = ir
        .uses(value)
        .filter(|u| {
            ir.get::<Generic>(u.op)
                .is_none_or(|g| u.operand >= g.inputs.len())
        })
        .collect();
    if others.is_empty() {
        return;
    }
    let copy = copied(ir, At::After(op), value);
    if let (Some(made), Some(number)) = (ir.owner(copy), group.get(&op).copied()) {
        group.insert(made, number);
    }
    for u in others {
        ir.set_operand(u.op, u.operand, copy);
    }
}

/// The same elements, computed by a nest.
fn copied(ir: &mut Ir, at: At, value: Value) -> Value {
    let ty = ir.ty(value);
    let rank = ty.shape().map_or(0, <[i64]>::len);
    copy_nest(ir, at, value, ty, AffineMap::identity(rank))
}

/// A tensor of a type with the elements of another one, each as often as a map from positions of the result gives it,
/// computed by a nest.
pub(crate) fn copy_nest(ir: &mut Ir, at: At, value: Value, ty: Type, from: AffineMap) -> Value {
    let rank = from.dims;
    let mut b = Builder::new(ir, at);
    let dest = b.add(tir_tensor::Empty {
        dynamic_sizes: Vec::new(),
        space: None,
        result: Ret(ty),
    });
    let body = b.body(&[ty.elem()], |b, args| {
        b.add(Yield {
            values: args.to_vec(),
        });
    });
    let copy = b.add(Generic {
        inputs: vec![value],
        outputs: vec![dest],
        indexing_maps: vec![from, AffineMap::identity(rank)],
        iterator_types: iterators(rank, 0),
        combine: None,
        sizes: None,
        body,
        results: Rets(vec![ty]),
    });
    copy.first().copied().unwrap_or(value)
}
