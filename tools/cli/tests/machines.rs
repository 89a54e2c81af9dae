//! Every small case of the suite on every machine file: at tensor, loop, memref and accel level it gives what is
//! stored, or what its program gives as it stands; and at accel level the run without data foretells the run.
//!
//! Cases are the networks of `test/e2e/ops` and `test/e2e/models` with ONNX Runtime's answers, and the functions of
//! the programs of `test/e2e` that are made of one operator or a few, these at accel level alone. By default each is
//! tried on `npu.tir` and on one of the other machines in turn; with `TIR_MACHINES=all` on all of them. `TIR_CASE` is the
//! only case that is tried.

mod common;

use std::path::{Path, PathBuf};

use common::cases::{Case, execute, files, stem};
use common::{foretold, lower, within};
use rayon::prelude::*;
use tir_opt::Tool;

/// What a level does not take by design: case, level, and what the error says.
const NOT_TAKEN: [(&str, &str, &str); 0] = [];

/// What takes minutes where the thread computes it, and is tried with all machines alone: other tests have it on those
/// that it is for.
const LONG: [&str; 1] = ["cnn_int8"];

/// Lowers a case through its levels, each from the one before; what is wrong, with the level.
fn levels(case: &Case, tool: &Tool, machine: &Path) -> Result<(), String> {
    let loaded = case.loaded.get_or_init(|| case.load());
    let (module, runs) = loaded.as_ref().map_err(Clone::clone)?;
    let mut module = module.clone();
    for level in case.levels {
        let pipeline = format!(
            "to-{level}{{machine={} {}}}",
            machine.display(),
            case.options
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
            .find(|(taken, l, _)| *taken == stem(&case.path) && l == level);
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
        let why = levels(case, &tool, machine).err()?;
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
