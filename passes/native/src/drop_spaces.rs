//! `drop-spaces`: buffers of all memory spaces lie in one memory.

use tir::{Diagnostic, Ir, MemRefType, Op, Pass, PassCx, PassResult, Type, pass};
use tir_accel::{Machine, MachineInfo, Processor};

use crate::retype::retype;

pass! {
    /// Puts all buffers in the default memory space, and removes the machine of the module.
    ///
    /// The processor that the machine says it is stays noted on the module, as the attribute `tir.processor`.
    /// Calls of the machine's intrinsics must be gone (`inline-calls`).
    pub struct DropSpaces = "drop-spaces" on "builtin.module" {}
}

impl Pass for DropSpaces {
    fn run(&self, module: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        if let Some(slot) = MachineInfo::slot(module) {
            if let Some(error) = left(module) {
                return Err(vec![error]);
            }
            let processor = Processor::of_module(module);
            module.erase(slot);
            if let Some(processor) = processor {
                processor.note(module);
            }
        }
        let mut retyped = 0;
        module.walk_irs_mut(&mut |ir| retyped += retype(ir, &without));
        cx.count("values retyped", retyped);
        Ok(())
    }
}

/// The first op that the machine is still needed for, as an error.
fn left(ir: &Ir) -> Option<Diagnostic> {
    ir.walk_ids().into_iter().find_map(|op| {
        let name = ir.name(op);
        if ir.is::<Machine>(op) {
            return None;
        }
        if name.dialect() == Machine::name().dialect() {
            let error = Diagnostic::error(format!("'{name}' still needs the machine"));
            let note = "'inline-calls' writes out what units compute; transfers that were started have no form in one memory";
            return Some(error.at(ir.loc(op)).note(note));
        }
        ir.child(op).and_then(left)
    })
}

/// A type without memory space.
fn without(ty: Type) -> Type {
    match ty.get::<MemRefType>().filter(|m| m.space.is_some()) {
        Some(memref) => Type::new(MemRefType {
            space: None,
            ..memref.clone()
        }),
        None => ty,
    }
}
