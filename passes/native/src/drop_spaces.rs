//! `drop-spaces`: buffers of all memory spaces lie in one memory.

use tir::{Ir, MemRefType, Pass, PassCx, PassResult, Type, pass};
use tir_accel::MachineInfo;

use crate::retype::retype;

pass! {
    /// Puts all buffers in the default memory space, and removes the machine of the module.
    ///
    /// Calls of the machine's intrinsics must be gone (`inline-calls`).
    pub struct DropSpaces = "drop-spaces" on "builtin.module" {}
}

impl Pass for DropSpaces {
    fn run(&self, module: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        if let Some(slot) = MachineInfo::slot(module) {
            module.erase(slot);
        }
        let mut retyped = 0;
        module.walk_irs_mut(&mut |ir| retyped += retype(ir, &without));
        cx.count("values retyped", retyped);
        Ok(())
    }
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
