//! From ONNX to native code by `tir compile`: processor time and memory with all programs it starts, the first time and
//! from what was kept, beside what ONNX Runtime takes to get ready for the same model.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wait4::Wait4;

use crate::native::Scratch;
use crate::networks::Network;
use crate::{Rounds, Usage, median, tool};

/// Options of the measurement.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Machine file to plan for; none: that of this processor
    #[arg(long, value_name = "FILE.tir")]
    machine: Option<PathBuf>,
    /// Networks: folders with `model.onnx`, inputs `in_K.npy` and outputs `out_K.npy`, or `NAME.onnx` beside
    /// `NAME.in_K.npy` and `NAME.out_K.npy`
    #[arg(value_name = "NETWORK", required = true)]
    networks: Vec<PathBuf>,
}

/// What is wanted of each network: seconds of processor time the first time and again, and memory as a multiple of the
/// weights.
const FIRST: f64 = 3.0;
const AGAIN: f64 = 0.3;
const WEIGHTS: f64 = 3.0;

/// How often memory is looked at.
const SAMPLES: Duration = Duration::from_millis(2);

/// What Python does to load the engine alone, and then a session too.
const ENGINE: &str = "import sys, onnxruntime";
const SESSION: &str = "
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 3
onnxruntime.InferenceSession(sys.argv[1], options, providers=['CPUExecutionProvider'])
";

/// One run of a command with all that it starts.
#[derive(Clone, Copy)]
struct Run {
    /// Of the process and those it waited for; memory of the largest.
    used: Usage,
    /// Peak resident memory of all processes at one time, in KiB.
    together: u64,
}

/// What a process was started with.
fn command_line(process: u32) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{process}/cmdline")).ok()
}

/// Resident memory of a process, in KiB.
fn own(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Resident memory of a process and all below it, in KiB; what several share counts for each.
fn resident(process: u32) -> u64 {
    let line = command_line(process);
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let children = std::fs::read_to_string(task.path().join("children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().map(str::parse);
        children.filter_map(Result::ok).collect::<Vec<u32>>()
    });
    // Until a child is another program, its memory is that of the process itself.
    let children = children.filter(|child| command_line(*child) != line);
    own(process).unwrap_or_default() + children.map(resident).sum::<u64>()
}

/// Runs a command; what it says goes with the error if it fails.
fn run(command: &mut Command) -> Result<Run, String> {
    let name = format!("{command:?}");
    let start = Instant::now();
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|e| format!("{name}: {e}"))?;
    let (process, done) = (child.id(), AtomicBool::new(false));
    let said = child.stderr.take();
    let (used, together, said) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(resident(process));
                std::thread::sleep(SAMPLES);
            }
            most
        });
        let said = said.map(std::io::read_to_string);
        let used = child.wait4();
        done.store(true, Ordering::Relaxed);
        (used, watch.join(), said)
    });
    let used = used.map_err(|e| e.to_string())?;
    if !used.status.success() {
        let said = said.and_then(Result::ok).unwrap_or_default();
        return Err(format!("{name}: {}\n{said}", used.status));
    }
    let memory = used.rusage.maxrss / 1024;
    Ok(Run {
        used: Usage {
            cpu: used.rusage.utime + used.rusage.stime,
            wall: start.elapsed(),
            memory,
        },
        together: together.unwrap_or_default().max(memory),
    })
}

/// Medians of each figure.
fn middle(runs: &[Run]) -> Run {
    let used: Vec<Usage> = runs.iter().map(|run| run.used).collect();
    let mut together: Vec<u64> = runs.iter().map(|run| run.together).collect();
    together.sort_unstable();
    Run {
        used: median(&used),
        together: together[together.len() / 2],
    }
}

/// Runs of a network.
#[derive(Default)]
struct Runs {
    first: Vec<Run>,
    again: Vec<Run>,
    engine: Vec<Run>,
    session: Vec<Run>,
}

/// Bytes of all constants of a model.
fn weights(model: &Path) -> Result<usize, String> {
    let model = tir_onnx::load(model).map_err(|e| e.to_string())?;
    let arrays = model.graph.initializers.values();
    Ok(arrays.map(|array| array.bytes().len()).sum())
}

fn measure(options: &Options, path: &Path, scratch: &Scratch) -> Result<(), String> {
    let network = Network::new(path)?;
    let model = network.model();
    let weights = weights(&model)? as f64;
    let out = scratch.file("out");
    let compile = || {
        let mut command = Command::new(tool("tir"));
        command.arg("compile").arg(&model).arg("--native");
        command.arg("-o").arg(&out);
        if let Some(machine) = &options.machine {
            command.arg("--machine").arg(machine);
        }
        for (flag, files) in [
            ("--input", network.stored()),
            ("--compare", network.expected()),
        ] {
            for file in files {
                command.arg(flag).arg(file);
            }
        }
        command.env("TIR_CACHE", scratch.file("cache"));
        run(&mut command)
    };
    let python = |script: &str| {
        let mut command = Command::new("python3");
        run(command.arg("-c").arg(script).arg(&model))
    };
    let has_peer = python(ENGINE).is_ok();
    let session = format!("{ENGINE}{SESSION}");
    let mut runs = Runs::default();
    for _ in 0..options.rounds.rounds {
        for folder in ["out", "cache"] {
            let folder = scratch.file(folder);
            let gone = std::fs::remove_dir_all(&folder);
            gone.or_else(|e| match e.kind() {
                std::io::ErrorKind::NotFound => Ok(()),
                _ => Err(format!("{}: {e}", folder.display())),
            })?;
        }
        runs.first.push(compile()?);
        runs.again.push(compile()?);
        if has_peer {
            runs.engine.push(python(ENGINE)?);
            runs.session.push(python(&session)?);
        }
    }
    println!("{}: {:.1} MB of weights", path.display(), weights / 1e6);
    for (what, runs, wanted) in [
        ("first", &runs.first, FIRST),
        ("from what was kept", &runs.again, AGAIN),
    ] {
        let run = middle(runs);
        let cpu = run.used.cpu.as_secs_f64();
        let times = |kib: u64| kib as f64 * 1024.0 / weights;
        println!(
            "  {what:<20} cpu {cpu:>6.2} s ({:.2} of {wanted} s)   wall {:>6.2} s   \
             largest process {:>6.1} MB, {:.2} times the weights ({WEIGHTS:.0} wanted)   all together {:>6.1} MB, {:.2} times",
            cpu / wanted,
            run.used.wall.as_secs_f64(),
            run.used.memory as f64 * 1024.0 / 1e6,
            times(run.used.memory),
            run.together as f64 * 1024.0 / 1e6,
            times(run.together),
        );
    }
    if !has_peer {
        println!("  python3 has no onnxruntime: no ratio");
        return Ok(());
    }
    let (engine, session) = (middle(&runs.engine), middle(&runs.session));
    let cpu = session.used.cpu.saturating_sub(engine.used.cpu);
    let memory = session.used.memory.saturating_sub(engine.used.memory);
    let first = middle(&runs.first);
    println!(
        "  {:<20} cpu {:>6.2} s   memory {:>6.1} MB beyond the engine's {:.1} MB, {:.2} times the weights; first is {:.1} times its time, \
         from what was kept {:.1} times",
        "ONNX Runtime session",
        cpu.as_secs_f64(),
        memory as f64 * 1024.0 / 1e6,
        engine.used.memory as f64 * 1024.0 / 1e6,
        memory as f64 * 1024.0 / weights,
        first.used.cpu.as_secs_f64() / cpu.as_secs_f64().max(1e-3),
        middle(&runs.again).used.cpu.as_secs_f64() / cpu.as_secs_f64().max(1e-3),
    );
    Ok(())
}

/// Measures all networks.
pub(crate) fn compile(options: &Options) -> Result<(), String> {
    let scratch = Scratch::new()?;
    println!(
        "tir compile --native with an empty cache, and again; medians of {} rounds in turns; build with --release",
        options.rounds.rounds
    );
    for path in &options.networks {
        measure(options, path, &scratch).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}
