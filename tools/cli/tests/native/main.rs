//! Native code: each small case of the suite, and random programs, lowered for no machine and for one of the machine files
//! in turn.
//!
//! What `to-native` leaves gives what the memref level gives, to the bit, in the interpreter. What is compiled of it gives
//! that too with `strict`, and without it what is stored, nearly. The second part needs `tir-native` (`TIR_NATIVE` says where
//! it lies); without it nothing is compiled, and a line says so.
//!
//! `TIR_CASE` is the only case that is tried; `TIR_NATIVE_PROGRAMS` says how many random programs are, `TIR_SEED` the
//! first seed.

#[path = "../levels/blocks.rs"]
mod blocks;
#[path = "../common/mod.rs"]
mod common;
mod libraries;
#[path = "../levels/machine.rs"]
mod machine;
mod numbers;
mod processors;
#[path = "../fusion/program.rs"]
mod program;

use std::path::{Path, PathBuf};

use common::cases::{Case, execute, files, runs_here, stem};
use common::{lower, reference, root, said, try_seeds, within};
use machine::Numbers;
use program::Program;
use rayon::prelude::*;
use tir::{Ir, Name};
use tir_data::{Array, DType};
use tir_native::mlir;
use tir_opt::Tool;
use tir_run::Entry;
use tir_run::native::{Native, programs};

/// Random programs that are tried, and networks of blocks.
const PROGRAMS: u64 = 24;

/// Whether two arrays hold the same bits; one NaN is as good as another, since which one arithmetic gives is not
/// specified.
fn same(wanted: &[Array], found: &[Array]) -> Result<(), String> {
    if wanted.len() != found.len() {
        return Err(format!(
            "{} outputs, expected {}",
            found.len(),
            wanted.len()
        ));
    }
    for (k, (wanted, found)) in wanted.iter().zip(found).enumerate() {
        if wanted.dtype() != found.dtype() || wanted.shape() != found.shape() {
            return Err(format!("output {k} has another type"));
        }
        let size = wanted.dtype().size();
        let pairs = wanted.bytes().chunks(size).zip(found.bytes().chunks(size));
        let float = matches!(
            wanted.dtype(),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64
        );
        for (at, (w, f)) in pairs.enumerate() {
            let number = |array: &Array| array.get_f64(at).unwrap_or_default();
            let nan = float && number(wanted).is_nan() && number(found).is_nan();
            if w != f && !nan {
                let (found, wanted) = (number(found), number(wanted));
                return Err(format!(
                    "output {k}: {found:e} at {at}, expected {wanted:e}"
                ));
            }
        }
    }
    Ok(())
}

/// Runs a function as native code.
fn native(
    module: &Ir,
    function: Name,
    inputs: &[Array],
    strict: bool,
    threads: usize,
) -> Result<Vec<Array>, String> {
    let entry = Entry::of(module, Some(function.as_str())).map_err(|e| said(&e))?;
    let inputs: Vec<(usize, &Array)> = inputs.iter().enumerate().collect();
    let native = Native {
        strict,
        // Twice: what a call leaves behind is nothing to the next.
        repeat: 2,
        threads,
        by_layer: false,
    };
    let run = entry.execute_native(module, &inputs, &native);
    run.map(|run| run.outputs).map_err(|e| said(&e))
}

/// Whether native code can be made here.
fn can_compile() -> bool {
    let found = programs().is_ok();
    if !found {
        println!(
            "skipped: tir-native is not there; what to-native leaves runs in the interpreter alone"
        );
    }
    found
}

/// A function of a program, what it is given, and what it gives nearly.
struct Run<'a> {
    function: Name,
    inputs: &'a [Array],
    outputs: &'a [Array],
    atol: f64,
}

/// Tries a program with a machine or without; says what is wrong.
fn check(
    tool: &Tool,
    module: &Ir,
    options: &str,
    machine: Option<&Path>,
    runs: &[Run<'_>],
    compiled: bool,
) -> Result<(), String> {
    let mut above = module.clone();
    // Every nest that may be shared among threads is, however small.
    let shared = "parallel-work=0";
    let (pipeline, native_pipeline) = match machine {
        Some(file) => {
            let options = format!("machine={} {options}", file.display());
            (
                format!("to-memref{{{options} depth=1}}"),
                format!("to-native{{{options} {shared}}}"),
            )
        }
        None => (
            format!("to-tensor{{{options}}},bufferize"),
            format!("to-native{{{options} {shared}}}"),
        ),
    };
    lower(tool, &mut above, &pipeline)?;
    let mut below = module.clone();
    lower(tool, &mut below, &native_pipeline)?;
    let compiled = compiled && machine.is_none_or(runs_here);
    for run in runs {
        let at = |what: &str| {
            let what = format!("{what} of @{}: ", run.function);
            move |why: String| what + &why
        };
        let wanted = execute(&above, run.function, run.inputs).map_err(at("level above"))?;
        let found = execute(&below, run.function, run.inputs).map_err(at("what is left"))?;
        same(&wanted.outputs, &found.outputs).map_err(at("what is left"))?;
        if compiled {
            let found = native(&below, run.function, run.inputs, true, 1).map_err(at("strict"))?;
            same(&wanted.outputs, &found).map_err(at("strict"))?;
            let found = native(&below, run.function, run.inputs, true, 3).map_err(at("threads"))?;
            same(&wanted.outputs, &found).map_err(at("threads"))?;
            let found = native(&below, run.function, run.inputs, false, 1).map_err(at("fast"))?;
            within(run.outputs, &found, |_| run.atol).map_err(at("fast"))?;
        }
    }
    Ok(())
}

/// Runs a program in a folder; gives what it prints.
fn done(folder: &Path, name: &str, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(name);
    command.current_dir(folder).args(arguments);
    let output = command.output();
    let output = output.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stderr).to_string();
    assert!(output.status.success(), "{command:?}: {text}");
    String::from_utf8_lossy(&output.stdout).to_string()
}

/// What this processor has not: no processor has both.
#[cfg(target_arch = "x86_64")]
fn lacking() -> &'static str {
    match std::arch::is_x86_feature_detected!("sse4a") {
        true => "avxvnniint16",
        false => "sse4a",
    }
}

/// Every machine file, and none.
fn machines() -> Vec<Option<PathBuf>> {
    let files = files("machines", "tir");
    files.into_iter().map(Some).chain([None]).collect()
}

#[test]
fn small_cases_run_as_native_code() {
    let tool = tir_opt::stock();
    tool.load();
    let (compiled, cases, machines) = (can_compile(), Case::all(), machines());
    assert!(cases.len() >= 320, "{}", cases.len());
    let only = std::env::var("TIR_CASE").ok();
    let wrong = cases.par_iter().enumerate().filter_map(|(number, case)| {
        let name = stem(&case.path);
        if only.as_ref().is_some_and(|only| *only != name) {
            return None;
        }
        let machine = &machines[number % machines.len()];
        // Without one, loops over whole tensors: for those whose machine is not there already.
        let both = [machine.as_ref(), None];
        let both = if machine.is_some() {
            &both[..]
        } else {
            &both[1..]
        };
        let done = case.load().and_then(|(module, runs)| {
            let runs: Vec<Run<'_>> = runs
                .iter()
                .map(|run| Run {
                    function: run.function,
                    inputs: &run.inputs,
                    outputs: &run.outputs,
                    atol: run.atol,
                })
                .collect();
            both.iter().try_for_each(|machine| {
                let machine = machine.map(PathBuf::as_path);
                check(&tool, &module, case.options, machine, &runs, compiled)
                    .map_err(|why| format!("for {machine:?}: {why}"))
            })
        });
        let line = format!("{name} {}", done.err()?);
        eprintln!("{line}");
        Some(line)
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Vectors of floats as integers of each size and sign.
const CASTS: &str = "
func.func @main(%x: memref<4x16xf32>, %a: memref<4x16xi8> {func.out}, %b: memref<4x16xui8> {func.out},
    %c: memref<4x16xi16> {func.out}, %d: memref<4x16xui16> {func.out}, %e: memref<4x16xi32> {func.out}) {
  %z = arith.constant 0 : index
  loop.for %i = 0 to 4 {
    %v = vector.load %x[%i, %z] : memref<4x16xf32>, vector<16xf32>
    %s = arith.fptosi %v : vector<16xf32> to vector<16xi8>
    %t = arith.fptoui %v : vector<16xf32> to vector<16xui8>
    %u = arith.fptosi %v : vector<16xf32> to vector<16xi16>
    %w = arith.fptoui %v : vector<16xf32> to vector<16xui16>
    %y = arith.fptosi %v : vector<16xf32> to vector<16xi32>
    vector.store %s, %a[%i, %z] : memref<4x16xi8>, vector<16xi8>
    vector.store %t, %b[%i, %z] : memref<4x16xui8>, vector<16xui8>
    vector.store %u, %c[%i, %z] : memref<4x16xi16>, vector<16xi16>
    vector.store %w, %d[%i, %z] : memref<4x16xui16>, vector<16xui16>
    vector.store %y, %e[%i, %z] : memref<4x16xi32>, vector<16xi32>
  }
  func.return
}
";

#[test]
fn casts_of_vectors_give_the_nearest_integer() {
    let tool = tir_opt::stock();
    tool.load();
    if !can_compile() {
        return;
    }
    let ends = [0, 127, 128, 255, 256, 32767, 32768, 65535, 65536];
    let near = [-1.0, -0.999, -0.5, 0.0, 0.5, 0.999, 1.0];
    let mut values: Vec<f32> = vec![
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        f32::MIN,
        f32::from_bits(1),
        i32::MAX as f32,
        i32::MIN as f32,
    ];
    let around = ends.iter().flat_map(|end| near.map(|by| *end as f32 + by));
    values.extend(around.flat_map(|value| [value, -value]));
    values.resize(values.len().next_multiple_of(64), 1e9);
    let module = tir::text::parse(CASTS, Name::new("casts.tir"), &Default::default());
    let module = module.expect("a program");
    for part in values.chunks(64) {
        let input = [Array::from_vec(&[4, 16], part.to_vec()).expect("an array")];
        let function = Name::new("main");
        let wanted = execute(&module, function, &input).expect("it runs");
        for strict in [true, false] {
            let found = native(&module, function, &input, strict, 1).expect("it runs");
            same(&wanted.outputs, &found).unwrap_or_else(|why| panic!("{why}"));
        }
    }
}

#[test]
fn random_programs_run_as_native_code() {
    let tool = tir_opt::stock();
    tool.load();
    let (compiled, machines) = (can_compile(), machines());
    let folder = root().join("test/e2e/machines");
    let integers = ["vta", "gemmini", "mcu"].map(|name| folder.join(format!("{name}.tir")));
    try_seeds("TIR_NATIVE_PROGRAMS", PROGRAMS, |seed| {
        let turn = seed as usize;
        let (program, machine) = match seed % 4 {
            0 => (
                Program::new(seed, 2 + turn % 7, true),
                machines[turn / 4 % machines.len()].clone(),
            ),
            1 => (
                Program::new(seed, 2 + turn % 7, true),
                Some(machine::write(seed, Numbers::Floats)),
            ),
            // Networks of integers, small ones.
            2 => (
                blocks::network(seed / 4 * 4 + 3, 1, true),
                Some(integers[turn / 4 % 3].clone()),
            ),
            _ => (
                blocks::network(seed / 4 * 4 + 1, 1 + turn / 4 % 2, true),
                Some(machine::write(seed, Numbers::Floats)),
            ),
        };
        let wrong = |program: &Program| {
            let (module, inputs, outputs) = match reference(&program.text(), program.arguments()) {
                Ok(made) => made,
                Err(why) => return Some(why),
            };
            let off = common::rounding(&program.text(), None, &inputs, &outputs);
            let run = Run {
                function: Name::new("main"),
                inputs: &inputs,
                outputs: &outputs,
                atol: off.unwrap_or(0.0).max(common::ATOL),
            };
            check(&tool, &module, "", machine.as_deref(), &[run], compiled).err()
        };
        wrong(&program)?;
        let program = program.shrunk(|p| wrong(p).is_some());
        let why = wrong(&program).unwrap_or_default();
        Some(format!("for {machine:?}: {why}\n{}", program.text()))
    });
}
