//! The machine that is attached to a module, as an analysis.

use tir::{Analysis, Ir};

use crate::machine::MachineInfo;

/// The machine of a module: what is known of it, and its arena with the bodies of intrinsics.
pub struct AttachedMachine(
    /// Absent where no machine is attached.
    pub Option<(MachineInfo, Ir)>,
);

impl Analysis for AttachedMachine {
    fn new(module: &Ir) -> Self {
        let machine = MachineInfo::slot(module).and_then(|slot| module.child(slot));
        // What is known names ops of the copy.
        let machine = machine.cloned();
        Self(machine.and_then(|ir| Some((MachineInfo::of(&ir)?, ir))))
    }
}
