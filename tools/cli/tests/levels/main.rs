//! Random graph programs compute the same at every level, on machines of all shapes.
//!
//! The programs have several results, transposed and reshaped values, grouped, depthwise and dilated
//! convolutions with steps behind them, reductions, loops and branches, odd sizes, and axes of one
//! and of no element. Machines are the committed ones, and small ones with units in which any
//! dimension may be 1.
//!
//! A second test draws networks of the blocks that networks are made of, of floats and of small integers, on machines
//! with units for either.
//!
//! A third one has ops of a dialect from outside among them, which the same pipelines lower.
//!
//! `TIR_PROGRAMS`, `TIR_NETWORKS` and `TIR_FIXED` say how many are tried, `TIR_SEED` the first seed.

mod blocks;
#[path = "../common/mod.rs"]
mod common;
mod fixed;
mod machine;
#[path = "../fusion/program.rs"]
mod program;

use common::{foretold, lower, reference, root, rounding, run, run_within, try_seeds};
use machine::Numbers;
use program::Program;
use tir::Name;
use tir_opt::Tool;

/// Programs that are tried.
const PROGRAMS: u64 = 240;

/// Networks of blocks that are tried.
const NETWORKS: u64 = 64;

/// Programs with ops of a dialect from outside that are tried.
const FIXED: u64 = 64;

/// Options of the pipelines.
const OPTIONS: [&str; 6] = [
    "",
    "fuse=false",
    "multi-output=true reorder=true",
    "egraph=true reorder=true",
    "egraph=true multi-output=true",
    CHOSEN,
];

/// Options behind which groups of the e-graph are chosen first, however small the program is.
const CHOSEN: &str = "egraph=false";

/// What is wrong with a program on a machine, if anything.
fn wrong(tool: &Tool, options: &str, program: &Program) -> Option<String> {
    let made = reference(&program.text(), program.arguments());
    let (mut module, inputs, expected) = match made {
        Ok(made) => made,
        Err(why) => return Some(why),
    };
    // What small integers stand for is scaled by powers of two: integers and floats agree to the bit.
    let folded = program.text().contains("i8").then(|| {
        lower(tool, &mut module, "func.func(fold-qdq)")?;
        run(&module, &inputs, &expected).map(drop)
    });
    if let Some(Err(why)) = folded {
        return Some(format!("folded: {why}"));
    }
    if let Some(machine) = options.strip_suffix(&format!(" {CHOSEN}")) {
        let file = machine.trim_start_matches("machine=");
        let choose = "canonicalize,choose-graph{least=0}";
        let pipeline = format!("attach-machine{{file={file}}},func.func({choose})");
        let done = lower(tool, &mut module, &pipeline).and_then(|()| {
            run(&module, &inputs, &expected).or_else(|why| {
                let off = rounding(&program.text(), None, &inputs, &expected).map_err(|_| why)?;
                run_within(&module, &inputs, &expected, |_| off)
            })
        });
        if let Err(why) = done {
            return Some(format!("chosen: {why}"));
        }
    }
    for level in ["tensor", "loop", "memref", "accel"] {
        let lowered = lower(tool, &mut module, &format!("to-{level}{{{options}}}"));
        let done = lowered.and_then(|()| {
            run(&module, &inputs, &expected).or_else(|why| {
                // Long sums one behind the other are off by more, at every level.
                let off = rounding(&program.text(), None, &inputs, &expected).map_err(|_| why)?;
                run_within(&module, &inputs, &expected, |_| off)
            })
        });
        let done = done.and_then(|done| foretold(&module, Name::new("main"), &done));
        if let Err(why) = done {
            return Some(format!("at {level}: {why}"));
        }
    }
    None
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
        "mesh",
        "cpu",
        "mcu",
    ];
    try_seeds("TIR_PROGRAMS", PROGRAMS, |seed| {
        let machine = match seed % 2 {
            0 => folder.join(format!("{}.tir", stock[seed as usize / 2 % stock.len()])),
            _ => machine::write(seed, Numbers::Floats),
        };
        let options = OPTIONS[(seed / 8 % 6) as usize];
        let options = format!("machine={} {options}", machine.display());
        let program = Program::new(seed, 2 + (seed % 7) as usize, true);
        wrong(&tool, &options, &program)?;
        let program = program.shrunk(|p| wrong(&tool, &options, p).is_some());
        let why = wrong(&tool, &options, &program).unwrap_or_default();
        Some(format!("{options}: {why}\n{}", program.text()))
    });
}

#[test]
fn networks_of_blocks_compute_the_same() {
    let tool = tir_opt::stock();
    tool.load();
    let folder = root().join("test/e2e/machines");
    let floats = [
        "npu",
        "npu-vector",
        "walkthrough",
        "levels",
        "conv-unit",
        "twin",
        "cluster",
        "cpu",
        "wide",
        "bursts",
        "mesh",
    ];
    let integers = ["vta", "gemmini", "conv-unit", "mcu", "npu-vector", "cpu"];
    try_seeds("TIR_NETWORKS", NETWORKS, |seed| {
        // Every fourth network is one of integers.
        let (stock, numbers) = match seed % 4 {
            3 => (&integers[..], Numbers::Integers),
            _ => (&floats[..], Numbers::Floats),
        };
        let small = seed / 4 % 2 == 1;
        let machine = match small {
            false => folder.join(format!("{}.tir", stock[seed as usize / 8 % stock.len()])),
            true => machine::write(seed, numbers),
        };
        let options = OPTIONS[(seed / 8 % 6) as usize];
        let options = format!("machine={} {options}", machine.display());
        let program = blocks::network(seed, 1 + (seed / 8 % 3) as usize, small);
        wrong(&tool, &options, &program)?;
        let program = program.shrunk(|p| wrong(&tool, &options, p).is_some());
        let why = wrong(&tool, &options, &program).unwrap_or_default();
        Some(format!("{options}: {why}\n{}", program.text()))
    });
}

#[test]
fn ops_of_a_dialect_from_outside_compute_the_same() {
    let tool = tir_opt::stock().dialects([&fixed_point::DIALECT]);
    let tool = tool.passes(fixed_point::passes());
    tool.load();
    let folder = root().join("test/e2e/machines");
    let stock = [
        "npu",
        "gemmini",
        "npu-vector",
        "vta",
        "walkthrough",
        "levels",
        "conv-unit",
        "cpu",
        "mcu",
        "cluster",
    ];
    try_seeds("TIR_FIXED", FIXED, |seed| {
        let machine = match seed % 4 {
            0 => machine::write(seed, Numbers::Floats),
            1 => machine::write(seed, Numbers::Integers),
            _ => folder.join(format!("{}.tir", stock[seed as usize / 4 % stock.len()])),
        };
        let options = OPTIONS[(seed / 8 % 6) as usize];
        let options = format!("machine={} {options}", machine.display());
        let program = fixed::program(seed, 2 + (seed % 6) as usize);
        wrong(&tool, &options, &program)?;
        let program = program.shrunk(|p| wrong(&tool, &options, p).is_some());
        let why = wrong(&tool, &options, &program).unwrap_or_default();
        Some(format!("{options}: {why}\n{}", program.text()))
    });
}
