//! Every small case of `test/e2e/ops` at loop, memref and accel level against ONNX Runtime's
//! answer, as the pipelines lower it for one machine.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tir::{Diagnostic, Ir, PassManager};
use tir_data::{Array, compare, npy};
use tir_opt::Tool;

const RTOL: f64 = 1e-3;
const ATOL: f64 = 1e-4;

/// What a level does not take by design: case, level, and what the error says.
const NOT_TAKEN: [(&str, &str, &str); 0] = [];

fn folder(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("test/e2e").join(name)
}

/// `CASE.in_0.npy`, `CASE.in_1.npy`, … as far as there are any.
fn arrays(model: &Path, what: &str) -> Vec<Array> {
    let paths = (0..).map(|k| model.with_extension(format!("{what}_{k}.npy")));
    paths
        .take_while(|p| p.exists())
        .map(|p| npy::read(&p).unwrap())
        .collect()
}

/// What went wrong, with the place it has.
fn said(errors: &[Diagnostic]) -> String {
    let Some(error) = errors.first() else {
        return "fails without an error".to_string();
    };
    error.to_string()
}

/// Lowers and runs; what is wrong with it, if anything.
fn level(
    tool: &Tool,
    module: &mut Ir,
    level: &str,
    inputs: &[Array],
    outputs: &[Array],
) -> Result<(), String> {
    let machine = folder("machines/npu.tir");
    let text = format!("to-{level}{{machine={}}}", machine.display());
    let pipeline = tool.passes.parse(&text).map_err(|e| said(&e))?;
    let report = PassManager::with(pipeline, Default::default()).run(module);
    report.into_result().map_err(|e| said(&e))?;
    tir::verify(module).map_err(|e| said(&e))?;
    let run = tir_run::execute(module, inputs).map_err(|e| said(&e))?;
    if run.outputs.len() != outputs.len() {
        let (found, wanted) = (run.outputs.len(), outputs.len());
        return Err(format!("{found} outputs, expected {wanted}"));
    }
    for (wanted, found) in outputs.iter().zip(&run.outputs) {
        let comparison = compare(wanted, found, RTOL, ATOL);
        if !comparison.ok {
            return Err(comparison.to_string());
        }
    }
    Ok(())
}

/// All levels of a case, each from the one before; what is wrong, with the level.
fn levels(tool: &Tool, model: &Path) -> Vec<String> {
    let name = model.file_stem().unwrap_or_default().to_string_lossy();
    let mut module = match tir_translate::import_onnx(model) {
        Ok(module) => module,
        Err(errors) => return vec![format!("{name}: {}", said(&errors))],
    };
    let (inputs, outputs) = (arrays(model, "in"), arrays(model, "out"));
    for at in ["loop", "memref", "accel"] {
        let done = level(tool, &mut module, at, &inputs, &outputs);
        let refused = NOT_TAKEN
            .iter()
            .find(|(case, l, _)| *case == name && *l == at);
        match (done, refused) {
            (Ok(()), None) => {}
            (Err(why), Some((_, _, error))) if why.contains(error) => return Vec::new(),
            (Err(why), _) => return vec![format!("{name} at {at}: {why}")],
            (Ok(()), Some(_)) => {
                return vec![format!("{name} at {at}: is taken, contrary to the list")];
            }
        }
    }
    Vec::new()
}

#[test]
fn single_ops_agree_at_every_level() {
    let entries = std::fs::read_dir(folder("ops")).expect("the cases");
    let mut models: Vec<PathBuf> = entries
        .map(|e| e.expect("a file").path())
        .filter(|p| p.extension().is_some_and(|e| e == "onnx"))
        .collect();
    models.sort();
    assert!(models.len() >= 300, "{}", models.len());
    let tool = tir_opt::stock();
    tool.load();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(model) = models.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = levels(&tool, model);
                    wrong.lock().expect("no panic").extend(found);
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().expect("no panic");
    wrong.sort();
    let (bad, all) = (wrong.len(), models.len());
    assert!(wrong.is_empty(), "{bad} of {all}:\n{}", wrong.join("\n"));
}
