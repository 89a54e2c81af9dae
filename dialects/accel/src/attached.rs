//! The machine that is attached to a module, as an analysis.

use tir::{Analysis, Diagnostic, Ir, PassCx, PassResult};

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

impl AttachedMachine {
    /// Runs the work of a pass with the attached machine.
    ///
    /// # Errors
    /// If no machine is attached to the module.
    pub fn with(
        ir: &mut Ir,
        cx: &mut PassCx<'_>,
        work: impl FnOnce(&mut Ir, &mut PassCx<'_>, &MachineInfo) -> PassResult,
    ) -> PassResult {
        let attached = cx.outer::<AttachedMachine>();
        match attached.as_deref().and_then(|a| a.0.as_ref()) {
            Some((info, _)) => work(ir, cx, info),
            None => Err(vec![Self::none(ir)]),
        }
    }

    /// The error where no machine is attached.
    pub fn none(ir: &Ir) -> Diagnostic {
        let error = Diagnostic::error("no machine is attached to the module");
        let error = error.at(ir.loc(ir.root()));
        error.note(
            "attach-machine{file=FILE} attaches one, and pipelines such as to-accel have an option machine=FILE; such files lie in \
             test/e2e/machines, docs/book/src/machines.md says what is in them",
        )
    }
}
