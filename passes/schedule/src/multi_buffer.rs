//! `multi-buffer`: the buffer of an iteration becomes a slot of one buffer before all loops.

use std::collections::HashSet;

use tir::{At, Failure, Ir, MemRefType, Name, OpId, Type, Value};
use tir_accel::MachineInfo;
use tir_loop::For;
use tir_memref::alias::{aliases, ended, origins};
use tir_memref::{Alloc, CollapseShape, ExpandShape, SubView, TransferRead};

pub use crate::passes::MultiBuffer;

use crate::index::{Counter, linear, slice, total, writes};
use crate::ring;
use crate::views::{retype, sub_view};
use tir_arith::OpFoldResult;

/// Says of a `memref.transfer_read` how many iterations ahead it may be started.
pub const AHEAD: &str = "accel.ahead";
pub use tir_accel::DEPTH;
/// Numbers the buffers of a function.
pub const BUFFER: &str = "accel.buffer";

/// A buffer of an iteration.
pub(crate) struct Local {
    pub op: OpId,
    pub memref: Value,
    pub ty: &'static MemRefType,
    /// The loops around it, outermost first.
    pub nest: Vec<Counter>,
    pub depth: i64,
    /// Whether there is room for the first window of a sweep behind the last one of another.
    pub sweeps: bool,
}

impl MultiBuffer {
    /// The buffer of an iteration that an op is; `None` if it is none, or stays where it is.
    fn local(&self, ir: &Ir, op: OpId, far: Option<Name>) -> Result<Option<Local>, Failure> {
        let memref = ir.result(op, 0);
        let Some(ty) = ir.ty(memref).get::<MemRefType>() else {
            return Ok(None);
        };
        if ty.space_name().is_none() || ty.space_name() == far {
            return Ok(None);
        }
        let Some(nest) = nest_of(ir, op) else {
            let error = tir::Diagnostic::error(
                "is a buffer of a loop without a known number of iterations",
            );
            return Err(error.at(ir.loc(op)).into());
        };
        if nest.is_empty() || ty.shape.contains(&tir::DYNAMIC) || !only_viewed(ir, memref) {
            return Ok(None);
        }
        let said = ir.attr(op, DEPTH).and_then(tir::Attr::as_int);
        if said == Some(0) {
            return Ok(None);
        }
        let depth = said.unwrap_or(self.depth).max(1);
        Ok(Some(Local {
            op,
            memref,
            ty,
            nest,
            depth,
            sweeps: self.sweeps,
        }))
    }

    /// Those of some buffers that become rings.
    pub(crate) fn rings(&self, ir: &Ir, allocs: &[OpId], machine: &MachineInfo) -> HashSet<OpId> {
        let far = machine.far().map(|s| s.name);
        let mut copy = ir.clone();
        let rings = allocs.iter().copied().filter(|op| {
            let own = copy.twin(*op, ir);
            let local = self.local(&copy, own, far).ok().flatten();
            local.filter(|_| self.ring).is_some_and(|local| {
                drop_deallocs(&mut copy, &local);
                ring::slides(&copy, &local)
            })
        });
        rings.collect()
    }

    /// Runs on the function at the root of an arena.
    pub fn apply(&self, ir: &mut Ir, machine: &MachineInfo) -> Result<(), Failure> {
        let far = machine.far().map(|s| s.name);
        for op in ir.walk_ids() {
            if !ir.contains(op) || !ir.is::<Alloc>(op) {
                continue;
            }
            let Some(local) = self.local(ir, op, far)? else {
                continue;
            };
            drop_deallocs(ir, &local);
            let loc = ir.loc(op);
            let done = if self.ring {
                ring::make(ir, &local)
            } else {
                Ok(false)
            };
            done.and_then(|done| if done { Ok(()) } else { rotate(ir, &local) })
                .map_err(|e| (*e).or_at(loc))?;
        }
        Ok(())
    }
}

/// The loops around an op, outermost first; `None` if the iterations of one are not known.
pub(crate) fn nest_of(ir: &Ir, op: OpId) -> Option<Vec<Counter>> {
    let around = std::iter::successors(ir.parent(op), |op| ir.parent(*op));
    let loops = around.filter(|op| ir.is::<For>(*op));
    let mut nest: Vec<Counter> = loops.map(|op| Counter::of(ir, op)).collect::<Option<_>>()?;
    nest.reverse();
    Some(nest)
}

/// Whether a buffer may get another type: all that may lie in it are views whose types follow from
/// its type, and no op uses them that could want one type, as a call does. What becomes a result or
/// a block argument by other ops has a type that others share, and may be used in another
/// iteration.
fn only_viewed(ir: &Ir, memref: Value) -> bool {
    let follows = |value: Value| {
        let by = ir.owner(value);
        by.is_some_and(|op| {
            ir.is::<SubView>(op) || ir.is::<CollapseShape>(op) || ir.is::<ExpandShape>(op)
        })
    };
    let known = |value: Value| ir.uses(value).all(|u| ir.effects(u.op).is_some());
    let mut all = aliases(ir, memref).into_iter();
    all.all(|value| (value == memref || follows(value)) && known(value))
}

fn drop_deallocs(ir: &mut Ir, local: &Local) {
    let uses: Vec<OpId> = ir.uses(local.memref).map(|u| u.op).collect();
    for op in uses {
        if ended(ir, op) == Some(local.memref) {
            ir.erase(op);
        }
    }
}

/// A buffer before all loops with the name of a local one.
pub(crate) fn hoisted(ir: &mut Ir, local: &Local, shape: Vec<i64>) -> Value {
    let ty = Type::new(MemRefType {
        shape,
        ..local.ty.clone()
    });
    let alignment = ir.get::<Alloc>(local.op).and_then(|a| a.alignment);
    let hint = ir.hint(local.memref);
    let loc = ir.loc(local.op);
    let mut b = ir.at(At::Before(local.nest[0].op));
    b.loc = loc;
    let new = b.add(Alloc {
        alignment,
        ..Alloc::new(ty)
    });
    ir.set_hint(new, hint);
    if let (Some(number), Some(op)) = (ir.attr(local.op, BUFFER), ir.owner(new)) {
        ir.set_attr(op, BUFFER, number);
    }
    new
}

fn rotate(ir: &mut Ir, local: &Local) -> Result<(), Failure> {
    let slots = local.depth.min(total(&local.nest));
    if slots <= 1 {
        ir.move_op(local.op, At::Before(local.nest[0].op));
        return Ok(());
    }
    let read = ahead(ir, local);
    let shape = &local.ty.shape;
    let mut long = vec![slots];
    long.extend(shape);
    let new = hoisted(ir, local, long);
    // For what tells of buffers: how many tiles lie in this one.
    if let Some(op) = ir.owner(new) {
        ir.set_attr(op, DEPTH, tir::Attr::i64(slots));
    }
    let mut b = ir.at(At::Before(local.op));
    let slot = linear(&mut b, &local.nest).modulo(&mut b, slots);
    let mut offsets = vec![slot];
    offsets.resize(shape.len() + 1, OpFoldResult::Number(0));
    let mut sizes = vec![1];
    sizes.extend(shape);
    let view = sub_view(&mut b, new, &offsets, &sizes, shape)?;
    let ty = ir.ty(view);
    retype(ir, local.memref, ty)?;
    ir.replace(local.op, &[view]);
    if let Some(read) = read {
        ir.set_attr(read, Name::new(AHEAD), tir::Attr::i64(slots - 1));
    }
    Ok(())
}

/// The transfer that fills a buffer, if it may be started in an earlier iteration: it is the only
/// writer, comes before all readers, and its source stands still in the innermost loop.
fn ahead(ir: &Ir, local: &Local) -> Option<OpId> {
    let read = only_writer(ir, local)?;
    let inner = local.nest.last()?;
    let op = ir.get::<TransferRead>(read)?;
    let mut values = op.offsets.clone();
    values.extend(op.padding);
    slice(ir, &values, inner.op)?;
    (!writes(ir, inner.op, &origins(ir, op.source))).then_some(read)
}

/// The transfer that alone writes a buffer, beside its allocation and before all readers.
pub(crate) fn only_writer(ir: &Ir, local: &Local) -> Option<OpId> {
    let block = ir.block_of(local.op)?;
    if ir.block_parent(block) != local.nest.last().map(|c| c.op) {
        return None;
    }
    let mut reads = ir.uses(local.memref).filter(|u| {
        ir.get::<TransferRead>(u.op)
            .is_some_and(|t| t.tile == local.memref && t.source != local.memref)
    });
    let read = reads.next()?.op;
    if reads.next().is_some() || ir.block_of(read) != Some(block) {
        return None;
    }
    let buffer = origins(ir, local.memref);
    for value in aliases(ir, local.memref) {
        for u in ir.uses(value) {
            if u.op == read || ir.is_pure(u.op) {
                continue;
            }
            let at = ir.ancestor_in(u.op, block)?;
            if writes(ir, u.op, &buffer) || !ir.is_before(read, at) {
                return None;
            }
        }
    }
    Some(read)
}
