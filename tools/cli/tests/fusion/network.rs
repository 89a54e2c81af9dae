//! A whole network with and without fusion, on the machine model.

use std::path::Path;

use tir::PassManager;
use tir_data::npy;

/// What a compiled network costs.
#[derive(Debug)]
struct Cost {
    /// Cycles of the run.
    cycles: u64,
    /// Bytes that engines moved from and to far memory.
    bytes: u64,
    /// Bytes that `fuse-graph` says are not moved between operators.
    saved: u64,
}

/// Compiles the committed convolutional network as it is and runs it.
fn cost(fuse: bool) -> Cost {
    let tool = tir_opt::stock();
    tool.load();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/e2e");
    let model = root.join("models/cnn.onnx");
    let mut module = tir_translate::import_onnx(&model).expect("a network");
    let machine = root.join("machines/npu.tir");
    let text = format!(
        "to-accel{{machine={} fuse={fuse} egraph=false max_stages=1}}",
        machine.display()
    );
    let pipeline = tool.passes.parse(&text).expect("a pipeline");
    let report = PassManager::with(pipeline, Default::default()).run(&mut module);
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    let counts = report.statistics.get("fuse-graph");
    let saved = counts.and_then(|counts| counts.get("saved bytes"));
    let input = npy::read(&model.with_extension("in_0.npy")).expect("an input");
    let run = tir_run::execute(&module, &[input]).unwrap_or_else(|e| panic!("{e:?}"));
    let machine = run.machine.expect("it runs on a machine");
    let engines = machine.queues.iter().filter(|q| q.engine);
    Cost {
        cycles: machine.cycles,
        bytes: engines.map(|q| q.bytes).sum(),
        saved: saved.copied().unwrap_or(0),
    }
}

/// Far memory is spared what every edge inside of a group would have written and read, at least,
/// and the network takes fewer cycles.
#[test]
fn edges_inside_of_groups_are_not_moved() {
    let (fused, alone) = (cost(true), cost(false));
    println!("fused {fused:?}, unfused {alone:?}");
    assert_eq!(alone.saved, 0);
    assert!(fused.saved > 0);
    assert!(fused.bytes + fused.saved <= alone.bytes);
    assert!(fused.cycles < alone.cycles);
}
