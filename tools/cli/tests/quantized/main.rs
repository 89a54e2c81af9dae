//! Quantized networks with integers: every level gives the same bits, on machines with units for
//! small integers.

#[path = "../common/mod.rs"]
mod common;
mod program;
#[path = "../common/networks.rs"]
mod stored;

use std::path::Path;

use common::{arrays, lower, root, said};
use stored::network;
use tir::Ir;
use tir_data::Array;
use tir_opt::Tool;
use tir_run::{Execution, execute};

fn import(model: &Path) -> Ir {
    tir_translate::import_onnx(model).unwrap_or_else(|e| panic!("{}", said(&e)))
}

fn ran(module: &Ir, inputs: &[Array]) -> Execution {
    execute(module, inputs).unwrap_or_else(|e| panic!("{}", said(&e)))
}

fn lowered(tool: &Tool, module: &mut Ir, pipeline: &str) {
    lower(tool, module, pipeline).unwrap_or_else(|e| panic!("{pipeline}: {e}"));
}

fn same(found: &Execution, wanted: &[Array], what: &str) {
    assert_eq!(found.outputs.len(), wanted.len(), "{what}");
    for (found, wanted) in found.outputs.iter().zip(wanted) {
        assert_eq!(found.bytes(), wanted.bytes(), "{what}");
    }
}

/// With powers of two as scales, integers, sums in floats and ONNX Runtime agree to the bit.
#[test]
fn the_cnn_is_the_same_at_every_level_of_every_machine_for_integers() {
    let tool = tir_opt::stock();
    tool.load();
    let models = root().join("test/e2e/models");
    let [inputs, outputs] =
        ["in", "out"].map(|what| arrays(|k| models.join(format!("cnn_int8.{what}_{k}.npy"))));
    let floats = import(&models.join("cnn_int8.onnx"));
    same(&ran(&floats, &inputs), &outputs, "in floats");
    // Cycles at most, and the share of multiply-adds of units in thousandths at least.
    for (machine, cycles, share) in [
        ("vta", 296_000, 999),
        ("gemmini", 95_000, 1000),
        ("conv-unit", 10_000_000, 1000),
        ("mcu", 8_500_000, 999),
    ] {
        let file = root().join(format!("test/e2e/machines/{machine}.tir"));
        let mut module = import(&models.join("cnn_int8.onnx"));
        lowered(&tool, &mut module, "func.func(fold-qdq)");
        same(&ran(&module, &inputs), &outputs, "graph level");
        // Where a call is a single dot product, one level is enough of a run.
        let levels: &[&str] = match machine {
            "mcu" => &["accel"],
            _ => &["tensor", "loop", "memref", "accel"],
        };
        for level in levels {
            let pipeline = format!("to-{level}{{machine={}}}", file.display());
            lowered(&tool, &mut module, &pipeline);
            let run = ran(&module, &inputs);
            same(&run, &outputs, &format!("{level} level on {machine}"));
            if *level == "accel" {
                let run = run.machine.expect("runs on a machine");
                let found = run.cycles;
                assert!(found <= cycles, "{machine}: {found} cycles");
                let all = run.all_macs.unwrap_or(run.macs);
                assert!(
                    run.macs * 1000 >= all * share,
                    "{machine}: {} of {all}",
                    run.macs
                );
            }
        }
    }
}

/// SqueezeNet in QDQ form: uint8 values, int8 weights by channel.
#[test]
fn squeezenet_runs_on_the_systolic_array() {
    let tool = tir_opt::stock();
    tool.load();
    let network = network("squeezenet_qdq", "quantized");
    let (inputs, outputs) = (&network.inputs, &network.outputs);
    let mut module = import(&network.model);
    lowered(&tool, &mut module, "func.func(fold-qdq)");
    let graph = ran(&module, inputs);
    // One step of the result's scale, 0.05274.
    let step = 0.0528;
    let (found, wanted) = (graph.outputs[0].iter_f64(), outputs[0].iter_f64());
    let largest = found.zip(wanted).map(|(a, b)| (a - b).abs());
    let largest = largest.fold(0.0, f64::max);
    assert!(largest <= step, "{largest}");
    let machine = root().join("test/e2e/machines/gemmini.tir");
    let pipeline = format!("to-accel{{machine={}}}", machine.display());
    lowered(&tool, &mut module, &pipeline);
    let run = ran(&module, inputs);
    same(&run, &graph.outputs, "accel level");
    let run = run.machine.expect("runs on a machine");
    assert_eq!(run.thread.busy, 0);
    assert!(run.cycles <= 2_900_000, "{} cycles", run.cycles);
}

/// Random convolutions in QDQ form: integers differ from floats by one step of the result, and accel
/// level gives the bits of graph level on machines with units for small integers, and on one without.
#[test]
fn random_programs_are_the_same_at_every_level() {
    let tool = tir_opt::stock();
    tool.load();
    let machines = ["vta", "gemmini", "conv-unit", "mcu", "npu-vector"];
    for seed in 0..24 {
        let program = program::Program::new(seed);
        let text = program.text();
        let parse = || {
            let parsed = tir::text::parse(&text, tir::Name::new("program"), &Default::default());
            parsed.unwrap_or_else(|e| panic!("seed {seed}: {}\n{text}", said(&e)))
        };
        let floats = parse();
        let inputs: Vec<Array> = program
            .arguments()
            .into_iter()
            .enumerate()
            .map(|(k, shape)| {
                let made = tir::Data::random(tir::Type::tensor(shape, tir::Type::f32()), k as u64);
                made.and_then(|data| data.to_array()).expect("numbers")
            })
            .collect();
        let mut module = parse();
        lowered(&tool, &mut module, "func.func(fold-qdq)");
        let printed = tir::text::print(&module, &Default::default());
        assert!(printed.contains("graph.conv2d_integer"), "seed {seed}");
        let wanted = ran(&module, &inputs).outputs;
        let real = ran(&floats, &inputs).outputs;
        let apart = wanted[0].iter_f64().zip(real[0].iter_f64());
        let apart = apart.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(
            apart <= program.step() * 1.001,
            "seed {seed}: {apart}\n{text}"
        );
        for machine in machines {
            let file = root().join(format!("test/e2e/machines/{machine}.tir"));
            let mut module = parse();
            lowered(&tool, &mut module, "func.func(fold-qdq)");
            for level in ["tensor", "accel"] {
                let pipeline = format!("to-{level}{{machine={}}}", file.display());
                lowered(&tool, &mut module, &pipeline);
                let run = ran(&module, &inputs);
                let what = format!("seed {seed}: {level} level on {machine}\n{text}");
                same(&run, &wanted, &what);
            }
        }
    }
}
