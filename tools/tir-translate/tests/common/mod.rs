//! Models of the project with ONNX Runtime's answers.

use std::path::{Path, PathBuf};

use tir_core::{Ir, Name};
use tir_data::{Array, compare, npy};
use tir_interp::{Data, Interpreter};

const RTOL: f64 = 1e-3;
const ATOL: f64 = 1e-4;

/// A folder of `test/e2e`.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../test/e2e")
        .join(name)
}

/// `CASE.in_0.npy`, `CASE.in_1.npy`, … as far as there are any.
fn arrays(model: &Path, what: &str) -> Vec<Array> {
    let paths = (0..).map(|k| model.with_extension(format!("{what}_{k}.npy")));
    paths
        .take_while(|p| p.exists())
        .map(|p| npy::read(&p).unwrap())
        .collect()
}

/// Imports a model, changes it, and runs it; what is wrong with it, if anything.
pub(crate) fn check(
    model: &Path,
    change: impl FnOnce(&mut Ir) -> Result<(), String>,
) -> Result<(), String> {
    let mut ir = tir_translate::import_onnx(model).map_err(|errors| errors[0].message.clone())?;
    change(&mut ir)?;
    let inputs = arrays(model, "in").into_iter().map(Data::Tensor).collect();
    let mut interpreter = Interpreter::new(&ir);
    let outputs = interpreter.run(Name::new("main"), inputs);
    let outputs = outputs.map_err(|errors| errors[0].to_string())?;
    let expected = arrays(model, "out");
    if expected.len() != outputs.len() {
        return Err(format!(
            "{} outputs, expected {}",
            outputs.len(),
            expected.len()
        ));
    }
    for (wanted, found) in expected.iter().zip(&outputs) {
        let found = found.to_array().map_err(|e| e.message)?;
        let comparison = compare(wanted, &found, RTOL, ATOL);
        if !comparison.ok {
            return Err(comparison.to_string());
        }
    }
    Ok(())
}

/// Checks every single-op case.
pub(crate) fn check_ops(change: impl Fn(&mut Ir) -> Result<(), String>) {
    let entries = std::fs::read_dir(folder("ops")).unwrap();
    let mut models: Vec<PathBuf> = entries
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "onnx"))
        .collect();
    models.sort();
    assert!(models.len() >= 100);
    let mut wrong = Vec::new();
    for model in &models {
        if let Err(why) = check(model, &change) {
            let name = model.file_stem().unwrap().to_string_lossy();
            wrong.push(format!("{name}: {why}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        models.len(),
        wrong.join("\n")
    );
}

/// Checks the small networks.
pub(crate) fn check_networks(change: impl Fn(&mut Ir) -> Result<(), String>) {
    for name in ["cnn", "micro", "walkthrough"] {
        let done = check(&folder("models").join(format!("{name}.onnx")), &change);
        assert_eq!(done, Ok(()), "{name}");
    }
}
