//! Fusion: random programs compute the same however they are grouped, and groups keep far memory's
//! bytes away as `fuse-graph` says.

#[path = "../common/mod.rs"]
mod common;
mod network;
mod program;

use std::path::Path;

use common::{lower, reference, run, try_seeds};
use program::Program;
use tir::Ir;
use tir_data::Array;
use tir_opt::Tool;

/// Programs that are tried.
const SEEDS: u64 = 60;

/// Groupings: how each is chosen before the pipelines to lower levels.
const GROUPINGS: [(&str, &str); 5] = [
    ("unfused", "partition=none"),
    ("greedy", "partition=greedy"),
    ("cost", "partition=cost"),
    ("several results", "multi_output=true"),
    ("recomputed", "recompute=true multi_output=true"),
];

/// What is wrong with a program, if anything.
fn wrong(tool: &Tool, machine: &str, program: &Program) -> Option<String> {
    let made = reference(&program.text(), program.arguments());
    let (module, inputs, expected) = match made {
        Ok(made) => made,
        Err(why) => return Some(why),
    };
    for (grouping, options) in GROUPINGS {
        let mut module = module.clone();
        if let Err(why) = lowered(tool, machine, &mut module, options, &inputs, &expected) {
            return Some(format!("{grouping}: {why}"));
        }
    }
    None
}

/// Groups a program, lowers it level by level, and compares what it computes.
fn lowered(
    tool: &Tool,
    machine: &str,
    module: &mut Ir,
    options: &str,
    inputs: &[Array],
    expected: &[Array],
) -> Result<(), String> {
    let group = format!("func.func(canonicalize,cse{{keep=tensor.empty}},fuse-graph{{{options}}})");
    lower(tool, module, &group)?;
    let between = between(module);
    for level in ["tensor", "memref", "accel"] {
        let at = |why: String| format!("at {level}: {why}");
        lower(tool, module, &format!("to-{level}{{machine={machine}}}")).map_err(at)?;
        let far = far_buffers(module);
        // With little near memory a group may have to be cut.
        if level == "memref" && machine.ends_with("npu.tir") && far > between {
            let counts = format!("{far} far buffers for {between} values between groups");
            return Err(at(counts));
        }
        if level == "memref" {
            continue;
        }
        run(module, inputs, expected).map_err(at)?;
    }
    Ok(())
}

/// The function of a module.
fn body(module: &Ir) -> Option<&Ir> {
    let slots = module.slots();
    let main = slots
        .into_iter()
        .find(|op| module.name(*op) == "func.func")?;
    module.child(main)
}

/// Values that groups and what is in none hand on, but for results of the function.
fn between(module: &Ir) -> usize {
    let Some(ir) = body(module) else { return 0 };
    let top = (ir.walk_ids().into_iter()).filter(|op| ir.parent(*op) == Some(ir.root()));
    let values = top.flat_map(|op| ir.results(op).collect::<Vec<_>>());
    let inner = values.filter(|v| !ir.uses(*v).any(|u| ir.name(u.op) == "func.return"));
    inner.count()
}

/// Buffers that a function makes in far memory.
fn far_buffers(module: &Ir) -> usize {
    let Some(ir) = body(module) else { return 0 };
    let allocs = (ir.walk_ids().into_iter()).filter(|op| ir.name(*op) == "memref.alloc");
    let far = allocs.filter(|op| ir.ty(ir.result(*op, 0)).to_string().contains("\"dram\""));
    far.count()
}

#[test]
fn grouping_changes_no_result() {
    let tool = tir_opt::stock();
    tool.load();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/e2e/machines");
    let npu = root.join("npu.tir");
    // The same with little near memory, so that small programs have tiles.
    let text = std::fs::read_to_string(&npu).expect("a machine");
    let small = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small.tir");
    std::fs::write(&small, text.replace("bytes = 262144", "bytes = 24576")).expect("a file");
    let machines = [npu.display().to_string(), small.display().to_string()];
    try_seeds("TIR_PROGRAMS", SEEDS, |seed| {
        let machine = &machines[(seed / 3 % 2) as usize];
        let program = Program::new(seed, 3 + (seed % 10) as usize, false);
        wrong(&tool, machine, &program)?;
        let program = program.shrunk(|p| wrong(&tool, machine, p).is_some());
        let why = wrong(&tool, machine, &program).unwrap_or_default();
        Some(format!("{machine}: {why}\n{}", program.text()))
    });
}
