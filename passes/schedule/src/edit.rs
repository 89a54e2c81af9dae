//! Small edits: operand groups, carried values of loops and branches.

use std::collections::HashSet;

use tir::{Attr, Definition, DenseArray, Ir, OpId, SEGMENTS, Type, Value};
use tir_loop::{For, If, Yield};

/// Replaces an operand group, by its index among all operand fields of the op's record.
pub fn set_group(ir: &mut Ir, op: OpId, group: usize, values: &[Value]) {
    let sizes = ir.attr(op, SEGMENTS).and_then(|a| a.get::<DenseArray>());
    let Some(sizes) = sizes else {
        // One group of varying size: it is all there is.
        ir.set_operands(op, values);
        return;
    };
    let mut bits = sizes.bits.clone();
    let elem = sizes.elem;
    let start: i64 = bits[..group].iter().sum();
    let (start, len) = (start as usize, bits[group] as usize);
    let mut operands: Vec<Value> = ir.operands(op).collect();
    operands.splice(start..start + len, values.iter().copied());
    bits[group] = values.len() as i64;
    ir.set_operands(op, &operands);
    ir.set_attr(op, SEGMENTS, Attr::new(DenseArray { elem, bits }));
}

/// The values of an operand group.
pub fn group(ir: &Ir, op: OpId, group: usize) -> Vec<Value> {
    let operands = ir.operands(op);
    match ir.attr(op, SEGMENTS).and_then(|a| a.get::<DenseArray>()) {
        None => operands.collect(),
        Some(sizes) => {
            let start: i64 = sizes.bits[..group].iter().sum();
            operands
                .skip(start as usize)
                .take(sizes.bits[group] as usize)
                .collect()
        }
    }
}

/// Carried values of a `loop.for` are its operand group 1.
const INIT: usize = 1;

/// Adds a carried value to a loop; gives its argument and its result. The yield still lacks it.
pub fn carry(ir: &mut Ir, op: OpId, init: Value) -> Option<(Value, Value)> {
    let ty = ir.ty(init);
    let mut inits = group(ir, op, INIT);
    inits.push(init);
    set_group(ir, op, INIT, &inits);
    let block = ir.body_block(op, 0)?;
    Some((ir.add_arg(block, ty), ir.add_result(op, ty)))
}

/// Adds operands to a yield.
pub fn yield_also(ir: &mut Ir, end: OpId, values: &[Value]) {
    let mut all: Vec<Value> = ir.operands(end).collect();
    all.extend(values);
    ir.set_operands(end, &all);
}

/// The `loop.yield` of a region of an op; makes a block with one in an empty region.
pub fn yield_of(ir: &mut Ir, op: OpId, region: usize) -> Option<OpId> {
    let region = ir.regions(op).nth(region)?;
    let block = match ir.entry(region) {
        Some(block) => block,
        None => ir.new_block(region),
    };
    if ir.last(block).is_none_or(|last| !ir.is::<Yield>(last)) {
        ir.add(block, Yield { values: Vec::new() });
    }
    ir.last(block)
}

/// Removes carried values of a type that nothing but carrying uses, and results of branches alike.
pub fn drop_dead_carried(ir: &mut Ir, ty: Type) {
    let all = ir.walk_ids();
    let structured = |ir: &Ir, op: OpId| ir.is::<For>(op) || ir.is::<If>(op);
    let mut live: HashSet<Value> = HashSet::new();
    let mut work: Vec<Value> = Vec::new();
    for op in &all {
        if ir.is::<Yield>(*op) {
            continue;
        }
        let skip = if ir.is::<For>(*op) {
            group(ir, *op, 0).len()
        } else {
            usize::MAX
        };
        work.extend(ir.operands(*op).take(skip).filter(|v| ir.ty(*v) == ty));
    }
    while let Some(value) = work.pop() {
        if !live.insert(value) {
            continue;
        }
        let (op, index) = match ir.definition(value) {
            Definition::Result(op, index) => (op, index),
            Definition::Argument(block, index) => {
                match (ir.block_parent(block), index.checked_sub(1)) {
                    (Some(op), Some(index)) => (op, index),
                    _ => continue,
                }
            }
        };
        if ir.is::<For>(op) {
            work.extend(group(ir, op, INIT).get(index));
        }
        if structured(ir, op) {
            for region in ir.regions(op) {
                let end = ir.entry(region).and_then(|b| ir.last(b));
                work.extend(end.and_then(|end| ir.operands(end).nth(index)));
            }
        }
    }
    // Operands first, then the values themselves.
    let mut dead: Vec<(OpId, Vec<usize>)> = Vec::new();
    let holders: Vec<OpId> = all.into_iter().filter(|op| structured(ir, *op)).collect();
    for op in holders {
        let block = if ir.is::<For>(op) {
            ir.body_block(op, 0)
        } else {
            None
        };
        let is_live = |index: usize, result: Value| {
            live.contains(&result) || block.is_some_and(|b| live.contains(&ir.arg(b, index + 1)))
        };
        let results: Vec<Value> = ir.results(op).collect();
        let gone = |(i, v): &(usize, &Value)| ir.ty(**v) == ty && !is_live(*i, **v);
        let gone: Vec<usize> = results
            .iter()
            .enumerate()
            .filter(gone)
            .map(|(i, _)| i)
            .collect();
        if gone.is_empty() {
            continue;
        }
        let keep = |values: Vec<Value>| -> Vec<Value> {
            let kept = values
                .into_iter()
                .enumerate()
                .filter(|(i, _)| !gone.contains(i));
            kept.map(|(_, v)| v).collect()
        };
        let regions: Vec<_> = ir.regions(op).collect();
        for region in regions {
            if let Some(end) = ir.entry(region).and_then(|b| ir.last(b)) {
                let values = keep(ir.operands(end).collect());
                ir.set_operands(end, &values);
            }
        }
        if ir.is::<For>(op) {
            let values = keep(group(ir, op, INIT));
            set_group(ir, op, INIT, &values);
        }
        dead.push((op, gone));
    }
    for (op, gone) in dead {
        for index in gone.into_iter().rev() {
            ir.erase_result(op, index);
            if ir.is::<For>(op)
                && let Some(block) = ir.body_block(op, 0)
            {
                ir.erase_arg(block, index + 1);
            }
        }
    }
}
