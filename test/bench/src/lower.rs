//! Time of lowering: networks of bottlenecks, as deep as ResNet-50 and ResNet-101, which have the same distinct
//! layers.

use std::path::Path;

use tir_support::networks::bottlenecks;

use crate::{line, median, run, tool};

/// Seconds of CPU that 53 convolutions may take.
const BOUND: f64 = 5.0;

/// Lowers both networks to accel level.
pub(crate) fn lower(rounds: usize) -> Result<(), String> {
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/machines/npu.tir");
    let machine = tir::pass::option_text(&machine.to_string_lossy());
    let pipeline = format!("--to-accel=machine={machine}");
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
        let runs = (0..rounds.max(1)).map(|_| run(&tool("tir-opt"), &args));
        let runs: Result<Vec<_>, String> = runs.collect();
        let used = median(&runs?);
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
