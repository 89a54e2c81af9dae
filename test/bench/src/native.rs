//! Networks as native code on this processor, beside ONNX Runtime where Python has it: one thread each, in turns.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tir::workload::Workload;
use tir::{Ir, PassManager};
use tir_data::{Array, compare};
use tir_opt::Tool;
use tir_run::Entry;
use tir_run::native::{Native, programs};

use crate::networks::{Network, said};

const RTOL: f64 = 1e-3;
const ATOL: f64 = 1e-4;

/// Calls in a round; the time of a round is that of its quickest call.
const CALLS: usize = 30;

/// Loads a model, calls it on stored inputs, and prints the milliseconds of the quickest call.
const PEER: &str = r#"
import sys, time
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
names = [i.name for i in session.get_inputs()]
feeds = {name: numpy.load(path) for name, path in zip(names, sys.argv[3:])}
best = float("inf")
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    session.run(None, feeds)
    best = min(best, time.perf_counter() - start)
print(best * 1e3)
"#;

/// Milliseconds of ONNX Runtime on a network; none if Python has it not.
fn peer(network: &Network) -> Option<f64> {
    let mut command = Command::new("python3");
    command.args(["-c", PEER]).arg(network.model());
    command.arg(CALLS.to_string()).args(network.stored());
    let done = command.output().ok().filter(|done| done.status.success())?;
    String::from_utf8(done.stdout).ok()?.trim().parse().ok()
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// Multiplications with additions of a network's function.
fn work(module: &Ir) -> u64 {
    let functions = module.slots().into_iter();
    let mut functions = functions.filter_map(|slot| module.child(slot));
    functions
        .find_map(Workload::count)
        .map_or(0, |work| work.macs())
}

fn network(tool: &Tool, folder: &Path, machine: &Path, rounds: usize) -> Result<(), String> {
    let network = Network::new(folder)?;
    let mut module = network.import()?;
    let macs = work(&module);
    let start = Instant::now();
    let text = format!("to-native{{machine={}}}", machine.display());
    let pipeline = tool.passes.parse(&text).map_err(|e| said(&e))?;
    let report = PassManager::with(pipeline, Default::default()).run(&mut module);
    report.into_result().map_err(|e| said(&e))?;
    let lowered = start.elapsed().as_secs_f64();
    let entry = Entry::of(&module, None).map_err(|e| said(&e))?;
    let inputs: Vec<(usize, &Array)> = network.inputs().iter().enumerate().collect();
    let once = |repeat: usize| {
        let native = Native {
            repeat,
            ..Native::default()
        };
        let run = entry.execute_native(&module, &inputs, &native);
        run.map_err(|e| said(&e))
    };
    let start = Instant::now();
    let run = once(1)?;
    let first = start.elapsed().as_secs_f64();
    let mut worst = 0f64;
    for (wanted, found) in network.outputs().iter().zip(&run.outputs) {
        let comparison = compare(wanted, found, RTOL, ATOL);
        if !comparison.ok {
            return Err(comparison.to_string());
        }
        worst = worst.max(comparison.max_abs_error);
    }
    let (mut own, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        own.push(once(CALLS)?.seconds * 1e3);
        theirs.extend(peer(&network));
    }
    let own = median(own).unwrap_or_default();
    let rate = 2.0 * macs as f64 / own.max(1e-6) / 1e6;
    println!("{}", folder.display());
    println!(
        "  lowered in {lowered:.2} s, compiled or found, and run once, in {first:.2} s; largest error {worst:.1e}"
    );
    match median(theirs) {
        Some(theirs) => println!(
            "  native {own:>9.3} ms ({rate:.1} GFLOP/s), ONNX Runtime {theirs:>9.3} ms: ratio {:.2}",
            own / theirs
        ),
        None => println!(
            "  native {own:>9.3} ms ({rate:.1} GFLOP/s); no ratio: python3 has no onnxruntime ('pip install onnxruntime')"
        ),
    }
    Ok(())
}

/// Runs networks as native code: folders with `model.onnx`, inputs `in_K.npy` and answers `out_K.npy`.
///
/// # Errors
/// If one cannot be read or lowered, native code is not to be had, or an answer is another one.
pub(crate) fn native(
    folders: &[String],
    machine: Option<&str>,
    rounds: usize,
) -> Result<(), String> {
    programs().map_err(|e| said(&e))?;
    let tool = tir_opt::stock();
    tool.load();
    let machine = PathBuf::from(machine.unwrap_or("host"));
    println!("one thread each; medians of {rounds} rounds, of each the quickest of {CALLS} calls");
    for folder in folders {
        network(&tool, Path::new(folder), &machine, rounds)
            .map_err(|error| format!("{folder}: {error}"))?;
    }
    Ok(())
}
