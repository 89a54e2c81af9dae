//! Benchmarks that print a ratio against a named peer or bound, measured in the same run.
//!
//! `tir-bench ir [--rounds N]`: parse, verify and print 1,000 functions of 200 ops in generic
//! form, tir-opt beside mlir-opt-22; CPU seconds, wall seconds and peak memory, medians.
//! `tir-bench passes [--rounds N]`: canonicalize and cse beside mlir-opt-22, alone and in chains.
//! `tir-bench start`: start-up of tir-opt on an empty file.
//! `tir-bench extract [FILE.json…]`: extraction beside its bound and bottom-up extraction.
//! `tir-bench egraph [--rounds N] [FILE.tir|FILE.model…]`: the e-graph on whole networks.
//! `tir-bench networks [FOLDER…]`: networks from ONNX through every level, run, checked and timed,
//! running together beside each operator alone.
//! `tir-bench generate`: the program on stdout.

mod egraph;
mod extract;
mod networks;
mod passes;
mod program;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use wait4::Wait4;

/// One run of a command.
#[derive(Clone, Copy)]
struct Run {
    cpu: Duration,
    wall: Duration,
    /// Peak resident memory in KiB.
    memory: u64,
}

fn run(program: &Path, args: &[&str]) -> Result<Run, String> {
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    let used = child.wait4().map_err(|e| e.to_string())?;
    if !used.status.success() {
        return Err(format!("{} {args:?}: {}", program.display(), used.status));
    }
    Ok(Run {
        cpu: used.rusage.utime + used.rusage.stime,
        wall: start.elapsed(),
        memory: used.rusage.maxrss / 1024,
    })
}

/// Medians of each figure.
fn median(runs: &[Run]) -> Run {
    fn middle<T: Ord + Copy>(runs: &[Run], figure: fn(&Run) -> T) -> T {
        let mut all: Vec<T> = runs.iter().map(figure).collect();
        all.sort();
        all[all.len() / 2]
    }
    Run {
        cpu: middle(runs, |r| r.cpu),
        wall: middle(runs, |r| r.wall),
        memory: middle(runs, |r| r.memory),
    }
}

fn line(name: &str, run: Run) {
    println!(
        "{name:<24} cpu {:>8.1} ms   wall {:>8.1} ms   peak {:>6.1} MiB",
        run.cpu.as_secs_f64() * 1e3,
        run.wall.as_secs_f64() * 1e3,
        run.memory as f64 / 1024.0
    );
}

/// The tool of this build: beside this program.
fn tool(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name(name)
}

fn ir(rounds: usize) -> Result<(), String> {
    let dir = std::env::temp_dir();
    let file = dir.join(format!("tir-bench-{}.mlir", std::process::id()));
    std::fs::write(&file, program::generic_program(1000, 200)).map_err(|e| e.to_string())?;
    let path = file.to_string_lossy().to_string();
    let ours = tool("tir-opt");
    let args = [path.as_str(), "--print-op-generic", "-o", "/dev/null"];
    let peer = Path::new("mlir-opt-22");
    let peer_args = [path.as_str(), "--mlir-print-op-generic", "-o", "/dev/null"];
    let has_peer = run(peer, &["--version"]).is_ok();
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        mine.push(run(&ours, &args)?);
        if has_peer {
            theirs.push(run(peer, &peer_args)?);
        }
    }
    let _ = std::fs::remove_file(&file);
    println!(
        "parse, verify, print: 1,000 functions, 200,000 ops, generic form; medians of {rounds}"
    );
    let mine = median(&mine);
    line("tir-opt", mine);
    if has_peer {
        let theirs = median(&theirs);
        line("mlir-opt-22", theirs);
        println!(
            "ratio to mlir-opt-22: cpu {:.2}, wall {:.2}, memory {:.2} (at most 0.85 wanted)",
            mine.cpu.as_secs_f64() / theirs.cpu.as_secs_f64(),
            mine.wall.as_secs_f64() / theirs.wall.as_secs_f64(),
            mine.memory as f64 / theirs.memory as f64
        );
    } else {
        println!("mlir-opt-22 is not installed: no ratio");
    }
    Ok(())
}

fn start(rounds: usize) -> Result<(), String> {
    let file = std::env::temp_dir().join(format!("tir-bench-{}.tir", std::process::id()));
    std::fs::write(&file, "").map_err(|e| e.to_string())?;
    let path = file.to_string_lossy().to_string();
    let runs: Result<Vec<Run>, String> = (0..rounds.max(1))
        .map(|_| run(&tool("tir-opt"), &[path.as_str()]))
        .collect();
    let _ = std::fs::remove_file(&file);
    let used = median(&runs?);
    line("tir-opt, empty file", used);
    println!(
        "ratio to the bound of 10 ms: {:.2}",
        used.wall.as_secs_f64() / 0.010
    );
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let option = args
        .iter()
        .position(|a| a == "--rounds")
        .and_then(|i| args.get(i + 1));
    let rounds = option.and_then(|n| n.parse().ok()).unwrap_or(7);
    let done = match args.first().map(String::as_str) {
        Some("ir") => ir(rounds),
        Some("passes") => passes::passes(rounds),
        Some("start") => start(rounds),
        Some("egraph") => {
            let mut files = args[1..].to_vec();
            if let Some(at) = files.iter().position(|a| a == "--rounds") {
                files.drain(at..(at + 2).min(files.len()));
            }
            egraph::egraph(&files, rounds)
        }
        Some("extract") => extract::extract(&args[1..]),
        Some("networks") => networks::networks(&args[1..]),
        Some("generate") => std::io::stdout()
            .write_all(program::generic_program(1000, 200).as_bytes())
            .map_err(|e| e.to_string()),
        _ => Err(
            "usage: tir-bench ir|passes|start|extract|egraph|networks|generate [--rounds N]"
                .to_string(),
        ),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tir-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
