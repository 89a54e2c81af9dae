//! Elementwise operators behind products, on machines that have a unit for some of them: random programs compute the same,
//! and some of them in steps of several units.

mod common;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{foretold, lower, reference, root, run_within, try_seeds};
use tir::Name;
use tir_data::Random;
use tir_opt::Tool;

/// Programs that are tried.
const SEEDS: u64 = 40;

/// A committed machine without some of what its vector unit computes, in runs of any length.
fn machine(random: &mut Random) -> String {
    let text = std::fs::read_to_string(root().join("test/e2e/machines/npu.tir"));
    let text = text.expect("a machine");
    let mut kept = String::new();

    let mut parts = text.split("\n  accel.intrinsic @");
    kept.push_str(parts.next().expect("what is before"));
    for part in parts {
        let fuses =
            part.starts_with("bias") && part.contains("relu") || part.starts_with("bias_add");
        let vector = part.contains("on @vector");
        let stays =
            !vector || random.below(if fuses { 4 } else { 2 }) == 0 || part.starts_with("add16");
        if stays {
            write!(kept, "\n  accel.intrinsic @{part}").expect("a string");
        } else {
            // What follows the intrinsic is the machine's.
            let end = part.find("\n  }").map_or(part.len(), |at| at + 4);
            kept.push_str(&part[end..]);
        }
    }
    let granule = [4, 64][random.below(2)];
    kept.replace("granule = 4", &format!("granule = {granule}"))
}

/// A product and some elementwise operators behind it.
fn program(random: &mut Random) -> (String, Vec<Vec<i64>>) {
    let [c, k] = [
        [16i64, 20, 32, 40][random.below(4)],
        [8i64, 16, 24][random.below(3)],
    ];
    let [h, w] = [
        [4i64, 7, 14][random.below(3)],
        [7i64, 14, 16, 28][random.below(4)],
    ];
    let size = [1i64, 3][random.below(2)];
    let pad = size / 2;
    let ty = format!("tensor<1x{c}x{h}x{w}xf32>");
    let (from, filters) = (
        format!("tensor<1x{k}x{h}x{w}xf32>"),
        format!("tensor<{c}x{k}x{size}x{size}xf32>"),
    );
    let mut shapes = vec![vec![1, k, h, w], vec![c, k, size, size]];
    let mut body = String::new();
    writeln!(
        body,
        "  %v0 = graph.conv2d %a0, %a1 {{pads = array<i64: {pad}, {pad}, {pad}, {pad}>}} : ({from}, {filters}) -> {ty}"
    )
    .expect("a string");
    let mut arguments = vec![format!("%a0: {from}"), format!("%a1: {filters}")];
    let count = 1 + random.below(4);
    for at in 1..=count {
        let before = at - 1;
        let line = match random.below(5) {
            0 => format!("  %v{at} = graph.relu %v{before} : {ty}"),
            1 => format!(
                "  %v{at} = graph.clip %v{before} {{min = 0.0 : f64, max = 6.0 : f64}} : {ty}"
            ),
            kind => {
                let shape = match random.below(4) {
                    0 => vec![1, c, 1, 1],
                    1 => vec![1, 1, 1, w],
                    2 => vec![1, c, 1, w],
                    _ => vec![1, c, h, w],
                };
                let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
                let other = format!("tensor<{}xf32>", sizes.join("x"));
                let op = ["add", "add", "mul"][kind - 2];
                let name = match random.below(3) {
                    // One that is not known when the program is compiled.
                    0 => {
                        let name = format!("%a{}", shapes.len());
                        arguments.push(format!("{name}: {other}"));
                        shapes.push(shape);
                        name
                    }
                    _ => {
                        let name = format!("%c{at}");
                        let count = shape.iter().product::<i64>() as usize;
                        let mut bytes = String::new();
                        for _ in 0..count {
                            let value = random.below(2001) as f32 / 1000.0 - 1.0;
                            for byte in value.to_le_bytes() {
                                write!(bytes, "{byte:02X}").expect("a string");
                            }
                        }
                        writeln!(
                            body,
                            "  {name} = graph.constant dense<\"0x{bytes}\"> : {other}"
                        )
                        .expect("a string");
                        name
                    }
                };
                format!("  %v{at} = graph.{op} %v{before}, {name} : ({ty}, {other}) -> {ty}")
            }
        };
        writeln!(body, "{line}").expect("a string");
    }
    let text = format!(
        "func.func @main({}) -> {ty} {{\n{body}  func.return %v{count} : {ty}\n}}\n",
        arguments.join(", ")
    );
    (text, shapes)
}

/// What is wrong with a program, if anything; counts those whose units are called more often than for products alone.
fn wrong(tool: &Tool, seed: u64, steps: &AtomicUsize) -> Option<String> {
    let mut random = Random::new(seed ^ 0x7374_6570);
    let machine = machine(&mut random);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("steps-{seed}.tir"));
    std::fs::write(&path, &machine).expect("a file");
    let (text, shapes) = program(&mut random);
    let found = || -> Result<(), String> {
        let (module, inputs, expected) = reference(&text, shapes.clone())?;
        for choice in ["egraph=false", "egraph=false fuse=false"] {
            let mut module = module.clone();
            for level in ["loop", "accel"] {
                let at = |why: String| format!("{choice} at {level}: {why}");
                let pipeline = format!("to-{level}{{machine={} {choice}}}", path.display());
                lower(tool, &mut module, &pipeline).map_err(at)?;
                let run = run_within(&module, &inputs, &expected, |_| 1e-3).map_err(at)?;
                foretold(&module, Name::new("main"), &run).map_err(at)?;
            }
            let calls = tir::text::print(&module, &Default::default());
            let calls: Vec<&str> = calls
                .lines()
                .filter(|l| l.trim_start().starts_with("accel.call"))
                .collect();
            let on = |name: &str| calls.iter().any(|line| line.contains(name));
            let several = on("@add16(") && (on("@relu16(") || on("@bias16(") || on("@relu6_16("));
            if choice == "egraph=false" && several {
                steps.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    found()
        .err()
        .map(|why| format!("{}: {why}\n{text}", path.display()))
}

#[test]
fn elementwise_nests_compute_the_same_in_steps() {
    let tool = tir_opt::stock();
    tool.load();
    let steps = AtomicUsize::new(0);
    try_seeds("TIR_PROGRAMS", SEEDS, |seed| wrong(&tool, seed, &steps));
    let found = steps.load(Ordering::Relaxed);
    assert!(found > 0, "no program runs in steps");
}
