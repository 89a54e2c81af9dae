//! The e-graph's choice by its outcome: the blocks that networks are made of take no more cycles with it than without,
//! on machines where layouts matter and on others, and many take fewer; random networks of them take no more, and no group
//! of theirs less than its bound.
//!
//! `TIR_CHOICES` says how many random networks are tried, `TIR_SEED` the first seed.

#[path = "levels/blocks.rs"]
mod blocks;
mod common;
#[path = "fusion/program.rs"]
#[allow(dead_code)]
mod program;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::{dry, lower, root, said, try_seeds};
use program::Program;
use rayon::prelude::*;
use tir::{Ir, Name, PassManager};
use tir_opt::Tool;

/// Cycles with the choice, as a multiple of those without, at most.
const WORSE: f64 = 1.01;

/// Blocks and machines, and the multiple that must be reached.
const CASES: [(&str, &str, f64); 13] = [
    ("fire", "npu", WORSE),
    ("fire", "bursts", 0.8),
    ("bottleneck", "npu", WORSE),
    ("bottleneck", "wide", WORSE),
    ("grouped", "wide", WORSE),
    ("grouped", "bursts", 0.85),
    ("inverted", "npu", WORSE),
    // What the first e-graph gives is rewritten once more: the quickest of its programs, not the one of the least sum.
    ("inverted", "bursts", 0.32),
    ("branches", "wide", WORSE),
    ("unet", "npu", 0.95),
    ("unet", "bursts", 0.8),
    ("lstm", "npu", 0.8),
    ("lstm", "wide", 0.75),
];

/// And cycles that they take more at most where they are a few thousand: latencies, which queues overlap. The pipelines
/// leave such programs to themselves, here they are chosen, too.
const LATENCIES: f64 = 256.0;

/// Random networks that are tried.
const NETWORKS: u64 = 24;

/// The machines that they are tried on in turn.
const MACHINES: [&str; 4] = ["npu", "bursts", "wide", "npu-vector"];

fn file(machine: &str) -> PathBuf {
    root().join(format!("test/e2e/machines/{machine}.tir"))
}

fn cycles(tool: &Tool, network: &Ir, machine: &str, options: &str) -> Result<u64, String> {
    let mut module = network.clone();
    let pipeline = format!("to-accel{{machine={} {options}}}", file(machine).display());
    lower(tool, &mut module, &pipeline)?;
    let run = dry(&module, Name::new("main"))?;
    Ok(run.ok_or("cycles depend on data")?.0)
}

#[test]
fn blocks_are_no_slower_by_the_choice() {
    let tool = tir_opt::stock();
    tool.load();
    let wrong = CASES.par_iter().filter_map(|(block, machine, wanted)| {
        let file = root().join(format!("test/e2e/egraph/{block}.tir"));
        let text = std::fs::read_to_string(&file).expect("a program");
        let network = tir::text::parse(&text, Name::new(block), &Default::default());
        let network = network.expect("a right program");
        let cycles = |options| cycles(&tool, &network, machine, options);
        let [without, with] = ["egraph=false", ""].map(cycles);
        let fails = |why| panic!("{block} on {machine}: {why}");
        let (without, with) = (without.unwrap_or_else(fails), with.unwrap_or_else(fails));
        let ratio = with as f64 / without as f64;
        (ratio > *wanted).then(|| {
            format!("{block} on {machine}: {without} to {with} cycles, {ratio:.3} and not {wanted}")
        })
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the choice of groups of a network says where all of them are planned.
fn all_planned(tool: &Tool, network: &Ir, machine: &str) -> Result<String, String> {
    let mut module = network.clone();
    let choice = "choose-graph{least=0 at-once=9 print=true repeat=1}";
    let attach = format!("attach-machine{{file={}}}", file(machine).display());
    let pipeline = format!("{attach},func.func(canonicalize,{choice})");
    let pipeline = tool.passes.parse(&pipeline).map_err(|e| said(&e))?;
    let report = PassManager::with(pipeline, Default::default()).run(&mut module);
    let texts = report.remarks.iter().map(|remark| remark.message.clone());
    let text = texts.collect::<Vec<String>>().join("\n");
    report.into_result().map_err(|e| said(&e))?;
    Ok(text)
}

/// What is wrong with the choice for a program on a machine, if anything; whether groups were held against their bounds.
fn wrong(tool: &Tool, machine: &str, program: &Program) -> Result<bool, String> {
    let network = tir::text::parse(&program.text(), Name::new("program"), &Default::default());
    let network = network.map_err(|e| format!("text: {}", said(&e)))?;
    let without = cycles(tool, &network, machine, "egraph=false")?;
    let mut chosen = network.clone();
    let attach = format!("attach-machine{{file={}}}", file(machine).display());
    let choice = "func.func(canonicalize,choose-graph{least=0})";
    lower(tool, &mut chosen, &format!("{attach},{choice}"))?;
    let with = cycles(tool, &chosen, machine, "egraph=false")?;
    if with as f64 > without as f64 * WORSE + LATENCIES {
        return Err(format!("{without} to {with} cycles"));
    }
    let text = all_planned(tool, &network, machine)?;
    let said: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("by itself"))
        .collect();
    match said.iter().find(|line| line.contains("which is none")) {
        Some(line) => Err(line.to_string()),
        // Groups may need each other, then none is taken.
        None => Ok(!said.is_empty()),
    }
}

#[test]
fn random_networks_are_no_slower_by_the_choice() {
    let tool = tir_opt::stock();
    tool.load();
    let (tried, held) = (AtomicUsize::new(0), AtomicUsize::new(0));
    try_seeds("TIR_CHOICES", NETWORKS, |seed| {
        let machine = MACHINES[(seed / 4 % 4) as usize];
        let program = blocks::network(seed, 1 + (seed / 16 % 3) as usize, false);
        tried.fetch_add(1, Relaxed);
        if let Ok(bounds) = wrong(&tool, machine, &program) {
            held.fetch_add(usize::from(bounds), Relaxed);
            return None;
        }
        let program = program.shrunk(|p| wrong(&tool, machine, p).is_err());
        let why = wrong(&tool, machine, &program).err().unwrap_or_default();
        Some(format!("{machine}: {why}\n{}", program.text()))
    });
    let (tried, held) = (tried.into_inner(), held.into_inner());
    assert!(
        held * 10 >= tried * 9,
        "bounds of {held} of {tried} networks were looked at"
    );
}
