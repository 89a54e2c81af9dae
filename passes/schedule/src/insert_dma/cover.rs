//! Transfers of tiles that may stick out of their source, by an engine that cannot pad.
//!
//! Such a tile is covered by pieces. Positions that lie inside whatever the offsets are go to the
//! engine; so does a piece of which that shows only when the program runs, in a branch that asks.
//! What is left, the borders, is filled and copied by the program thread, and so is a piece for
//! which starting the engine takes longer than the thread does.

use tir::{Builder, Failure, Interval, LinearExpr, RegionId, Rets, Type, Value};
use tir_accel::MachineInfo;
use tir_accel::machine::EngineInfo;
use tir_accel::transfer::Pattern;
use tir_arith::{AndI, CmpIPredicate, OpFoldResult, dispatch_values};
use tir_loop::{Bounds, For, If, Yield};
use tir_memref::TransferRead;

use super::start;
use crate::range::Facts;
use crate::transfer::Transfer;

/// A tile on its way to pieces.
pub(super) struct Cover<'a> {
    pub engine: &'a EngineInfo,
    /// The machine: what the thread takes.
    pub machine: &'a MachineInfo,
    /// What holds where the tile is transferred.
    pub facts: Facts,
}

/// What of a piece lies inside along one dimension of the source.
enum Reach {
    /// All of it, always.
    Inside,
    /// None of it, ever.
    Outside,
    /// Not known; positions of the piece from the first up to the second are always inside.
    Open(i64, i64),
}

impl Cover<'_> {
    /// Covers a tile that is read. `inside` says along which dimensions of the source it is known
    /// to lie inside.
    pub(super) fn read(
        &self,
        b: &mut Builder<'_>,
        t: Transfer,
        inside: &[bool],
    ) -> Result<(), Failure> {
        let pattern = Pattern::new(b.ty(t.far), b.ty(t.tile), &t.access)?;
        if !self.pays(&pattern) {
            return by_thread(b, t);
        }
        let mut open = None;
        for (s, form) in pattern.access.iter().enumerate() {
            if inside[s] {
                continue;
            }
            match self.reach(b, &t, form, &pattern, s) {
                Reach::Inside => {}
                Reach::Outside => return by_thread(b, t),
                Reach::Open(from, to) => open = open.or(Some((s, from, to))),
            }
        }
        let Some((s, from, to)) = open else {
            let padding = None;
            let out = vec![false; pattern.tile_shape.len()];
            return start(b, Transfer { padding, ..t }, self.engine, &out);
        };
        let along = leading(&pattern.access[s], &pattern.tile_shape);
        if let Some(d) = along
            && from < to
        {
            let n = pattern.tile_shape[d];
            for (from, to) in [(0, from), (from, to), (to, n)] {
                if from < to {
                    let piece = t.part(b, d, from, to - from)?;
                    self.read(b, piece, inside)?;
                }
            }
            return Ok(());
        }
        self.asked(b, t, &pattern, s, along, inside)
    }

    /// Whether the engine is quicker than the thread, which loads and stores each element.
    fn pays(&self, pattern: &Pattern) -> bool {
        let elements = pattern
            .tile_shape
            .iter()
            .fold(1i64, |n, d| n.saturating_mul(*d));
        let bytes = elements.saturating_mul(pattern.elem);
        let engine = self.engine.latency + bytes / self.engine.bytes_per_cycle.max(1);
        let thread = self.machine.thread_cycles(2 * elements as u64);
        i64::try_from(thread).unwrap_or(i64::MAX) > engine
    }

    fn reach(
        &self,
        b: &Builder<'_>,
        t: &Transfer,
        form: &LinearExpr,
        pattern: &Pattern,
        s: usize,
    ) -> Reach {
        let size = pattern.far_shape[s];
        let unknown = Reach::Open(0, 0);
        let offset = self.facts.of(b.ir, t.offsets[s]);
        let Some((offset, own)) = offset.zip(form.range(&pattern.tile_shape)) else {
            return unknown;
        };
        let Some(all) = offset.plus(own) else {
            return unknown;
        };
        if all.is_inside(size) {
            return Reach::Inside;
        }
        if all.high < 0 || all.low >= size {
            return Reach::Outside;
        }
        let Some(d) = leading(form, &pattern.tile_shape) else {
            return unknown;
        };
        let (c, n) = (form.at(d), pattern.tile_shape[d]);
        if c <= 0 {
            return unknown;
        }
        // Where position 0 along the dimension begins and ends.
        let Interval { low, high } = all;
        let high = high - c * (n - 1);
        // Position i is inside if low + c·i >= 0 and high + c·i < size.
        let from = (-low).max(0).div_euclid(c) + i64::from((-low).max(0) % c != 0);
        let to = ((size - 1 - high).div_euclid(c) + 1).clamp(0, n);
        Reach::Open(from.min(n), to)
    }

    /// Asks, when the program runs, whether the whole piece lies inside along a dimension.
    fn asked(
        &self,
        b: &mut Builder<'_>,
        t: Transfer,
        pattern: &Pattern,
        s: usize,
        along: Option<usize>,
        inside: &[bool],
    ) -> Result<(), Failure> {
        let shape = &pattern.tile_shape;
        // Some positions may be inside where the piece is not.
        let by_position = |b: &mut Builder<'_>| match along {
            Some(d) => each(b, shape[d], |b, i| {
                let one = t.position(b, shape, d, i)?;
                self.read(b, one, inside)
            }),
            None => by_thread(b, t.clone()),
        };
        let own = pattern.access[s].range(shape);
        let (Some(own), OpFoldResult::Value(_)) = (own, t.offsets[s]) else {
            return by_position(b);
        };
        let offset = t.offsets[s];
        let low = offset.compare(b, CmpIPredicate::Sge, -own.low);
        let high = offset.compare(b, CmpIPredicate::Slt, pattern.far_shape[s] - own.high);
        let condition = b.add(AndI {
            lhs: low,
            rhs: high,
        });
        let mut known = inside.to_vec();
        known[s] = true;
        let (then_region, then) = region(b, |b| self.read(b, t.clone(), &known));
        let (else_region, other) = region(b, by_position);
        b.add(If {
            condition,
            then_region,
            else_region,
            results: Rets(vec![]),
        });
        then.and(other)
    }
}

/// The dimension of the tile, of those with several positions, that moves furthest in a dimension of
/// the source: blocks before what is inside of one.
fn leading(form: &LinearExpr, shape: &[i64]) -> Option<usize> {
    let terms = form.terms().filter(|(d, _)| shape[*d] > 1);
    terms.max_by_key(|(_, c)| c.abs()).map(|(d, _)| d)
}

/// The thread moves a tile itself.
fn by_thread(b: &mut Builder<'_>, t: Transfer) -> Result<(), Failure> {
    let (offsets, static_offsets) = dispatch_values(&t.offsets);
    b.add(TransferRead {
        source: t.far,
        tile: t.tile,
        offsets,
        padding: t.padding,
        static_offsets,
        access: t.access,
    });
    Ok(())
}

fn region(
    b: &mut Builder<'_>,
    fill: impl FnOnce(&mut Builder<'_>) -> Result<(), Failure>,
) -> (RegionId, Result<(), Failure>) {
    let mut done = Ok(());
    let region = b.body(&[], |b, _| {
        done = fill(b);
        b.add(Yield { values: vec![] });
    });
    (region, done)
}

/// A loop over the positions of a dimension of a tile.
pub(crate) fn each(
    b: &mut Builder<'_>,
    count: i64,
    fill: impl FnOnce(&mut Builder<'_>, Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut done = Ok(());
    let body = b.body(&[Type::index()], |b, args| {
        done = fill(b, args[0]);
        b.add(Yield { values: vec![] });
    });
    let bounds = [Bounds::Static(0), Bounds::Static(count), Bounds::Static(1)];
    b.add(For::new(bounds, vec![], body, vec![]));
    done
}
