//! Import and evaluation of single ops and small networks against ONNX Runtime's answers.

use std::path::{Path, PathBuf};
use std::time::Instant;

use tir_core::Name;
use tir_data::{Array, compare, npy};
use tir_interp::{Data, Interpreter};

const RTOL: f64 = 1e-3;
const ATOL: f64 = 1e-4;

fn folder(name: &str) -> PathBuf {
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

/// Imports and runs a model; what is wrong with it, if anything.
fn check(model: &Path) -> Result<(), String> {
    let ir = tir_translate::import_onnx(model).map_err(|errors| errors[0].message.clone())?;
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

#[test]
fn single_ops_agree_with_onnx_runtime() {
    let entries = std::fs::read_dir(folder("ops")).unwrap();
    let mut models: Vec<PathBuf> = entries
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "onnx"))
        .collect();
    models.sort();
    assert!(models.len() >= 100);
    let mut wrong = Vec::new();
    for model in &models {
        let name = model.file_stem().unwrap().to_string_lossy().into_owned();
        if let Err(why) = check(model) {
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

#[test]
fn networks_agree_with_onnx_runtime() {
    for name in ["cnn", "micro", "walkthrough"] {
        let start = Instant::now();
        let done = check(&folder("models").join(format!("{name}.onnx")));
        assert_eq!(done, Ok(()), "{name}");
        eprintln!("{name}: {:?}", start.elapsed());
    }
}

#[test]
fn all_unsupported_ops_are_listed_at_once() {
    let errors = tir_translate::import_onnx(&folder("models/unsupported.onnx"))
        .err()
        .unwrap();
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0]
            .message
            .ends_with("4 nodes use 4 operators that cannot be imported"),
        "{}",
        errors[0].message
    );
    let notes: Vec<&str> = errors[0]
        .notes
        .iter()
        .map(|n| n.message.split(':').next().unwrap())
        .collect();
    assert_eq!(
        notes,
        [
            "Einsum",
            "NonMaxSuppression",
            "TopK",
            "com.example.FancyGate"
        ]
    );
}
