//! The e-graph's choice by its outcome: the blocks that networks are made of take no more cycles with it than without,
//! on machines where layouts matter and on others, and many take fewer.

mod common;

use common::{dry, lower, root};
use rayon::prelude::*;
use tir::{Ir, Name};

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

fn cycles(network: &Ir, machine: &str, options: &str) -> u64 {
    let tool = tir_opt::stock();
    let mut module = network.clone();
    let file = root().join(format!("test/e2e/machines/{machine}.tir"));
    let pipeline = format!("to-accel{{machine={} {options}}}", file.display());
    lower(&tool, &mut module, &pipeline).unwrap_or_else(|why| panic!("{machine}: {why}"));
    let run = dry(&module, Name::new("main")).unwrap_or_else(|why| panic!("{machine}: {why}"));
    run.expect("cycles do not depend on data").0
}

#[test]
fn blocks_are_no_slower_by_the_choice() {
    tir_opt::stock().load();
    let wrong = CASES.par_iter().filter_map(|(block, machine, wanted)| {
        let file = root().join(format!("test/e2e/egraph/{block}.tir"));
        let text = std::fs::read_to_string(&file).expect("a program");
        let network = tir::text::parse(&text, Name::new(block), &Default::default());
        let network = network.expect("a right program");
        let without = cycles(&network, machine, "egraph=false");
        let with = cycles(&network, machine, "");
        let ratio = with as f64 / without as f64;
        (ratio > *wanted).then(|| {
            format!("{block} on {machine}: {without} to {with} cycles, {ratio:.3} and not {wanted}")
        })
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
