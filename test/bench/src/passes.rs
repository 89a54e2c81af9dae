//! Canonicalization and common subexpressions beside mlir-opt-22, on one thread.
//!
//! What a pass takes is the CPU time of the tool with it less that without it; medians of several
//! rounds. In both runs `symbol-dce` erases all functions behind it, so that neither prints
//! anything: else what a pass erases would be counted for it as time that printing did not take.
//! The chains share one operand among all their ops, or have a constant for each: the time per op
//! must not grow with their length.

use std::path::{Path, PathBuf};

use crate::program::{Chain, chain, generic_program};
use crate::{Usage, median, run, tool};

/// Where the ratio is wanted to be at most this.
const WANTED: f64 = 0.8;
/// What is less than this takes too little to be compared, in milliseconds.
const LEAST: f64 = 5.0;

/// Milliseconds of CPU that these passes take, with reading and without.
fn cpu(
    program: &Path,
    base: &[&str],
    passes: &[&'static str],
    rounds: usize,
) -> Result<[f64; 2], String> {
    let (mut with, mut without) = (Vec::<Usage>::new(), Vec::<Usage>::new());
    let all = |passes: &[&'static str]| -> Vec<&str> {
        let last = ["--symbol-dce"];
        base.iter().chain(passes).chain(&last).copied().collect()
    };
    for _ in 0..rounds.max(1) {
        with.push(run(program, &all(passes))?);
        without.push(run(program, &all(&[]))?);
    }
    let millis = |runs: &[Usage]| median(runs).cpu.as_secs_f64() * 1e3;
    let whole = millis(&with);
    Ok([whole, (whole - millis(&without)).max(0.0)])
}

/// Runs it: a line for each program and pass.
pub(crate) fn passes(rounds: usize) -> Result<(), String> {
    let peer = PathBuf::from("mlir-opt-22");
    let has_peer = run(&peer, &["--version"]).is_ok();
    let file = std::env::temp_dir().join(format!("tir-bench-passes-{}.mlir", std::process::id()));
    let path = file.to_string_lossy().to_string();
    let ours = [path.as_str(), "--threads", "1", "-o", "/dev/null"];
    let theirs = [path.as_str(), "--mlir-disable-threading", "-o", "/dev/null"];
    let programs = [
        ("1,000 functions of 200 ops", generic_program(1000, 200)),
        ("20,000 ops, one operand", chain(Chain::Shared, 20_000)),
        ("80,000 ops, one operand", chain(Chain::Shared, 80_000)),
        ("20,000 ops, + 0", chain(Chain::Zero, 20_000)),
        ("80,000 ops, + 0", chain(Chain::Zero, 80_000)),
        (
            "20,000 ops, a constant each",
            chain(Chain::Constants, 20_000),
        ),
        (
            "80,000 ops, a constant each",
            chain(Chain::Constants, 80_000),
        ),
    ];
    println!("CPU milliseconds of the passes alone (and with reading); medians of {rounds}");
    for (name, text) in programs {
        let private = "sym_visibility = \"private\", sym_name = ";
        let text = text.replace("sym_name = ", private);
        std::fs::write(&file, text).map_err(|e| e.to_string())?;
        for passes in [
            &["--canonicalize"][..],
            &["--cse"],
            &["--canonicalize", "--cse"],
        ] {
            let [whole, alone] = cpu(&tool("tir-opt"), &ours, passes, rounds)?;
            let label = passes.join(" ");
            print!("{name:<28} {label:<22} tir-opt {alone:>7.1} ({whole:>7.1})");
            if !has_peer {
                println!("   mlir-opt-22 is not installed: no ratio");
                continue;
            }
            let [peer_whole, peer_alone] = cpu(&peer, &theirs, passes, rounds)?;
            print!("   mlir-opt-22 {peer_alone:>7.1} ({peer_whole:>7.1})");
            match peer_alone >= LEAST {
                true => println!(
                    "   ratio {:.2} (at most {WANTED:.2} wanted)",
                    alone / peer_alone
                ),
                false => println!("   no ratio: it takes less than {LEAST} ms"),
            }
        }
    }
    let _ = std::fs::remove_file(&file);
    Ok(())
}
