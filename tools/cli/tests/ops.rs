//! Every small case of `test/e2e/ops` at loop, memref and accel level against ONNX Runtime's
//! answer, as the pipelines lower it for one machine.

mod common;

use std::path::{Path, PathBuf};

use common::{arrays, lower, root, run, said};
use rayon::prelude::*;
use tir_opt::Tool;

/// What a level does not take by design: case, level, and what the error says.
const NOT_TAKEN: [(&str, &str, &str); 0] = [];

/// All levels of a case, each from the one before; what is wrong, with the level.
fn levels(tool: &Tool, model: &Path) -> Vec<String> {
    let name = model.file_stem().unwrap_or_default().to_string_lossy();
    let mut module = match tir_translate::import_onnx(model) {
        Ok(module) => module,
        Err(errors) => return vec![format!("{name}: {}", said(&errors))],
    };
    // `CASE.in_0.npy`, `CASE.in_1.npy`, …
    let [inputs, outputs] =
        ["in", "out"].map(|what| arrays(|k| model.with_extension(format!("{what}_{k}.npy"))));
    let machine = root().join("test/e2e/machines/npu.tir");
    for at in ["loop", "memref", "accel"] {
        let pipeline = format!("to-{at}{{machine={}}}", machine.display());
        let done = lower(tool, &mut module, &pipeline);
        let done = done.and_then(|()| run(&module, &inputs, &outputs).map(drop));
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
    let entries = std::fs::read_dir(root().join("test/e2e/ops")).expect("the cases");
    let mut models: Vec<PathBuf> = entries
        .map(|e| e.expect("a file").path())
        .filter(|p| p.extension().is_some_and(|e| e == "onnx"))
        .collect();
    models.sort();
    assert!(models.len() >= 300, "{}", models.len());
    let tool = tir_opt::stock();
    tool.load();
    let wrong: Vec<String> = (models.par_iter())
        .flat_map_iter(|model| levels(&tool, model))
        .collect();
    let (bad, all) = (wrong.len(), models.len());
    assert!(wrong.is_empty(), "{bad} of {all}:\n{}", wrong.join("\n"));
}
