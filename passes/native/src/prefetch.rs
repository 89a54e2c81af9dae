//! `prefetch-tiles`: while a packed tile of a constant is used, the next one is fetched.
//!
//! Constants of a network are more than caches hold, so each of their tiles comes from memory, once in a run. A processor
//! fetches ahead what it sees to be read in a row, but not beyond what it will need at once: the first pass over a tile
//! waits for memory, and the others leave it idle.
//!
//! *Terms.* A **part** is what loads read of a tile, a view of it. A **reading** is one of the times that all of a tile is
//! read: an iteration of loops that move none of its parts. Each reading fetches its **share** of the next tile, so that
//! memory delivers as steadily as the processor computes.

use std::collections::HashMap;

use tir::{
    At, Attr, Builder, Ir, Mapping, MemRefType, OpId, Pass, PassCx, PassResult, Value, pass,
};
use tir_arith::{DivUI, MinSI, OpFoldResult};
use tir_loop::For;
use tir_memref::{CollapseShape, ExpandShape, Prefetch, SubView, View};
use tir_vector::Load;

use crate::pack_constants::TILE;

/// Bytes that a processor fetches at once. Where its lines are of another length, some are fetched twice, or late.
const LINE: usize = 64;

pass! {
    /// While a packed tile is read, the next one is fetched: an equal share of it each time that the tile is read.
    pub struct PrefetchTiles = "prefetch-tiles" on "func.func" {}
}

impl Pass for PrefetchTiles {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        // In the order of the program.
        let mut parts: Vec<Part> = Vec::new();
        let mut place = HashMap::new();
        for op in ir.walk_ids() {
            let Some(load) = ir.get::<Load>(op) else {
                continue;
            };
            let buffer = load.base;
            if let Some(tile) = tile_of(ir, buffer) {
                let known = *place.entry(buffer).or_insert_with(|| {
                    parts.push(Part {
                        buffer,
                        tile,
                        loads: Vec::new(),
                    });
                    parts.len() - 1
                });
                parts[known].loads.push((op, load));
            }
        }
        let (mut next, mut fetched) = (HashMap::new(), 0);
        for part in &parts {
            let Some(memref) = behind(ir, part.buffer, &mut next) else {
                continue;
            };
            let readings = Readings::of(ir, part.buffer, part.tile);
            if let Some(lines) = readings.fetch(ir, part.buffer, memref) {
                fetched += lines;
                continue;
            }
            for (op, load) in &part.loads {
                let indices = load.indices.clone();
                ir.add(At::Before(*op), Prefetch { memref, indices });
                fetched += 1;
            }
        }
        // What is behind them is fetched from now on.
        for part in parts {
            ir.remove_attr(part.tile, TILE);
        }
        cx.count("fetches", fetched);
        if fetched == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}

/// A part of a tile.
struct Part {
    buffer: Value,
    /// The view that is the tile.
    tile: OpId,
    /// The loads of vectors from it.
    loads: Vec<(OpId, Load)>,
}

/// The buffer that a view is a part of.
fn source(ir: &Ir, op: OpId) -> Option<Value> {
    let part = ir.get::<SubView>(op).map(|view| view.source);
    let part = part.or_else(|| ir.get::<CollapseShape>(op).map(|view| view.src));
    part.or_else(|| ir.get::<ExpandShape>(op).map(|view| view.src))
}

/// The view that is the packed tile which a buffer is a part of.
fn tile_of(ir: &Ir, value: Value) -> Option<OpId> {
    let op = ir.owner(value)?;
    match source(ir, op) {
        Some(source) => tile_of(ir, source),
        None => (ir.is::<View>(op) && ir.attr(op, TILE).is_some()).then_some(op),
    }
}

/// The same part of the tile behind, or of the same one if it is the last.
fn behind(ir: &mut Ir, value: Value, known: &mut HashMap<Value, Value>) -> Option<Value> {
    if let Some(found) = known.get(&value) {
        return Some(*found);
    }
    let op = ir.owner(value)?;
    let found = match source(ir, op) {
        Some(source) => {
            let mut map = Mapping::default();
            map.map(source, behind(ir, source, known)?);
            let copy = ir.duplicate(op, At::After(op), &mut map);
            ir.result(copy, 0)
        }
        None => {
            let view = ir.get::<View>(op)?;
            let tile = ir.attr(op, TILE).and_then(Attr::as_int)?;
            let all: &MemRefType = ir.ty(view.source).get()?;
            let last = all.shape.first()? - tile;
            let mut b = ir.at(At::After(op));
            let shift = OpFoldResult::Value(view.byte_shift).plus(&mut b, tile);
            let (lhs, rhs) = (
                shift.value(&mut b),
                OpFoldResult::Number(last).value(&mut b),
            );
            let byte_shift = b.add(MinSI { lhs, rhs });
            b.add(View { byte_shift, ..view })
        }
    };
    known.insert(value, found);
    Some(found)
}

/// How a value changes with the counter of a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Not at all.
    Never,
    /// Once in so many iterations, counted from a counter of zero.
    Every(i64),
}

impl Change {
    fn of(ir: &Ir, value: Value, counter: Value) -> Self {
        if value == counter {
            return Change::Every(1);
        }
        let Some(op) = ir.owner(value) else {
            return Change::Never;
        };
        if let Some(div) = ir.get::<DivUI>(op).filter(|div| div.lhs == counter) {
            let by = ir.constant_int(div.rhs).filter(|by| *by > 0);
            return Change::Every(by.unwrap_or(1));
        }
        let operands = ir
            .operands(op)
            .map(|operand| Self::of(ir, operand, counter));
        operands.fold(Change::Never, Self::both)
    }

    fn both(self, other: Self) -> Self {
        match (self, other) {
            (Change::Never, other) => other,
            (one, Change::Never) => one,
            (Change::Every(a), Change::Every(b)) if a % b == 0 => Change::Every(b),
            (Change::Every(a), Change::Every(b)) if b % a == 0 => Change::Every(a),
            _ => Change::Every(1),
        }
    }
}

/// A loop that reads a tile several times.
#[derive(Clone, Copy)]
struct Repeat {
    counter: Value,
    /// The first value of the counter, and its step.
    low: i64,
    step: i64,
    times: i64,
    /// Whether it goes on to another tile behind them.
    moves_on: bool,
}

/// The readings of a tile.
struct Readings(Vec<Repeat>);

impl Readings {
    /// Those that loops around a part make, from where its tile is chosen on.
    fn of(ir: &Ir, part: Value, tile: OpId) -> Self {
        // What says where the part lies in all tiles.
        let (mut places, mut view) = (Vec::new(), ir.owner(part));
        while let Some(op) = view {
            let from = source(ir, op);
            places.extend(ir.operands(op).filter(|value| Some(*value) != from));
            view = from.and_then(|from| ir.owner(from));
        }
        let (mut repeats, mut inner) = (Vec::new(), ir.owner(part));
        let chosen = ir.parent(tile);
        while let Some(op) = inner.and_then(|op| ir.parent(op)) {
            inner = Some(op);
            if let Some(looped) = ir.get::<For>(op) {
                repeats.extend(Repeat::of(ir, &looped, &places));
            }
            if Some(op) == chosen {
                break;
            }
        }
        repeats.reverse();
        Self(repeats)
    }

    /// Fetches a share of what is behind a part with each reading, where the part begins: how many fetches that takes. None
    /// if the part is read once, or has no fixed size.
    fn fetch(&self, ir: &mut Ir, part: Value, behind: Value) -> Option<usize> {
        let readings: i64 = self.0.iter().map(|repeat| repeat.times).product();
        let memref: &MemRefType = ir.ty(part).get()?;
        let (shape, elem) = (memref.shape.clone(), ir.ty(part).elem().bytes()?);
        let in_line = (LINE / elem).max(1) as i64;
        if readings < 2 || shape.contains(&tir::DYNAMIC) {
            return None;
        }
        let size: i64 = shape.iter().product();
        let lines = (size + in_line - 1) / in_line;
        let share = (lines + readings - 1) / readings;
        let mut b = ir.at(At::After(ir.owner(behind)?));
        let mut reading = OpFoldResult::Number(0);
        for repeat in &self.0 {
            let number = repeat.number(&mut b);
            reading = reading.times(&mut b, repeat.times).plus(&mut b, number);
        }
        // Shares overlap where they are not equal, and none goes beyond the part.
        let first = reading.times(&mut b, lines).floor_div(&mut b, readings);
        for line in 0..share {
            let line = first.plus(&mut b, line);
            let indices = element(&mut b, &shape, line, in_line);
            b.add(Prefetch {
                memref: behind,
                indices,
            });
        }
        Some(share as usize)
    }
}

impl Repeat {
    /// The loop, if there are iterations of it that have places in common.
    fn of(ir: &Ir, looped: &For, places: &[Value]) -> Option<Self> {
        let counter = ir.args(ir.entry(looped.body)?).next()?;
        let change = places.iter().map(|place| Change::of(ir, *place, counter));
        match change.fold(Change::Never, Change::both) {
            Change::Never => {
                let [low, _, step] = looped.static_range()?;
                let times = looped.trip_count()?;
                (times > 1).then_some(Self {
                    counter,
                    low,
                    step,
                    times,
                    moves_on: false,
                })
            }
            Change::Every(1) => None,
            Change::Every(times) => Some(Self {
                counter,
                low: 0,
                step: 1,
                times,
                moves_on: true,
            }),
        }
    }

    /// Which of them an iteration is.
    fn number(&self, b: &mut Builder<'_>) -> OpFoldResult {
        let number = OpFoldResult::Value(self.counter).minus(b, self.low);
        let number = number.floor_div(b, self.step);
        match self.moves_on {
            true => number.modulo(b, self.times),
            false => number,
        }
    }
}

/// The indices of a line's first element, lines counted through a shape.
fn element(b: &mut Builder<'_>, shape: &[i64], line: OpFoldResult, in_line: i64) -> Vec<Value> {
    let mut left = line.times(b, in_line);
    let mut indices = Vec::new();
    for (d, size) in shape.iter().enumerate().rev() {
        if d == 0 {
            indices.push(left.value(b));
            break;
        }
        let at = left.modulo(b, *size);
        indices.push(at.value(b));
        left = left.floor_div(b, *size);
    }
    indices.reverse();
    indices
}
