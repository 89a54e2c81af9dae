//! mlir-opt as a reference: what its folds make of a module in generic form.

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};

use tir::{Attr, text};

/// Ops that mlir-opt 22 does not fold, in the order of their names.
pub(crate) const NEVER: &[&str] = &["math.fma", "math.rsqrt"];

/// For each function the constants that it returns after `--canonicalize`; `None` if mlir-opt is not
/// installed.
pub(crate) fn folded(module: &str) -> Option<Vec<Vec<Option<Attr>>>> {
    let program = ["mlir-opt-22", "/usr/lib/llvm-22/bin/mlir-opt"]
        .into_iter()
        .find(|program| Command::new(program).arg("--version").output().is_ok())?;
    let mut child = Command::new(program)
        .args(["--canonicalize", "--mlir-print-op-generic"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mlir-opt starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = module.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("mlir-opt ends");
    writer
        .join()
        .expect("a writer")
        .expect("mlir-opt reads all");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "mlir-opt: {stderr}");
    Some(constants(&String::from_utf8_lossy(&output.stdout)))
}

/// What the functions of a printed module return.
fn constants(printed: &str) -> Vec<Vec<Option<Attr>>> {
    let mut functions = Vec::new();
    let mut known: HashMap<&str, Attr> = HashMap::new();
    for line in printed.lines().map(str::trim) {
        if line.starts_with("\"func.func\"") {
            known.clear();
        } else if let Some((name, rest)) = line.split_once(" = \"arith.constant\"() <{value = ") {
            let (value, _) = rest.split_once("}> : ").expect("a constant");
            let value = text::parse_attr(value).expect("a value");
            known.insert(name, value);
        } else if let Some(rest) = line.strip_prefix("\"func.return\"(") {
            let (operands, _) = rest.split_once(')').expect("operands");
            let found = operands.split(", ").map(|name| known.get(name).copied());
            functions.push(found.collect());
        }
    }
    functions
}
