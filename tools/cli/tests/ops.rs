//! Every small case of `test/e2e/ops` at loop, memref and accel level against ONNX Runtime's
//! answer, as the pipelines lower it for npu.tir, and for one of the other committed machines in turn;
//! with `TIR_MACHINES=all` for all of them.

mod common;

use std::path::{Path, PathBuf};

use common::{arrays, lower, root, run, said};
use rayon::prelude::*;
use tir_opt::Tool;

/// What a level does not take by design: case, level, and what the error says.
const NOT_TAKEN: [(&str, &str, &str); 0] = [];

/// All levels of a case, each from the one before; what is wrong, with the level.
fn levels(tool: &Tool, model: &Path, machine: &Path) -> Vec<String> {
    let stem = |path: &Path| {
        path.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .to_string()
    };
    let (case, on) = (stem(model), stem(machine));
    let name = format!("{case} for {on}");
    let mut module = match tir_translate::import_onnx(model) {
        Ok(module) => module,
        Err(errors) => return vec![format!("{name}: {}", said(&errors))],
    };
    // `CASE.in_0.npy`, `CASE.in_1.npy`, …
    let [inputs, outputs] =
        ["in", "out"].map(|what| arrays(|k| model.with_extension(format!("{what}_{k}.npy"))));
    for at in ["loop", "memref", "accel"] {
        let pipeline = format!("to-{at}{{machine={}}}", machine.display());
        let done = lower(tool, &mut module, &pipeline);
        let done = done.and_then(|()| run(&module, &inputs, &outputs).map(drop));
        let refused = NOT_TAKEN
            .iter()
            .find(|(taken, l, _)| *taken == case && *l == at);
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
    let entries = std::fs::read_dir(root().join("test/e2e/ops")).expect("the cases");
    let mut models: Vec<PathBuf> = entries
        .map(|e| e.expect("a file").path())
        .filter(|p| p.extension().is_some_and(|e| e == "onnx"))
        .collect();
    models.sort();
    assert!(models.len() >= 300, "{}", models.len());
    let entries = std::fs::read_dir(root().join("test/e2e/machines")).expect("the machines");
    let mut machines: Vec<PathBuf> = entries.map(|e| e.expect("a file").path()).collect();
    machines.sort();
    let first = machines.iter().position(|p| p.ends_with("npu.tir"));
    let first = machines.remove(first.expect("npu.tir"));
    let all = std::env::var("TIR_MACHINES").is_ok_and(|which| which == "all");
    let tool = tir_opt::stock();
    tool.load();
    let kinds = machines.len();
    let pairs = models.iter().enumerate().flat_map(|(number, model)| {
        let others = machines.iter().enumerate();
        let others = others.filter(move |(i, _)| all || number % kinds == *i);
        let others = others.map(|(_, machine)| machine);
        std::iter::once(&first)
            .chain(others)
            .map(move |machine| (model, machine))
    });
    let pairs: Vec<(&PathBuf, &PathBuf)> = pairs.collect();
    let wrong: Vec<String> = (pairs.par_iter())
        .flat_map_iter(|(model, machine)| levels(&tool, model, machine))
        .collect();
    let (bad, all) = (wrong.len(), models.len());
    assert!(wrong.is_empty(), "{bad} of {all}:\n{}", wrong.join("\n"));
}
