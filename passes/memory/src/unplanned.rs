//! Ops that a plan would go wrong with: refused by name, at their place.
//!
//! Places are given to dense buffers of static shape that `memref.alloc` makes. Who allocates otherwise takes bytes that no
//! plan counts. And of work that goes on behind an op, in the background, the plan must know when it ends: that it knows of
//! transfers and of work on units, in the function that starts it.

use tir::{Access, Analysis, Diagnostic, Ir, MemRefType, Name, OpId, PassCx, Traits, Value};
use tir_accel::{Apply, Call, DmaStart, MachineInfo};
use tir_memref::{Alloc, alias};

use crate::held::space;
use crate::in_flight::orders;
use crate::liveness::left_in_flight;

/// Whether tokens or semaphores say in a program what waits for what: in one function at least. Then work that nothing waits for
/// is not waited for; in other programs the order is not there yet.
pub struct Ordered(pub bool);

impl Analysis for Ordered {
    fn new(program: &Ir) -> Self {
        let here = program.walk_ids().into_iter().any(|op| orders(program, op));
        let mut inside = program
            .slots()
            .into_iter()
            .filter_map(|slot| program.child(slot));
        Self(here || inside.any(|function| Self::new(function).0))
    }
}

impl Ordered {
    /// Whether the program around a function is, if a pass asked in its `prepare`; else whether the function is.
    pub fn around(ir: &Ir, cx: &mut PassCx<'_>) -> bool {
        match cx.outer::<Self>() {
            Some(ordered) => ordered.0,
            None => cx.analysis::<Self>(ir).0,
        }
    }
}

/// An error for each such op of a function of a program that is ordered or not.
pub fn unplanned(ir: &Ir, machine: &MachineInfo, ordered: bool) -> Vec<Diagnostic> {
    let ops = ir.walk_ids().into_iter().filter(|op| *op != ir.root());
    let refused = ops.filter_map(|op| allocates(ir, machine, op).or_else(|| goes_on(ir, op)));
    let refused: Vec<Diagnostic> = refused.collect();
    if !refused.is_empty() || !ordered {
        return refused;
    }
    let left = left_in_flight(ir, machine).into_iter();
    left.filter_map(|op| outlives(ir, machine, op)).collect()
}

/// The space of a buffer, if it is one of the machine and not the far one.
fn near(ir: &Ir, machine: &MachineInfo, value: Value) -> Option<Name> {
    let far = machine.far().map(|far| far.name);
    let space = space(ir, value).filter(|name| Some(*name) != far)?;
    machine.space(space).map(|_| space)
}

/// Work on near memory that may go on when the function returns.
fn outlives(ir: &Ir, machine: &MachineInfo, op: OpId) -> Option<Diagnostic> {
    let all = alias::accesses(ir, op);
    let mut all = all.iter().filter(|(_, v)| ir.ty(*v).is::<MemRefType>());
    let space = all.find_map(|(_, value)| near(ir, machine, *value))?;
    let name = ir.name(op);
    let text = format!(
        "the work of this '{name}' in \"{space}\" may go on when the function returns: nothing in the function waits for its token"
    );
    let error = Diagnostic::error(text).at(ir.loc(op));
    Some(error.note(
        "help: wait for its token before: who calls the function uses the bytes again behind the call",
    ))
}

/// An op that allocates near memory and is not `memref.alloc`.
fn allocates(ir: &Ir, machine: &MachineInfo, op: OpId) -> Option<Diagnostic> {
    let near = |value| near(ir, machine, value);
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
