//! The small cases of the suite: networks with ONNX Runtime's answers, and programs of one operator or a few.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tir::{Ir, Name};
use tir_data::Array;
use tir_levels::processors::{AVX2, AVX512, PORTABLE, host};
use tir_run::{Entry, Execution};
use tir_translate::OnnxOptions;

use super::{arrays, root, rounding, said};

/// Programs as text, below `test/e2e`.
const PROGRAMS: [&str; 5] = [
    "capsule",
    "embedding",
    "vector-nests",
    "layouts/chain",
    "layouts/packed",
];

/// Models that leave something open, with what is given for it.
pub(crate) fn given(name: &str) -> OnnxOptions {
    let mut options = OnnxOptions::default();
    if name == "open" {
        options.shapes.push("x=2x3x4".into());
        options.bound.push("shape=2,-1".into());
    }
    options
}

/// A case: a network or a program, and options of the pipelines.
pub(crate) struct Case {
    pub(crate) path: PathBuf,
    pub(crate) options: &'static str,
    pub(crate) levels: &'static [&'static str],
    /// The program and its runs.
    pub(crate) loaded: OnceLock<Result<(Ir, Vec<Run>), String>>,
}

/// What a function is given, and what it gives.
pub(crate) struct Run {
    pub(crate) function: Name,
    pub(crate) inputs: Vec<Array>,
    pub(crate) outputs: Vec<Array>,
    /// How far sums in another order may be off.
    pub(crate) atol: f64,
}

pub(crate) fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().to_string()
}

/// The files of a folder that end so, in order.
pub(crate) fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = root().join("test/e2e").join(folder);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|e| e.expect("a file").path())
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .collect();
    files.sort();
    files
}

/// Whether native code for a machine runs on this processor: not if its file is that of a processor that has more. A line
/// says what is left out.
pub(crate) fn runs_here(machine: &Path) -> bool {
    let by_size = [AVX512, AVX2, PORTABLE];
    let more = by_size.iter().take_while(|file| **file != host());
    let mut more = more.filter(|file| machine.ends_with(file.file));
    let lacks = more.next();
    if let Some(file) = lacks {
        println!(
            "left out: native code for {} is for {}",
            file.file, file.has
        );
    }
    lacks.is_none()
}

pub(crate) fn execute(module: &Ir, function: Name, inputs: &[Array]) -> Result<Execution, String> {
    let entry = Entry::of(module, Some(function.as_str())).map_err(|e| said(&e))?;
    let inputs: Vec<(usize, &Array)> = inputs.iter().enumerate().collect();
    let run = entry.execute(module, &inputs, Default::default(), Default::default());
    run.map_err(|e| said(&e))
}

impl Case {
    fn new(path: PathBuf, options: &'static str) -> Self {
        let levels: &[&str] = match path.extension().is_some_and(|e| e == "onnx") {
            true => &["tensor", "loop", "memref", "accel"],
            false => &["accel"],
        };
        Self {
            path,
            options,
            levels,
            loaded: OnceLock::new(),
        }
    }

    pub(crate) fn all() -> Vec<Case> {
        let mut cases = Vec::new();
        for path in ["ops", "models"].iter().flat_map(|f| files(f, "onnx")) {
            // Others are there to be refused.
            if !path.with_extension("out_0.npy").exists() {
                continue;
            }
            if stem(&path).ends_with("_int8") {
                cases.push(Case::new(path.clone(), "integer=true"));
            }
            cases.push(Case::new(path, ""));
        }
        let programs = PROGRAMS.map(|name| root().join(format!("test/e2e/{name}.tir")));
        cases.extend(programs.map(|path| Case::new(path, "")));
        cases
    }

    /// The program and its runs.
    pub(crate) fn load(&self) -> Result<(Ir, Vec<Run>), String> {
        let path = &self.path;
        if path.extension().is_some_and(|e| e == "onnx") {
            let module = tir_translate::import_onnx_with(path, &given(&stem(path)));
            let module = module.map_err(|e| said(&e))?;
            // `CASE.in_0.npy`, `CASE.in_1.npy`, …
            let [inputs, outputs] = ["in", "out"]
                .map(|what| arrays(|k| path.with_extension(format!("{what}_{k}.npy"))));
            let run = Run {
                function: Name::new("main"),
                inputs,
                outputs,
                atol: super::ATOL,
            };
            return Ok((module, vec![run]));
        }
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        // Fewer capsules: on some machines the thread computes them.
        let text = match stem(path).as_str() {
            "capsule" => text.replace("x32", "x4"),
            _ => text,
        };
        let parsed = tir::text::parse(&text, Name::new("program"), &Default::default());
        let module = parsed.map_err(|e| said(&e))?;
        tir::verify(&module).map_err(|e| said(&e))?;
        let functions: Vec<Name> = tir::SymbolTable::new(&module).iter().map(|f| f.0).collect();
        let run = |function: Name| {
            let entry = Entry::of(&module, Some(function.as_str())).map_err(|e| said(&e))?;
            let inputs = tir_run::bind::inputs(&entry.params, &[], Some(1));
            let inputs = inputs.map_err(|e| said(&[*e]))?;
            let inputs: Vec<Array> = inputs.into_iter().map(|(.., array)| array).collect();
            let outputs = execute(&module, function, &inputs)?.outputs;
            let off = rounding(&text, Some(function), &inputs, &outputs)?;
            Ok(Run {
                function,
                inputs,
                outputs,
                atol: off.max(super::ATOL),
            })
        };
        let runs: Result<Vec<Run>, String> = functions.into_iter().map(run).collect();
        Ok((module.clone(), runs?))
    }
}
