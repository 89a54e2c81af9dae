//! What tests of whole programs share: lowering, running, comparing.
// Not every test needs all of it.
#![allow(dead_code)]

pub(crate) mod cases;

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use tir::{Diagnostic, Ir, Name, PassManager, Type};
use tir_accel::MachineInfo;
use tir_data::{Array, DType, compare, npy};
use tir_opt::Tool;
use tir_run::{Entry, Execution};

const RTOL: f64 = 1e-3;
pub(crate) const ATOL: f64 = 1e-4;

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The arrays at `path(0)`, `path(1)`, … as far as there are any.
pub(crate) fn arrays(path: impl Fn(usize) -> PathBuf) -> Vec<Array> {
    let paths = (0..).map(path).take_while(|p| p.exists());
    paths
        .map(|p| npy::read(&p).unwrap_or_else(|e| panic!("{}: {e}", p.display())))
        .collect()
}

/// What went wrong, with its place and its notes.
pub(crate) fn said(errors: &[Diagnostic]) -> String {
    let Some(error) = errors.first() else {
        return "fails without an error".to_string();
    };
    let notes = error.notes.iter().map(|n| format!("; {}", n.message));
    format!("{error}{}", notes.collect::<String>())
}

/// A program of `f32` tensors, inputs of these shapes, and what it computes of them.
pub(crate) fn reference(
    text: &str,
    shapes: Vec<Vec<i64>>,
) -> Result<(Ir, Vec<Array>, Vec<Array>), String> {
    let parsed = tir::text::parse(text, Name::new("program"), &Default::default());
    let module = parsed.map_err(|e| format!("text: {}", said(&e)))?;
    tir::verify(&module).map_err(|e| format!("text: {}", said(&e)))?;
    let input = |(k, shape)| {
        let made = tir::Data::random(Type::tensor(shape, Type::f32()), k as u64 + 1);
        made.and_then(|data| data.to_array())
            .expect("random numbers")
    };
    let inputs: Vec<Array> = shapes.into_iter().enumerate().map(input).collect();
    let run = tir_run::execute(&module, &inputs).map_err(|e| format!("graph: {}", said(&e)))?;
    Ok((module, inputs, run.outputs))
}

/// How far sums in another order may be off: eight times what numbers of 32 bits are at most from those of 64 bits as
/// the program stands.
pub(crate) fn rounding(
    text: &str,
    function: Option<Name>,
    inputs: &[Array],
    outputs: &[Array],
) -> Result<f64, String> {
    let text = text.replace("f32", "f64");
    let parsed = tir::text::parse(&text, Name::new("program"), &Default::default());
    let module = parsed.map_err(|e| format!("text: {}", said(&e)))?;
    let wide = |input: &Array| match input.dtype() {
        DType::F32 => Array::from_vec(input.shape(), input.iter_f64().collect::<Vec<f64>>()),
        _ => Ok(input.clone()),
    };
    let wide: Result<Vec<Array>, _> = inputs.iter().map(wide).collect();
    let wide = wide.map_err(|e| e.to_string())?;
    let entry = Entry::of(&module, function.map(Name::as_str)).map_err(|e| said(&e))?;
    let wide: Vec<(usize, &Array)> = wide.iter().enumerate().collect();
    let exact = entry.execute(&module, &wide, Default::default(), Default::default());
    let exact = exact.map_err(|e| format!("f64: {}", said(&e)))?;
    let off = exact
        .outputs
        .iter()
        .zip(outputs)
        .flat_map(|(exact, found)| {
            let pairs = exact.iter_f64().zip(found.iter_f64());
            pairs.map(|(x, y)| (x - y).abs())
        });
    Ok(8.0 * off.fold(0.0, f64::max))
}

/// Runs a pipeline and verifies what it leaves.
pub(crate) fn lower(tool: &Tool, module: &mut Ir, pipeline: &str) -> Result<(), String> {
    let pipeline = tool.passes.parse(pipeline).map_err(|e| said(&e))?;
    let report = PassManager::with(pipeline, Default::default()).run(module);
    report.into_result().map_err(|e| said(&e))?;
    tir::verify(module).map_err(|e| said(&e))
}

/// Runs a program and compares what it gives.
pub(crate) fn run(module: &Ir, inputs: &[Array], outputs: &[Array]) -> Result<Execution, String> {
    run_within(module, inputs, outputs, |_| ATOL)
}

/// Runs a program and compares what it gives, with what each result may be off at most.
pub(crate) fn run_within(
    module: &Ir,
    inputs: &[Array],
    outputs: &[Array],
    atol: impl Fn(&Array) -> f64,
) -> Result<Execution, String> {
    let run = tir_run::execute(module, inputs).map_err(|e| said(&e))?;
    within(outputs, &run.outputs, atol)?;
    Ok(run)
}

/// Compares what a program gave with what is wanted.
pub(crate) fn within(
    wanted: &[Array],
    found: &[Array],
    atol: impl Fn(&Array) -> f64,
) -> Result<(), String> {
    if found.len() != wanted.len() {
        let (found, wanted) = (found.len(), wanted.len());
        return Err(format!("{found} outputs, expected {wanted}"));
    }
    for (wanted, found) in wanted.iter().zip(found) {
        let comparison = compare(wanted, found, RTOL, atol(wanted));
        if !comparison.ok {
            return Err(comparison.to_string());
        }
    }
    Ok(())
}

/// Cycles of a function at accel level without data, and of the thread of them; none where they depend on data.
pub(crate) fn dry(module: &Ir, function: Name) -> Result<Option<(u64, u64)>, String> {
    let info = MachineInfo::attached(module).ok_or("no machine")?;
    let table = tir::SymbolTable::new(module);
    let main = table.get(function).ok_or("no such function")?;
    let function = module.child(main.id).ok_or("it is not isolated")?;
    let report = tir_schedule::dry_run::dry_run(function, Some(module), &info, 50_000_000);
    match report {
        Ok(report) => Ok(Some((report.cycles, report.thread.busy))),
        Err(e) if e.message.contains("depends on data") => Ok(None),
        Err(e) => Err(format!("without data: {}", said(&[*e]))),
    }
}

/// Whether a run at accel level, if it is one, took the cycles that it takes without data, and its buffers lie apart.
pub(crate) fn foretold(module: &Ir, function: Name, run: &Execution) -> Result<(), String> {
    let Some(machine) = &run.machine else {
        return Ok(());
    };
    let wanted = (machine.cycles, machine.thread.busy);
    if let Some(found) = dry(module, function)?.filter(|found| *found != wanted) {
        return Err(format!("{found:?} without data, {wanted:?} with"));
    }
    let info = MachineInfo::attached(module).ok_or("no machine")?;
    let table = tir::SymbolTable::new(module);
    let function = table.get(function).and_then(|op| module.child(op.id));
    let function = function.ok_or("no such function")?;
    let found = tir_memory::check_plan::check_plan(function, &info);
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("check-plan: {}", said(&found))),
    }
}

/// Tries as many seeds as a variable of the environment says, from `TIR_SEED` on, on all threads.
/// Fails with what is wrong of each.
pub(crate) fn try_seeds(variable: &str, count: u64, wrong: impl Fn(u64) -> Option<String> + Sync) {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let first = number("TIR_SEED").unwrap_or(0);
    let end = first + number(variable).unwrap_or(count);
    let wrong = (first..end).into_par_iter().filter_map(|seed| {
        let line = format!("seed {seed}, {}", wrong(seed)?);
        // Many seeds take minutes: with `--nocapture` this is seen at once.
        eprintln!("{line}");
        Some(line)
    });
    let lines: Vec<String> = wrong.collect();
    let count = lines.len();
    assert!(lines.is_empty(), "{count} wrong:\n{}", lines.join("\n"));
}
