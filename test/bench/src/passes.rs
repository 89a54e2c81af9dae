//! Canonicalization and common subexpressions beside mlir-opt-22, on one thread.
//!
//! What a pass takes is what the tool's own report of times says of it (`--timing`,
//! `--mlir-timing`): reading and printing vary by more than a pass takes. Both tools work on one
//! thread, run in turn, and the medians of several rounds are compared; the CPU time of the whole
//! runs, reading and printing included, stands beside them.
//! The chains share one operand among all their ops, or have a constant for each: the time per op
//! must not grow with their length.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wait4::Wait4;

use crate::program::{Chain, chain, generic_program};
use crate::{run, tool};

/// Where the ratio is wanted to be at most this.
const WANTED: f64 = 0.8;
/// What is less than this takes too little to be compared, in milliseconds.
const LEAST: f64 = 1.0;

/// How a tool reports the time of its passes.
struct Tool<'a> {
    program: &'a Path,
    args: &'a [&'a str],
    /// The name of each pass as an option and in the report.
    names: [(&'static str, &'static str); 2],
    /// Milliseconds in one unit of the report.
    unit: f64,
}

impl Tool<'_> {
    /// Milliseconds of one run: of these passes together, and of the CPU in all.
    fn times(&self, passes: &[&str]) -> Result<[f64; 2], String> {
        let mut child = Command::new(self.program)
            .args(self.args)
            .args(passes)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        let mut report = String::new();
        if let Some(mut from) = child.stderr.take() {
            std::io::Read::read_to_string(&mut from, &mut report).map_err(|e| e.to_string())?;
        }
        let used = child.wait4().map_err(|e| e.to_string())?;
        if !used.status.success() {
            return Err(format!("{}: {report}", self.program.display()));
        }
        let mut alone = 0.0;
        for pass in passes {
            let (_, name) = self
                .names
                .iter()
                .find(|(option, _)| option == pass)
                .ok_or(*pass)?;
            let line = report
                .lines()
                .find(|line| line.split_whitespace().last() == Some(name))
                .ok_or_else(|| format!("no time of {name} in: {report}"))?;
            let time = line
                .split_whitespace()
                .next()
                .and_then(|t| t.parse::<f64>().ok());
            alone += self.unit * time.ok_or_else(|| format!("no time in: {line}"))?;
        }
        let cpu = used.rusage.utime + used.rusage.stime;
        Ok([alone, cpu.as_secs_f64() * 1e3])
    }
}

fn median(mut times: Vec<[f64; 2]>) -> [f64; 2] {
    [0, 1].map(|i| {
        times.sort_by(|a, b| a[i].total_cmp(&b[i]));
        times[times.len() / 2][i]
    })
}

/// Runs it: a line for each program and pass.
pub(crate) fn passes(rounds: usize) -> Result<(), String> {
    let peer = PathBuf::from("mlir-opt-22");
    let has_peer = run(&peer, &["--version"]).is_ok();
    let file = std::env::temp_dir().join(format!("tir-bench-passes-{}.mlir", std::process::id()));
    let path = file.to_string_lossy().to_string();
    let (tir_opt, out) = (tool("tir-opt"), ["-o", "/dev/null"]);
    let ours = Tool {
        program: &tir_opt,
        args: &[&path, "--threads=1", "--timing", out[0], out[1]],
        names: [("--canonicalize", "canonicalize"), ("--cse", "cse")],
        unit: 1.0,
    };
    let theirs = Tool {
        program: &peer,
        args: &[
            &path,
            "--mlir-disable-threading",
            "--mlir-timing",
            out[0],
            out[1],
        ],
        names: [("--canonicalize", "Canonicalizer"), ("--cse", "CSE")],
        unit: 1e3,
    };
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
    println!("wall milliseconds of the passes (CPU of the whole run); medians of {rounds}");
    for (name, text) in programs {
        std::fs::write(&file, text).map_err(|e| e.to_string())?;
        for passes in [
            &["--canonicalize"][..],
            &["--cse"],
            &["--canonicalize", "--cse"],
        ] {
            let (mut own, mut other) = (Vec::new(), Vec::new());
            for _ in 0..rounds.max(1) {
                own.push(ours.times(passes)?);
                if has_peer {
                    other.push(theirs.times(passes)?);
                }
            }
            let [alone, whole] = median(own);
            let label = passes.join(" ");
            print!("{name:<28} {label:<22} tir-opt {alone:>7.1} ({whole:>7.1})");
            if !has_peer {
                println!("   mlir-opt-22 is not installed: no ratio");
                continue;
            }
            let [peer_alone, peer_whole] = median(other);
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
