//! What tests of whole programs share: lowering, running, comparing.
// Not every test needs all of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use tir::{Diagnostic, Ir, Name, PassManager, Type};
use tir_data::{Array, compare, npy};
use tir_opt::Tool;
use tir_run::Execution;

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

/// How far sums in another order may be off: eight times what numbers of 32 bits are at most at graph level from those
/// of 64 bits.
pub(crate) fn rounding(text: &str, inputs: &[Array], outputs: &[Array]) -> Result<f64, String> {
    let text = text.replace("f32", "f64");
    let parsed = tir::text::parse(&text, Name::new("program"), &Default::default());
    let module = parsed.map_err(|e| format!("text: {}", said(&e)))?;
    let wide =
        |input: &Array| Array::from_vec(input.shape(), input.iter_f64().collect::<Vec<f64>>());
    let wide: Result<Vec<Array>, _> = inputs.iter().map(wide).collect();
    let wide = wide.map_err(|e| e.to_string())?;
    let exact = tir_run::execute(&module, &wide).map_err(|e| format!("f64: {}", said(&e)))?;
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
    if run.outputs.len() != outputs.len() {
        let (found, wanted) = (run.outputs.len(), outputs.len());
        return Err(format!("{found} outputs, expected {wanted}"));
    }
    for (wanted, found) in outputs.iter().zip(&run.outputs) {
        let comparison = compare(wanted, found, RTOL, atol(wanted));
        if !comparison.ok {
            return Err(comparison.to_string());
        }
    }
    Ok(run)
}

/// Tries as many seeds as a variable of the environment says, from `TIR_SEED` on, on all threads.
/// Fails with what is wrong of each.
pub(crate) fn try_seeds(variable: &str, count: u64, wrong: impl Fn(u64) -> Option<String> + Sync) {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let first = number("TIR_SEED").unwrap_or(0);
    let end = first + number(variable).unwrap_or(count);
    let wrong = (first..end)
        .into_par_iter()
        .filter_map(|seed| Some((seed, wrong(seed)?)));
    let lines: Vec<String> = wrong
        .map(|(seed, why)| format!("seed {seed}, {why}"))
        .collect();
    let count = lines.len();
    assert!(lines.is_empty(), "{count} wrong:\n{}", lines.join("\n"));
}
