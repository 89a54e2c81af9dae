//! Where planned buffers lie, and whether that is inside of their allocations and spaces.

use std::collections::{BTreeSet, HashMap};

use tir::{Diagnostic, Ir, MemRefType, OpId, Value};
use tir_accel::MachineInfo;
use tir_memref::{Alloc, View};

use super::{hand_on, handed};
use crate::held::{bytes, each_point, space};

/// A view of a byte allocation.
pub(super) struct Placed {
    pub(super) op: OpId,
    pub(super) view: Value,
    pub(super) arena: OpId,
    pub(super) from: i64,
    pub(super) to: i64,
    /// Whether it lies there for certain.
    pub(super) certain: bool,
}

/// All planned buffers, in the order of the text; what is wrong with the place of one comes to `out`.
pub(super) fn places(ir: &Ir, machine: &MachineInfo, out: &mut Vec<Diagnostic>) -> Vec<Placed> {
    let ops = ir.walk_ids();
    let mut arenas: HashMap<Value, BTreeSet<OpId>> = HashMap::new();
    for op in ops.iter().filter(|op| ir.is::<Alloc>(**op)) {
        arenas.insert(ir.result(*op, 0), BTreeSet::from([*op]));
    }
    // What is made of a planned buffer by `memref.view` is a view of that, and no buffer of its own.
    let mut pairs = handed(ir, &ops);
    pairs.retain(|(_, to)| !ir.owner(*to).is_some_and(|op| ir.is::<View>(op)));
    hand_on(&mut arenas, &pairs);
    let mut all = Vec::new();
    for op in &ops {
        let Some(view) = ir.get::<View>(*op) else {
            continue;
        };
        let lies_in: Vec<OpId> = arenas
            .get(&view.source)
            .into_iter()
            .flatten()
            .copied()
            .collect();
        match lies_in[..] {
            // Somebody else's, such as an argument.
            [] => {}
            [arena] => all.extend(place(ir, machine, (*op, &view, arena), out)),
            [first, second, ..] => {
                let text = "lies in one of several allocations, so that it cannot be checked";
                let error = Diagnostic::error(text).at(ir.loc(*op));
                let error = error.note_at(ir.loc(first), "this may be it");
                out.push(error.note_at(ir.loc(second), "this may be it, too"));
            }
        }
    }
    all
}

fn place(
    ir: &Ir,
    machine: &MachineInfo,
    (op, view, arena): (OpId, &View, OpId),
    out: &mut Vec<Diagnostic>,
) -> Option<Placed> {
    let mut error = |text: String| out.push(Diagnostic::error(text).at(ir.loc(op)));
    let whole = ir.result(arena, 0);
    let Some(size) = bytes(ir, whole) else {
        error("lies in an allocation of unknown size, so that it cannot be checked".to_string());
        return None;
    };
    let ty = view.result.0;
    let own = bytes(ir, ir.result(op, 0));
    let mut placed = Placed {
        op,
        view: ir.result(op, 0),
        arena,
        from: 0,
        to: size,
        certain: false,
    };
    let from = ir
        .constant_int(view.byte_shift)
        .filter(|_| view.source == whole);
    let (Some(from), Some(own)) = (from, own) else {
        // It may lie anywhere in the allocation.
        if own.is_some_and(|own| own > size) {
            error(format!("has {} bytes of {size}", own.unwrap_or(0)));
        }
        return Some(placed);
    };
    let space = ty.get::<MemRefType>().and_then(MemRefType::space_name);
    let space = space.and_then(|s| machine.space(s));
    if let Some(space) = space.filter(|s| from % s.align.max(1) != 0) {
        error(format!(
            "lies at offset {from}, expected a multiple of {}",
            space.align
        ));
    }
    let to = from.checked_add(own);
    match to {
        Some(to) if from >= 0 && to <= size => {}
        Some(to) => error(format!("lies at bytes {from} to {to} of {size}")),
        None => error(format!("lies at byte {from} of {size}")),
    }
    if let Some(space) = space.filter(|s| size > s.bytes) {
        error(format!(
            "lies in {size} bytes of \"{}\", which has {}",
            space.name, space.bytes
        ));
    }
    (placed.from, placed.to, placed.certain) = (from, to.unwrap_or(size), true);
    Some(placed)
}

/// Allocations with planned buffers that live at the same time and are more together than their space has.
pub(super) fn together(ir: &Ir, machine: &MachineInfo, all: &[Placed]) -> Vec<Diagnostic> {
    let arenas: BTreeSet<OpId> = all.iter().map(|placed| placed.arena).collect();
    let mut found = Vec::new();
    each_point(ir, &|op| arenas.contains(&op), &mut |op, held| {
        let memref = ir.results(op).next().filter(|_| arenas.contains(&op));
        let Some((memref, space)) = memref.and_then(|v| Some((v, space(ir, v)?))) else {
            return;
        };
        let now = held.get(&space).copied().unwrap_or(0);
        let own = bytes(ir, memref).unwrap_or(0);
        let has = machine.space(space).map(|space| space.bytes);
        if let Some(has) = has.filter(|has| now > *has && own <= *has) {
            let text = format!(
                "makes {now} bytes of \"{space}\" that are allocated at the same time, and it has {has}"
            );
            found.push(Diagnostic::error(text).at(ir.loc(op)));
        }
    });
    found
}
