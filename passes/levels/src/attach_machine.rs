//! `attach-machine`: embeds a copy of a machine file in the module.

use std::path::Path;

use tir::{At, Diagnostic, Ir, Name, Pass, PassCx, PassResult, pass, verify};
use tir_accel::MachineInfo;

pass! {
    /// Embeds a copy of a machine file in the module, so that text and reproducers stand alone.
    ///
    /// A module has one machine: attaching an equal one again does nothing, another one is an
    /// error.
    pub struct AttachMachine = "attach-machine" on "builtin.module" {
        /// The machine file; nothing is attached if it is absent.
        pub file: Option<String> = None,
    }
}

/// Reads a machine file: a `.tir` that holds one `accel.machine`.
pub fn read_machine(file: &str) -> Result<Ir, Vec<Diagnostic>> {
    let fail = |message: String| vec![Diagnostic::error(message)];
    let text = std::fs::read_to_string(Path::new(file))
        .map_err(|e| fail(format!("cannot read machine file '{file}': {e}")))?;
    let mut module = tir::text::parse(&text, Name::new(file), &tir::ParseOptions::default())?;
    verify(&module)?;
    let slots = module.slots();
    let machines: Vec<_> = slots
        .iter()
        .copied()
        .filter(|s| module.is::<tir_accel::Machine>(*s))
        .collect();
    match machines[..] {
        [slot] => module
            .take(slot)
            .ok_or_else(|| fail(format!("machine file '{file}' holds no machine"))),
        _ => Err(fail(format!(
            "machine file '{file}' holds {} machines, expected one accel.machine",
            machines.len()
        ))),
    }
}

impl Pass for AttachMachine {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let Some(file) = &self.file else {
            cx.unchanged();
            return Ok(());
        };
        let machine = read_machine(file)?;
        if let Some(slot) = MachineInfo::slot(ir) {
            let same = ir
                .child(slot)
                .is_some_and(|old| tir::text::equal(old, &machine, false).is_ok());
            if same {
                cx.unchanged();
                return Ok(());
            }
            let error =
                Diagnostic::error(format!("another machine than that of '{file}' is attached"));
            return Err(vec![error.at(ir.loc(slot))]);
        }
        let Some(block) = ir.body_block(ir.root(), 0) else {
            return Err(vec![Diagnostic::error(
                "has no body to attach a machine to",
            )]);
        };
        ir.adopt(At::Start(block), machine);
        Ok(())
    }
}
