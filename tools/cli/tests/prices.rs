//! One price for the thread's work: a run without data takes the cycles of a run with data, to the
//! cycle, for all committed networks on all committed machines; and what layers cost adds up.

mod common;

use std::path::PathBuf;

use common::{arrays, dry, lower, root, said};
use rayon::prelude::*;
use tir::Name;
use tir_run::MachineSummary;

const NETWORKS: [&str; 5] = ["walkthrough", "micro", "cnn", "cnn_int8", "encoder"];

/// The machine files of the suite, and the one of the book with a slow thread.
fn machines() -> Vec<PathBuf> {
    let folder = root().join("test/e2e/machines");
    let found = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = found.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "tir"));
    files.push(root().join("docs/book/examples/machines/mcu.tir"));
    files.sort();
    files
}

/// What layers cost adds up to what the run cost; products have layers.
fn adds_up(run: &MachineSummary) -> Result<(), String> {
    let queues = |engine: bool| run.queues.iter().filter(move |q| q.engine == engine);
    let layers = || run.layers.iter();
    let bytes: u64 = queues(true).map(|q| q.bytes).sum();
    let all = [
        (
            "engines",
            queues(true).map(|q| q.busy).sum(),
            layers().map(|l| l.load + l.store).sum(),
        ),
        (
            "units",
            queues(false).map(|q| q.busy).sum(),
            layers().map(|l| l.unit).sum(),
        ),
        ("thread", run.thread.busy, layers().map(|l| l.thread).sum()),
        (
            "waits",
            run.thread.waiting + run.thread.queue_full,
            layers().map(|l| l.waiting + l.queue_full).sum(),
        ),
        (
            "stalls",
            run.queues.iter().map(|q| q.stall).sum(),
            layers().map(|l| l.stall).sum(),
        ),
        ("bytes", bytes, layers().map(|l| l.bytes).sum()),
        (
            "causes",
            bytes,
            layers().flat_map(|l| l.causes.values()).sum(),
        ),
        ("macs", run.macs, layers().map(|l| l.macs).sum()),
        (
            "end",
            run.cycles,
            layers().map(|l| l.start + l.cycles).max().unwrap_or(0),
        ),
    ];
    // An operator that rewriting has replaced is found in no layer.
    let useful = run.bounds.as_ref().map_or(0, |b| b.useful_macs);
    let found = layers().filter_map(|l| l.useful_macs).sum::<u64>();
    if found > useful || found == 0 && useful > 0 {
        return Err(format!("{found} of {useful} multiply-adds are useful"));
    }
    match all.into_iter().find(|(_, all, parts)| all != parts) {
        None => Ok(()),
        Some((what, all, parts)) => Err(format!("{what}: {all}, of layers {parts}")),
    }
}

fn check(name: &str, machine: &std::path::Path) -> Result<(), String> {
    let tool = tir_opt::stock();
    tool.load();
    let folder = root().join("test/e2e/models");
    let model = folder.join(format!("{name}.onnx"));
    let mut module = tir_translate::import_onnx(&model).map_err(|e| said(&e))?;
    let pipeline = format!("to-accel{{integer=true machine={}}}", machine.display());
    lower(&tool, &mut module, &pipeline)?;
    let [inputs, outputs] =
        ["in", "out"].map(|what| arrays(|k| folder.join(format!("{name}.{what}_{k}.npy"))));
    let run = common::run(&module, &inputs, &outputs)?;
    let run = run.machine.ok_or("runs on no machine")?;
    adds_up(&run)?;
    let wanted = (run.cycles, run.thread.busy);
    match dry(&module, Name::new("main"))? {
        Some(found) if found == wanted => Ok(()),
        found => Err(format!("{found:?} without data, {wanted:?} with")),
    }
}

/// Whether a network is tried on a machine: networks of floats on machines of integers, and the other way
/// round, are scalar code of the thread, of which the small ones have enough. `TIR_ALL` tries all.
fn is_tried(name: &str, machine: &std::path::Path) -> bool {
    let is_small = ["walkthrough", "micro"].contains(&name);
    let integers = ["vta", "gemmini", "mcu"].iter().any(|stem| {
        let own = machine.file_stem().and_then(|s| s.to_str()) == Some(stem);
        own && !machine.starts_with(root().join("docs"))
    });
    // On the microcontroller a call does 16 products.
    let many = machine.ends_with("machines/mcu.tir") && name == "cnn_int8";
    let fits = is_small || integers == (name == "cnn_int8") && !many;
    fits || std::env::var_os("TIR_ALL").is_some()
}

#[test]
fn a_run_without_data_takes_as_long() {
    let machines = machines();
    let pairs = (machines.iter()).flat_map(|machine| NETWORKS.map(|name| (name, machine)));
    let pairs: Vec<_> = pairs
        .filter(|(name, machine)| is_tried(name, machine))
        .collect();
    let wrong = pairs.par_iter().filter_map(|(name, machine)| {
        let why = check(name, machine).err()?;
        Some(format!("{name} on {}: {why}", machine.display()))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
