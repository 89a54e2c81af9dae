//! Ops that a plan would go wrong with: refused by name, at their place.
//!
//! Places are given to dense buffers of static shape that `memref.alloc` makes. Who allocates otherwise takes bytes that no
//! plan counts. And of work that goes on behind an op, in the background, the plan must know when it ends: that it knows of
//! transfers and of work on units.

use tir::{Access, Diagnostic, Ir, MemRefType, OpId, Traits};
use tir_accel::{Apply, Call, DmaStart, MachineInfo};
use tir_memref::{Alloc, alias};

use crate::held::space;

/// An error for each such op of a function.
pub fn unplanned(ir: &Ir, machine: &MachineInfo) -> Vec<Diagnostic> {
    let ops = ir.walk_ids().into_iter().filter(|op| *op != ir.root());
    ops.filter_map(|op| allocates(ir, machine, op).or_else(|| goes_on(ir, op)))
        .collect()
}

/// An op that allocates near memory and is not `memref.alloc`.
fn allocates(ir: &Ir, machine: &MachineInfo, op: OpId) -> Option<Diagnostic> {
    let near = |value| {
        let far = machine.far().map(|far| far.name);
        let space = space(ir, value).filter(|name| Some(*name) != far)?;
        machine.space(space).map(|_| space)
    };
    if ir.is::<Alloc>(op) {
        let (ty, space) = (ir.ty(ir.result(op, 0)), near(ir.result(op, 0))?);
        let memref: &MemRefType = ty.get()?;
        let why = match () {
            () if ty.elements().is_none() => "whose bytes are not known",
            () if !memref.is_dense() => "which is not dense",
            () => return None,
        };
        let text = format!("allocates a {ty} in \"{space}\", {why}: places are planned there");
        let error = Diagnostic::error(text).at(ir.loc(op));
        return Some(
            error.note("help: allocate a dense buffer of static shape, and take a view of it"),
        );
    }
    let effects = ir.own_effects(op)?;
    let mut made = effects.iter().filter(|e| e.access == Access::Allocate);
    let space = made.find_map(|effect| near(effect.on?))?;
    let text = format!(
        "'{}' allocates in \"{space}\", where places are planned",
        ir.name(op)
    );
    let error = Diagnostic::error(text).at(ir.loc(op));
    Some(error.note("help: only what 'memref.alloc' makes gets a place: lower it to that before"))
}

/// Work on buffers that goes on behind its op, as the op's trait says or a token that it gives, and is none whose end is known.
fn goes_on(ir: &Ir, op: OpId) -> Option<Diagnostic> {
    let says = ir.has(op, Traits::Asynchronous);
    let token = tir_accel::token();
    let gives = ir.results(op).any(|v| ir.ty(v) == token)
        && ir.regions(op).len() == 0
        && !ir.has(op, Traits::Terminator);
    let known = ir.is::<DmaStart>(op) || ir.is::<Call>(op) || ir.is::<Apply>(op) || ir.is_pure(op);
    if !(says || gives) || known || alias::accesses(ir, op).is_empty() {
        return None;
    }
    let how = if says {
        "is asynchronous"
    } else {
        "gives a token"
    };
    let name = ir.name(op);
    let text = format!("'{name}' {how}, and it is not known when its work on buffers ends");
    let error = Diagnostic::error(text).at(ir.loc(op));
    Some(error.note(
        "help: bytes of a buffer may be used again once it is read for the last time; only work of accel is known to go on behind that",
    ))
}
