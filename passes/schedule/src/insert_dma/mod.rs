//! `insert-dma`: what crosses spaces becomes a transfer of the engine between them.
//!
//! A transfer of more dimensions than its engine has becomes a loop of transfers; a tile that may
//! stick out of its source is covered by pieces where the engine cannot pad (`cover`). What the
//! program thread has to move itself is reported in a remark. Fills of near buffers are transfers too, where an
//! engine pads (`fill`).

mod cover;
mod crowded;
mod fill;
mod pass_on;

use std::collections::HashSet;

use tir::remarks::{SPLIT_TRANSFER, THREAD_TRANSFER};
use tir::{At, Builder, Diagnostic, Failure, Ir, OpId, Sym};
use tir_accel::machine::EngineInfo;
use tir_accel::transfer::Pattern;
use tir_accel::{Direction, DmaStart, MachineInfo};

pub use crate::passes::InsertDma;

use crate::index::drop_unused;
use crate::prefetch::prefetch;
use crate::range::{Facts, inside};
use crate::spread::{mark_cut, pieces, spread};
use crate::staging::stage;
use crate::transfer::Transfer;
use cover::Cover;
pub(crate) use cover::each;
pub(crate) use fill::filled;
use tir_arith::dispatch_values;

impl InsertDma {
    /// Runs on the function at the root of an arena. Gives a remark for each transfer between
    /// spaces that the program thread has to do, or a part of it, and for loads ahead that it waits to start.
    pub fn apply(&self, ir: &mut Ir, machine: &MachineInfo) -> Result<Vec<Diagnostic>, Failure> {
        let (mut remarks, mut known) = (Vec::new(), HashSet::new());
        stage(ir, machine)?;
        if self.prefetch {
            prefetch(ir, machine, &[]);
        }
        fill::fills(ir, machine)?;
        pass_on::pass_on(ir, machine);
        for op in ir.walk_ids() {
            let Some(transfer) = Transfer::of(ir, op) else {
                continue;
            };
            let (loc, name) = (ir.loc(op), ir.name(op));
            let done = convert(ir, op, &transfer, machine, self.spread);
            let remark =
                done.map_err(|e| Box::new((*e).or_at(loc).context(format_args!("'{name}': "))))?;
            // Copies of one transfer have one place, and are reported once.
            if let Some((category, text)) = remark
                && known.insert((loc, text.clone()))
            {
                remarks.push(Diagnostic::remark(text).category(category).at(loc));
            }
        }
        remarks.extend(spread(ir, machine, self.spread));
        remarks.extend(crowded::crowded(ir, machine));
        drop_unused(ir);
        Ok(remarks)
    }
}

/// Gives category and text of a remark where the thread moves something or the engine takes several
/// starts.
fn convert(
    ir: &mut Ir,
    op: OpId,
    t: &Transfer,
    machine: &MachineInfo,
    spread: bool,
) -> Result<Option<(&'static str, String)>, Failure> {
    let Some([from, to]) = t.spaces(ir, machine) else {
        return Ok(None);
    };
    let Some(engine) = machine.engine_between(from, to) else {
        let text = match from == to {
            true => format!("the program thread copies this within \"{from}\": no engine does"),
            false => format!(
                "the program thread moves this tile: no engine goes from \"{from}\" to \"{to}\""
            ),
        };
        // Of copies between tiles it is said where they are made.
        let told = from != to || machine.far().is_some_and(|far| far.name == from);
        return Ok(told.then_some((THREAD_TRANSFER, text)));
    };
    let pattern = Pattern::new(ir.ty(t.far), ir.ty(t.tile), &t.access)?;
    let facts = Facts::at(ir, op);
    let out = may_leave(ir, &facts, t, &pattern);
    let mut b = ir.at(At::Before(op));
    let mut remark = None;
    if t.direction == Direction::Read && !engine.pad && out.contains(&true) {
        let cover = Cover {
            engine,
            machine,
            facts,
        };
        cover.read(&mut b, t.clone(), &vec![false; pattern.far_shape.len()])?;
        let text = format!(
            "the program thread moves a part of this tile: it may lie outside of its source, and \
             @{} cannot pad",
            engine.name
        );
        remark = Some((THREAD_TRANSFER, text));
    } else {
        let (most, dims) = (pattern.most_dims(&out), engine.dims);
        if i64::try_from(most).unwrap_or(i64::MAX) > dims {
            let text = format!(
                "this transfer becomes several: it has {most} dimensions, @{} takes {dims}",
                engine.name
            );
            remark = Some((SPLIT_TRANSFER, text));
        }
        // What becomes several starts anyway is spread as they are.
        let loops = i64::try_from(most).is_ok_and(|most| most > dims);
        let dim = pattern.split(&out, usize::try_from(dims).unwrap_or(0));
        let starts = dim
            .filter(|_| loops)
            .map_or(1, |dim| pattern.tile_shape[dim]);
        let pieces = match spread {
            true => pieces(b.ir, op, &pattern, machine, engine, starts),
            false => None,
        };
        let whole = [t.clone()].to_vec();
        let parts = pieces.map_or(Ok(whole), |(dim, count)| {
            let size = pattern.tile_shape[dim];
            let ends = (0..=count).map(|i| size * i / count).collect::<Vec<i64>>();
            let one = |ends: &[i64]| t.part(&mut b, dim, ends[0], ends[1] - ends[0]);
            ends.windows(2)
                .map(one)
                .collect::<Result<Vec<Transfer>, Failure>>()
        });
        for part in parts? {
            start(&mut b, part, engine, &out)?;
        }
        if pieces.is_some() {
            mark_cut(b.ir, op);
        }
    }
    ir.erase(op);
    Ok(remark)
}

/// For each dimension of the tile, whether positions of it may lie outside of the large buffer.
fn may_leave(ir: &Ir, facts: &Facts, t: &Transfer, pattern: &Pattern) -> Vec<bool> {
    let rank = pattern.tile_shape.len();
    let mut out = vec![false; rank];
    for (s, form) in pattern.access.iter().enumerate() {
        let inside = inside(
            ir,
            facts,
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
    let pattern = Pattern::new(b.ty(t.far), b.ty(t.tile), &t.access)?;
    let dims = usize::try_from(engine.dims).unwrap_or(0);
    if pattern.most_dims(out) <= dims {
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
        .split(out, dims)
        .ok_or("has too many dimensions for its engine")?;
    let shape = b.ty(t.tile).shape().unwrap_or(&[]).to_vec();
    let mut rest = out.to_vec();
    let left = rest.remove(dim);
    if left && let Some(first) = rest.first_mut() {
        *first = true;
    }
    each(b, shape[dim], |b, i| {
        let one = t.position(b, &shape, dim, i)?;
        start(b, one, engine, &rest)
    })
}
