//! Random graph programs compute the same at every level, on machines of all shapes.
//!
//! The programs have several results, transposed and reshaped values, grouped, depthwise and dilated
//! convolutions with steps behind them, reductions, loops and branches, odd sizes, and axes of one
//! and of no element. Machines are the committed ones, and small ones with units in which any
//! dimension may be 1.
//!
//! `TIR_PROGRAMS` says how many programs are tried, `TIR_SEED` the first seed.

#[path = "../common/mod.rs"]
mod common;
mod machine;
#[path = "../fusion/program.rs"]
mod program;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{lower, reference, root, run};
use program::Program;
use tir_opt::Tool;

/// Programs that are tried.
const PROGRAMS: u64 = 240;

/// Options of the pipelines.
const OPTIONS: [&str; 5] = [
    "",
    "fuse=false",
    "multi-output=true",
    "egraph=true",
    "egraph=true multi-output=true",
];

/// What is wrong with a program on a machine, if anything.
fn wrong(tool: &Tool, options: &str, program: &Program) -> Option<String> {
    let made = reference(&program.text(), program.arguments());
    let (mut module, inputs, expected) = match made {
        Ok(made) => made,
        Err(why) => return Some(why),
    };
    for level in ["tensor", "loop", "memref", "accel"] {
        let lowered = lower(tool, &mut module, &format!("to-{level}{{{options}}}"));
        let done = lowered.and_then(|()| run(&module, &inputs, &expected));
        if let Err(why) = done {
            return Some(format!("at {level}: {why}"));
        }
    }
    None
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn every_level_computes_the_same() {
    let tool = tir_opt::stock();
    tool.load();
    let folder = root().join("test/e2e/machines");
    let stock = [
        "npu",
        "wide",
        "walkthrough",
        "bursts",
        "npu-vector",
        "conv-unit",
        "levels",
        "twin",
        "cluster",
    ];
    let first = number("TIR_SEED").unwrap_or(0);
    let count = number("TIR_PROGRAMS").unwrap_or(PROGRAMS);
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    let machine = match seed % 2 {
                        0 => folder.join(format!("{}.tir", stock[seed as usize / 2 % stock.len()])),
                        _ => machine::write(seed),
                    };
                    let options = OPTIONS[(seed / 8 % 5) as usize];
                    let options = format!("machine={} {options}", machine.display());
                    let program = Program::new(seed, 2 + (seed % 7) as usize, true);
                    if wrong(&tool, &options, &program).is_some() {
                        let program = program.shrunk(|p| wrong(&tool, &options, p).is_some());
                        let why = wrong(&tool, &options, &program).unwrap_or_default();
                        let text = program.text();
                        let line = format!("seed {seed}, {options}: {why}\n{text}");
                        failed.lock().expect("no panic").push(line);
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().expect("no panic");
    failed.sort();
    let count = failed.len();
    assert!(failed.is_empty(), "{count} wrong:\n{}", failed.join("\n"));
}
