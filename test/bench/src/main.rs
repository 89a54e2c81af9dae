//! Benchmarks that print a ratio against a named peer or bound, measured in the same run.
//!
//! `tir-bench --help` lists them.

mod choice;
mod compile;
mod covers;
mod deep;
mod egraph;
mod extract;
mod joint;
mod lives;
mod lower;
mod memory;
mod native;
mod near;
mod networks;
mod order;
mod passes;
mod peaks;
mod program;
mod rules;
mod tiles;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use wait4::Wait4;

/// One run of a command.
#[derive(Clone, Copy)]
struct Usage {
    cpu: Duration,
    wall: Duration,
    /// Peak resident memory in KiB.
    memory: u64,
}

fn run(program: &Path, args: &[&str]) -> Result<Usage, String> {
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
    Ok(Usage {
        cpu: used.rusage.utime + used.rusage.stime,
        wall: start.elapsed(),
        memory: used.rusage.maxrss / 1024,
    })
}

/// What a program writes to standard error.
fn run_for_text(program: &Path, args: &[String]) -> Result<String, String> {
    let done = Command::new(program).args(args).output();
    let done = done.map_err(|e| format!("{}: {e}", program.display()))?;
    let said = String::from_utf8_lossy(&done.stderr).to_string();
    match done.status.success() {
        true => Ok(said),
        false => Err(format!("{} {args:?}: {said}", program.display())),
    }
}

/// Medians of each figure.
fn median(runs: &[Usage]) -> Usage {
    fn middle<T: Ord + Copy>(runs: &[Usage], figure: fn(&Usage) -> T) -> T {
        let mut all: Vec<T> = runs.iter().map(figure).collect();
        all.sort();
        all[all.len() / 2]
    }
    Usage {
        cpu: middle(runs, |r| r.cpu),
        wall: middle(runs, |r| r.wall),
        memory: middle(runs, |r| r.memory),
    }
}

fn line(name: &str, run: Usage) {
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
    let runs: Result<Vec<Usage>, String> = (0..rounds.max(1))
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

/// Benchmarks: each prints a ratio to mlir-opt-22 or to a bound, measured in the same run. Build with
/// `cargo build --release`; the tools measured are those beside this program.
#[derive(Parser)]
#[command(name = "tir-bench", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    what: What,
}

/// Medians are taken over so many runs.
#[derive(clap::Args)]
struct Rounds {
    /// Number of runs; medians are printed
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
}

#[derive(Subcommand)]
enum What {
    /// Parse, verify and print 200,000 ops in generic form, beside mlir-opt-22
    Ir(Rounds),
    /// Canonicalize and CSE, beside mlir-opt-22
    Passes(Rounds),
    /// Start-up of tir-opt on an empty file
    Start(Rounds),
    /// Extraction alone, beside its lower bound and bottom-up extraction
    Extract(extract::Options),
    /// Equality saturation on whole networks
    Egraph {
        #[command(flatten)]
        rounds: Rounds,
        /// Programs of graph ops, or networks in TASO's text export; none: those of the
        /// repository
        #[arg(value_name = "FILE.tir|FILE.model")]
        files: Vec<String>,
    },
    /// Lowering of networks as deep as ResNet-50 and ResNet-101
    Lower(Rounds),
    /// A model of ResNet-50's size, with random weights: import from ONNX, lowering with the choice of the e-graph and without,
    /// beside the bound and a network of as many convolutions whose weights are arguments
    Model(Rounds),
    /// Random programs that are equal to a network: the price that the planner gives them beside the cycles that they
    /// take without data, and so for each of their groups alone
    Covers(covers::Options),
    /// Wrong rewrite rules that `--check-rules` finds, how and at what cost, and right ones beside them
    Rules,
    /// Cycles of networks without the e-graph, with its program where the price takes it, and what that price is
    Choice(choice::Options),
    /// The choice of groups as a problem of extraction, every group at its price: cycles beside their bound
    Joint(joint::Options),
    /// Networks from ONNX through every level, run, checked and timed; with overlapping queues and without
    Networks {
        /// Folders with `model.onnx`, inputs `in_K.npy` and outputs `out_K.npy`
        #[arg(value_name = "FOLDER", required = true)]
        folders: Vec<String>,
    },
    /// Networks as native code on this processor, checked: whole, by layer, each convolution alone, and products of two
    /// arguments, beside multiply-adds alone, ONNX Runtime and OpenVINO with one thread; needs tir-native
    Native(native::Options),
    /// From ONNX to native code with all programs that takes, the first time and again: processor time beside a bound,
    /// memory beside the weights, both beside a session of ONNX Runtime; needs tir and tir-native
    Compile(compile::Options),
    /// Bytes that live at once in randomly wired graphs, in the order of the text and in that of `reorder`
    Order(order::Options),
    /// ResNet-18's convolutions alone: bytes beside the best of all tiles, cycles beside the bound
    Tiles,
    /// Bytes between far and near memory by size of near memory, beside those that must move, those of a scratchpad that
    /// holds what was used last, and the fewest that keeping whole tensors comes to
    Near(near::Options),
    /// Memory plans: heights beside bounds, after 10 ms, 100 ms and 1 s, and of generated buffers, all checked; needs tir-plan
    Memory(memory::Options),
    /// The choice of programs for deep networks: processor time beside a bound, and whether layers that repeat are chosen alike
    Deep(deep::Options),
    /// Live ranges of 10,000 buffers and a first plan of them, beside a bound
    Lives(lives::Options),
    /// Heights of plans beside the largest live set on graphs that are generated, all buffers in one memory and for a machine
    Peaks(peaks::Options),
    /// Print the program that `ir` measures
    Generate,
}

fn main() -> ExitCode {
    let done = match Args::parse().what {
        What::Ir(Rounds { rounds }) => ir(rounds as usize),
        What::Passes(Rounds { rounds }) => passes::passes(rounds as usize),
        What::Start(Rounds { rounds }) => start(rounds as usize),
        What::Egraph { rounds, files } => egraph::egraph(&files, rounds.rounds as usize),
        What::Extract(options) => extract::extract(&options),
        What::Choice(options) => choice::choice(&options),
        What::Joint(options) => joint::joint(&options),
        What::Covers(options) => covers::covers(&options),
        What::Rules => rules::rules(),
        What::Model(Rounds { rounds }) => lower::model(rounds as usize),
        What::Lower(Rounds { rounds }) => lower::lower(rounds as usize),
        What::Networks { folders } => networks::networks(&folders),
        What::Native(options) => native::native(options),
        What::Compile(options) => compile::compile(&options),
        What::Order(options) => order::order(&options),
        What::Near(options) => near::near(&options),
        What::Memory(options) => memory::memory(&options),
        What::Deep(options) => deep::deep(&options),
        What::Lives(options) => lives::lives(&options),
        What::Peaks(options) => peaks::peaks(&options),
        What::Tiles => tiles::tiles(),
        What::Generate => std::io::stdout()
            .write_all(program::generic_program(1000, 200).as_bytes())
            .map_err(|e| e.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
