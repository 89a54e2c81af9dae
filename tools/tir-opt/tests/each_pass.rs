//! Every pass alone on every program of the test suites: it refuses with a place, or leaves IR that
//! verifies; it never panics.
#![allow(missing_docs)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tir::{Diagnostic, Ir, Name};
use tir_pass::{PassInfo, PassManager, PassRegistry, Report, Settings};
use tir_text::ParseOptions;

/// Programs with more ops than this are left to the tests that they are made for: some passes take
/// minutes on whole networks.
const MOST_OPS: usize = 1_000;

/// The machine for passes that ask for one.
const MACHINE: &str = "test/e2e/machines/npu.tir";

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("target") {
            programs(&path, found);
        } else if path.extension().is_some_and(|e| e == "tir") {
            found.push(path);
        }
    }
}

/// The pieces of a file that parse and verify, with the line each begins behind.
fn pieces(path: &Path) -> Vec<(u32, Ir)> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let folder = path.parent().expect("a folder");
    let mut all = Vec::new();
    for (before, piece) in tir_text::split_input(&text) {
        let reading = ParseOptions {
            lines_before: before,
            ..ParseOptions::default()
        };
        // A text that is too deep or too long is what some tests are about.
        let Ok(ir) = tir_text::parse(piece, Name::new("program.tir"), &reading) else {
            continue;
        };
        let good = tir::verify(&ir).is_ok() && tir_io::load_blobs(&ir, folder).is_ok();
        if good && ops(&ir) <= MOST_OPS {
            all.push((before, ir));
        }
    }
    all
}

fn ops(ir: &Ir) -> usize {
    let children = ir.slots().into_iter().filter_map(|slot| ir.child(slot));
    ir.op_count() + children.map(ops).sum::<usize>()
}

fn run(passes: &PassRegistry, pipeline: &str, ir: &Ir) -> (Report, Ir) {
    let settings = Settings {
        threads: 1,
        ..Settings::default()
    };
    let mut ir = ir.clone();
    let pipeline = passes.parse(pipeline).expect(pipeline);
    let report = PassManager::with(pipeline, settings).run(&mut ir);
    (report, ir)
}

/// The pipeline of a pass alone; one that runs the program gives up early.
fn alone(info: &PassInfo) -> String {
    match info.options.iter().any(|option| option.field == "limit") {
        true => format!("{}{{limit=100000}}", info.name),
        false => info.name.to_string(),
    }
}

/// What is wrong with how a pass ended, if anything.
fn wrong(report: &Report, ir: &Ir) -> Option<String> {
    let bad = |error: &&Diagnostic| {
        error.message.contains("panicked") || error.message.contains("broke the IR")
    };
    if let Some(error) = report.errors.iter().find(bad) {
        return Some(error.message.clone());
    }
    if let Some(error) = report.errors.iter().find(|error| error.loc.is_unknown()) {
        return Some(format!("refuses without a place: {}", error.message));
    }
    if report.is_ok() {
        // What a pass leaves must also print.
        let printed = catch_unwind(AssertUnwindSafe(|| {
            tir_text::print(ir, &tir_text::PrintOptions::default());
        }));
        if printed.is_err() {
            return Some("leaves IR that does not print".to_string());
        }
    }
    None
}

#[test]
fn each_pass_alone() {
    let tool = tir_opt::stock();
    tool.load();
    let root = root();
    let mut files = Vec::new();
    programs(&root.join("test"), &mut files);
    assert!(files.len() > 150, "{} programs", files.len());
    let machine = format!(
        "attach-machine{{file=\"{}\"}}",
        root.join(MACHINE).display()
    );
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let runs = AtomicUsize::new(0);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            // Programs of the suites nest deep.
            let worker = std::thread::Builder::new().stack_size(16 << 20);
            let work = || {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for (line, ir) in pieces(path) {
                        let attached = run(&tool.passes, &machine, &ir);
                        for info in tool.passes.iter().filter(|info| !info.is_alias) {
                            runs.fetch_add(1, Ordering::Relaxed);
                            let pass = alone(info);
                            let (mut report, mut left) = run(&tool.passes, &pass, &ir);
                            let asks = report.errors.iter().any(|e| e.message.contains("machine"));
                            if asks && attached.0.is_ok() {
                                (report, left) = run(&tool.passes, &pass, &attached.1);
                            }
                            if let Some(what) = wrong(&report, &left) {
                                let path = path.strip_prefix(&root).unwrap_or(path);
                                let place = format!("{}:{}", path.display(), line + 1);
                                let mut all = failures.lock().expect("no panic");
                                all.push(format!("{place}: {}: {what}", info.name));
                            }
                        }
                    }
                }
            };
            worker.spawn_scoped(scope, work).expect("a thread");
        }
    });
    std::panic::set_hook(hook);
    let mut failures: Vec<String> = failures.into_inner().expect("no panic");
    failures.sort();
    let runs = runs.into_inner();
    assert!(runs > 3_000, "{runs} runs");
    assert!(
        failures.is_empty(),
        "{} of {runs} runs:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
