//! Programs that need a machine: which they are, and the machine model as their memory.

use std::path::Path;

use tir::interfaces::trip_count;
use tir::workload::Workload;
use tir::{Diagnostic, Env, Ir, Name, SymbolTable};
use tir_accel::bounds::Bounds;
use tir_accel::eval::{Layers, MachineMemory, needs_machine};
use tir_accel::{Apply, MachineInfo};
use tir_arith::{AddF, AddI, MulF, MulI};
use tir_levels::AttachMachine;
use tir_pass::{PassManager, Pipeline};

use crate::execute::Keep;
use crate::machine::MachineSummary;
use crate::timeline::Timeline;

/// Puts the machine of a file in place of the one in the program; what there is to say of it.
pub(crate) fn replace(module: &mut Ir, file: &Path) -> Result<Option<Diagnostic>, Vec<Diagnostic>> {
    if let Some(slot) = MachineInfo::slot(module) {
        module.take(slot);
    }
    let mut pipeline = Pipeline::new();
    let file = Some(file.display().to_string());
    pipeline.add(AttachMachine { file });
    let mut report = PassManager::new(pipeline).run(module);
    let said = report.remarks.pop();
    report.into_result()?;
    Ok(said)
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
    let mut memory = MachineMemory::new(&info, trace).map_err(|error| vec![*error])?;
    memory.set_layers(Layers::of(module));
    env.set_memory(memory);
    Ok(())
}

/// What is known of a run on a machine.
pub(crate) struct Account {
    pub(crate) summary: MachineSummary,
    /// In the trace event format.
    pub(crate) trace: Option<String>,
    pub(crate) timeline: Option<Timeline>,
}

/// The account at the end of a run; none if it needed no machine.
///
/// # Errors
/// If work is still running that nothing has waited for.
pub(crate) fn finish(
    env: &mut Env<'_>,
    module: &Ir,
    entry: Name,
    keep: Keep,
) -> Result<Option<Account>, Vec<Diagnostic>> {
    let site = env.exit().unwrap_or(env.site());
    let Some(memory) = env.memory_as::<MachineMemory>() else {
        return Ok(None);
    };
    memory.finish(site).map_err(|error| vec![*error])?;
    let report = memory.report();
    let units = report.queues.iter().map(|q| q.macs).sum::<u64>();
    let all = units.saturating_add(thread_multiply_adds(module));
    let work = SymbolTable::new(module).get(entry);
    let work = work.and_then(|op| Workload::attached(module.child(op.id)?));
    let bounds = work.map(|work| Bounds::of(&work, memory.info()));
    let layers = &memory.layers().layers;
    Ok(Some(Account {
        summary: MachineSummary::new(&report, Some(all), bounds.as_ref(), layers)
            .with_rates(memory.info()),
        trace: keep.trace.then(|| memory.trace()),
        timeline: keep.timeline.then(|| Timeline::of(memory.machine())),
    }))
}

/// Multiply-adds that the program thread does itself: products that are added to something, as
/// often as the loops around them run. A branch counts as taken.
fn thread_multiply_adds(module: &Ir) -> u64 {
    let functions = module.slots().into_iter();
    let functions = functions.filter(|slot| !module.is::<tir_accel::Machine>(*slot));
    let functions = functions.filter_map(|slot| module.child(slot));
    functions
        .flat_map(|ir| ir.walk_ids().into_iter().map(move |op| (ir, op)))
        .filter(|(ir, op)| ir.is::<MulF>(*op) || ir.is::<MulI>(*op))
        .filter(|(ir, op)| !ir.parent(*op).is_some_and(|nest| ir.is::<Apply>(nest)))
        .filter(|(ir, op)| {
            let mut uses = ir.uses(ir.result(*op, 0));
            uses.any(|u| {
                ir.is::<AddF>(u.op) || ir.is::<AddI>(u.op) && !ir.ty(ir.result(*op, 0)).is_index()
            })
        })
        .map(|(ir, op)| {
            let around = std::iter::successors(ir.parent(op), |op| ir.parent(*op));
            let trips = around.filter_map(|op| trip_count(ir, op));
            trips.fold(1u64, |n, trips| {
                n.saturating_mul(u64::try_from(trips).unwrap_or(0))
            })
        })
        .fold(0, u64::saturating_add)
}
