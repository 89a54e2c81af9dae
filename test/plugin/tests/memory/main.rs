//! Random programs keep what they compute when their buffers get places in memory, and plans that
//! are spoiled are found.
//!
//! A program goes through `bufferize`, `plan-memory` and `insert-tokens` as in the stock pipelines,
//! and is run behind each: at memref level in memory where new buffers hold a pattern and freed
//! ones are an error, below on the machine model, which refuses a read of bytes that nobody wrote
//! or that another buffer has taken. The results must be those of the program as it was made.
//!
//! The judge is the interpreter; it knows nothing of passes, and the programs are made of text.
//! `TIR_RANDOM_PROGRAMS=10000 cargo test --release -p fixed-point --test memory` runs many.

mod memrefs;
#[path = "../../../../passes/bufferize/tests/programs/mod.rs"]
mod tensors;

use tir::data::{Array, Random};
use tir::{Data, Ir, OpId, PassManager};
use tir_opt::Tool;
use tir_support::{read, show};

const MACHINE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../e2e/machines/walkthrough.tir"
);

/// Programs of each kind; few unless asked for.
fn count(few: u64) -> u64 {
    let asked = std::env::var("TIR_RANDOM_PROGRAMS").ok();
    asked
        .and_then(|n| n.parse().ok())
        .map_or(few, |n: u64| n / 2)
}

fn tool() -> Tool {
    let tool = tir_opt::stock().dialects([&fixed_point::DIALECT]);
    let tool = tool.passes(fixed_point::passes());
    tool.load();
    tool
}

/// The program behind some passes.
fn lower(tool: &Tool, ir: &Ir, passes: &str) -> Result<Ir, String> {
    let pipeline = tool.passes.parse(passes).map_err(|e| format!("{e:?}"))?;
    let mut ir = ir.clone();
    // Programs are small: threads would cost more than they save.
    let settings = tir::pass::Settings {
        threads: 1,
        ..tir::pass::Settings::default()
    };
    let report = PassManager::with(pipeline, settings).run(&mut ir);
    let errors = report.into_result().err().unwrap_or_default();
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match errors.is_empty() {
        true => Ok(ir),
        false => Err(errors.join("\n")),
    }
}

/// Arguments of the function: those that are no outputs.
fn inputs(types: &[&str], seed: u64) -> Vec<Array> {
    let one = |(i, text): (usize, &&str)| {
        let ty = tir::parse_type(text).unwrap_or_else(|e| panic!("{e:?}"));
        let data = Data::random(ty, seed * 16 + i as u64);
        data.and_then(|d| d.to_array())
            .unwrap_or_else(|e| panic!("{e:?}"))
    };
    types.iter().enumerate().map(one).collect()
}

fn run(ir: &Ir, inputs: &[Array]) -> Result<Vec<Array>, String> {
    let done = tir_run::execute(ir, inputs);
    done.map(|run| run.outputs).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        errors.join("\n")
    })
}

fn equal(a: &[Array], b: &[Array]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.bytes() == b.bytes())
}

const BUFFERS: &str = "tensor<16xf32>";
const ON_BUFFERS: [&str; 3] = [BUFFERS, BUFFERS, "i1"];
const ON_TENSORS: [&str; 4] = [
    "tensor<4x4xf32>",
    "tensor<4x4xf32>",
    "tensor<2x4xf32>",
    "i1",
];

/// What follows on each other, from memref level down.
fn stages(seed: u64) -> [String; 3] {
    let transfers = ["insert-dma", "schedule-transfers"][(seed % 2) as usize];
    // Of short streams too, what is as before is left out.
    let full = [0, 2_000_000][(seed / 2 % 2) as usize];
    [
        format!("func.func({transfers},canonicalize,cse)"),
        "func.func(plan-memory)".to_string(),
        format!("func.func(insert-tokens{{full={full}}},expand-generic,check-plan,canonicalize)"),
    ]
}

/// Runs a program behind each stage of its way down. A stage alone need not be run: transfers
/// without tokens race.
fn keeps(tool: &Tool, text: &str, types: &[&str], seed: u64) {
    let before = read(text);
    let arguments: Vec<Vec<Array>> = (0..2).map(|i| inputs(types, 2 * seed + i)).collect();
    let wanted: Vec<Vec<Array>> = arguments
        .iter()
        .map(|a| run(&before, a).unwrap_or_else(|e| panic!("program {seed}: {e}\n{text}")))
        .collect();
    let check = |ir: &Ir, stage: &str| {
        for (arguments, wanted) in arguments.iter().zip(&wanted) {
            let found = run(ir, arguments);
            let found = found
                .unwrap_or_else(|e| panic!("program {seed}, {stage}: {e}\n{text}\n{}", show(ir)));
            assert!(
                equal(wanted, &found),
                "program {seed}, {stage}: results differ\n{text}\n{}",
                show(ir)
            );
        }
    };
    let attach = format!("attach-machine{{file={MACHINE}}},bufferize,func.func(canonicalize)");
    let mut ir = before.clone();
    for (index, passes) in std::iter::once(attach).chain(stages(seed)).enumerate() {
        ir = lower(tool, &ir, &passes)
            .unwrap_or_else(|e| panic!("program {seed}, {passes}: {e}\n{text}\n{}", show(&ir)));
        if index == 0 || index == 3 {
            check(&ir, &passes);
        }
    }
}

#[test]
fn buffers_keep_what_programs_compute() {
    let tool = tool();
    for seed in 0..count(100) {
        let text = memrefs::program(seed, seed % 4 == 0);
        keeps(&tool, &text, &ON_BUFFERS, seed);
    }
}

#[test]
fn tensors_keep_what_programs_compute() {
    let tool = tool();
    for seed in 0..count(100) {
        let text = tensors::program(seed, true, seed % 4 == 0);
        keeps(&tool, &text, &ON_TENSORS, seed);
    }
}

/// The views that are places in a plan, with the function they stand in.
fn places(ir: &Ir) -> Vec<(OpId, OpId)> {
    let mut out = Vec::new();
    for slot in ir.slots() {
        let Some(function) = ir.child(slot) else {
            continue;
        };
        for op in function.walk_ids() {
            let view = function.get::<tir_memref::View>(op);
            let arena = view.and_then(|view| function.owner(view.source));
            if arena.is_some_and(|arena| function.is::<tir_memref::Alloc>(arena)) {
                out.push((slot, op));
            }
        }
    }
    out
}

/// Moves one buffer of a plan: to where another one is, or anywhere it fits.
fn spoil(ir: &mut Ir, random: &mut Random) -> Option<()> {
    let places = places(ir);
    let at = |random: &mut Random, n: usize| random.below(n);
    let (slot, op) = *places.get(at(random, places.len().max(1)))?;
    let function = ir.child_mut(slot)?;
    let view = function.get::<tir_memref::View>(op)?;
    let others = places.iter().filter(|(s, o)| *s == slot && *o != op);
    let others = others.filter_map(|(_, o)| {
        let other = function.get::<tir_memref::View>(*o)?;
        (other.source == view.source).then_some(function.constant_int(other.byte_shift)?)
    });
    let others: Vec<i64> = others.collect();
    let old = function.constant_int(view.byte_shift)?;
    let new = match random.below(2) {
        0 if !others.is_empty() => others[at(random, others.len())],
        _ => {
            let size = *function.ty(view.source).shape()?.first()?;
            let ty = view.result.0;
            let own = ty.elements()? * ty.bytes()?;
            let most = (size - i64::try_from(own).ok()?) / 64;
            64 * i64::try_from(random.below(usize::try_from(most).ok()? + 1)).ok()?
        }
    };
    if new == old {
        return None;
    }
    let mut b = function.at(tir::At::Before(op));
    let shift = tir_arith::constant_index(&mut b, new);
    function.set_operand(op, 1, shift);
    Some(())
}

#[test]
fn spoiled_plans_are_found() {
    let tool = tool();
    let mut random = Random::new(11);
    let (mut faults, mut found) = (0u32, 0u32);
    let programs = count(400) / 4;
    for seed in 0..programs {
        let text = memrefs::program(seed, seed % 4 == 0);
        let before = read(&text);
        let attach = format!("attach-machine{{file={MACHINE}}}");
        let [transfers, plan, tokens] = stages(seed);
        let way = format!("{attach},{transfers},{plan}");
        let planned = lower(&tool, &before, &way).unwrap_or_else(|e| panic!("{seed}: {e}\n{text}"));
        let tokens = tokens.replace("check-plan,", "");
        for _ in 0..3 {
            let mut spoiled = planned.clone();
            if spoil(&mut spoiled, &mut random).is_none() {
                continue;
            }
            // A fault is real if a run shows it.
            let differs = |i| {
                let arguments = inputs(&ON_BUFFERS, 2 * seed + i);
                let wanted = run(&before, &arguments);
                let wanted = wanted.unwrap_or_else(|e| panic!("{seed}: {e}\n{text}"));
                let lowered = lower(&tool, &spoiled, &tokens);
                lowered
                    .and_then(|ir| run(&ir, &arguments))
                    .map_or(true, |found| !equal(&wanted, &found))
            };
            if (0..4).any(differs) {
                faults += 1;
                let seen = lower(&tool, &spoiled, "func.func(check-plan)").is_err();
                found += u32::from(seen);
                if !seen && std::env::var("TIR_SHOW_MISSED").is_ok() {
                    println!("program {seed}: not found\n{}", show(&spoiled));
                }
            }
        }
    }
    println!("{found} of {faults} real faults are found");
    let enough = u64::from(faults) > programs / 2;
    assert!(enough, "only {faults} real faults in {programs} programs");
    assert!(
        f64::from(found) >= 0.95 * f64::from(faults),
        "{found} of {faults} real faults are found"
    );
}
