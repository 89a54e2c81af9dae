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
#[path = "../levels/machine.rs"]
mod machine;
#[path = "../fusion/program.rs"]
mod program;

use std::path::{Path, PathBuf};

use common::cases::{Case, execute, files, stem};
use common::{lower, reference, root, said, try_seeds, within};
use machine::Numbers;
use program::Program;
use rayon::prelude::*;
use tir::{Ir, Name};
use tir_data::{Array, DType};
use tir_levels::processors::{AVX2, AVX512, File, PORTABLE, host};
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

/// Every machine file, and none.
fn machines() -> Vec<Option<PathBuf>> {
    let files = files("machines", "tir").into_iter().map(Some);
    files.chain([None]).collect()
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

/// The assembly of a program for a machine file of a processor.
fn assembly(file: &File, text: &str) -> String {
    let [compiler, _] = programs().expect("was asked for");
    let machine = root().join("test/e2e/machines").join(file.file);
    let tool = tir_opt::stock();
    tool.load();
    let mut module =
        tir_text::parse(text, Name::new("program"), &Default::default()).expect("parses");
    let pipeline = format!("to-native{{machine={}}}", machine.display());
    lower(&tool, &mut module, &pipeline).expect("native level");
    let options = mlir::Options {
        strict: false,
        ..mlir::Options::default()
    };
    let made = mlir::export(&module, &options).expect("MLIR");
    let folder = std::env::temp_dir().join(format!("tir-code-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (input, output) = (folder.join("code.mlir"), folder.join("code.s"));
    std::fs::write(&input, made.text).expect("a file");
    let mut command = std::process::Command::new(compiler);
    command
        .args(["--emit", "asm", "-o"])
        .arg(&output)
        .arg(&input);
    let done = command.output().expect("starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let code = std::fs::read_to_string(&output).expect("a text");
    std::fs::remove_dir_all(&folder).expect("the folder");
    code
}

#[test]
#[cfg(target_arch = "x86_64")]
fn code_is_for_the_processor_of_the_machine_file() {
    if !can_compile() {
        return;
    }
    let text =
        "func.func @main(%x: tensor<56x64xf32>, %w: tensor<64x64xf32>) -> tensor<56x64xf32> {
      %y = graph.matmul %x, %w : (tensor<56x64xf32>, tensor<64x64xf32>) -> tensor<56x64xf32>
      func.return %y : tensor<56x64xf32>
    }";
    let uses = |code: &str, register: &str| code.contains(register);
    let code = assembly(&AVX512, text);
    assert!(uses(&code, "%zmm16"), "{code}");
    let code = assembly(&AVX2, text);
    assert!(uses(&code, "%ymm8") && uses(&code, "vfmadd"), "{code}");
    assert!(!uses(&code, "%zmm") && !uses(&code, "%ymm16"), "{code}");
    // For this processor, in vectors of 16 bytes.
    let code = assembly(&PORTABLE, text);
    let product = |line: &str| line.contains("fmadd") || line.contains("mulps");
    let mut products = code.lines().filter(|line| product(line)).peekable();
    assert!(products.peek().is_some(), "{code}");
    assert!(products.all(|line| line.contains("%xmm")), "{code}");
    let text = std::fs::read_to_string(root().join("test/e2e/machines").join(host().file));
    assert_eq!(text.expect("a machine file"), host().text);
}

/// What this processor has not: no processor has both.
#[cfg(target_arch = "x86_64")]
fn lacking() -> &'static str {
    match std::arch::is_x86_feature_detected!("sse4a") {
        true => "avxvnniint16",
        false => "sse4a",
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_library_for_more_than_this_processor_is_refused() {
    if !can_compile() {
        return;
    }
    tir_opt::stock().load();
    let run = |features: &str| {
        let text = PORTABLE.text.replace(
            "vector_bytes",
            &format!("target = \"x86-64\", {features}vector_bytes"),
        );
        assert_ne!(text, PORTABLE.text);
        let text = text
            + "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
          %y = graph.relu %x : tensor<8xf32>
          func.return %y : tensor<8xf32>
        }";
        let module = tir_text::parse(&text, Name::new("program"), &Default::default());
        let module = module.expect("parses");
        let input = Array::new(DType::F32, &[8], vec![0; 32].into()).expect("an array");
        native(&module, Name::new("main"), &[input], true, 1)
    };
    // Each processor of this kind.
    assert_eq!(run("").map(|all| all.len()), Ok(1));
    let why = run(&format!("features = \"+sse3,+{}\", ", lacking()));
    let wanted = format!(
        "is for a processor with {}, which this one has not",
        lacking()
    );
    assert!(
        why.clone().is_err_and(|why| why.contains(&wanted)),
        "{why:?}"
    );
    // The library could not ask.
    let why = run("features = \"+mwaitx\", ");
    let wanted = "a library cannot find out whether a processor has 'mwaitx'";
    assert!(
        why.clone().is_err_and(|why| why.contains(wanted)),
        "{why:?}"
    );
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

#[test]
#[cfg(target_arch = "x86_64")]
fn a_library_for_more_than_this_processor_is_made_and_not_run() {
    if !can_compile() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("tir-lesser-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let more = format!("target = \"x86-64\", features = \"+{}\", ", lacking());
    let machine = PORTABLE
        .text
        .replace("vector_bytes", &(more + "vector_bytes"));
    std::fs::write(folder.join("more.tir"), machine).expect("a file");
    let model = root().join("test/e2e/models/cnn.onnx");
    let model = model.display().to_string();
    let arguments = [
        "compile",
        &model,
        "--native",
        "--machine",
        "more.tir",
        "-o",
        ".",
    ];
    // What is kept says so again.
    for _ in 0..2 {
        let text = done(&folder, env!("CARGO_BIN_EXE_tir"), &arguments);
        let why = format!(
            "is for a processor with {}, which this one has not",
            lacking()
        );
        assert!(text.contains("not run: '") && text.contains(&why), "{text}");
        assert!(text.contains("library   ./cnn.so"), "{text}");
        for made in ["cnn.so", "cnn.h", "cnn.c", "cnn.bin"] {
            assert!(folder.join(made).is_file(), "{made}: {text}");
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// Runs tasks in C, the last one first.
const BACKWARDS: &str = "
static int tasks;
static void backwards(void *context, void (*function)(void *, int64_t), int64_t count, void *argument) {
  (void)context;
  for (int64_t k = count - 1; k >= 0; k--) { function(argument, k); tasks++; }
}
static const tir_threads threads = { 3, backwards, NULL };
static void *memory(";

#[test]
fn a_c_program_calls_a_library() {
    if !can_compile() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("tir-library-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let model = root().join("test/e2e/models/cnn.onnx");
    let file = |what: &str| model.with_extension(what).display().to_string();
    let (input, output) = (file("in_0.npy"), file("out_0.npy"));
    let compile = |more: &[&str]| {
        let all = ["compile", &file("onnx"), "--native", "-o", "."];
        let files = ["--input", &input, "--compare", &output];
        let all: Vec<&str> = all.iter().chain(&files).chain(more).copied().collect();
        done(&folder, env!("CARGO_BIN_EXE_tir"), &all)
    };
    let text = compile(&[]);
    assert!(text.contains("agrees") && text.contains("cnn.so"), "{text}");
    assert!(!text.contains("kept"), "{text}");
    let again = compile(&[]);
    assert!(
        again.contains("agrees") && again.contains("kept"),
        "{again}"
    );
    // What follows the table is the same but for the time.
    assert_eq!(text.split("library").last(), again.split("library").last());
    let strict = compile(&["--strict"]);
    assert!(!strict.contains("kept"), "{strict}");
    std::fs::write(folder.join("cnn.h"), "changed").expect("a file");
    let changed = compile(&["--strict"]);
    assert!(!changed.contains("kept"), "{changed}");
    let read = |path: &str| tir_data::npy::read(path.as_ref()).expect("an array");
    std::fs::write(folder.join("in"), read(&input).bytes()).expect("a file");
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let build = |source: &str, program: &str| {
        let warnings = ["-Wall", "-Wextra", "-Werror"];
        let rest = [source, "./cnn.so", "-o", program];
        let all: Vec<&str> = warnings.iter().chain(&rest).copied().collect();
        done(&folder, &cc, &all);
    };
    build("cnn.c", "cnn");
    done(&folder, "./cnn", &["cnn.bin", "in", "out"]);
    // The same with tasks of three threads.
    let source = std::fs::read_to_string(folder.join("cnn.c")).expect("the example");
    let source = source.replacen("static void *memory(", BACKWARDS, 1);
    let source = source.replace(", NULL);\n", ", &threads);\n  if (!tasks) return 1;\n");
    let source = source.replace(
        "(TIR_MAIN_ARENA)",
        "(TIR_MAIN_ARENA + 2 * TIR_MAIN_ARENA_THREAD)",
    );
    std::fs::write(folder.join("three.c"), source).expect("a file");
    build("three.c", "three");
    done(&folder, "./three", &["cnn.bin", "in", "shared"]);
    let bytes = |name: &str| std::fs::read(folder.join(name)).expect("a file");
    let (alone, shared) = (bytes("out"), bytes("shared"));
    #[cfg(target_arch = "x86_64")]
    {
        // The same for a processor that has more.
        tir_opt::stock().load();
        let text = std::fs::read_to_string(folder.join("native.tir")).expect("a text");
        let module = tir_text::parse(&text, Name::new("native"), &Default::default());
        let module = module.expect("a program");
        tir_io::load_blobs(&module, &folder).expect("constants");
        let made = mlir::export(&module, &mlir::Options::default()).expect("MLIR");
        std::fs::write(folder.join("more.mlir"), made.text).expect("a file");
        let [compiler, _] = programs().expect("was asked for");
        let features = format!("+{}", lacking());
        let more = ["more.mlir", "-o", "cnn.so", "--features", &features];
        done(&folder, &compiler.to_string_lossy(), &more);
        let mut example = std::process::Command::new("./cnn");
        let example = example.current_dir(&folder).args(["cnn.bin", "in", "out"]);
        let output = example.output().expect("starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let wanted = format!(
            "cnn is for a processor with {}, which this one has not\n",
            lacking()
        );
        assert_eq!(text, wanted);
    }
    std::fs::remove_dir_all(&folder).expect("the folder");
    assert!(alone == shared, "another result by three tasks");
    let wanted = read(&output);
    let found = Array::new(wanted.dtype(), wanted.shape(), alone.into()).expect("its size");
    let wrong = within(&[wanted], &[found], |_| common::ATOL);
    assert_eq!(wrong, Ok(()));
}

/// A program as MLIR.
fn exported(tool: &Tool, name: &str, options: &str) -> String {
    let model = root().join(format!("test/e2e/models/{name}.onnx"));
    let mut module = tir_translate::import_onnx(&model).unwrap_or_else(|e| panic!("{}", said(&e)));
    lower(tool, &mut module, &format!("to-native{{{options}}}")).unwrap_or_else(|e| panic!("{e}"));
    let made = tir_native::mlir::export(&module, &Default::default());
    made.unwrap_or_else(|e| panic!("{e:?}")).text
}

#[test]
fn libraries_do_not_depend_on_threads_and_keep_equal_parts() {
    if !can_compile() {
        return;
    }
    let tool = tir_opt::stock();
    tool.load();
    let [compiler, _] = programs().unwrap_or_else(|e| panic!("{}", said(&e)));
    let folder = std::env::temp_dir().join(format!("tir-parts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let make = |text: &str, cache: &str, jobs: &str| -> Vec<u8> {
        let (input, output) = (folder.join("x.mlir"), folder.join("x.so"));
        std::fs::write(&input, text).expect("a file");
        let mut command = std::process::Command::new(&compiler);
        command.arg(&input).arg("-o").arg(&output);
        command
            .args(["--jobs", jobs, "--cache"])
            .arg(folder.join(cache));
        let done = command.output().expect("tir-native starts");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        std::fs::read(&output).expect("a library")
    };
    let objects = |cache: &str| -> Vec<std::ffi::OsString> {
        let entries = std::fs::read_dir(folder.join(cache)).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names
            .filter(|n| n.to_string_lossy().ends_with(".o"))
            .collect();
        names.sort();
        names
    };
    let text = exported(&tool, "cnn", "parallel-work=0");
    let one = make(&text, "one", "1");
    assert!(
        one == make(&text, "three", "3"),
        "another library by three threads"
    );
    let before = objects("one");
    assert!(before.len() > 2, "{} parts", before.len());
    assert_eq!(before, objects("three"));
    // A number in the last function: all but its part are there.
    let at = text.rfind("value = 0.0 : f32").expect("a zero");
    let other = format!("{}value = 0.5 : f32{}", &text[..at], &text[at + 17..]);
    assert!(
        one != make(&other, "one", "2"),
        "the same library of another program"
    );
    let after = objects("one");
    assert!(
        before.iter().all(|name| after.contains(name)),
        "{before:?} {after:?}"
    );
    assert_eq!(after.len(), before.len() + 1);
    // Errors have the lines of the input.
    std::fs::write(
        folder.join("x.mlir"),
        text.replace("\"scf.yield\"", "\"scf.nothing\""),
    )
    .expect("a file");
    let mut command = std::process::Command::new(&compiler);
    let done = command
        .arg(folder.join("x.mlir"))
        .arg("-o")
        .arg(folder.join("y.so"))
        .output();
    let wrong = String::from_utf8_lossy(&done.expect("tir-native starts").stderr).to_string();
    std::fs::remove_dir_all(&folder).expect("the folder");
    assert!(
        wrong.contains("scf.nothing") && wrong.contains("x.mlir"),
        "{wrong}"
    );
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
