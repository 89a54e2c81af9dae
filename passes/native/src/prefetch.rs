//! `prefetch-tiles`: while a packed tile of a constant is used, the next one is fetched.
//!
//! Constants of a network are more than caches hold, so each of their tiles comes from memory, once in a run. A processor
//! fetches ahead what it sees to be read in a row, but not beyond what it will need at once: the first pass over a tile
//! waits for memory, and the others leave it idle.

use std::collections::HashMap;

use tir::{At, Attr, Ir, Mapping, MemRefType, OpId, Pass, PassCx, PassResult, Value, pass};
use tir_arith::{MinSI, OpFoldResult};
use tir_memref::{CollapseShape, ExpandShape, Prefetch, SubView, View};
use tir_vector::Load;

use crate::pack_constants::TILE;

pass! {
    /// With each vector of a packed tile that is read, the same one of the next tile is fetched.
    pub struct PrefetchTiles = "prefetch-tiles" on "func.func" {}
}

impl Pass for PrefetchTiles {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let mut next = HashMap::new();
        let mut fetched = 0;
        let loads = ir.walk_ids().into_iter();
        let loads: Vec<(OpId, Load)> = loads
            .filter_map(|op| Some((op, ir.get::<Load>(op)?)))
            .collect();
        for (op, load) in loads {
            let before = ir.prev(op).is_some_and(|before| ir.is::<Prefetch>(before));
            if before || !follows(ir, load.base) {
                continue;
            }
            if let Some(memref) = behind(ir, load.base, &mut next) {
                let indices = load.indices;
                ir.add(At::Before(op), Prefetch { memref, indices });
                fetched += 1;
            }
        }
        cx.count("vectors fetched", fetched);
        if fetched == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}

/// The buffer that a view is a part of.
fn source(ir: &Ir, op: OpId) -> Option<Value> {
    let part = ir.get::<SubView>(op).map(|view| view.source);
    let part = part.or_else(|| ir.get::<CollapseShape>(op).map(|view| view.src));
    part.or_else(|| ir.get::<ExpandShape>(op).map(|view| view.src))
}

/// Whether a buffer is a part of a packed tile.
fn follows(ir: &Ir, value: Value) -> bool {
    let Some(op) = ir.owner(value) else {
        return false;
    };
    match source(ir, op) {
        Some(source) => follows(ir, source),
        None => ir.is::<View>(op) && ir.attr(op, TILE).is_some(),
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
