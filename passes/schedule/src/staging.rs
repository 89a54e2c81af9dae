//! Transfers between spaces that no engine joins go through buffers in the spaces between.

use tir::{AffineMap, At, Failure, Ir, Layout, MemRefType, Name, OpId, Type, Value};
use tir_accel::{Direction, MachineInfo};
use tir_arith::dispatch_values;
use tir_memref::{Alloc, Dealloc, TransferRead, TransferWrite};

use crate::transfer::Transfer;

/// Gives each transfer whose spaces no engine joins, but several engines do, a buffer in each space on the
/// way. A tile is cut out of its source, and padded, by the first transfer of a read, and put into its
/// target by the last one of a write.
pub(crate) fn stage(ir: &mut Ir, machine: &MachineInfo) -> Result<(), Failure> {
    for op in ir.walk_ids() {
        if let Some(transfer) = Transfer::of(ir, op) {
            let loc = ir.loc(op);
            through(ir, op, &transfer, machine).map_err(|e| Box::new((*e).or_at(loc)))?;
        }
    }
    Ok(())
}

/// The space of a buffer.
pub(crate) fn space(ir: &Ir, machine: &MachineInfo, value: Value) -> Option<Name> {
    let memref = ir.ty(value).get::<MemRefType>();
    let named = memref.and_then(MemRefType::space_name);
    named.or(machine.far().map(|s| s.name))
}

fn through(ir: &mut Ir, op: OpId, t: &Transfer, machine: &MachineInfo) -> Result<(), Failure> {
    let Some([from, to]) = t.spaces(ir, machine) else {
        return Ok(());
    };
    let Some(mut stops) = machine.between(from, to) else {
        return Ok(());
    };
    // From the far side to the tile.
    if t.direction == Direction::Write {
        stops.reverse();
    }
    let ty = ir.ty(t.tile);
    let shape = ty.shape().ok_or("moves a tile without a shape")?.to_vec();
    let rank = shape.len();
    let hint = ir.hint(t.tile);
    let mut b = ir.at(At::Before(op));
    b.loc = b.ir.loc(op);
    let mut buffers = Vec::new();
    for stop in stops {
        let ty = Type::new(MemRefType {
            shape: shape.clone(),
            elem: ty.elem(),
            layout: Layout::Identity,
            space: Some(tir::Attr::str(stop.as_str())),
        });
        let buffer = b.add(Alloc::new(ty));
        b.ir.set_hint(buffer, hint);
        buffers.push(buffer);
    }
    let (offsets, static_offsets) = dispatch_values(&t.offsets);
    let (zeros, whole) = (vec![0; rank], AffineMap::identity(rank));
    let stops: Vec<Value> = buffers.iter().copied().chain([t.tile]).collect();
    match t.direction {
        Direction::Read => {
            b.add(TransferRead {
                source: t.far,
                tile: stops[0],
                offsets,
                padding: t.padding,
                static_offsets,
                access: t.access.clone(),
            });
            for pair in stops.windows(2) {
                b.add(TransferRead {
                    source: pair[0],
                    tile: pair[1],
                    offsets: Vec::new(),
                    padding: None,
                    static_offsets: zeros.clone(),
                    access: whole.clone(),
                });
            }
        }
        Direction::Write => {
            for pair in stops.windows(2).rev() {
                b.add(TransferWrite {
                    tile: pair[1],
                    dest: pair[0],
                    offsets: Vec::new(),
                    static_offsets: zeros.clone(),
                    access: whole.clone(),
                });
            }
            b.add(TransferWrite {
                tile: stops[0],
                dest: t.far,
                offsets,
                static_offsets,
                access: t.access.clone(),
            });
        }
    }
    for memref in buffers {
        b.add(Dealloc { memref });
    }
    ir.erase(op);
    Ok(())
}
