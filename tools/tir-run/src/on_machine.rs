//! Programs that need a machine: which they are, and the machine model as their memory.

use std::path::Path;

use tir::{Diagnostic, Env, Ir};
use tir_accel::MachineInfo;
use tir_accel::eval::{MachineMemory, needs_machine};
use tir_levels::AttachMachine;
use tir_pass::{PassManager, Pipeline};

use crate::machine::MachineSummary;

/// Multiply-adds of the program, as counted before its units took over; an attribute of the
/// module.
const MULTIPLY_ADDS: &str = "accel.multiply_adds";

/// Puts the machine of a file in place of the one in the program.
pub(crate) fn replace(module: &mut Ir, file: &Path) -> Result<(), Vec<Diagnostic>> {
    if let Some(slot) = MachineInfo::slot(module) {
        module.take(slot);
    }
    let mut pipeline = Pipeline::new();
    let file = Some(file.display().to_string());
    pipeline.add(AttachMachine { file });
    PassManager::new(pipeline).run(module).into_result()
}

/// Runs on the machine of the module from now on, if a function of it starts transfers.
pub(crate) fn attach(env: &mut Env<'_>, module: &Ir, trace: bool) -> Result<(), Vec<Diagnostic>> {
    let mut functions = module
        .slots()
        .into_iter()
        .filter_map(|slot| module.child(slot));
    if !functions.any(needs_machine) {
        return Ok(());
    }
    let slot = MachineInfo::slot(module);
    let info = slot
        .and_then(|slot| module.child(slot))
        .and_then(MachineInfo::of);
    let Some(info) = info else {
        let error = Diagnostic::error("starts transfers, but has no machine");
        let error = error.at(module.loc(module.root()));
        return Err(vec![error.note("--machine FILE attaches one")]);
    };
    let memory = MachineMemory::new(&info, trace).map_err(|error| vec![*error])?;
    env.set_memory(memory);
    Ok(())
}

/// The account and the timeline at the end of a run; none if it needed no machine.
///
/// # Errors
/// If work is still running that nothing has waited for.
pub(crate) fn finish(
    env: &mut Env<'_>,
    module: &Ir,
) -> Result<Option<(MachineSummary, String)>, Vec<Diagnostic>> {
    let site = env.site();
    let Some(memory) = env.memory_as::<MachineMemory>() else {
        return Ok(None);
    };
    memory.finish(site).map_err(|error| vec![*error])?;
    let all = module
        .attr(module.root(), MULTIPLY_ADDS)
        .and_then(|a| a.as_int());
    let all = all.and_then(|n| u64::try_from(n).ok());
    Ok(Some((
        MachineSummary::new(&memory.report(), all),
        memory.trace(),
    )))
}
