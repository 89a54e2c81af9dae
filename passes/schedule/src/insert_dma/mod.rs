//! `insert-dma`: what crosses spaces becomes a transfer of the engine between them.

use tir::{AffineExpr, AffineMap, At, Builder, Failure, Ir, MemRefType, OpId, Sym, Type, Value};
use tir_accel::machine::EngineInfo;
use tir_accel::transfer::Pattern;
use tir_accel::{Direction, DmaStart, MachineInfo};
use tir_loop::{Bounds, For, Yield};
use tir_memref::{Copy, TransferRead, TransferWrite};

pub use crate::passes::InsertDma;

use crate::index::drop_unused;
use crate::prefetch::prefetch;
use crate::range::inside;
use crate::views::sub_view;
use tir_arith::{OpFoldResult, dispatch_values, mixed_values};

/// A transfer of the memref level.
#[derive(Clone)]
struct Transfer {
    direction: Direction,
    far: Value,
    tile: Value,
    offsets: Vec<OpFoldResult>,
    padding: Option<Value>,
    access: AffineMap,
}

impl InsertDma {
    /// Runs on the function at the root of an arena.
    pub fn apply(&self, ir: &mut Ir, machine: &MachineInfo) -> Result<(), Failure> {
        if self.prefetch {
            prefetch(ir)?;
        }
        for op in ir.walk_ids() {
            let Some(transfer) = transfer_of(ir, op) else {
                continue;
            };
            let done = convert(ir, op, &transfer, machine);
            done.map_err(|e| {
                Box::new(
                    (*e).or_at(ir.loc(op))
                        .context(format_args!("'{}': ", ir.name(op))),
                )
            })?;
        }
        drop_unused(ir);
        Ok(())
    }
}

fn transfer_of(ir: &Ir, op: OpId) -> Option<Transfer> {
    if let Some(t) = ir.get::<TransferRead>(op) {
        let offsets = mixed_values(&t.offsets, &t.static_offsets);
        let (direction, padding) = (Direction::Read, t.padding);
        Some(Transfer {
            direction,
            far: t.source,
            tile: t.tile,
            offsets,
            padding,
            access: t.access,
        })
    } else if let Some(t) = ir.get::<TransferWrite>(op) {
        let offsets = mixed_values(&t.offsets, &t.static_offsets);
        let (direction, padding) = (Direction::Write, None);
        Some(Transfer {
            direction,
            far: t.dest,
            tile: t.tile,
            offsets,
            padding,
            access: t.access,
        })
    } else {
        let copy = ir.get::<Copy>(op)?;
        let rank = ir.ty(copy.source).shape()?.len();
        let (direction, padding) = (Direction::Read, None);
        let (offsets, access) = (
            vec![OpFoldResult::Number(0); rank],
            AffineMap::identity(rank),
        );
        Some(Transfer {
            direction,
            far: copy.source,
            tile: copy.target,
            offsets,
            padding,
            access,
        })
    }
}

fn convert(ir: &mut Ir, op: OpId, t: &Transfer, machine: &MachineInfo) -> Result<(), Failure> {
    let space = |v: Value| {
        let name = ir
            .ty(v)
            .get::<MemRefType>()
            .and_then(MemRefType::space_name);
        name.or(machine.far().map(|s| s.name))
    };
    let (far, tile) = (space(t.far), space(t.tile));
    let (from, to) = match t.direction {
        Direction::Read => (far, tile),
        Direction::Write => (tile, far),
    };
    let (Some(from), Some(to)) = (from, to) else {
        return Ok(());
    };
    // What no engine does is the thread's.
    let Some(engine) = machine.engine_between(from, to) else {
        return Ok(());
    };
    let pattern = Pattern::new(ir.ty(t.far), ir.ty(t.tile), &t.access)?;
    let out = may_leave(ir, t, &pattern);
    if t.direction == Direction::Read && !engine.pad && out.contains(&true) {
        return Ok(());
    }
    let mut b = ir.at(At::Before(op));
    start(&mut b, t.clone(), engine, &out)?;
    ir.erase(op);
    Ok(())
}

/// For each dimension of the tile, whether positions of it may lie outside of the large buffer.
fn may_leave(ir: &Ir, t: &Transfer, pattern: &Pattern) -> Vec<bool> {
    let rank = pattern.tile_shape.len();
    let mut out = vec![false; rank];
    for (s, form) in pattern.access.iter().enumerate() {
        let inside = inside(
            ir,
            t.offsets[s],
            form,
            &pattern.tile_shape,
            pattern.far_shape[s],
        );
        if !inside {
            form.terms().for_each(|(t, _)| out[t] = true);
            // A position that stands still may lie outside as a whole.
            if rank > 0 && form.is_number() {
                out[0] = true;
            }
        }
    }
    out
}

/// Starts a transfer, or loops of transfers if it has more dimensions than the engine.
fn start(
    b: &mut Builder<'_>,
    t: Transfer,
    engine: &EngineInfo,
    out: &[bool],
) -> Result<(), Failure> {
    let mut pattern = Pattern::new(b.ty(t.far), b.ty(t.tile), &t.access)?;
    for (n, out) in pattern.tile_shape.iter_mut().zip(out) {
        // What is cut off does not merge with the dimension around it.
        if *out && *n > 2 {
            *n -= 1;
        }
    }
    if pattern.rank() as i64 <= engine.dims {
        let (offsets, static_offsets) = dispatch_values(&t.offsets);
        b.add(DmaStart {
            engine: Sym(engine.name),
            direction: t.direction,
            far: t.far,
            tile: t.tile,
            offsets,
            padding: t.padding,
            after: vec![],
            static_offsets,
            access: t.access,
        });
        return Ok(());
    }
    let dim = pattern
        .split()
        .ok_or("has too many dimensions for its engine")?;
    let shape = b.ty(t.tile).shape().unwrap_or(&[]).to_vec();
    let mut failed = None;
    let count = shape[dim];
    let mut rest = out.to_vec();
    let left = rest.remove(dim);
    if left && let Some(first) = rest.first_mut() {
        *first = true;
    }
    let body = b.body(&[Type::index()], |b, args| {
        failed = position(b, &t, &shape, dim, args[0])
            .and_then(|one| start(b, one, engine, &rest))
            .err();
        b.add(Yield { values: vec![] });
    });
    let bounds = [Bounds::Static(0), Bounds::Static(count), Bounds::Static(1)];
    b.add(For::new(bounds, vec![], body, vec![]));
    failed.map_or(Ok(()), Err)
}

/// The transfer of one position of a dimension of the tile.
fn position(
    b: &mut Builder<'_>,
    t: &Transfer,
    shape: &[i64],
    dim: usize,
    index: Value,
) -> Result<Transfer, Failure> {
    let (mut at, mut sizes, mut part) = (
        vec![OpFoldResult::Number(0); shape.len()],
        shape.to_vec(),
        shape.to_vec(),
    );
    at[dim] = OpFoldResult::Value(index);
    sizes[dim] = 1;
    part.remove(dim);
    let tile = sub_view(b, t.tile, &at, &sizes, &part)?;
    let (mut offsets, mut exprs) = (Vec::new(), Vec::new());
    for (expr, offset) in t.access.exprs.iter().zip(&t.offsets) {
        let form = expr
            .linear(shape.len())
            .ok_or("has an access that is not linear")?;
        let moved = OpFoldResult::Value(index).times(b, form.at(dim));
        offsets.push(offset.plus(b, moved));
        exprs.push(AffineExpr::from(&form.without(dim)));
    }
    let access = AffineMap::new(shape.len() - 1, exprs);
    Ok(Transfer {
        tile,
        offsets,
        access,
        ..t.clone()
    })
}
