//! Near buffers that are filled with a constant, by an engine that pads: a transfer of which nothing lies inside
//! of its source moves no bytes. Else each element is a store of the thread.

use std::collections::BTreeMap;

use tir::{AffineExpr, AffineMap, At, Attr, Failure, Ir, Layout, MemRefType, OpId, Type, Value};
use tir_accel::MachineInfo;
use tir_memref::alias::origins;
use tir_memref::{Alloc, TransferRead};
use tir_tensor::generic::Generic;

use crate::index::{drop_unused, slice, writes};
use crate::prefetch::{is_single, only_loads};
use crate::staging::space;

/// Makes every fill of a near buffer that the thread would do a transfer, where an engine is quicker.
pub(super) fn fills(ir: &mut Ir, machine: &MachineInfo) -> Result<(), Failure> {
    let mut sources: BTreeMap<String, Value> = BTreeMap::new();
    for op in ir.walk_ids() {
        // With a fill go the ops in it.
        let here = ir.contains(op).then(|| filled(ir, machine, op));
        let Some((tile, value)) = here.flatten() else {
            continue;
        };
        let elem = ir.ty(tile).elem();
        let known = sources.get(&elem.to_string()).copied();
        let source = match known.or_else(|| nothing(ir, machine, elem)) {
            Some(source) => source,
            None => continue,
        };
        sources.insert(elem.to_string(), source);
        let rank = ir.ty(tile).shape().map_or(0, <[i64]>::len);
        let at = early(ir, op, tile).unwrap_or(op);
        let mut b = ir.at(At::Before(at));
        b.loc = b.ir.loc(op);
        let padding = tir_arith::materialize(&mut b, value, elem);
        b.add(TransferRead {
            source,
            tile,
            offsets: Vec::new(),
            padding,
            // The first position behind the only element.
            static_offsets: vec![1],
            access: AffineMap::new(rank, vec![AffineExpr::Const(0)]),
        });
        ir.erase(op);
    }
    drop_unused(ir);
    Ok(())
}

/// The buffer that an op fills with a constant, and the constant, if an engine that pads is quicker at it.
pub(crate) fn filled(ir: &Ir, machine: &MachineInfo, op: OpId) -> Option<(Value, Attr)> {
    let nest = ir.get::<Generic>(op)?;
    let value = nest.constant(ir)?;
    let [tile] = nest.outputs[..] else {
        return None;
    };
    let memref = ir.ty(tile).get::<MemRefType>()?;
    let shape = &memref.shape;
    let near = space(ir, machine, tile)?;
    // All of it, and nothing twice.
    let all = nest.indexing_maps.last()?.is_identity() && nest.domain(ir).ok()? == *shape;
    let elements = shape.iter().copied().fold(1, i64::saturating_mul);
    // What was planned so is done so: its parts may be smaller than what the plan counted.
    let engine = machine.engine_between(machine.far()?.name, near)?;
    let by = ir.attr(op, tir_accel::BY).and_then(|by| by.as_str());
    let meant = engine.pad && by.is_some_and(|by| engine.name == by);
    let quicker = meant || machine.fills(near, elements).is_some();
    let rank = !shape.is_empty() && !shape.contains(&tir::DYNAMIC);
    (all && quicker && rank && memref.strides().is_some()).then_some((tile, value))
}

/// A buffer of one element in far memory that nobody writes: no transfer reads it.
fn nothing(ir: &mut Ir, machine: &MachineInfo, elem: Type) -> Option<Value> {
    let far = machine.far()?.name;
    let root = ir.root();
    let body = ir.body_block(root, 0)?;
    let ty = Type::new(MemRefType {
        shape: vec![1],
        elem,
        layout: Layout::Identity,
        space: Some(Attr::str(far.as_str())),
    });
    let value = ir.at(At::Start(body)).add(Alloc::new(ty));
    ir.set_hint(value, Some(tir::Name::new("outside")));
    Some(value)
}

/// Where a fill stands before the loads of its block: queues are in order, those for a later iteration wait for a
/// tile to be used, and what is filled is wanted now. One of a buffer with a single slot waits for its last use in the
/// iteration before: it stays behind loads into such buffers. What computes the buffer's place moves with it.
fn early(ir: &mut Ir, op: OpId, tile: Value) -> Option<OpId> {
    let block = ir.block_of(op)?;
    let buffer = origins(ir, tile);
    let waits = is_single(ir, tile);
    let now = |other: Value| !(waits && is_single(ir, other));
    let mut first = None;
    for other in ir.ops_in(block).take_while(|other| *other != op) {
        let below = std::iter::once(other).chain(ir.walk_below(other));
        let apart = below.clone().all(|o| !writes(ir, o, &buffer));
        match only_loads(ir, other, &now) && apart {
            true => first = first.or(Some(other)),
            false if ir.is_pure(other) => {}
            false => first = None,
        }
    }
    let first = first?;
    let place = slice(ir, &[tile], ir.block_parent(block)?)?;
    for moved in place {
        if ir.block_of(moved) == Some(block) && !ir.is_before(moved, first) {
            ir.move_op(moved, At::Before(first));
        }
    }
    Some(first)
}
