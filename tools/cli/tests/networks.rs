//! The networks people bring, with weights that are made here: every level agrees with ONNX Runtime's answer, and what
//! runs together moves less than what runs alone.

mod common;
#[path = "common/networks.rs"]
mod stored;

use std::sync::Mutex;

use common::{root, run, said};
use stored::{Network, network};
use tir::Ir;
use tir_opt::Tool;
use tir_run::MachineSummary;

/// Networks and the levels that are run; `tir-bench networks` runs the others too.
const NETWORKS: [(&str, &[&str]); 4] = [
    ("resnet18", &["graph", "accel"]),
    ("mobilenet_v2", &["graph", "accel"]),
    (
        "squeezenet",
        &["graph", "tensor", "loop", "memref", "accel"],
    ),
    ("lstm_cell", &["graph", "tensor", "loop", "memref", "accel"]),
];

/// Lowers a program to a level in place.
fn lower(tool: &Tool, module: &mut Ir, level: &str, options: &str) -> Result<(), String> {
    let machine = root().join("test/e2e/machines/npu.tir");
    let text = format!("to-{level}{{machine={} {options}}}", machine.display());
    common::lower(tool, module, &text)
}

/// Bytes that engines move, and of those the ones of tensors between groups that are written.
fn moved(machine: &MachineSummary) -> (u64, u64) {
    let causes = machine.causes.iter();
    let between = causes.filter(|c| c.cause == "intermediate" && c.to == "dram");
    let queues = machine.queues.iter().filter(|q| q.engine);
    (
        queues.map(|q| q.bytes).sum(),
        between.map(|c| c.bytes).sum(),
    )
}

/// Lowers a network level by level and runs each; the account of the last.
fn levels(tool: &Tool, network: &Network, wanted: &[&str]) -> Result<MachineSummary, String> {
    let mut module = tir_translate::import_onnx(&network.model).map_err(|e| said(&e))?;
    let mut last = None;
    for level in wanted {
        if *level != "graph" {
            lower(tool, &mut module, level, "").map_err(|e| format!("to {level}: {e}"))?;
        }
        let done = run(&module, &network.inputs, &network.outputs)
            .map_err(|e| format!("at {level}: {e}"))?;
        last = done.machine;
    }
    last.ok_or("runs on no machine".to_string())
}

/// What is wrong with a network at any level, or with what fusion gains.
fn check(tool: &Tool, name: &str, wanted: &[&str]) -> Result<String, String> {
    let network = network(name, "networks");
    let together = levels(tool, &network, wanted)?;
    if together.macs * 100 < together.all_macs.unwrap_or(0) * 99 {
        return Err(format!("{} multiply-adds on units only", together.macs));
    }
    let module = tir_translate::import_onnx(&network.model);
    let mut module = module.map_err(|e| said(&e))?;
    lower(tool, &mut module, "accel", "fuse=false")?;
    let alone = run(&module, &network.inputs, &network.outputs)?.machine;
    let alone = alone.ok_or("runs on no machine")?;
    let ((bytes, left), (most, all)) = (moved(&together), moved(&alone));
    // A tensor that stays in near memory was written once at least.
    let removed = all - left;
    let text = format!(
        "{bytes} bytes in {} cycles, alone {most} bytes in {}; {removed} bytes are not written",
        together.cycles, alone.cycles
    );
    let gains = removed > 0 && bytes + removed <= most && together.cycles < alone.cycles;
    if gains { Ok(text) } else { Err(text) }
}

#[test]
fn networks_agree_and_fusion_gains() {
    let tool = tir_opt::stock();
    tool.load();
    let queue = Mutex::new(NETWORKS.iter());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no panic").next();
                    let Some((name, wanted)) = next else { break };
                    match check(&tool, name, wanted) {
                        Ok(text) => println!("{name}: {text}"),
                        Err(text) => wrong
                            .lock()
                            .expect("no panic")
                            .push(format!("{name}: {text}")),
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
