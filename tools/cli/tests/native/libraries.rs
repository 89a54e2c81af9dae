//! Libraries as others use them: from C, by threads, by parts.

use super::*;

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

#[test]
fn what_fails_leaves_nothing_half_made() {
    if !can_compile() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("tir-half-made-{}", std::process::id()));
    // A folder lies where the constants are to be.
    std::fs::create_dir_all(folder.join("micro.bin")).expect("a folder");
    let model = root().join("test/e2e/models/micro.onnx");
    let compile = || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tir"));
        let command = command.current_dir(&folder).arg("compile").arg(&model);
        command
            .args(["--native", "-o", "."])
            .output()
            .expect("starts")
    };
    let failed = compile();
    let why = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{why}");
    assert!(why.contains("micro.bin"), "{why}");
    let names = || {
        let all = std::fs::read_dir(&folder).expect("a folder");
        let names = all.map(|file| file.expect("a file").file_name());
        let names = names.map(|name| name.to_string_lossy().to_string());
        names.collect::<Vec<String>>()
    };
    let left = names();
    let half = |name: &&String| name.ends_with(".tmp") || name.ends_with(".key");
    assert_eq!(left.iter().find(half), None, "{left:?}");
    // Nothing of it is taken for what was made.
    std::fs::remove_dir(folder.join("micro.bin")).expect("the folder");
    let done = compile();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && !said.contains("kept"), "{said}");
    let made = names();
    assert!(made.contains(&"micro.bin".to_string()), "{made:?}");
    std::fs::remove_dir_all(&folder).expect("the folder");
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
