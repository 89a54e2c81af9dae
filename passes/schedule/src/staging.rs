//! Transfers between spaces that no engine joins go through buffers in the spaces between.

use tir::{AffineMap, At, Failure, Ir, Layout, MemRefType, Name, OpId, Type, Value};
use tir_accel::{Direction, MachineInfo};
use tir_arith::{OpFoldResult, dispatch_values};
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
    let whole_shape = ty.shape().ok_or("moves a tile without a shape")?.to_vec();
    let rank = whole_shape.len();
    // Of what is stored no more need go on than there is a place for.
    let inside = match t.direction {
        Direction::Read => whole_shape.iter().map(|size| (0, *size)).collect(),
        Direction::Write => stored(ir, t, &whole_shape),
    };
    let shape: Vec<i64> = inside.iter().map(|(from, to)| to - from).collect();
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
    let moved = moved(t, &inside);
    let (offsets, static_offsets) = dispatch_values(&moved);
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
            let mut begins: Vec<i64> = inside.iter().map(|(from, _)| -from).collect();
            for pair in stops.windows(2).rev() {
                b.add(TransferWrite {
                    tile: pair[1],
                    dest: pair[0],
                    offsets: Vec::new(),
                    static_offsets: std::mem::replace(&mut begins, zeros.clone()),
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

/// From where to where in each dimension of a tile that is stored what lies inside of its target, as far as numbers say.
fn stored(ir: &Ir, t: &Transfer, tile: &[i64]) -> Vec<(i64, i64)> {
    let mut inside: Vec<(i64, i64)> = tile.iter().map(|size| (0, *size)).collect();
    let (Some(forms), Some(far)) = (t.access.linear(), ir.ty(t.far).shape()) else {
        return inside;
    };
    for ((form, offset), size) in forms.iter().zip(&t.offsets).zip(far) {
        let mut terms = form.terms();
        let (Some((d, step)), None, OpFoldResult::Number(offset)) =
            (terms.next(), terms.next(), *offset)
        else {
            continue;
        };
        let begin = offset.saturating_add(form.constant);
        let alone = forms.iter().filter(|form| form.at(d) != 0).count() == 1;
        if step < 1 || *size < 0 || !alone {
            continue;
        }
        // The first position that is not before the target, and the first that is behind it.
        let from = begin.saturating_neg().max(0).saturating_add(step - 1) / step;
        let to = size.saturating_sub(begin).max(0).saturating_add(step - 1) / step;
        let (low, high) = &mut inside[d];
        (*low, *high) = ((*low).max(from), (*high).min(to));
    }
    // What is nowhere inside is as it was.
    match inside.iter().all(|(from, to)| from < to) {
        true => inside,
        false => tile.iter().map(|size| (0, *size)).collect(),
    }
}

/// The offsets of a transfer of a part of its tile.
fn moved(t: &Transfer, inside: &[(i64, i64)]) -> Vec<OpFoldResult> {
    let forms = t.access.linear();
    let more = |s: usize| {
        let terms = forms.as_ref().map(|forms| forms[s].terms());
        let each = terms.into_iter().flatten();
        each.map(|(d, step)| step * inside[d].0).sum::<i64>()
    };
    let offsets = t.offsets.iter().enumerate();
    let moved = offsets.map(|(s, offset)| match *offset {
        OpFoldResult::Number(n) => OpFoldResult::Number(n + more(s)),
        value => value,
    });
    moved.collect()
}
