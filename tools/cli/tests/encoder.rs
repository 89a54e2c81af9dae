//! An encoder as BERT has it, with attention, layer norm and GELU: every level agrees with ONNX
//! Runtime, and below graph level nothing of it is special.

use std::path::{Path, PathBuf};
use std::process::Command;

fn file(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("test/e2e").join(path)
}

#[test]
fn every_level_agrees() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("encoder");
    let run = Command::new(env!("CARGO_BIN_EXE_tir"))
        .arg("compile")
        .arg(file("models/encoder.onnx"))
        .arg("--machine")
        .arg(file("machines/npu.tir"))
        .arg("--input")
        .arg(file("models/encoder.in_0.npy"))
        .arg("--input")
        .arg(file("models/encoder.in_1.npy"))
        .arg("--compare")
        .arg(file("models/encoder.out_0.npy"))
        .arg("--out")
        .arg(&out)
        .output()
        .expect("tir starts");
    let text = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{text}{errors}");
    for level in ["graph", "tensor", "loop", "memref", "accel"] {
        assert!(text.contains(&format!("  {level} ")), "{text}");
    }
    assert!(!text.contains("WRONG"), "{text}");
    // Of the operators only groups are left: generics and views say the rest.
    let tensor = std::fs::read_to_string(out.join("tensor.tir")).expect("the tensor level");
    for line in tensor.lines() {
        let special = line.contains("= graph.") && !line.contains("= graph.fused");
        assert!(!special, "{line}");
    }
}
