//! `attach-machine`: embeds a copy of a machine file in the module.

use std::path::Path;

use tir::{At, Attr, Diagnostic, Ir, Loc, Name, Pass, PassCx, PassResult, pass, verify};
use tir_accel::{MachineInfo, family};

use crate::processors::{self, HOST};

pass! {
    /// Embeds a machine file in the module, so that the module is self-contained.
    ///
    /// A module has one machine: attaching an equal one again does nothing, another one is an
    /// error. Families of intrinsics become an intrinsic for each size, those of a machine that is there already too.
    pub struct AttachMachine = "attach-machine" on "builtin.module" {
        /// Machine file; none: attach nothing; host: that of the processor which this program runs on.
        pub file: Option<String> = None,
    }
}

/// Reads a machine file: a `.tir` that holds one `accel.machine`.
fn read_machine(file: &str) -> Result<Ir, Vec<Diagnostic>> {
    let fail = |message: String| vec![Diagnostic::error(message)];
    let bytes = std::fs::read(Path::new(file))
        .map_err(|e| fail(format!("cannot read machine file '{file}': {e}")))?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let before = e.as_bytes().iter().take(e.utf8_error().valid_up_to());
        let line = before.filter(|b| **b == b'\n').count() as u32 + 1;
        let place = Loc::file(Name::new(file), line, 1);
        vec![Diagnostic::error("the line is no UTF-8 text").at(place)]
    })?;
    parse_machine(file, &text)
}

/// The machine that the text of a machine file describes.
fn parse_machine(file: &str, text: &str) -> Result<Ir, Vec<Diagnostic>> {
    let fail = |message: String| vec![Diagnostic::error(message)];
    let mut module = tir::text::parse(text, Name::new(file), &tir::ParseOptions::default())?;
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
        _ => {
            let count = machines.len();
            let what = format!("a machine file with {count} machines, expected one accel.machine");
            let place = Loc::file(Name::new(file), 1, 1);
            Err(vec![Diagnostic::error(what).at(place)])
        }
    }
}

/// Puts their members in the place of the families of the machine of a module; gives how many there were.
fn write_families(ir: &mut Ir) -> Result<usize, Vec<Diagnostic>> {
    match MachineInfo::slot(ir).and_then(|slot| ir.child_mut(slot)) {
        Some(machine) => family::expand(machine).map_err(|error| vec![*error]),
        None => Ok(0),
    }
}

impl Pass for AttachMachine {
    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let there = write_families(ir)?;
        let Some(file) = &self.file else {
            if there == 0 {
                cx.unchanged();
            }
            return Ok(());
        };
        let mut machine = if file == HOST {
            let host = processors::host();
            cx.remark(Diagnostic::remark(host.to_string()));
            let mut machine = parse_machine(host.file, host.text)?;
            let features = host.features();
            if !features.is_empty() {
                machine.set_attr(machine.root(), "features", Attr::str(&features));
            }
            machine
        } else {
            read_machine(file)?
        };
        family::expand(&mut machine).map_err(|error| vec![*error])?;
        if let Some(slot) = MachineInfo::slot(ir) {
            let same = ir
                .child(slot)
                .is_some_and(|old| tir::text::equal(old, &machine, false).is_ok());
            if same {
                if there == 0 {
                    cx.unchanged();
                }
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
