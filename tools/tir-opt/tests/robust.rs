//! Hostile input: the committed examples cut at many places and with many bytes flipped, and the
//! same for pipelines. Exit code 0, or 1 with a place; never a panic, never a hang.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tir_data::Random;
use tir_opt::Tool;

/// A debug build is some ten times slower.
const SLOW: usize = if cfg!(debug_assertions) { 10 } else { 1 };
const CUTS: usize = 1_000 / SLOW;
const FLIPS: usize = 10_000 / SLOW;
/// What means something in a text is more dangerous than any byte.
const SPECIAL: &[u8] = b"(){}[]<>%#@!^\"/,:=-+ \n0";
/// Longer examples are the business of a benchmark.
const LONGEST: usize = 16 << 10;

/// Programs for the case that the folder of tests has none.
const PROGRAMS: [&str; 2] = [
    r#"!t = tensor<2x?xf32>
#map = affine_map<(d0, d1)[s0] -> (d1 + s0, d0 floordiv 2)>
func.func @f(%a: i32, %x: !t) -> (i32, !t) attributes {note = "a\22b", map = #map} {
  %c = arith.constant 5 : i32 loc("x.py":3:4)
  %0 = arith.addi %a, %c {list = [1, 2.5e-3, @f, -7 : i8, unit, dense<[1, 2]> : tensor<2xi8>]} : i32
  %1 = arith.cmpi slt, %0, %c : i32
  cf.cond_br %1, ^a(%0 : i32), ^b
^a(%b: i32): // a comment
  func.return %b, %x : i32, !t
^b:
  func.return %c, %x : i32, !t
}
"#,
    r#""builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (f32) -> f32, sym_name = "g"}> ({
  ^bb0(%arg0: f32):
    %0 = "arith.mulf"(%arg0, %arg0) : (f32, f32) -> f32
    "func.return"(%0) : (f32) -> ()
  }) : () -> ()
}) : () -> ()
"#,
];

fn examples(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            examples(&path, found);
        } else if path.extension().is_some_and(|e| e == "tir") {
            found.push(path);
        }
    }
}

/// Runs the tool in this process; says what is wrong with how it ended.
fn wrong(tool: &Tool, args: &[&str], input: &[u8]) -> Option<String> {
    let args: Vec<OsString> = ["tir-opt"].iter().chain(args).map(OsString::from).collect();
    let start = Instant::now();
    let run = || tir_opt::run(tool, &args, &mut &input[..], false);
    let Ok(outcome) = catch_unwind(AssertUnwindSafe(run)) else {
        return Some("panics".into());
    };
    let time = start.elapsed();
    if time > Duration::from_secs(20) {
        return Some(format!("takes {time:?}"));
    }
    match outcome.code {
        0 => None,
        1 if outcome.stderr.contains("panicked") => Some(format!("panics:\n{}", outcome.stderr)),
        1 if outcome.stderr.contains("--> ") => None,
        1 => Some(format!(
            "gives an error without a place:\n{}",
            outcome.stderr
        )),
        code => Some(format!("ends with {code}:\n{}", outcome.stderr)),
    }
}

fn flip(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len());
        bytes[at] = match random.below(4) {
            0 => SPECIAL[random.below(SPECIAL.len())],
            1 => bytes[at] ^ 1 << random.below(8),
            2 => text[random.below(text.len())],
            _ => random.below(256) as u8,
        };
    }
    bytes
}

/// Cuts and flips of the texts, `CUTS` and `FLIPS` over all of them.
fn mutations(texts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut random = Random::new(1);
    let texts: Vec<&Vec<u8>> = texts.iter().filter(|text| !text.is_empty()).collect();
    let mut all = Vec::new();
    for k in 0..CUTS {
        let text = texts[k % texts.len()];
        all.push(text[..random.below(text.len())].to_vec());
    }
    for k in 0..FLIPS {
        all.push(flip(texts[k % texts.len()], &mut random));
    }
    all
}

fn check(inputs: &[Vec<u8>], run: impl Fn(&Tool, usize, &[u8]) -> Option<String> + Sync) {
    // A panic is reported once, by this test.
    std::panic::set_hook(Box::new(|_| {}));
    let failures: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (failures, run) = (&failures, &run);
            let work = move || {
                let tool = tir_opt::stock();
                for (k, input) in inputs.iter().enumerate().skip(thread).step_by(threads) {
                    if let Some(wrong) = run(&tool, k, input) {
                        let text = String::from_utf8_lossy(input);
                        let mut all = failures.lock().unwrap_or_else(|p| p.into_inner());
                        all.push(format!("=== input {k} {wrong}\n--- input\n{text}\n"));
                    }
                }
            };
            // As much stack as a main thread has.
            let builder = std::thread::Builder::new().stack_size(8 << 20);
            builder.spawn_scoped(scope, work).expect("a thread");
        }
    });
    let _ = std::panic::take_hook();
    let failures = failures.into_inner().unwrap_or_else(|p| p.into_inner());
    let shown: Vec<&str> = failures.iter().take(5).map(String::as_str).collect();
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        shown.join("\n")
    );
}

#[test]
fn programs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test");
    let mut paths = Vec::new();
    examples(&folder, &mut paths);
    let read = |path: &PathBuf| {
        std::fs::read(path)
            .ok()
            .filter(|text| text.len() <= LONGEST)
    };
    let mut texts: Vec<Vec<u8>> = paths.iter().filter_map(read).collect();
    texts.extend(PROGRAMS.iter().map(|text| text.as_bytes().to_vec()));
    check(&mutations(&texts), |tool, k, input| {
        let flags: &[&str] = match k % 4 {
            0 => &["--threads=1"],
            1 => &[
                "--threads=1",
                "--allow-unregistered-dialect",
                "--print-op-generic",
            ],
            2 => &["--threads=1", "--canonicalize", "--cse"],
            _ => &[
                "--threads=1",
                "--split-input-file",
                "--allow-unregistered-dialect",
            ],
        };
        wrong(tool, flags, input)
    });
}

#[test]
fn the_programs_are_good() {
    let tool = tir_opt::stock();
    for program in PROGRAMS {
        let args = ["tir-opt", "--verify-roundtrip"].map(OsString::from);
        let outcome = tir_opt::run(&tool, &args, &mut program.as_bytes(), false);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    }
}

#[test]
fn pipelines() {
    let texts = [
        "builtin.module(canonicalize{max-iterations=3 disable=[a,b]},func.func(cse,dce),symbol-dce)",
        "any(any(canonicalize{disable=\"x y\"})), func.func( cse{} , licm)",
        "canonicalize{max-rewrites=17},cse",
    ];
    let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let inputs = mutations(&texts);
    let program = PROGRAMS[1].as_bytes();
    check(&inputs, |tool, _, pipeline| {
        let text = String::from_utf8_lossy(pipeline);
        let flag = format!("--pass-pipeline={text}");
        wrong(tool, &["--threads=1", &flag], program)
    });
}

#[test]
fn machine_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/e2e/machines");
    let mut paths = Vec::new();
    examples(&folder, &mut paths);
    let texts: Vec<Vec<u8>> = paths
        .iter()
        .filter_map(|path| std::fs::read(path).ok())
        .collect();
    assert!(!texts.is_empty(), "no machine file in {}", folder.display());
    let temporary = std::env::temp_dir().join(format!("tir-opt-machines-{}", std::process::id()));
    std::fs::create_dir_all(&temporary).expect("a folder");
    let program = PROGRAMS[1].as_bytes();
    check(&mutations(&texts), |tool, k, machine| {
        let file = temporary.join(format!("{k}.tir"));
        std::fs::write(&file, machine).expect("a file");
        let flag = format!("--attach-machine=file={}", file.display());
        let wrong = wrong(tool, &["--threads=1", &flag], program);
        std::fs::remove_file(&file).expect("removed");
        wrong
    });
    std::fs::remove_dir_all(&temporary).expect("removed");
}
