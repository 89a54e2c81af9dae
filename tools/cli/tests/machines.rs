//! Every small case of the suite on every machine file: at tensor, loop, memref and accel level it gives what is
//! stored, or what its program gives as it stands; and at accel level the run without data foretells the run.
//!
//! Cases are the networks of `test/e2e/ops` and `test/e2e/models` with ONNX Runtime's answers, and the functions of
//! the programs of `test/e2e` that are made of one operator or a few, these at accel level alone. By default each is
//! tried on `npu.tir` and on one of the other machines in turn; with `TIR_MACHINES=all` on all of them. `TIR_CASE` is the
//! only case that is tried.

mod common;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use common::{arrays, foretold, lower, root, rounding, said, within};
use rayon::prelude::*;
use tir::{Ir, Name};
use tir_data::Array;
use tir_opt::Tool;
use tir_run::{Entry, Execution};

/// What a level does not take by design: case, level, and what the error says.
const NOT_TAKEN: [(&str, &str, &str); 0] = [];

/// What takes minutes where the thread computes it, and is tried with all machines alone: other tests have it on those
/// that it is for.
const LONG: [&str; 1] = ["cnn_int8"];

/// Programs as text, below `test/e2e`.
const PROGRAMS: [&str; 5] = [
    "capsule",
    "embedding",
    "vector-nests",
    "layouts/chain",
    "layouts/packed",
];

/// A case: a network or a program, and options of the pipelines.
struct Case {
    path: PathBuf,
    options: &'static str,
    levels: &'static [&'static str],
    /// The program and its runs.
    loaded: OnceLock<Result<(Ir, Vec<Run>), String>>,
}

/// What a function is given, and what it gives.
struct Run {
    function: Name,
    inputs: Vec<Array>,
    outputs: Vec<Array>,
    /// How far sums in another order may be off.
    atol: f64,
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().to_string()
}

/// The files of a folder that end so, in order.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
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

fn execute(module: &Ir, function: Name, inputs: &[Array]) -> Result<Execution, String> {
    let entry = Entry::of(module, Some(function.as_str())).map_err(|e| said(&e))?;
    let inputs: Vec<(usize, &Array)> = inputs.iter().enumerate().collect();
    let run = entry.execute(module, &inputs, Default::default(), false);
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

    fn all() -> Vec<Case> {
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
    fn load(&self) -> Result<(Ir, Vec<Run>), String> {
        let path = &self.path;
        if path.extension().is_some_and(|e| e == "onnx") {
            let module = tir_translate::import_onnx(path).map_err(|e| said(&e))?;
            // `CASE.in_0.npy`, `CASE.in_1.npy`, …
            let [inputs, outputs] = ["in", "out"]
                .map(|what| arrays(|k| path.with_extension(format!("{what}_{k}.npy"))));
            let run = Run {
                function: Name::new("main"),
                inputs,
                outputs,
                atol: common::ATOL,
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
                atol: off.max(common::ATOL),
            })
        };
        let runs: Result<Vec<Run>, String> = functions.into_iter().map(run).collect();
        Ok((module.clone(), runs?))
    }

    /// All levels, each from the one before; what is wrong, with the level.
    fn levels(&self, tool: &Tool, machine: &Path) -> Result<(), String> {
        let loaded = self.loaded.get_or_init(|| self.load());
        let (module, runs) = loaded.as_ref().map_err(Clone::clone)?;
        let mut module = module.clone();
        for level in self.levels {
            let pipeline = format!(
                "to-{level}{{machine={} {}}}",
                machine.display(),
                self.options
            );
            let done = lower(tool, &mut module, &pipeline).and_then(|()| {
                runs.iter().try_for_each(|run| {
                    let at = |why: String| format!("@{}: {why}", run.function);
                    let done = execute(&module, run.function, &run.inputs).map_err(at)?;
                    within(&run.outputs, &done.outputs, |_| run.atol).map_err(at)?;
                    foretold(&module, run.function, &done).map_err(at)
                })
            });
            let refused = NOT_TAKEN
                .iter()
                .find(|(taken, l, _)| *taken == stem(&self.path) && l == level);
            match (done, refused) {
                (Ok(()), None) => {}
                (Err(why), Some((_, _, error))) if why.contains(error) => return Ok(()),
                (Err(why), _) => return Err(format!("at {level}: {why}")),
                (Ok(()), Some(_)) => {
                    return Err(format!("at {level}: is taken, contrary to the list"));
                }
            }
        }
        Ok(())
    }
}

#[test]
fn small_cases_are_right_on_every_machine() {
    let cases = Case::all();
    assert!(cases.len() >= 320, "{}", cases.len());
    let mut machines = files("machines", "tir");
    let first = machines.iter().position(|p| p.ends_with("npu.tir"));
    let first = machines.remove(first.expect("npu.tir"));
    let all = std::env::var("TIR_MACHINES").is_ok_and(|which| which == "all");
    let tool = tir_opt::stock();
    tool.load();
    let kinds = machines.len();
    let only = std::env::var("TIR_CASE").ok();
    let pairs = cases.iter().enumerate().flat_map(|(number, case)| {
        let name = stem(&case.path);
        let wanted = only.as_ref().is_none_or(|only| *only == name);
        let tried = wanted && (all || !LONG.contains(&name.as_str()));
        let others = machines.iter().enumerate();
        let others = others.filter(move |(i, _)| all || number % kinds == *i);
        let others = others.map(|(_, machine)| machine);
        let machines = std::iter::once(&first).chain(others);
        machines
            .filter(move |_| tried)
            .map(move |machine| (case, machine))
    });
    let pairs: Vec<(&Case, &PathBuf)> = pairs.collect();
    let wrong = pairs.par_iter().filter_map(|(case, machine)| {
        let why = case.levels(&tool, machine).err()?;
        let (case, on) = (stem(&case.path), stem(machine));
        let line = format!("{case} for {on} {why}");
        // All pairs take minutes: with `--nocapture` this is seen at once.
        eprintln!("{line}");
        Some(line)
    });
    let wrong: Vec<String> = wrong.collect();
    let (bad, all) = (wrong.len(), pairs.len());
    assert!(wrong.is_empty(), "{bad} of {all}:\n{}", wrong.join("\n"));
}
