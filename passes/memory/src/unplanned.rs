//! Ops of other dialects that a plan would go wrong with: refused by name, at their place.
//!
//! Places are given to what `memref.alloc` makes. Who allocates otherwise takes bytes that no plan counts. And of work that goes on
//! behind an op, in the background, the plan must know when it ends: that it knows of transfers and of work on units.

use tir::{Access, Diagnostic, Ir, OpId, Traits};
use tir_accel::MachineInfo;
use tir_memref::{Alloc, alias};

use crate::held::space;

/// An error for each such op of a function.
pub(crate) fn unplanned(ir: &Ir, machine: &MachineInfo) -> Vec<Diagnostic> {
    let ops = ir.walk_ids().into_iter().filter(|op| *op != ir.root());
    ops.filter_map(|op| allocates(ir, machine, op).or_else(|| goes_on(ir, op)))
        .collect()
}

/// An op that allocates near memory and is not `memref.alloc`.
fn allocates(ir: &Ir, machine: &MachineInfo, op: OpId) -> Option<Diagnostic> {
    if ir.is::<Alloc>(op) {
        return None;
    }
    let effects = ir.own_effects(op)?;
    let mut made = effects.iter().filter(|e| e.access == Access::Allocate);
    let far = machine.far().map(|far| far.name);
    let space = made.find_map(|effect| space(ir, effect.on?).filter(|name| Some(*name) != far))?;
    machine.space(space)?;
    let text = format!(
        "'{}' allocates in \"{space}\", where places are planned",
        ir.name(op)
    );
    let error = Diagnostic::error(text).at(ir.loc(op));
    Some(error.note("help: only what 'memref.alloc' makes gets a place: lower it to that before"))
}

/// An op of another dialect that gives a token of work on buffers.
fn goes_on(ir: &Ir, op: OpId) -> Option<Diagnostic> {
    let name = ir.name(op);
    let token = tir_accel::token();
    let gives = ir.results(op).any(|v| ir.ty(v) == token);
    let known = name.dialect() == "accel" || ir.regions(op).len() > 0 || ir.is_pure(op);
    if !gives || known || ir.has(op, Traits::Terminator) || alias::accesses(ir, op).is_empty() {
        return None;
    }
    let text = format!("'{name}' gives a token, and it is not known when its work on buffers ends");
    let error = Diagnostic::error(text).at(ir.loc(op));
    Some(error.note(
        "help: bytes of a buffer may be used again once it is read for the last time; only work of accel is known to go on behind that",
    ))
}
