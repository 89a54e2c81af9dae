//! Time of lowering: networks of bottlenecks, as deep as ResNet-50 and ResNet-101, which have the same distinct
//! layers; and a model of ResNet-50's size from ONNX on.

use std::path::Path;

use tir_support::networks::{bottlenecks, resnet50};
use tir_translate::ExportOptions;

use crate::{Usage, line, median, run, tool};

/// Seconds of CPU that 53 convolutions may take.
const BOUND: f64 = 5.0;

/// A model may take so many times as long as the bound.
const TIMES: f64 = 1.5;

/// The option that lowers to accel level, of the machine `npu`.
fn to_accel(more: &str) -> String {
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/machines/npu.tir");
    let machine = tir::pass::option_text(&machine.to_string_lossy());
    format!("--to-accel=machine={machine}{more}")
}

/// Medians of what a tool takes with these arguments.
fn medians(name: &str, args: &[&str], rounds: usize) -> Result<Usage, String> {
    let runs = (0..rounds.max(1)).map(|_| run(&tool(name), args));
    let runs: Result<Vec<_>, String> = runs.collect();
    Ok(median(&runs?))
}

/// Imports a model of ResNet-50's layers, with random weights, and lowers it to accel level, with the choice of the e-graph and
/// without it, beside the network of bottlenecks of `lower`, whose weights are arguments.
pub(crate) fn model(rounds: usize) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("tir-bench-model-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let measured = model_in(&folder, rounds);
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

fn model_in(folder: &Path, rounds: usize) -> Result<(), String> {
    let path = |name: &str| folder.join(name).to_string_lossy().to_string();
    let (onnx, file, peer) = (path("model.onnx"), path("model.tir"), path("peer.tir"));
    tir_opt::stock().load();
    let options = ExportOptions {
        function: None,
        inline_bytes: 1 << 30,
    };
    let exported = tir_translate::export_onnx_to(&resnet50(1), &options, Path::new(&onnx));
    exported.map_err(|errors| crate::networks::said(&errors))?;
    std::fs::write(&peer, bottlenecks([3, 4, 6, 3])).map_err(|e| e.to_string())?;

    let import = ["--import-onnx", &onnx, "-o", &file];
    let import = medians("tir-translate", &import, rounds)?;
    line("import", import);
    let lowered = |name: &str, file: &str, more: &str| {
        let to_accel = to_accel(more);
        let used = medians("tir-opt", &[file, &to_accel, "-o", "/dev/null"], rounds)?;
        line(name, used);
        Ok::<_, String>(used.cpu.as_secs_f64())
    };
    let chosen = lowered("lowering", &file, "")?;
    let plain = lowered("without the e-graph", &file, " egraph=false")?;
    let peer = lowered("53 convolutions", &peer, "")?;
    let all = import.cpu.as_secs_f64() + chosen;
    println!(
        "import and lowering: {all:.1} s of CPU, {:.2} times the bound of {BOUND} s ({TIMES} at most wanted); lowering {:.2} \
         times as long as 53 convolutions whose weights are arguments, {:.2} times as long as without the e-graph",
        all / BOUND,
        chosen / peer,
        chosen / plain
    );
    Ok(())
}

/// Lowers both networks to accel level.
pub(crate) fn lower(rounds: usize) -> Result<(), String> {
    let pipeline = to_accel("");
    let file = std::env::temp_dir().join(format!("tir-bench-{}.tir", std::process::id()));
    let path = file.to_string_lossy().to_string();
    let mut seconds = Vec::new();
    for (name, blocks) in [
        ("53 convolutions", [3, 4, 6, 3]),
        ("104 convolutions", [3, 4, 23, 3]),
    ] {
        let text = bottlenecks(blocks);
        std::fs::write(&file, text).map_err(|e| e.to_string())?;
        let args = [path.as_str(), pipeline.as_str(), "-o", "/dev/null"];
        let used = medians("tir-opt", &args, rounds)?;
        line(name, used);
        seconds.push(used.cpu.as_secs_f64());
    }
    let _ = std::fs::remove_file(&file);
    println!(
        "ratio to the bound of {BOUND} s of CPU: {:.2}; 1.96 times the layers, as many distinct ones, take {:.2} times \
         as long",
        seconds[0] / BOUND,
        seconds[1] / seconds[0]
    );
    Ok(())
}
