//! Rings: a window that slides over its source keeps its rows, and only new ones are loaded.
//!
//! Row `k` of the window of iteration `i` is row `i·step + k` of the sweep, and lies in place
//! `(i·step + k + shift) mod size` of the ring. The size is a multiple of the step, and the shift
//! puts each block of `step` new rows on a multiple of it, so that a block never wraps. A row is a position
//! in one dimension of the tile: other dimensions may move along the source as well, as those do that lay
//! pixels of several lines side by side for a unit.
//!
//! A *sweep* is what the loop that slides goes through. Where loops around it begin another sweep, and there is
//! room for two windows, the first window of the next sweep follows the last one of this sweep in the ring, and
//! is loaded ahead as well, block by block.

use tir::{At, Builder, Failure, Ir, Layout, Mapping, MemRefType, OpId, Ret, Type, Value};
use tir_memref::alias::origins;
use tir_memref::{CollapseShape, SubView, TransferRead, view_groups};

use crate::index::{Counter, copy, guard, indices, linear, slice, total, writes};
use crate::multi_buffer::{Local, hoisted, only_writer};
use crate::prefetch::EARLY;
use crate::range::growth;
use crate::views::{retype, sub_view};
use tir_arith::{CmpIPredicate, OpFoldResult, dispatch_values, mixed_values};

struct Ring {
    read: OpId,
    record: TransferRead,
    /// Dimension of the tile whose positions are rows.
    row: usize,
    /// Dimension of the source that the window slides in.
    along: usize,
    /// How far one row is from the next there.
    pitch: i64,
    rows: i64,
    step: i64,
    size: i64,
    shift: i64,
    ahead: i64,
    counter: Counter,
    /// Loops around that one whose sweeps follow each other in the ring, and it.
    nest: Vec<Counter>,
    readers: Vec<Reader>,
    /// What computes the offsets in the loop.
    slice: Vec<OpId>,
}

/// A view of a row of the window.
struct Reader {
    op: OpId,
    /// The view of the buffer that it is a part of, whose dimensions may be several of the buffer's: they
    /// are one without the rows.
    whole: Option<OpId>,
    /// The dimension of that view, or of the buffer, whose positions are rows.
    row: usize,
}

/// Makes a ring of a buffer, if it is a window that slides.
pub(crate) fn make(ir: &mut Ir, local: &Local) -> Result<bool, Failure> {
    let Some(ring) = find(ir, local) else {
        return Ok(false);
    };
    let mut shape = local.ty.shape.clone();
    shape[ring.row] = ring.size;
    let buffer = hoisted(ir, local, shape);

    // The first window, and the blocks of the next iterations as far as they are loaded ahead.
    let mut b = ir.at(At::Before(ring.nest[0].op));
    let first = OpFoldResult::Number(ring.shift);
    let begin = OpFoldResult::Number(0);
    ring.load(&mut b, local, buffer, begin, 0, ring.rows, first)?;
    for i in 1..ring.ahead.min(ring.counter.trips) {
        ring.block(&mut b, local, buffer, OpFoldResult::Number(i))?;
    }

    // In the loop: the block of an iteration to come, or the first window of the next sweep.
    let mut b = ir.at(At::Before(local.op));
    let count = ring.counter.count(&mut b);
    let now = linear(&mut b, &ring.nest);
    let target = now.plus(&mut b, ring.ahead);
    if ring.counter.trips > ring.ahead.max(1) {
        let next = count.plus(&mut b, ring.ahead);
        let condition = match ring.ahead {
            0 => next.compare(&mut b, CmpIPredicate::Sgt, 0),
            _ => next.compare(&mut b, CmpIPredicate::Slt, ring.counter.trips),
        };
        ring.block(&mut ring.early(&mut b, condition), local, buffer, target)?;
    }
    let sweeps = total(&ring.nest) / ring.counter.trips;
    if sweeps > 1 {
        // It is the first one of a sweep, and there is that sweep.
        let begins = target.modulo(&mut b, ring.counter.trips);
        let beyond = target.floor_div(&mut b, total(&ring.nest));
        let condition = begins
            .plus(&mut b, beyond)
            .compare(&mut b, CmpIPredicate::Eq, 0);
        ring.window(&mut ring.early(&mut b, condition), local, buffer, target)?;
    }
    let start = ring.start(&mut b, now);

    ir.erase(ring.read);
    for reader in &ring.readers {
        let source = match reader.whole {
            Some(whole) => ring.whole(ir, whole, reader.row, buffer),
            None => buffer,
        };
        ring.redirect(ir, reader, source, start)?;
        let whole = reader.whole.filter(|op| ir.is_unused(ir.result(*op, 0)));
        whole.into_iter().for_each(|op| ir.erase(op));
    }
    ir.erase(local.op);
    Ok(true)
}

/// Whether a buffer is a window that slides.
pub(crate) fn slides(ir: &Ir, local: &Local) -> bool {
    find(ir, local).is_some()
}

fn find(ir: &Ir, local: &Local) -> Option<Ring> {
    let read = only_writer(ir, local)?;
    let record = ir.get::<TransferRead>(read)?;
    let counter = *local.nest.last()?;
    if counter.trips < 2 || writes(ir, counter.op, &origins(ir, record.source)) {
        return None;
    }
    // One dimension of the source slides, all others stand still.
    let offsets = mixed_values(&record.offsets, &record.static_offsets);
    let mut along = None;
    for (s, offset) in offsets.iter().enumerate() {
        let OpFoldResult::Value(value) = offset else {
            continue;
        };
        match growth(ir, *value, counter.iv, counter.op)? {
            0 => {}
            n if n > 0 && along.is_none() => along = Some((s, n.checked_mul(counter.step)?)),
            _ => return None,
        }
    }
    let (along, moved) = along?;
    let forms = record.access.linear()?;
    let rows = forms[along].terms().find_map(|(row, pitch)| {
        let alone = forms.iter().filter(|form| form.at(row) != 0).count() == 1;
        let step = moved.checked_div(pitch)?;
        let slides = pitch > 0 && moved % pitch == 0 && step < local.ty.shape[row];
        let readers = readers(ir, local, read, row).filter(|_| alone && slides)?;
        Some((row, pitch, step, readers))
    });
    let (row, pitch, step, readers) = rows?;
    let rows = local.ty.shape[row];
    let mut values = record.offsets.clone();
    values.extend(record.padding);
    let ahead = (local.depth - 1).min(counter.trips - 1);
    let up = |n: i64| (n + step - 1) / step * step;
    // Sweeps follow each other where nothing but the loop that slides stands in a loop around it.
    let mut outer = local.nest.len() - 1;
    let (source, follows) = (origins(ir, record.source), local.sweeps && ahead == 1);
    while follows && outer > 0 {
        let around = local.nest[outer - 1];
        let inside = ir.parent(local.nest[outer].op) == Some(around.op);
        if !inside || writes(ir, around.op, &source) || slice(ir, &values, around.op).is_none() {
            break;
        }
        outer -= 1;
    }
    let nest = local.nest[outer..].to_vec();
    let slice = slice(ir, &values, nest[0].op)?;
    let size = match total(&nest) > counter.trips {
        true => 2 * up(rows),
        false => up(rows + step * ahead),
    };
    Some(Ring {
        read,
        along,
        pitch,
        row,
        rows,
        step,
        size,
        shift: up(rows) - rows,
        ahead,
        counter,
        nest,
        readers,
        slice,
        record,
    })
}

/// All that reads a buffer but the transfer that fills it, if each takes one row.
fn readers(ir: &Ir, local: &Local, read: OpId, row: usize) -> Option<Vec<Reader>> {
    let mut readers = Vec::new();
    for u in ir.uses(local.memref) {
        if u.op == read {
            continue;
        }
        let Some(whole) = ir.get::<CollapseShape>(u.op) else {
            readers.push(reader(ir, u.op, local.memref, None, row)?);
            continue;
        };
        let groups = view_groups(&whole.reassociation, local.ty.shape.len())?;
        let inner = groups.iter().position(|group| group[..] == [row])?;
        let value = ir.result(u.op, 0);
        for part in ir.uses(value) {
            readers.push(reader(ir, part.op, value, Some(u.op), inner)?);
        }
    }
    Some(readers)
}

/// A view of one row of a buffer, or of a view of it.
fn reader(ir: &Ir, op: OpId, source: Value, whole: Option<OpId>, row: usize) -> Option<Reader> {
    let view = ir.get::<SubView>(op)?;
    let unit = view.static_strides.iter().all(|s| *s == 1);
    let one = view.static_sizes[row] == 1 && unit && view.source == source;
    one.then_some(Reader { op, whole, row })
}

impl Ring {
    /// Where the window of an iteration of the nest begins, but for where the ring ends.
    fn start(&self, b: &mut Builder<'_>, iteration: OpFoldResult) -> OpFoldResult {
        let mut start = iteration.times(b, self.step);
        if total(&self.nest) > self.counter.trips {
            // Each sweep is longer than its steps by a window without one of them.
            let sweep = iteration.floor_div(b, self.counter.trips);
            let more = sweep.times(b, self.rows + self.shift - self.step);
            start = start.plus(b, more);
        }
        start.plus(b, self.shift)
    }

    /// What is built in a branch for loads ahead.
    fn early<'b>(&self, b: &'b mut Builder<'_>, condition: Value) -> Builder<'b> {
        let at = guard(b, condition);
        let branch = match at {
            At::Before(end) => b.ir.parent(end),
            _ => None,
        };
        if let Some(branch) = branch.filter(|_| self.ahead > 0) {
            b.ir.set_attr(branch, EARLY, tir::Attr::unit());
        }
        Builder {
            ir: &mut *b.ir,
            at,
            loc: b.loc,
        }
    }

    /// Loads the rows that are new in an iteration.
    fn block(
        &self,
        b: &mut Builder<'_>,
        local: &Local,
        buffer: Value,
        iteration: OpFoldResult,
    ) -> Result<(), Failure> {
        let row = self.rows - self.step;
        let place = self.start(b, iteration).plus(b, row).modulo(b, self.size);
        self.load(b, local, buffer, iteration, row, self.step, place)
    }

    /// Loads all rows of the window of an iteration, in blocks that do not wrap.
    fn window(
        &self,
        b: &mut Builder<'_>,
        local: &Local,
        buffer: Value,
        iteration: OpFoldResult,
    ) -> Result<(), Failure> {
        let start = self.start(b, iteration);
        let mut row = 0;
        while row < self.rows {
            // The first block is short by the shift.
            let rows = match row {
                0 => self.step - self.shift,
                _ => self.step,
            };
            let place = start.plus(b, row).modulo(b, self.size);
            self.load(b, local, buffer, iteration, row, rows, place)?;
            row += rows;
        }
        Ok(())
    }

    /// Loads `rows` rows of an iteration's window from `first` on to a place of the ring.
    #[allow(clippy::too_many_arguments)]
    fn load(
        &self,
        b: &mut Builder<'_>,
        local: &Local,
        buffer: Value,
        iteration: OpFoldResult,
        first: i64,
        rows: i64,
        place: OpFoldResult,
    ) -> Result<(), Failure> {
        let mut map = Mapping::default();
        for (counter, index) in self.nest.iter().zip(indices(b, &self.nest, iteration)) {
            let index = index.value(b);
            map.map(counter.iv, index);
        }
        copy(b, &self.slice, &mut map);
        let mut offsets = mixed_values(&self.record.offsets, &self.record.static_offsets);
        for offset in &mut offsets {
            if let OpFoldResult::Value(value) = offset {
                *value = map.get(*value);
            }
        }
        offsets[self.along] = offsets[self.along].plus(b, first * self.pitch);
        let (offsets, static_offsets) = dispatch_values(&offsets);
        let mut shape = local.ty.shape.clone();
        shape[self.row] = rows;
        let mut at = vec![OpFoldResult::Number(0); shape.len()];
        at[self.row] = place;
        let tile = sub_view(b, buffer, &at, &shape, &shape)?;
        b.add(TransferRead {
            source: map.get(self.record.source),
            tile,
            offsets,
            padding: self.record.padding.map(|p| map.get(p)),
            static_offsets,
            access: self.record.access.clone(),
        });
        Ok(())
    }

    /// The ring as a view of the window shows it.
    fn whole(&self, ir: &mut Ir, view: OpId, row: usize, buffer: Value) -> Value {
        let old = ir.ty(ir.result(view, 0));
        let reassociation = ir.get::<CollapseShape>(view).map(|view| view.reassociation);
        let Some(ty) = old.get::<MemRefType>() else {
            return buffer;
        };
        let mut shape = ty.shape.clone();
        shape[row] = self.size;
        let mut b = ir.at(At::Before(view));
        // The ring is dense as the window was.
        b.add(CollapseShape {
            src: buffer,
            reassociation: reassociation.unwrap_or_default(),
            result: Ret(Type::new(MemRefType {
                shape,
                layout: Layout::Identity,
                ..ty.clone()
            })),
        })
    }

    /// Makes a view of a row of the window one of the ring.
    fn redirect(
        &self,
        ir: &mut Ir,
        of: &Reader,
        buffer: Value,
        start: OpFoldResult,
    ) -> Result<(), Failure> {
        let reader = of.op;
        let Some(view) = ir.get::<SubView>(reader) else {
            return Ok(());
        };
        let mut offsets = mixed_values(&view.offsets, &view.static_offsets);
        let mut b = ir.at(At::Before(reader));
        let row = offsets[of.row].plus(&mut b, start);
        offsets[of.row] = row.modulo(&mut b, self.size);
        let part = view.result.0.shape().unwrap_or(&[]).to_vec();
        let old = b.ir.result(reader, 0);
        let new = sub_view(&mut b, buffer, &offsets, &view.static_sizes, &part)?;
        let ty = ir.ty(new);
        retype(ir, old, ty)?;
        ir.replace(reader, &[new]);
        Ok(())
    }
}
